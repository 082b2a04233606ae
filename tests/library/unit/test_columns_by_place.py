"""A column is taken by its place among a table's own names, whatever a library makes of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpaudit.errors import InvalidParameter
from dpaudit.tabular import ROWS, Number, Schema, Table, Total, columns, source
from dpaudit.tabular.columns import frame_columns, read_columns
from tests.support.tables import FILES, FRAMES, PLACES, Cells

duckdb = pytest.importorskip("duckdb")
pa = pytest.importorskip("pyarrow")

# DuckDB calls these ID, id_1, id_1_1 and x. All rows are of one unit, and x is 1 in all.
CLASH: Cells = {"ID": [1, 2, 3], "id": [4, 5, 6], "id_1": [7, 7, 7], "x": [1, 1, 1]}
SCHEMA = Schema("people", {"x": Number(0, 1)}, unit="id_1", entity="person", rows=1)
CASES = Schema(
    "people", {"ID": Number(0, 9), "id": Number(0, 9), "id_1": Number(0, 9), "x": Number(0, 1)}
)


def dask(table: Cells) -> Any:
    pd, dd = pytest.importorskip("pandas"), pytest.importorskip("dask.dataframe")
    return dd.from_pandas(pd.DataFrame(dict(table)), npartitions=2)


# A DuckDB relation is left out: DuckDB renames the columns before the relation is ours.
RELEASED: Mapping[str, Callable[[Cells, Path], Any]] = {
    **{kind: FILES[kind] for kind in ("csv", "semicolons", "tabs", "parquet")},
    **{
        kind: lambda table, _, made=made: made(table)
        for kind, made in {**FRAMES, "dask": dask}.items()
        if kind != "duckdb"
    },
}
READ = {
    **{kind: made for kind, made in FILES.items() if kind not in PLACES},
    **{kind: made for kind, made in RELEASED.items() if kind in FRAMES},
}


def units(data: Any) -> int:
    """How many rows count where each unit has one."""
    (((number,),),) = Table(SCHEMA, data).opened("key").totals([Total("n", (ROWS,))])
    return int(number)


@pytest.mark.first_case
@pytest.mark.parametrize("kind", RELEASED)
@pytest.mark.parametrize("parts", [1, 3])
def test_a_release_reads_the_columns_that_its_schema_names(
    kind: str, parts: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = RELEASED[kind](CLASH, tmp_path / "table")
    if isinstance(data, Path):
        size = -(-data.stat().st_size // parts)
        monkeypatch.setattr(source, "AT_ONCE", dict.fromkeys(source.AT_ONCE, size))
    assert units(data) == 1
    rows = Table(CASES, data).opened("key").rows(list(CLASH))
    assert sorted(cells for _, *cells in rows) == sorted(
        map(list, zip(*CLASH.values(), strict=True))
    )


@pytest.mark.first_case
@pytest.mark.parametrize("kind", RELEASED)
def test_names_as_duckdb_rewrites_them_would_show(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def rewritten(schema: Schema, names: Iterable[Any], *args: Any, **kwargs: Any) -> list[int]:
        held = list(names)
        table = pa.Table.from_arrays([pa.array([0])] * len(held), names=held)
        return real(schema, duckdb.from_arrow(table).columns, *args, **kwargs)

    real = source.places_of
    data = RELEASED[kind](CLASH, tmp_path / "table")
    monkeypatch.setattr(source, "places_of", rewritten)
    assert units(data) == 3


@pytest.mark.parametrize("kind", READ)
def test_a_table_of_records_has_the_columns_of_its_file(kind: str, tmp_path: Path) -> None:
    data = READ[kind](CLASH, tmp_path / "table")
    table = read_columns(data) if isinstance(data, Path) else frame_columns(data)
    assert {name: table.numbers(name).tolist() for name in table} == CLASH


@pytest.mark.parametrize("kind", RELEASED)
def test_names_that_differ_in_blanks_alone_are_refused(kind: str, tmp_path: Path) -> None:
    data = RELEASED[kind]({"id_1": [1], "x": [1], "x ": [0]}, tmp_path / "table")
    with pytest.raises(InvalidParameter, match="columns 2 and 3 have the same name"):
        units(data)


def test_frames_with_a_name_twice_are_refused() -> None:
    pd = pytest.importorskip("pandas")
    names = ["id_1", "x", "x"]
    frames = pd.DataFrame([[1, 1, 0]], columns=names), pa.table([[1], [1], [0]], names=names)
    for frame in frames:
        for read in (units, frame_columns):
            with pytest.raises(InvalidParameter, match=r"columns .*have the same name"):
                read(frame)


def test_a_parquet_file_whose_columns_are_counted_otherwise_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = FILES["parquet"](CLASH, tmp_path / "table")
    monkeypatch.setattr(source._Held, "_parquet_names", lambda _: ["id_1", "x"])
    with pytest.raises(InvalidParameter, match="2 columns, of which 4 can be read"):
        units(path)


# Arrays, each with names that a reader joins or cuts to the same name.
ONE, OTHER = np.array([1, 2]), np.array([3, 4])
FIELDS = np.array([(1,), (2,)], dtype=[("b", int)])
ARRAYS: dict[str, dict[str, Any]] = {
    "suffix": {"a": ONE, "a.npy": OTHER},
    "field": {"a": FIELDS, "a b": OTHER},
    "column": {"a": np.stack([ONE, OTHER], axis=1), "a column 1": ONE},
    "blanks": {"a": ONE, "a ": OTHER},
}


@pytest.mark.parametrize("kind", ARRAYS)
def test_arrays_of_one_name_are_refused(kind: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "table.npz", **ARRAYS[kind])
    with pytest.raises(InvalidParameter, match=r"same name|one name"):
        read_columns(tmp_path / "table.npz")


@pytest.mark.parametrize("kind", ["field", "column", "blanks"])
def test_arrays_of_one_name_would_replace_each_other(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    np.savez(tmp_path / "table.npz", **ARRAYS[kind])
    monkeypatch.setattr(columns, "_distinct", lambda *_: None)
    held = sum(len(array.T) if array.ndim == 2 else 1 for array in ARRAYS[kind].values())
    assert len(list(read_columns(tmp_path / "table.npz"))) < held
