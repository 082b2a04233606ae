"""Shuffled answers of two values by the law of their count, whatever the others hold."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import binom

import dpaudit as dp
from dpaudit.kernels.query import Array

SCOPE = dp.central("replace_one")


def count(reports: int, holding: int, chance: float) -> Array:
    """The law of the ones among reports that each tell the truth with that chance."""
    ones = binom.pmf(np.arange(holding + 1), holding, chance)
    zeros = binom.pmf(np.arange(reports - holding + 1), reports - holding, 1 - chance)
    return np.convolve(ones, zeros)


def truth(reports: int, epsilon: float, delta: float, holding: int) -> float:
    """The epsilon of one poll, where so many of the others hold 1."""
    chance = math.exp(epsilon) / (1 + math.exp(epsilon))
    others = count(reports - 1, holding, chance)
    one, zero = (np.convolve(others, [1 - p, p]) for p in (chance, 1 - chance))

    def beyond(loss: float) -> float:
        lost = [np.maximum(a - math.exp(loss) * b, 0).sum() for a, b in ((one, zero), (zero, one))]
        return float(max(lost)) - delta

    return float(brentq(beyond, 1e-9, epsilon, xtol=1e-12))


@pytest.mark.parametrize(
    ("reports", "epsilon", "delta"), [(300, "0.5", "1e-5"), (1000, "2", "1e-6"), (50, "3", "1e-4")]
)
def test_every_number_of_others_is_within_the_interval(
    reports: int, epsilon: str, delta: str
) -> None:
    node = dp.Shuffled(dp.RandomizedResponse("poll", Fraction(epsilon)), reports)
    found = dp.account(node, SCOPE).epsilon(Fraction(delta))
    true = [truth(reports, float(epsilon), float(delta), k) for k in range(0, reports, 7)]
    true.append(truth(reports, float(epsilon), float(delta), reports - 1))
    assert true[-1] * (1 - 1e-3) <= float(found.lower) <= max(true) * (1 + 1e-9)
    assert max(true) <= float(found.upper)


def test_the_largest_is_next_to_the_lower_end_and_grows_with_most_numbers() -> None:
    """The figures of docs/accountant.md."""
    some = [truth(10_000, 2, 1e-6, k) for k in (5000, 6000, 7500, 9000, 9900, 9999)]
    assert some == sorted(some)
    assert truth(10_000, 2, 1e-6, 0) == pytest.approx(some[-1])
    assert some[0] == pytest.approx(0.08429, abs=1e-5)
    assert some[-1] == pytest.approx(0.08702, abs=1e-5)
    assert truth(300, 0.5, 1e-5, 299) == pytest.approx(0.09148, abs=5e-6)
    assert truth(300, 0.5, 1e-5, 298) == pytest.approx(0.09155, abs=5e-6)
