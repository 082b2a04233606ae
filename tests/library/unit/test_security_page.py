"""What SECURITY.md says of the ledger: which changes show, and which one does not."""

from __future__ import annotations

import re
import sqlite3
from fractions import Fraction
from pathlib import Path

import pytest

from dpaudit.ledger.book import LedgerBroken, open_ledger
from tests.support.ledger import SCOPE, terms

pytest.importorskip("sqlalchemy")
PAGE = Path(__file__).parents[3] / "SECURITY.md"


def test_an_older_copy_of_a_ledger_shows_against_a_kept_head_alone(tmp_path: Path) -> None:
    place, older = tmp_path / "ledger.sqlite", tmp_path / "older.sqlite"
    open_ledger(place).create("people", terms(1))
    with sqlite3.connect(place) as source, sqlite3.connect(older) as copy:
        source.backup(copy)
    cost = (Fraction(1, 10), Fraction(0))
    head = open_ledger(place).charge("people", "person", SCOPE, cost, "a", "a", None).head
    assert open_ledger(older).verify("people").spent == (0, 0)
    with pytest.raises(LedgerBroken, match="entries are missing"):
        open_ledger(older).verify("people", head)


def test_the_page_has_a_row_for_each_command_of_the_model() -> None:
    rows = set(re.findall(r"^\| [^|]*?`(\w+)", PAGE.read_text("utf-8"), re.MULTILINE))
    assert {"certify", "run", "release", "verify", "ledger", "sign", "report"} <= rows
