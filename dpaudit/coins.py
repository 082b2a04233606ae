"""Coins as arrays: secret batches of records, and public random values."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpaudit.entitlement import Mask, sampling_numbers
from dpaudit.errors import InvalidParameter
from dpaudit.nodes import Node, PoissonSampled
from dpaudit.query import Array

Generator = np.random.Generator


def draw_batch(sampling: Node, trials: int, size: int, rng: Generator) -> Mask:
    """Membership of each record in each trial's batch, shape (trials, size).

    Equal generators give the records that two data sets share the same places in the batch.
    """
    uniform = rng.random((size, trials)).T
    if isinstance(sampling, PoissonSampled):
        return uniform < sampling_numbers(sampling)[0]
    batch_size = int(sampling_numbers(sampling)[0])
    chosen = np.zeros((trials, size), dtype=bool)
    order = np.argpartition(uniform, batch_size - 1, axis=1)
    np.put_along_axis(chosen, order[:, :batch_size], True, axis=1)
    return chosen


def public_value(value: Any) -> Array:
    """A public coin's value as an array of its own, read-only.

    Errors: InvalidParameter for what is not an array of numbers.
    """
    array = np.array(value)
    if array.dtype.kind not in "biuf":
        raise InvalidParameter("coin: its draw returned no array of numbers")
    array.flags.writeable = False
    return array
