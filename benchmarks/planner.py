"""No choice of noise of a user's gives a smaller largest error than the planner's, in 200 plans.

``python -m benchmarks.evidence planner`` goes on where it stopped: ten random plans a part, each
beside every choice of Gaussian or Laplace noise for its items.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np

from dpaudit.families.opaque import ApproxDP
from dpaudit.releases.items.counts import Count, Sum
from dpaudit.releases.items.item import GAUSSIAN, LAPLACE
from dpaudit.releases.plan import GAUSSIAN_95, LAPLACE_95, Plan, Release
from dpaudit.tabular import Category, Number, Schema

PLANS, AT_ONCE, SEED = 200, 10, 2
# A share of the planner's error: budgets are used to a thousandth; other noise must gain as much.
BETTER = 0.995

SCHEMA = Schema(
    "visits",
    {"age": Number(0, 100), "sex": Category(("f", "m"))},
    unit="person",
    entity="person",
    rows=3,
)


def planned(items: Any, budget: Any, adjacency: str = "add_remove") -> Plan:
    """The plan of some items on visits of people."""
    return Release("t", SCHEMA, adjacency, budget, tuple(items)).plan()


def errors(plan: Plan) -> dict[str, float]:
    """The 95% margin of each part, but for its rounding up to a whole number."""
    return {
        label: GAUSSIAN_95 * float(leaf.variance) ** 0.5
        if hasattr(leaf, "variance")
        else LAPLACE_95 * float(leaf.scale)
        for label, leaf in plan.leaves.items()
    }


def largest(plan: Plan, against: Plan) -> float:
    """The largest error of a part, relative to the other plan's."""
    base = errors(against)
    return max(error / base[label] for label, error in errors(plan).items())


def random_plan(rng: np.random.Generator) -> tuple[list[Any], Any, str]:
    """One to three items of four kinds, with weights, a budget and an adjacency."""
    kinds = (
        lambda n, w: Count(name=n, weight=w),
        lambda n, w: Count(name=n, weight=w, by="sex"),
        lambda n, w: Count(name=n, weight=w, by="sex", groups=1, per_group=1),
        lambda n, w: Sum(name=n, weight=w, column="age", by="sex"),
    )
    size = int(rng.integers(1, 4))
    items = [kinds[rng.integers(4)](f"i{i}", int(rng.integers(1, 5))) for i in range(size)]
    epsilon = Fraction(str(rng.choice(["0.3", "1", "2", "6"])))
    budget = ApproxDP(epsilon, Fraction(1, 10 ** int(rng.integers(4, 9))))
    return items, budget, str(rng.choice(["add_remove", "replace_one"]))


def ratios(items: list[Any], budget: Any, adjacency: str) -> dict[tuple[str, ...], float]:
    """The largest error of every fixed choice of noise, relative to the planner's."""
    chosen, found = planned(items, budget, adjacency), {}
    for kinds in product((GAUSSIAN, LAPLACE), repeat=len(items)):
        fixed = [replace(i, noise=kind) for i, kind in zip(items, kinds, strict=True)]
        found[kinds] = largest(planned(fixed, budget, adjacency), chosen)
    return found


def parts() -> list[str]:
    """Random plans by number, some at once."""
    return [f"{first} to {first + AT_ONCE - 1}" for first in range(1, PLANS + 1, AT_ONCE)]


def measured(part: str) -> Any:
    """Plans, choices, those that are better, and the smallest ratio, as JSON."""
    first = int(part.partition(" ")[0])
    found = [
        ratio
        for number in range(first, first + AT_ONCE)
        for ratio in ratios(*random_plan(np.random.default_rng((SEED, number)))).values()
    ]
    return [AT_ONCE, len(found), sum(r < BETTER for r in found), round(min(found), 4)]


def lines(held: Mapping[str, Any]) -> list[str]:
    """In one sentence, how often a user's choice is better."""
    plans, choices, better = (sum(row[k] for row in held.values()) for k in range(3))
    least = min(row[3] for row in held.values())
    return [
        f"{plans} random plans of one to three items, each beside every choice of Gaussian or "
        f"Laplace noise for its items ({choices} choices): {better} have a largest error below "
        f"{BETTER} times the planner's; the smallest is {least:g} times.",
    ]
