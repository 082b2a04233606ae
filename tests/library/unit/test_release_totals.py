"""A unit's total that is clipped, and how many units the limits change."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dpaudit.errors import InvalidParameter
from dpaudit.families.opaque import ApproxDP
from dpaudit.releases.items.counts import Affected, Sum
from dpaudit.releases.plan import Release, release_of
from dpaudit.releases.program import exact_values
from dpaudit.releases.publish import draw, published_rows
from dpaudit.scope import Adjacency
from dpaudit.tabular import Category, Number, Schema, Table
from dpaudit.tabular.engine import _Work

pa = pytest.importorskip("pyarrow")
pytest.importorskip("duckdb")

COLUMNS = {"cost": Number(0, 1000), "change": Number(-50, 50), "sex": Category(("f", "m"))}
SCHEMA = Schema("claims", COLUMNS, unit="person", entity="person", rows=100)
TOTAL = {"from": 0, "to": 2000}


def claims(persons: int = 2000, seed: int = 4) -> Any:
    """Up to 150 small claims a person; a few cost far more."""
    rng = np.random.default_rng(seed)
    sizes = rng.geometric(0.1, persons)
    sizes[:3] = 150
    person = np.repeat(np.arange(persons), sizes)
    cost = np.minimum(rng.gamma(1.0, 60.0, len(person)).round(), 1500)
    return pa.table(
        {
            "person": person,
            "cost": cost,
            "change": rng.integers(-50, 51, len(person)),
            "sex": np.array(["f", "m"])[person % 2],
        }
    )


def exact(item: Any, data: Any, schema: Schema = SCHEMA) -> Any:
    release = Release("t", schema, "add_remove", ApproxDP(1, "1e-6"), (item,))
    return exact_values(release, Table(schema, data).opened("k"))[item.name]


def test_a_sum_of_clipped_totals_is_that_of_each_units_clipped_total() -> None:
    """No person here has more rows than count, so that pandas computes the same sum."""
    data = claims().to_pandas()
    few = data.groupby("person").filter(lambda rows: len(rows) <= 100)
    costs = few["cost"].clip(0, 1000)
    for by in ((), ("sex",)):
        groups = [few["person"], *(few[name] for name in by)]
        totals = costs.groupby(groups).sum().clip(0, 2000)
        wanted = totals.groupby(level=1).sum() if by else [totals.sum()]
        item = Sum(name="costs", column="cost", by=by, unit_total=TOTAL)
        assert list(exact(item, pa.Table.from_pandas(few))) == [int(total) for total in wanted]


def moved_by_one_person(data: Any) -> int:
    """How far person 0, whose costs are the largest, moves the sum of clipped totals."""
    frame = data.to_pandas()
    item = Sum(name="costs", column="cost", unit_total=TOTAL)
    other = pa.Table.from_pandas(frame[frame["person"] != 0])
    return int(exact(item, data)[0]) - int(exact(item, other)[0])


def test_without_the_clip_one_person_moves_more_than_is_stated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Taken away: the line of the query that clips a unit's total."""
    (part,) = Sum(name="costs", column="cost", unit_total=TOTAL).parts(SCHEMA)
    stated, data = part.moves(Adjacency.ADD_REMOVE).absolute, claims(50)
    assert moved_by_one_person(data) <= stated
    real = _Work._query

    def query(self: _Work, total: Any, weight: str) -> str:
        return re.sub(r"least\(greatest\(s, [^)]*\), [^)]*\)", "s", real(self, total, weight))

    monkeypatch.setattr(_Work, "_query", query)
    assert moved_by_one_person(data) > stated


def test_clipped_totals_have_a_margin_many_times_smaller() -> None:
    """A person moves the sum by 2,000 in the place of 100,000: 50 times less noise."""

    def margin(**more: Any) -> float:
        item = Sum(name="costs", column="cost", **more)
        plan = Release("t", SCHEMA, "add_remove", ApproxDP(1, "1e-6"), (item,)).plan()
        return plan.margins.half("costs")

    assert margin() / margin(unit_total=TOTAL) == pytest.approx(50, rel=0.01)


def test_the_error_of_clipped_totals_is_smaller_beside_the_truth() -> None:
    """In 50 draws: the error with what is cut is a fifth of that without, at the same budget."""
    data = claims()
    truth = int(data["cost"].to_numpy().sum())
    errors = []
    for more in ({}, {"unit_total": {"to": 5000}}):
        item = Sum(name="costs", column="cost", **more)
        plan = Release("t", SCHEMA, "add_remove", ApproxDP(1, "1e-6"), (item,)).plan()
        values = {"costs": exact(item, data)}
        away = [draw(plan, values)["costs"][0] - truth for _ in range(50)]
        errors.append(float(np.sqrt(np.mean(np.square(np.array(away, dtype=float))))))
    assert errors[1] < errors[0] / 5


def test_the_page_says_that_totals_are_clipped() -> None:
    item = Sum(name="costs", column="cost", unit_total=TOTAL)
    said = item.not_covered(SCHEMA)
    assert said[-1] == "totals of one person outside 0 to 2000 count as the nearest bound"


def test_units_that_limits_change_are_counted() -> None:
    data = claims()
    frame = data.to_pandas()
    item = Affected(name="cut", column="cost", unit_total=TOTAL)
    few = frame.groupby("person").filter(lambda rows: len(rows) <= 100)
    totals = few["cost"].clip(0, 1000).groupby(few["person"]).sum()
    rows, outside, clipped = exact(item, data)
    assert rows == int((frame.groupby("person").size() > 100).sum()) >= 3
    assert outside == frame[frame["cost"] > 1000]["person"].nunique()
    assert clipped >= int((totals > 2000).sum())
    only = exact(item, pa.Table.from_pandas(few))
    assert only[0] == 0
    assert only[2] == int((totals > 2000).sum())


def test_counts_of_changed_units_have_words_and_margins() -> None:
    item = Affected(name="cut", column="cost", unit_total=TOTAL)
    plan = Release("t", SCHEMA, "add_remove", ApproxDP(1, "1e-6"), (item,)).plan()
    rows = published_rows(plan, draw(plan, {"cut": exact(item, claims())}))
    assert [row.statistic for row in rows] == [
        "count of each person with more rows than 100",
        "count of each person with a value of cost that is changed",
        "count of each person whose total of cost is not 0 to 2000",
    ]
    assert {row.covers for row in rows} == {"all (noise)"}
    single = Schema("rows", {"cost": Number(0, 100)})
    alone = Affected(name="cut", column="cost")
    assert exact(alone, pa.table({"cost": [1, 150, -3, 100]}), single) == (2,)


PLAN: dict[str, Any] = {
    "title": "t",
    "adjacency": "add_remove",
    "budget": {"epsilon": 1, "delta": "1e-6"},
    "table": {
        "name": "claims",
        "unit": "person",
        "entity": "person",
        "rows": 100,
        "columns": {"cost": {"kind": "number", "lower": -10, "upper": 1000, "step": "1/2"}},
    },
}


@pytest.mark.parametrize(
    ("ends", "said"),
    [
        ({"to": 20}, "unit_total.from: missing, and 'cost' can be below 0"),
        ({"from": 5, "to": 20}, "with 0 between them"),
        ({"from": -5, "to": -1}, "with 0 between them"),
        ({"from": 0, "to": "1/3"}, "multiples of 1/2"),
        ({"from": 0}, "expected {from"),
        (20, "expected {from"),
        ({"from": 0, "to": 20, "by": 1}, "no such setting"),
        ({"from": 0, "to": 2**53}, "choose a larger step"),
    ],
)
@pytest.mark.parametrize("query", ["sum", "affected"])
def test_ends_of_totals_that_do_not_fit_are_refused(ends: Any, said: str, query: str) -> None:
    item = {"name": "costs", "query": query, "column": "cost", "unit_total": ends}
    with pytest.raises(InvalidParameter, match=said.replace("{", r"\{")):
        release_of(PLAN | {"items": [item]}).plan()


def test_a_row_that_is_a_unit_has_no_total() -> None:
    table = {k: v for k, v in PLAN["table"].items() if k not in ("unit", "entity", "rows")}
    item = {"name": "c", "query": "sum", "column": "cost", "unit_total": {"from": 0, "to": 2}}
    with pytest.raises(InvalidParameter, match="every row is a unit"):
        release_of(PLAN | {"table": table, "items": [item]}).plan()
    with pytest.raises(InvalidParameter, match="without a unit no row is cut"):
        release_of(PLAN | {"table": table, "items": [{"name": "c", "query": "affected"}]}).plan()


def test_a_total_of_one_unit_with_a_million_rows_counts_once() -> None:
    rows = 10**6
    data = pa.table(
        {
            "person": np.r_[np.zeros(rows, dtype=int), 1],
            "cost": np.ones(rows + 1),
            "change": np.zeros(rows + 1),
            "sex": ["f"] * (rows + 1),
        }
    )
    item = Sum(name="costs", column="cost", unit_total={"to": 50})
    assert exact(item, data) == (51,)
    assert Fraction(item.parts(SCHEMA)[0].moves("add_remove").largest) == 50  # type: ignore[union-attr,arg-type]
