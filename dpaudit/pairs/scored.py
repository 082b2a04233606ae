"""A score that is compared with a secret threshold, and released where it passes."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from dpaudit.exact import Number, exp
from dpaudit.pairs.branched import Branched
from dpaudit.pairs.core import Extremes, Pair, Symmetric
from dpaudit.pairs.normal import Normal


@dataclass(frozen=True)
class Scored(Pair):
    """A score under P, another under Q: a secret threshold R is below it (bottom), or Normal(mu).

    R is in 0..2 kappa with P(R = r) proportional to exp(-epsilon |r - kappa|); whether R is at
    least the score is seen, and only then N(mu, 1) against N(0, 1).
    """

    epsilon: Number
    kappa: Number
    score: Number
    other: Number
    mu: Number

    @property
    def swapped(self) -> Pair:
        return Scored(self.epsilon, self.kappa, self.other, self.score, self.mu)

    @property
    def branched(self) -> Branched:
        """Bottom, and a release, with their exact masses."""
        return _branches(self)

    @property
    def extremes(self) -> Extremes:
        return self.branched.extremes


@lru_cache(maxsize=4096)
def _branches(pair: Scored) -> Branched:
    (p_fail, p_pass), (q_fail, q_pass) = (
        chances(pair.epsilon, int(pair.kappa), int(s)) for s in (pair.score, pair.other)
    )
    released = (p_pass, q_pass, Normal(pair.mu))
    return Branched(((p_fail, q_fail, Normal(Fraction(0))), released))


def chances(epsilon: Number, kappa: int, score: int) -> tuple[Number, Number]:
    """(P(R < s), P(R >= s)) for a score s of 0..2 kappa + 1.

    P(R < s) = e^(-e kappa) (e^(e s) - 1) / ((e^e - 1) Z) for s <= kappa, Z = 1 + 2 (1 - e^(-e
    kappa)) / (e^e - 1); R is symmetric about kappa.
    """
    if score > kappa:
        below, above = chances(epsilon, kappa, 2 * kappa + 1 - score)
        return above, below
    shrunk, step = exp(-epsilon * kappa), exp(epsilon)
    total = 1 + 2 * (1 - shrunk) / (step - 1)
    low = shrunk * (exp(epsilon * score) - 1) / ((step - 1) * total) if score else Fraction(0)
    return low, 1 - low


@dataclass(frozen=True)
class Thresholded(Symmetric):
    """The largest over scores s, t one apart: Scored, with mu = offset + slope * (s + t)."""

    epsilon: Number
    kappa: Number
    offset: Number
    slope: Number

    def member(self, index: int) -> Scored:
        """Scores (s, s + 1) for s = 0..2 kappa, then the same in the other order."""
        size = 2 * int(self.kappa) + 1
        low = index if index < size else index - size
        mu = self.offset + self.slope * (2 * low + 1)
        scores = (Fraction(low), Fraction(low + 1))
        one, other = scores if index < size else scores[::-1]
        return Scored(self.epsilon, self.kappa, one, other, mu)

    @property
    def extremes(self) -> Extremes:
        """The last score passes where the next never does."""
        largest = self.member(2 * int(self.kappa)).extremes[1]
        return largest, largest
