"""A record that is present at a rate: Poisson sampling."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from dpaudit.exact import Number, exp, is_infinite, log
from dpaudit.pairs.core import (
    Comparisons,
    Extremes,
    Factor,
    Pair,
    Sample,
    Swapped,
    dominating,
    rate_at_least,
)


@dataclass(frozen=True)
class Mixed(Pair):
    """((1 - rate) Q + rate P, Q) for the base (P, Q): the base itself at rate 1."""

    base: Pair
    rate: Number

    grows: ClassVar[Comparisons] = {"base": dominating, "rate": rate_at_least}

    @property
    def swapped(self) -> Pair:
        return self.base.swapped if self.rate == 1 else Swapped(self)

    @property
    def factors(self) -> tuple[Factor, ...]:
        """The base's at rate 1."""
        return self.base.factors if self.rate == 1 else ((self, Fraction(1)),)

    @property
    def inner(self) -> tuple[Pair, ...]:
        return (self.base,)

    @property
    def sample(self) -> Sample | None:
        return Sample(self.base, self.rate)

    @property
    def extremes(self) -> Extremes:
        """log(1 - rate + rate exp(l)) at the largest and the smallest l of the base."""
        low, high = self.base.extremes
        if self.rate == 1:
            return low, high
        largest = high if is_infinite(high) else log(1 - self.rate + self.rate * exp(high))
        least = 1 - self.rate if is_infinite(low) else 1 - self.rate + self.rate * exp(-low)
        return log(1 / least), largest
