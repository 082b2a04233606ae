"""Targets: errors that items must keep, the least budget that keeps them, and what misses them."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from benchmarks.margins import CASES, COUNTS, GAUSSIAN, NAMES, PERSONS, SCHEMA, TOTALS, noisy
from dpaudit.errors import InvalidParameter
from dpaudit.releases import targets
from dpaudit.releases.items.counts import Affected, Count, Sum
from dpaudit.releases.plan import Plan, Release, load_plan, release_of
from dpaudit.releases.post import Step
from dpaudit.releases.publish import published_rows
from dpaudit.releases.targets import (
    CLOSE,
    LARGEST,
    errors_by_budget,
    met_by,
    published_margin,
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


# --- targets hold for what is published, after all steps -----------------------------------------

STEPPED = CASES | {
    "expanded": (COUNTS, (Step("expand", NAMES, Fraction(10)),)),
    "consistent, rounded": (
        COUNTS,
        (Step("consistent", NAMES), Step("round", NAMES, Fraction(5))),
    ),
}


def margins_drawn(plan: Plan) -> dict[str, set[Any]]:
    """The margins of each item's numbers in one draw of the release."""
    rng = np.random.default_rng(2)
    values = {label: rng.integers(0, 30, part.cells).tolist() for label, part in plan.parts.items()}
    drawn: dict[str, set[Any]] = {item.name: set() for item in plan.release.items}
    for row in published_rows(plan, noisy(plan, values, rng)):
        drawn[row.item].add(row.error)
    return drawn


@pytest.mark.first_case("step", by=lambda step: step.partition(",")[0])
@pytest.mark.parametrize("step", STEPPED)
def test_the_margin_of_a_plan_is_the_published_one_or_a_target_is_refused(step: str) -> None:
    items, steps = STEPPED[step]
    schema = PERSONS if items[-1] in TOTALS else SCHEMA
    plan = Release("t", schema, "add_remove", GAUSSIAN, items, steps).plan()
    kinds = {item.name: {s.kind for s in steps if item.name in s.items} for item in items}
    for item in items:
        drawn = {"expand"} & kinds[item.name] or {"consistent", "non_negative"} <= kinds[item.name]
        if isinstance(item, Count | Sum | Affected) and not drawn:
            assert margins_drawn(plan)[item.name] == {published_margin(plan, item)}
            continue
        with pytest.raises(InvalidParameter, match=r"no plan knows|no margin that is known"):
            published_margin(plan, item)


COUNTED: dict[str, Any] = PLAN | {
    "items": [
        {"name": "all", "query": "count", "error_95": 20},
        {"name": "sexes", "query": "count", "by": "sex", "error_95": 20},
    ],
    "post": [
        {"step": "consistent", "items": ["all", "sexes"]},
        {"step": "round", "items": ["all", "sexes"], "to": 5},
    ],
}


def largest_published() -> float:
    """The largest margin of the numbers that the least budget of a rounded table publishes."""
    return max(map(max, margins_drawn(release_of(COUNTED).plan()).values()))


def test_the_least_budget_keeps_targets_after_rounding(monkeypatch: pytest.MonkeyPatch) -> None:
    assert 18 < largest_published() <= 20
    monkeypatch.setattr(targets, "added", lambda *of_steps: (Fraction(0), True))
    assert largest_published() > 20


def test_errors_at_other_budgets_are_those_of_published_numbers() -> None:
    """Rounding adds to all of them what no budget takes away."""
    items = [{k: v for k, v in item.items() if k != "error_95"} for item in COUNTED["items"]]
    plan = release_of(COUNTED | {"budget": {"epsilon": 1}, "items": items}).plan()
    found = errors_by_budget(plan)
    for item, least in zip(plan.release.items, (2.5, 5), strict=True):
        assert found[Fraction(1)][item.name] == pytest.approx(float(published_margin(plan, item)))
        assert min(errors[item.name] for errors in found.values()) >= least


@pytest.mark.parametrize(
    ("post", "said"),
    [
        ({"step": "non_negative", "items": ["all", "sexes"]}, "after the step 'non_negative' of"),
        ({"step": "expand", "items": ["all"], "to": 10}, "after the step 'expand' follows"),
        ({"step": "round", "items": ["all", "sexes"], "to": 50}, "'round' alone adds 25 to its"),
    ],
    ids=lambda given: given["step"] if isinstance(given, dict) else "",
)
@pytest.mark.parametrize("budget", [{"rho": 1}, {"rho": "least"}], ids=str)
def test_a_target_that_no_plan_keeps_after_a_step_is_refused(
    budget: Any, post: Any, said: str
) -> None:
    steps = [COUNTED["post"][0], post]
    with pytest.raises(InvalidParameter, match=f"item 'all': error_95.*{said}"):
        release_of(COUNTED | {"budget": budget, "post": steps}).plan()


@pytest.mark.first_case
@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "budget",
    [{"epsilon": 1, "delta": "1e-6"}, {"epsilon": "least"}, {"rho": "least"}, {"mu": "least"}],
    ids=str,
)
def test_a_target_beyond_every_budget_names_itself_and_its_least_margin(budget: Any) -> None:
    items = [PLAN["items"][0], PLAN["items"][1] | {"error_95": "0.5"}]
    said = rf"no budget up to \w+\(\w+={LARGEST}\b.* of 'ages' is .* there, above 0.5"
    with pytest.raises(InvalidParameter, match=said):
        release_of(PLAN | {"items": items, "budget": budget}).plan()


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
