"""Gradients as factors: norms and clipped sums without an array of records times parameters.

A network's gradient for one record is an outer product and a few more numbers.  Its norm follows
from the factors, and a clipped sum is one matrix product.  A difference of two gradients of one
record has the same form, because the record's inputs are shared.
Source: Goodfellow 2015, "Efficient Per-Example Gradient Computations"; Lee and Kifer 2021.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit.kernels.linear import unit_rows

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Factors:
    """Gradients as left_i (x) right_i, an outer product, and ``rest_i``: (trials, n, d) unmade.

    ``left`` (trials, n, h); ``right`` (n, k), or (trials, n, k); ``rest`` (trials, n, m).
    """

    left: Array
    right: Array
    rest: Array

    def __sub__(self, other: Factors) -> Factors:
        """Differences of gradients of the same records: both share ``right``."""
        return Factors(self.left - other.left, self.right, self.rest - other.rest)


def ghost_norms(factors: Factors) -> Array:
    """The l2 norm of every gradient, (trials, n): sqrt(|left|^2 |right|^2 + |rest|^2).

    Rows whose squares overflow or underflow are scaled by their largest entry first.
    """
    with np.errstate(all="ignore"):
        left, right, rest = (unit_rows(f)[1] for f in (factors.left, factors.right, factors.rest))
        return np.asarray(np.hypot(left * right, rest))


def clipped_sums(factors: Factors, weights: Array, radius: Any) -> tuple[Array, Array]:
    """sum_i w_i clip(gradient_i, radius): outer products (trials, h, k) and rests (trials, m).

    Directions and lengths are kept apart, so that no record is longer than the radius by more than
    rounding, whatever its entries: a product of very small and very large ones would lose digits.
    A row counts as zero where an entry is not finite, or its norm overflows.
    """
    with np.errstate(all="ignore"):
        left, left_norms = unit_rows(factors.left)
        right, right_norms = unit_rows(factors.right)
        rest, rest_norms = unit_rows(factors.rest)
        product = left_norms * right_norms
        norms = np.hypot(product, rest_norms)
        # An entry that is not finite leaves no finite norm.
        counted = np.isfinite(norms)
        if not counted.all():
            left, right, rest = (np.where(np.isfinite(x), x, 0.0) for x in (left, right, rest))
        limit = np.asarray(radius)[..., None]
        lengths = (
            np.where(counted, np.where(norms > limit, limit * (part / norms), part), 0.0) * weights
            for part in (product, rest_norms)
        )
        outer, other = lengths
        sums = np.matmul((outer[..., None] * left).swapaxes(1, 2), right)
        return np.asarray(sums), np.asarray(np.matmul(other[:, None, :], rest)[:, 0, :])
