"""Events of small probability: delta left out, or larger than claimed."""

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
from dpaudit.families.opaque import ApproxDP, PureDP

FAMILY = Family("rare events")
DWORK = "Dwork and Roth 2014, Definition 2.4"
KOROLOVA = "Korolova, Kenthapadi, Mishra and Ntoulas 2009; Bun, Nissim and Stemmer 2016"
LEI = "Dwork and Lei 2009; Dwork and Roth 2014, section 7.3 (propose, test, release)"

COUNT = Pair(reals(0.0), reals(1.0), Domain(1, 1, 0, 1, whole=True), Relation.REPLACE_ONE)


def _leaks(data: Array, rng: Generator, size: int, chance: float) -> Array:
    """A noisy count, or with the given chance the count itself."""
    noisy = data.sum() + rng.laplace(size=size)
    return np.asarray(np.where(rng.random(size) < chance, data.sum(), noisy))


def _exactly_zero(draws: Array) -> Array:
    return np.asarray(draws == 0)


@FAMILY.correct(ApproxDP(1, 0.001), COUNT, DWORK)
def raw_within_delta(data: Array, rng: Generator, size: int) -> Array:
    """Right: the count itself with probability 0.001, which delta = 0.001 allows."""
    return _leaks(data, rng, size, 0.001)


@FAMILY.buggy(PureDP(1), COUNT, DWORK, _exactly_zero, (1e-3, 0.0))
def raw_once_in_1000(data: Array, rng: Generator, size: int) -> Array:
    """The count itself with probability 0.001 under a pure claim: infinite."""
    return _leaks(data, rng, size, 1e-3)


@FAMILY.buggy(PureDP(1), COUNT, DWORK, _exactly_zero, (2e-4, 0.0))
def raw_once_in_5000(data: Array, rng: Generator, size: int) -> Array:
    """The count itself with probability 0.0002 under a pure claim: infinite."""
    return _leaks(data, rng, size, 2e-4)


@FAMILY.buggy(PureDP(1), COUNT, DWORK, _exactly_zero, (1e-4, 0.0))
def raw_once_in_10000(data: Array, rng: Generator, size: int) -> Array:
    """The count itself with probability 0.0001 under a pure claim: infinite."""
    return _leaks(data, rng, size, 1e-4)


@FAMILY.buggy(ApproxDP(1, 1e-3), COUNT, DWORK, _exactly_zero, (1e-2, 0.0))
def raw_ten_times_delta(data: Array, rng: Generator, size: int) -> Array:
    """The count itself with probability 0.01, claimed delta = 0.001."""
    return _leaks(data, rng, size, 1e-2)


@FAMILY.buggy(ApproxDP(1, 1e-4), COUNT, DWORK, _exactly_zero, (1e-3, 0.0))
def raw_ten_times_small_delta(data: Array, rng: Generator, size: int) -> Array:
    """The count itself with probability 0.001, claimed delta = 0.0001."""
    return _leaks(data, rng, size, 1e-3)


@FAMILY.buggy(ApproxDP(1, 1e-5), COUNT, DWORK, _exactly_zero, (3e-4, 0.0))
def raw_thirty_times_delta(data: Array, rng: Generator, size: int) -> Array:
    """The count itself with probability 0.0003, claimed delta = 0.00001."""
    return _leaks(data, rng, size, 3e-4)


@FAMILY.buggy(
    PureDP(1),
    COUNT,
    DWORK,
    lambda draws: np.abs(draws) < 0.01,
    (
        0.95 * (1 - 2 * laplace_above(0.01)) + 0.05 * (1 - 2 * laplace_above(1.0)),
        0.95 * (laplace_above(0.99) - laplace_above(1.01)),
    ),
)
def noise_lost_once_in_20(data: Array, rng: Generator, size: int) -> Array:
    """With probability 0.05 the noise is a hundredth of what it should be: up to 100 eps."""
    scale = np.where(rng.random(size) < 0.05, 0.01, 1.0)
    return np.asarray(data.sum() + scale * rng.laplace(size=size))


# --- histograms of what occurs -------------------------------------------------------------------

APPEARS = Pair(reals(0, 0), reals(0, 0, 1), Domain(1, 10, 0, 3, whole=True), Relation.ADD_REMOVE)
GONE = Pair(APPEARS.d1, APPEARS.d0, APPEARS.domain, APPEARS.relation)


def _occurring(data: Array, rng: Generator, size: int, threshold: float) -> Array:
    """Noisy counts of the values that occur, NaN below the threshold and where nothing occurs."""
    counts = np.bincount(data.astype(np.int64), minlength=4)
    noisy = counts + rng.laplace(size=(size, 4))
    return np.where((counts > 0) & (noisy > threshold), noisy, np.nan)


def _second_bin(draws: Array) -> Array:
    return np.asarray(~np.isnan(draws[:, 1]))


@FAMILY.correct(ApproxDP(1, 1e-3), GONE, KOROLOVA)
def stable_histogram(data: Array, rng: Generator, size: int) -> Array:
    """Right: threshold 1 + ln(1/(2 delta))/eps, under add_remove."""
    return _occurring(data, rng, size, 1 + math.log(500))


@FAMILY.buggy(ApproxDP(1, 1e-3), GONE, KOROLOVA, _second_bin, (math.e * 1e-3, 0.0))
def stable_histogram_off_by_one(data: Array, rng: Generator, size: int) -> Array:
    """The 1 of the threshold is missing: delta = 0.0027 for 0.001."""
    return _occurring(data, rng, size, math.log(500))


@FAMILY.buggy(
    ApproxDP(1, 1e-3),
    GONE,
    KOROLOVA,
    _second_bin,
    (laplace_above(math.log10(500)), 0.0),
)
def stable_histogram_decimal(data: Array, rng: Generator, size: int) -> Array:
    """log10 for ln in the threshold: delta = 0.034 for 0.001."""
    return _occurring(data, rng, size, 1 + math.log10(500))


@FAMILY.buggy(PureDP(1), GONE, KOROLOVA, _second_bin, (1e-3, 0.0))
def stable_histogram_claimed_pure(data: Array, rng: Generator, size: int) -> Array:
    """The right threshold under a pure claim: a value that occurs in one data set only can show."""
    return _occurring(data, rng, size, 1 + math.log(500))


# --- propose, test, release ----------------------------------------------------------------------

VOTES = Pair(
    reals(0, 0, 0, 1, 1), reals(1, 0, 0, 1, 1), Domain(5, 5, 0, 1, whole=True), Relation.REPLACE_ONE
)


def _majority(data: Array, rng: Generator, size: int, threshold: float) -> Array:
    """The exact majority where the noisy distance to a change of it is above the threshold."""
    ones = int(data.sum())
    distance = abs(2 * ones - len(data)) // 2
    passed = distance + rng.laplace(size=size) > threshold
    return np.where(passed, float(2 * ones > len(data)), np.nan)


@FAMILY.correct(ApproxDP(1, 1e-3), VOTES, LEI)
def propose_test_release(data: Array, rng: Generator, size: int) -> Array:
    """Right: threshold ln(1/(2 delta))/eps on the number of changes that leave the majority."""
    return _majority(data, rng, size, math.log(500))


@FAMILY.buggy(ApproxDP(1, 1e-3), VOTES, LEI, _exactly_zero, (laplace_above(math.log10(500)), 0.0))
def propose_test_release_decimal(data: Array, rng: Generator, size: int) -> Array:
    """log10 for ln in the threshold: delta = 0.034 for 0.001."""
    return _majority(data, rng, size, math.log10(500))


@FAMILY.buggy(ApproxDP(1, 1e-4), VOTES, LEI, _exactly_zero, (1e-3, 0.0))
def propose_test_release_tenth_of_delta(data: Array, rng: Generator, size: int) -> Array:
    """The threshold of delta = 0.001 under a claim of 0.0001."""
    return _majority(data, rng, size, math.log(500))


@FAMILY.buggy(ApproxDP(1, 1e-3), VOTES, LEI, _exactly_zero, (0.5, 0.0))
def propose_test_release_no_threshold(data: Array, rng: Generator, size: int) -> Array:
    """Tests whether the noisy distance is above 0: delta = 1/2."""
    return _majority(data, rng, size, 0.0)


# --- a delta that is ten times as large ----------------------------------------------------------

ANALYTIC = 1 / 2.0


@FAMILY.correct(ApproxDP(0.5, 0.05245), COUNT, "Balle and Wang 2018, Theorem 8")
def gaussian_with_its_delta(data: Array, rng: Generator, size: int) -> Array:
    """Right: deviation 2, delta = 0.05244 at epsilon = 0.5."""
    return np.asarray(data.sum() + 2.0 * rng.standard_normal(size))


@FAMILY.buggy(
    ApproxDP(0.5, 0.005),
    COUNT,
    "Balle and Wang 2018, Theorem 8",
    lambda draws: draws < 2.0 * (ANALYTIC / 2 - 0.5 / ANALYTIC),
    (normal_above(0.75), normal_above(1.25)),
)
def gaussian_tenth_of_its_delta(data: Array, rng: Generator, size: int) -> Array:
    """Deviation 2 under a claim of delta = 0.005: 0.05244 at epsilon = 0.5."""
    return np.asarray(data.sum() + 2.0 * rng.standard_normal(size))
