"""Report noisy max and its variants, right and wrong.

Data: scores, each of which one record moves by at most 1, up or down.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from audits.blackbox.case import Array, Domain, Family, Generator, Pair, Relation, frozen
from dpaudit.families.opaque import PureDP

FAMILY = Family("noisy max")
ONE = PureDP(1)
DWORK = "Dwork and Roth 2014, section 3.3"
DING = "Ding, Wang, Wang, Zhang and Kifer 2018, Detecting violations of differential privacy"


def _scores(d0: list[float], d1: list[float]) -> Pair:
    domain = Domain(len(d0), len(d0), -10.0, 10.0)
    return Pair(frozen(np.array(d0)), frozen(np.array(d1)), domain, Relation.EACH_BY_ONE)


LEADER = _scores([1.0] + [0.0] * 9, [0.0] + [1.0] * 9)
LEVEL = _scores([0.0] * 5, [1.0] * 5)
SIX = _scores([1.0] * 3 + [0.0] * 3, [0.0] * 3 + [1.0] * 3)


def _laplace(rng: Generator, shape: tuple[int, ...]) -> Array:
    return rng.laplace(size=shape)


def _exponential(rng: Generator, shape: tuple[int, ...]) -> Array:
    return rng.exponential(size=shape)


def _gumbel(rng: Generator, shape: tuple[int, ...]) -> Array:
    return rng.gumbel(size=shape)


def _noisy(
    data: Array,
    rng: Generator,
    size: int,
    scale: float,
    noise: Callable[[Generator, tuple[int, ...]], Array] = _laplace,
) -> Array:
    return data + scale * noise(rng, (size, len(data)))


def _index(noisy: Array) -> Array:
    return np.asarray(noisy.argmax(axis=1).astype(np.float64))


def _largest(noisy: Array, count: int) -> Array:
    """Indices of the ``count`` largest, in order of size."""
    return np.argsort(-noisy, axis=1)[:, :count].astype(np.float64)


def _gap(noisy: Array) -> Array:
    two = np.sort(noisy, axis=1)[:, -2:]
    return np.asarray(two[:, 1] - two[:, 0])


@FAMILY.correct(ONE, LEADER, DWORK)
def noisy_max_laplace(data: Array, rng: Generator, size: int) -> Array:
    """Right: the index of the largest score with noise Lap(2/eps)."""
    return _index(_noisy(data, rng, size, 2.0))


@FAMILY.correct(ONE, LEADER, "Ding, Kifer, Steinke et al. 2021, the permute-and-flip mechanism")
def noisy_max_exponential(data: Array, rng: Generator, size: int) -> Array:
    """Right: one-sided noise Exp(2/eps), which is permute-and-flip."""
    return _index(_noisy(data, rng, size, 2.0, _exponential))


@FAMILY.correct(ONE, LEADER, "McSherry and Talwar 2007; Durfee and Rogers 2019 (Gumbel noise)")
def noisy_max_gumbel(data: Array, rng: Generator, size: int) -> Array:
    """Right: Gumbel noise of scale 2/eps, which is the exponential mechanism."""
    return _index(_noisy(data, rng, size, 2.0, _gumbel))


@FAMILY.correct(ONE, LEADER, "Ding, Wang, Zhang and Kifer 2019, Free gap information")
def noisy_max_with_gap(data: Array, rng: Generator, size: int) -> Array:
    """Right: the index, and the gap to the runner-up, at no further cost."""
    noisy = _noisy(data, rng, size, 2.0)
    return np.stack([_index(noisy), _gap(noisy)], axis=1)


@FAMILY.correct(ONE, LEADER, "McKenna and Sheldon 2020, Algorithm 1")
def permute_and_flip(data: Array, rng: Generator, size: int) -> Array:
    """Right: goes through the scores in random order, takes one with probability e^(eps gap/2)."""
    return _permute_and_flip(data, rng, size, 0.5)


def _permute_and_flip(data: Array, rng: Generator, size: int, rate: float) -> Array:
    order = rng.permuted(np.broadcast_to(np.arange(len(data)), (size, len(data))), axis=1)
    taken = rng.random((size, len(data))) < np.exp(rate * (data - data.max()))[order]
    return np.asarray(order[np.arange(size), taken.argmax(axis=1)].astype(np.float64))


@FAMILY.correct(ONE, SIX, "Qiao, Su and Zhang 2021, Oneshot differentially private top-k selection")
def top_three_right(data: Array, rng: Generator, size: int) -> Array:
    """Right: the three largest in order, one noise each, Lap(2 k/eps) for k = 3."""
    return _largest(_noisy(data, rng, size, 6.0), 3)


@FAMILY.buggy(
    ONE,
    LEVEL,
    DING + " (noisy max 3: releases the maximum)",
    lambda draws: draws < 0,
    (0.5**5, (0.5 * math.exp(-0.5)) ** 5),
)
def noisy_max_value(data: Array, rng: Generator, size: int) -> Array:
    """Releases the noisy maximum itself: with five scores 5 eps/2."""
    return np.asarray(_noisy(data, rng, size, 2.0).max(axis=1))


@FAMILY.buggy(
    ONE,
    LEVEL,
    DING + " (noisy max 4: exponential noise, releases the maximum)",
    lambda draws: draws < 1,
    ((1 - math.exp(-0.5)) ** 5, 0.0),
)
def noisy_max_exponential_value(data: Array, rng: Generator, size: int) -> Array:
    """Releases the maximum under one-sided noise, which never falls below the scores: infinite."""
    return np.asarray(_noisy(data, rng, size, 2.0, _exponential).max(axis=1))


@FAMILY.buggy(ONE, LEADER, DWORK + ", without the factor 2", lambda draws: draws == 0)
def noisy_max_half_noise(data: Array, rng: Generator, size: int) -> Array:
    """Noise Lap(1/eps), enough only where all scores move the same way: up to 2 eps."""
    return _index(_noisy(data, rng, size, 1.0))


@FAMILY.buggy(
    ONE,
    LEADER,
    "Durfee and Rogers 2019, without the factor 2",
    lambda draws: draws == 0,
    (math.e / (math.e + 9), 1 / (1 + 9 * math.e)),
)
def noisy_max_gumbel_half_noise(data: Array, rng: Generator, size: int) -> Array:
    """Gumbel noise of scale 1/eps: 2 eps in the limit of many scores, 1.77 with ten."""
    return _index(_noisy(data, rng, size, 1.0, _gumbel))


@FAMILY.buggy(
    ONE, LEADER, "McKenna and Sheldon 2020, without the factor 2", lambda draws: draws == 0
)
def permute_and_flip_half_noise(data: Array, rng: Generator, size: int) -> Array:
    """Takes a score with probability e^(eps gap): the factor 2 is missing."""
    return _permute_and_flip(data, rng, size, 1.0)


@FAMILY.buggy(ONE, LEVEL, DING + ": index and maximum", lambda draws: draws[:, 1] < 0)
def noisy_max_index_and_value(data: Array, rng: Generator, size: int) -> Array:
    """Releases the index and the very maximum that was compared: 5 eps/2 with five scores."""
    noisy = _noisy(data, rng, size, 2.0)
    return np.stack([_index(noisy), noisy.max(axis=1)], axis=1)


@FAMILY.buggy(
    ONE,
    _scores([0.5, 0.0, 0.0], [-0.5, 0.0, 0.0]),
    DWORK + ": the noise of the scores has to be independent",
    lambda draws: draws == 0,
    (1.0, 0.0),
)
def noisy_max_one_noise(data: Array, rng: Generator, size: int) -> Array:
    """One draw is added to every score, so that the order never changes: infinite."""
    return _index(data + 2.0 * rng.laplace(size=(size, 1)))


@FAMILY.buggy(
    ONE,
    SIX,
    "Qiao, Su and Zhang 2021: the noise has to grow with k",
    lambda draws: (draws < 3).all(1),
)
def top_three_noise_for_one(data: Array, rng: Generator, size: int) -> Array:
    """The three largest in order, with the noise that one index needs."""
    return _largest(_noisy(data, rng, size, 2.0), 3)


@FAMILY.buggy(
    ONE,
    SIX,
    "Durfee and Rogers 2019: peeling composes",
    lambda draws: (draws < 3).all(1),
    (
        math.prod((3 - i) * math.e**0.5 / ((3 - i) * math.e**0.5 + 3) for i in range(3)),
        math.prod((3 - i) / ((3 - i) + 3 * math.e**0.5) for i in range(3)),
    ),
)
def top_three_peeled(data: Array, rng: Generator, size: int) -> Array:
    """Three rounds of the exponential mechanism, each with the whole budget."""
    return _largest(_noisy(data, rng, size, 2.0, _gumbel), 3)


@FAMILY.buggy(
    ONE,
    _scores([0.0] * 4, [1.0] * 4),
    "Ding, Wang, Zhang and Kifer 2019: only gaps between scores are free",
    lambda draws: draws < 0,
    (0.5**4, (0.5 * math.exp(-0.5)) ** 4),
)
def noisy_max_gap_to_zero(data: Array, rng: Generator, size: int) -> Array:
    """Releases the gap of the largest to zero, a constant, as if it were the runner-up."""
    return np.asarray(_noisy(data, rng, size, 2.0).max(axis=1) - 0.0)
