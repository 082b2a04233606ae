"""Finitely many outcomes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from dpaudit.exact import Number, infinity, is_infinite, log, maximum
from dpaudit.pairs.core import Extremes, Pair


@dataclass(frozen=True)
class Atoms(Pair):
    """Finitely many outcomes, each (P mass, Q mass); the masses sum to 1 on either side."""

    outcomes: tuple[tuple[Number, Number], ...]

    @property
    def swapped(self) -> Pair:
        """The outcomes' masses exchanged; the pair itself where that lists the same outcomes."""
        turned = tuple((q, p) for p, q in self.outcomes)
        return self if Counter(turned) == Counter(self.outcomes) else Atoms(turned)

    @property
    def extremes(self) -> Extremes:
        return largest_of(_log_ratio(q, p) for p, q in self.outcomes if q != 0), largest_of(
            _log_ratio(p, q) for p, q in self.outcomes if p != 0
        )


def _log_ratio(top: Number, bottom: Number) -> Number:
    return infinity() if bottom == 0 else log(top / bottom)


def largest_of(losses: Iterable[Number]) -> Number:
    """The largest of several losses, any of which may be infinite."""
    values = list(losses)
    return infinity() if any(map(is_infinite, values)) else maximum(values)
