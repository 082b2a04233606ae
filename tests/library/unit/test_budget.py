"""Error budgets: spent once, never above the total, exact in any order; bad input."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest

from dpaudit.audit.bounds.budget import ErrorBudget, Spent
from dpaudit.errors import BudgetExceeded, InvalidParameter


def test_shares_of_the_total_are_spent_once() -> None:
    budget = ErrorBudget(0.05, owner="noisy_max")
    assert budget.spend(0.5, "pairs") == 0.025
    assert budget.spend(Fraction(1, 4), "thresholds") == 0.0125
    assert budget.left == 0.0125
    assert budget.total == 0.05
    assert budget.entries == (Spent("pairs", 0.025), Spent("thresholds", 0.0125))
    with pytest.raises(BudgetExceeded, match="noisy_max: attacks asks for"):
        budget.spend(0.26, "attacks")
    assert budget.left == 0.0125
    assert budget.spend(0.25, "attacks") == 0.0125
    with pytest.raises(BudgetExceeded):
        budget.spend(1e-9, "more")
    with pytest.raises(BudgetExceeded):
        budget.split(2)


@pytest.mark.parametrize("total", [0.05, 1e-4, Fraction(1, 3), 1e-60])
@pytest.mark.parametrize("parts", [1, 2, 3, 7, 1_000])
def test_parts_together_never_exceed_the_total(total: Any, parts: int) -> None:
    budget = ErrorBudget(total)
    errors = [part.spend(1, "bound") for part in budget.split(parts, "pair")]
    assert len(set(errors)) == 1
    exact = Fraction(str(total)) if isinstance(total, float) else total
    assert sum(Fraction(str(error)) for error in errors) <= exact
    assert errors[0] == pytest.approx(float(exact) / parts, rel=1e-15)
    assert budget.left == 0
    assert budget.entries[0].what == "pair 1"


def test_tenths_add_up_to_the_whole() -> None:
    """Ten floats of 0.1 overshoot 1 in binary; ten shares of a tenth are exactly everything."""
    budget = ErrorBudget(0.05)
    for k in range(10):
        budget.spend(0.1, f"part {k}")
    assert budget.left == 0


def test_weights_divide_what_is_left() -> None:
    budget = ErrorBudget(0.04)
    budget.spend(0.5, "conformance")
    bounds, curve = budget.divide([3, 1], ["bounds", "curve"])
    assert (bounds.total, curve.total) == (0.015, 0.005)
    assert bounds.owner == "bounds"
    assert bounds.spend(1, "epsilon") == 0.015
    assert curve.left == 0.005


def test_a_float_handed_out_is_rounded_down() -> None:
    for total in (0.05, 0.1, 1e-3):
        error = ErrorBudget(total).spend(Fraction(1, 3), "bound")
        assert Fraction(str(error)) <= Fraction(str(total)) / 3
        assert Fraction(str(math.nextafter(error, 1))) > Fraction(str(total)) / 3


@pytest.mark.parametrize("total", [0.0, 1.0, -0.1, math.nan, math.inf, 1e-91, "a", None, True])
def test_totals_are_refused(total: Any) -> None:
    with pytest.raises(InvalidParameter, match="error budget"):
        ErrorBudget(total)


def test_shares_parts_and_weights_are_refused() -> None:
    budget = ErrorBudget(0.05)
    for share in (0.0, -0.5, 1.5, math.nan, "half"):
        with pytest.raises(InvalidParameter, match="share"):
            budget.spend(share, "x")  # type: ignore[arg-type]
    with pytest.raises(InvalidParameter, match="words"):
        budget.spend(0.5, "")
    for parts in (0, -1, 2.0, "2", 0.5):
        with pytest.raises(InvalidParameter, match="parts"):
            budget.split(parts)  # type: ignore[arg-type]
    for weights, names in (([], []), ([1, 0], ["a", "b"]), ([1], ["a", "b"]), ([-1], ["a"])):
        with pytest.raises(InvalidParameter, match="weights"):
            budget.divide(weights, names)
    with pytest.raises(BudgetExceeded, match="too little"):
        ErrorBudget(1e-89).split(1_000)
    assert budget.left == 0.05
    assert budget.entries == ()
