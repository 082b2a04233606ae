"""Random-number bugs: noise that is shared, repeated, predictable or too coarse."""

from __future__ import annotations

import math
from functools import lru_cache

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
    on_grid,
    reals,
)
from dpaudit.families.opaque import GDP, ApproxDP, PureDP

STEP = 2.0**-40
FAMILY = Family("randomness", STEP)
ONE = PureDP(1)
GARFINKEL = "Garfinkel and Leclerc 2020, Randomness concerns when deploying differential privacy"
CWE = "CWE-335, Incorrect usage of seeds in a pseudo-random number generator"

COUNT = Pair(reals(0.0), reals(1.0), Domain(1, 1, 0, 1), Relation.REPLACE_ONE)
ROW = Pair(
    frozen(np.array([[0.0, 0.0]])),
    frozen(np.array([[1.0, 0.0]])),
    Domain(1, 1, 0, 1, (2,)),
    Relation.REPLACE_ONE,
)
FIVE = Pair(
    frozen(np.zeros((1, 5))),
    frozen(np.array([[1.0, 0.0, 0.0, 0.0, 0.0]])),
    Domain(1, 1, 0, 1, (5,)),
    Relation.REPLACE_ONE,
)


def _near(values: Array, target: float) -> Array:
    return np.asarray(np.abs(values - target) < 1e-9)


@FAMILY.correct(ONE, ROW, "Dwork and Roth 2014, Theorem 3.6")
def fresh_noise(data: Array, rng: Generator, size: int) -> Array:
    """Right: two sums, fresh noise Lap(2/eps) in each."""
    return np.asarray(data.sum(axis=0) + 2.0 * rng.laplace(size=(size, 2)))


@FAMILY.buggy(ONE, ROW, CWE, lambda draws: _near(draws[:, 1] - draws[:, 0], 0.0), (1.0, 0.0))
def seed_reset_between_columns(data: Array, rng: Generator, size: int) -> Array:
    """The generator is seeded anew before each column, so both get one noise: infinite."""
    seed = int(rng.integers(2**63))
    columns = [
        value + 2.0 * np.random.default_rng(seed).laplace(size=size) for value in data.sum(axis=0)
    ]
    return np.stack(columns, axis=1)


@FAMILY.buggy(
    GDP(1),
    FIVE,
    "Dwork and Roth 2014, Theorem A.1: independent noise a coordinate",
    lambda draws: _near(draws[:, 0] - draws[:, 1], 0.0),
    (1.0, 0.0),
)
def one_noise_for_all_coordinates(data: Array, rng: Generator, size: int) -> Array:
    """One draw is added to all coordinates, whose differences are then exact: infinite."""
    return np.asarray(data.sum(axis=0) + 1.0 * rng.standard_normal((size, 1)))


@FAMILY.buggy(
    ONE,
    ROW,
    "Glasserman 2003, Monte Carlo methods, section 4.2 (antithetic variates), misused",
    lambda draws: _near(draws.sum(1), 0.0),
    (1.0, 0.0),
)
def antithetic_noise(data: Array, rng: Generator, size: int) -> Array:
    """The second column gets the first one's noise with the other sign: infinite."""
    noise = 2.0 * rng.laplace(size=size)
    return np.asarray(data.sum(axis=0) + np.stack([noise, -noise], axis=1))


@FAMILY.buggy(
    GDP(1),
    FIVE,
    "Kairouz et al. 2021, Practical and private deep learning without sampling (tree noise)",
    lambda draws: _near(draws[:, 4] - draws[:, :4].sum(1), 0.0),
    (1.0, 0.0),
)
def dependent_fifth_noise(data: Array, rng: Generator, size: int) -> Array:
    """The fifth noise is the sum of the other four: one linear form is free of noise: infinite."""
    noise = 2.0 * rng.standard_normal((size, 4))
    return np.asarray(
        data.sum(axis=0) + np.concatenate([noise, noise.sum(axis=1, keepdims=True)], axis=1)
    )


@FAMILY.buggy(
    GDP(1),
    FIVE,
    "Dwork and Roth 2014, Theorem 3.16: releases have to be independent given the data",
    lambda draws: _near(draws[:, 1] - draws[:, 4], 0.0) & _near(draws[:, 0] - draws[:, 3], 0.0),
    (1.0, 0.0),
)
def noise_repeats_with_period_three(data: Array, rng: Generator, size: int) -> Array:
    """A buffer of three draws is used round and round: columns 1 and 4 share theirs: infinite."""
    noise = 2.0 * rng.standard_normal((size, 3))
    return np.asarray(data.sum(axis=0) + noise[:, [0, 1, 2, 0, 1]])


@lru_cache(maxsize=8)
def _quantiles(states: int) -> Array:
    """Noise Lap(1) that a generator with so many states can give, one a state."""
    uniform = (np.arange(states) + 0.5) / states - 0.5
    return np.asarray(-np.sign(uniform) * np.log1p(-2 * np.abs(uniform)))


def _from_table(data: Array, rng: Generator, size: int, states: int) -> Array:
    return np.asarray(data.sum() + _quantiles(states)[rng.integers(states, size=size)])


@FAMILY.buggy(
    ONE,
    COUNT,
    GARFINKEL,
    lambda draws: np.isin(draws, on_grid(_quantiles(2**8), STEP)),
)
def seeds_of_8_bits(data: Array, rng: Generator, size: int) -> Array:
    """Noise from one of 256 seeds: 256 outputs for each data set, other ones for each: infinite."""
    return _from_table(data, rng, size, 2**8)


@FAMILY.buggy(ONE, COUNT, GARFINKEL, lambda draws: np.isin(draws, on_grid(_quantiles(2**16), STEP)))
def seeds_of_16_bits(data: Array, rng: Generator, size: int) -> Array:
    """Noise from one of 65,536 seeds: infinite."""
    return _from_table(data, rng, size, 2**16)


def _grid_uniform(data: Array, rng: Generator, size: int, bits: int) -> Array:
    """Inverse Laplace distribution function of a uniform variable on a grid of 2^-bits."""
    uniform = (rng.integers(1, 2**bits, size=size) - 2 ** (bits - 1)) / 2**bits
    noise = -np.sign(uniform) * np.log1p(-2 * np.abs(uniform))
    return np.asarray(data.sum() + noise)


def _on_grid(draws: Array, bits: int) -> Array:
    """Whether a draw is the noise of some point of the uniform grid."""
    level = np.round(np.where(draws < 0, 0.5 * np.exp(-np.abs(draws)), 0.5) * 2**bits)
    uniform = level / 2**bits - 0.5
    noise = on_grid(np.log1p(-2 * np.abs(uniform)), STEP)
    return np.asarray((draws < 0) & (noise == draws))


@FAMILY.buggy(ONE, COUNT, GARFINKEL, lambda draws: _on_grid(draws, 12))
def uniform_of_12_bits(data: Array, rng: Generator, size: int) -> Array:
    """The uniform variable behind the noise has 12 bits: few outputs: infinite."""
    return _grid_uniform(data, rng, size, 12)


@FAMILY.buggy(ONE, COUNT, GARFINKEL, lambda draws: _on_grid(draws, 24))
def uniform_of_24_bits(data: Array, rng: Generator, size: int) -> Array:
    """The uniform variable has the 24 bits of single precision: infinite."""
    return _grid_uniform(data, rng, size, 24)


def _fixed_noise(size: int) -> Array:
    return np.asarray(np.random.default_rng(2024).laplace(size=size))


@FAMILY.buggy(
    ONE,
    COUNT,
    CWE,
    lambda draws: _near(draws - _fixed_noise(len(draws)), 0.0),
    (1.0, 0.0),
)
def generator_ignored(data: Array, rng: Generator, size: int) -> Array:
    """A generator with a constant seed is used, whoever calls: noise that is known: infinite.

    Each single output looks right; it is the same one in every run.
    """
    return np.asarray(data.sum() + _fixed_noise(size))


def _noise_of(seed: int) -> float:
    return float(np.random.default_rng(seed).laplace())


@FAMILY.buggy(ONE, COUNT, CWE, lambda draws: _near(draws, _noise_of(0)), (1.0, 0.0))
def seed_made_of_data(data: Array, rng: Generator, size: int) -> Array:
    """The seed is a function of the data: every run on the same data gives the same output."""
    return np.full(size, data.sum() + _noise_of(int(1000 * data.sum())))


@FAMILY.buggy(
    GDP(1),
    COUNT,
    "Box and Muller 1958 against sums of uniforms: the tails of a sum end",
    lambda draws: draws < 1 - 2 * math.sqrt(3),
    ((2 - (2 * math.sqrt(3) - 1) / math.sqrt(3)) ** 4 / 24, 0.0),
)
def sum_of_four_uniforms(data: Array, rng: Generator, size: int) -> Array:
    """A sum of four uniforms stands in for a normal variable: it ends at 3.46 deviations."""
    return np.asarray(data.sum() + math.sqrt(3) * (rng.random((size, 4)).sum(axis=1) - 2))


@FAMILY.correct(ApproxDP(1, 0.01), COUNT, "Dwork and Roth 2014, Theorem A.1")
def gaussian_of_many_bits(data: Array, rng: Generator, size: int) -> Array:
    """Right: normal noise as it should be, deviation 3 for (1, 0.01)."""
    return np.asarray(data.sum() + 3.0 * rng.standard_normal(size))


@FAMILY.buggy(
    ONE,
    COUNT,
    CWE + "; a reused buffer",
    lambda draws: _near(first(draws), 0.0) | _near(draws[:, 1] - draws[:, 0], 0.0),
    (1.0, 0.0),
)
def difference_of_releases(data: Array, rng: Generator, size: int) -> Array:
    """Releases the noise-only answer of an empty query, then reuses that noise: infinite."""
    noise = rng.laplace(size=size)
    return np.stack([noise, data.sum() + noise], axis=1)
