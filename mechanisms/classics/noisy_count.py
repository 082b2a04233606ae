"""How many records have a property, with Laplace noise."""

from __future__ import annotations

import dpaudit as dp
from dpaudit.kernels.query import Array


class NoisyCount:
    """Counts the records whose first column is one; a record moves the count by at most one."""

    def declaration(self, scope: dp.Scope) -> dp.Node:
        """Laplace noise of scale 2: epsilon = 1/2."""
        return dp.Laplace("count", noise_multiplier=2)

    def run(self, curator: dp.Curator) -> Array:
        """The noisy count, shape (trials, 1)."""
        ones = dp.clipped_sum(lambda values: values[None, :, :1], radius=1, norm="l1")
        return curator.release("count", ones)


noisy_count = dp.Mechanism(
    name="noisy_count",
    title="A count with Laplace noise",
    source="Dwork, McSherry, Nissim and Smith 2006, Proposition 1",
    program=NoisyCount(),
    scope=dp.central("add_remove"),
    claims=[dp.Claim(dp.PureDP("0.5"), by="Dwork et al. 2006, Proposition 1")],
)
