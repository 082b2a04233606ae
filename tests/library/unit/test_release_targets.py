"""Targets: errors that items must keep, the least budget that keeps them, and what misses them."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any

import pytest

from dpaudit.errors import InvalidParameter
from dpaudit.releases.plan import load_plan, release_of
from dpaudit.releases.targets import (
    CLOSE,
    errors_by_budget,
    met_by,
    weighted,
    with_value,
    worst_of,
)
from dpaudit.report.curves import errors_figure

PLAN: dict[str, Any] = {
    "title": "t",
    "adjacency": "add_remove",
    "budget": {"epsilon": "least", "delta": "1e-6"},
    "table": {
        "name": "people",
        "unit": "person",
        "entity": "person",
        "rows": 2,
        "columns": {
            "sex": {"kind": "category", "keys": ["f", "m"]},
            "age": {"kind": "number", "lower": 0, "upper": 100, "step": "1/2"},
        },
    },
    "items": [
        {"name": "persons", "query": "count", "per_group": 1, "error_95": 10},
        {"name": "ages", "query": "sum", "column": "age", "error_95": 800},
    ],
}


@pytest.mark.long_cases("{'epsilon': 'least', 'delta': '1e-6'}")
@pytest.mark.first_case
@pytest.mark.parametrize(
    "budget",
    [
        {"epsilon": "least", "delta": "1e-6"},
        {"epsilon": "least"},
        {"rho": "least"},
        {"mu": "least"},
    ],
    ids=str,
)
def test_the_least_budget_meets_every_target_and_a_smaller_one_does_not(budget: Any) -> None:
    release = release_of(PLAN | {"budget": budget})
    plan = release.plan()
    assert worst_of(plan) <= 1
    assert all(margin <= target for margin, target in met_by(plan).values())
    value = next(iter(release.budget.parameters.values()))
    less = with_value(release, value / CLOSE**2).searched()
    assert worst_of(less) > 1


@pytest.mark.quality
def test_weights_follow_from_targets() -> None:
    """Half the target of an item asks for four times its share of rho; both are just met."""
    made = weighted(release_of(PLAN | {"budget": {"rho": 1}}))
    persons, ages = made.items
    # 200 half years a person and row, two rows, over 800; one person over 10.
    assert ages.weight / persons.weight == (200 / 800 / (1 / 10)) ** 2
    plan = release_of(PLAN | {"budget": {"rho": "least"}}).plan()
    assert all(target * 4 / 5 < margin <= target for margin, target in met_by(plan).values())


def test_a_budget_that_misses_a_target_says_the_least_that_meets_all() -> None:
    table = PLAN | {"budget": {"epsilon": "0.1"}}
    said = r"item 'persons': error_95 would be .*, above 10; the least budget .* is PureDP"
    with pytest.raises(InvalidParameter, match=said) as caught:
        release_of(table).plan()
    found = re.search(r"epsilon=([^,)]*)", str(caught.value))
    assert found is not None
    assert release_of(table | {"budget": {"epsilon": found[1]}}).plan()


@pytest.mark.quality
def test_targets_of_some_items_alone_keep_the_weights() -> None:
    items = [PLAN["items"][0], {"name": "mean", "query": "mean", "column": "age", "weight": 3}]
    made = release_of(PLAN | {"items": items, "budget": {"rho": "least"}})
    assert [item.weight for item in weighted(made).items] == [1, 3]
    assert worst_of(made.plan()) <= 1


@pytest.mark.first_case
@pytest.mark.parametrize(
    "item",
    [
        {"query": "mean", "column": "age"},
        {"query": "top", "column": "sex"},
        {"query": "ranges", "column": "age", "edges": [10, 20]},  # sums of its counts err more
    ],
    ids=lambda item: item["query"],
)
def test_a_target_of_numbers_that_are_computed_is_refused_beside_any_item(item: Any) -> None:
    items = [{"name": "n", "query": "count"}, {"name": "c", "error_95": 30, **item}]
    with pytest.raises(InvalidParameter, match="no margin that is known in advance"):
        release_of(PLAN | {"items": items, "budget": {"rho": 1}}).plan()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"items": [{"name": "c", "query": "count"}]}, "asks for the least that meets targets"),
        ({"items": [{"name": "c", "query": "count", "error_95": 0}]}, "expected above 0"),
        (
            {"items": [{"name": "c", "query": "mean", "column": "age", "error_95": 3}]},
            "a mean has no margin that is known in advance",
        ),
        ({"budget": {"epsilon": 1, "delta": "least"}}, "budget.delta"),
    ],
)
def test_targets_that_cannot_be_met_are_refused(change: Any, said: str) -> None:
    with pytest.raises(InvalidParameter, match=said):
        release_of(PLAN | change).plan()


def test_a_plan_in_a_file_has_a_budget_that_was_found(tmp_path) -> None:
    (tmp_path / "plan.toml").write_text(
        'title = "t"\nadjacency = "add_remove"\nbudget = { epsilon = "least", delta = 1e-6 }\n'
        '[table]\nname = "t"\n[table.columns]\nage = { kind = "number", lower = 0, upper = 9 }\n'
        '[[items]]\nname = "n"\nquery = "count"\nerror_95 = 3\n'
    )
    found = load_plan(tmp_path / "plan.toml").budget
    assert 0.8 < float(found.parameters["epsilon"]) < 1.2


@pytest.mark.quality
@pytest.mark.first_case
@pytest.mark.parametrize("budget", [{"epsilon": 1, "delta": "1e-6"}, {"epsilon": 1}, {"rho": 1}])
def test_errors_at_other_budgets_fall_and_meet_the_plans_own(budget: Any) -> None:
    items = [{k: v for k, v in item.items() if k != "error_95"} for item in PLAN["items"]]
    plan = release_of(PLAN | {"budget": budget, "items": items}).plan()
    found = errors_by_budget(plan)
    assert list(found) == sorted(found)
    for label, part in plan.parts.items():
        errors = [errors[label] for errors in found.values()]
        assert errors == sorted(errors, reverse=True)
        own = float(plan.margins.half(label) * part.step)
        assert found[Fraction(1)][label] == pytest.approx(own, rel=0.02)
    axes = errors_figure(found, "epsilon", Fraction(1)).axes[0]
    assert [line.get_label() for line in axes.lines] == [*plan.parts, "the plan's budget"]
