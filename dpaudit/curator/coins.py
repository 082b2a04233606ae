"""Coins as arrays: secret batches of records, and public random values."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit.curator.entitlement import Mask, sampling_numbers
from dpaudit.errors import InvalidParameter
from dpaudit.families.sampling import PoissonSampled
from dpaudit.kernels.query import Array
from dpaudit.nodes import Node

Generator = np.random.Generator
Indices = NDArray[np.intp]


def draw_batch(sampling: Node, trials: int, size: int, rng: Generator) -> Mask:
    """Membership of each record in each trial's batch, shape (trials, size).

    Equal generators give the records that two data sets share the same places in the batch.
    """
    if isinstance(sampling, PoissonSampled):
        return sampling_numbers(sampling)[0] > rng.random((size, trials)).T
    batch_size = int(sampling_numbers(sampling)[0])
    few = 4 * batch_size <= size
    members = (_distinct if few else _smallest)(trials, size, batch_size, rng)
    chosen = np.zeros((trials, size), dtype=bool)
    np.put_along_axis(chosen, members, True, axis=1)
    return chosen


def _smallest(trials: int, size: int, batch_size: int, rng: Generator) -> Indices:
    """The records with the smallest of independent uniform numbers."""
    uniform = rng.random((size, trials)).T
    return np.argpartition(uniform, batch_size - 1, axis=1)[:, :batch_size]


def _distinct(trials: int, size: int, batch_size: int, rng: Generator) -> Indices:
    """The first ``batch_size`` different ones of records drawn with replacement."""
    drawn = rng.integers(0, size, (trials, batch_size + batch_size**2 // size + 8))
    while True:
        order = np.argsort(drawn, axis=1, kind="stable")
        values = np.take_along_axis(drawn, order, axis=1)
        new = np.ones(drawn.shape, dtype=bool)
        new[:, 1:] = values[:, 1:] != values[:, :-1]
        fresh = np.empty_like(new)
        np.put_along_axis(fresh, order, new, axis=1)
        kept = fresh & (np.cumsum(fresh, axis=1) <= batch_size)
        if (np.count_nonzero(kept, axis=1) == batch_size).all():
            return drawn[kept].reshape(trials, batch_size)
        drawn = np.concatenate([drawn, rng.integers(0, size, (trials, batch_size))], axis=1)


def public_value(value: Any) -> Array:
    """A public coin's value as an array of its own, read-only.

    Errors: InvalidParameter for what is not an array of numbers.
    """
    array = np.array(value)
    if array.dtype.kind not in "biuf":
        raise InvalidParameter("coin: its draw returned no array of numbers")
    array.flags.writeable = False
    return array
