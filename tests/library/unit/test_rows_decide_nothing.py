"""No row of a table decides how the others are read, and no message holds a cell of a frame."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dpaudit.errors import DpauditError, InvalidParameter
from dpaudit.tabular import ROWS, Category, Number, Schema, Table, Total, source
from dpaudit.tabular.columns import frame_columns

pd = pytest.importorskip("pandas")
pytest.importorskip("duckdb")

SCHEMA = Schema(
    "people", {"tag": Category(("a", "b"), missing="drop")}, unit="person", entity="person", rows=1
)
NUMBERS = Schema("people", {"age": Number(0, 100)}, unit="person", entity="person", rows=1)
SECRET = "Zq7Secret"  # noqa: S105
# Beginnings of a name that some reader of CSV takes for more than text.
BEGINNINGS = (
    "#",
    "//",
    ";",
    "'",
    "`",
    "\\",
    "--",
    "%",
    "@",
    "!",
    "NULL",
    "NA",
    "\ufeff",
    "-",
    "1e",
)


def count(path: Path) -> int:
    opened = Table(SCHEMA, path).opened("key")
    opened.check()
    (((number,),),) = opened.totals([Total("n", (ROWS,))])
    return int(number)


def written(path: Path, lines: list[str], end: str = "\n") -> Path:
    path.write_bytes(end.join(["person,tag", *lines, ""]).encode())
    return path


@pytest.mark.first_case
@pytest.mark.parametrize("beginning", BEGINNINGS)
@pytest.mark.parametrize("row", ["1,a", "#1,a", '"x\ny",b', "'1',a", '"a ""b""",a', "1,", "#,b"])
def test_one_row_more_moves_a_count_by_one(beginning: str, row: str, tmp_path: Path) -> None:
    lines = [f"{beginning}{k},a" for k in range(40)]
    without = count(written(tmp_path / "without.csv", lines))
    assert without == 40
    assert count(written(tmp_path / "with.csv", [*lines, row])) - without in (0, 1)


def test_a_row_that_decides_for_the_others_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the comment character that DuckDB guesses where one unit is written without a ``#``."""
    guessed = source.DIALECT.replace("comment = ''", "comment = '#'")
    lines = [f"#{k},a" for k in range(40)]
    path = written(tmp_path / "people.csv", [*lines, "1,a"])
    assert count(path) == 41
    monkeypatch.setattr(source, "DIALECT", guessed)
    assert count(path) == 1


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_lines_end_as_the_first_does(end: str, tmp_path: Path) -> None:
    assert count(written(tmp_path / "people.csv", ["1,a", "2,b"], end)) == 2


def test_blanks_around_a_unit_are_none_of_its_name(tmp_path: Path) -> None:
    lines = ["ann,a", "ann ,a", " ann,a", "\u00a0ann,a"]
    assert count(written(tmp_path / "people.csv", lines)) == 1


def test_digits_with_an_underscore_are_no_number(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_text("person,age\n1,1_5\n")
    with pytest.raises(DpauditError, match="holds text where numbers are declared"):
        Table(NUMBERS, path).opened("key").check()


def test_two_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    text, parquet = tmp_path / "people.csv", tmp_path / "people.parquet"
    text.write_text("person,age,age\n1,30,99\n")
    pq.write_table(pa.table([[1], [30], [99]], names=["person", "age", "age"]), parquet)
    for path in (text, parquet):
        with pytest.raises(InvalidParameter, match="columns 2 and 3 have the same name"):
            Table(NUMBERS, path).opened("key")


class Held:
    """A cell that shows a secret to whoever prints it."""

    def __repr__(self) -> str:
        return SECRET


def lazy() -> Any:
    pl = pytest.importorskip("polars")
    frame = pl.LazyFrame({"age": ["1", SECRET], "person": [1, 2]})
    return frame.with_columns(pl.col("age").cast(pl.Int64))


def relation() -> Any:
    import duckdb

    held = pd.DataFrame({"age": ["1", SECRET], "person": [1, 2]})
    return duckdb.from_df(held).project("CAST(age AS INT) AS age, person")


def dask() -> Any:
    dd = pytest.importorskip("dask.dataframe")
    held = pd.DataFrame({"age": pd.Series([1, SECRET], dtype=object), "person": [1, 2]})
    return dd.from_pandas(held, npartitions=1)


FRAMES: dict[str, Callable[[], Any]] = {
    "mixed": lambda: pd.DataFrame({"age": [1, SECRET], "person": [1, 2]}),
    "nested": lambda: pd.DataFrame({"age": [{"k": 1}, SECRET], "person": [1, 2]}),
    "objects": lambda: pd.DataFrame({"age": [Held(), 2], "person": [1, 2]}),
    "mixed units": lambda: pd.DataFrame({"age": [1, 2], "person": [1, SECRET]}),
    "lazy": lazy,
    "relation": relation,
    "dask": dask,
}


@pytest.mark.parametrize("kind", FRAMES)
@pytest.mark.parametrize("reader", ["release", "columns"])
def test_a_frame_that_cannot_be_read_tells_no_cell(kind: str, reader: str) -> None:
    try:
        if reader == "release":
            Table(NUMBERS, FRAMES[kind]()).opened("key").check()
        else:
            table = frame_columns(FRAMES[kind]())
            _ = [table.numbers(name) for name in table]
    except DpauditError as error:
        assert SECRET not in str(error)  # noqa: PT017
        assert error.__suppress_context__ or error.__context__ is None  # noqa: PT017
