"""Normal noise: N(mu, 1) against N(0, 1)."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from dpaudit.exact import Number, infinity
from dpaudit.pairs.core import Comparisons, Extremes, Pair, Symmetric, at_least


@dataclass(frozen=True)
class Normal(Symmetric):
    """N(mu, 1) against N(0, 1)."""

    mu: Number

    is_ordered = True
    grows: ClassVar[Comparisons] = {"mu": at_least}

    @property
    def gaussian_shift(self) -> Number | None:
        return self.mu

    def scaled(self, size: Number) -> Pair | None:
        return Normal(size * self.mu)

    @property
    def extremes(self) -> Extremes:
        end = Fraction(0) if self.mu == 0 else infinity()
        return end, end
