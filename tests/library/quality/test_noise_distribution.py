"""Exact noise by the million against exact masses (chi-square), and its tails.

Masses come from 30-digit sums that share no code with the samplers.
"""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from mpmath import mp
from scipy import stats

from dpaudit.families.additive import Gaussian, Laplace
from dpaudit.families.discrete import DiscreteGaussian, DiscreteLaplace
from dpaudit.kernels.base import exact_kernels
from dpaudit.kernels.query import Array
from dpaudit.kernels.samplers import discrete_gaussian, discrete_laplace

DRAWS = 1_000_000
LEVEL = 1e-6  # of each test: false alarm below 1e-4 over the file
FEWEST = 25.0
SCALES = [
    Fraction(1, 10),
    Fraction(1, 3),
    Fraction(1),
    Fraction(7, 2),
    Fraction(100, 7),
    Fraction(900),
]
VARIANCES = [Fraction(1, 5), Fraction(1), Fraction(9, 4), Fraction(10), Fraction(100_001, 100)]


def chi_square(drawn: Any, weight: Any, reach: int) -> float:
    """p-value of the draws against masses proportional to ``weight(k)``; rare cells are joined."""
    mp.dps = 30
    weights = [weight(k) for k in range(reach + 1)]
    total = weights[0] + 2 * mp.fsum(weights[1:])
    expected = {k: float(DRAWS * weights[abs(k)] / total) for k in range(-reach, reach + 1)}
    cells = [k for k, value in expected.items() if value >= FEWEST]
    values, counts = np.unique(drawn, return_counts=True)
    seen = dict(zip(values.tolist(), counts.tolist(), strict=True))
    observed = [seen.get(k, 0) for k in cells]
    wanted = [expected[k] for k in cells]
    rest, rest_wanted = DRAWS - sum(observed), DRAWS - math.fsum(wanted)
    if rest_wanted > 1:
        observed, wanted = [*observed, rest], [*wanted, rest_wanted]
    else:
        assert rest <= 20  # a Poisson variable of mean below 1: probability below 1e-18
        wanted = [value * sum(observed) / sum(wanted) for value in wanted]
    return float(stats.chisquare(observed, wanted, sum_check=False).pvalue)


@pytest.mark.parametrize("scale", SCALES, ids=str)
def test_discrete_laplace(scale: Fraction) -> None:
    """A million draws; false alarm 1e-6."""
    drawn = discrete_laplace(scale, DRAWS, np.random.default_rng(20))
    exact = mp.mpf(scale.numerator) / scale.denominator
    assert chi_square(drawn, lambda k: mp.exp(-k / exact), math.ceil(80 * scale) + 40) > LEVEL


@pytest.mark.parametrize("variance", VARIANCES, ids=str)
def test_discrete_gaussian(variance: Fraction) -> None:
    """A million draws; false alarm 1e-6."""
    drawn = discrete_gaussian(variance, DRAWS, np.random.default_rng(21))
    exact = mp.mpf(variance.numerator) / variance.denominator
    reach = math.ceil(14 * math.sqrt(variance)) + 20
    assert chi_square(drawn, lambda k: mp.exp(-k * k / (2 * exact)), reach) > LEVEL


def test_the_operating_systems_entropy_gives_the_same_law() -> None:
    """A million draws; false alarm 1e-6."""
    drawn = discrete_laplace(2, DRAWS)
    assert chi_square(drawn, lambda k: mp.exp(-mp.mpf(k) / 2), 200) > LEVEL


LEAVES = [
    (DiscreteLaplace("a", 3), 3.0, lambda k: mp.exp(-mp.mpf(k) / 3)),
    (DiscreteGaussian("a", 4), 2.0, lambda k: mp.exp(-(mp.mpf(k) ** 2) / 8)),
]


@pytest.mark.parametrize(("leaf", "scale", "weight"), LEAVES, ids=["laplace", "gaussian"])
def test_kernels_draw_the_same(leaf: Any, scale: float, weight: Any) -> None:
    """A million draws; false alarm 1e-6."""
    kernel = exact_kernels()[type(leaf)](leaf, DRAWS)
    values: Array = np.full((DRAWS, 1), 1_000.0)
    drawn = kernel.sample(values, np.full(DRAWS, scale), np.random.default_rng(22)) - values
    assert chi_square(drawn[:, 0].astype(np.int64), weight, 240) > LEVEL


CONTINUOUS = [(Laplace("a", 1), stats.laplace), (Gaussian("a", 1), stats.norm)]


@pytest.mark.parametrize(("leaf", "law"), CONTINUOUS, ids=["laplace", "gaussian"])
def test_noise_on_a_grid_in_cells(leaf: Any, law: Any) -> None:
    """Ten thousand equal cells and the far tails; false alarm 2e-6."""
    kernel = exact_kernels()[type(leaf)](leaf, DRAWS)
    drawn = kernel.sample(np.zeros((DRAWS, 1)), np.ones(DRAWS), np.random.default_rng(23))[:, 0]
    counts = np.bincount((law.cdf(drawn) * 10_000).astype(np.int64), minlength=10_000)
    assert stats.chisquare(counts).pvalue > LEVEL
    far = int(np.count_nonzero(drawn > law.isf(1e-4)))
    assert stats.binomtest(far, DRAWS, 1e-4).pvalue > LEVEL
