"""How many records fall into each bin, with Laplace noise."""

from __future__ import annotations

import numpy as np

import dpaudit as dp
from dpaudit.kernels.query import Array

BINS = 4


class Histogram:
    """Counts records by the bin number in their first column; others are in no bin."""

    def declaration(self, scope: dp.Scope) -> dp.Node:
        """Laplace noise of scale 2: a record is in one bin, so epsilon = 1/2."""
        return dp.Laplace("bins", noise_multiplier=2)

    def run(self, curator: dp.Curator) -> Array:
        """The noisy counts, shape (trials, bins)."""
        return curator.release("bins", dp.clipped_sum(self.bins, radius=1, norm="l1"))

    def bins(self, values: Array) -> Array:
        """A one in each record's bin, shape (1, records, bins)."""
        return np.asarray(values[None, :, :1] == np.arange(BINS), dtype=float)


histogram = dp.Mechanism(
    name="histogram",
    title="A histogram with Laplace noise",
    source="Dwork, McSherry, Nissim and Smith 2006, Example 1",
    program=Histogram(),
    scope=dp.central("add_remove"),
    claims=[dp.Claim(dp.PureDP("0.5"), by="Dwork, McSherry, Nissim and Smith 2006, Example 1")],
)
