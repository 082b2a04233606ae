"""A cell counts the same in every format: the schema's kind decides how it is read."""

from __future__ import annotations

import copy
import random
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpaudit.errors import InvalidParameter
from dpaudit.exact.domains import rational
from dpaudit.releases import cost
from dpaudit.releases.plan import release_of
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
    cells,
    columns,
    engine,
    schema,
    source,
)
from dpaudit.tabular.columns import frame_columns, read_columns
from tests.support.tables import FILES, FRAMES, Cells

duckdb = pytest.importorskip("duckdb")
pd = pytest.importorskip("pandas")
pa = pytest.importorskip("pyarrow")
dd = pytest.importorskip("dask.dataframe")

SOURCES: Mapping[str, Callable[[Cells, Path], Any]] = {
    **{kind: FILES[kind] for kind in ("csv", "semicolons", "tabs", "parquet")},
    **{kind: lambda table, _, made=made: made(table) for kind, made in FRAMES.items()},
    "dask": lambda table, _: dd.from_pandas(pd.DataFrame(dict(table)), npartitions=3),
}
READERS = {**FILES, **FRAMES}
NAMED = [kind for kind in READERS if kind not in ("rows", "npy", "decimal comma", "lines")]
UNIT = Schema("people", {"x": Number(0, 9)}, unit="k", entity="person", rows=1)
TEXT = Schema("people", {"k": Text("drop"), "x": Number(0, 9)})
KEYS = Schema("people", {"k": Category(("f", "m"), "drop", other="m"), "x": Number(0, 9)})
NUMBER = Schema("people", {"k": Number(0, 9, "1/10", "drop"), "x": Number(0, 9)})

# Cells, and how many units they are.
SPELLINGS: dict[str, tuple[list[Any], int]] = {
    "blanks": (["ann", "ann ", " ann", "ann\t", "\u00a0ann", "ann\n"], 1),
    "whole": (["1", "1.0", "01", "+1", "1.", "1 ", "001.00"], 1),
    "negative": (["-1", "-1.0", "-01"], 1),
    "zero": (["0", "-0", "0.0", "-0.0", "00"], 1),
    "booleans": (["True", "true", "TRUE "], 1),
    "others": (["a", "A", "1a", "01a", "1.5", "1e0"], 6),
}
MISSING = ["", " ", "NaN", "nan ", "-nan"]


def count(held: Schema, data: Any, total: Total) -> Any:
    """The first total, or the error that the table is refused for."""
    try:
        opened = Table(held, data).opened("key")
        opened.check()
        return opened.totals([total])[0]
    except DataRefused as error:
        return str(error)


def beside(values: list[Any]) -> Cells:
    return {"k": values, "x": [1] * len(values)}


@pytest.mark.quality
@pytest.mark.first_case
@pytest.mark.long_cases(
    *(
        f"{n}-{kind}"
        for n in (1, 5)
        for kind in ("semicolons", "tabs", "lazy polars", "arrow", "dask")
    )
)
@pytest.mark.parametrize("kind", SOURCES)
@pytest.mark.parametrize("parts", [1, 5])
def test_a_unit_in_several_spellings_counts_once(
    kind: str, parts: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, (values, units) in SPELLINGS.items():
        data = SOURCES[kind](beside(values), tmp_path / name)
        if isinstance(data, Path):
            size = -(-data.stat().st_size // parts)
            monkeypatch.setattr(source, "AT_ONCE", dict.fromkeys(source.AT_ONCE, size))
        assert count(UNIT, data, Total("n", (ROWS,))) == [(units,)], name


@pytest.mark.first_case
@pytest.mark.parametrize("kind", ["csv", "parquet", "pandas", "polars", "arrow", "dask"])
def test_a_unit_that_is_not_spelled_would_count_often(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for rule in ("spelled_sql", "trimmed_sql"):
        monkeypatch.setattr(engine, rule, lambda name, unit=False: name)
    values, _ = SPELLINGS["blanks"]
    data = SOURCES[kind](beside(values), tmp_path / "table")
    assert count(UNIT, data, Total("n", (ROWS,))) != [(1,)]


@pytest.mark.quality
@pytest.mark.long_cases("parquet")
@pytest.mark.parametrize("kind", ["csv", "parquet", "dask"])
def test_parts_by_the_raw_spelling_would_count_a_unit_often(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values, _ = SPELLINGS["blanks"]
    values = [*values, *(f"ann{' ' * k}" for k in range(2, 20))]
    data = SOURCES[kind](beside(values), tmp_path / "table")
    monkeypatch.setattr(source, "AT_ONCE", dict.fromkeys(source.AT_ONCE, 20))
    assert count(UNIT, data, Total("n", (ROWS,))) == [(1,)]
    monkeypatch.setattr(source, "TAKEN_AWAY", "[?]")
    assert count(UNIT, data, Total("n", (ROWS,))) != [(1,)]


@pytest.mark.quality
@pytest.mark.first_case
@pytest.mark.parametrize("kind", SOURCES)
def test_a_missing_unit_is_refused(kind: str, tmp_path: Path) -> None:
    for place, value in enumerate(MISSING):
        data = SOURCES[kind](beside([value, "bob"]), tmp_path / str(place))
        assert "column 'k' has no unit in 1 row" in count(UNIT, data, Total("n", (ROWS,)))


# Schema, cells, total, and the sums that every source gives, or the error.
TABLES: dict[str, tuple[Schema, list[Any], Total, Any]] = {
    "padded key": (KEYS, ["f", "f ", "\tf", "x"], Total("n", (ROWS,), ("k",)), [(3, 1)]),
    "missing key": (KEYS, ["f", *MISSING], Total("n", (ROWS,), ("k",)), [(1, 0)]),
    "text": (TEXT, ["a", " a", *MISSING], Total("n", (ROWS,), ("k",)), [{"a": 2}]),
    "floats as text": (
        TEXT,
        [1.0, 2.0, 1.5, -0.0],
        Total("n", (ROWS,), ("k",)),
        [{"1": 1, "2": 1, "1.5": 1, "0": 1}],
    ),
    "booleans as text": (
        TEXT,
        [True, False, True],
        Total("n", (ROWS,), ("k",)),
        [{"true": 2, "false": 1}],
    ),
    "leading zeros are of a text": (
        TEXT,
        ["01234", "1234"],
        Total("n", (ROWS,), ("k",)),
        [{"01234": 1, "1234": 1}],
    ),
    "numbers as text": (
        NUMBER,
        ["1", " 2 ", "+3.0", "4e0", *MISSING],
        Total("s", (Term((("k", 1, 0),)),), needed=("k",)),
        [(100,)],
    ),
    "floats": (
        NUMBER,
        [0.15, 0.25, 1.05],
        Total("s", (Term((("k", 1, 0),)),)),
        [(1 + 3 + 11,)],  # 0.15 / 0.1 is below 1.5, and halves go away from 0
    ),
    "words for numbers": (
        NUMBER,
        ["1", "many", "1_5"],
        Total("n", (ROWS,)),
        "holds text where numbers are declared in 2 rows",
    ),
}


@pytest.mark.quality
@pytest.mark.first_case
@pytest.mark.long_cases("semicolons", "tabs", "lazy polars", "arrow", "dask")
@pytest.mark.parametrize("kind", SOURCES)
def test_a_table_counts_the_same_from_every_source(kind: str, tmp_path: Path) -> None:
    for name, (held, values, total, expected) in TABLES.items():
        counted = count(held, SOURCES[kind](beside(values), tmp_path / name), total)
        same = expected in counted if isinstance(expected, str) else counted == expected
        assert same, (name, counted)


def test_floats_of_32_bits_count_by_their_digits(tmp_path: Path) -> None:
    frame = pd.DataFrame({"k": np.array([0.15, 0.35, 1.05], np.float32), "x": 1})
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_parquet(tmp_path / "t.parquet")
    total = Total("s", (Term((("k", 1, 0),)),))
    sums = [count(NUMBER, d, total) for d in (frame, tmp_path / "t.csv", tmp_path / "t.parquet")]
    assert sums[0] == sums[1] == sums[2]


@pytest.mark.parametrize("value", [1e300, 1e16, 1e-5])
def test_floats_with_an_exponent_are_no_texts(value: float) -> None:
    for held in (UNIT, TEXT):
        said = count(held, pd.DataFrame(beside([value, 1.0])), Total("n", (ROWS,)))
        assert "spelled in several ways" in said
        assert "in 1 row" in said


@pytest.mark.parametrize(
    "value", [b"ann ", ["ann "], {"a": "ann "}, datetime(2020, 1, 1, tzinfo=UTC)]
)
def test_units_of_types_with_several_spellings_are_refused(value: Any) -> None:
    table = pa.table({"k": pa.array([value]), "x": [1]})
    for held in (UNIT, TEXT):
        with pytest.raises(InvalidParameter, match="spelled in several ways"):
            Table(held, table).opened("key")


def test_python_and_sql_spell_alike() -> None:
    """20,000 texts of characters that the rules know, seed 1."""
    rng = random.Random(1)
    marks = ["0", "1", "01", ".", ".0", "-", "+", "e", " ", "\t", "\u00a0", "\n", "nan", "NaN"]
    marks += ["tRue", "false", "é", "İ", "_"]
    texts = ["".join(rng.choices(marks, k=rng.randint(0, 5))) for _ in range(20_000)]
    held = pa.table({"k": texts})
    with source.connection() as opened:
        opened.register("held", held)
        for unit in (False, True):
            trimmed = f"SELECT k, {cells.trimmed_sql('k')} AS t FROM held"  # noqa: S608
            asked = f"SELECT k, {cells.spelled_sql('t', unit=unit)} FROM ({trimmed})"  # noqa: S608
            for text, found in opened.execute(asked).fetchall():
                assert found == cells.spelled(text, unit=unit), text


def test_the_part_of_a_unit_is_that_of_its_spelling() -> None:
    """Texts that are one unit are the same without what the rules may take away."""
    rng = random.Random(2)
    texts = ["".join(rng.choices("01.-+ \ttTrRuUeE", k=rng.randint(1, 4))) for _ in range(20_000)]
    left: dict[str | None, set[str]] = {}
    for text in texts:
        key = re.sub(cells.TAKEN_AWAY, "", text.lower())
        left.setdefault(cells.spelled(text, unit=True), set()).add(key)
    left.pop(None, None)
    assert max(map(len, left.values())) == 1


@pytest.mark.parametrize("keys", [("1", "1.0"), ("True", "true"), ("f", " f"), ("(missing)",)])
def test_keys_that_are_one_are_refused(keys: tuple[str, ...]) -> None:
    with pytest.raises(InvalidParameter, match="occurs twice"):
        Category(keys)


@pytest.mark.parametrize("key", ["", " ", "NaN"])
def test_a_key_that_is_a_missing_value_is_refused(key: str) -> None:
    with pytest.raises(InvalidParameter, match="it is a missing value"):
        Category(("a", key))


def read(kind: str, table: Cells, stem: Path) -> columns.Columns:
    data = READERS[kind](table, stem) if kind in FILES else READERS[kind](table)
    return read_columns(data) if kind in FILES else frame_columns(data)


@pytest.mark.parametrize("kind", NAMED)
def test_records_know_a_unit_in_every_spelling(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, (values, units) in SPELLINGS.items():
        table = read(kind, beside(values), tmp_path / name)
        assert len(set(table.texts("k", unit=True))) == units, name
    table = read(kind, beside([1.0, 2.0]), tmp_path / "floats")
    assert table.texts("k") == ["1", "2"]
    monkeypatch.setattr(columns, "spelled", lambda text, unit: text)
    table = read(kind, beside(SPELLINGS["blanks"][0]), tmp_path / "raw")
    assert len(set(table.texts("k", unit=True))) > 1


# Numbers of a plan that no float holds, or whose squares none does.
SIZES = ["1e400", "1e200", "1e-330", "1e-200", "-1e400", 10**400]
PLAN: dict[str, Any] = {
    "title": "t",
    "adjacency": "replace_one",
    "budget": {"epsilon": 1, "delta": "1e-6"},
    "table": {"name": "t", "columns": {"x": {"kind": "number", "lower": 0, "upper": 10}}},
    "items": [
        {"name": "s", "query": "sum", "column": "x", "weight": 1},
        {"name": "r", "query": "ranges", "column": "x", "edges": [0, 10]},
        {"name": "q", "query": "quantiles", "column": "x", "at": ["1/2"]},
    ],
    "post": [{"step": "round", "items": ["s"], "to": 1}],
}
PLACES_OF_NUMBERS = [
    ("table", "columns", "x", "lower"),
    ("table", "columns", "x", "upper"),
    ("table", "columns", "x", "step"),
    ("items", 0, "weight"),
    ("items", 1, "edges", 1),
    ("items", 2, "at", 0),
    ("post", 0, "to"),
]


def planned(place: tuple[Any, ...], value: Any, step: Any = 1) -> Any:
    table: Any = copy.deepcopy(PLAN)
    table["table"]["columns"]["x"]["step"] = step
    part = table
    for key in place[:-1]:
        part = part[key]
    part[place[-1]] = value
    return release_of(table).plan()


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("place", PLACES_OF_NUMBERS)
def test_numbers_of_plans_that_no_float_holds_are_refused(
    place: tuple[Any, ...], size: Any
) -> None:
    with pytest.raises(InvalidParameter, match=r"for floats|too many digits|exponent"):
        planned(place, size)


def test_a_number_that_no_float_holds_would_end_in_an_overflow(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(schema, "number", rational)
    monkeypatch.setitem(PLAN, "items", PLAN["items"][:1])
    plan = planned(("table", "columns", "x", "upper"), "1e400", step="1e390")
    with pytest.raises(OverflowError):
        cost.cost_table(plan)
