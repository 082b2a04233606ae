"""A folder of files is one table: all of its files, or those that the schema's pattern matches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpaudit.errors import InvalidParameter
from dpaudit.tabular import Number, Schema, Table, source
from dpaudit.tabular.engine import ROWS, Term, Total
from dpaudit.tabular.schema import schema_of

pytest.importorskip("duckdb")

# Persons of whom some have rows in both files: (person, x).
FIRST = [(1, 1), (1, 2), (2, 4)]
SECOND = [(1, 8), (3, 16)]
TOTALS = [Total("t", (ROWS, Term((("x", 1, 0),))))]


def schema(rows: int = 3, **more: Any) -> Schema:
    return Schema("t", {"x": Number(0, 100)}, unit="id", entity="person", rows=rows, **more)


def written(path: Path, rows: list[tuple[int, int]], kind: str = "int64") -> None:
    units, values = (list(column) for column in zip(*rows, strict=True))
    if path.suffix == ".parquet":
        pq.write_table(pa.table({"x": pa.array(values).cast(kind), "id": units}), path)
    else:
        # Columns in an order of each file's own.
        path.write_text("id,x\n" + "".join(f"{u},{v}\n" for u, v in rows))


@pytest.fixture(params=[".csv", ".parquet"])
def folder(request: Any, tmp_path: Path) -> Path:
    written(tmp_path / f"2025{request.param}", FIRST)
    written(tmp_path / f"2026{request.param}", SECOND)
    (tmp_path / ".hidden").write_text("no table")
    return tmp_path


def totals(path: Path, own: Schema) -> list[tuple[int, ...]]:
    ((*terms,),) = Table(own, path).opened("key").totals(TOTALS)
    return list(terms)  # type: ignore[arg-type]


@pytest.mark.long_cases(".parquet")
def test_all_files_are_one_table_in_which_a_unit_is_bounded(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Person 1 has three rows in two files; split by file, five rows would count at one each."""
    assert totals(folder, schema()) == [(5,), (31,)]
    assert totals(folder, schema(rows=1))[0] == (3,)
    # In parts by unit too, as large files are read.
    monkeypatch.setattr(source, "AT_ONCE", {".csv": 8, ".parquet": 300})
    assert totals(folder, schema()) == [(5,), (31,)]
    assert totals(folder, schema(rows=1))[0] == (3,)


def test_a_pattern_is_read_where_the_schema_has_one(folder: Path) -> None:
    assert totals(folder, schema(files="2026*")) == [(2,), (24,)]
    table = {"name": "t", "files": "2025*", "columns": {"x": schema().columns["x"].row()}}
    stated = schema_of(table)
    assert stated.files == "2025*"
    assert stated.digest != schema_of({**table, "files": ""}).digest
    with pytest.raises(InvalidParameter, match="0 files that 'none\\*' matches"):
        totals(folder, schema(files="none*"))
    with pytest.raises(InvalidParameter, match="a pattern of file names"):
        schema(files="../*.csv")


def test_a_pattern_without_a_folder_is_refused(folder: Path) -> None:
    file = next(folder.glob("2025.*"))
    with pytest.raises(InvalidParameter, match="not a folder"):
        totals(file, schema(files="2025*"))


def test_what_is_no_table_is_refused_by_name_and_never_left_out(folder: Path) -> None:
    (folder / "2027.xlsx").write_text("a workbook")
    with pytest.raises(InvalidParameter, match=r"2027\.xlsx: expected a \.csv"):
        totals(folder, schema())


def test_two_kinds_of_files_are_refused(tmp_path: Path) -> None:
    written(tmp_path / "a.csv", FIRST)
    written(tmp_path / "b.parquet", SECOND)
    with pytest.raises(InvalidParameter, match=r".csv and .parquet files; .* files = '\*.csv'"):
        totals(tmp_path, schema())
    assert totals(tmp_path, schema(files="*.csv")) == [(3,), (7,)]


def test_a_column_of_two_types_is_refused(tmp_path: Path) -> None:
    written(tmp_path / "a.parquet", FIRST)
    written(tmp_path / "b.parquet", SECOND, "float32")
    with pytest.raises(InvalidParameter, match=r"b\.parquet: a column has another type"):
        totals(tmp_path, schema())


def test_an_empty_folder_and_one_of_too_many_files_are_refused(
    folder: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InvalidParameter, match="0 files; expected 1 to"):
        totals(tmp_path_factory.mktemp("empty"), schema())
    monkeypatch.setattr(source, "MOST_FILES", 1)
    with pytest.raises(InvalidParameter, match="2 files; expected 1 to 1"):
        totals(folder, schema())


def test_a_file_that_lacks_a_column_is_named(folder: Path) -> None:
    kind = next(folder.glob("2025.*")).suffix
    other = Schema("t", {"y": Number(0, 1)}, unit="id", entity="person", rows=1)
    with pytest.raises(InvalidParameter, match="has no column 'y'"):
        totals(folder, other)
    assert kind in (".csv", ".parquet")
