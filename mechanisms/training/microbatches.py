"""Accumulated gradients, and microbatches whose means are clipped."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

import dpaudit as dp
from dpaudit.kernels.query import Array, Norm, clip_rows
from dpaudit.scope import Adjacency
from mechanisms.classics.dp_sgd import gradients

STEPS, RECORDS, AT_ONCE, TOGETHER = 5, 24, 6, 4


@dataclass(frozen=True, eq=False)
class Accumulated:
    """The sum of clipped gradients, of a few records at a time: one release, one noise.

    How many are read at once changes nothing that is released; noise comes once, when all are in.
    """

    whole: dp.ClippedMean
    at_once: int
    norm: Norm = "l2"

    def value(self, records: dp.Records, chosen: NDArray[np.bool_] | None = None) -> Array:
        """The sum over blocks of rows, in their order."""
        total = np.zeros((1, 1))
        for start in range(0, len(records), self.at_once):
            stop = min(start + self.at_once, len(records))
            some = None if chosen is None else chosen[:, start:stop]
            total = total + self.whole.value(records.rows(start, stop), some)
        return total

    def sensitivity(self, adjacency: Adjacency, size: int) -> Array:
        """That of the whole: a record is in one block."""
        return self.whole.sensitivity(adjacency, size)


@dataclass(frozen=True, eq=False)
class Microbatched:
    """The mean of the clipped mean gradients of microbatches, of so many rows in order each.

    One record moves its microbatch's mean to anywhere: by twice the radius, whatever the adjacency,
    as the others stay; by once alone where a microbatch is one record.
    Source: Ponomareva and others 2023, How to DP-fy ML, Section 4.4 (microbatches).
    """

    weights: Array
    together: int
    norm: Norm = "l2"

    def value(self, records: dp.Records, chosen: NDArray[np.bool_] | None = None) -> Array:
        """Of all rows; a record that is not there counts as a gradient of 0."""
        if chosen is not None:
            raise dp.InvalidParameter("Microbatched: of all rows alone, not of a secret batch")
        rows = np.asarray(gradients(self.weights, records.values), dtype=np.float64)
        rows = np.where(np.isfinite(rows).all(-1, keepdims=True), rows, 0.0)
        rows = rows * records.present[:, None]
        means = rows.reshape(len(rows), -1, self.together, rows.shape[-1]).mean(axis=2)
        return np.asarray(clip_rows(means, np.ones(1)).mean(axis=1))

    def sensitivity(self, adjacency: Adjacency, size: int) -> Array:
        """2 over the number of microbatches, or 1 over the number of records."""
        alone = self.together == 1 and adjacency != Adjacency.REPLACE_ONE
        return np.asarray((1.0 if alone else 2.0) * self.together / size)


@dataclass(frozen=True)
class InPieces:
    """Full-batch gradient descent on 24 records of two features and a label of 0 or 1.

    ``together``: how many records a microbatch has; 0 for gradients clipped one by one, and
    accumulated six at a time.
    """

    together: int = 0

    def declaration(self, scope: dp.Scope) -> dp.Node:
        """Gaussian noise of five times what one record moves, five times."""
        return dp.Repeat(dp.Gaussian("gradient", 5), STEPS)

    def run(self, curator: dp.Curator) -> Array:
        """The last weights, shape (trials, 2)."""
        weights = np.zeros((curator.trials, 2))
        for _ in range(STEPS):
            weights = weights - curator.release("gradient", self.query(weights))
        return weights

    def query(self, weights: Array) -> dp.Query:
        """The mean gradient, made in pieces."""
        if self.together:
            return Microbatched(weights, self.together)
        whole = dp.ClippedMean(partial(gradients, weights), radius=1, divisor=RECORDS)
        return Accumulated(whole, AT_ONCE)


def records_like(rng: np.random.Generator) -> dp.Records:
    """Made-up records of the right number."""
    labels = rng.integers(2, size=(RECORDS, 1))
    return dp.Records(np.hstack([rng.standard_normal((RECORDS, 2)), labels]))


SCOPE = dp.central("zero_out")
CLAIM = dp.Claim(dp.GDP("0.4473"), by="this page")  # sqrt(5) / 5

accumulated_gd = dp.Mechanism(
    "accumulated_gd",
    "Noisy gradient descent with accumulated gradients",
    "Abadi and others 2016, Algorithm 1 (lots of several batches)",
    InPieces(),
    SCOPE,
    [CLAIM],
    records_like=records_like,
)
microbatched_gd = dp.Mechanism(
    "microbatched_gd",
    "Noisy gradient descent with clipped means of microbatches",
    "Ponomareva and others 2023, Section 4.4",
    InPieces(TOGETHER),
    SCOPE,
    [CLAIM],
    records_like=records_like,
)
