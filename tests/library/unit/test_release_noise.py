"""The planner chooses the kind of noise: no choice of a user's gives a smaller largest error."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from typing import Any

import pytest

from benchmarks import planner
from benchmarks.evidence import Results
from benchmarks.planner import BETTER, largest, planned, ratios
from dpaudit.families.opaque import ZCDP, ApproxDP, PureDP
from dpaudit.releases import plan as plans
from dpaudit.releases.estimate import Excess
from dpaudit.releases.items.counts import Count, Sum
from dpaudit.releases.items.item import GAUSSIAN, LAPLACE


@pytest.mark.quality
def test_no_fixed_choice_is_better(monkeypatch: pytest.MonkeyPatch) -> None:
    items = [Count(name="n", per_group=1), Count(name="s", by="sex", groups=1, weight=2)]
    case = items, ApproxDP(1, Fraction(1, 10**6)), "add_remove"
    assert min(ratios(*case).values()) >= BETTER
    monkeypatch.setattr(plans, "MOST_CHOSEN", 0)
    assert min(ratios(*case).values()) < BETTER, "of Gaussian noise alone some choice is better"


@pytest.mark.long_cases(
    "noises0-6-1e-9",
    "noises1-1/3-1e-4",
    "noises1-1-1e-6",
    "noises1-6-1e-9",
    "noises2-1/3-1e-4",
    "noises2-1-1e-6",
    "noises2-6-1e-9",
)
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
    leaves = plan.leaves
    for part in (0.97, 1.03):
        excess = Excess(
            cost * part, float(budget.delta), [*leaves], lambda label, *_: (leaves[label], 0.0), 0.0
        )
        assert (excess(1.0, [frozenset()])[0] > 0) is (part < 1)


@pytest.mark.first_case
@pytest.mark.parametrize("size", [5, 8, 10])
def test_a_plan_is_chosen_with_few_compositions(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each takes up to a second; kinds of noise are compared by estimates."""
    composed = []
    cost = plans._cost
    monkeypatch.setattr(plans, "_cost", lambda plan: composed.append(plan) or cost(plan))
    items = [Count(name=f"n{i}", by=("sex",) * (i % 2), weight=1 + i % 3) for i in range(size)]
    planned(items, ApproxDP(1, Fraction(1, 10**6)), "replace_one")
    assert len(composed) <= 3


def test_no_fixed_choice_is_better_in_the_recorded_plans() -> None:
    """As measured by `python -m benchmarks.evidence planner`, all of them."""
    held = Results().of("planner")
    assert sum(row[0] for row in held.values()) == planner.PLANS
    assert [part for part, (_, _, better, _) in held.items() if better] == []


@pytest.mark.quality
def test_recorded_plans_are_planned_again() -> None:
    part = planner.parts()[0]
    assert planner.measured(part) == Results().of("planner")[part]


@pytest.mark.first_case
@pytest.mark.parametrize("size", [1, 4, 7])
def test_a_delta_never_makes_errors_larger(size: int) -> None:
    """Within a thousandth of the budget, which a search with a delta leaves unused."""
    items = [Count(name=f"n{i}", per_group=1) for i in range(size)]
    pure, more = planned(items, PureDP(1)), planned(items, ApproxDP(1, Fraction(1, 10**6)))
    assert largest(more, pure) <= 1.002


@pytest.mark.quality
def test_a_larger_budget_never_gives_larger_errors() -> None:
    items = [Count(name="n"), Count(name="s", by="sex", weight=2)]
    for budgets in (
        [ApproxDP(Fraction(e, 4), Fraction(1, 10**6)) for e in (1, 4, 16)],
        [ZCDP(Fraction(r, 8)) for r in (1, 16, 256)],
    ):
        made = [planned(items, budget) for budget in budgets]
        for less, more in pairwise(made):
            assert largest(more, less) < 1
