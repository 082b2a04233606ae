"""Violations that Re:cord-play found in open libraries, rebuilt in a few lines, with their mends.

Cebere, Erb, Bellet, Desfontaines and Fitzsimons 2026 (arXiv 2602.17454) report 13 violations in 12
libraries.  Rebuilt is what a public source describes: an issue of the library, or a test of the
paper's artifact (github.com/ObliviousAI/dp-recorder), which names the libraries that it stands for.
Numbers, data sets and probabilities are ours; no line is a library's.
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
    first,
    frozen,
    laplace_above,
    reals,
)
from dpaudit.families.opaque import GDP, ApproxDP, PureDP

FAMILY = Family("found in libraries")
ONE = PureDP(1)
PAPER = "Cebere et al. 2026, arXiv 2602.17454"
ARTIFACT = PAPER + ", dp-recorder/tests/"


def _laplace_sum(values: Array, scale: float, rng: Generator, size: int) -> Array:
    return np.asarray(values.sum() + scale * rng.laplace(size=size))


# --- SmartNoise SDK: the covariance of the data before they are clipped --------------------------

COVARIANCE = PAPER + "; github.com/opendp/smartnoise-sdk/issues/622"
MOMENTS = Pair(
    frozen(np.zeros((3, 2))),
    frozen(np.array([[3.0, 3.0], [0.0, 0.0], [0.0, 0.0]])),
    Domain(3, 3, -3, 3, (2,)),
    Relation.REPLACE_ONE,
)
LIMIT = 1.0  # to which both columns are clipped; a product then moves by at most 2


def _product(rows: Array, rng: Generator, size: int) -> Array:
    """The sum of products of two columns in [-LIMIT, LIMIT]: noise Lap(2 LIMIT^2 / eps)."""
    return _laplace_sum(rows[:, 0] * rows[:, 1], 2 * LIMIT**2, rng, size)


@FAMILY.correct(ONE, MOMENTS, COVARIANCE)
def product_of_clipped_columns(data: Array, rng: Generator, size: int) -> Array:
    """Right: both columns are clipped, and the clipped ones are multiplied."""
    return _product(np.clip(data, -LIMIT, LIMIT), rng, size)


@FAMILY.buggy(ONE, MOMENTS, COVARIANCE, lambda draws: draws < 0, (0.5, laplace_above(4.5)))
def product_of_columns_before_the_clip(data: Array, rng: Generator, size: int) -> Array:
    """The clipped copy is made and never used; a product moves by 9 for 2: 4.5 eps."""
    np.clip(data, -LIMIT, LIMIT)
    return _product(data, rng, size)


# --- Diffprivlib: the sensitivity of a square from the lower end of its range, twice -------------

SQUARES = PAPER + "; github.com/IBM/differential-privacy-library/issues/104 and 105"


def _range(low: float, high: float) -> Pair:
    """A record at the high end of the range against a record at zero, one of three."""
    return Pair(reals(0, 0, 0), reals(high, 0, 0), Domain(3, 3, low, high), Relation.REPLACE_ONE)


def _largest_square(low: float, high: float) -> float:
    return float(max(abs(low), abs(high)) ** 2)


@FAMILY.correct(ONE, _range(-1, 2), SQUARES)
def squares_by_both_ends(data: Array, rng: Generator, size: int) -> Array:
    """Right: squares of records in [-1, 2] move by at most the larger end's square, 4."""
    return _laplace_sum(data**2, _largest_square(-1, 2), rng, size)


@FAMILY.buggy(ONE, _range(-1, 2), SQUARES, lambda draws: draws < 0, (0.5, laplace_above(4.0)))
def squares_by_the_lower_end(data: Array, rng: Generator, size: int) -> Array:
    """The range [-1, 2] is taken for [-1, -1]: noise for 1, a square moves by 4: 4 eps."""
    return _laplace_sum(data**2, _largest_square(-1, -1), rng, size)


@FAMILY.buggy(ONE, _range(0, 2), SQUARES, lambda draws: draws == 0, (1.0, 0.0))
def squares_by_a_lower_end_of_zero(data: Array, rng: Generator, size: int) -> Array:
    """The same over [0, 2]: the sensitivity comes out as 0, and no noise is added: infinite."""
    return _laplace_sum(data**2, _largest_square(0, 0), rng, size)


# --- Diffprivlib and dpmm: a domain that is read off the data ------------------------------------

LABELS = PAPER + "; github.com/IBM/differential-privacy-library/issues/106"
LARGEST = PAPER + "; github.com/sassoftware/dpmm/issues/18 (its maintainers: code never called)"
RARE = Pair(reals(0, 0, 1, 2), reals(0, 0, 1), Domain(1, 20, 0, 2, whole=True), Relation.ADD_REMOVE)
CLASSES = 3  # that are declared


def _counts(data: Array, classes: int, rng: Generator, size: int) -> Array:
    """Noisy counts of the first classes; those left out have no output (NaN)."""
    counts = np.bincount(data.astype(np.int64), minlength=CLASSES)[:classes]
    noisy = np.full((size, CLASSES), math.nan)
    noisy[:, :classes] = counts + rng.laplace(size=(size, classes))
    return noisy


@FAMILY.correct(ONE, RARE, LABELS)
def counts_of_declared_labels(data: Array, rng: Generator, size: int) -> Array:
    """Right: every declared label has a noisy count, also one that no record has."""
    return _counts(data, CLASSES, rng, size)


@FAMILY.buggy(ONE, RARE, LABELS, lambda draws: ~np.isnan(draws[:, 2]), (1.0, 0.0))
def counts_of_labels_seen(data: Array, rng: Generator, size: int) -> Array:
    """Labels are those that occur: whether a rare one shows is up to one record: infinite."""
    noisy = _counts(data, CLASSES, rng, size)
    noisy[:, ~np.isin(np.arange(CLASSES), data)] = math.nan
    return noisy


@FAMILY.buggy(ONE, RARE, LARGEST, lambda draws: ~np.isnan(draws[:, 2]), (1.0, 0.0))
def counts_up_to_the_maximum(data: Array, rng: Generator, size: int) -> Array:
    """The domain ends at the largest value of the data, which is so published exactly: infinite."""
    return _counts(data, int(data.max()) + 1, rng, size)


# --- Synthcity: the number of records as if it were public, and noise that a parameter ends ------

SIZE = ARTIFACT + "test_buggy_private_mean.py (Synthcity)"
ONE_MORE = Pair(reals(1.0), reals(1.0, 0.0), Domain(1, 20, 0, 1, whole=True), Relation.ADD_REMOVE)


@FAMILY.correct(ONE, ONE_MORE, SIZE)
def share_of_noisy_sizes(data: Array, rng: Generator, size: int) -> Array:
    """Right: the sum and the number of records have noise of half the budget each."""
    total = _laplace_sum(data, 2.0, rng, size)
    return np.asarray(total / np.maximum(len(data) + 2.0 * rng.laplace(size=size), 1.0))


@FAMILY.buggy(
    ONE,
    ONE_MORE,
    SIZE,
    lambda draws: np.abs(draws) > 4,
    (
        laplace_above(3.0) + laplace_above(5.0),  # |1 + L| > 4
        laplace_above(7.0) + laplace_above(9.0),  # |1 + L| / 2 > 4
    ),
)
def share_of_private_size(data: Array, rng: Generator, size: int) -> Array:
    """A noisy sum is divided by the true number of records, which is private: infinite."""
    return _laplace_sum(data, 1.0, rng, size) / len(data)


COLUMNS = ARTIFACT + "test_noise_miscalibration.py (Synthcity, PrivBayes)"
COUNT = Pair(reals(1.0), reals(1.0, 1.0), Domain(1, 20, 0, 1), Relation.ADD_REMOVE)
PARENTS = 5  # of a network of five columns: as many as there are columns


@FAMILY.correct(ONE, COUNT, COLUMNS)
def noise_of_at_least_one_column(data: Array, rng: Generator, size: int) -> Array:
    """Right: the number of noisy tables is at least one, whatever the number of parents."""
    return _laplace_sum(data, max(1.0, 5.0 - PARENTS), rng, size)


@FAMILY.buggy(ONE, COUNT, COLUMNS, lambda draws: draws == 1, (1.0, 0.0))
def noise_of_columns_less_parents(data: Array, rng: Generator, size: int) -> Array:
    """Noise grows with columns less parents; where these are equal, there is none: infinite."""
    return _laplace_sum(data, 5.0 - PARENTS, rng, size)


WEAK = ARTIFACT + "audit_harness/results/synthcity.xml (PrivBayes: 'is_weak_mi' differs)"
DEPENDENT = Pair(
    frozen(np.array([[1.0, 1.0], [1.0, 1.0], [0.0, 0.0]])),
    frozen(np.array([[1.0, 1.0], [1.0, 0.0], [0.0, 0.0]])),
    Domain(3, 3, 0, 1, (2,), whole=True),
    Relation.REPLACE_ONE,
)
ENOUGH = 2.5  # equal entries of three rows that make two columns dependent


@FAMILY.correct(ONE, DEPENDENT, WEAK)
def branches_on_a_noisy_dependence(data: Array, rng: Generator, size: int) -> Array:
    """Right: half of the budget goes to the decision, and half to the count that follows it."""
    equal = (data[:, 0] == data[:, 1]).sum()
    dependent = equal + 2.0 * rng.laplace(size=size) > ENOUGH
    return np.where(dependent, equal + 2.0 * rng.laplace(size=size), math.nan)


@FAMILY.buggy(ONE, DEPENDENT, WEAK, lambda draws: ~np.isnan(draws), (1.0, 0.0))
def branches_on_an_exact_dependence(data: Array, rng: Generator, size: int) -> Array:
    """Whether two columns depend on each other is decided without noise: infinite."""
    equal = (data[:, 0] == data[:, 1]).sum()
    noisy = np.asarray(equal + rng.laplace(size=size))
    return noisy if equal > ENOUGH else np.full(size, math.nan)


# --- Opacus: the expected size of a batch from the number of records -----------------------------

BATCH = PAPER + "; github.com/meta-pytorch/opacus/issues/571 and 819"
WIDTH = 32  # entries of a gradient; more of them tell the divisor more surely
FEW = Pair(
    frozen(np.zeros((2, WIDTH))),
    frozen(np.zeros((3, WIDTH))),
    Domain(1, 20, -1, 1, (WIDTH,)),
    Relation.ADD_REMOVE,
)
ENDS = 18.0  # of the sum of squares


def _beyond(square: float) -> float:
    """P[chi-square of WIDTH degrees of freedom > square]; WIDTH is even."""
    half = square / 2
    return math.exp(-half) * math.fsum(half**k / math.factorial(k) for k in range(WIDTH // 2))


def _clipped_sum(data: Array, rng: Generator, size: int) -> Array:
    norms = np.linalg.norm(data, axis=1, keepdims=True)
    clipped = data * np.minimum(1.0, 1.0 / np.maximum(norms, 1.0))
    return np.asarray(clipped.sum(axis=0) + rng.standard_normal((size, data.shape[1])))


@FAMILY.correct(GDP(1), FEW, BATCH)
def gradient_over_a_declared_size(data: Array, rng: Generator, size: int) -> Array:
    """Right: a noisy sum of clipped gradients is divided by a size that is declared."""
    return _clipped_sum(data, rng, size) / 2


@FAMILY.buggy(
    GDP(1),
    FEW,
    BATCH,
    lambda draws: 4 * (draws**2).sum(axis=1) > ENDS,
    (_beyond(ENDS), _beyond(ENDS * 9 / 4)),
)
def gradient_over_the_true_size(data: Array, rng: Generator, size: int) -> Array:
    """A noisy gradient of 32 entries is divided by the true number of records: its length tells it.

    The divisor is that of a batch which holds each record: all are zero, so only noise is seen.
    """
    return _clipped_sum(data, rng, size) / len(data)


# --- what is not a number: SmartNoise Synth, dpmm, Synthcity, Opacus and Diffprivlib -------------

NAN = ARTIFACT + "test_nan_injection.py (SmartNoise Synth, dpmm, Synthcity, Opacus, Diffprivlib)"
ODD = Pair(
    frozen(np.zeros((2, 2))),
    frozen(np.array([[math.nan, 0.0], [0.0, 0.0]])),
    Domain(2, 2, -1, 1, (2,), special=(math.nan,)),
    Relation.REPLACE_ONE,
)


@FAMILY.correct(GDP(2), ODD, NAN)
def norm_of_numbers_only(data: Array, rng: Generator, size: int) -> Array:
    """Right: what is not a number counts as 0 before the norm is taken; a sum moves by 2."""
    return _clipped_sum(np.nan_to_num(data, nan=0.0), rng, size)


@FAMILY.buggy(GDP(2), ODD, NAN, lambda draws: ~np.isnan(first(draws)), (1.0, 0.0))
def norm_that_is_not_a_number(data: Array, rng: Generator, size: int) -> Array:
    """A norm that is not a number passes every bound; one such record shows: infinite."""
    return _clipped_sum(data, rng, size)


# --- budgets: two answers for the budget of one, and two columns that share a slice --------------

TWICE = ARTIFACT + "test_double_spending.py (a pattern, of no single library)"
SLICE = "github.com/IBM/differential-privacy-library/issues/104, second of five"
PRESENT = Pair(reals(0.0), reals(0.0, 1.0), Domain(1, 20, 0, 1), Relation.ADD_REMOVE)


def _sum_and_count(data: Array, scale: float, rng: Generator, size: int) -> Array:
    both = np.array([data.sum(), len(data)])
    return np.asarray(both + scale * rng.laplace(size=(size, 2)))


@FAMILY.correct(ONE, PRESENT, TWICE)
def sum_and_count_of_half_each(data: Array, rng: Generator, size: int) -> Array:
    """Right: a sum and a count spend half of the budget each."""
    return _sum_and_count(data, 2.0, rng, size)


@FAMILY.buggy(
    ONE,
    PRESENT,
    TWICE,
    lambda draws: (draws[:, 0] < 0) & (draws[:, 1] < 1),
    (0.25, laplace_above(1.0) ** 2),
)
def sum_and_count_of_all_each(data: Array, rng: Generator, size: int) -> Array:
    """A sum and a count spend the whole budget each: 2 eps."""
    return _sum_and_count(data, 1.0, rng, size)


CENTRES = Pair(
    frozen(np.zeros((2, 2))),
    frozen(np.array([[1.0, 1.0], [0.0, 0.0]])),
    Domain(2, 2, 0, 1, (2,)),
    Relation.REPLACE_ONE,
)


@FAMILY.correct(ONE, CENTRES, SLICE)
def centres_of_a_slice_each(data: Array, rng: Generator, size: int) -> Array:
    """Right: the centres of the columns x and y have a slice of half the budget each."""
    return np.asarray(data.sum(axis=0) + 2.0 * rng.laplace(size=(size, 2)))


@FAMILY.buggy(
    ONE,
    CENTRES,
    SLICE,
    lambda draws: (draws < 0).all(axis=1),
    (0.25, laplace_above(1.0) ** 2),
)
def centres_of_one_slice(data: Array, rng: Generator, size: int) -> Array:
    """The centres of x and of y are both paid from one slice, which is counted once: 2 eps."""
    return np.asarray(data.sum(axis=0) + rng.laplace(size=(size, 2)))


# --- SmartNoise SDK: an odometer that leaves out a logarithm -------------------------------------

ODOMETER = "github.com/opendp/smartnoise-sdk/issues/621: 1 / delta for log(1 / delta)"
ANSWERS, EACH, LEAVE = 4, 0.25, 0.01
TOO_MUCH = EACH * math.sqrt(2 * ANSWERS / LEAVE) + ANSWERS * EACH * math.expm1(EACH)


@FAMILY.correct(ApproxDP(TOO_MUCH, LEAVE), PRESENT, ODOMETER)
def odometer_without_a_logarithm(data: Array, rng: Generator, size: int) -> Array:
    """Right: an epsilon that is stated far too large is true; the issue calls it too large."""
    noisy = rng.laplace(size=(size, ANSWERS)) / EACH
    return np.asarray(data.sum() + noisy)
