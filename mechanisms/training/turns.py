"""Follow the regularised leader on a tree whose rounds are secret batches of groups in turns."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

import dpaudit as dp
from dpaudit.kernels.query import Array
from mechanisms.classics.dp_sgd import gradients

ROUNDS, GROUPS, BATCH, STEP = 16, 4, 50, 1.0


@dataclass(frozen=True)
class TreeInTurns:
    """Records hold two features, then a label of 0 or 1.

    Record i is of group i modulo 4, which has every fourth round; it samples each at 1/5.
    Weights are minus the noisy sum of all mean gradients so far.
    """

    def declaration(self, scope: dp.Scope) -> dp.Node:
        """A tree's noise of 8 clipping radii; a record is in as many of four turns as coins say."""
        turns = dp.Participation(ROUNDS // GROUPS, GROUPS)
        sums = dp.CorrelatedGaussian("gradients", 8, ROUNDS, "tree", turns)
        return dp.CyclicPoisson(sums, GROUPS, rate="0.2")

    def run(self, curator: dp.Curator) -> Array:
        """The last weights, shape (trials, 2)."""
        weights = np.zeros((curator.trials, 2))
        for _ in range(ROUNDS):
            with curator.batch("gradients") as batch:
                sums = curator.release("gradients", self.query(weights), rows=batch)
            weights = -STEP * sums
        return weights

    def query(self, weights: Array) -> dp.Query:
        """The mean of clipped gradients."""
        return dp.ClippedMean(partial(gradients, weights), radius=1, divisor=BATCH)


tree_in_turns = dp.Mechanism(
    "tree_in_turns",
    "A tree of noisy sums over secret batches of groups in turns",
    "Kairouz and others 2021, Algorithm 1 (DP-FTRL), over the batches of CyclicPoisson",
    TreeInTurns(),
    dp.central("add_remove"),
    [dp.Claim(dp.ApproxDP(1, "1e-5"), by="this page")],
)
