"""Control flow, halting and errors that depend on the data itself."""

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

FAMILY = Family("control flow")
ONE = PureDP(1)
LOKNA = "Lokna, Paradis, Dimitrov and Vechev 2023, Group and attack (data-dependent control flow)"
HAEBERLEN = "Haeberlen, Pierce and Narayan 2011, Differential privacy under fire"

COUNT = Pair(reals(0.0), reals(1.0), Domain(1, 1, 0, 1), Relation.REPLACE_ONE)
FIVE = Pair(
    reals(1, 1, 1, 1, 0), reals(1, 1, 1, 1, 1), Domain(5, 5, 0, 1, whole=True), Relation.REPLACE_ONE
)
EMPTY = Pair(reals(0, 0, 0), reals(1, 0, 0), Domain(3, 3, 0, 1, whole=True), Relation.REPLACE_ONE)
ROUNDS = Pair(reals(0.0, 0.0), reals(0.0, 0.0, 0.0), Domain(1, 4, 0, 1), Relation.ADD_REMOVE)
SCALED = Pair(reals(0, 0, 0, 0, 0), reals(1, 0, 0, 0, 0), Domain(5, 5, 0, 1), Relation.REPLACE_ONE)


def _noisy(value: float, rng: Generator, size: int, scale: float = 1.0) -> Array:
    return value + scale * rng.laplace(size=size)


@FAMILY.buggy(ONE, ROUNDS, LOKNA, lambda draws: np.isnan(draws[:, 2]), (1.0, 0.0))
def one_round_a_record(data: Array, rng: Generator, size: int) -> Array:
    """Runs as many rounds as there are records, and shows how many: infinite."""
    output = np.full((size, 4), np.nan)
    output[:, : len(data)] = 4.0 * rng.laplace(size=(size, len(data)))
    return output


@FAMILY.correct(ONE, ROUNDS, LOKNA)
def fixed_number_of_rounds(data: Array, rng: Generator, size: int) -> Array:
    """Right: four rounds whatever the data, noise Lap(4/eps) each."""
    return np.asarray(data.sum() + 4.0 * rng.laplace(size=(size, 4)))


@FAMILY.buggy(ONE, FIVE, HAEBERLEN, np.isnan, (1.0, 0.0))
def suppresses_small_counts(data: Array, rng: Generator, size: int) -> Array:
    """No output where the true count is below 5: infinite."""
    noisy = _noisy(data.sum(), rng, size)
    return noisy if data.sum() >= 5 else np.full(size, np.nan)


@FAMILY.correct(ONE, FIVE, "Dwork and Roth 2014, Proposition 2.1 (post-processing)")
def suppresses_small_noisy_counts(data: Array, rng: Generator, size: int) -> Array:
    """Right: no output where the noisy count is below 5."""
    noisy = _noisy(data.sum(), rng, size)
    return np.where(noisy >= 5, noisy, np.nan)


@FAMILY.buggy(ONE, EMPTY, HAEBERLEN, np.isnan, (1.0, 0.0))
def fails_on_an_empty_group(data: Array, rng: Generator, size: int) -> Array:
    """The mean of the records equal to 1 divides by zero where there are none: infinite."""
    chosen = data[data == 1]
    with np.errstate(invalid="ignore"):
        mean = np.float64(chosen.sum()) / np.float64(len(chosen))
    return _noisy(mean, rng, size)


@FAMILY.correct(ONE, EMPTY, HAEBERLEN)
def answers_on_an_empty_group(data: Array, rng: Generator, size: int) -> Array:
    """Right: an empty group has mean 0, so that the answer moves by 1 at most."""
    chosen = data[data == 1]
    return _noisy(chosen.mean() if len(chosen) else 0.0, rng, size)


@FAMILY.buggy(ONE, COUNT, HAEBERLEN + ": an error is an output", np.isinf, (1.0, 0.0))
def logarithm_of_zero(data: Array, rng: Generator, size: int) -> Array:
    """Noise on the logarithm of a sum, which is minus infinity where the sum is 0: infinite."""
    with np.errstate(divide="ignore"):
        return _noisy(np.log(data.sum()), rng, size)


HALF = 0.5 / (1 - laplace_above(1.0))


@FAMILY.buggy(
    ONE,
    COUNT,
    "Holohan, Antonatos, Braghin and Mac Aonghusa 2018, The bounded Laplace mechanism",
    lambda draws: draws < 0.2,
    (-math.expm1(-0.2), HALF * math.exp(-1) * math.expm1(0.2)),
)
def retries_until_positive(data: Array, rng: Generator, size: int) -> Array:
    """Draws until the answer is at least 0; how often depends on the data: 1.49 eps."""
    noisy = _noisy(data.sum(), rng, size)
    while (noisy < 0).any():
        again = np.flatnonzero(noisy < 0)
        noisy[again] = _noisy(data.sum(), rng, again.size)
    return noisy


@FAMILY.correct(ONE, COUNT, "Dwork and Roth 2014, Proposition 2.1 (post-processing)")
def cut_at_zero(data: Array, rng: Generator, size: int) -> Array:
    """Right: negative answers become 0."""
    return np.asarray(np.maximum(_noisy(data.sum(), rng, size), 0.0))


@FAMILY.buggy(ONE, COUNT, LOKNA, lambda draws: draws == 0, (1.0, 0.0))
def noise_only_where_nonzero(data: Array, rng: Generator, size: int) -> Array:
    """A sparse histogram adds noise to its nonzero counts only: infinite."""
    return _noisy(data.sum(), rng, size) if data.any() else np.zeros(size)


@FAMILY.buggy(
    ONE,
    SCALED,
    "Nissim, Raskhodnikova and Smith 2007: noise of local size tells the data",
    lambda draws: np.abs(draws) < 0.3,
    (-math.expm1(-3.0), 0.5 * (math.exp(-0.7) - math.exp(-1.3))),
)
def noise_by_data(data: Array, rng: Generator, size: int) -> Array:
    """The noise is scaled to the spread of the data at hand: infinite."""
    return _noisy(data.sum(), rng, size, 0.1 if np.ptp(data) == 0 else 1.0)


@FAMILY.buggy(
    ONE,
    COUNT,
    LOKNA,
    lambda draws: draws == np.floor(draws),
    (1.0, 0.0),
)
def branches_on_the_data(data: Array, rng: Generator, size: int) -> Array:
    """Whole-numbered noise on one branch and real noise on the other: infinite."""
    if data.sum() < 0.5:
        chance = -math.expm1(-1.0)
        return np.asarray(
            data.sum() + rng.geometric(chance, size) - rng.geometric(chance, size) + 0.0
        )
    return _noisy(data.sum(), rng, size)


@FAMILY.buggy(
    ONE,
    COUNT,
    "Dwork and Roth 2014, section 3.6: stopping has to be noisy",
    lambda draws: np.isnan(draws[:, 1]),
    (1.0, 0.0),
)
def stops_when_exact(data: Array, rng: Generator, size: int) -> Array:
    """A loop ends once the true error, not its noisy version, is zero: infinite."""
    output = data.sum() + 2.0 * rng.laplace(size=(size, 2))
    output[:, 1] = np.nan if data.sum() == 0 else output[:, 1]
    return np.asarray(output)
