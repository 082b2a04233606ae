"""No reader's message holds a cell of a file, nor its first line where names are missing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from dpaudit.cli.main import main
from dpaudit.curator.files import read_records
from dpaudit.errors import DpauditError
from dpaudit.tabular import ROWS, Category, Number, Schema, Table, Total
from dpaudit.tabular.columns import read_columns

pytest.importorskip("pyarrow")
pytest.importorskip("duckdb")
SECRETS = ("ann@example.org", "bob@example.org", "41.25", "52.75", "Harbour Street")
RECORDS = (
    'ann@example.org,41.25,"Harbour Street 5"\n'
    'bob@example.org,52.75,"Harbour Street 7"\n'
    'bob@example.org,52.75,"Harbour Street 7"\n'
)
FILES = {
    "no line of names": RECORDS,
    "semicolons": RECORDS.replace(",", ";"),
    "tabs": RECORDS.replace(",", "\t"),
    "texts where numbers are expected": f"age,key,name\n{RECORDS}",
    "a row too long": f"who,age\n{RECORDS}",
    "a quote that is not closed": f'who,age,street\n{RECORDS}"ann@example.org',
    "a quote inside": f'who,age,street\n{RECORDS}ann@example.org "x",41.25,"Harbour Street" 9\n',
    "one record": RECORDS.split("\n", maxsplit=1)[0],
    "a key twice": f"{RECORDS.splitlines()[0]},ann@example.org\n1,2,3,4\n",
    "no UTF-8": "",
}


def by_table(path: Path) -> None:
    columns = {"age": Number(0, 9), "key": Category(("a", "b"))}
    opened = Table(Schema("people", columns), path).opened("k")
    opened.check()
    opened.totals([Total("t", (ROWS,), ("key",))])


def by_command(*arguments: str) -> Callable[[Path], None]:
    def run(path: Path) -> None:
        given = [str(path) if one == "FILE" else one for one in arguments]
        found = CliRunner().invoke(main, given)
        if found.exit_code:
            raise DpauditError(found.output)

    return run


def needed(path: Path) -> None:
    read_columns(path).need("age", "--score")


def scores(path: Path) -> None:
    """The same file stands for both sides, under another name."""
    other = path.with_name(f"other{path.suffix}")
    other.write_bytes(path.read_bytes())
    by_command("audit", "--scores", str(path), str(other))(path)


READERS: dict[str, Callable[[Path], Any]] = {
    "table": by_table,
    "records": read_records,
    "records by label": lambda path: read_records(path, label="age"),
    "records by unit": lambda path: read_records(path, unit="age", rows=2),
    "columns": lambda path: read_columns(path).only(None, "--score"),
    "a column": needed,
    "scores": scores,
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("content", FILES)
def test_a_message_holds_nothing_of_the_file(content: str, reader: str, tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_bytes(FILES[content].encode() or b"age,key\nann@example.org,\xff\n")
    told = ""
    try:
        READERS[reader](path)
    except DpauditError as error:
        told = str(error)
    # One column of this file is numbers, which some readers take.
    assert told or content == "texts where numbers are expected"
    assert not [secret for secret in SECRETS if secret in told], told


def test_a_reader_that_lists_the_first_line_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a first line that is taken for names in any case."""
    monkeypatch.setattr("dpaudit.tabular.columns.Columns.is_told", lambda *_: True)
    path = tmp_path / "people.csv"
    path.write_text("ann@example.org,Harbour Street\nbob@example.org,x\n")
    with pytest.raises(DpauditError, match="ann@example"):
        read_columns(path).need("age", "--score")
