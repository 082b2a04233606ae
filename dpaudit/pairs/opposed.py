"""A record that is replaced by its opposite in Poisson samples, where an absent one adds nothing.

Theorem: a release adds N(0, 1) to a query of the drawn records.  Let a record move the query by at
most mu from what it is without the record.  Under replace_one :class:`Opposed` dominates the
release, and releases that are chosen by those before are dominated by its powers.

Proof: fix the coins of all other records; divergences are jointly convex.  Let 0 be the query
without the record, and x and x' with either record: |x| <= mu and |x - x'| <= 2 mu.  Of a set S
with N_x(S) = a, the lemma of Neyman and Pearson says that N_0(S) >= Phi(Phi^-1(a) - mu) and
N_x'(S) >= Phi(Phi^-1(a) - 2 mu).  On the line, with records at mu and -mu, the half-line of mass a
under N(mu, 1) has both of these masses at once.  At c >= 1 the gain P(S) - c Q(S) =
rate N_x(S) - (c - 1) (1 - rate) N_0(S) - c rate N_x'(S) falls in N_0(S) and in N_x'(S), so that the
half-line gains as much as S.  Below 1 the same holds of the pair swapped.  A pair that dominates
at every c does so under adaptive composition (Zhu, Dong, Wang 2022, Theorem 10).
The same holds of a child of several Gaussian releases, by their one mu.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from dpaudit.exact import Number, infinity
from dpaudit.pairs.balls import Ball, Delta, number, phi, positive
from dpaudit.pairs.core import Comparisons, Extremes, Factor, Symmetric, at_least
from dpaudit.pairs.normal import Normal


@dataclass(frozen=True)
class Opposed(Symmetric):
    """(1 - rate) N(0, 1) + rate N(mu, 1) against (1 - rate) N(0, 1) + rate N(-mu, 1).

    Its likelihood ratio at z grows with z, and the reflection of z exchanges P and Q.
    """

    mu: Number
    rate: Number

    grows: ClassVar[Comparisons] = {"mu": at_least}

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

        With u = exp(mu t), a = 1 - rate and b = rate exp(-mu^2 / 2) it solves
        (a + b u) / (a + b / u) = x, so that b u^2 - a (x - 1) u - x b = 0.  P(z > t) - x Q(z > t)
        is largest at t: a place that is enclosed, and not known, leaves the value enclosed.
        """
        if x < 1:
            # delta(x) = 1 - x + x delta(1 / x): the pair is symmetric.
            return 1 - x + x * self.delta(1 / x)
        mu, rate = number(self.mu), number(self.rate)
        if mu == 0:
            return positive(1 - x)
        stays, moved, more = 1 - rate, rate * (-mu * mu / 2).exp(), x - 1
        root = ((stays * more) ** 2 + 4 * x * moved**2).sqrt()
        place = ((stays * more + root) / (2 * moved)).log() / mu
        here, there = (stays * phi(-place) + rate * phi(way * mu - place) for way in (1, -1))
        return positive(here - x * there)
