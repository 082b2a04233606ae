"""Every reader reads the file of exactly the name that it is given, and writers write it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pytest

from dpaudit.curator.files import read_records
from dpaudit.errors import InvalidParameter
from dpaudit.storage.data import open_data
from dpaudit.tabular import ROWS, Number, Schema, Table, Term, Total, source

pa = pytest.importorskip("pyarrow")
pytest.importorskip("duckdb")
import pyarrow.csv  # noqa: E402
import pyarrow.parquet  # noqa: E402

SCHEMA = Schema("t", {"x": Number(0, 1000), "y": Number(0, 1000)})
TRUE, DECOY = 7, 900  # the sums of x in the file that is named, and in any other
# Names, each with one that the name, read as a pattern or an address, would match or stand for.
NAMES = {
    "people[1]": "people1",
    "people[0-9]": "people5",
    "[!a]": "b",
    "people*": "people2",
    "**": "sub",
    "?": "z",
    "a?b*[c]": "axbyc",
    "{a,b}": "a",
    "~": "home",
    "~root": "root",
    "$HOME": "home",
    "${HOME}": "home",
    "%HOME%": "home",
    "it's": "its",
    'say "x"': "say x",
    "'; DROP VIEW x; --": "x",
    "a\\b": "ab",
    "\\[a]": "a",
    "a;b": "b",
    "a&b|c": "c",
    "<a>": "a",
    "(a)": "a",
    "!a": "a",
    "a#b": "a",
    "a%20b": "a b",
    "%5B1%5D": "[1]",
    " a b ": "a b",
    "a\nb": "a",
    "a\tb": "a b",
    "-o": "o",
    "--help": "help",
    "naïve-ü-表-😀": "naive",
    "file:a": "a",
    "s3:a": "a",
    "http:a": "a",
    "memory:": "memory",
    "x=5": "x",
    "a.gz": "a",
    "a=1&b=2": "a",
    ":a:": "a",
    "`id`": "id",
    "^a$": "a",
}


def csv(path: Path, total: int) -> None:
    path.write_text(f"x,y\n{total},1\n")


def parquet(path: Path, total: int) -> None:
    with path.open("wb") as stream:
        pyarrow.parquet.write_table(pa.table({"x": [total], "y": [1]}), stream)


def npy(path: Path, total: int) -> None:
    with path.open("wb") as stream:
        np.save(stream, np.array([[total, 1.0]]))


def npz(path: Path, total: int) -> None:
    with path.open("wb") as stream:
        np.savez(stream, rows=np.array([[total, 1.0]]))


KINDS: dict[str, Callable[[Path, int], None]] = {
    ".csv": csv,
    ".parquet": parquet,
    ".npy": npy,
    ".npz": npz,
}


def by_table(path: Path) -> float:
    terms = (ROWS, Term((("x", 1, 0),)))
    opened = Table(SCHEMA, path).opened("key")
    ((rows, total),) = opened.totals([Total("t", terms)])
    assert rows == (1,)
    return total[0]


def by_records(path: Path) -> float:
    records = read_records(path)
    assert records.values.shape == (1, 2)
    return float(records.values[0, 0])


READERS = [
    *((by_table, kind) for kind in (".csv", ".parquet")),
    *((by_records, kind) for kind in KINDS),
]


def beside(folder: Path, name: str, other: str, kind: str) -> Path:
    """The named file, and beside it the one that its name would match."""
    folder.mkdir(parents=True, exist_ok=True)
    decoy, path = folder / f"{other}{kind}", folder / f"{name}{kind}"
    KINDS[kind](decoy, DECOY)
    KINDS[kind](path, TRUE)
    return path


@pytest.mark.long_cases("by_table-.csv", "by_table-.parquet")
@pytest.mark.parametrize(("reader", "kind"), READERS)
def test_the_file_of_exactly_that_name_is_read(
    reader: Callable[[Path], float], kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a folder of that name too: one called x=5 is no column x."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    for name, other in NAMES.items():
        for folder in (Path(name), Path(other), Path("home") / name):
            path = beside(folder, name, other, kind)
            KINDS[kind](path, TRUE if folder == Path(name) else DECOY)
        assert reader(Path(name) / f"{name}{kind}") == TRUE, name


@pytest.mark.parametrize(("reader", "kind"), READERS)
def test_a_name_without_a_file_is_refused_whatever_it_would_match(
    reader: Callable[[Path], float], kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, other in NAMES.items():
        beside(tmp_path, name, other, kind).unlink()
        with pytest.raises(InvalidParameter, match="No such file"):
            reader(Path(f"{name}{kind}"))


def own_name(stream: BinaryIO) -> str:
    return str(Path(f"/dev/fd/{stream.fileno()}").readlink())


def test_a_name_that_a_library_gets_itself_reads_another_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What opening files ourselves is for: with their names in its place the tests above fail."""
    monkeypatch.setattr(source, "name_of", own_name)
    path = beside(tmp_path, "people[1]", "people1", ".csv")
    assert by_table(path) == DECOY


@pytest.mark.parametrize("kind", [".csv", ".parquet"])
def test_what_takes_a_file_s_place_after_it_was_checked_is_not_read(
    kind: str, tmp_path: Path
) -> None:
    path, other = tmp_path / f"a{kind}", tmp_path / f"b{kind}"
    KINDS[kind](path, TRUE)
    KINDS[kind](other, DECOY)
    opened = Table(SCHEMA, path).opened("key")
    opened.check()
    other.replace(path)
    assert opened.totals([Total("t", (Term((("x", 1, 0),)),))]) == [[(TRUE,)]]


def test_a_file_is_closed_with_its_table(tmp_path: Path) -> None:
    csv(tmp_path / "a.csv", TRUE)
    before = len(list(Path("/dev/fd").iterdir()))
    for _ in range(3):
        by_table(tmp_path / "a.csv")
    assert len(list(Path("/dev/fd").iterdir())) == before


def test_what_is_no_regular_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.csv")
    (tmp_path / "folder.csv").mkdir()
    for name in ("pipe.csv", "folder.csv"):
        for reader in (by_table, by_records, open_data):
            found: Any = reader
            # A table may be a folder of files; this one has none.
            said = "0 files" if (name, reader) == ("folder.csv", by_table) else "not a regular"
            with pytest.raises(InvalidParameter, match=f"{name}: {said}"):
                found(tmp_path / name)
