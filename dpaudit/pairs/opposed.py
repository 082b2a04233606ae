"""A record that is replaced by its opposite in Poisson samples, where an absent one adds nothing.

Theorem: a release adds N(0, I) to a query of the drawn records.  Let a record move the query by at
most mu from what it is without the record.  Under replace_one :class:`Opposed` dominates the
release, and releases that are chosen by those before are dominated by its powers.

Proof: fix the coins of all other records; divergences are jointly convex.  Let 0 be the query
without the record, and x and x' with either record: |x| <= mu and |x - x'| <= 2 mu.  For a set S
with N_x(S) = a, the lemma of Neyman and Pearson says that N_0(S) >= Phi(Phi^-1(a) - mu) and
N_x'(S) >= Phi(Phi^-1(a) - 2 mu).  On the line, with records at mu and -mu, the half-line of mass a
under N(mu, 1) has both of these masses at once.  At c >= 1 the gain P(S) - c Q(S) =
rate N_x(S) - (c - 1) (1 - rate) N_0(S) - c rate N_x'(S) falls in N_0(S) and in N_x'(S), so that the
half-line gains as much as S.  Below 1 the same holds of the pair swapped.  A pair that dominates
at every c does so under adaptive composition (Zhu, Dong, Wang 2022, Theorem 10): the coins of a
release are independent of all before it.

Several Gaussian releases of one sample, each chosen by those before, whose moves mu_i have squares
that add up to mu^2: whatever is chosen, the trade-off curve between the run without the record and
that with it is at least that of N(mu, 1) against N(0, 1), and between the two records that of 2 mu
(Dong, Roth, Su 2022, Theorem 3.2 and Corollary 3.3).  These are the two inequalities above.

A larger rate dominates too: where the gain of the best half-line is at least 0, N_x(S) - c N_x'(S)
is at least 0, and so is its growth with the rate, N_x(S) - c N_x'(S) + (c - 1) N_0(S).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar

from dpaudit.exact import Number, infinity
from dpaudit.exact.later import Later
from dpaudit.pairs.balls import Ball, Delta, number, phi, positive
from dpaudit.pairs.core import (
    Comparisons,
    Extremes,
    Factor,
    Opposition,
    Symmetric,
    at_least,
    rate_at_least,
)
from dpaudit.pairs.normal import Normal

if TYPE_CHECKING:
    import numpy as np

    from dpaudit import grids
else:
    np = Later("numpy")
    grids = Later("dpaudit.grids")

# From here on sinh(x) = exp(x) / 2 and asinh(x) = log(2 x) to the last digit of a float.
EXPONENTIAL_FROM = 40.0


@dataclass(frozen=True)
class Opposed(Symmetric):
    """(1 - rate) N(0, 1) + rate N(mu, 1) against (1 - rate) N(0, 1) + rate N(-mu, 1).

    Its likelihood ratio at z grows with z, and the reflection of z exchanges P and Q.  It is
    x = exp(e) at z = (e / 2 + asinh((1 - rate) / rate exp(mu^2 / 2) sinh(e / 2))) / mu: with
    w = exp(mu z) / sqrt(x), a = 1 - rate and b = rate exp(-mu^2 / 2), (a + b exp(mu z)) /
    (a + b exp(-mu z)) = x says that b (w - 1 / w) = a (sqrt(x) - 1 / sqrt(x)).
    """

    mu: Number
    rate: Number

    grows: ClassVar[Comparisons] = {"mu": at_least, "rate": rate_at_least}

    @property
    def opposition(self) -> Opposition | None:
        return Opposition(self.mu, self.rate)

    @property
    def factors(self) -> tuple[Factor, ...]:
        """The normal pair at rate 1."""
        return Normal(2 * self.mu).factors if self.rate == 1 else ((self, Fraction(1)),)

    @property
    def extremes(self) -> Extremes:
        end = Fraction(0) if self.mu == 0 else infinity()
        return end, end

    def delta(self, x: Ball, of: Delta | None = None) -> Ball:
        """P(z > t) - x Q(z > t), t the place where the likelihood ratio is x.

        It is largest at t: a place that is enclosed, and not known, leaves the value enclosed.
        """
        mu, rate = number(self.mu), number(self.rate)
        if mu == 0:
            return positive(1 - x)
        half, stays = x.log() / 2, 1 - rate
        place = (half + (stays / rate * (mu * mu / 2).exp() * half.sinh()).asinh()) / mu
        here, there = (stays * phi(-place) + rate * phi(way * mu - place) for way in (1, -1))
        return positive(here - x * there)

    def loss_masses(self, tail: float) -> grids.Closed | None:
        """Masses between the places of two losses; a loss grows by at most 2 mu as z grows by 1.

        The place errs by some roundings of its two terms, a rate's rounding of 1 - rate included.
        """
        if self.mu == 0:
            return grids.point()
        mu, rate = grids.as_float(self.mu, "mu"), grids.as_rate(self.rate)
        if rate == 1:
            return Normal(2 * self.mu).loss_masses(tail)
        stays = 1 - rate
        log_ratio = math.log(stays) - math.log(rate) + mu * mu / 2

        def place(losses: grids.Reals) -> grids.Reals:
            half, size = losses / 2, np.abs(losses / 2)
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                near = np.log(np.sinh(np.minimum(size, EXPONENTIAL_FROM)))
                logs = log_ratio + np.where(size > EXPONENTIAL_FROM, size - math.log(2), near)
                turned = np.where(
                    logs > EXPONENTIAL_FROM,
                    logs + math.log(2),
                    np.arcsinh(np.exp(np.minimum(logs, EXPONENTIAL_FROM))),
                )
            return np.asarray((half + np.copysign(turned, half)) / mu)

        def masses(edges: grids.Reals) -> tuple[grids.Reals, grids.Reals]:
            z = place(edges)
            still = stays * grids.normal_between(z)
            return tuple(  # type: ignore[return-value]
                still + rate * grids.normal_between(z - way * mu) for way in (1, -1)
            )

        farthest = grids.quantile(tail) + mu
        largest = self._loss(farthest, mu, rate)
        terms = 1 + largest + abs(log_ratio) + mu * farthest + mu * mu
        rounded = grids.UNIT * rate / stays
        return grids.Closed(
            masses,
            grids.NO_OUTCOMES,
            (-largest, largest),
            edge_error=2 * (16 * grids.UNIT * terms + rounded),
            relative=grids.NORMAL_FACTOR + 8 * grids.UNIT * (1 + farthest * farthest) + rounded,
        )

    @staticmethod
    def _loss(z: float, mu: float, rate: float) -> float:
        """The loss at z > 0."""
        moved = math.log(rate) - mu * mu / 2
        ways = (np.logaddexp(math.log1p(-rate), moved + way * mu * z) for way in (1, -1))
        up, down = ways
        return float(up - down)
