"""Columns of dates and periods: read alike in Python, in SQL and in every format."""

from __future__ import annotations

import random
from collections import Counter
from datetime import date, datetime, time, timedelta
from pathlib import Path
from typing import Any

import pytest

from dpaudit.errors import InvalidParameter
from dpaudit.releases.plan import release_of
from dpaudit.releases.publish import NO_LEDGER, publish
from dpaudit.tabular import (
    ROWS,
    DataRefused,
    Date,
    Number,
    Period,
    Schema,
    Table,
    Term,
    Total,
    schema_of,
)
from dpaudit.tabular.dates import EVERY, Calendar
from tests.support.tables import FILES, FRAMES

pa = pytest.importorskip("pyarrow")
pytest.importorskip("duckdb")
pd = pytest.importorskip("pandas")

FORMATS = {"day": "%d.%m.%Y", "month": "%m/%Y", "quarter": "%Y-%d-%m", "year": "%d %m %Y"}


@pytest.mark.first_case
@pytest.mark.parametrize("every", EVERY)
@pytest.mark.parametrize("own", [False, True])
def test_python_and_sql_read_the_same_dates(every: str, own: bool) -> None:
    """5,000 texts of marks of dates, seed 1, and 1,000 that are dates."""
    duckdb = pytest.importorskip("duckdb")
    calendar, rng = Calendar(every, FORMATS[every] if own else ""), random.Random(1)
    marks = ["2026", "0000", "1900", "02", "03", "2", "29", "30", "31", "13", "-", ".", "/", " "]
    marks += ["Q1", "Q4", "-Q2", "T10:00", " 10:00:00.5", "x"]
    texts = ["".join(rng.choices(marks, k=rng.randint(1, 6))) for _ in range(5000)]
    days = [date(1900, 1, 1) + timedelta(days=rng.randrange(80_000)) for _ in range(1000)]
    texts += [f"{day:{calendar.format or '%Y-%m-%d'}}" for day in days]
    held = pa.table({"k": texts})
    with duckdb.connect() as opened:
        opened.register("held", held)
        found = opened.execute(f"SELECT k, {calendar.code_sql('k')} FROM held").fetchall()  # noqa: S608
    for text, code in found:
        assert code == calendar.code(text), text
    assert [calendar.code(text) for text in texts[-1000:]] == [
        calendar.of(day) for day in days
    ] or own
    assert sum(code is not None for _, code in found) >= 1000


@pytest.mark.parametrize("every", EVERY)
def test_a_period_begins_on_its_first_day(every: str) -> None:
    calendar = Calendar(every)
    for day in (date(1000, 1, 1) + timedelta(days=k) for k in range(0, 3_000_000, 997)):
        code = calendar.of(day)
        first = calendar.first_day(code)
        assert first <= day < calendar.first_day(code + 1)
        assert calendar.code(calendar.text(code)) == code


SOURCES = {**{k: FILES[k] for k in ("csv", "semicolons", "parquet")}, **FRAMES}
DAYS = [date(2025, 12, 31), date(2026, 1, 1), date(2026, 2, 3), date(2026, 2, 28), None]
MONTHS = Schema("t", {"x": Period("2025-12", "2026-03", missing="drop", every="month")})
CELLS: dict[str, list[Any]] = {
    "dates": DAYS,
    "times": [None if day is None else datetime.combine(day, time(23, 59)) for day in DAYS],
    "texts": ["2025-12-31", " 2026-01-01", "2026-02", "2026-02-28T23:59", ""],
}


@pytest.mark.first_case
@pytest.mark.parametrize("kind", SOURCES)
@pytest.mark.parametrize("cells", CELLS)
def test_dates_count_the_same_in_every_format(kind: str, cells: str, tmp_path: Path) -> None:
    table = {"x": CELLS[cells]}
    data = FILES[kind](table, tmp_path / "t") if kind in FILES else FRAMES[kind](table)
    opened = Table(MONTHS, data).opened("key")
    opened.check()
    assert opened.totals([Total("n", (ROWS,), ("x",))])[0] == [(1, 1, 2, 0)]


def codes_of(column: Number, data: Any) -> list[int]:
    opened = Table(Schema("t", {"x": column}), data).opened("key")
    opened.check()
    return sorted(int(code) for _, code in opened.rows(["x"]))


def test_missing_codes_and_bounds_of_dates(tmp_path: Path) -> None:
    column = Date(
        "2026-01-01",
        date(2026, 1, 31),
        missing="drop",
        missing_codes=("31.12.9999", "unknown"),
        format="%d.%m.%Y",
    )
    first = int(column.lower)
    texts = ["1.1.2026", "31.12.9999", "31.12.2025", "05.02.2026", "unknown", "02.01.2026"]
    path = tmp_path / "t.csv"
    path.write_text("x\n" + "\n".join(texts) + "\n")
    assert codes_of(column, path) == [first, first, first + 1, first + 30]
    typed = pa.table({"x": [date(2026, 1, 2), date(9999, 12, 31)]})
    assert codes_of(column, typed) == [first + 1]
    for text in ("2026-01-01", "30.02.2026", "1.1.26"):
        path.write_text(f"x\n{text}\n")
        with pytest.raises(DataRefused, match="text where dates are declared in 1 row"):
            codes_of(column, path)
    strict = Date("2026-01-01", "2026-01-31", outside="error")
    with pytest.raises(DataRefused, match="values outside its bounds"):
        codes_of(strict, pa.table({"x": [date(2026, 2, 1)]}))


def test_years_may_be_numbers() -> None:
    column = Period("2020", 2026, every="year", missing="drop")
    for values in ([2021, 2026], [2021.0, 2026.0, None], ["2021", "2026-05-01"]):
        assert codes_of(column, pd.DataFrame({"x": values})) == [2021, 2026]
    with pytest.raises(InvalidParameter, match="where the schema declares dates"):
        codes_of(Date("2026-01-01", "2026-02-01"), pd.DataFrame({"x": [1, 2]}))
    zoned = pd.DataFrame({"x": pd.to_datetime(["2026-01-01"]).tz_localize("Europe/Berlin")})
    with pytest.raises(InvalidParameter, match="TIME ZONE, where the schema declares dates"):
        codes_of(column, zoned)


@pytest.mark.parametrize(
    ("made", "said"),
    [
        ({"kind": "date", "lower": "2026-02-30", "upper": "2026-03-01"}, "expected a day"),
        ({"kind": "date", "lower": "2026-02-02", "upper": "2026-02-01"}, "is not below upper"),
        ({"kind": "date", "lower": 1, "upper": 2}, "expected a day, such as 2026-03-05"),
        ({"kind": "period", "lower": "2026-01", "upper": "2026-03"}, "every = ''"),
        ({"kind": "period", "every": "week", "lower": "1", "upper": "2"}, "every = 'week'"),
        (
            {"kind": "period", "every": "quarter", "lower": "2026-Q1", "upper": "2026-Q5"},
            "such as 2026-Q1",
        ),
        ({"kind": "date", "lower": "2026-01-01", "upper": "2026-01-02", "format": "%d%m%Y"}, "%d"),
        ({"kind": "date", "lower": "2026-01-01", "upper": "2026-01-02", "format": "%m.%Y"}, "%d"),
        ({"kind": "date", "lower": "2026-01-01", "upper": "2026-01-02", "step": 2}, "step"),
    ],
)
def test_dates_that_are_none_are_refused_with_the_plan(made: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidParameter, match=f"columns.x.*{said}"):
        schema_of({"name": "t", "columns": {"x": made}})


PLAN: dict[str, Any] = {
    "title": "Visits",
    "adjacency": "add_remove",
    "budget": {"epsilon": 10_000},
    "table": {
        "name": "visits",
        "columns": {
            "day": {"kind": "date", "lower": date(2026, 1, 1), "upper": "2026-06-30"},
            "quarter": {
                "kind": "period",
                "every": "quarter",
                "lower": "2026-Q1",
                "upper": "2026-Q2",
            },
        },
    },
    "items": [
        {"name": "by quarter", "query": "count", "by": "quarter"},
        {
            "name": "spring",
            "query": "count",
            "where": {"day": {"from": "2026-03-01", "to": "2026-05-31"}},
        },
        {
            "name": "halves",
            "query": "count",
            "by": "day",
            "edges": {"day": ["2026-02-01", date(2026, 4, 1)]},
        },
        {"name": "median", "query": "quantiles", "column": "day", "at": ["1/2"]},
    ],
}


def test_dates_are_published_as_dates(tmp_path: Path) -> None:
    """With noise that is 0 but once in e^1000, every number is the one that Python counts."""
    rng = random.Random(3)
    days = [date(2026, 1, 1) + timedelta(days=rng.randrange(181)) for _ in range(301)]
    data = pd.DataFrame({"day": days, "quarter": days})
    plan = release_of(PLAN).plan()
    publish(plan, data, tmp_path, ledger=NO_LEDGER, trials=0)
    rows = pd.read_csv(tmp_path / "release.csv", dtype=str)
    made = {(r["item"], r["keys"]): r["value"] for r in rows.fillna("").to_dict("records")}
    quarters = Counter(f"quarter=2026-Q{(day.month + 2) // 3}" for day in days)
    for key, count in quarters.items():
        assert made["by quarter", key] == str(count)
    assert made["spring", ""] == str(sum(3 <= day.month <= 5 for day in days))
    assert made["halves", "day=below 2026-02-01"] == str(sum(day.month == 1 for day in days))
    between = "day=2026-02-01 to below 2026-04-01"
    assert made["halves", between] == str(sum(2 <= day.month <= 3 for day in days))
    assert made["median", ""] == f"{sorted(days)[150]}"
    assert pd.read_parquet(tmp_path / "release.parquet")["number"].isna().sum() == 1


@pytest.mark.parametrize("query", ["sum", "mean", "variance"])
def test_dates_are_not_added_up(query: str) -> None:
    item = {"name": "i", "query": query, "column": "day"}
    with pytest.raises(InvalidParameter, match="column 'day' holds dates; count by them"):
        release_of(PLAN | {"items": [item], "budget": {"rho": 1}}).plan()


def test_sums_of_numbers_beside_dates_stay(tmp_path: Path) -> None:
    schema = Schema("t", {"x": Number(0, 9), "d": Date("2026-01-01", "2026-01-31")})
    data = pa.table({"x": [1, 2], "d": ["2026-01-01", "2026-01-02"]})
    total = Total("s", (Term((("x", 1, 0),)),))
    assert Table(schema, data).opened("key").totals([total])[0] == [(3,)]
