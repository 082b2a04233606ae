"""Steps of private training, counting trees, and users with several records."""

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

FAMILY = Family("training and trees")
ONE = PureDP(1)
ABADI = "Abadi et al. 2016, Deep learning with differential privacy, Algorithm 1"
TREE = "Dwork, Naor, Pitassi and Rothblum 2010; Chan, Shi and Song 2011 (binary mechanism)"
USER = "Amin et al. 2019, Bounding user contributions; Wilson et al. 2020"

GRADIENTS = Pair(
    frozen(np.array([[1.0, 0.0], [0.0, 0.0], [0.0, 0.0], [0.0, 0.0]])),
    frozen(np.array([[-1.0, 0.0], [0.0, 0.0], [0.0, 0.0], [0.0, 0.0]])),
    Domain(4, 4, -5.0, 5.0, (2,)),
    Relation.REPLACE_ONE,
)


def _halfway(mu: float) -> tuple[float, float]:
    return normal_above(-mu / 2), normal_above(mu / 2)


def _upper_side(draws: Array) -> Array:
    return np.asarray(draws[:, 0] > 0)


def _clip(rows: Array) -> Array:
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.maximum(norms, 1.0))


def _noisy_mean(rows: Array, rng: Generator, size: int, deviation: float) -> Array:
    """Mean of clipped gradients with normal noise of this deviation on their sum."""
    total = _clip(rows).sum(axis=0) + deviation * rng.standard_normal((size, rows.shape[1]))
    return np.asarray(total / len(rows))


@FAMILY.correct(GDP(1), GRADIENTS, ABADI)
def gradient_step(data: Array, rng: Generator, size: int) -> Array:
    """Right: gradients clipped to norm 1, deviation 2 on their sum, under replace_one."""
    return _noisy_mean(data, rng, size, 2.0)


@FAMILY.buggy(GDP(1), GRADIENTS, ABADI, _upper_side, _halfway(2.0))
def gradient_step_add_remove(data: Array, rng: Generator, size: int) -> Array:
    """The noise of add_remove, 1, where a gradient is replaced: mu = 2."""
    return _noisy_mean(data, rng, size, 1.0)


@FAMILY.buggy(GDP(1), GRADIENTS, ABADI, _upper_side, _halfway(4.0))
def gradient_step_noise_divided_twice(data: Array, rng: Generator, size: int) -> Array:
    """The noise of the mean is divided by the batch size once more: mu = 4 with a batch of 4."""
    return _noisy_mean(data, rng, size, 2.0 / len(data))


@FAMILY.buggy(
    ZCDP(0.5),
    GRADIENTS,
    ABADI,
    lambda draws: draws[:, 0] > 0.25,
    (normal_above(0.0), normal_above(2.0)),
)
def gradient_step_zcdp(data: Array, rng: Generator, size: int) -> Array:
    """The noise multiplier's square is left out: deviation 1 for rho = 1/2, which is rho = 2."""
    return _noisy_mean(data, rng, size, 1.0)


@FAMILY.buggy(GDP(1), GRADIENTS, ABADI, _upper_side, (1.0, 0.0))
def gradient_step_first_without_noise(data: Array, rng: Generator, size: int) -> Array:
    """The first of two steps gets its noise only afterwards: infinite."""
    first = np.broadcast_to(_clip(data).mean(axis=0), (size, 2))
    return np.concatenate([first, _noisy_mean(data, rng, size, 2.0)], axis=1)


def _momentum(data: Array, rng: Generator, size: int, deviation: float) -> Array:
    """Two steps; the second shows a running mean of both."""
    one = _noisy_mean(data, rng, size, deviation)
    two = 0.5 * one + 0.5 * _noisy_mean(data, rng, size, deviation)
    return np.concatenate([one, two], axis=1)


@FAMILY.correct(GDP(1), GRADIENTS, ABADI + "; Dong, Roth and Su 2022, Corollary 3.3")
def momentum_right(data: Array, rng: Generator, size: int) -> Array:
    """Right: two steps with deviation 2 sqrt(2) each; a running mean is post-processing."""
    return _momentum(data, rng, size, 2 * math.sqrt(2))


@FAMILY.buggy(
    GDP(1),
    GRADIENTS,
    ABADI + "; Dong, Roth and Su 2022, Corollary 3.3",
    lambda draws: draws[:, 2] > 0,
    _halfway(math.sqrt(2)),
)
def momentum_one_step_accounted(data: Array, rng: Generator, size: int) -> Array:
    """Two steps with the noise of one: mu = sqrt(2)."""
    return _momentum(data, rng, size, 2.0)


# --- counting trees ------------------------------------------------------------------------------

STREAM = Pair(
    reals(*[0.0] * 8), reals(1.0, *[0.0] * 7), Domain(8, 8, 0, 1, whole=True), Relation.REPLACE_ONE
)


def _tree(data: Array, rng: Generator, size: int, scale: float) -> Array:
    """Noisy sums of all dyadic blocks of eight counts: 8 + 4 + 2 + 1 of them."""
    levels = [data.reshape(-1, width).sum(axis=1) for width in (1, 2, 4, 8)]
    sums = np.concatenate(levels)
    return sums + scale * rng.laplace(size=(size, len(sums)))


def _path(draws: Array) -> Array:
    """All four blocks that hold the first count are below 0."""
    return np.asarray((draws[:, [0, 8, 12, 14]] < 0).all(1))


@FAMILY.correct(ONE, STREAM, TREE)
def tree_right(data: Array, rng: Generator, size: int) -> Array:
    """Right: a count is in four blocks, noise Lap(4/eps) in each."""
    return _tree(data, rng, size, 4.0)


@FAMILY.buggy(ONE, STREAM, TREE, _path, (0.5**4, laplace_above(1 / 3) ** 4))
def tree_one_level_short(data: Array, rng: Generator, size: int) -> Array:
    """Noise Lap(log2(8)/eps): the leaves are a level too: 4/3 eps."""
    return _tree(data, rng, size, 3.0)


@FAMILY.buggy(ONE, STREAM, TREE, _path, (0.5**4, laplace_above(1.0) ** 4))
def tree_noise_for_one_level(data: Array, rng: Generator, size: int) -> Array:
    """Noise Lap(1/eps) in every block: 4 eps."""
    return _tree(data, rng, size, 1.0)


@FAMILY.buggy(
    ONE,
    STREAM,
    TREE,
    lambda draws: (draws < 0).all(1),
    (0.5**8, laplace_above(0.5) ** 8),
)
def prefix_sums_noise_for_two(data: Array, rng: Generator, size: int) -> Array:
    """Eight prefix sums, each with noise Lap(2/eps): 4 eps for the first count."""
    return np.cumsum(data) + 2.0 * rng.laplace(size=(size, 8))


# --- users ---------------------------------------------------------------------------------------

USERS = Pair(
    frozen(np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0]])),
    frozen(np.array([[1.0, 1.0, 1.0], [1.0, 0.0, 0.0]])),
    Domain(2, 2, 0, 1, (3,), whole=True),
    Relation.REPLACE_ONE,
)


@FAMILY.correct(ONE, USERS, USER)
def user_bounded(data: Array, rng: Generator, size: int) -> Array:
    """Right: one record a user counts, whichever; noise Lap(1/eps)."""
    return np.asarray(data.max(axis=1).sum() + rng.laplace(size=size))


@FAMILY.buggy(
    ONE,
    USERS,
    USER,
    lambda draws: draws < 1,
    (0.5, laplace_above(3.0)),
)
def user_unbounded(data: Array, rng: Generator, size: int) -> Array:
    """All records of a user count, with the noise of one: 3 eps."""
    return np.asarray(data.sum() + rng.laplace(size=size))


@FAMILY.buggy(
    ONE,
    USERS,
    USER + " (bound per partition and across partitions)",
    lambda draws: (draws[:, 0] < 1) & (draws[:, 1:] < 0).all(1),
    (0.125, laplace_above(1.0) ** 3),
)
def user_in_every_partition(data: Array, rng: Generator, size: int) -> Array:
    """One record a user and partition, noise Lap(1/eps) in each of three partitions: 3 eps."""
    return np.asarray(data.sum(axis=0) + rng.laplace(size=(size, 3)))
