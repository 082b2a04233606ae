"""Finitely many outcomes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

from dpaudit.exact import Number, enclose, exp, infinity, is_infinite, log, maximum
from dpaudit.exact.later import Later
from dpaudit.pairs.balls import Ball, Delta, bits, number, positive
from dpaudit.pairs.cases import Case
from dpaudit.pairs.core import Extremes, Outcomes, Pair

if TYPE_CHECKING:
    import numpy as np

    from dpaudit import grids
else:
    np = Later("numpy")
    grids = Later("dpaudit.grids")


@dataclass(frozen=True)
class Atoms(Pair):
    """Finitely many outcomes, each (P mass, Q mass); the masses sum to 1 on either side."""

    outcomes: tuple[tuple[Number, Number], ...]

    is_discrete = True

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

    def delta(self, x: Ball, of: Delta | None = None) -> Ball:
        """The sum of max(0, p - x q)."""
        masses = _balls(self, bits())
        return sum((positive(p - x * q) for p, q in masses), number(0))

    def loss_masses(self, tail: float) -> grids.Closed | None:
        # A mass may be too small for a float: cells know the losses, which are not.
        p, q = np.array([[float(enclose(m).mid()) for m in row] for row in self.outcomes]).T
        losses = np.array([grids.atom_loss(*outcome) for outcome in self.outcomes])
        return grids.finite(grids.Outcomes(losses, p, q), 4 * grids.UNIT)

    @property
    def listed(self) -> tuple[tuple[Number, Number], ...] | None:
        return self.outcomes

    @property
    def case_count(self) -> int:
        return len(self.outcomes)

    @property
    def cases(self) -> Iterator[Case]:
        yield from (Case(p, q) for p, q in self.outcomes)

    @property
    def near_largest_loss(self) -> Fraction | None:
        if any(q == 0 and p != 0 for p, q in self.outcomes):
            return None
        ratios = [p / q for p, q in _balls(self, bits()) if q > 0]
        logs = [float(ratio.log().mid()) if ratio > 0 else -math.inf for ratio in ratios]
        return Fraction(max(logs))

    @property
    def anchors(self) -> list[float] | None:
        ratios = [enclose(p / q).log() for p, q in self.outcomes if p != 0 and q != 0]
        # An outcome that is as likely under both has a ball around 0 that need not be 0 itself.
        sizes = [abs(float(ratio.mid())) for ratio in ratios if not ratio.contains(0)]
        return sorted({float(f"{size:.13g}") for size in sizes})


def answers(epsilon: Number, mass: Number) -> Outcomes:
    """Two answers with odds e^epsilon : 1, of a mass in all."""
    likely, unlikely = mass / (1 + exp(-epsilon)), mass / (1 + exp(epsilon))
    return (likely, unlikely), (unlikely, likely)


def told(epsilon: Number, delta: Number) -> Atoms:
    """The pair that dominates (epsilon, delta)-DP (Kairouz, Oh, Viswanath 2017, Theorem 3.3)."""
    nothing = Fraction(0)
    alone = ((delta, nothing), (nothing, delta)) if delta != 0 else ()
    return Atoms((*alone, *answers(epsilon, 1 - delta)))


def staircase_shift(epsilon: Number, share: Number) -> Atoms:
    """Staircase noise moved by its sensitivity: losses epsilon, -epsilon and 0.

    All y <= 0 lose epsilon, and those up to min(share, 1 - share), where the density is
    (1 - e^-epsilon) / (2 (share + e^-epsilon (1 - share))).
    """
    step = exp(-epsilon)
    near = (1 - maximum([share, 1 - share])) * (1 - step) / (share + step * (1 - share))
    high = (1 + near) / 2
    return Atoms(((high, step * high), (step * high, high), (1 - (1 + step) * high,) * 2))


@lru_cache(maxsize=256)
def _balls(pair: Atoms, precision: int) -> list[tuple[Ball, Ball]]:
    """The masses, at the precision of the context."""
    return [(number(p), number(q)) for p, q in pair.outcomes]


def _log_ratio(top: Number, bottom: Number) -> Number:
    return infinity() if bottom == 0 else log(top / bottom)


def largest_of(losses: Iterable[Number]) -> Number:
    """The largest of several losses, any of which may be infinite."""
    values = list(losses)
    return infinity() if any(map(is_infinite, values)) else maximum(values)
