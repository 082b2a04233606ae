"""Amplification by subsampling that was claimed and did not take place.

Data: records in [0, 1]; the sum of a random batch gets Laplace noise of scale 1.
"""

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
    reals,
)
from dpaudit.families.opaque import PureDP

FAMILY = Family("sampling")
BALLE = "Balle, Barthe and Gaboardi 2018, Privacy amplification by subsampling"
RATE = 0.1
AMPLIFIED = PureDP(0.15857)  # ln(1 + RATE (e - 1)), rounded up

EXTRA = Pair(reals(0.0), reals(0.0, 1.0), Domain(1, 20, 0, 1), Relation.ADD_REMOVE)
FOUR = Pair(reals(0, 0, 0, 0), reals(1, 0, 0, 0), Domain(4, 4, 0, 1), Relation.REPLACE_ONE)
TEN = Pair(reals(*[0.0] * 10), reals(1.0, *[0.0] * 9), Domain(10, 10, 0, 1), Relation.REPLACE_ONE)


def _noisy(sums: Array, rng: Generator, scale: float = 1.0) -> Array:
    return np.asarray(sums + scale * rng.laplace(size=np.shape(sums)))


def _poisson(data: Array, rng: Generator, size: int, rate: float) -> Array:
    return np.asarray((rng.random((size, len(data))) < rate) @ data)


def _above(draws: Array) -> Array:
    return np.asarray(draws > 1)


def _swapped(pair: Pair) -> Pair:
    return Pair(pair.d1, pair.d0, pair.domain, pair.relation)


def _tail(rate: float) -> tuple[float, float]:
    """P[x > 1] with one more record at this rate, and without."""
    return (1 - rate) * laplace_above(1.0) + rate * 0.5, laplace_above(1.0)


@FAMILY.correct(AMPLIFIED, EXTRA, BALLE + ", Theorem 8")
def poisson_sampled(data: Array, rng: Generator, size: int) -> Array:
    """Right: each record with probability 0.1, ln(1 + 0.1 (e^eps - 1)) under add_remove."""
    return _noisy(_poisson(data, rng, size, RATE), rng)


@FAMILY.correct(AMPLIFIED, TEN, BALLE + ", Theorem 9")
def one_of_ten_sampled(data: Array, rng: Generator, size: int) -> Array:
    """Right: one record of ten without replacement, under replace_one."""
    return _noisy(data[rng.integers(len(data), size=size)], rng)


@FAMILY.buggy(AMPLIFIED, _swapped(EXTRA), BALLE, _above, _tail(1.0))
def not_sampled(data: Array, rng: Generator, size: int) -> Array:
    """The amplified epsilon of rate 0.1 is claimed, all records are used: 1 for 0.159."""
    return _noisy(np.full(size, data.sum()), rng)


@FAMILY.buggy(AMPLIFIED, _swapped(TEN), BALLE, _above, _tail(1.0))
def fixed_batch(data: Array, rng: Generator, size: int) -> Array:
    """The batch is the first tenth of the records, every time: 1 for 0.159."""
    return _noisy(np.full(size, data[: len(data) // 10].sum()), rng)


@FAMILY.buggy(AMPLIFIED, _swapped(EXTRA), BALLE, _above, _tail(0.2))
def rate_twice_as_large(data: Array, rng: Generator, size: int) -> Array:
    """Batches of rate 0.2, accounted at 0.1: 0.295 for 0.159."""
    return _noisy(_poisson(data, rng, size, 2 * RATE), rng)


@FAMILY.buggy(
    PureDP(0.3),
    Pair(reals(0.0, 1.0), reals(0.0), Domain(1, 20, 0, 1), Relation.ADD_REMOVE),
    BALLE + ", Theorem 8",
    _above,
    (0.9 * laplace_above(3.0) + 0.1 * 0.5, laplace_above(3.0)),
)
def rate_times_epsilon(data: Array, rng: Generator, size: int) -> Array:
    """Claims q eps = 0.3 at eps = 3, where ln(1 + q (e^eps - 1)) = 1.07."""
    return _noisy(_poisson(data, rng, size, RATE), rng, 1.0 / 3.0)


FOUR_TIMES = (3 + math.e) / 4


@FAMILY.buggy(
    PureDP(1),
    _swapped(FOUR),
    BALLE + ", Theorem 10: a record can be drawn several times",
    lambda draws: draws > 4,
    (0.5 * math.exp(-4) * FOUR_TIMES**4, laplace_above(4.0)),
)
def drawn_with_replacement(data: Array, rng: Generator, size: int) -> Array:
    """Four of four records with replacement, accounted as without: 1.43 eps."""
    return _noisy(data[rng.integers(4, size=(size, 4))].sum(axis=1), rng)


@FAMILY.correct(PureDP(1), FOUR, BALLE)
def drawn_without_replacement(data: Array, rng: Generator, size: int) -> Array:
    """Right: two of four records without replacement, accounted without any amplification."""
    order = rng.permuted(np.broadcast_to(data, (size, 4)), axis=1)
    return _noisy(order[:, :2].sum(axis=1), rng)


@FAMILY.buggy(
    AMPLIFIED,
    _swapped(TEN),
    BALLE + ": the batch has to stay secret",
    lambda draws: (draws[:, 1] == 0) & (draws[:, 0] > 1),
    (0.1 * 0.5, 0.1 * laplace_above(1.0)),
)
def batch_published(data: Array, rng: Generator, size: int) -> Array:
    """The index of the sampled record is released with its noisy value: 1 for 0.159."""
    chosen = rng.integers(len(data), size=size)
    return np.stack([_noisy(data[chosen], rng), chosen.astype(np.float64)], axis=1)


@FAMILY.buggy(
    AMPLIFIED,
    _swapped(TEN),
    "Chua et al. 2024, How private are DP-SGD implementations? (batches by shuffling)",
    lambda draws: np.exp(np.clip(2 * draws - 1, -1, 1)).mean(1) > 1.4,
)
def shuffled_epoch(data: Array, rng: Generator, size: int) -> Array:
    """A whole epoch of ten shuffled batches is released at the price of one sampled batch."""
    return _noisy(rng.permuted(np.broadcast_to(data, (size, 10)), axis=1), rng)


@FAMILY.buggy(
    AMPLIFIED,
    Pair(reals(1.0, *[0.0] * 9), reals(0.0, *[0.0] * 9), TEN.domain, TEN.relation),
    BALLE + ": the rate must not depend on the record",
    _above,
    _tail(1.0),
)
def sampled_by_value(data: Array, rng: Generator, size: int) -> Array:
    """A tenth of the records is taken, by size: the largest is always in: 1 for 0.159."""
    return _noisy(np.full(size, np.sort(data)[-1]), rng)
