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

Array = NDArray[np.float64]
# Sums of squares in between are exact to rounding, whatever their entries.
SMALLEST_SQUARE, LARGEST_SQUARE = 1e-280, 1e280


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

    def finite(self) -> NDArray[np.bool_]:
        """Whether all entries of a gradient are finite: (trials, n)."""
        with np.errstate(all="ignore"):
            largest = np.abs(self.left).max(axis=-1) * np.abs(self.right).max(axis=-1)
            return np.asarray(np.isfinite(largest) & np.isfinite(self.rest).all(axis=-1))


def ghost_norms(factors: Factors) -> Array:
    """The l2 norm of every gradient, (trials, n): sqrt(|left|^2 |right|^2 + |rest|^2).

    Rows whose squares overflow or underflow are scaled by their largest entry first.
    """
    with np.errstate(all="ignore"):
        product = _norms(factors.left) * _norms(factors.right)
        return np.asarray(np.hypot(product, _norms(factors.rest)))


def clipped_sums(factors: Factors, weights: Array, radius: Any) -> tuple[Array, Array]:
    """sum_i w_i clip(gradient_i, radius): outer products (trials, h, k) and rests (trials, m).

    Errors: none that depends on a record; a row of which an entry is not finite counts as zero.
    """
    finite = factors.finite()
    norms = ghost_norms(factors)
    limit = np.asarray(radius)[..., None]
    shrunk = np.where(norms > limit, limit / np.where(norms > 0, norms, 1.0), 1.0)
    scale = np.where(finite, shrunk, 0.0) * weights
    left, right, rest = factors.left, factors.right, factors.rest
    if not finite.all():
        left = np.where(finite[..., None], left, 0.0)
        rest = np.where(finite[..., None], rest, 0.0)
        right = np.where(np.isfinite(right), right, 0.0)
    outer = np.matmul((scale[..., None] * left).swapaxes(1, 2), right)
    return np.asarray(outer), np.asarray(np.matmul(scale[:, None, :], rest)[:, 0, :])


def _norms(rows: Array) -> Array:
    """Norms over the last axis; a row's own entries alone decide how it is computed."""
    squares = np.einsum("...i,...i->...", rows, rows)
    unsafe = ~((squares > SMALLEST_SQUARE) & (squares < LARGEST_SQUARE))
    lengths = np.asarray(np.sqrt(squares))
    if unsafe.any():
        lengths[unsafe] = _scaled_norms(rows[unsafe])
    return lengths


def _scaled_norms(rows: Array) -> Array:
    largest = np.abs(rows).max(axis=-1, initial=0.0)
    scaled = rows / np.where(largest > 0, largest, 1.0)[..., None]
    return np.asarray(largest * np.sqrt(np.square(scaled).sum(axis=-1)))
