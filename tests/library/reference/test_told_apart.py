"""Sampled rounds of little noise: quadrature, the grid, the checker, what is left out."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import flint
import numpy as np
import pytest
from scipy import special

import dpaudit as dp
from dpaudit.check.profile.cells import ball
from dpaudit.check.profile.conversions import confirm_conversion, confirm_lower, confirm_upper
from dpaudit.check.profile.told import told, told_at_least, told_at_most
from dpaudit.exact import decimal_upper
from dpaudit.pairs import Mixed, Normal, Pair, product
from dpaudit.profiles import delta_interval, epsilon_interval
from dpaudit.profiles.closed.told import Rounds, delta_told, epsilon_told
from dpaudit.profiles.fourier.engine import epsilon_composed
from dpaudit.scope import central

F = Fraction


def pair_of(mu: str, rate: str, times: int) -> Pair:
    return product([(Mixed(Normal(F(mu)), F(rate)), F(times))])


def two_rounds(mu: float, rate: float, epsilon: float) -> float:
    """delta of two rounds: over the first by the trapezoid rule, of the second's closed form."""
    z = np.linspace(-11, mu + 11, 1_000_001)
    ratio = np.logaddexp(math.log1p(-rate), math.log(rate) + mu * z - mu * mu / 2)
    left = epsilon - ratio
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        inner = left + np.log1p(-(1 - rate) * np.exp(-left)) - math.log(rate)
        at = np.where(np.isnan(inner), -1e9, inner) / mu
        normal = special.ndtr(mu / 2 - at) - np.exp(at * mu + special.log_ndtr(-mu / 2 - at))
        second = np.where(at > -1e6, rate * normal, -np.expm1(np.minimum(left, 0.0)))
    density = np.exp(ratio - z * z / 2) / math.sqrt(2 * math.pi)
    return float(density @ second * (z[1] - z[0]))


# One round or both hold the record: mu^2 / 2 + log q is 1,240, 800 - 5, 128 - 4.6.
TWO = [(50.0, 0.001, 1200.0), (40.0, 0.01, 700.0), (40.0, 0.01, 1560.0), (16.0, 0.0625, 0.0)]


@pytest.mark.parametrize(("mu", "rate", "epsilon"), TWO)
def test_two_rounds_by_quadrature_lie_between_the_ends_of_both(
    mu: float, rate: float, epsilon: float
) -> None:
    truth = F(two_rounds(mu, rate, epsilon))
    pair = pair_of(str(mu), str(rate), 2)
    found = delta_told(pair, F(epsilon))
    assert found is not None
    assert found.lower * (1 - F(1, 10**8)) <= truth <= found.upper * (1 + F(1, 10**8))
    assert found.upper - found.lower <= found.upper / 10**5
    with flint.ctx.workprec(300):
        low, high = told(pair, ball(F(epsilon)), ball(12))
        assert low * (1 - ball(F(1, 10**8))) <= ball(truth) <= high * (1 + ball(F(1, 10**8)))
        assert high - low < high / 10**4


@pytest.mark.parametrize("swapped", [False, pytest.param(True, marks=pytest.mark.quality)])
def test_a_grid_has_the_same_epsilon(swapped: bool) -> None:
    pair = pair_of("18", "0.01", 40)
    used = pair.swapped if swapped else pair
    found = epsilon_interval(used, F(1, 10**4))
    assert found.method == "rounds told apart"
    other = epsilon_composed(used, F(1, 10**4), 1e-3)
    assert other.lower <= found.lower <= found.upper <= other.upper
    assert found.upper - found.lower < (other.upper - other.lower) / 10
    ours = delta_interval(used, F(1, 4))
    assert ours.method == "rounds told apart"
    assert 0 < ours.upper - ours.lower <= ours.upper / 1000


# Noise, rate, rounds, delta: [.001, 1688], [0, 1] after a minute, [.1, 15278] before.
SMALL = [
    ("1/40", "1e-5", 1000, "1e-5"),
    pytest.param("0.0118", "3.3e-4", 4_300_000, "1e-5", marks=pytest.mark.quality),
    ("1/100", "0.001", 100, "1e-30"),
]


@pytest.mark.parametrize(("noise", "rate", "times", "delta"), SMALL)
def test_little_noise_is_narrow_and_confirmed(
    noise: str, rate: str, times: int, delta: str
) -> None:
    pair = pair_of(str(1 / F(noise)), rate, times)
    for used in (pair.swapped, pair):
        found, at = epsilon_interval(used, F(delta)), F(delta)
        assert found.method == "rounds told apart"
        assert 0 < found.upper - found.lower <= max(found.upper / 10**8, F(1, 10**8))
        rows = [{"pair": "0", **row} for row in (found.upper_witness, found.lower_witness)]
        assert confirm_upper(used, F(found.upper), at, rows[0])
        assert confirm_lower(used, found.lower, at, rows[1])
    small = found.upper / 10**4
    assert not confirm_upper(used, F(found.upper) - small, at, rows[0])
    assert not confirm_lower(used, found.lower + small, at, rows[1])


@pytest.mark.parametrize(
    ("mu", "rate", "times"), [("11", "0.1", 3), ("12", "0.5", 2), ("14", "0.003", 5)]
)
def test_ends_at_little_more_than_ten_deviations_are_confirmed(
    mu: str, rate: str, times: int
) -> None:
    """Rounds in between count there: a gap of 12 and more has too many of them."""
    pair, at = pair_of(mu, rate, times), F(1, 1000)
    for used in (pair.swapped, pair):
        found = epsilon_told(used, at)
        assert found is not None
        assert 0 < found.upper - found.lower <= found.upper / 300
        assert told_at_most(used, F(found.upper), at)
        assert told_at_least(used, found.lower, at)
    assert not told_at_most(used, F(found.upper) * F(99, 100), at)
    assert not told_at_least(used, found.lower * F(101, 100), at)


def test_training_with_little_noise_is_certified_by_both() -> None:
    run = dp.Repeat(dp.PoissonSampled(dp.Gaussian("g", F(1, 50)), F(1, 10**5)), 1000)
    bound = dp.account(run, central("add_remove")).epsilon("1e-6")
    assert bound.width < 1e-4 < 2000 < bound.lower
    delta = dp.account(run, central("add_remove")).delta(100)
    # Some round holds the record.
    assert float(delta.upper) == pytest.approx(-math.expm1(1000 * math.log1p(-1e-5)), rel=1e-3)


def test_a_conversion_is_confirmed_as_certificates_hold_it_and_a_smaller_one_is_not() -> None:
    run = dp.Repeat(dp.PoissonSampled(dp.Gaussian("g", F(1, 40)), F(1, 1000)), 50)
    delta = F(1, 10**5)
    step = dp.account(run, central("add_remove")).converted("profile", delta)
    rows = step.witness["upper"]
    assert {row["form"] for row in rows} == {"told apart"}
    losses, shown = step.premises[0].value, decimal_upper(step.value[0])
    found = confirm_conversion(losses, delta, shown, step.witness)
    assert found is not None
    assert found.trusted == ()
    assert (found.epsilon, found.reached) == (step.value[0], step.lower)
    for side in ("upper", "lower"):
        small = F(1, 2) if side == "upper" else F(2)
        forged = []
        for row in step.witness[side]:
            value = F(row["value"]) * small
            forged.append({**row, "value": decimal_upper(value), "epsilon": str(value)})
        end = decimal_upper(step.value[0] * small) if side == "upper" else shown
        changed = {**step.witness, side: forged}
        assert confirm_conversion(losses, delta, end, changed) is None


def rounds(mu: str, rate: str, times: int, last: int, **other: Any) -> Rounds:
    found = Rounds(ball(F(mu)), ball(F(rate)), times, 0, last)
    found.__dict__.update(other)
    return found


def test_what_is_left_out_counts() -> None:
    """Without the rounds in between, other counts, or the empty rounds' own ratio: no bounds."""
    with flint.ctx.workprec(200):
        truth = ball(F(two_rounds(10.5, 0.1, 2.0)))
        own = rounds("10.5", "0.1", 2, 2, gap=ball(25))
        assert own.least(ball(2)) < truth < own.most(ball(2))
        weights, moves, _ = own.above
        own.__dict__["above"] = weights, moves, ball(0)
        assert own.most(ball(2)) < truth
        few = rounds("10.5", "0.1", 2, 0, gap=ball(6))
        assert few.least(ball(2)) < truth < few.most(ball(2))
        few.__dict__["above"] = (*few.above[:2], ball(0))
        assert few.most(ball(2)) < truth
        pair = rounds("40", "0.3", 2, 2)
        truth = ball(F(two_rounds(40.0, 0.3, 790.0)))
        assert pair.least(ball(790)) <= truth * (1 + ball(F(1, 10**9)))
        weights, moves = pair.below
        step = (pair.empty[1] / pair.empty[0]).log()
        pair.__dict__["below"] = weights, [m - (2 - j) * step for j, m in enumerate(moves)]
        assert pair.least(ball(790)) > truth * (1 + ball(F(1, 1000)))
