"""Coins as arrays: secret batches of records, and public random values."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpaudit.curator.entitlement import Mask
from dpaudit.errors import InvalidParameter
from dpaudit.kernels.batches import batches_of, in_slot
from dpaudit.kernels.query import Array
from dpaudit.nodes import Node

Generator = np.random.Generator


def draw_batch(sampling: Node, trials: int, size: int, rng: Generator) -> Mask:
    """Membership of each record in each trial's batch, shape (trials, size); the first of a pass.

    Equal generators give the records that two data sets share the same places in the batch.
    """
    return in_slot(batches_of(sampling).assign(trials, size, rng), 0)


def public_value(value: Any) -> Array:
    """A public coin's value as an array of its own, read-only.

    Errors: InvalidParameter for what is not an array of numbers.
    """
    array = np.array(value)
    if array.dtype.kind not in "biuf":
        raise InvalidParameter("coin: its draw returned no array of numbers")
    array.flags.writeable = False
    return array
