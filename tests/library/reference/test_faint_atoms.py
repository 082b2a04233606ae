"""Many rounds whose largest loss is tiny and has an atom: grids whose nodes lie right below it.

References: binomial and lattice laws in full, to 60 digits; the checker for Laplace noise.
"""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

import dpaudit as dp
from dpaudit.check.profile.conversions import confirm_lower, confirm_upper
from dpaudit.pairs import LaplaceShift, Pair, product
from dpaudit.profiles import epsilon_interval
from dpaudit.profiles.fourier import steps

F = Fraction


def of_responses(epsilon: str, rounds: int, at: float) -> float:
    """delta of randomised response in many rounds: j more of the one answer is a loss of j e."""
    with mpmath.workdps(60):
        e = mpmath.mpf(epsilon)
        p, found = mpmath.e**e / (1 + mpmath.e**e), mpmath.mpf(0)
        mass = (1 - p) ** rounds
        for k in range(rounds + 1):
            found += mass * max(0, 1 - mpmath.exp(at - (2 * k - rounds) * e))
            mass *= mpmath.mpf(rounds - k) / (k + 1) * p / (1 - p)
        return float(found)


def of_discrete_laplace(scale: int, move: int, rounds: int, at: float) -> float:
    """delta of discrete Laplace noise, by powers of the law of the loss times the scale."""
    k = np.arange(-2000, 2001)
    mass = np.exp(-np.abs(k - move) / scale) * math.tanh(1 / scale / 2)
    law = np.zeros(2 * move + 1)
    np.add.at(law, np.abs(k) - np.abs(k - move) + move, mass)
    whole, power, times = np.ones(1), law, rounds
    while times:
        if times % 2:
            whole = np.convolve(whole, power)
        power, times = np.convolve(power, power), times // 2
    loss = (np.arange(len(whole)) - rounds * move) / scale
    return float(whole @ np.maximum(0, -np.expm1(np.minimum(at - loss, 0))))


@pytest.mark.quality
def test_responses_lie_between_ends_that_are_near() -> None:
    node = dp.Repeat(dp.RandomizedResponse("r", F(1, 1000)), 10_000)
    bound = dp.account(node, dp.central("replace_one")).epsilon("1e-5")
    low, high = float(bound.lower), float(bound.upper)
    assert high - low < 1e-5 * high
    assert of_responses("0.001", 10_000, high) <= 1e-5 <= of_responses("0.001", 10_000, low)


def test_losses_that_are_multiples_of_the_least_share_its_nodes() -> None:
    node = dp.Repeat(dp.DiscreteLaplace("d", 10, 3), 300)
    bound = dp.account(node, dp.central("replace_one")).epsilon("1e-5")
    low, high = float(bound.lower), float(bound.upper)
    assert high - low < 1e-6 * high
    # The reference adds up floats.
    assert of_discrete_laplace(10, 3, 300, high) <= 1e-5 * (1 + 1e-9)
    assert of_discrete_laplace(10, 3, 300, low) >= 1e-5 * (1 - 1e-9)
    assert steps.aligned(((LaplaceShift(F(1, 10)), 1), (LaplaceShift(F(7, 27)), 1)), 0.01) == (
        steps._short(0.01)
    )


@pytest.mark.parametrize(("scale", "rounds"), [(1000, 10_000), (100, 1000), (10**6, 100)])
def test_faint_laplace_noise_is_near_and_confirmed(scale: int, rounds: int) -> None:
    pair: Pair = product([(LaplaceShift(F(1, scale)), F(rounds))])
    delta = F(1, 10**5)
    found = epsilon_interval(pair, delta)
    assert found.upper - found.lower <= found.upper / 10**4
    for end, confirm, shown in (
        (found.upper, confirm_upper, found.upper_witness),
        (found.lower, confirm_lower, found.lower_witness),
    ):
        assert confirm(pair, F(end), delta, {"pair": "0", **shown})


@pytest.mark.quality
def test_a_node_on_the_atom_itself_says_little_from_below(monkeypatch: pytest.MonkeyPatch) -> None:
    """Moved outward, the atom's masses lie below the node: the chord ends a node earlier."""
    pair: Pair = product([(LaplaceShift(F(1, 1000)), F(10_000))])
    monkeypatch.setattr(steps, "LEAST_BEYOND", 0.0)
    found = epsilon_interval(pair, F(1, 10**5))
    assert found.upper - found.lower > found.upper / 1000
