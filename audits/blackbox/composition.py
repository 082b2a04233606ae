"""Budgets spent more than once."""

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
    laplace_above,
    normal_above,
    reals,
)
from dpaudit.families.opaque import GDP, ZCDP, PureDP

FAMILY = Family("composition")
ONE = PureDP(1)
BASIC = "Dwork and Roth 2014, Theorem 3.16"
COUNT = Pair(reals(0.0), reals(1.0), Domain(1, 1, 0, 1), Relation.REPLACE_ONE)
ORTHANT_5 = 0.5**5, (0.5 * math.exp(-1.0)) ** 5


def _answers(data: Array, rng: Generator, size: int, times: int, scale: float) -> Array:
    """The same sum, asked several times, with fresh Laplace noise."""
    return np.asarray(data.sum() + scale * rng.laplace(size=(size, times)))


@FAMILY.correct(ONE, COUNT, BASIC)
def budget_split_in_two(data: Array, rng: Generator, size: int) -> Array:
    """Right: two answers, half of the budget each."""
    return _answers(data, rng, size, 2, 2.0)


@FAMILY.buggy(
    ONE,
    COUNT,
    BASIC,
    lambda draws: (draws < 0).all(1),
    (0.25, laplace_above(1.0) ** 2),
)
def budget_used_twice(data: Array, rng: Generator, size: int) -> Array:
    """Two answers, the whole budget each: 2 eps."""
    return _answers(data, rng, size, 2, 1.0)


@FAMILY.buggy(ONE, COUNT, BASIC, lambda draws: (draws < 0).all(1), ORTHANT_5)
def five_rounds_whole_budget_each(data: Array, rng: Generator, size: int) -> Array:
    """Five rounds, the whole budget each: 5 eps."""
    return _answers(data, rng, size, 5, 1.0)


@FAMILY.buggy(ONE, COUNT, BASIC, lambda draws: draws < 0)
def average_of_five(data: Array, rng: Generator, size: int) -> Array:
    """Five answers are averaged, which is claimed to cost as much as one."""
    return np.asarray(_answers(data, rng, size, 5, 1.0).mean(axis=1))


@FAMILY.buggy(
    ONE,
    COUNT,
    BASIC + ", budget split by the square root of the number of rounds",
    lambda draws: (draws < 0).all(1),
    (0.5**4, laplace_above(0.5) ** 4),
)
def split_by_square_root(data: Array, rng: Generator, size: int) -> Array:
    """Four rounds, eps/sqrt(4) each, as if the losses of Laplace noise added in squares: 2 eps."""
    return _answers(data, rng, size, 4, 2.0)


@FAMILY.correct(ZCDP(0.5), COUNT, "Bun and Steinke 2016, Lemma 2.3")
def four_gaussian_rounds(data: Array, rng: Generator, size: int) -> Array:
    """Right: four rounds of rho/4 each."""
    return np.asarray(data.sum() + 2.0 * rng.standard_normal((size, 4)))


@FAMILY.buggy(
    ZCDP(0.5),
    COUNT,
    "Bun and Steinke 2016, Lemma 2.3",
    lambda draws: draws.sum(1) < 0,
    (0.5, normal_above(2.0)),
)
def four_gaussian_rounds_noise_for_one(data: Array, rng: Generator, size: int) -> Array:
    """Four rounds of rho each: 4 rho."""
    return np.asarray(data.sum() + rng.standard_normal((size, 4)))


@FAMILY.buggy(
    GDP(1),
    COUNT,
    "Dong, Roth and Su 2022, Corollary 3.3",
    lambda draws: draws.sum(1) < 1,
    (normal_above(-1 / math.sqrt(2)), normal_above(1 / math.sqrt(2))),
)
def two_gaussian_rounds_noise_for_one(data: Array, rng: Generator, size: int) -> Array:
    """Two rounds of mu each: sqrt(2) mu."""
    return np.asarray(data.sum() + rng.standard_normal((size, 2)))


GROUPS = Pair(reals(0.0, 0.5, 0.5), reals(1.0, 0.5, 0.5), Domain(3, 3, 0, 1), Relation.REPLACE_ONE)


@FAMILY.correct(ONE, GROUPS, "McSherry 2009, Privacy integrated queries, Theorem 4")
def parallel_disjoint(data: Array, rng: Generator, size: int) -> Array:
    """Right: sums of disjoint groups by position, the whole budget each."""
    sums = np.array([data[:1].sum(), data[1:].sum()])
    return sums + rng.laplace(size=(size, 2))


@FAMILY.buggy(
    ONE,
    GROUPS,
    "McSherry 2009, Theorem 4: only disjoint groups compose in parallel",
    lambda draws: (draws[:, 0] < 0.5) & (draws[:, 1] < 1),
    (0.25, laplace_above(1.0) ** 2),
)
def parallel_overlapping(data: Array, rng: Generator, size: int) -> Array:
    """Groups that share their first record, the whole budget each: 2 eps."""
    sums = np.array([data[:2].sum(), data.sum()])
    return sums + rng.laplace(size=(size, 2))


@FAMILY.buggy(
    ONE,
    COUNT,
    "Rogers, Roth, Ullman and Vadhan 2016, Privacy odometers and filters",
    lambda draws: (draws < 0).sum(1) == 3,
)
def repeats_until_significant(data: Array, rng: Generator, size: int) -> Array:
    """Asks until an answer is above 0, three times at most, and claims the cost of the last."""
    answers = _answers(data, rng, size, 3, 1.0)
    above = answers > 0
    below = np.cumsum(above, axis=1) == above
    return np.where(below, answers, np.nan)


@FAMILY.buggy(
    PureDP(2),
    COUNT,
    "Liu and Talwar 2019, Private selection from private candidates",
    lambda draws: draws < 0.5,
    ((1 - 0.5 * math.exp(-0.5)) ** 10, (0.5 * math.exp(-0.5)) ** 10),
)
def best_of_ten_candidates(data: Array, rng: Generator, size: int) -> Array:
    """The best of a fixed number of runs, claimed to cost two of them: up to 10 eps."""
    return np.asarray(_answers(data, rng, size, 10, 1.0).max(axis=1))


@FAMILY.correct(PureDP(3), COUNT, "Liu and Talwar 2019, Theorem 3.2; Papernot and Steinke 2022")
def best_of_random_number(data: Array, rng: Generator, size: int) -> Array:
    """Right: the best of a geometric number of runs costs three of them."""
    best = data.sum() + rng.laplace(size=size)
    going = np.flatnonzero(rng.random(size) > 0.25)
    while going.size:
        best[going] = np.maximum(best[going], data.sum() + rng.laplace(size=going.size))
        going = going[rng.random(going.size) > 0.25]
    return np.asarray(best)


PARTS = Pair(
    frozen(np.array([[0.0, 0.0, 0.0]])),
    frozen(np.array([[1.0, 1.0, 1.0]])),
    Domain(1, 1, 0, 1, (3,)),
    Relation.REPLACE_ONE,
)


@FAMILY.buggy(
    ONE,
    PARTS,
    BASIC + ": three statistics of the same records",
    lambda draws: (draws[:, 0] < 0) & (draws[:, 1] < 0) & (draws[:, 2] == 0),
    (0.25 / (1 + math.exp(-1)), laplace_above(1.0) ** 2 / (1 + math.e)),
)
def three_statistics(data: Array, rng: Generator, size: int) -> Array:
    """Two sums and a randomised answer, the whole budget each: 3 eps."""
    sums = data[:, :2].sum(axis=0) + rng.laplace(size=(size, 2))
    lie = rng.random(size) < 1 / (1 + math.e)
    answer = np.where(lie, 1 - data[0, 2], data[0, 2])
    return np.concatenate([sums, answer[:, None]], axis=1)
