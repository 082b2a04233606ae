"""What items are made of exact sums: extremes, rankings, regressions, and their plans' errors."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dpaudit.errors import InvalidParameter
from dpaudit.families.opaque import ApproxDP
from dpaudit.releases.items.by_name import item_of
from dpaudit.releases.items.choices import Quantiles, Top
from dpaudit.releases.items.item import Choice
from dpaudit.releases.items.regression import Regression
from dpaudit.releases.plan import Plan, Release
from dpaudit.releases.program import exact_values
from dpaudit.releases.publish import draw, published_rows
from dpaudit.releases.runs import counts_of
from dpaudit.scope import central
from dpaudit.tabular import Category, Counted, Number, Schema, Table

pa = pytest.importorskip("pyarrow")
pytest.importorskip("duckdb")

SCOPE = central("add_remove")
SCHEMA = Schema(
    "t", {"x": Number(0, 100), "y": Number(-500, 500), "key": Category(("a", "b", "c", "d"))}
)


def counted(counts: tuple[int, ...]) -> Counted:
    places = np.flatnonzero(counts)
    return Counted(places, np.array(counts)[places], len(counts))


def planned(*items: Any) -> Plan:
    return Release("t", SCHEMA, "add_remove", ApproxDP(1, "1e-6"), items).plan()


@pytest.mark.quality
def test_extremes_are_quantiles_near_the_ends_and_found_among_many_rows() -> None:
    """10^7 rows of x = 20 to 80: further off than a step has a probability of less than e^-1000."""
    low, high = (
        item_of({"query": q, "name": q, "column": "x"}, "i") for q in ("minimum", "maximum")
    )
    assert isinstance(low, Quantiles)
    assert isinstance(high, Quantiles)
    assert (low.at, high.at) == ((Fraction(1, 100),), (Fraction(99, 100),))
    far = item_of({"query": "maximum", "name": "m", "column": "x", "share": "0.001"}, "i")
    assert isinstance(far, Quantiles)
    assert far.at == (Fraction(999, 1000),)
    plan = planned(low, high)
    counts = tuple(10**7 // 61 if 20 <= x <= 80 else 0 for x in range(101))
    found = [item.values(SCHEMA, [[counted(counts)]]) for item in (low, high)]
    rows = published_rows(plan, draw(plan, {**found[0], **found[1]}))
    assert [row.value for row in rows] == [20, 80]
    with pytest.raises(InvalidParameter, match="share"):
        item_of({"query": "minimum", "name": "m", "column": "x", "share": "least"}, "i")


def test_the_largest_keys_come_in_order_and_none_twice() -> None:
    plan = planned(Top(name="top", column="key", k=3))
    drawn = draw(plan, {"top": counts_of(counted((10**6, 4 * 10**6, 0, 2 * 10**6)))})
    rows = published_rows(plan, drawn)
    assert [(row.keys[0][1], row.value) for row in rows] == [("b", 1), ("d", 2), ("a", 3)]


@pytest.mark.quality
def test_a_regression_of_exact_sums_is_that_of_the_rows() -> None:
    """Noise of a millionth of the rows, and squares on a grid of 2^-10: coefficients to 1%."""
    rng = np.random.default_rng(3)
    x = rng.integers(0, 101, 100_000)
    y = np.clip(3 * x - 100 + rng.integers(-20, 21, len(x)), -500, 500)
    keys = rng.choice(["a", "b", "c", "d"], len(x))
    item = Regression(name="line", target="y", features=("x",))
    plan = planned(item)
    table = Table(SCHEMA, pa.table({"x": x, "y": y, "key": keys})).opened("k")
    drawn = draw(plan, exact_values(plan.release, table))
    rows = {row.keys[0][1]: float(row.value or 0) for row in published_rows(plan, drawn)}
    slope, start = np.polyfit(x, y, 1)
    assert rows["x"] == pytest.approx(slope, rel=0.01)
    assert rows["(intercept)"] == pytest.approx(start, rel=0.01)


@pytest.mark.quality
def test_how_far_behind_a_choice_may_be_holds_19_times_in_20() -> None:
    """By the exact law, on evenly spread rows; an eighth of the bound fails."""
    item = Quantiles(name="q", column="x", at=("1/4",))
    plan = planned(item)
    (part,), (leaf,) = plan.parts.values(), plan.leaves.values()
    assert isinstance(part, Choice)
    (ranks,) = item.values(SCHEMA, [[counted((1,) * 101)]]).values()
    scores = ranks.at(np.arange(101)).astype(float)
    law = np.exp(float(leaf.parameters["epsilon"]) * scores / (2 * part.by(SCOPE.adjacency)))
    behind, rows = (scores.max() - scores) / 4, part.within(plan.margins)
    assert (law * (behind > rows)).sum() <= 0.05 * law.sum()
    assert (law * (behind > rows / 8)).sum() > 0.05 * law.sum()
