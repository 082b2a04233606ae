"""Private selection: the exponential mechanism, quantiles, medians, voting teachers."""

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
    frozen,
    reals,
)
from dpaudit.families.opaque import ApproxDP, PureDP

FAMILY = Family("selection")
ONE = PureDP(1)
MCSHERRY = "McSherry and Talwar 2007, Mechanism design via differential privacy"
SMITH = "Smith 2011, Privacy-preserving statistical estimation, Algorithm 2 (quantiles)"
NISSIM = "Nissim, Raskhodnikova and Smith 2007, Smooth sensitivity and sampling"
PAPERNOT = "Papernot et al. 2017; Papernot et al. 2018, Scalable private learning with PATE"


def _scores(d0: list[float], d1: list[float]) -> Pair:
    domain = Domain(len(d0), len(d0), -10.0, 10.0)
    return Pair(frozen(np.array(d0)), frozen(np.array(d1)), domain, Relation.EACH_BY_ONE)


TEN = _scores([1.0] + [0.0] * 9, [0.0] + [1.0] * 9)


def _chosen(weights: Array, rng: Generator, size: int) -> Array:
    levels = np.cumsum(weights) / weights.sum()
    return np.searchsorted(levels, rng.random(size), side="right").astype(np.float64)


@FAMILY.correct(ONE, TEN, MCSHERRY)
def exponential_right(data: Array, rng: Generator, size: int) -> Array:
    """Right: weights e^(eps score/2)."""
    return _chosen(np.exp(data / 2), rng, size)


@FAMILY.buggy(
    ONE,
    TEN,
    MCSHERRY,
    lambda draws: draws == 0,
    (math.e / (math.e + 9), 1 / (1 + 9 * math.e)),
)
def exponential_without_half(data: Array, rng: Generator, size: int) -> Array:
    """Weights e^(eps score), as for scores that all move the same way: 1.78 eps."""
    return _chosen(np.exp(data), rng, size)


COUNTS = Pair(reals(0, 1, 2), reals(1, 1, 2), Domain(3, 3, 0, 2, whole=True), Relation.REPLACE_ONE)


@FAMILY.buggy(
    ONE,
    COUNTS,
    MCSHERRY + ": the sensitivity of a score",
    lambda draws: draws == 0,
    (1 / 3, 1 / (1 + math.exp(2.0) + math.exp(1.0))),
)
def exponential_of_scaled_counts(data: Array, rng: Generator, size: int) -> Array:
    """Scores are twice the counts, with the weights of a score of sensitivity 1: 2.4 eps."""
    scores = 2.0 * np.bincount(data.astype(np.int64), minlength=3)
    return _chosen(np.exp(scores / 2), rng, size)


# --- quantiles -----------------------------------------------------------------------------------

SORTED = Pair(
    reals(0.5, 0.5, 0.5, 0.9, 0.9),
    reals(0.5, 0.5, 0.9, 0.9, 0.9),
    Domain(5, 5, 0, 1),
    Relation.REPLACE_ONE,
)


def _median(
    data: Array, rng: Generator, size: int, rate: float, ends: tuple[float, float]
) -> Array:
    """A point between records, by e^(rate x rank distance) and length of its interval."""
    points = np.concatenate([[ends[0]], np.sort(np.clip(data, *ends)), [ends[1]]])
    utility = -np.abs(np.arange(len(data) + 1) - len(data) / 2)
    lengths = np.diff(points)
    index = _chosen(lengths * np.exp(rate * utility), rng, size).astype(np.int64)
    return points[index] + rng.random(size) * lengths[index]


@FAMILY.correct(ONE, SORTED, SMITH)
def quantile_right(data: Array, rng: Generator, size: int) -> Array:
    """Right: e^(eps u/2) over the public range [0, 1]."""
    return _median(data, rng, size, 0.5, (0.0, 1.0))


@FAMILY.buggy(
    ONE,
    Pair(frozen(np.array([0.5, 0.5, 0.5, 0.9, 1.0])), SORTED.d0, SORTED.domain, SORTED.relation),
    SMITH + ": the range has to be public",
    lambda draws: draws > 0.9,
)
def quantile_of_own_range(data: Array, rng: Generator, size: int) -> Array:
    """The range is that of the data: an output above 0.9 tells a record above it: infinite."""
    return _median(data, rng, size, 0.5, (float(data.min()), float(data.max())))


def _outside(middle: float) -> float:
    """P[x < 0.5 or x > 0.9] where the interval between has this weight over the others'."""
    return 0.6 / (0.6 + 0.4 * middle)


@FAMILY.buggy(
    ONE,
    Pair(
        reals(0.5, 0.9, 0.9, 0.9, 0.9),
        reals(0.5, 0.5, 0.9, 0.9, 0.9),
        SORTED.domain,
        SORTED.relation,
    ),
    SMITH,
    lambda draws: (draws < 0.5) | (draws > 0.9),
    (_outside(math.exp(2)), _outside(math.exp(4))),
)
def quantile_steep(data: Array, rng: Generator, size: int) -> Array:
    """e^(2 eps u) in place of e^(eps u/2): 1.84 for 1 on this pair, 4 at worst."""
    return _median(data, rng, size, 2.0, (0.0, 1.0))


# --- smooth sensitivity --------------------------------------------------------------------------

STABLE = Pair(
    reals(0, 0, 0, 0, 0, 0, 1, 1, 1),
    reals(0, 0, 0, 0, 0, 1, 1, 1, 1),
    Domain(9, 9, 0, 1),
    Relation.REPLACE_ONE,
)
EDGE = Pair(
    reals(0, 0, 0, 0, 0, 1, 1, 1, 1),
    reals(0, 0, 0, 0, 0, 0, 1, 1, 1),
    Domain(9, 9, 0, 1),
    Relation.REPLACE_ONE,
)
DELTA = 0.01
BETA = 1 / (2 * math.log(2 / DELTA))


def _smooth(data: Array, beta: float) -> float:
    """Smooth sensitivity of the median of records in [0, 1]."""
    n = len(data)
    middle = n // 2
    padded = np.concatenate([np.zeros(n + 1), np.sort(data), np.ones(n + 1)])
    largest = 0.0
    for distance in range(n + 1):
        low = middle + n + 1 - distance - 1 + np.arange(distance + 2)
        local = float((padded[low + distance + 1] - padded[low]).max())
        largest = max(largest, math.exp(-beta * distance) * local)
    return largest


def _noisy_median(data: Array, rng: Generator, size: int, scale: float) -> Array:
    return np.asarray(np.median(data) + scale * rng.laplace(size=size))


@FAMILY.correct(ApproxDP(1, DELTA), STABLE, NISSIM + ", Proposition 3.4 and Lemma 2.6")
def smooth_median_right(data: Array, rng: Generator, size: int) -> Array:
    """Right: noise 2 S/eps with S the beta-smooth sensitivity, beta = eps/(2 ln(2/delta))."""
    return _noisy_median(data, rng, size, 2 * _smooth(data, BETA))


@FAMILY.buggy(
    ApproxDP(1, DELTA),
    EDGE,
    NISSIM + ", Lemma 2.6",
    lambda draws: np.abs(draws) > 1,
    (math.exp(-0.5), math.exp(-0.5 * math.exp(2))),
)
def smooth_median_wrong_beta(data: Array, rng: Generator, size: int) -> Array:
    """beta = 2 eps, 21 times too large: from one neighbour to the next the noise falls by e^-2."""
    return _noisy_median(data, rng, size, 2 * _smooth(data, 2.0))


@FAMILY.buggy(ApproxDP(1, DELTA), STABLE, NISSIM, lambda draws: draws == 0, (1.0, 0.0))
def median_local_sensitivity(data: Array, rng: Generator, size: int) -> Array:
    """Noise by the local sensitivity, which is 0 in one of the data sets: delta = 1."""
    return _noisy_median(data, rng, size, 2 * _smooth(data, 800.0))


# --- voting teachers -----------------------------------------------------------------------------

TEACHERS = Pair(
    reals(0, 0, 0, 1, 1, 2, 2),
    reals(1, 0, 0, 1, 1, 2, 2),
    Domain(7, 7, 0, 2, whole=True),
    Relation.REPLACE_ONE,
)


def _votes(data: Array) -> Array:
    return np.bincount(data.astype(np.int64), minlength=3)


@FAMILY.correct(ONE, TEACHERS, PAPERNOT)
def teachers_right(data: Array, rng: Generator, size: int) -> Array:
    """Right: the most votes under noise Lap(2/eps), one record changes one teacher's vote."""
    noisy = _votes(data) + 2.0 * rng.laplace(size=(size, 3))
    return np.asarray(noisy.argmax(axis=1).astype(np.float64))


@FAMILY.buggy(
    ONE,
    Pair(
        reals(0, 0, 1, 1, 1, 1, 1),
        reals(1, 0, 1, 1, 1, 1, 1),
        TEACHERS.domain,
        Relation.REPLACE_ONE,
    ),
    PAPERNOT,
    lambda draws: draws == 0,
)
def teachers_half_noise(data: Array, rng: Generator, size: int) -> Array:
    """Noise Lap(1/eps), though two counts move when a teacher changes its vote: up to 2 eps."""
    noisy = _votes(data) + rng.laplace(size=(size, 3))
    return np.asarray(noisy.argmax(axis=1).astype(np.float64))


@FAMILY.buggy(
    ONE,
    Pair(
        reals(1, 0, 0, 0, 1, 2, 2),
        reals(0, 0, 0, 0, 1, 2, 2),
        TEACHERS.domain,
        Relation.REPLACE_ONE,
    ),
    PAPERNOT + ": the consensus test",
    np.isnan,
    (1.0, 0.0),
)
def teachers_exact_consensus(data: Array, rng: Generator, size: int) -> Array:
    """Answers only where four teachers agree, without noise on that test: infinite."""
    noisy = _votes(data) + 2.0 * rng.laplace(size=(size, 3))
    told = noisy.argmax(axis=1).astype(np.float64)
    return told if _votes(data).max() >= 4 else np.full(size, np.nan)
