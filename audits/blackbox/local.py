"""Local differential privacy: randomised response, unary encoding, hashing; one user's value."""

from __future__ import annotations

import math

import numpy as np

from audits.blackbox.case import Array, Domain, Family, Generator, Pair, Relation, reals
from dpaudit.families.opaque import PureDP

FAMILY = Family("local")
ONE = PureDP(1)
E = math.e
WARNER = "Warner 1965, Randomized response"
WANG = "Wang, Blocki, Li and Jha 2017, Locally differentially private protocols"
RAPPOR = "Erlingsson, Pihur and Korolova 2014, RAPPOR"

BIT = Pair(reals(0.0), reals(1.0), Domain(1, 1, 0, 1, whole=True), Relation.REPLACE_ONE)
VALUE = Pair(reals(0.0), reals(1.0), Domain(1, 1, 0, 7, whole=True), Relation.REPLACE_ONE)
REAL = Pair(reals(1.0), reals(-1.0), Domain(1, 1, -1, 1), Relation.REPLACE_ONE)
WIDE = Pair(reals(2.0), reals(-2.0), Domain(1, 1, -2, 2), Relation.REPLACE_ONE)


def _response(data: Array, rng: Generator, size: int, truth: float) -> Array:
    lie = rng.random(size) >= truth
    return np.asarray(np.where(lie, 1 - data[0], data[0]))


def _choices(data: Array, rng: Generator, size: int, truth: float, choices: int) -> Array:
    """The value with probability ``truth``, else one of the others."""
    other = (data[0] + rng.integers(1, choices, size=size)) % choices
    return np.asarray(np.where(rng.random(size) < truth, data[0], other))


def _unary(data: Array, rng: Generator, size: int, one: float, zero: float) -> Array:
    """Bits of a one-hot vector of 8, kept 1 with probability ``one``, made 1 with ``zero``."""
    hot = np.arange(8) == data[0]
    return (rng.random((size, 8)) < np.where(hot, one, zero)).astype(np.float64)


def _first_not_second(draws: Array) -> Array:
    return np.asarray((draws[:, 0] == 1) & (draws[:, 1] == 0))


@FAMILY.correct(ONE, BIT, WARNER)
def response_right(data: Array, rng: Generator, size: int) -> Array:
    """Right: the truth with probability e^eps/(1 + e^eps)."""
    return _response(data, rng, size, E / (1 + E))


@FAMILY.buggy(ONE, BIT, WARNER, lambda draws: draws == 0, (0.75, 0.25))
def response_two_coins(data: Array, rng: Generator, size: int) -> Array:
    """The truth on the first coin, a coin on the second: ln 3 = 1.099 claimed as 1."""
    return _response(data, rng, size, 0.75)


@FAMILY.buggy(ONE, BIT, WARNER, lambda draws: draws == 0, (1 - 1 / E**2, 1 / E**2))
def response_wrong_formula(data: Array, rng: Generator, size: int) -> Array:
    """A lie with probability e^(-2 eps), where 1/(1 + e^eps) belongs: 1.85 eps."""
    return _response(data, rng, size, 1 - 1 / E**2)


@FAMILY.buggy(
    ONE,
    Pair(BIT.d1, BIT.d0, BIT.domain, BIT.relation),
    WARNER,
    lambda draws: draws == 1,
    (E / (1 + E), 0.0),
)
def response_lies_one_way(data: Array, rng: Generator, size: int) -> Array:
    """Only a 1 is ever changed; a 0 never gives a 1: infinite."""
    return np.asarray(np.minimum(_response(data, rng, size, E / (1 + E)), data[0]))


@FAMILY.correct(ONE, VALUE, "Kairouz, Oh and Viswanath 2014, k-ary randomized response")
def choices_right(data: Array, rng: Generator, size: int) -> Array:
    """Right: the truth with probability e^eps/(e^eps + 7) among 8 values."""
    return _choices(data, rng, size, E / (E + 7), 8)


@FAMILY.buggy(
    ONE,
    VALUE,
    "Kairouz, Oh and Viswanath 2014",
    lambda draws: draws == 0,
    (E / (1 + E), 1 / (1 + E) / 7),
)
def choices_of_two(data: Array, rng: Generator, size: int) -> Array:
    """The truth with the probability that two values need, among 8: eps + ln 7."""
    return _choices(data, rng, size, E / (1 + E), 8)


KEPT = math.sqrt(E) / (1 + math.sqrt(E))


@FAMILY.correct(ONE, VALUE, WANG + " (symmetric unary encoding)")
def unary_right(data: Array, rng: Generator, size: int) -> Array:
    """Right: each bit of a one-hot vector with eps/2."""
    return _unary(data, rng, size, KEPT, 1 - KEPT)


@FAMILY.buggy(
    ONE,
    VALUE,
    WANG + " (symmetric unary encoding)",
    _first_not_second,
    ((E / (1 + E)) ** 2, (1 / (1 + E)) ** 2),
)
def unary_whole_budget_a_bit(data: Array, rng: Generator, size: int) -> Array:
    """Each bit with eps, though two bits differ between values: 2 eps."""
    return _unary(data, rng, size, E / (1 + E), 1 / (1 + E))


@FAMILY.correct(ONE, VALUE, WANG + " (optimized unary encoding)")
def unary_optimized(data: Array, rng: Generator, size: int) -> Array:
    """Right: a 1 stays with probability 1/2, a 0 becomes 1 with 1/(e^eps + 1)."""
    return _unary(data, rng, size, 0.5, 1 / (1 + E))


@FAMILY.buggy(
    ONE,
    VALUE,
    WANG + " (optimized unary encoding)",
    _first_not_second,
    (0.75 * E / (1 + E), 0.25 / (1 + E)),
)
def unary_optimized_too_true(data: Array, rng: Generator, size: int) -> Array:
    """A 1 stays with probability 3/4 in place of 1/2: eps + ln 3."""
    return _unary(data, rng, size, 0.75, 1 / (1 + E))


def _rappor(data: Array, rng: Generator, size: int, reports: int) -> Array:
    """Permanent randomised response (f = 1/2), then instantaneous ones (q = 3/4, p = 1/2)."""
    chance = 0.5 + 0.25 * _unary(data, rng, size, 0.75, 0.25)
    return (rng.random((size, 8 * reports)) < np.tile(chance, reports)).astype(np.float64)


@FAMILY.correct(PureDP(2.1973), VALUE, RAPPOR + ", Theorem 1")
def rappor_right(data: Array, rng: Generator, size: int) -> Array:
    """Right: permanent response with f = 1/2, one hash, 2 ln 3 for any number of reports."""
    return _rappor(data, rng, size, 2)


@FAMILY.buggy(
    PureDP(1.0987),
    VALUE,
    RAPPOR + ", Theorem 1, without the factor 2",
    _first_not_second,
    (0.75**2, 0.25**2),
)
def rappor_half_the_loss(data: Array, rng: Generator, size: int) -> Array:
    """The permanent response counts one changed bit where two change: 2 ln 3, claimed ln 3."""
    return _unary(data, rng, size, 0.75, 0.25)


@FAMILY.buggy(
    PureDP(0.54),
    VALUE,
    RAPPOR + ", Theorem 2: that is the loss of one report",
    lambda draws: draws[:, 0::8].sum(1) - draws[:, 1::8].sum(1) >= 2,
)
def rappor_many_reports(data: Array, rng: Generator, size: int) -> Array:
    """Three reports of one permanent response, at the price of the first, 0.537."""
    return _rappor(data, rng, size, 3)


def _hashed(data: Array, rng: Generator, size: int, truth: float) -> Array:
    """A random hash function to 4 buckets, and the bucket told by randomised response."""
    table = rng.integers(4, size=(size, 8))
    bucket = table[:, int(data[0])]
    other = (bucket + rng.integers(1, 4, size=size)) % 4
    told = np.where(rng.random(size) < truth, bucket, other)
    return np.stack([table[:, 0], table[:, 1], told], axis=1).astype(np.float64)


@FAMILY.correct(ONE, VALUE, WANG + " (optimized local hashing)")
def hashing_right(data: Array, rng: Generator, size: int) -> Array:
    """Right: randomised response over the 4 buckets, with the hash function made public."""
    return _hashed(data, rng, size, E / (E + 3))


@FAMILY.buggy(
    ONE,
    VALUE,
    WANG + " (optimized local hashing)",
    lambda draws: (draws[:, 2] == draws[:, 0]) & (draws[:, 0] != draws[:, 1]),
    (0.75 * E / (1 + E), 0.25 / (1 + E)),
)
def hashing_of_two(data: Array, rng: Generator, size: int) -> Array:
    """The truth with the probability that two buckets need, among four: eps + ln 3."""
    return _hashed(data, rng, size, E / (1 + E))


def _one_bit(data: Array, rng: Generator, size: int) -> Array:
    chance = 0.5 + data[0] * (E - 1) / (2 * (E + 1))
    return np.asarray((rng.random(size) < chance).astype(np.float64))


@FAMILY.correct(ONE, REAL, "Duchi, Jordan and Wainwright 2018, Minimax optimal procedures")
def one_bit_mean(data: Array, rng: Generator, size: int) -> Array:
    """Right: a value in [-1, 1] as one bit of that mean."""
    return _one_bit(data, rng, size)


@FAMILY.buggy(
    ONE,
    WIDE,
    "Duchi, Jordan and Wainwright 2018, for values outside [-1, 1]",
    lambda draws: draws == 1,
    (0.5 + (E - 1) / (E + 1), 0.5 - (E - 1) / (E + 1)),
)
def one_bit_mean_not_clipped(data: Array, rng: Generator, size: int) -> Array:
    """A value in [-2, 2] is not clipped to [-1, 1]: 3.23 for 1."""
    return _one_bit(data, rng, size)
