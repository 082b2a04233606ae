"""A step size found privately: the best of a random number of runs."""

from __future__ import annotations

from functools import partial

import numpy as np

import dpaudit as dp
from dpaudit.families.tuning import Tuned
from dpaudit.kernels.query import Array
from mechanisms.classics.dp_sgd import gradients

STEPS, SIZES, RECORDS = 3, (0.1, 1.0, 10.0), 100


class Searched:
    """About a hundred records of two features and a label of 0 or 1.

    A run draws its step size from three, makes three noisy steps, and is scored by how many records
    it has right.  Of a geometric number of runs, five on average, the best one is shown.
    """

    def declaration(self, scope: dp.Scope) -> dp.Node:
        """What one run releases, and the law of how many there are."""
        run = dp.Compose(dp.Repeat(dp.Gaussian("gradient", 12), STEPS), dp.Gaussian("right", 12))
        return Tuned(run, gamma="0.2")

    def run(self, curator: dp.Curator) -> tuple[Array, Array]:
        """The best weights (trials, 2), and their step size (trials,)."""
        (weights, size), _ = curator.best_of("gradient", self.once)
        return weights, size

    def once(self, curator: dp.Curator) -> tuple[tuple[Array, Array], Array]:
        """One run and its score."""
        size = curator.coin(lambda rng: rng.choice(SIZES, curator.trials))
        weights = np.zeros((curator.trials, 2))
        for _ in range(STEPS):
            mean = dp.ClippedMean(partial(gradients, weights), radius=1, divisor=RECORDS)
            weights = weights - size[:, None] * curator.release("gradient", mean)
        right = dp.clipped_sum(partial(self.right, weights), radius=1)
        return (weights, size), curator.release("right", right)[:, 0]

    def right(self, weights: Array, values: Array) -> Array:
        """1 for each record on the right side, shape (trials, records, 1)."""
        side = np.where(weights @ values[:, :2].T > 0, 1.0, 0.0)
        return np.where(side == values[:, 2], 1.0, 0.0)[..., None]


tuned_step_size = dp.Mechanism(
    "tuned_step_size",
    "The best of a random number of runs",
    "Papernot and Steinke 2022, Theorem 2",
    Searched(),
    dp.central("add_remove"),
    [dp.Claim(dp.ApproxDP("1.3", "1e-5"), by="this page")],
)
