"""Two profiles that meet at x = 1."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dpaudit.pairs.core import Comparisons, Extremes, Pair, dominating


@dataclass(frozen=True)
class Spliced(Pair):
    """The profile of ``above`` at x >= 1 and of ``below`` at x < 1; they meet at x = 1."""

    above: Pair
    below: Pair

    grows: ClassVar[Comparisons] = {"above": dominating, "below": dominating}

    @property
    def inner(self) -> tuple[Pair, ...]:
        return self.above, self.below

    @property
    def extremes(self) -> Extremes:
        return self.below.extremes[0], self.above.extremes[1]
