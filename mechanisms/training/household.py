"""A count that protects households of up to four."""

from __future__ import annotations

import dpaudit as dp
from dpaudit.kernels.query import Array


class HouseholdCount:
    """Records of 0 or 1 in their first column; four of them come or go together at most."""

    def declaration(self, scope: dp.Scope) -> dp.Node:
        """Laplace noise of eight times what one record moves, for groups of four."""
        return dp.Group(dp.Laplace("count", noise_multiplier=8), size=4)

    def run(self, curator: dp.Curator) -> Array:
        """The noisy count, shape (trials, 1)."""
        ones = dp.clipped_sum(lambda values: values[None, :, :1], radius=1, norm="l1")
        return curator.release("count", ones)


household_count = dp.Mechanism(
    "household_count",
    "A count that protects households",
    "Vadhan 2017, Lemma 2.2 (group privacy)",
    HouseholdCount(),
    dp.central("add_remove"),
    [dp.Claim(dp.PureDP("0.5"), by="this page")],
)
