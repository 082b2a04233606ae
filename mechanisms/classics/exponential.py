"""The most frequent category, chosen by the exponential mechanism."""

from __future__ import annotations

import numpy as np

import dpaudit as dp
from dpaudit.kernels.query import Array

CATEGORIES = 4


class MostFrequent:
    """Chooses a category, likelier the more records name it in their first column."""

    def declaration(self, scope: dp.Scope) -> dp.Node:
        """A record moves each score by at most one, all of them up: epsilon = 1 costs one half."""
        return dp.ExponentialMechanism("category", epsilon=1, scores="monotone")

    def run(self, curator: dp.Curator) -> Array:
        """The number of the chosen category, shape (trials,)."""
        scores = dp.clipped_sum(self.named, radius=1, norm="linf")
        return np.asarray(curator.release("category", scores).argmax(axis=1), dtype=float)

    def named(self, values: Array) -> Array:
        """A one at each record's category, shape (1, records, categories)."""
        return np.asarray(values[None, :, :1] == np.arange(CATEGORIES), dtype=float)


most_frequent = dp.Mechanism(
    name="most_frequent",
    title="The most frequent category by the exponential mechanism",
    source="McSherry and Talwar 2007, Theorem 6",
    program=MostFrequent(),
    scope=dp.central("add_remove"),
    claims=[dp.Claim(dp.PureDP("0.5"), by="Dwork and Roth 2014, after Theorem 3.11")],
)
