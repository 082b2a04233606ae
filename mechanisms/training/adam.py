"""DP-Adam: Adam's moments are made of released gradients, and cost nothing more."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

import dpaudit as dp
from dpaudit.kernels.query import Array
from mechanisms.classics.dp_sgd import gradients

STEPS, BATCH = 20, 50
FIRST, SECOND, RATE, SMALL = 0.9, 0.999, 0.05, 1e-8


@dataclass(frozen=True)
class DpAdam:
    """Records hold two features, then a label of 0 or 1; a batch has 50 of them on average.

    ``unbiased``: the released square less the noise's variance, as Tang, Panferov and Lecuyer 2024
    correct the second moment.  Noise and radius are public, so that either is post-processing.
    """

    unbiased: bool = False

    def declaration(self, scope: dp.Scope) -> dp.Node:
        """Gaussian noise of once the clipping radius, on a secret batch, at each of 20 steps."""
        return dp.Repeat(dp.PoissonSampled(dp.Gaussian("gradient", 1), rate="0.05"), STEPS)

    def run(self, curator: dp.Curator) -> Array:
        """The last weights, shape (trials, 2)."""
        weights, mean, square = (np.zeros((curator.trials, 2)) for _ in range(3))
        for t in range(1, STEPS + 1):
            with curator.batch("gradient") as batch:
                query = self.query(weights)
                found = curator.release("gradient", query, rows=batch)
            mean = FIRST * mean + (1 - FIRST) * found
            square = SECOND * square + (1 - SECOND) * self.squared(found)
            upright = mean / (1 - FIRST**t)
            length = np.sqrt(np.maximum(square / (1 - SECOND**t), 0)) + SMALL
            weights = weights - RATE * upright / length
        return weights

    def query(self, weights: Array) -> dp.Query:
        """The mean of clipped gradients."""
        return dp.ClippedMean(partial(gradients, weights), radius=1, divisor=BATCH)

    def squared(self, found: Array) -> Array:
        """The released gradient's square, in each coordinate."""
        return np.square(found) - (BATCH**-2 if self.unbiased else 0)


TITLE = "DP-Adam over Poisson batches"
SOURCE = "Abadi and others 2016, Algorithm 1, with the steps of Kingma and Ba 2015, Algorithm 1"
SCOPE = dp.central("add_remove")
CLAIM = dp.Claim(dp.ApproxDP(2, "1e-5"), by="this page")

dp_adam = dp.Mechanism("dp_adam", TITLE, SOURCE, DpAdam(), SCOPE, [CLAIM])
dp_adam_unbiased = dp.Mechanism(
    "dp_adam_unbiased",
    f"{TITLE}, second moment without the noise's variance",
    "Tang, Panferov and Lecuyer 2024, DP-AdamBC",
    DpAdam(unbiased=True),
    SCOPE,
    [CLAIM],
)
