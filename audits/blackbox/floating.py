"""Floating-point leaks: supports and low bits of textbook samplers, overflow, rounding of sums."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import ndtri

from audits.blackbox.case import (
    Array,
    Domain,
    Family,
    Generator,
    Pair,
    Relation,
    frozen,
    laplace_above,
    on_grid,
    reals,
)
from dpaudit.families.opaque import GDP, ApproxDP, PureDP

FAMILY = Family("floating point", None)
ONE = PureDP(1)
MIRONOV = "Mironov 2012, On significance of the least significant bits"
JIN = "Jin, McMurtry, Rubinstein and Ohrimenko 2022, Are we there yet? Timing and floating point"
HANEY = "Haney, Desfontaines, Hartman, Shrestha and Hay 2022, Precision-based attacks"
CASACUBERTA = "Casacuberta, Shoemate, Vadhan and Wagaman 2022, Widespread underestimation"

COUNT = Pair(reals(0.0), reals(1.0), Domain(1, 1, 0, 1, whole=True), Relation.REPLACE_ONE)
LARGER = Pair(
    reals(1, 1, 1, 0), reals(1, 1, 1, 1), Domain(4, 4, 0, 1, whole=True), Relation.REPLACE_ONE
)
STEP = 2.0**-20


def _no_multiple_of(step: float, draws: Array) -> Array:
    """Draws that are no multiple of a power of two."""
    return np.asarray(draws / step != np.floor(draws / step))


def _off_unit_grid(draws: Array) -> Array:
    """What 1 + noise cannot be: near 0, it is a multiple of 2^-53."""
    return np.asarray((np.abs(draws) < 0.5) & _no_multiple_of(2.0**-53, draws))


def _standard_laplace(rng: Generator, size: int) -> Array:
    uniform = rng.random(size) - 0.5
    with np.errstate(divide="ignore"):
        return np.asarray(-np.sign(uniform) * np.log(1 - 2 * np.abs(uniform)))


@FAMILY.buggy(ONE, COUNT, MIRONOV, _off_unit_grid)
def textbook_laplace(data: Array, rng: Generator, size: int) -> Array:
    """A logarithm of a uniform: the low bits of 0 + noise are none of 1 + noise: infinite."""
    return np.asarray(data.sum() + _standard_laplace(rng, size))


@FAMILY.buggy(ONE, COUNT, MIRONOV, _off_unit_grid)
def library_laplace(data: Array, rng: Generator, size: int) -> Array:
    """The same with the Laplace sampler of a numerical library: infinite."""
    return np.asarray(data.sum() + rng.laplace(size=size))


def _odd_last_bit(draws: Array) -> Array:
    """Odd multiples of 2^-52 in [1, 2): 3 + noise gives them, 4 + noise does not."""
    return np.asarray((draws >= 1) & (draws < 2) & _no_multiple_of(2.0**-51, draws))


@FAMILY.buggy(ONE, LARGER, MIRONOV + "; " + HANEY, _odd_last_bit)
def laplace_across_a_binade(data: Array, rng: Generator, size: int) -> Array:
    """Sums of 3 and 4 leave different last bits in the same output: infinite."""
    return np.asarray(data.sum() + _standard_laplace(rng, size))


def _plain(value: float, scale: float, rng: Generator, size: int) -> Array:
    """Laplace noise that leaks no low bits, where something else is at stake."""
    return on_grid(value + scale * rng.laplace(size=size), STEP)


def _box_muller(rng: Generator, size: int) -> Array:
    radius = np.sqrt(-2 * np.log1p(-rng.random(size)))
    return np.asarray(radius * np.cos(2 * math.pi * rng.random(size)))


@FAMILY.buggy(ApproxDP(1, 1e-5), COUNT, JIN + " (Box and Muller)", _off_unit_grid)
def gaussian_box_muller(data: Array, rng: Generator, size: int) -> Array:
    """Box and Muller's normal variable, deviation 4: its low bits tell the count: infinite."""
    return np.asarray(data.sum() + 4.0 * _box_muller(rng, size))


@FAMILY.buggy(ApproxDP(1, 1e-5), COUNT, JIN + " (ziggurat)", _off_unit_grid)
def gaussian_ziggurat(data: Array, rng: Generator, size: int) -> Array:
    """A library's ziggurat sampler, deviation 4: the same leak: infinite."""
    return np.asarray(data.sum() + 4.0 * rng.standard_normal(size))


@FAMILY.buggy(GDP(0.25), COUNT, HANEY + " (inverse distribution function)", _off_unit_grid)
def gaussian_inverse(data: Array, rng: Generator, size: int) -> Array:
    """The inverse normal distribution function, deviation 4: the same leak: infinite."""
    return np.asarray(data.sum() + 4.0 * ndtri(rng.random(size) + 2.0**-54))


def _single(draws: Array) -> Array:
    return np.asarray((np.abs(draws) < 0.5) & _no_multiple_of(2.0**-24, draws))


@FAMILY.buggy(ONE, COUNT, MIRONOV + ", in single precision", _single)
def laplace_single_precision(data: Array, rng: Generator, size: int) -> Array:
    """Single precision throughout: the grid of 1 + noise is 2^29 times as coarse: infinite."""
    noise = _standard_laplace(rng, size).astype(np.float32)
    return (np.float32(data.sum()) + noise).astype(np.float64)


def _grid_laplace(data: Array, rng: Generator, size: int) -> Array:
    chance = -math.expm1(-1.0 / 1024)
    steps = rng.geometric(chance, size) - rng.geometric(chance, size)
    return np.asarray((1024 * np.rint(data.sum()) + steps) / 1024.0)


@FAMILY.correct(ONE, COUNT, HANEY + "; Balcer and Vadhan 2018")
def laplace_on_a_grid(data: Array, rng: Generator, size: int) -> Array:
    """Right: geometric noise in units of 1/1024 on a whole sum, which is on that grid."""
    return _grid_laplace(data, rng, size)


@FAMILY.correct(ApproxDP(1, 1e-6), COUNT, MIRONOV + ", section 5 (rounding)")
def laplace_rounded_coarsely(data: Array, rng: Generator, size: int) -> Array:
    """Right: rounded to quarters, so low bits are gone; delta for the noise's finite range."""
    return on_grid(data.sum() + rng.laplace(size=size), 0.25)


# --- integers ------------------------------------------------------------------------------------

FULL = Pair(
    reals(*[1.0] * 127, 0.0),
    reals(*[1.0] * 128),
    Domain(128, 128, 0, 1, whole=True),
    Relation.REPLACE_ONE,
)


@FAMILY.buggy(ONE, FULL, CASACUBERTA + " (overflow)", lambda draws: draws > 0)
def count_in_8_bits(data: Array, rng: Generator, size: int) -> Array:
    """A count in a signed byte goes from 127 to -128: 255 eps."""
    with np.errstate(over="ignore"):
        total = data.astype(np.int8).sum(dtype=np.int8)
    return _plain(float(total), 1.0, rng, size)


@FAMILY.correct(ONE, FULL, "Casacuberta et al. 2022, section 5: wrapped after the noise")
def wraps_after_noise(data: Array, rng: Generator, size: int) -> Array:
    """Right: whole-numbered noise, then arithmetic modulo 256, which is post-processing."""
    chance = -math.expm1(-1.0)
    noisy = int(data.sum()) + rng.geometric(chance, size) - rng.geometric(chance, size)
    return np.asarray((noisy + 128) % 256 - 128.0)


BIG = 2**53
LONG = Pair(
    frozen(np.array([BIG, 2, 0])),
    frozen(np.array([BIG, 2, 1])),
    Domain(3, 3, 0, BIG, whole=True),
    Relation.REPLACE_ONE,
)


@FAMILY.buggy(
    ONE,
    LONG,
    CASACUBERTA + " (rounding of large counts)",
    lambda draws: draws < BIG + 3,
    (1 - laplace_above(1.0), laplace_above(1.0)),
)
def large_count_as_float(data: Array, rng: Generator, size: int) -> Array:
    """2^53 + 3 becomes 2^53 + 4 as a float: a step of 2 where 1 is claimed: 2 eps.

    What is given out is on that grid as well.
    """
    return float(data.sum()) + np.rint(rng.laplace(size=size) / 2) * 2


# --- sums ----------------------------------------------------------------------------------------

STEPS = np.concatenate([np.full(1024, 2.0), np.full(1000, -0.6)])
HALF_SUM = Pair(
    frozen(np.concatenate([[2.0], STEPS])),
    frozen(np.concatenate([[0.0], STEPS])),
    Domain(2025, 2025, -2, 2),
    Relation.REPLACE_ONE,
)


@FAMILY.buggy(
    ONE,
    HALF_SUM,
    CASACUBERTA + " (repeated rounding)",
    lambda draws: draws > 1550,
)
def half_precision_sum(data: Array, rng: Generator, size: int) -> Array:
    """Added up in half precision, 2,050 stays where it is and 2,048 falls by 1 each time: infinite.

    A record in [-2, 2] moves the true sum by 4, the computed one by over 1,000.
    """
    total = float(np.cumsum(data, dtype=np.float16)[-1])
    return _plain(total, 4.0, rng, size)


@FAMILY.correct(ONE, HALF_SUM, CASACUBERTA)
def exact_sum(data: Array, rng: Generator, size: int) -> Array:
    """Right: the same sum without intermediate rounding."""
    return _plain(math.fsum(data), 4.0, rng, size)


MILLIONS = [1e8 + 0.625, 1e8 + 0.25, 1e8, 1e8]
OFFSET = Pair(
    reals(1e8 + 0.25, *MILLIONS),
    reals(1e8 + 0.5, *MILLIONS),
    Domain(5, 5, 1e8, 1e8 + 1),
    Relation.REPLACE_ONE,
)


@FAMILY.buggy(
    ONE,
    OFFSET,
    "Chan, Golub and LeVeque 1983, Algorithms for computing the sample variance",
    lambda draws: draws > 1,
)
def variance_by_squares(data: Array, rng: Generator, size: int) -> Array:
    """Mean of squares less squared mean of records near 10^8 loses all its digits: 25 eps.

    The variance of five records moves by 0.16 at most; what is computed goes from 2 to -2.
    """
    return _plain(np.square(data).mean() - data.mean() ** 2, 0.16, rng, size)


@FAMILY.correct(ONE, OFFSET, "Chan, Golub and LeVeque 1983")
def variance_by_deviations(data: Array, rng: Generator, size: int) -> Array:
    """Right: the same from records less their public offset."""
    return _plain(float((data - 1e8).var()), 0.16, rng, size)


# --- exponentials --------------------------------------------------------------------------------

LOW = Pair(
    reals(-1490.0, -1490.0), reals(-1490.0, -1491.0), Domain(2, 2, -2000, 0), Relation.EACH_BY_ONE
)


def _exponential_mechanism(weights: Array, rng: Generator, size: int) -> Array:
    with np.errstate(invalid="ignore", over="ignore"):
        levels = np.cumsum(weights) / np.sum(weights)
    if np.isnan(levels).any():
        return np.full(size, np.nan)
    return np.searchsorted(levels, rng.random(size), side="right").astype(np.float64)


@FAMILY.buggy(
    ONE, LOW, CASACUBERTA + " (underflow of weights)", lambda draws: draws == 1, (0.5, 0.0)
)
def exponential_underflow(data: Array, rng: Generator, size: int) -> Array:
    """e^(eps score/2) of a score of -1,491 is 0, of -1,490 it is not: infinite."""
    return _exponential_mechanism(np.exp(data / 2), rng, size)


HIGH = Pair(
    reals(1418.0, 1418.0), reals(1419.0, 1418.0), Domain(2, 2, 0, 2000), Relation.EACH_BY_ONE
)


@FAMILY.buggy(
    ONE, HIGH, CASACUBERTA + " (overflow of weights)", lambda draws: ~np.isnan(draws), (1.0, 0.0)
)
def exponential_overflow(data: Array, rng: Generator, size: int) -> Array:
    """e^(eps score/2) of 1,419 and 1,418 add up to infinity; chances are then no numbers."""
    return _exponential_mechanism(np.exp(data / 2), rng, size)


@FAMILY.correct(ONE, LOW, "McSherry and Talwar 2007, weights relative to the largest")
def exponential_shifted(data: Array, rng: Generator, size: int) -> Array:
    """Right: weights relative to the largest score, which neither overflow nor all vanish."""
    return _exponential_mechanism(np.exp((data - data.max()) / 2), rng, size)


@FAMILY.buggy(
    PureDP(0.5),
    COUNT,
    "Balcer and Vadhan 2018; Mironov 2012 (a uniform variable has a smallest value)",
    lambda draws: draws < -12,
    (403 / 1024 / 1024, 0.0),
)
def geometric_by_logarithm(data: Array, rng: Generator, size: int) -> Array:
    """Geometric noise from logarithms of uniform variables of 10 bits: it ends at 13: infinite."""
    uniform = rng.integers(1, 1025, size=(2, size)) / 1024
    steps = np.floor(-np.log(uniform) / 0.5)
    return np.asarray(data.sum() + steps[0] - steps[1])


@FAMILY.buggy(
    ONE,
    COUNT,
    "Ghosh, Roughgarden and Sundararajan 2009; zero must not be drawn under both signs",
    lambda draws: draws == 0,
    (-math.expm1(-1.0), -0.5 * math.expm1(-1.0) * math.exp(-1.0)),
)
def geometric_zero_twice(data: Array, rng: Generator, size: int) -> Array:
    """A geometric size with a random sign draws 0 twice as often as it should: eps + ln 2."""
    steps = rng.geometric(-math.expm1(-1.0), size) - 1
    return np.asarray(data.sum() + np.where(rng.random(size) < 0.5, -1.0, 1.0) * steps)


@FAMILY.buggy(
    ONE,
    Pair(reals(-1.0), reals(1.0), Domain(1, 1, -1, 1), Relation.REPLACE_ONE),
    "IEEE 754: zero has a sign",
    lambda draws: (draws == 0) & np.signbit(draws),
)
def sign_of_zero(data: Array, rng: Generator, size: int) -> Array:
    """A masked answer is 0 times the value, and keeps its sign: infinite."""
    noisy = _plain(data[0], 2.0, rng, size)
    return np.where(rng.random(size) < 0.5, noisy, 0.0 * data[0])
