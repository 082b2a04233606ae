"""Shuffled batches of one size, from below: the largest slot alone.

With m = 1 / z the largest coordinate c of the pair has the laws

    F(c) = Phi(c - 2 m) Phi(c)^(t - 1) under P,    Phi(c - m) Phi(c)^(t - 1) under Q,

and in which of finitely many intervals c lies is a function of the outcome: its profile is nowhere
above the pair's.  Masses of intervals are balls; they count within ``ROUNDED`` of their middles.
From above: the pair is a mixture of N(2 e_i / z, I) against N(e_i / z, I), and no further apart.
Source: Chua and others 2024, How Private are DP-SGD Implementations?, Section 4 (the largest slot).
"""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np

from dpaudit.exact import Number, enclose
from dpaudit.pairs import Normal, Reshuffled
from dpaudit.profiles.grid.cells import UNIT
from dpaudit.profiles.grid.discrete import (
    Discrete,
    Floats,
    Grid,
    Side,
    discretise,
    discretiser,
    swapped_discretiser,
)
from dpaudit.profiles.grid.families import finite
from dpaudit.profiles.grid.masses import Outcomes, as_float, cells_from

INTERVALS, BITS = 1_500, 320
ROUNDED = 8 * UNIT


@discretiser(Reshuffled)
def _reshuffled(pair: Reshuffled, grid: Grid, side: Side) -> Discrete:
    if side is Side.UPPER:
        return discretise(Normal(1 / pair.noise_multiplier), grid, side)
    return _below(pair, grid, *_masses(pair.noise_multiplier, pair.slots))


@swapped_discretiser(Reshuffled)
def _swapped(base: Reshuffled, grid: Grid, side: Side) -> Discrete:
    if side is Side.UPPER:
        return discretise(Normal(1 / base.noise_multiplier), grid, side)
    p, q = _masses(base.noise_multiplier, base.slots)
    return _below(base, grid, q, p)


def _below(pair: Reshuffled, grid: Grid, p: Floats, q: Floats) -> Discrete:
    form = finite(Outcomes(np.log(p / q), p, q), ROUNDED)
    return cells_from(form, grid, -1).discrete(Side.LOWER)


@lru_cache(maxsize=64)
def _masses(noise: Number, slots: Number) -> tuple[Floats, Floats]:
    """P and Q masses of intervals of the largest coordinate, each at least 1e-250."""
    import flint

    move, others = 1 / as_float(noise, "noise_multiplier"), int(slots) - 1
    # From where all others are low, to where even the record's slot is rarely.
    low = -math.sqrt(2 * math.log(1e4)) if others < 100 else 0.0
    edges = np.linspace(low, 2 * move + 9 + math.sqrt(2 * math.log(slots)), INTERVALS)
    with flint.ctx.workprec(BITS):
        m = 1 / enclose(noise)
        laws = [[_below_edge(flint.arb(e), k * m, others) for e in edges] for k in (2, 1)]
        return _kept(*map(_between, laws))


def _below_edge(edge: Any, move: Any, others: int) -> Any:
    root = enclose(2).sqrt()
    return (-(edge - move) / root).erfc() / 2 * ((-edge / root).erfc() / 2) ** others


def _between(law: list[Any]) -> list[Any]:
    return [law[0], *(b - a for a, b in pairwise(law)), 1 - law[-1]]


def _kept(p: list[Any], q: list[Any]) -> tuple[Floats, Floats]:
    """Neighbouring intervals joined until both masses are of moderate size and sharp."""
    found: list[tuple[float, float]] = []
    left = [enclose(0), enclose(0)]
    for masses in zip(p, q, strict=True):
        left = [a + b for a, b in zip(left, masses, strict=True)]
        if all(mass > 1e-250 and mass.rel_accuracy_bits() > 60 for mass in left):
            found.append((float(left[0].mid()), float(left[1].mid())))
            left = [enclose(0), enclose(0)]
    # What is left over is too small to tell apart: it joins nothing and is left out.
    made = np.array(found)
    return made[:, 0], made[:, 1]
