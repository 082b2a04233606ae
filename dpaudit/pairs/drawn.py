"""A group of records of which some are drawn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dpaudit.exact import Number, infinity, log
from dpaudit.pairs.core import Comparisons, Extremes, Pair, at_least, each_at_least, rate_at_least


@dataclass(frozen=True)
class Drawn(Pair):
    """N(J mu, 1) against N(0, 1), J binomial(size, rate) and not seen."""

    mu: Number
    rate: Number
    size: Number

    grows: ClassVar[Comparisons] = {"mu": at_least, "rate": rate_at_least, "size": at_least}

    @property
    def extremes(self) -> Extremes:
        """The loss is log P(J = 0) at least."""
        return -self.size * log(1 - self.rate), infinity()


@dataclass(frozen=True)
class DrawnMoves(Pair):
    """N(m_J, 1) against N(0, 1), J binomial(size, rate) and not seen.

    m_0 = 0; ``moves`` are m_1 <= m_2 <= ..., the last of them also for every larger J.
    """

    moves: tuple[Number, ...]
    rate: Number
    size: Number

    grows: ClassVar[Comparisons] = {"moves": each_at_least, "rate": rate_at_least}

    @property
    def extremes(self) -> Extremes:
        """The loss is log P(J = 0) at least."""
        return -self.size * log(1 - self.rate), infinity()
