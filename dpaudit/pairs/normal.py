"""Normal noise: N(mu, 1) against N(0, 1)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar

from dpaudit.exact import Number, infinity
from dpaudit.exact.later import Later
from dpaudit.pairs.balls import Ball, Delta, number, phi, positive
from dpaudit.pairs.cases import Case
from dpaudit.pairs.core import Comparisons, Extremes, Pair, Symmetric, at_least

if TYPE_CHECKING:
    from dpaudit import grids
else:
    grids = Later("dpaudit.grids")


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

    def delta(self, x: Ball, of: Delta | None = None) -> Ball:
        """Phi(mu/2 - epsilon/mu) - x Phi(-mu/2 - epsilon/mu) (Balle, Wang 2018, Theorem 8)."""
        mu, epsilon = number(self.mu), x.log()
        if mu == 0:
            return positive(1 - x)
        return phi(mu / 2 - epsilon / mu) - x * phi(-mu / 2 - epsilon / mu)

    def loss_masses(self, tail: float) -> grids.Closed | None:
        """The loss is N(mu^2 / 2, mu^2) under P, N(-mu^2 / 2, mu^2) under Q."""
        if self.mu == 0:
            return grids.point()
        mu = grids.as_float(self.mu, "mu")
        z = grids.quantile(tail)

        def masses(edges: grids.Reals) -> tuple[grids.Reals, grids.Reals]:
            between = grids.normal_between
            return between(edges / mu - mu / 2), between(edges / mu + mu / 2)

        half = mu * mu / 2
        farthest = z + mu
        return grids.Closed(
            masses,
            grids.NO_OUTCOMES,
            (-half - mu * z, half + mu * z),
            edge_error=4 * grids.UNIT * (mu * farthest + half),
            relative=grids.NORMAL_FACTOR + 4 * grids.UNIT * farthest * farthest,
        )

    @property
    def case_count(self) -> int:
        return 1

    @property
    def cases(self) -> Iterator[Case]:
        yield Case(square=self.mu**2)
