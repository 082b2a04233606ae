"""The privacy ledger: budgets of data sets, charged by releases, in SQLite or PostgreSQL."""

from __future__ import annotations

from dpaudit.ledger.book import (
    Costs,
    Entry,
    Ledger,
    LedgerBroken,
    LedgerRefused,
    LedgerUnavailable,
    NoAccount,
    NoLedger,
    Publication,
    Receipt,
    State,
    open_ledger,
)
from dpaudit.ledger.terms import Terms, terms_of

__all__ = [
    "Costs",
    "Entry",
    "Ledger",
    "LedgerBroken",
    "LedgerRefused",
    "LedgerUnavailable",
    "NoAccount",
    "NoLedger",
    "Publication",
    "Receipt",
    "State",
    "Terms",
    "open_ledger",
    "terms_of",
]
