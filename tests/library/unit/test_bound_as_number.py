"""A bound as a number: its upper end, rounded upward; comparisons hold for all between the ends."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
import sympy
from hypothesis import given
from hypothesis import strategies as st

import dpaudit as dp
from dpaudit.accountant import account as module
from dpaudit.accountant.account import Bound
from dpaudit.errors import InvalidParameter

ENDS = st.fractions(min_value=0, max_value=10**6)


def bound(first: Fraction, second: Fraction) -> Bound:
    lower, upper = sorted((first, second))
    return Bound(lower, upper, "below", "above")


@given(ENDS, ENDS)
def test_a_float_is_the_least_above_the_upper_end(first: Fraction, second: Fraction) -> None:
    made = bound(first, second)
    assert Fraction(float(made)) >= made.upper
    assert Fraction(math.nextafter(float(made), -math.inf)) < made.upper


@given(ENDS, ENDS, st.sampled_from([".0f", ".3f", ".2e", ".4g", ",.1f", ".1%"]))
def test_a_text_is_rounded_upward(first: Fraction, second: Fraction, spec: str) -> None:
    made = bound(first, second)
    text = format(made, spec)
    value = Fraction(text.replace(",", "").rstrip("%")) / (100 if "%" in spec else 1)
    assert made.upper <= value <= made.upper * Fraction(2) + 1


def test_a_text_that_is_rounded_to_nearest_would_show(monkeypatch: pytest.MonkeyPatch) -> None:
    made = bound(Fraction(0), Fraction("1.0004"))
    assert f"{made:.3f}" == "1.001"
    monkeypatch.setattr(module, "ROUND_CEILING", "ROUND_HALF_EVEN")
    assert f"{made:.3f}" == "1.000"


@given(ENDS, ENDS, st.integers(0, 6))
def test_a_rounded_bound_is_above_the_upper_end(
    first: Fraction, second: Fraction, digits: int
) -> None:
    made = bound(first, second)
    assert 0 <= Fraction(round(made, digits)) - made.upper < Fraction(1, 10**digits)


@given(ENDS, ENDS, ENDS)
def test_numbers_between_the_ends_are_in_a_bound(
    first: Fraction, second: Fraction, value: Fraction
) -> None:
    made = bound(first, second)
    assert (value in made) == (made.lower <= value <= made.upper)
    assert made in made
    assert {made: 1}[bound(first, second)] == 1


@given(ENDS, ENDS, ENDS)
def test_a_comparison_holds_for_both_ends(
    first: Fraction, second: Fraction, than: Fraction
) -> None:
    made = bound(first, second)
    assert (made < than) == (made.upper < than)
    assert (made <= than) == (made.upper <= than)
    assert (made > than) == (made.lower > than)
    assert (made >= than) == (made.lower >= than)
    assert not (made < made)
    assert (than > made) == (made < than)


def test_what_is_infinite_or_no_number() -> None:
    infinite = Bound(Fraction(1), sympy.oo, "below", "none")
    assert float(infinite) == math.inf
    assert f"{infinite:.2f}" == "inf"
    assert not infinite < 5
    assert bound(Fraction(0), Fraction(1)) < math.inf
    for other in ("one", None, math.nan):
        with pytest.raises(InvalidParameter, match="beside a Bound"):
            _ = infinite < other  # type: ignore[operator]


def test_an_adjacency_is_scope_enough() -> None:
    noise = dp.Gaussian("count", 4)
    assert dp.account(noise, "replace_one").scope == dp.central("replace_one")
    with pytest.raises(InvalidParameter, match="add_remove"):
        dp.account(noise, "add-or-remove-one")
