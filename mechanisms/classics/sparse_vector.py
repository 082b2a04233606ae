"""The first of many questions whose answer is large: every no before it is free."""

from __future__ import annotations

import numpy as np

import dpaudit as dp
from dpaudit.kernels.query import Array

COLUMNS, THRESHOLD = 3, 5.0


class SparseVector:
    """Which column is the first that holds at least five ones."""

    def declaration(self, scope: dp.Scope) -> dp.Node:
        """Half of epsilon = 1 for the threshold, half for the questions, however many there are."""
        return dp.AboveThreshold("large", epsilon_threshold="0.5", epsilon_query="0.5")

    def run(self, curator: dp.Curator) -> Array:
        """The column's number, or their number if none is large; shape (trials,)."""
        said = [curator.release("large", self.ones(column))[:, 0] for column in range(COLUMNS)]
        return np.asarray(np.argmax([*said, np.ones(curator.trials)], axis=0))

    def ones(self, column: int) -> dp.ClippedMean:
        """How many ones a column holds, less the threshold."""
        return dp.clipped_sum(lambda v: v[None, :, column, None], 1, norm="l1", plus=-THRESHOLD)


sparse_vector = dp.Mechanism(
    name="sparse_vector",
    title="The sparse vector technique",
    source="Dwork and Roth 2014, Algorithm 1",
    program=SparseVector(),
    scope=dp.central("add_remove"),
    claims=[dp.Claim(dp.PureDP(1), by="Dwork and Roth 2014, Theorem 3.23")],
)
