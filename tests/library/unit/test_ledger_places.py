"""However a SQLite ledger is named, one file is checked, queued for and synchronised."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from dpaudit.ledger import LedgerUnavailable, NoLedger, book, open_ledger
from dpaudit.releases.plan import release_of
from tests.support.ledger import COST, SCOPE, terms

pytest.importorskip("sqlalchemy")

NAMES: dict[str, Callable[[Path], str]] = {
    "a path": str,
    "a URL": lambda path: f"sqlite:///{path}",
    "a URL with a driver": lambda path: f"sqlite+pysqlite:///{path}",
    "a URL with a wait": lambda path: f"sqlite:///{path}?timeout=30",
    "a relative path": lambda path: os.path.relpath(path),
    "a relative URL": lambda path: f"sqlite:///{os.path.relpath(path)}?timeout=1.5",
}


@pytest.fixture(autouse=True)
def inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def charge(place: str, title: str = "a") -> None:
    open_ledger(place).charge("people", "person", SCOPE, COST, title, title)


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_sqlite_synchronises_each_commit_however_the_file_is_named(name, tmp_path) -> None:
    """The file, its journal, and the folder once that is deleted: EXTRA, which is 3."""
    path = tmp_path / "ledger.sqlite"
    ledger = open_ledger(name(path))
    ledger.create("people", terms())
    with ledger._engine.connect() as connection:
        names = ("synchronous", "journal_mode", "cache_spill")
        settings = [connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in names]
    assert settings == [3, "delete", 0]
    assert ledger.place == str(path)


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_a_ledger_that_is_missing_is_not_made_by_asking(name, tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    ledger = open_ledger(name(path))
    for ask in (ledger.names, lambda: ledger.state("people"), lambda: charge(name(path))):
        with pytest.raises(NoLedger, match="no ledger is there"):
            ask()
    assert not path.exists()


def test_a_ledger_that_goes_while_it_is_asked_is_not_made_either(tmp_path, monkeypatch) -> None:
    """SQLite itself is told to make nothing; the check before is for the words."""
    monkeypatch.setattr(book.Ledger, "_exists", lambda self: None)
    ledger = open_ledger(tmp_path / "ledger.sqlite")
    with pytest.raises(LedgerUnavailable, match="unable to open"):
        ledger.names()
    assert not list(tmp_path.iterdir())


def test_an_empty_file_is_no_ledger(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    path.touch()
    with pytest.raises(NoLedger, match="no ledger is there"):
        open_ledger(path).names()
    open_ledger(path).create("people", terms())
    assert open_ledger(path).names() == ["people"]


def test_another_database_is_no_ledger(tmp_path: Path) -> None:
    path = tmp_path / "other.sqlite"
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE something (a)")
    (tmp_path / "text").write_text("no database, but long enough to be read as the head of one" * 9)
    for place in (path, tmp_path / "text"):
        with pytest.raises(LedgerUnavailable, match="this is no ledger"):
            open_ledger(place).names()


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("sqlite://", "a ledger is a file on disk"),
        ("sqlite:///:memory:", "a ledger is a file on disk"),
        ("sqlite:///file:ledger.sqlite?uri=true", "a ledger is a file on disk"),
        ("sqlite:///file:x?mode=memory&uri=true", "a ledger is a file on disk"),
        ("sqlite+aiosqlite:///ledger.sqlite", "a ledger is a file on disk"),
        ("sqlite://host/ledger.sqlite", "a ledger is a file on disk"),
        ("sqlite:///ledger.sqlite?nolock=1", "takes no option nolock"),
        ("sqlite:///ledger.sqlite?isolation_level=EXCLUSIVE", "takes no option isolation_level"),
        ("sqlite:///ledger.sqlite?vfs=unix-none&timeout=3", "takes no option vfs"),
        ("sqlite:///ledger.sqlite?timeout=-1", "takes no option timeout"),
        ("sqlite:///ledger.sqlite?timeout=1e99999999", "timeout"),
        ("sqlite:///ledger.sqlite?timeout=x", "timeout"),
        ("nosuch://host/name", "expected a file, or a URL"),
        ("://", "expected a file, or a URL"),
    ],
)
def test_what_names_no_file_and_no_server_is_refused(place: str, said: str, tmp_path) -> None:
    with pytest.raises(Exception, match=said) as raised:
        open_ledger(place).names()
    assert type(raised.value).__module__.startswith("dpaudit")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["a?b.sqlite", "a#b.sqlite", "a%20b", "a b", "ä;&|$'x", "[a]*"])
def test_a_path_is_a_path_whatever_is_in_it(name: str, tmp_path: Path) -> None:
    open_ledger(tmp_path / name).create("people", terms())
    charge(str(tmp_path / name))
    assert open_ledger(name).state("people").count == 1
    assert {path.name.removeprefix(name) for path in tmp_path.iterdir()} == {"", "-queue"}


def test_a_folder_that_cannot_be_written_says_so(tmp_path: Path, monkeypatch) -> None:
    path = tmp_path / "ledger.sqlite"
    ledger = open_ledger(path)
    ledger.create("people", terms())
    system = os.open

    def refusing(name: object, flags: int, mode: int = 0o777) -> int:
        if str(name).endswith("-queue"):
            raise PermissionError(13, "Permission denied")
        return system(name, flags, mode)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "open", refusing)
    with pytest.raises(LedgerUnavailable, match=r"Permission denied.*Nothing was charged"):
        charge(str(path))


@pytest.mark.parametrize("place", ["", " ", 3])
def test_a_plans_ledger_is_a_place(place: object) -> None:
    table = {"title": "x", "adjacency": "add_remove", "budget": {}, "table": {}, "items": []}
    with pytest.raises(Exception, match=r"plan\.ledger: expected a file"):
        release_of({**table, "ledger": place})
