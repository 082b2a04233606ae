"""Ends next to epsilon 0, ends that must not rise with epsilon or with a population."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from typing import Any

import flint
import numpy as np
import pytest
from scipy import integrate, stats

import dpaudit as dp
from dpaudit import profiles
from dpaudit.check.profile.coarse import coarser, is_computed
from dpaudit.check.profile.conversions import confirm_upper
from dpaudit.families.events import ProposeTestRelease
from dpaudit.grids.discrete import Grid, NoLower, Side
from dpaudit.pairs import Allocated, Clones, LaplaceShift, Mixed, Normal, Pair, product
from dpaudit.pairs.tallied import _tail
from dpaudit.profiles import answers
from dpaudit.profiles.fourier.plan import Table
from dpaudit.profiles.fourier.smooth import series, smooth_product
from dpaudit.profiles.interval import Interval

SAMPLED = product([(Mixed(Normal(Fraction(1)), Fraction(1, 100)), Fraction(1000))])
NOISY = product([(Normal(Fraction(1)), Fraction(1)), (LaplaceShift(Fraction(1)), Fraction(1))])
SMALL = ("0", "1e-20", "1e-15", "1e-14", "1e-12", "1e-10", "1e-9")


@pytest.mark.parametrize("pair", [SAMPLED, NOISY])
def test_ends_next_to_epsilon_0(pair: Pair) -> None:
    """delta falls by at most expm1(epsilon) from the one at 0, and is answered as narrowly."""
    found = [profiles.delta_interval(pair, at) for at in SMALL]
    for at, interval in zip(SMALL, found, strict=True):
        assert interval.upper - interval.lower <= Fraction(1, 1000) * interval.upper
        assert interval.upper >= found[0].lower - Fraction(math.expm1(float(at)))
        assert interval.lower <= found[0].upper


def test_total_variation_of_gaussian_and_laplace_noise() -> None:
    """Against an integral: of delta of the normal pair over the Laplace pair's loss."""

    def normal(epsilon: float) -> float:
        return float(
            stats.norm.cdf(0.5 - epsilon) - math.exp(epsilon) * stats.norm.cdf(-0.5 - epsilon)
        )

    ends = 0.5 * normal(-1.0) + math.exp(-1) / 2 * normal(1.0)
    inside, _ = integrate.quad(
        lambda x: math.exp(-(1 - x)) / 2 * normal(-(2 * x - 1)), 0, 1, epsabs=1e-13
    )
    found = profiles.delta_interval(NOISY, "1e-14")
    assert float(found.lower) - 1e-9 <= ends + inside <= float(found.upper) + 1e-9


def test_a_smoothing_that_no_float_bounds_is_not_made() -> None:
    made = smooth_product(tuple((LaplaceShift(Fraction(1, k)), 1) for k in range(1, 10)))
    assert made is not None
    plan = Table.of(made).for_epsilon(0.0, 1e-3)
    assert plan is not None
    assert plan.sigma < 1
    assert series(made, plan) is not None
    assert series(made, replace(plan, sigma=100.0, frequencies=2)) is None


def test_a_narrower_width_is_answered_no_wider(monkeypatch: pytest.MonkeyPatch) -> None:
    """1e-5 had 3.1e-5 where 1e-4 has 1.7e-5: a plan that is too much is made again, coarser."""
    asked: list[float] = []

    def found(pair: Any, delta: Any, width: float, *rest: Any) -> Interval:
        asked.append(width)
        half = Fraction(1, 10**5) * (1 if width > 9e-5 else 9)
        return Interval(1 - half, 1 + half)

    monkeypatch.setattr(answers, "_epsilon", found)
    wide, narrow = (answers.epsilon_interval(Normal(Fraction(1)), "1e-5", w) for w in (1e-4, 1e-6))
    assert (narrow.lower, narrow.upper) == (wide.lower, wide.upper)
    assert asked == pytest.approx([1e-4, 1e-6, 1e-5, 1e-4])


# --- random allocation ----------------------------------------------------------------------------


@pytest.mark.quality
@pytest.mark.parametrize("times", [1, 3])
def test_upper_ends_of_random_allocation_fall_with_epsilon(times: int) -> None:
    run = dp.account(
        dp.Repeat(dp.RandomAllocation(dp.Gaussian("g", 2), 100), times), dp.central("add_remove")
    )
    found = [run.delta(at) for at in ("0.5", "1", "2", "5")]
    assert all(one.upper > other.upper for one, other in pairwise(found))
    assert all(bound.upper <= 2 * bound.lower for bound in found[:-1])


@pytest.mark.quality
def test_upper_ends_do_not_rise_where_nothing_but_a_floor_is_left() -> None:
    bands = dp.BandedToeplitz(("1", "0.5", "0.375", "0.3125"))
    rows = dp.CorrelatedGaussian("prefix", 2, 400, bands, dp.Participation(100, 4))
    run = dp.account(dp.CyclicPoisson(rows, groups=4, rate="0.04"), dp.central("add_remove"))
    uppers = [run.delta(at).upper for at in (60, 100, 700)]
    assert uppers == sorted(uppers, reverse=True)
    assert uppers[0] < Fraction(1, 10**290)


@pytest.mark.quality
@pytest.mark.first_case
@pytest.mark.parametrize("rounds", [2, 3])
def test_beyond_all_finite_losses_delta_is_what_is_told(rounds: int) -> None:
    """A run that passes tells all with 10^-6 where nothing is stable: 1 was answered from 17 on.

    Delta is at least 1 - (1 - 10^-6)^rounds, that of rounds without a stable data set.
    """
    tested = ProposeTestRelease(
        dp.Laplace("t", 1), dp.Gaussian("r", 2), false_pass=Fraction(1, 10**6)
    )
    run = dp.account(dp.Repeat(tested, rounds), dp.central("add_remove"))
    told = -math.expm1(rounds * math.log1p(-1e-6))
    uppers = [float(run.delta(at).upper) for at in (12, 20, 60)]
    assert uppers == sorted(uppers, reverse=True)
    assert told * (1 - 1e-9) <= uppers[-1] <= uppers[0] <= told * (1 + 1e-3)


@pytest.mark.quality
@pytest.mark.parametrize("rho", [50, pytest.param(300, marks=pytest.mark.quality)])
def test_much_concentrated_loss_has_a_profile(rho: int) -> None:
    """No order in floats is best far below rho: it was refused.  Gaussian noise is less private."""
    run = dp.account(dp.ZCDP(rho), dp.central("replace_one"))
    least = dp.account(dp.GDP(10 if rho == 50 else "24.494897"), dp.central("replace_one"))
    for at in (0, 2 * rho):
        assert least.delta(at).upper * (1 - Fraction(1, 10**9)) <= run.delta(at).upper <= 1
    assert least.epsilon("1e-6").upper <= run.epsilon("1e-6").upper < 5 * rho
    assert run.converted("profile", "1e-6").value[0] < 5 * rho


@pytest.mark.quality
def test_noise_far_below_a_move_is_cut_without_a_warning() -> None:
    pair = Allocated(Fraction(1, 100), Fraction(100))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for side in Side:
            found = pair.swapped.on_grid(Grid(Fraction(1, 4), 1e-12), side)
            assert np.all(np.isfinite(found.masses))
        bound = dp.account(
            dp.RandomAllocation(dp.Gaussian("g", "0.01"), 100), dp.central("add_remove")
        ).epsilon("1e-5")
    assert bound.upper - bound.lower < 5


# --- more reports ---------------------------------------------------------------------------------


def _clones(others: int) -> Clones:
    return Clones(Fraction(2), Fraction(1, 2), Fraction(1, 4), Fraction(others))


@pytest.mark.quality
def test_delta_of_clones_falls_with_their_number() -> None:
    """By sums over all counts: one report more is drawn alike on either side."""

    def delta(others: int, x: float) -> float:
        law = stats.binom(others, 0.25)
        p: dict[tuple[int, int], float] = {}
        q: dict[tuple[int, int], float] = {}
        own = 0.5 * math.exp(2) / (1 + math.exp(2))
        for c in range(others + 1):
            for a in range(c + 1):
                mass = law.pmf(c) * stats.binom(c, 0.5).pmf(a)
                for at, one, other in (
                    ((a + 1, c - a), own, 0.5 - own),
                    ((a, c - a + 1), 0.5 - own, own),
                    ((a, c - a), 0.5, 0.5),
                ):
                    p[at] = p.get(at, 0.0) + mass * one
                    q[at] = q.get(at, 0.0) + mass * other
        return sum(max(p[at] - x * q[at], 0.0) for at in p)

    for x in (1.0, 1.2, 2.0):
        found = [delta(others, x) for others in (0, 1, 2, 5, 12)]
        assert found == sorted(found, reverse=True)
        mine = profiles.delta_interval(_clones(12), Fraction(math.log(x)))
        assert float(mine.lower) - 1e-9 <= found[-1] <= float(mine.upper) + 1e-9


@pytest.mark.quality
def test_more_reports_than_are_computed_with_hide_as_well() -> None:
    scope = dp.central("replace_one")
    run = dp.account(dp.Shuffled(dp.RandomizedResponse("p", 2), 10**15), scope)
    few = dp.account(dp.Shuffled(dp.RandomizedResponse("p", 2), 10**9), scope)
    assert run.epsilon("1e-5").upper <= few.epsilon("1e-5").upper < Fraction(1, 1000)
    with pytest.raises(NoLower):
        _clones(10**15).on_grid(Grid(Fraction(1, 64), 1e-12), Side.LOWER)


@pytest.mark.quality
def test_a_checker_takes_fewer_reports_for_more() -> None:
    many = _clones(10**15)
    assert not is_computed(many)
    assert is_computed(coarser(many))
    row = {"form": "fourier", "step": "1/64", "tilt": "100"}
    assert confirm_upper(many, Fraction(1, 50), Fraction(1, 10**5), row)
    assert not confirm_upper(many, Fraction(1, 10**4), Fraction(1, 10**5), row)


@pytest.mark.quality
@pytest.mark.first_case
@pytest.mark.parametrize("delta", ["1e-6", "3e-7", "1e-8", "1e-15"])
def test_an_end_far_below_the_first_step_is_found(delta: str) -> None:
    """A grid whose step is above epsilon tells nothing: 1/10, the report's own, was answered."""
    poll = dp.Shuffled(dp.RandomizedResponse("poll", Fraction(1, 10)), 10_000)
    found = dp.account(poll, dp.central("replace_one")).epsilon(delta)
    assert 0 < found.upper < found.lower * Fraction(103, 100)


@pytest.mark.parametrize("bits", [60, 200])
def test_tails_of_a_count_are_those_of_the_beta_function(bits: int) -> None:
    """P(ones >= least) above the mean, term by term."""
    for trials, chance in ((5, 0.3), (50, 0.6), (1000, 0.05), (30_000, 0.5)):
        spread = math.sqrt(trials * chance * (1 - chance))
        for far in (2, 9, 30):
            least = min(math.floor(trials * chance + far * spread) + 1, trials)
            with flint.ctx.workprec(bits):
                at = flint.arb(chance)
                tail = _tail(at, trials, least)
                assert tail.overlaps(at.beta_lower(least, trials - least + 1, regularized=True))
                assert tail.rad() <= tail.mid() * flint.arb(2) ** (20 - bits)
