"""Tables as they come: missing-value codes, encodings, packed files, and what was changed."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path
from typing import Any

import pytest

from dpaudit.errors import InvalidParameter
from dpaudit.storage import data as files
from dpaudit.tabular import (
    ROWS,
    Category,
    DataRefused,
    Number,
    Schema,
    Table,
    Term,
    Text,
    Total,
    engine,
    schema_of,
)
from dpaudit.tabular.columns import read_columns
from tests.support.tables import FILES, FRAMES, Cells

pytest.importorskip("duckdb")

SOURCES = {**{k: FILES[k] for k in ("csv", "semicolons", "parquet")}, **FRAMES}
COUNT = Total("n", (ROWS,))


def given(kind: str, table: Cells, stem: Path) -> Any:
    return FILES[kind](table, stem) if kind in FILES else FRAMES[kind](table)


def sum_of(column: Number, data: Any) -> tuple[int, int]:
    """The sum in steps, and how many rows have a value."""
    total = Total("s", (Term((("x", 1, 0),)), ROWS), needed=("x",))
    opened = Table(Schema("t", {"x": column}), data).opened("key")
    opened.check()
    ((sums,), (rows,)) = opened.totals([total])[0]
    return sums, rows


INCOME: dict[str, tuple[list[Any], list[Any], int]] = {
    # Codes, cells, and the sum of the two cells that are no codes.
    "whole numbers": ([-99, 999], [5, -99, 7, 999], 12),
    "floats": ([-99, "999.0"], [5.0, -99.0, 7.0, 999.0], 12),
    "texts": ([-99, "n/a"], ["5", "-99.0", "7 ", " n/a"], 12),
}


def test_decimal_commas_are_read_where_they_are_declared(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("x\n1,5\n-99\n2,25\n7\n".replace("x\n", "a;x\n").replace("\n", "\n0;")[:-2])
    column = Number(0, 10, "0.25", "drop", missing_codes=(-99,), decimal=",")
    assert sum_of(column, path) == (43, 3)
    with pytest.raises(
        DataRefused, match=r"text where numbers are declared in 2 rows .*line 2\).*decimal"
    ):
        sum_of(Number(0, 10, "0.25", "drop", missing_codes=(-99,)), path)
    path.write_text("a;x\n0;1.234,5\n0;1.5\n")  # a point groups thousands, or is a mistake
    with pytest.raises(DataRefused, match="text where numbers are declared in 2 rows"):
        sum_of(column, path)
    assert column.row()["decimal"] == ","


@pytest.mark.first_case("cells")
@pytest.mark.parametrize("kind", SOURCES)
@pytest.mark.parametrize("cells", INCOME)
def test_a_missing_code_is_no_number_in_any_format(kind: str, cells: str, tmp_path: Path) -> None:
    codes, values, truth = INCOME[cells]
    data = given(kind, {"x": values}, tmp_path / "t")
    column = Number(0, 1000, missing="drop", missing_codes=codes)
    assert sum_of(column, data) == (truth, 2)
    with pytest.raises(DataRefused, match="column 'x' has no value in 2 rows"):
        sum_of(Number(0, 1000, missing_codes=codes), data)


def test_a_code_that_is_not_declared_would_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = given("csv", {"x": [5, -99, 7, 999]}, tmp_path / "t")
    column = Number(0, 1000, missing="drop", missing_codes=(-99, 999))
    monkeypatch.setattr(engine, "_without_codes", lambda column, value, named, kind: named)
    assert sum_of(column, data) == (5 + 0 + 7 + 999, 4)


@pytest.mark.first_case
@pytest.mark.parametrize("kind", SOURCES)
def test_missing_codes_of_keys_and_texts(kind: str, tmp_path: Path) -> None:
    data = given(kind, {"x": ["f", "Unknown", "m", "9 "]}, tmp_path / "t")
    codes = ("Unknown", 9)
    keys = Schema("t", {"x": Category(("f", "m"), "count", missing_codes=codes)})
    texts = Schema("t", {"x": Text("drop", missing_codes=codes)})
    by = Total("n", (ROWS,), ("x",))
    assert Table(keys, data).opened("key").totals([by])[0] == [(1, 1, 2)]
    assert Table(texts, data).opened("key").totals([by])[0] == [{"f": 1, "m": 1}]


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Category(("1", "2"), missing_codes=["1.0"]), "1 is a key"),
        (lambda: Number(0, 1, missing_codes="-99"), "expected a list"),
        (lambda: Number(0, 1, missing_codes=[True]), "neither a number nor a text"),
        (lambda: Text(missing_codes=[" "]), "always missing"),
        (lambda: Schema("t", {"x": Text()}, encoding="klingon"), "no encoding of text"),
        (lambda: Schema("t", {"x": Text()}, encoding="base64"), "no encoding of text"),
    ],
)
def test_codes_and_encodings_that_mean_nothing_are_refused(make: Any, said: str) -> None:
    with pytest.raises(InvalidParameter, match=said):
        make()


def towns(encoding: str) -> Schema:
    columns = {"town": {"kind": "text", "missing_codes": ["k. A."]}}
    return schema_of({"name": "t", "columns": columns, "encoding": encoding})


CONTENT = "town\nKöln\nk. A.\nZürich\nKöln\n"


@pytest.mark.first_case
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp1252", "utf-16", "cp500"])
def test_a_file_in_its_declared_encoding(encoding: str, packed: bool, tmp_path: Path) -> None:
    content = CONTENT.encode(encoding)
    path = tmp_path / ("t.csv.gz" if packed else "t.csv")
    path.write_bytes(gzip.compress(content) if packed else content)
    columns = {"town": Text("drop", missing_codes=("k. A.",))}
    held = Schema("t", columns, encoding=encoding)
    counted = Table(held, path).opened("key").totals([Total("n", (ROWS,), ("town",))])[0]
    assert counted == [{"Köln": 2, "Zürich": 1}]


@pytest.mark.parametrize("at_once", [1, 3, 2**20])
@pytest.mark.parametrize("packed", [False, True])
def test_a_byte_that_cannot_be_read_names_its_line(
    at_once: int, packed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "AT_ONCE", at_once)
    content = b"town\nBonn\nK\xf6ln\nBonn\n"
    path = tmp_path / ("t.csv.gz" if packed else "t.csv")
    path.write_bytes(gzip.compress(content) if packed else content)
    with pytest.raises(InvalidParameter, match="line 3 holds a byte that is no text in utf-8"):
        Table(towns("utf-8"), path).opened("key")
    if not packed:
        with pytest.raises(InvalidParameter, match="line 3 holds a byte"):
            read_columns(path)


def test_a_torn_packed_file_is_refused(tmp_path: Path) -> None:
    whole = gzip.compress(CONTENT.encode() * 1000)
    for content in (whole[:-9], whole[:40], b"town\nBonn\n", b""):
        path = tmp_path / "t.csv.gz"
        path.write_bytes(content)
        with pytest.raises(InvalidParameter, match=r"not a whole gzip file|empty file"):
            Table(towns("utf-8"), path).opened("key")


PEOPLE = Schema(
    "people",
    {
        "age": Number(0, 100, missing="drop", missing_codes=(999,)),
        "sex": Category(("f", "m"), "count", other="m"),
        "town": Category(("a",), "drop", other="drop"),
    },
    unit="who",
    entity="person",
    rows=1,
)
ROWS_OF_PEOPLE: Cells = {
    "who": ["1", "2", "3", "4", "4", "5"],
    "age": ["20", "999", "120", "30", "31", "-99"],
    "sex": ["f", "m", "x", "", "f", "f"],
    "town": ["a", "b", "a", "a", "", "a"],
}


@pytest.mark.first_case
@pytest.mark.parametrize("kind", SOURCES)
def test_the_operator_is_told_what_the_schema_changes(kind: str, tmp_path: Path) -> None:
    opened = Table(PEOPLE, given(kind, ROWS_OF_PEOPLE, tmp_path / "t")).opened("key")
    opened.check()
    assert opened.changes() == {
        "a person has more rows than 1 (the others are left out)": 1,
        "column 'age' has no value (left out)": 1,
        "column 'age' holds values outside its bounds, or between its steps "
        "(counted as the nearest)": 2,
        "column 'sex' holds a key that is not in the schema (counted as 'm')": 1,
        "column 'town' has no value (left out)": 1,
        "column 'town' holds a key that is not in the schema (left out)": 1,
    }


def test_a_clean_table_changes_nothing(tmp_path: Path) -> None:
    table: Cells = {"who": ["1"], "age": ["20"], "sex": ["f"], "town": ["a"]}
    assert Table(PEOPLE, given("csv", table, tmp_path / "t")).opened("key").changes() == {}


PLACED = Schema(
    "t",
    {"age": Number(0, 120, outside="error"), "sex": Category(("f", "m")), "town": Text("drop")},
    unit="id",
    entity="person",
    rows=2,
    excess="error",
)
GOOD = [[str(i // 2), str(20 + i % 60), "fm"[i % 2], f"a town\nof {i}"] for i in range(500)]


def written(path: Path, rows: list[list[str]]) -> Path:
    with path.open("w", newline="") as stream:
        csv.writer(stream).writerows([["id", "age", "sex", "town"], *rows])
    return path


@pytest.mark.parametrize(
    ("row", "cell", "said"),
    [
        (300, (1, "secret"), "column 'age' holds text where numbers are declared in 1 row"),
        (499, (1, "140"), "column 'age' holds values outside its bounds, or between its steps in"),
        (0, (2, "secret"), "column 'sex' holds a key that is not in the schema in 1 row"),
        (7, (0, ""), "column 'id' has no unit in 1 row"),
        (9, (0, "3"), "a person has more rows than 2 in 1 row"),
    ],
)
def test_an_error_in_a_row_names_file_line_and_column(
    row: int, cell: tuple[int, str], said: str, tmp_path: Path
) -> None:
    """The line on which its record begins, as an editor counts it; never the value."""
    place, value = cell
    rows = [list(other) for other in GOOD]
    rows[row][place] = value
    path = written(tmp_path / "t.csv", rows)
    at = f"(the first: {path}, line {2 + 2 * row})"  # every record has two lines
    for data in (path, tmp_path):
        with pytest.raises(DataRefused) as refused:
            Table(PLACED, data).opened("key").check()
        assert said in str(refused.value)
        assert at in str(refused.value)
        assert "secret" not in str(refused.value)


def test_a_parquet_file_names_the_row(tmp_path: Path) -> None:
    data = given("parquet", {"x": [5, 7, None, 3, None]}, tmp_path / "t")
    with pytest.raises(DataRefused, match=r"has no value in 2 rows \(the first: .*t, row 3\)"):
        Table(Schema("t", {"x": Number(0, 9)}), data).opened("key").check()


@pytest.mark.parametrize("cells", [["1", "30", "f"], ["1", "30", "f", "x", "secret"]])
def test_a_line_with_another_number_of_cells_is_named(cells: list[str], tmp_path: Path) -> None:
    rows = [*GOOD[:40], cells, *GOOD[40:]]
    path = written(tmp_path / "t.csv", rows)
    with pytest.raises(InvalidParameter) as refused:
        Table(PLACED, path).opened("key").check()
    said = f"{path}: line 82 has {len(cells)} cells, and the first line names 4 columns"
    assert said in str(refused.value)
    assert "secret" not in str(refused.value)
