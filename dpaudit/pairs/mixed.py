"""A record that is present at a rate: Poisson sampling."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar

from dpaudit.exact import Number, exp, is_infinite, log
from dpaudit.exact.later import Later
from dpaudit.pairs.balls import Ball, Delta, number
from dpaudit.pairs.core import (
    Comparisons,
    Extremes,
    Factor,
    Outcomes,
    Pair,
    Sample,
    Swapped,
    delta_of,
    dominating,
    rate_at_least,
)

if TYPE_CHECKING:
    from dpaudit import grids
else:
    grids = Later("dpaudit.grids")


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

    def delta(self, x: Ball, of: Delta | None = None) -> Ball:
        """rate times delta_base(1 + (x - 1) / rate) for x > 1 - rate, and 1 - x otherwise.

        Source: Balle, Barthe, Gaboardi 2018, Theorem 2.
        """
        rate = number(self.rate)
        inner = 1 + (x - 1) / rate
        if inner > 0:
            return rate * (of or delta_of)(self.base, inner)
        # delta of the base is at most 1: next to inner = 0 nothing better is needed.
        return (1 - x).union(rate) if not inner <= 0 else 1 - x

    def loss_masses(self, tail: float) -> grids.Closed | None:
        base = self.base.loss_masses(tail)
        if base is None or self.rate == 1:
            return base
        return grids.mixture(base, grids.as_rate(self.rate))

    def _on_grid(self, grid: grids.Grid, side: grids.Side) -> grids.Discrete:
        cells = self.cells(grid)
        if cells is not None:
            return cells.discrete(side)
        base = self.base.on_grid(grid, side)
        return base if self.rate == 1 else grids.mixture_of(base, self.rate, grid, side)

    @property
    def finite_outcomes(self) -> Outcomes | None:
        outcomes, rate = self.base.listed, self.rate
        if outcomes is None:
            return None
        return tuple(((1 - rate) * q + rate * p, q) for p, q in outcomes)

    @property
    def noise(self) -> Pair:
        return self.base.noise
