"""The privacy ledger: budgets of data sets, charged by releases, in SQLite or PostgreSQL."""

from __future__ import annotations

from dpaudit.ledger.book import (
    Entry,
    Ledger,
    LedgerBroken,
    LedgerRefused,
    LedgerUnavailable,
    NoAccount,
    NoLedger,
    Receipt,
    State,
    open_ledger,
)
from dpaudit.ledger.terms import Terms, terms_of

__all__ = [
    "Entry",
    "Ledger",
    "LedgerBroken",
    "LedgerRefused",
    "LedgerUnavailable",
    "NoAccount",
    "NoLedger",
    "Receipt",
    "State",
    "Terms",
    "open_ledger",
    "terms_of",
]
