"""The planner chooses the kind of noise: no choice of a user's gives a smaller largest error."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest

from dpaudit.families.opaque import ZCDP, ApproxDP, PureDP
from dpaudit.releases import plan as plans
from dpaudit.releases.estimate import Excess
from dpaudit.releases.items.counts import Count, Sum
from dpaudit.releases.items.item import GAUSSIAN, LAPLACE
from dpaudit.releases.plan import GAUSSIAN_95, LAPLACE_95, Plan, Release
from dpaudit.tabular import Category, Number, Schema

SCHEMA = Schema(
    "visits",
    {"age": Number(0, 100), "sex": Category(("f", "m"))},
    unit="person",
    entity="person",
    rows=3,
)


def planned(items: Any, budget: Any, adjacency: str = "add_remove") -> Plan:
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


def better(items: list[Any], budget: Any, adjacency: str) -> list[str]:
    """The fixed choices whose largest error is below the planner's."""
    chosen, found = planned(items, budget, adjacency), []
    for kinds in product((GAUSSIAN, LAPLACE), repeat=len(items)):
        fixed = [replace(i, noise=kind) for i, kind in zip(items, kinds, strict=True)]
        ratio = largest(planned(fixed, budget, adjacency), chosen)
        # Budgets are used to a thousandth, and other noise must gain as much.
        if ratio < 0.995:
            found.append(f"{items} {budget} {adjacency} {kinds}: {ratio:.3f}")
    return found


def test_no_fixed_choice_is_better(monkeypatch: pytest.MonkeyPatch) -> None:
    items = [Count(name="n", per_group=1), Count(name="s", by="sex", groups=1, weight=2)]
    case = items, ApproxDP(1, Fraction(1, 10**6)), "add_remove"
    assert better(*case) == []
    monkeypatch.setattr(plans, "MOST_CHOSEN", 0)
    assert better(*case), "of Gaussian noise alone some choice is better"


@pytest.mark.first_case("noises")
@pytest.mark.parametrize(("epsilon", "delta"), [("1/3", "1e-4"), (1, "1e-6"), (6, "1e-9")])
@pytest.mark.parametrize("noises", [(GAUSSIAN,) * 3, (LAPLACE,) * 3, (GAUSSIAN, LAPLACE, LAPLACE)])
def test_an_estimate_is_near_the_composition(noises: Any, epsilon: Any, delta: Any) -> None:
    """Where the exact guarantee of a plan is the budget, its estimated delta is the budget's."""
    items = [
        Count(name="n", noise=noises[0], per_group=1),
        Count(name="s", noise=noises[1], by="sex", groups=1, per_group=1, weight=2),
        Sum(name="a", noise=noises[2], column="age"),
    ]
    budget = ApproxDP(epsilon, Fraction(delta))
    plan, cost = planned(items, budget), float(budget.epsilon)
    leaves = {k: [(leaf, 0.0)] for k, leaf in plan.leaves.items()}
    for part in (0.97, 1.03):
        excess = Excess(cost * part, float(budget.delta), lambda _: leaves, 0.0)
        assert (excess(1.0, [frozenset()])[0] > 0) is (part < 1)


@pytest.mark.parametrize("size", [5, 8, 10])
def test_a_plan_is_chosen_with_few_compositions(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each takes up to a second; kinds of noise are compared by estimates."""
    composed = []
    cost = plans._cost
    monkeypatch.setattr(plans, "_cost", lambda plan: composed.append(plan) or cost(plan))
    items = [Count(name=f"n{i}", by=("sex",) * (i % 2), weight=1 + i % 3) for i in range(size)]
    planned(items, ApproxDP(1, Fraction(1, 10**6)), "replace_one")
    assert len(composed) <= 3


@pytest.mark.quality
def test_no_fixed_choice_is_better_in_two_hundred_plans() -> None:
    rng = np.random.default_rng(2)
    assert [said for _ in range(200) for said in better(*random_plan(rng))] == []


@pytest.mark.parametrize("size", [1, 4, 7])
def test_a_delta_never_makes_errors_larger(size: int) -> None:
    """Within a thousandth of the budget, which a search with a delta leaves unused."""
    items = [Count(name=f"n{i}", per_group=1) for i in range(size)]
    pure, more = planned(items, PureDP(1)), planned(items, ApproxDP(1, Fraction(1, 10**6)))
    assert largest(more, pure) <= 1.002


def test_a_larger_budget_never_gives_larger_errors() -> None:
    items = [Count(name="n"), Count(name="s", by="sex", weight=2)]
    for budgets in (
        [ApproxDP(Fraction(e, 4), Fraction(1, 10**6)) for e in (1, 4, 16)],
        [ZCDP(Fraction(r, 8)) for r in (1, 16, 256)],
    ):
        made = [planned(items, budget) for budget in budgets]
        for less, more in pairwise(made):
            assert largest(more, less) < 1
