"""Mirrored events: the p-value against enumeration, its tails, and bounds by inversion."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.stats import binom

from dpaudit.audit.blackbox.claims import Tally
from dpaudit.audit.blackbox.mirror import mirrored_epsilon_lower, mirrored_p_value
from dpaudit.errors import InvalidParameter


def tallies(p: tuple[int, int], q: tuple[int, int], trials: int) -> tuple[Tally, Tally]:
    """From counts in (A, B) of draws of P and of Q."""
    return Tally(p[0], trials, q[0], trials), Tally(q[1], trials, p[1], trials)


def p_of(p: tuple[int, int], q: tuple[int, int], trials: int, epsilon: float) -> float:
    return mirrored_p_value(*tallies(p, q, trials), epsilon, 0.0, 1e-9)


def test_all_on_their_side_is_a_binomial_tail() -> None:
    odds = math.e / (1 + math.e)
    assert p_of((10, 0), (0, 10), 100_000, 1.0) == pytest.approx(odds**20, rel=1e-4)
    assert p_of((10, 0), (0, 10), 100_000, 1.0) >= odds**20


@pytest.mark.parametrize("a", [0.3, 0.5, 0.6, 0.8])
def test_it_errs_at_most_as_often_as_stated_by_enumeration(a: float) -> None:
    """Every outcome of 4 draws a side, at pairs (a, b) on the edge of the claim, epsilon = 0.5."""
    epsilon, n = 0.5, 4
    odds = math.exp(2 * epsilon) / (a / (1 - a))
    b = odds / (1 + odds)
    reach = 0.9  # every draw falls into A or B with this chance
    p, q = (reach * a, reach * (1 - a)), (reach * (1 - b), reach * b)
    assert p[0] <= math.exp(epsilon) * q[0] * (1 + 1e-9) or q[1] <= math.exp(epsilon) * p[1]
    chances: dict[float, float] = {}
    splits = [(i, j) for i in range(n + 1) for j in range(n + 1 - i)]

    def chance(counts: tuple[int, int], rates: tuple[float, float]) -> float:
        i, j = counts
        ways = math.comb(n, i) * math.comb(n - i, j)
        return ways * rates[0] ** i * rates[1] ** j * (1 - sum(rates)) ** (n - i - j)

    for x, y in itertools.product(splits, splits):
        value = p_of(x, y, n, epsilon)
        chances[value] = chances.get(value, 0.0) + chance(x, p) * chance(y, q)
    total = 0.0
    for value in sorted(chances):
        total += chances[value]
        assert total <= value + 1e-12


def test_counts_that_differ_between_the_sides() -> None:
    """The mean is never below that of any allowed pair of chances."""
    epsilon = 0.3
    for kept in [(8, 12), (3, 30), (100, 80)]:
        hits = kept[0] + kept[1] - 2
        found = p_of((kept[0] - 1, 1), (1, kept[1] - 1), 1_000, epsilon)
        for log_odds in np.linspace(-4, 4, 41):
            a = 1 / (1 + math.exp(-(epsilon + log_odds)))
            b = 1 / (1 + math.exp(-(epsilon - log_odds)))
            exact = sum(
                binom.pmf(i, kept[0], a) * binom.sf(hits - i - 1, kept[1], b)
                for i in range(kept[0] + 1)
            )
            assert exact <= found + 1e-12


def test_delta_costs_the_draws_it_may_have_spoilt() -> None:
    own, mirror = tallies((20, 0), (0, 20), 100_000)
    pure = mirrored_p_value(own, mirror, 1.0, 0.0, 1e-4)
    spoilt = mirrored_p_value(own, mirror, 1.0, 1e-5, 1e-4)
    assert pure < 1e-4 < spoilt < 0.03
    assert mirrored_p_value(own, mirror, 1.0, 1e-3, 1e-4) == 1.0


def test_the_bound_inverts_the_p_value_and_stays_below_the_claim() -> None:
    own, mirror = tallies((700, 260), (250, 710), 10_000)
    bound = mirrored_epsilon_lower(own, mirror, 0.0, 0.05)
    assert 0.9 < bound < math.log(710 / 260)
    assert mirrored_p_value(own, mirror, bound, 0.0, 1e-9) <= 0.05
    assert mirrored_p_value(own, mirror, bound + 0.01, 0.0, 1e-9) > 0.05
    none = tallies((0, 0), (0, 0), 10)
    assert mirrored_epsilon_lower(*none, 0.0, 0.05) == 0.0


def test_counts_of_other_trials_are_refused() -> None:
    with pytest.raises(InvalidParameter, match="same trials"):
        mirrored_p_value(Tally(1, 10, 0, 10), Tally(1, 11, 0, 10), 1.0, 0.0, 1e-9)
