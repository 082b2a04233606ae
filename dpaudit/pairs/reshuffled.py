"""Shuffled batches of one size, from below: the largest slot alone.

With m = 1 / z the largest coordinate c of the pair has the laws

    F(c) = Phi(c - 2 m) Phi(c)^(t - 1) under P,    Phi(c - m) Phi(c)^(t - 1) under Q,

and in which of finitely many intervals c lies is a function of the outcome: its profile is nowhere
above the pair's.  Masses of intervals are balls; their midpoints count as exact to within
``MASS_ROUNDINGS`` units in the last place.
From above: the pair is a mixture of N(2 e_i / z, I) against N(e_i / z, I), and no further apart.
Source: Chua and others 2024, How Private are DP-SGD Implementations?, Section 4 (the largest slot).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from dpaudit.exact import Number, enclose
from dpaudit.exact.later import Later
from dpaudit.pairs.core import Pair, Slots
from dpaudit.pairs.normal import Normal

if TYPE_CHECKING:
    import numpy as np

    from dpaudit import grids
else:
    np = Later("numpy")
    grids = Later("dpaudit.grids")

COORDINATE_INTERVALS = 1_500  # Intervals into which the largest coordinate is divided.
BALL_BITS = 320  # Precision of the balls, in bits.
MASS_ROUNDINGS = 8  # Rounding errors, in units of the last place, of the mass of one interval.


@dataclass(frozen=True)
class Reshuffled(Pair):
    """The mixture over i of N(2 e_i / z, I) against that of N(e_i / z, I), in ``slots`` dimensions.

    z = ``noise_multiplier``: one record is in one of the slots, chosen uniformly, and all others
    contribute the opposite of what it does.  Its upper bounds are those of Normal(1 / z).
    """

    noise_multiplier: Number
    slots: Number

    def _on_grid(self, grid: grids.Grid, side: grids.Side) -> grids.Discrete:
        if side is grids.Side.UPPER:
            return Normal(1 / self.noise_multiplier).on_grid(grid, side)
        return _below(grid, *_masses(self.noise_multiplier, self.slots))

    def _swapped_on_grid(self, grid: grids.Grid, side: grids.Side) -> grids.Discrete:
        if side is grids.Side.UPPER:
            return Normal(1 / self.noise_multiplier).on_grid(grid, side)
        p, q = _masses(self.noise_multiplier, self.slots)
        return _below(grid, q, p)

    @property
    def slotted(self) -> Slots | None:
        return Slots(self.noise_multiplier, self.slots, others_move=True)


def _below(grid: grids.Grid, p: grids.Floats, q: grids.Floats) -> grids.Discrete:
    form = grids.finite(grids.Outcomes(np.log(p / q), p, q), MASS_ROUNDINGS * grids.UNIT)
    return grids.cells_from(form, grid, -1).discrete(grids.Side.LOWER)


@lru_cache(maxsize=64)
def _masses(noise: Number, slots: Number) -> tuple[grids.Floats, grids.Floats]:
    """P and Q masses of intervals of the largest coordinate, each at least 1e-250."""
    import flint

    move, others = 1 / grids.as_float(noise, "noise_multiplier"), int(slots) - 1
    # From where all others are low, to where even the record's slot is rarely.
    low = -math.sqrt(2 * math.log(1e4)) if others < 100 else 0.0
    edges = np.linspace(low, 2 * move + 9 + math.sqrt(2 * math.log(slots)), COORDINATE_INTERVALS)
    with flint.ctx.workprec(BALL_BITS):
        m = 1 / enclose(noise)
        laws = [[_below_edge(flint.arb(e), k * m, others) for e in edges] for k in (2, 1)]
        return _kept(*map(_between, laws))


def _below_edge(edge: Any, move: Any, others: int) -> Any:
    root = enclose(2).sqrt()
    return (-(edge - move) / root).erfc() / 2 * ((-edge / root).erfc() / 2) ** others


def _between(law: list[Any]) -> list[Any]:
    return [law[0], *(b - a for a, b in pairwise(law)), 1 - law[-1]]


def _kept(p: list[Any], q: list[Any]) -> tuple[grids.Floats, grids.Floats]:
    """Neighbouring intervals joined until both masses are of moderate size and sharp."""
    joined: list[tuple[float, float]] = []
    pending = [enclose(0), enclose(0)]
    for masses in zip(p, q, strict=True):
        pending = [a + b for a, b in zip(pending, masses, strict=True)]
        if all(mass > 1e-250 and mass.rel_accuracy_bits() > 60 for mass in pending):
            joined.append((float(pending[0].mid()), float(pending[1].mid())))
            pending = [enclose(0), enclose(0)]
    # The remaining mass is too small for floats and is left out: a lower bound may lose mass.
    if not joined:
        raise grids.NoLower("no interval of the largest coordinate has masses that floats hold")
    made = np.array(joined)
    return made[:, 0], made[:, 1]
