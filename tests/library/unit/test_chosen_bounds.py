"""Bounds and limits that a private quantile chose, and the numbers that they bound."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dpaudit as dp
from dpaudit.errors import Disagreement, InvalidParameter
from dpaudit.families.opaque import ZCDP, ApproxDP, PureDP
from dpaudit.nodes import Node
from dpaudit.releases.items.averages import Mean
from dpaudit.releases.items.by_name import item_of
from dpaudit.releases.items.choices import UnitRows
from dpaudit.releases.items.chosen import ChosenSum
from dpaudit.releases.items.counts import Sum
from dpaudit.releases.items.item import Item
from dpaudit.releases.plan import Release
from dpaudit.releases.program import exact_values
from dpaudit.releases.publish import NO_LEDGER, draw, publish, published_rows
from dpaudit.releases.runs import ChosenSums
from dpaudit.tabular import Category, Number, Schema, Table

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


def income(**bounds: Any) -> ChosenSum:
    asked = {"query": "sum", "name": "income", "column": "income", "bounds": bounds}
    found = item_of(asked, "items[0]")
    assert isinstance(found, ChosenSum)
    return found


# A budget, draws, and so many misses of a margin at 95% that they have a probability of 1e-4 at
# most.  Of the budget in make test, noise is found without a profile.
DRAWN = [
    (ZCDP("0.25"), 40, 10),
    pytest.param(ApproxDP(4, "1e-6"), 200, 25, marks=pytest.mark.quality),
]


def clipped_sums() -> tuple[int, Callable[[Fraction], Fraction]]:
    """How many incomes the table has, and their sum for an upper bound.

    A value is clipped once, however many rows have it.
    """
    counts = Counter(table()["income"].to_pylist())

    def clipped_to(bound: Fraction) -> Fraction:
        return sum((count * min(value, bound) for value, count in counts.items()), Fraction())

    return counts.total(), clipped_to


@pytest.mark.parametrize(("budget", "draws", "misses"), DRAWN)
def test_a_plan_chooses_a_bound_for_a_share_and_the_margin_follows_it(
    budget: Node, draws: int, misses: int
) -> None:
    schema = Schema("people", {"income": Number(-100, 10**6, 10)}, unit="person", rows=4)
    wide = Sum(name="wide", column="income")
    chosen = income(share="0.1", at="0.95")
    plan = Release("t", schema, "add_remove", budget, (chosen, wide)).plan()
    exact = exact_values(plan.release, Table(schema, table()).opened("key"))
    size, clipped_to = clipped_sums()
    missed, bounds, shares = 0, [], []
    for _ in range(draws):
        bound, total, other = published_rows(plan, draw(plan, exact))
        assert bound.statistic == "bound of income"
        bounds.append(bound.value)
        truth = clipped_to(bound.value)
        # Rounding to units of the bound is below a millionth of it a row.
        missed += abs(total.value - truth) > total.error + size * bound.value / 2**21
        shares.append(total.error / other.error)
        assert "beyond the chosen bound" in "".join(total.not_covered)
    assert missed < misses
    assert sorted(shares)[draws // 2] < Fraction(1, 50)
    assert 9000 < sorted(bounds)[draws // 2] < 12000
    low, high = plan.leaves["income/bound"], plan.leaves["income/sum"]
    assert {leaf.label for leaf in (low, high)} == {"income/bound", "income/sum"}


@pytest.mark.parametrize(("budget", "draws", "misses"), DRAWN)
def test_a_mean_of_chosen_bounds_is_near_and_its_margin_holds(
    budget: Node, draws: int, misses: int
) -> None:
    schema = Schema("people", {"income": Number(-100, 10**6, 10)}, unit="person", rows=4)
    asked = {"query": "mean", "name": "m", "column": "income"}
    chosen = item_of({**asked, "bounds": {"share": "0.1", "at": "0.95"}}, "items[0]")
    wide = item_of({**asked, "name": "wide"}, "items[1]")
    plan = Release("t", schema, "add_remove", budget, (chosen, wide)).plan()
    exact = exact_values(plan.release, Table(schema, table()).opened("key"))
    size, clipped_to = clipped_sums()
    assert exact["m/count"] == (size,)
    missed, shares = 0, []
    for _ in range(draws):
        bound, mean, other = published_rows(plan, draw(plan, exact))
        assert (bound.statistic, mean.statistic) == ("bound of income", "mean of income")
        truth = clipped_to(bound.value) / size
        missed += abs(mean.value - truth) > mean.error + bound.value / 2**21
        shares.append(mean.error / other.error)
        assert "beyond the chosen bound" in "".join(mean.not_covered)
    assert missed < misses
    assert sorted(shares)[draws // 2] < Fraction(1, 10)


def test_means_of_chosen_bounds_by_key_count_rows_with_a_value() -> None:
    """Cells in the order of keys; a row without a value is in no count."""
    columns = {"income": Number(0, 100, missing="drop"), "sex": Category(("f", "m"))}
    schema = Schema("people", columns)
    asked = {"query": "mean", "name": "m", "column": "income", "by": "sex"}
    item = item_of({**asked, "bounds": {"share": "0.5"}}, "t")
    release = Release("t", schema, "add_remove", PureDP(10**6), (item,))
    data = {"income": [10, 30, 50, None] * 500, "sex": ["f", "m", "m", "f"] * 500}
    plan, opened_table = release.plan(), Table(schema, pa.table(data)).opened("key")
    values = exact_values(release, opened_table)
    assert values["m/count"] == (500, 1000)
    _, women, men = published_rows(plan, draw(plan, values))
    assert (dict(women.keys), dict(men.keys)) == ({"sex": "f"}, {"sex": "m"})
    assert (abs(women.value - 10) < 1, abs(men.value - 40) < 1) == (True, True)
    few = published_rows(plan, {"m/bound": [0], "m/sum": [0, 0], "m/count": [0, -3]})
    assert [row.value for row in few[1:]] == [None, None]


@pytest.mark.parametrize(
    ("bounds", "said"),
    [
        ({"share": "0.1", "within": [0, 10**7]}, "two growing sizes up to 1000000"),
        ({"share": "0.1", "within": [50, 45]}, "two growing sizes"),
        ({"share": "0.1", "within": [5, 45]}, "a multiple of 10"),
        ({"share": "0.1", "within": 5}, "expected two numbers"),
        ({"share": 1}, "between 0 and 1"),
        ({"share": "0.1", "at": 2}, "between 0 and 1"),
        ({"share": "0.1", "to": 5}, "bounds.to: no such setting"),
    ],
)
def test_bounds_that_cannot_be_chosen_are_refused(bounds: Any, said: str) -> None:
    with pytest.raises(InvalidParameter, match=said):
        income(**bounds).parts(SCHEMA)


def test_limits_and_targets_of_chosen_bounds_are_refused() -> None:
    with pytest.raises(InvalidParameter, match="no groups"):
        replace(income(share="0.1"), groups=1)
    targeted = replace(income(share="0.1"), error_95=Fraction(10))
    asked = Release("t", SCHEMA, "add_remove", PureDP(1), (targeted,))
    with pytest.raises(InvalidParameter, match="has no margin that is known"):
        asked.plan()


@pytest.mark.quality
def test_a_certificate_of_chosen_bounds_is_true_and_of_unclipped_sums_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = Schema("people", {"income": Number(0, 1000)}, unit="person", rows=1)
    asked = Release("t", schema, "add_remove", ApproxDP(1, "1e-6"), (income(share="0.1"),))
    done = publish(asked.plan(), table(50), tmp_path / "a", ledger=NO_LEDGER)
    assert done.verdict == "certified_under_assumptions"

    def unclipped(self: ChosenSums, place: int) -> tuple[int, ...]:
        scaled = (self.codes << self.unit_bits) // int(self.ends[place])
        return (int((scaled * self.counts).sum()),)

    monkeypatch.setattr(ChosenSums, "at", unclipped)
    with pytest.raises(Disagreement):
        publish(asked.plan(), table(50), tmp_path / "b", ledger=NO_LEDGER)


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


def test_values_are_scaled_exactly_up_to_the_largest_codes() -> None:
    """Beside Python's whole numbers; products of 52 and 20 bits are beyond those of 64."""
    rng = np.random.default_rng(7)
    for bits in (3, 20, 42, 43, 52):
        for end in (1, 2**bits, 2**bits - 1, int(rng.integers(1, 2**bits + 1))):
            codes = rng.integers(-(2**bits), 2**bits + 1, 50)
            clipped = [min(max(int(code), -end), end) for code in codes]
            made = ChosenSums(
                np.arange(50), codes, np.ones(50, dtype=np.int64), np.array([end]), 50, 20
            ).at(0)
            assert list(made) == [(2 * 2**20 * code + end) // (2 * end) for code in clipped]
            assert max(map(abs, made)) <= 2**20
