"""Draws of local reports, for simulation and for audits of a local or shuffled collection.

No session of a curator makes them: each record's owner draws its own, before anything is collected.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dpaudit.errors import InvalidParameter
from dpaudit.kernels.base import Generator
from dpaudit.kernels.query import Array


def chance(epsilon: float, share: float) -> float:
    """The probability that a report is of the value's own set."""
    return share / (share + (1 - share) * float(np.exp(-epsilon)))


def shuffled_counts(held: Sequence[int], epsilon: float, rng: Generator, trials: int) -> Array:
    """Shuffled randomised responses, (trials, choices): how often each value is reported.

    ``held``: how many records hold each of the values, 2 or more.
    Errors: InvalidParameter for fewer than two values or negative counts.
    """
    choices = len(held)
    if choices < 2 or min(held) < 0:
        raise InvalidParameter(f"held = {list(held)}: expected two or more counts from 0")
    likely = chance(epsilon, 1 / choices)
    total = np.zeros((trials, choices))
    for value, count in enumerate(held):
        chances = np.full(choices, (1 - likely) / (choices - 1))
        chances[value] = likely
        total += rng.multinomial(count, chances, size=trials)
    return total


def selected_sets(
    value: int, choices: int, size: int, epsilon: float, rng: Generator, trials: int
) -> Array:
    """Reports of subset selection, (trials, choices): 1 for each value of the reported set.

    ``value`` is one of 0..choices - 1.
    """
    own = rng.random(trials) < chance(epsilon, size / choices)
    keys = rng.random((trials, choices))
    # A record's own value comes first or last, so that a uniform set has it or not.
    keys[:, value] = np.where(own, -1.0, 2.0)
    order = np.argsort(keys, axis=1)[:, :size]
    sets = np.zeros((trials, choices))
    np.put_along_axis(sets, order, 1.0, axis=1)
    return sets


def hadamard_columns(
    value: int, choices: int, epsilon: float, rng: Generator, trials: int
) -> Array:
    """Reports of Hadamard response, (trials,): columns of the Sylvester matrix above ``choices``.

    ``value`` is one of 1..choices, its own set the columns where its row is +1.
    """
    bits = int(choices).bit_length()
    columns = rng.integers(0, 2**bits, trials)
    odd = np.array([bin(int(c) & value).count("1") % 2 for c in columns], dtype=bool)
    own = rng.random(trials) < chance(epsilon, 0.5)
    # The lowest bit of a row turns a column of one kind into one of the other.
    columns_drawn: Array = np.where(odd == own, columns ^ (value & -value), columns).astype(
        np.float64
    )
    return columns_drawn


def half_sphere_points(direction: Array, epsilon: float, rng: Generator, trials: int) -> Array:
    """Reports of PrivUnit with share 1/2, (trials, d): points of the unit sphere.

    ``direction``, (d,), of length 1.
    """
    points = rng.standard_normal((trials, len(direction)))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    own = rng.random(trials) < chance(epsilon, 0.5)
    wrong = (points @ direction >= 0) != own
    return np.where(wrong[:, None], -points, points)
