"""Laplace noise, moved by one."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar

from dpaudit.exact import Number
from dpaudit.exact.later import Later
from dpaudit.pairs.balls import Ball, Delta, number, positive
from dpaudit.pairs.cases import Case
from dpaudit.pairs.core import Comparisons, Extremes, Pair, Symmetric, at_least

if TYPE_CHECKING:
    import numpy as np

    from dpaudit import grids
else:
    np = Later("numpy")
    grids = Later("dpaudit.grids")

# A larger loss is beyond the exponents of floats.
LARGEST_EPSILON = 600.0


@dataclass(frozen=True)
class LaplaceShift(Symmetric):
    """Laplace noise of scale 1/epsilon around 1 against around 0: the loss is within epsilon."""

    epsilon: Number

    is_ordered = True
    grows: ClassVar[Comparisons] = {"epsilon": at_least}

    def scaled(self, size: Number) -> Pair | None:
        return LaplaceShift(size * self.epsilon)

    @property
    def extremes(self) -> Extremes:
        return self.epsilon, self.epsilon

    def delta(self, x: Ball, of: Delta | None = None) -> Ball:
        """0 for epsilon >= e, 1 - x for epsilon <= -e, else 1 - exp((epsilon - e) / 2)."""
        between = 1 - ((x.log() - number(self.epsilon)) / 2).exp()
        return positive(1 - x).max(positive(between))

    def loss_masses(self, tail: float) -> grids.Closed | None:
        """Atoms at either end of the loss, and a density proportional to exp(loss / 2) between."""
        if self.epsilon == 0:
            return grids.point()
        epsilon = grids.as_float(self.epsilon, "epsilon")
        if epsilon > LARGEST_EPSILON:
            raise grids.TooFine(f"Laplace noise with a loss of {epsilon:g}: too large for a grid")

        def masses(edges: grids.Reals) -> tuple[grids.Reals, grids.Reals]:
            inner = np.clip(edges, -epsilon, epsilon)
            low, high = inner[:-1], inner[1:]
            part = -np.expm1((low - high) / 2) / 2
            return part * np.exp((high - epsilon) / 2), part * np.exp(-(epsilon + low) / 2)

        small = math.exp(-epsilon) / 2
        at, often = np.array([-epsilon, epsilon]), np.array([small, 0.5])
        ends = grids.Outcomes(at, often, often[::-1].copy())
        unit = grids.UNIT
        return grids.Closed(
            masses, ends, (-epsilon, epsilon), 8 * unit * epsilon, 16 * unit * (1 + epsilon)
        )

    @property
    def case_count(self) -> int:
        return 1

    @property
    def cases(self) -> Iterator[Case]:
        yield Case(epsilon=self.epsilon, laplaces=1)

    @property
    def near_largest_loss(self) -> Fraction | None:
        return Fraction(float(number(self.epsilon).mid()))

    @property
    def anchors(self) -> list[float] | None:
        return [grids.as_float(self.epsilon, "epsilon")]

    @property
    def laplace_epsilon(self) -> Number | None:
        return self.epsilon
