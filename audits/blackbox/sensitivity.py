"""Queries whose sensitivity is wrong: means, sums, histograms, moments."""

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
    first,
    frozen,
    laplace_above,
    normal_above,
    reals,
)
from dpaudit.families.opaque import GDP, ZCDP, PureDP

FAMILY = Family("sensitivity")
ONE = PureDP(1)
DWORK = "Dwork, McSherry, Nissim and Smith 2006, Calibrating noise to sensitivity"


def _replace(d0: Array, d1: Array, low: float, high: float) -> Pair:
    domain = Domain(len(d0), len(d0), low, high, d0.shape[1:])
    return Pair(frozen(d0), frozen(d1), domain, Relation.REPLACE_ONE)


def _add(d0: Array, d1: Array, low: float, high: float) -> Pair:
    domain = Domain(1, 20, low, high, d0.shape[1:])
    return Pair(frozen(d0), frozen(d1), domain, Relation.ADD_REMOVE)


SIGNED = _replace(reals(-1, 0, 0, 0), reals(1, 0, 0, 0), -1, 1)
UNIT = _replace(reals(0, *[0] * 9), reals(1, *[0] * 9), 0, 1)
BINS = _replace(reals(0, 1, 2), reals(1, 1, 2), 0, 2)
BINS = Pair(BINS.d0, BINS.d1, Domain(3, 3, 0, 2, whole=True), Relation.REPLACE_ONE)
ONE_MORE = _add(reals(0.0), reals(0.0, 0.0), 0, 1)
VECTOR = _replace(np.zeros((3, 4)), np.array([[1.0] * 4, [0.0] * 4, [0.0] * 4]), 0, 1)


def _laplace(value: float, scale: float, rng: Generator, size: int) -> Array:
    return value + scale * rng.laplace(size=size)


@FAMILY.correct(ONE, SIGNED, DWORK)
def sum_replace_one(data: Array, rng: Generator, size: int) -> Array:
    """Right: a record in [-1, 1] that is replaced moves the sum by 2; noise Lap(2/eps)."""
    return _laplace(data.sum(), 2.0, rng, size)


@FAMILY.buggy(
    ONE,
    SIGNED,
    DWORK + ": the sensitivity is the diameter, not the radius",
    lambda draws: draws < -1,
    (0.5, laplace_above(2.0)),
)
def sum_radius_for_diameter(data: Array, rng: Generator, size: int) -> Array:
    """Noise Lap(1/eps) for a sum that moves by 2 when a record is replaced: 2 eps."""
    return _laplace(data.sum(), 1.0, rng, size)


@FAMILY.correct(ONE, BINS, DWORK)
def histogram_replace_one(data: Array, rng: Generator, size: int) -> Array:
    """Right: a replaced record moves two bins; noise Lap(2/eps) in each."""
    return _histogram(data, rng, size, 2.0)


def _histogram(data: Array, rng: Generator, size: int, scale: float) -> Array:
    counts = np.bincount(data.astype(np.int64), minlength=3)
    return counts + scale * rng.laplace(size=(size, 3))


@FAMILY.buggy(
    ONE,
    BINS,
    DWORK + ", under replace_one with the noise of add_remove",
    lambda draws: (draws[:, 0] > 1) & (draws[:, 1] < 1),
    (0.25, laplace_above(1.0) ** 2),
)
def histogram_half_noise(data: Array, rng: Generator, size: int) -> Array:
    """Noise Lap(1/eps) a bin, as if a record were only added or removed: 2 eps."""
    return _histogram(data, rng, size, 1.0)


@FAMILY.correct(ONE, UNIT, DWORK)
def mean_right(data: Array, rng: Generator, size: int) -> Array:
    """Right: mean of n records in [0, 1], n public, noise Lap(1/(n eps))."""
    return _laplace(data.mean(), 1.0 / len(data), rng, size)


@FAMILY.buggy(
    ONE,
    UNIT,
    DWORK,
    lambda draws: draws <= 0,
    (0.5, laplace_above(10.0)),
)
def mean_divided_twice(data: Array, rng: Generator, size: int) -> Array:
    """The noise is divided by n twice: n eps."""
    return _laplace(data.mean(), 1.0 / len(data) ** 2, rng, size)


@FAMILY.buggy(
    ONE,
    ONE_MORE,
    "Dwork and Roth 2014, section 3.3: the number of records is private under add_remove",
    lambda draws: np.abs(draws) > 3,
    (2 * laplace_above(3.0), 2 * laplace_above(6.0)),
)
def mean_of_private_size(data: Array, rng: Generator, size: int) -> Array:
    """The noisy sum is divided by the true number of records, whose scale then tells it: infinite.

    The loss of an answer x grows with |x|.
    """
    return np.asarray((data.sum() + rng.laplace(size=size)) / len(data))


@FAMILY.buggy(
    ONE,
    _replace(reals(0, 0, 0), reals(4, 0, 0), 0, 4),
    DWORK,
    lambda draws: draws < 0,
    (0.5, laplace_above(4.0)),
)
def sum_not_clipped(data: Array, rng: Generator, size: int) -> Array:
    """Records in [0, 4] are summed as if they were in [0, 1]: 4 eps."""
    return _laplace(data.sum(), 1.0, rng, size)


VARIANCE = _replace(reals(0, *[0] * 9), reals(1, *[0] * 9), 0, 1)


@FAMILY.correct(ONE, VARIANCE, "Dwork and Roth 2014, section 3.3, for a variance")
def variance_right(data: Array, rng: Generator, size: int) -> Array:
    """Right: the variance of n records in [0, 1] moves by (n - 1)/n^2 at most."""
    return _laplace(data.var(), (len(data) - 1) / len(data) ** 2, rng, size)


@FAMILY.buggy(
    ONE,
    VARIANCE,
    DWORK + ", for a variance",
    lambda draws: draws <= 0,
    (0.5, laplace_above(0.09 / (0.5 * 0.09))),
)
def variance_half_noise(data: Array, rng: Generator, size: int) -> Array:
    """The variance's sensitivity is taken to be half of (n - 1)/n^2: 2 eps."""
    return _laplace(data.var(), 0.5 * (len(data) - 1) / len(data) ** 2, rng, size)


@FAMILY.buggy(
    ONE,
    UNIT,
    DWORK + ": local against global sensitivity",
    lambda draws: draws <= 0,
    (0.5, laplace_above(10.0)),
)
def maximum_as_mean(data: Array, rng: Generator, size: int) -> Array:
    """The largest record with the sensitivity 1/n of a mean, though one record moves it by 1."""
    return _laplace(data.max(), 1.0 / len(data), rng, size)


COUNTS = _replace(np.zeros((4, 3)), np.array([[1.0] * 3, *[[0.0] * 3] * 3]), 0, 1)


@FAMILY.correct(ONE, COUNTS, DWORK)
def three_counts(data: Array, rng: Generator, size: int) -> Array:
    """Right: one record is in all three sums; noise Lap(3/eps) in each."""
    return np.asarray(data.sum(axis=0) + 3.0 * rng.laplace(size=(size, 3)))


@FAMILY.buggy(
    ONE,
    COUNTS,
    DWORK + ": the l1-sensitivity of a vector",
    lambda draws: (draws < 0).all(1),
    (0.125, laplace_above(1.0) ** 3),
)
def three_counts_noise_for_one(data: Array, rng: Generator, size: int) -> Array:
    """Noise Lap(1/eps) in each of three sums that one record moves together: 3 eps."""
    return np.asarray(data.sum(axis=0) + rng.laplace(size=(size, 3)))


@FAMILY.correct(GDP(1), VECTOR, "Dong, Roth and Su 2022, Theorem 2.7")
def gaussian_vector(data: Array, rng: Generator, size: int) -> Array:
    """Right: four coordinates in [0, 1], l2-sensitivity 2, noise N(0, 2^2) for mu = 1."""
    return np.asarray(data.sum(axis=0) + 2.0 * rng.standard_normal((size, 4)))


@FAMILY.buggy(
    GDP(1),
    VECTOR,
    "Dong, Roth and Su 2022, Theorem 2.7: the l2-norm over all coordinates",
    lambda draws: draws.sum(1) < 2,
    (normal_above(-1.0), normal_above(1.0)),
)
def gaussian_vector_one_coordinate(data: Array, rng: Generator, size: int) -> Array:
    """The sensitivity of one coordinate for all four: mu = 2."""
    return np.asarray(data.sum(axis=0) + rng.standard_normal((size, 4)))


@FAMILY.buggy(
    ZCDP(0.5),
    VECTOR,
    "Bun and Steinke 2016, Lemma 2.5: the l2-norm over all coordinates",
    lambda draws: draws.sum(1) < 1,
    (normal_above(-0.5), normal_above(1.5)),
)
def zcdp_vector_one_coordinate(data: Array, rng: Generator, size: int) -> Array:
    """The same under a claim of zero-concentrated privacy: rho = 2 for 1/2."""
    return np.asarray(data.sum(axis=0) + rng.standard_normal((size, 4)))


MANY = Domain(1, 6, 0, 3, whole=True)
DISTINCT = Pair(reals(0, 0, 0), reals(0, 0, 0, 1), MANY, Relation.ADD_REMOVE)


@FAMILY.buggy(
    ONE,
    DISTINCT,
    DWORK + ": a pair of records enters twice",
    lambda draws: draws < 0,
    (0.5, laplace_above(3.0)),
)
def differing_pairs(data: Array, rng: Generator, size: int) -> Array:
    """Counts pairs of differing records with the noise of a count of records: 3 eps with four."""
    pairs = np.count_nonzero(data[:, None] != data[None, :]) / 2
    return _laplace(pairs, 1.0, rng, size)


@FAMILY.buggy(
    ONE,
    _replace(np.array([[1.0, 1.0], [1.0, 1.0]]), np.array([[1.0, 0.0], [1.0, 1.0]]), 0, 1),
    DWORK + ": a ratio has no small sensitivity",
    lambda draws: draws > 1,
    (0.5, math.exp(-5.0) / 2),
)
def ratio_as_mean(data: Array, rng: Generator, size: int) -> Array:
    """A ratio of sums with noise 1/(10 eps), as if its records were ten: 5 eps."""
    return _laplace(data[:, 1].sum() / max(data[:, 0].sum(), 1.0), 0.1, rng, size)


@FAMILY.buggy(
    ONE,
    _add(np.array([[0.0, 0.0]]), np.array([[0.0, 0.0], [1.0, 1.0]]), 0, 1),
    DWORK + ": what is exact and private is no post-processing",
    lambda draws: np.abs(first(draws) + draws[:, 1]) < 1e-8,
    (1.0, 0.0),
)
def consistent_with_true_total(data: Array, rng: Generator, size: int) -> Array:
    """Noisy sums are shifted so that they add up to the true total, which they then tell."""
    noisy = data.sum(axis=0) + 2.0 * rng.laplace(size=(size, 2))
    return np.asarray(noisy + (data.sum() - noisy.sum(axis=1, keepdims=True)) / 2)
