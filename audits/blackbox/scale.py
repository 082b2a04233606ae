"""Noise of the wrong scale, from a factor 2 down to 2%; and claims of large epsilon."""

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
from dpaudit.families.opaque import GDP, ZCDP, ApproxDP, PureDP, RenyiDP

FAMILY = Family("scale")
ONE = PureDP(1)
LAPLACE = "Dwork, McSherry, Nissim and Smith 2006, Calibrating noise to sensitivity"
GAUSS = "Dong, Roth and Su 2022, Gaussian differential privacy, Theorem 2.7"
BALLE = "Balle and Wang 2018, Improving the Gaussian mechanism"
GHOSH = "Ghosh, Roughgarden and Sundararajan 2009, Universally utility-maximizing mechanisms"

COUNT = Pair(reals(0.0), reals(1.0), Domain(1, 1, 0, 1), Relation.REPLACE_ONE)
WHOLE = Pair(reals(0.0), reals(1.0), Domain(1, 1, 0, 1, whole=True), Relation.REPLACE_ONE)


def _laplace(data: Array, rng: Generator, size: int, scale: float) -> Array:
    return np.asarray(data.sum() + scale * rng.laplace(size=size))


def _gaussian(data: Array, rng: Generator, size: int, deviation: float) -> Array:
    return np.asarray(data.sum() + deviation * rng.standard_normal(size))


def _geometric(data: Array, rng: Generator, size: int, epsilon: float) -> Array:
    """Two-sided geometric noise as a difference of two one-sided ones."""
    chance = -math.expm1(-epsilon)
    return np.asarray(data.sum() + rng.geometric(chance, size) - rng.geometric(chance, size))


def _shifted(epsilon: float) -> tuple[float, float]:
    """P[x <= 0] under Lap(1/epsilon) around 0 and around 1."""
    return 0.5, laplace_above(epsilon)


def _logistic(epsilon: float) -> tuple[float, float]:
    """Chances in the ratio e^epsilon that add up to 1.

    Of a true answer of randomised response; of x <= 0 under geometric noise around 0 and 1.
    """
    return 1 / (1 + math.exp(-epsilon)), 1 / (1 + math.exp(epsilon))


def _halfway(mu: float) -> tuple[float, float]:
    """P[x < 1/2] under N(0, 1/mu^2) and N(1, 1/mu^2)."""
    return normal_above(-mu / 2), normal_above(mu / 2)


def profile_delta(mu: float, epsilon: float) -> tuple[float, float]:
    """Chances of the event of largest p - e^epsilon q under N(0, 1) and N(mu, 1)."""
    cut = mu / 2 - epsilon / mu
    return normal_above(-cut), normal_above(mu - cut)


@FAMILY.correct(ONE, COUNT, LAPLACE)
def laplace_right(data: Array, rng: Generator, size: int) -> Array:
    """Right: noise Lap(1/eps), and not a bit to spare."""
    return _laplace(data, rng, size, 1.0)


@FAMILY.correct(GDP(1), COUNT, GAUSS)
def gaussian_right(data: Array, rng: Generator, size: int) -> Array:
    """Right: noise N(0, 1), mu = 1 exactly."""
    return _gaussian(data, rng, size, 1.0)


@FAMILY.correct(ZCDP(0.5), COUNT, "Bun and Steinke 2016, Lemma 2.4")
def gaussian_right_zcdp(data: Array, rng: Generator, size: int) -> Array:
    """Right: noise N(0, 1), rho = 1/2 exactly."""
    return _gaussian(data, rng, size, 1.0)


@FAMILY.correct(ApproxDP(1, 0.12694), COUNT, BALLE + ", Theorem 8")
def gaussian_right_analytic(data: Array, rng: Generator, size: int) -> Array:
    """Right: noise N(0, 1), delta = 0.126937 at epsilon = 1 by the analytic formula."""
    return _gaussian(data, rng, size, 1.0)


@FAMILY.correct(ONE, WHOLE, GHOSH)
def geometric_right(data: Array, rng: Generator, size: int) -> Array:
    """Right: two-sided geometric noise with ratio e^(-eps)."""
    return _geometric(data, rng, size, 1.0)


MIRONOV = "Mironov 2017, Renyi differential privacy, Proposition 7"


@FAMILY.correct(RenyiDP(4, 2), COUNT, MIRONOV)
def gaussian_right_renyi(data: Array, rng: Generator, size: int) -> Array:
    """Right: noise N(0, 1), divergence 2 at order 4 exactly."""
    return _gaussian(data, rng, size, 1.0)


@FAMILY.buggy(
    RenyiDP(4, 2),
    COUNT,
    MIRONOV,
    lambda draws: draws < 0.1,
    (normal_above(-0.2), normal_above(1.8)),
)
def gaussian_half_deviation_renyi(data: Array, rng: Generator, size: int) -> Array:
    """Deviation 1/2: divergence 8 at order 4, claimed 2."""
    return _gaussian(data, rng, size, 0.5)


@FAMILY.buggy(
    ApproxDP(1, 1e-5),
    COUNT,
    BALLE + ", Theorem 8",
    lambda draws: draws < 0.5 - 1.865**2,
    profile_delta(1 / 1.865, 1.0),
)
def gaussian_half_deviation(data: Array, rng: Generator, size: int) -> Array:
    """Deviation 1.865 where (1, 0.00001) needs 3.73: delta = 0.0104."""
    return _gaussian(data, rng, size, 1.865)


@FAMILY.buggy(ONE, COUNT, LAPLACE, lambda draws: draws <= 0, _shifted(2.0))
def laplace_half_scale(data: Array, rng: Generator, size: int) -> Array:
    """Scale 1/(2 eps): 2 eps."""
    return _laplace(data, rng, size, 0.5)


@FAMILY.buggy(ONE, COUNT, LAPLACE, lambda draws: draws <= 0, _shifted(math.sqrt(2)))
def laplace_deviation_for_scale(data: Array, rng: Generator, size: int) -> Array:
    """The standard deviation is 1/eps, so the scale is 1/(sqrt(2) eps): 1.414 eps."""
    return _laplace(data, rng, size, math.sqrt(0.5))


@FAMILY.buggy(ONE, COUNT, LAPLACE, lambda draws: draws <= 0, _shifted(math.log(10)))
def laplace_decimal_logarithm(data: Array, rng: Generator, size: int) -> Array:
    """The inverse distribution function takes log10 for ln: 2.303 eps."""
    uniform = rng.random(size) - 0.5
    with np.errstate(divide="ignore"):
        noise = -np.sign(uniform) * np.log10(1 - 2 * np.abs(uniform))
    return np.asarray(data.sum() + noise)


@FAMILY.buggy(ONE, COUNT, LAPLACE, lambda draws: draws <= 0, _shifted(1 / 0.9))
def laplace_short_by_10_percent(data: Array, rng: Generator, size: int) -> Array:
    """Scale 0.9/eps: 1.111 eps."""
    return _laplace(data, rng, size, 0.9)


@FAMILY.buggy(ONE, COUNT, LAPLACE, lambda draws: draws <= 0, _shifted(1 / 0.95))
def laplace_short_by_5_percent(data: Array, rng: Generator, size: int) -> Array:
    """Scale 0.95/eps: 1.053 eps."""
    return _laplace(data, rng, size, 0.95)


@FAMILY.buggy(ONE, COUNT, LAPLACE, lambda draws: draws <= 0, _shifted(1 / 0.98))
def laplace_short_by_2_percent(data: Array, rng: Generator, size: int) -> Array:
    """Scale 0.98/eps: 1.020 eps."""
    return _laplace(data, rng, size, 0.98)


@FAMILY.buggy(ONE, WHOLE, GHOSH, lambda draws: draws <= 0, _logistic(1.1))
def geometric_short_by_10_percent(data: Array, rng: Generator, size: int) -> Array:
    """Ratio e^(-1.1 eps): 1.1 eps."""
    return _geometric(data, rng, size, 1.1)


@FAMILY.buggy(ONE, WHOLE, GHOSH, lambda draws: draws <= 0, _logistic(1 / math.log(2)))
def geometric_binary_logarithm(data: Array, rng: Generator, size: int) -> Array:
    """Epsilon is converted to bits the wrong way round: eps/ln 2 = 1.443 eps."""
    return _geometric(data, rng, size, 1 / math.log(2))


@FAMILY.buggy(GDP(2), COUNT, GAUSS, lambda draws: draws < 0.5, _halfway(4.0))
def gaussian_variance_for_deviation(data: Array, rng: Generator, size: int) -> Array:
    """The variance 1/4 is passed as the standard deviation: mu = 4 for 2."""
    return _gaussian(data, rng, size, 0.25)


@FAMILY.buggy(GDP(0.5), COUNT, GAUSS, lambda draws: draws < 0.5, _halfway(math.sqrt(0.5)))
def gaussian_root_of_deviation(data: Array, rng: Generator, size: int) -> Array:
    """The square root of the standard deviation 2 is taken: mu = 0.707 for 0.5."""
    return _gaussian(data, rng, size, math.sqrt(2))


@FAMILY.buggy(GDP(1), COUNT, GAUSS, lambda draws: draws < 0.5, _halfway(1 / 0.9))
def gaussian_short_by_10_percent(data: Array, rng: Generator, size: int) -> Array:
    """Standard deviation 0.9: mu = 1.111."""
    return _gaussian(data, rng, size, 0.9)


@FAMILY.buggy(GDP(1), COUNT, GAUSS, lambda draws: draws < 0.5, _halfway(1 / 0.95))
def gaussian_short_by_5_percent(data: Array, rng: Generator, size: int) -> Array:
    """Standard deviation 0.95: mu = 1.053."""
    return _gaussian(data, rng, size, 0.95)


@FAMILY.buggy(GDP(1), COUNT, GAUSS, lambda draws: draws < 0.5, _halfway(1 / 0.98))
def gaussian_short_by_2_percent(data: Array, rng: Generator, size: int) -> Array:
    """Standard deviation 0.98: mu = 1.020."""
    return _gaussian(data, rng, size, 0.98)


@FAMILY.buggy(
    ApproxDP(1, 0.12694),
    COUNT,
    BALLE + ", Theorem 8",
    lambda draws: draws < 0.5 - 0.9**2,
    profile_delta(1 / 0.9, 1.0),
)
def gaussian_analytic_short_by_10_percent(data: Array, rng: Generator, size: int) -> Array:
    """Standard deviation 0.9 where (1, 0.12694) needs 1: delta = 0.155."""
    return _gaussian(data, rng, size, 0.9)


@FAMILY.correct(ApproxDP(0.9, 0.05), COUNT, "Dwork and Roth 2014, Theorem A.1")
def gaussian_classic(data: Array, rng: Generator, size: int) -> Array:
    """Right: deviation sqrt(2 ln(1.25/delta))/eps, epsilon below 1."""
    return _gaussian(data, rng, size, math.sqrt(2 * math.log(1.25 / 0.05)) / 0.9)


CLASSIC_6 = 6 / math.sqrt(2 * math.log(1.25 / 0.2))


@FAMILY.buggy(
    ApproxDP(6, 0.2),
    COUNT,
    BALLE + ", section 2.3: the classic formula fails above epsilon = 1",
    lambda draws: draws < (0.5 * CLASSIC_6 - 6 / CLASSIC_6) / CLASSIC_6,
    profile_delta(CLASSIC_6, 6.0),
)
def gaussian_classic_large_epsilon(data: Array, rng: Generator, size: int) -> Array:
    """sqrt(2 ln(1.25/delta))/eps at epsilon = 6: delta = 0.263 for 0.2."""
    return _gaussian(data, rng, size, 1 / CLASSIC_6)


# --- large epsilon -------------------------------------------------------------------------------


def _response(data: Array, rng: Generator, size: int, epsilon: float) -> Array:
    lie = rng.random(size) < 1 / (1 + math.exp(epsilon))
    return np.asarray(np.where(lie, 1 - data[0], data[0]))


WARNER = "Warner 1965, Randomized response"


@FAMILY.correct(PureDP(6), WHOLE, WARNER)
def response_large(data: Array, rng: Generator, size: int) -> Array:
    """Right: randomised response with epsilon = 6."""
    return _response(data, rng, size, 6.0)


@FAMILY.buggy(PureDP(8), WHOLE, WARNER, lambda draws: draws == 0, _logistic(10.0))
def response_10_claimed_8(data: Array, rng: Generator, size: int) -> Array:
    """Randomised response with epsilon = 10, claimed 8: one lie in 22,027."""
    return _response(data, rng, size, 10.0)


@FAMILY.buggy(PureDP(8), WHOLE, WARNER, lambda draws: draws == 0, _logistic(9.0))
def response_9_claimed_8(data: Array, rng: Generator, size: int) -> Array:
    """Randomised response with epsilon = 9, claimed 8: one lie in 8,104."""
    return _response(data, rng, size, 9.0)


@FAMILY.buggy(PureDP(4), WHOLE, WARNER, lambda draws: draws == 0, _logistic(4.5))
def response_four_and_a_half_claimed_4(data: Array, rng: Generator, size: int) -> Array:
    """Randomised response with epsilon = 4.5, claimed 4."""
    return _response(data, rng, size, 4.5)


@FAMILY.buggy(PureDP(6), COUNT, LAPLACE, lambda draws: draws <= 0, _shifted(8.0))
def laplace_8_claimed_6(data: Array, rng: Generator, size: int) -> Array:
    """Laplace noise of scale 1/8, claimed epsilon = 6."""
    return _laplace(data, rng, size, 0.125)


@FAMILY.buggy(GDP(4.5), COUNT, GAUSS, lambda draws: draws < 0.5, _halfway(5.0))
def gaussian_5_claimed_4_and_a_half(data: Array, rng: Generator, size: int) -> Array:
    """Gaussian noise of mu = 5, claimed 4.5."""
    return _gaussian(data, rng, size, 0.2)
