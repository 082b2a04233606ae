"""Two profiles that meet at x = 1."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from dpaudit.exact.later import Later
from dpaudit.pairs.balls import Ball, Delta
from dpaudit.pairs.core import Comparisons, Extremes, Pair, delta_of, dominating

if TYPE_CHECKING:
    from dpaudit import grids
else:
    grids = Later("dpaudit.grids")


@dataclass(frozen=True)
class Spliced(Pair):
    """The profile of ``above`` at x >= 1 and of ``below`` at x < 1; they meet at x = 1."""

    above: Pair
    below: Pair

    grows: ClassVar[Comparisons] = {"above": dominating, "below": dominating}

    @property
    def inner(self) -> tuple[Pair, ...]:
        return self.above, self.below

    @property
    def extremes(self) -> Extremes:
        return self.below.extremes[0], self.above.extremes[1]

    def delta(self, x: Ball, of: Delta | None = None) -> Ball:
        own = of or delta_of
        if x >= 1 or x < 1:
            return own(self.above if x >= 1 else self.below, x)
        return own(self.above, x).union(own(self.below, x))

    def _on_grid(self, grid: grids.Grid, side: grids.Side) -> grids.Discrete:
        """Cells above loss 0 from one pair, below from the other; an atom at 0 takes the rest.

        Source: Zhu, Dong, Wang 2022, Proposition 30 (sampling without replacement, replace-one).
        """
        above, below = self.above.cells(grid), self.below.cells(grid)
        if above is not None and below is not None:
            return grids.spliced(above, below).discrete(side)
        return grids.joined(self.above.on_grid(grid, side), self.below.on_grid(grid, side), side)

    @property
    def splice(self) -> tuple[Pair, Pair] | None:
        return self.above, self.below
