"""One report hidden among those of others: shuffling."""

from __future__ import annotations

from dataclasses import dataclass

from dpaudit.exact import Number
from dpaudit.pairs.core import Extremes, Symmetric
from dpaudit.pairs.tallied import Tallied


@dataclass(frozen=True)
class Clones(Symmetric):
    """One report hidden among ``others``: the shuffled counts (A + I, C - A + J), seen.

    C is binomial(others, rate), A binomial(C, 1/2).  The report counts with probability ``told``:
    then (I, J) is (1, 0) or (0, 1), the first e^epsilon times as likely under P, the second under
    Q; else (0, 0).
    """

    epsilon: Number
    told: Number
    rate: Number
    others: Number

    @property
    def extremes(self) -> Extremes:
        """All of the others may be counted where the one report is."""
        return self.epsilon, self.epsilon


@dataclass(frozen=True)
class Polled(Clones):
    """One answer of two among ``others``, of whom any number k hold the one or the other value.

    The largest profile, over k, of Ber(p) + Bin(k, p) + Bin(others - k, 1 - p) against the same
    with Ber(1 - p) first, p = e^epsilon / (1 + e^epsilon): the ones, counted.  In a product each
    has a k of its own.  Those are no further apart than :attr:`clones`, told = 1, rate = 2 (1 - p).
    """

    @property
    def clones(self) -> Clones:
        """Where whoever counts is told which of the others' answers were drawn at random."""
        return Clones(self.epsilon, self.told, self.rate, self.others)

    @property
    def least(self) -> Tallied:
        """All others hold the same value."""
        return Tallied(self.epsilon, self.rate / 2, self.others)


@dataclass(frozen=True)
class Blanket(Symmetric):
    """Clones whose report is hidden where it is not counted, too.

    Each of ``others`` is at ``rate`` counted on either side, 1/2 each, at ``rest`` one of the rest,
    and else known.  The report counts with probability ``told``, as in :class:`Clones`; else it is
    one of the rest.  The two counts and the number of the rest are seen.
    """

    epsilon: Number
    told: Number
    rate: Number
    rest: Number
    others: Number

    @property
    def clones(self) -> Clones:
        """Where the number of the rest is not seen: no further apart."""
        return Clones(self.epsilon, self.told, self.rate, self.others)

    @property
    def extremes(self) -> Extremes:
        """All of the others may be counted where the one report is."""
        return self.epsilon, self.epsilon
