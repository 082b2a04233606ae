"""Epsilon 0 of normal rounds that hardly differ: by chi-square, beside exact total variation."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import special

import dpaudit as dp
from dpaudit.check.profile import alike as checked
from dpaudit.check.profile.conversions import confirm_upper
from dpaudit.pairs import LaplaceShift, Mixed, Normal, Pair, product
from dpaudit.profiles import answers, epsilon_interval
from dpaudit.profiles.closed import alike
from dpaudit.profiles.closed.alike import epsilon_alike

F = Fraction
POINTS = np.linspace(-12, 12, 4001)


def one_round(mu: float, rate: float) -> float:
    """Total variation: (P - Q)+ is where x > mu / 2."""
    return rate * (2 * special.ndtr(mu / 2) - 1)


def two_rounds(mu: float, rate: float) -> float:
    """By the trapezoid rule in two dimensions."""
    ratio = 1 + rate * np.expm1(mu * POINTS - mu * mu / 2)
    mass = np.exp(-(POINTS**2) / 2) * (POINTS[1] - POINTS[0]) / math.sqrt(2 * math.pi)
    return float(mass @ np.maximum(np.outer(ratio, ratio) - 1, 0) @ mass)


SETTINGS = [(0.1, 1.0), (0.5, 0.01), (2.0, 1e-3), (3.0, 0.1), (1e-4, 0.5)]


@pytest.mark.parametrize(("mu", "rate"), SETTINGS)
def test_epsilon_is_0_only_where_total_variation_is_at_most_delta(mu: float, rate: float) -> None:
    """And wherever delta is twice chi-square's own bound."""
    pair: Pair = Mixed(Normal(F(mu)), F(rate)) if rate < 1 else Normal(F(mu))
    for rounds, truth in ((1, one_round(mu, rate)), (2, two_rounds(mu, rate))):
        both = product([(pair, F(rounds))])
        for given in (both, both.swapped):
            assert epsilon_alike(given, F(truth * 0.999)) is None
            assert not checked.alike_at_most(given, F(0), F(truth * 0.999))
            enough = F(math.sqrt(rounds) * rate * math.sqrt(math.expm1(mu * mu)))
            if enough < F(1, 2):
                found = epsilon_alike(given, enough)
                assert found is not None
                assert found.lower == found.upper == 0
                assert confirm_upper(given, F(0), enough, {"pair": "0", **found.upper_witness})


def test_noise_that_is_not_sampled_does_not_count_as_little() -> None:
    """Of no sampled factor all would be."""
    assert not answers._moves_far(product([(LaplaceShift(F(1, 10)), F(3))]))
    assert not answers._moves_far(product([(Mixed(Normal(F(1, 2)), F(1, 2)), F(3))]))
    assert answers._moves_far(product([(Mixed(Normal(F(2)), F(1, 2)).swapped, F(3))]))


def test_no_less_will_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """A third of the bound is below the truth of two normal rounds, on both sides."""
    pair, truth = Normal(F(1, 10)), one_round(0.1, 1.0)
    monkeypatch.setattr(alike, "OUTWARD", 1 / 3)
    assert epsilon_alike(pair, F(truth / 2)) is not None
    assert not confirm_upper(pair, F(0), F(truth / 2), {"pair": "0", "form": "alike"})


def test_other_pairs_and_mixed_directions_are_left_to_others() -> None:
    pair = Mixed(Normal(F(1, 10)), F(1, 100))
    for other in (
        LaplaceShift(F(1, 1000)),
        product([(pair, F(1)), (pair.swapped, F(1))]),
        product([(pair, F(1)), (LaplaceShift(F(1, 1000)), F(1))]),
        product([(pair, F(10) ** 400)]),
        Normal(F(40)),
    ):
        assert epsilon_alike(other, F(9, 10)) is None
        assert not checked.alike_at_most(other, F(0), F(1, 10**9))
    assert epsilon_interval(product([(pair, F(1)), (pair.swapped, F(1))]), F(1, 2)).upper == 0


def test_a_certificate_of_it_is_verified_and_forgeries_are_not() -> None:
    node = dp.Repeat(dp.PoissonSampled(dp.Gaussian("g", 10), F(1, 10**6)), 10**4)
    bound = dp.account(node, dp.central("add_remove")).epsilon("1e-5")
    assert (bound.lower, bound.upper) == (0, 0)
    pair = product([(Mixed(Normal(F(1, 10)), F(1, 10**6)), F(10**4))])
    # Total variation is about 4e-6.
    row = {"pair": "0", "form": "alike"}
    assert confirm_upper(pair, F(0), F(1, 10**5), row)
    assert not confirm_upper(pair, F(0), F(1, 10**6), row)
