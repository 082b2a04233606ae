"""The number of ones among binary reports."""

from __future__ import annotations

from dataclasses import dataclass

from dpaudit.exact import Number, exp, log
from dpaudit.pairs.core import Extremes, Pair


@dataclass(frozen=True)
class Tallied(Pair):
    """The number of ones among a report of 0 or 1 and those of ``others``, all independent.

    Each of the others is 1 with probability ``rare``; the one is so under Q, and e^epsilon times as
    likely under P.
    """

    epsilon: Number
    rare: Number
    others: Number

    @property
    def extremes(self) -> Extremes:
        """No ones, and all ones; both losses are equal where e^epsilon of both are 1."""
        if self.rare * (1 + exp(self.epsilon)) == 1:
            return self.epsilon, self.epsilon
        return log((1 - self.rare) / (1 - self.rare * exp(self.epsilon))), self.epsilon
