"""Bounds and limits that a private quantile chose, and the numbers that they bound."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

import dpaudit as dp
from dpaudit.errors import InvalidParameter
from dpaudit.families.opaque import ZCDP
from dpaudit.releases.plan import Release
from dpaudit.releases.program import exact_values
from dpaudit.releases.publish import NO_LEDGER
from dpaudit.releases.queries import Item, Mean, Sum, UnitRows, item_of
from dpaudit.tabular import Number, Schema, Table

pa = pytest.importorskip("pyarrow")

SCHEMA = Schema("people", {"income": Number(-100, 10**6, 10)}, unit="person", rows=50)


def table(size: int = 4000) -> Any:
    """A person has one to four rows, of incomes up to 9,990, and the first a million."""
    persons = [i for i in range(size) for _ in range(1 + i % 4)]
    incomes = [10**6 if p == 0 else p % 1000 * 10 for p in persons]
    return pa.table({"person": persons, "income": incomes})


def opened(**more: Any) -> Any:
    asked = {"title": "t", "adjacency": "add_remove", "budget": 10, "ledger": NO_LEDGER}
    return dp.open(table(), SCHEMA, **asked | more)


def test_bounds_and_rows_are_chosen_and_used() -> None:
    """False alarm: below 10^-9, by the exponential mechanism's rank error."""
    with opened() as session:
        rows = session.unit_rows("0.95", rho=1)
        assert rows == 4
        ends = session.bounds("income", "0.95", per_group=rows, rho=1)
        assert ends["from"] == -100
        assert 9000 <= ends["to"] <= 10**4
        whole = session.sum("income", rho=1).rows[0]
        tight = session.sum("income", bounds=ends, per_group=rows, rho=1).rows[0]
        assert session.left == 6
    assert whole.error / tight.error > 1000
    assert "outside -100 to 9" in "".join(tight.not_covered)
    truth = sum(
        min(p % 1000 * 10 if p else 10**6, ends["to"]) for p in table()["person"].to_pylist()
    )
    assert abs(tight.value - truth) < 5 * tight.error


def test_both_ends_are_chosen() -> None:
    with opened() as session:
        ends = session.bounds("income", ("0.1", "0.9"), per_group=1, rho=8)
        assert (700 < ends["from"] < 1300, 8700 < ends["to"] < 9300) == (True, True)
        with pytest.raises(InvalidParameter, match=r"rho is spent|no numbers|no column"):
            session.bounds("age", "0.9")


def test_equal_quantiles_are_no_bounds() -> None:
    data = pa.table({"person": list(range(500)), "income": [70] * 500})
    asked = {"title": "t", "adjacency": "add_remove", "budget": 10, "ledger": NO_LEDGER}
    with (
        dp.open(data, SCHEMA, **asked) as session,
        pytest.raises(InvalidParameter, match="quantiles are equal, 70; their rho is spent"),
    ):
        session.bounds("income", ("0.4", "0.6"), rho=5)


def exact(item: Item) -> list[int]:
    release = Release("t", SCHEMA, "add_remove", ZCDP(1), (item,))  # type: ignore[arg-type]
    data = pa.table({"person": [1, 1, 2], "income": [-50, 7000, None]})
    column = {"income": Number(-100, 10**6, 10, missing="drop")}
    schema = Schema("people", column, unit="person", rows=50)
    values = exact_values(
        Release("t", schema, "add_remove", ZCDP(1), (item,)),  # type: ignore[arg-type]
        Table(schema, data).opened("k"),
    )
    assert release.schema is SCHEMA
    return [next(iter(v)) for v in values.values()]  # type: ignore[arg-type]


def test_values_count_as_the_nearest_bound_and_missing_ones_not_at_all() -> None:
    bounds = {"from": 0, "to": 1000}
    assert exact(Sum(name="s", column="income", bounds=bounds)) == [100]
    # Twice the deviations from the middle, 50 steps: -100 and 100.
    assert exact(Mean(name="m", column="income", bounds=bounds)) == [0, 2]
    # A condition reads the values themselves.
    where = {"income": {"from": 5000}}
    assert exact(Sum(name="s", column="income", bounds=bounds, where=where)) == [100]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"query": "sum", "column": "income", "bounds": {"to": 5}}, "not on the column's grid"),
        ({"query": "sum", "column": "income", "bounds": {"to": 10**7}}, "not on the column's grid"),
        ({"query": "sum", "column": "income", "bounds": {"from": 50, "to": 0}}, "from is above to"),
        ({"query": "mean", "column": "income", "bounds": {"from": 0, "to": 0}}, "not below"),
        ({"query": "mean", "column": "income", "bounds": 10}, "expected {from"),
        ({"query": "sum", "column": "income", "bounds": {"up": 10}}, "no such setting"),
        ({"query": "unit_rows", "column": "income"}, "no such setting|unexpected|missing"),
        ({"query": "unit_rows", "at": 2}, "between 0 and 1"),
    ],
)
def test_bounds_that_do_not_fit_are_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidParameter, match=said):
        item_of({"name": "x", **settings}, "t").parts(SCHEMA)


def test_rows_of_units_need_several() -> None:
    item = UnitRows(name="rows", at=Fraction(1, 2))
    with pytest.raises(InvalidParameter, match="every row is a unit"):
        item.parts(Schema("p", SCHEMA.columns))
    with pytest.raises(InvalidParameter, match="rows = 1"):
        item.parts(Schema("p", SCHEMA.columns, unit="person"))
