"""A bound says what was asked and reached; extended precision is required by name."""

from __future__ import annotations

import pytest

import dpaudit as dp
from dpaudit.profiles.grid import values

SPLICED = dp.Repeat(dp.SampledWithoutReplacement(dp.Gaussian("g", 1), 10, 1000), 20)


def test_a_bound_that_is_wider_than_asked_says_so() -> None:
    opened = dp.account(SPLICED, dp.central("replace_one"), width=1e-4)
    bound = opened.epsilon("1e-5")
    assert bound.asked == 1e-4 < bound.width
    assert "asked for a width of 0.0001, reached" in str(bound)
    assert "times the time" in bound.shortfall


def test_a_bound_that_is_narrow_says_nothing() -> None:
    bound = dp.account(dp.Gaussian("g", 1), dp.central("add_remove")).epsilon("1e-5")
    assert bound.shortfall == ""
    assert str(bound).endswith(")")


def test_what_no_width_changes() -> None:
    bound = dp.account(dp.ZCDP(1), dp.central("add_remove")).epsilon("1e-5")
    assert "nothing is known to be reached" in bound.shortfall


def test_without_extended_precision_other_routes_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a platform whose longdouble is a float64: no profile, and an epsilon of another route."""
    node, scope = dp.Compose(dp.ZCDP("0.1"), dp.Laplace("l", 2)), dp.central("add_remove")
    assert "profile" in dp.account(node, scope).routes()
    with_profile = dp.account(node, scope).converted("profile", "1e-5")
    monkeypatch.setattr(values, "MANTISSA", 52)
    with pytest.raises(dp.Unsupported, match="longdouble has 52 bits"):
        dp.account(node, scope).converted("profile", "1e-5")
    without = dp.account(node, scope).epsilon("1e-5")
    assert without.upper_method != "convert.profile_to_approx"
    assert 0 < without.upper < 10 * with_profile.value[0]


def test_ends_beyond_the_floats_are_said() -> None:
    """Next to no noise: an epsilon beyond the largest float is a number like any other."""
    sgd = dp.Repeat(dp.PoissonSampled(dp.Gaussian("gradient", "1e-160"), "0.1"), 2)
    bound = dp.account(sgd, dp.central("add_remove")).epsilon("1e-5")
    assert bound.upper > 10**319
    assert "e320" in str(bound)
    assert "reached 1.8e+308" in bound.shortfall
