"""An acknowledged charge is in the one file that people move, copy and link."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import struct
import subprocess
import sys
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pytest

from dpaudit.errors import BudgetExceeded
from dpaudit.ledger import LedgerUnavailable, book, open_ledger
from dpaudit.ledger.journal import JOURNAL_HEADER, JOURNAL_MAGIC
from tests.support.ledger import SCOPE, terms

pytest.importorskip("sqlalchemy")

MOST = (Fraction(2), Fraction(0))  # of an epsilon of 3
CHARGED_AND_KILLED = f"""
import os, signal, sqlite3, sys
from fractions import Fraction
from dpaudit.ledger import open_ledger
from dpaudit.accountant.filters.charges import Amounts
from tests.support.ledger import SCOPE

class Logs(sqlite3.Cursor):
    def execute(self, text, *more):
        if "journal_mode" in text:
            super().execute("PRAGMA journal_mode = WAL")
            text = "SELECT 'delete'"
        return super().execute(text, *more)

class Logged(sqlite3.Connection):
    def cursor(self, factory=None):
        return super().cursor(Logs)

connect = sqlite3.connect
if sys.argv[3] == "logged":
    sqlite3.connect = lambda *a, **k: connect(*a, factory=Logged, **k)
ledger = open_ledger(sys.argv[1])
cost = Amounts(map(Fraction, {[str(part) for part in MOST]}))
ledger.charge("people", "person", SCOPE, cost, sys.argv[2], sys.argv[2])
os.kill(os.getpid(), signal.SIGKILL)
"""


def charge(path: Path, title: str) -> None:
    open_ledger(path, wait=5).charge("people", "person", SCOPE, MOST, title, title)


def killed(path: Path, mode: str = "as it is") -> None:
    """A process charges, has its receipt, and is killed."""
    done = subprocess.run(
        [sys.executable, "-c", CHARGED_AND_KILLED, str(path), "first", mode], check=False
    )
    assert done.returncode == -signal.SIGKILL


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "a.sqlite"
    ledger = open_ledger(file)
    ledger.create("people", terms())
    ledger._engine.dispose()
    return file


HANDLED: dict[str, Callable[[Path, Path], object]] = {
    "renamed": Path.rename,
    "moved": shutil.move,
    "copied": shutil.copy,
    "linked symbolically": lambda old, new: new.symlink_to(old),
}


@pytest.mark.quality
@pytest.mark.first_case
@pytest.mark.parametrize("handle", HANDLED.values(), ids=HANDLED)
def test_a_charge_goes_where_the_file_goes(path: Path, handle, tmp_path: Path) -> None:
    killed(path)
    other = tmp_path / "b.sqlite"
    handle(path, other)
    assert open_ledger(other).verify("people").spent == MOST
    with pytest.raises(BudgetExceeded):
        charge(other, "second")


@pytest.mark.quality
def test_with_a_log_of_its_own_the_charge_stays_behind(path: Path, tmp_path: Path) -> None:
    """The journal mode is what the test above rests on."""
    killed(path, "logged")
    other = tmp_path / "b.sqlite"
    shutil.copy(path, other)
    assert open_ledger(other).state("people").spent == (0, 0)


@pytest.mark.quality
def test_a_ledger_with_a_log_is_turned_into_one_file_when_it_is_opened(path: Path) -> None:
    killed(path, "logged")
    assert Path(f"{path}-wal").stat().st_size
    assert open_ledger(path).state("people").spent == MOST
    assert {file.name for file in path.parent.iterdir()} - {"a.sqlite-queue"} == {"a.sqlite"}
    with sqlite3.connect(path) as plain:
        assert plain.execute("PRAGMA journal_mode").fetchone() == ("delete",)


def test_a_log_that_another_program_holds_open_is_not_charged_beside(path: Path) -> None:
    holder = sqlite3.connect(path)
    holder.execute("PRAGMA journal_mode = WAL")
    holder.execute("SELECT * FROM dpaudit_datasets").fetchall()
    with pytest.raises(LedgerUnavailable, match=r"another writer holds it.*Nothing was charged"):
        open_ledger(path, wait=0.1).charge("people", "person", SCOPE, MOST, "a", "a")
    holder.close()
    charge(path, "a")


def test_a_second_name_of_the_file_is_refused_under_both(path: Path, tmp_path, monkeypatch) -> None:
    other = tmp_path / "b.sqlite"
    os.link(path, other)
    for name in (path, other):
        for ask in (charge, lambda at, _: open_ledger(at).create("more", terms())):
            with pytest.raises(LedgerUnavailable, match=r"has 2 names \(hard links\)"):
                ask(name, "first")
    monkeypatch.setattr(book, "refuse_split", lambda path: None)
    charge(other, "second")
    monkeypatch.undo()
    other.unlink()
    assert open_ledger(path).state("people").spent == MOST


def journal_of(before: bytes, after: bytes) -> bytes:
    """The rollback journal that SQLite has beside ``after`` until it commits: pages of before."""
    size, nonce = int.from_bytes(before[16:18], "big"), 7
    numbers = [
        at // size + 1
        for at in range(0, len(before), size)
        if before[at : at + size] != after[at : at + size]
    ]
    content = JOURNAL_HEADER.pack(
        JOURNAL_MAGIC, len(numbers), nonce.to_bytes(4, "big"), len(before) // size, 512, size
    ).ljust(512, b"\0")
    for number in reversed(numbers):  # SQLite journals the first page last
        page = before[(number - 1) * size : number * size]
        check = (nonce + sum(page[at] for at in range(size - 200, 0, -200))) % 2**32
        content += struct.pack(">I", number) + page + struct.pack(">I", check)
    return content


@pytest.fixture
def interrupted(path: Path) -> Path:
    """A ledger that was killed while it committed, its journal beside it."""
    before = path.read_bytes()
    charge(path, "interrupted")
    Path(f"{path}-journal").write_bytes(journal_of(before, path.read_bytes()))
    return path


def test_a_charge_that_was_not_committed_is_taken_back_as_before(interrupted: Path) -> None:
    """The journal of these tests is one that SQLite follows."""
    assert open_ledger(interrupted).verify("people").spent == (0, 0)
    charge(interrupted, "first")


def test_a_journal_left_behind_takes_no_later_charge_back(
    interrupted: Path, tmp_path: Path, monkeypatch
) -> None:
    """Moved without its journal, charged, and moved back."""
    away = tmp_path / "b.sqlite"
    interrupted.rename(away)
    open_ledger(away).finish("people", "interrupted", {})
    away.rename(interrupted)
    for ask in (open_ledger(interrupted).names, lambda: charge(interrupted, "second")):
        with pytest.raises(LedgerUnavailable, match=r"another state of the ledger.*--head"):
            ask()
    monkeypatch.setattr(book, "refuse_split", lambda path: None)
    assert open_ledger(interrupted).verify("people").spent == (0, 0)  # the charge was lost


def test_a_log_left_behind_is_refused_too(path: Path) -> None:
    Path(f"{path}-wal").write_bytes(b"x" * 4096)
    with pytest.raises(LedgerUnavailable, match=r"a\.sqlite-wal: it is of another state"):
        charge(path, "first")


def test_reading_a_header_leaves_the_locks_of_this_process(interrupted: Path) -> None:
    """Closing a handle would drop them (fcntl locks are of a process and a file)."""
    from dpaudit.ledger.journal import refuse_split

    journal = Path(f"{interrupted}-journal")
    content = journal.read_bytes()
    journal.unlink()
    holder = sqlite3.connect(interrupted, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    journal.write_bytes(content)
    refuse_split(interrupted)
    journal.unlink()
    other = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sqlite3, sys; c = sqlite3.connect(sys.argv[1], timeout=0);"
            "c.execute('BEGIN IMMEDIATE')",
            str(interrupted),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "database is locked" in other.stderr
    holder.close()
