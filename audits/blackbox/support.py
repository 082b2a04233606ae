"""Outputs that only one of two neighbours can give: noise that ends, misplaced rounding."""

from __future__ import annotations

import math

import numpy as np

from audits.blackbox.case import (
    Array,
    Domain,
    Family,
    Generator,
    Pair,
    Relation,
    laplace_above,
    normal_above,
    reals,
)
from dpaudit.families.opaque import GDP, ApproxDP, PureDP

FAMILY = Family("support")
ONE = PureDP(1)
GENG = "Geng, Ding, Guo and Kumar 2020, Tight analysis of truncated Laplace noise"
DWORK = "Dwork and Roth 2014, Definition 2.4 (delta = 0: equal supports)"

COUNT = Pair(reals(0.0), reals(1.0), Domain(1, 1, 0, 1), Relation.REPLACE_ONE)
WHOLE = Pair(reals(0.0), reals(1.0), Domain(1, 1, 0, 1, whole=True), Relation.REPLACE_ONE)
MEAN = Pair(
    reals(*[0.5] * 9, 0.45), reals(*[0.5] * 9, 0.55), Domain(10, 10, 0, 1), Relation.REPLACE_ONE
)
FINE = Pair(reals(0.5, 0.25), reals(0.5, 0.3), Domain(2, 2, 0, 1), Relation.REPLACE_ONE)


def _redrawn(rng: Generator, size: int, bound: float) -> Array:
    """Laplace noise drawn again until it is within the bound."""
    uniform = (rng.random(size) - 0.5) * -math.expm1(-bound)
    return np.asarray(-np.sign(uniform) * np.log1p(-2 * np.abs(uniform)))


def _two_sided(rng: Generator, size: int, epsilon: float) -> Array:
    chance = -math.expm1(-epsilon)
    return rng.geometric(chance, size) - rng.geometric(chance, size) + 0.0


@FAMILY.correct(ONE, COUNT, "Dwork and Roth 2014, Proposition 2.1 (post-processing)")
def clamps_the_output(data: Array, rng: Generator, size: int) -> Array:
    """Right: the noisy answer is clamped to [-3, 4], a public interval."""
    return np.asarray(np.clip(data.sum() + rng.laplace(size=size), -3.0, 4.0))


@FAMILY.buggy(ONE, COUNT, DWORK, lambda draws: draws < -2, (laplace_above(2.0), 0.0))
def clamps_the_noise(data: Array, rng: Generator, size: int) -> Array:
    """The noise, not the answer, is clamped to [-3, 3]: infinite."""
    return np.asarray(data.sum() + np.clip(rng.laplace(size=size), -3.0, 3.0))


TRUNCATED_5 = (laplace_above(4.0) - laplace_above(5.0)) / (1 - 2 * laplace_above(5.0))


@FAMILY.buggy(ONE, COUNT, GENG, lambda draws: draws < -4, (TRUNCATED_5, 0.0))
def truncated_noise_without_delta(data: Array, rng: Generator, size: int) -> Array:
    """Laplace noise drawn within [-5, 5] under a pure claim: delta = 0.0058 at any epsilon."""
    return np.asarray(data.sum() + _redrawn(rng, size, 5.0))


TRUNCATED_8 = (laplace_above(7.0) - laplace_above(8.0)) / (1 - 2 * laplace_above(8.0))


@FAMILY.buggy(ONE, COUNT, GENG, lambda draws: draws < -7, (TRUNCATED_8, 0.0))
def truncated_far_out(data: Array, rng: Generator, size: int) -> Array:
    """Laplace noise drawn within [-8, 8] under a pure claim: delta = 0.00029 at any epsilon."""
    return np.asarray(data.sum() + _redrawn(rng, size, 8.0))


@FAMILY.correct(ApproxDP(1, 0.006), COUNT, GENG + ", Theorem 1")
def truncated_noise_with_delta(data: Array, rng: Generator, size: int) -> Array:
    """Right: the same noise within [-5, 5], with the delta that its ends cost."""
    return np.asarray(data.sum() + _redrawn(rng, size, 5.0))


@FAMILY.buggy(
    ApproxDP(1, 0.0006),
    COUNT,
    GENG,
    lambda draws: draws < -4,
    (TRUNCATED_5, 0.0),
)
def truncated_noise_tenth_of_delta(data: Array, rng: Generator, size: int) -> Array:
    """Noise within [-5, 5] with a tenth of the delta that its ends cost."""
    return np.asarray(data.sum() + _redrawn(rng, size, 5.0))


@FAMILY.buggy(
    ONE,
    MEAN,
    "Mironov 2012, section 2; rounding before noise raises the sensitivity",
    lambda draws: draws < 0.05,
    (laplace_above(-0.5), laplace_above(9.5)),
)
def rounds_before_noise(data: Array, rng: Generator, size: int) -> Array:
    """A mean is rounded to a whole number, then gets the noise of a mean: 10 eps."""
    return np.asarray(np.rint(data.mean()) + 0.1 * rng.laplace(size=size))


@FAMILY.correct(ONE, MEAN, "Dwork and Roth 2014, Proposition 2.1 (post-processing)")
def rounds_after_noise(data: Array, rng: Generator, size: int) -> Array:
    """Right: the noisy mean is rounded to two digits."""
    return np.asarray(np.round(data.mean() + 0.1 * rng.laplace(size=size), 2))


@FAMILY.correct(GDP(1), COUNT, "Dwork and Roth 2014, Proposition 2.1 (post-processing)")
def rounds_a_gaussian(data: Array, rng: Generator, size: int) -> Array:
    """Right: a noisy count, rounded to a whole number."""
    return np.asarray(np.rint(data.sum() + rng.standard_normal(size)))


@FAMILY.buggy(
    ApproxDP(1, 0.01),
    COUNT,
    DWORK,
    lambda draws: draws < 1 - math.sqrt(6),
    (1 / (2 * math.sqrt(6)), 0.0),
)
def uniform_noise(data: Array, rng: Generator, size: int) -> Array:
    """Uniform noise of the variance of Lap(1/eps): delta = 0.204."""
    return np.asarray(data.sum() + math.sqrt(6) * (2 * rng.random(size) - 1))


@FAMILY.buggy(ONE, COUNT, DWORK, lambda draws: draws < 1, (-math.expm1(-1.0), 0.0))
def one_sided_noise(data: Array, rng: Generator, size: int) -> Array:
    """Exponential noise, never negative: an output below 1 tells a count of 0: infinite."""
    return np.asarray(data.sum() + rng.exponential(size=size))


@FAMILY.buggy(ONE, WHOLE, DWORK, lambda draws: draws < 1, (-math.expm1(-1.0), 0.0))
def one_sided_geometric(data: Array, rng: Generator, size: int) -> Array:
    """Geometric noise from 0 upwards where it should be two-sided: infinite."""
    return np.asarray(data.sum() + rng.geometric(-math.expm1(-1.0), size) - 1.0)


@FAMILY.buggy(ONE, COUNT, DWORK, lambda draws: draws == 0, (1.0, 0.0))
def multiplicative_noise(data: Array, rng: Generator, size: int) -> Array:
    """The noise multiplies the answer, so that 0 stays 0: infinite."""
    return np.asarray(data.sum() * (1 + rng.laplace(size=size)))


@FAMILY.buggy(
    ONE,
    FINE,
    "Balcer and Vadhan 2018, Differential privacy on finite computers",
    lambda draws: draws % 1 == 0.75,
    (1.0, 0.0),
)
def whole_noise_on_a_fraction(data: Array, rng: Generator, size: int) -> Array:
    """Whole-numbered noise on a sum that is not whole keeps its digits: infinite."""
    return np.asarray(data.sum() + _two_sided(rng, size, 1.0))


@FAMILY.correct(
    ONE,
    Pair(reals(0.0), reals(0.75), Domain(1, 1, 0, 1), Relation.REPLACE_ONE),
    "Balcer and Vadhan 2018, Differential privacy on finite computers",
)
def whole_noise_on_a_rounded_sum(data: Array, rng: Generator, size: int) -> Array:
    """Right: the sum of one record in [0, 1] is rounded first, which keeps its sensitivity of 1."""
    return np.asarray(np.rint(data.sum()) + _two_sided(rng, size, 1.0))


def _digits(draws: Array) -> Array:
    return np.asarray(np.abs(np.round(draws, 3) - draws) < 1e-7)


@FAMILY.buggy(
    ONE,
    Pair(reals(0.5, 0.25), reals(0.5, 0.25004), Domain(2, 2, 0, 1), Relation.REPLACE_ONE),
    "Mironov 2012: what the noise does not reach is not hidden",
    _digits,
    (1.0, 0.0),
)
def noise_of_three_decimals(data: Array, rng: Generator, size: int) -> Array:
    """The noise is rounded to three decimals, the answer is not: later digits show: infinite."""
    return np.asarray(data.sum() + np.round(rng.laplace(size=size), 3))


@FAMILY.buggy(
    GDP(1),
    COUNT,
    "Liu, Meng and Chen 2019 (truncated Gaussian noise needs a delta)",
    lambda draws: draws < -2,
    (normal_above(2.0) - normal_above(3.0), 0.0),
)
def gaussian_cut_at_three(data: Array, rng: Generator, size: int) -> Array:
    """Normal noise that is dropped (no output) beyond three deviations: infinite mu."""
    noise = rng.standard_normal(size)
    return np.where(np.abs(noise) < 3, data.sum() + noise, np.nan)
