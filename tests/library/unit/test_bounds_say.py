"""A bound says what was asked and reached; extended precision is required by name."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

import dpaudit as dp
from dpaudit.grids import values

F = Fraction
REPLACED = dp.central("replace_one")
SPLICED = dp.Repeat(dp.SampledWithoutReplacement(dp.Laplace("l", 1), 10, 1000), 20)


def test_a_bound_that_is_wider_than_asked_says_so_and_what_more_would_cost() -> None:
    noisy = dp.Compose(dp.Gaussian("g", 1), dp.Laplace("l", 1))
    bound = dp.account(noisy, REPLACED, width=1e-13).epsilon("1e-5")
    assert bound.asked == 1e-13 < bound.width
    assert "asked for a width of 1e-13, reached" in str(bound)
    assert "times the time" in bound.shortfall


def test_no_time_is_promised_that_floats_do_not_keep() -> None:
    """To ask a thousand times less brings these ends no closer: what it costs is a bound alone."""
    noisy = dp.Compose(dp.Gaussian("g", 1), dp.Laplace("l", 1))
    near, nearer = (dp.account(noisy, REPLACED, width=w).epsilon("1e-5") for w in (1e-11, 1e-14))
    assert nearer.asked is not None
    assert nearer.width > near.width / 2 > 10 * nearer.asked
    assert "at least" in nearer.shortfall
    assert "no closer than the largest grids and 53-bit floats" in nearer.shortfall


def test_a_gap_between_theorems_is_told_from_one_that_time_closes() -> None:
    """Were the dominating pair reached, a smaller width would be said to take longer."""
    bound = dp.account(SPLICED, REPLACED, width=1e-4).epsilon("1e-5")
    assert "what dominates (Spliced) is nothing known to be reached" in bound.shortfall
    assert bound.step is not None
    (base,) = bound.step.premises
    losses = base.value
    reached = replace(losses, reached_remove=losses.remove, reached_add=losses.add)
    step = replace(bound.step, premises=(replace(base, value=reached),))
    assert "times the time" in replace(bound, step=step).shortfall


def test_deltas_say_what_was_asked_relative_to_them() -> None:
    bound = dp.account(SPLICED, REPLACED).delta(F(1, 10))
    assert bound.asked == pytest.approx(float(bound.upper) / 1000)
    assert "Spliced" in bound.shortfall
    trusted = dp.account(dp.PureDP(1), dp.central("add_remove")).delta(F(1, 2))
    assert trusted.lower_method == "none"
    assert "nothing is known to be reached" in trusted.shortfall
    sharp = dp.account(dp.Compose(dp.Gaussian("g", 1), dp.Laplace("l", 1)), REPLACED).delta(1)
    assert sharp.shortfall == ""


def test_turns_that_meet_are_a_gap_between_theorems_at_epsilon_and_at_delta() -> None:
    """Of a delta the pairs of the noise below were looked at, all of which are reached."""
    rows = dp.CorrelatedGaussian("prefix", 4, 64, "tree", dp.Participation(8, 8))
    turns = dp.account(dp.CyclicPoisson(rows, groups=8, rate="0.1"), dp.central("add_remove"))
    for bound in (turns.delta(1), turns.epsilon("1e-5")):
        assert "what dominates (DrawnMoves) is nothing known to be reached" in bound.shortfall


def test_a_bound_that_is_narrow_says_nothing() -> None:
    bound = dp.account(dp.Gaussian("g", 1), dp.central("add_remove")).epsilon("1e-5")
    assert bound.shortfall == ""
    assert str(bound).endswith(")")


def test_what_no_width_changes() -> None:
    bound = dp.account(dp.ZCDP(1), dp.central("add_remove")).epsilon("1e-5")
    assert "nothing is known to be reached" in bound.shortfall


@pytest.mark.quality
def test_without_extended_precision_other_routes_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a platform whose longdouble is a float64: no profile, and an epsilon of another route."""
    node, scope = dp.Compose(dp.ZCDP("0.1"), dp.Laplace("l", 2)), dp.central("add_remove")
    assert "profile" in dp.account(node, scope).routes()
    with_profile = dp.account(node, scope).converted("profile", "1e-5")
    monkeypatch.setattr(values, "MANTISSA_BITS", 52)
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


@pytest.mark.first_case
@pytest.mark.parametrize("width", [1e-4, 1e-6, pytest.param(1e-9, marks=pytest.mark.quality)])
def test_next_to_the_largest_loss_the_lower_end_is_near(width: float) -> None:
    """Both losses at their largest have mass 1/4: delta at 15/8 - s is about s / 4."""
    two = dp.Compose(dp.Laplace("a", 1), dp.Laplace("b", "8/7"))
    bound = dp.account(two, dp.central("replace_one"), width=width).epsilon("1e-5")
    assert 1.8749 < bound.lower <= 1.875 - 4e-5 + 1e-9 <= bound.upper + 1e-9 < 1.87497
