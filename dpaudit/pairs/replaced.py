"""A record that is replaced by another in sampled batches."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar

from dpaudit.exact import Number
from dpaudit.exact.later import Later
from dpaudit.pairs.balls import Ball, Delta
from dpaudit.pairs.core import Comparisons, Factor, Pair, Replacement, Symmetric, at_least, delta_of
from dpaudit.pairs.mixed import Mixed
from dpaudit.pairs.normal import Normal
from dpaudit.pairs.spliced import Spliced

if TYPE_CHECKING:
    from dpaudit import grids
else:
    grids = Later("dpaudit.grids")


@dataclass(frozen=True)
class Replaced(Symmetric):
    """A batch that a record is in at a ``rate``: N(x) or N(x') for the record, else N(y).

    ((1 - rate) N(y, I) + rate N(x, I), (1 - rate) N(y, I) + rate N(x', I)) for whatever y, x and x'
    are at most ``mu`` apart.  In a product each round has its own, which may be chosen by what the
    rounds before showed.  One round's profile is that of :class:`Spliced` over Mixed(Normal(mu)).
    """

    mu: Number
    rate: Number

    grows: ClassVar[Comparisons] = {"mu": at_least}

    @property
    def sampled(self) -> Pair:
        """The triple with y = x', reached from above x = 1; swapped, from below."""
        return Mixed(Normal(self.mu), self.rate)

    @property
    def spliced(self) -> Pair:
        """One pair that dominates every triple, and all at once."""
        return Spliced(self.sampled, self.sampled.swapped)

    @property
    def factors(self) -> tuple[Factor, ...]:
        """The normal pair at rate 1."""
        return Normal(self.mu).factors if self.rate == 1 else ((self, Fraction(1)),)

    @property
    def inner(self) -> tuple[Pair, ...]:
        return (self.spliced,)

    def delta(self, x: Ball, of: Delta | None = None) -> Ball:
        """One round alone: of its splice."""
        return (of or delta_of)(self.spliced, x)

    def _on_grid(self, grid: grids.Grid, side: grids.Side) -> grids.Discrete:
        """One pair for all triples; from below the sampled one is a pair of its own."""
        if side is grids.Side.LOWER:
            reached = "what is reached in all rounds is its sampled pair"
            raise grids.NoLower(f"a replaced record: {reached}")
        return self.spliced.on_grid(grid, side)

    @property
    def replacement(self) -> Replacement | None:
        return Replacement(self.mu, self.rate)

    @property
    def splice(self) -> tuple[Pair, Pair] | None:
        return self.sampled, self.sampled.swapped

    @property
    def lower(self) -> Pair:
        return self.sampled
