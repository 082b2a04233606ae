"""The cells of one pair, by its type."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from dpaudit.check.profile.atoms import OUTCOMES, mixed_atoms
from dpaudit.check.profile.cells import (
    BITS,
    MOST_NODES,
    UNIT,
    Cells,
    Grid,
    NotConfirmed,
    ball,
    up,
)
from dpaudit.check.profile.clones import clones
from dpaudit.check.profile.noise import BASES, mixed_noise
from dpaudit.check.profile.tallied import tallied
from dpaudit.pairs import (
    Atoms,
    Blanket,
    Branched,
    Clones,
    DiscreteNormal,
    LaplaceShift,
    Mixed,
    Normal,
    Pair,
    Polled,
    Replaced,
    Spliced,
    Swapped,
    Tallied,
)


def cells(pair: Pair, grid: Grid) -> Cells:
    """The cells of one pair.  Errors: NotConfirmed for a pair type or a size not known here."""
    import flint

    maker = _MAKERS.get(type(pair))
    if maker is None:
        raise NotConfirmed(type(pair).__name__)
    with flint.ctx.workprec(BITS):
        return maker(pair, grid)


def is_known(pair: Pair) -> bool:
    """Whether there are cells for a pair of this form."""
    if isinstance(pair, Swapped):
        return is_known(pair.base)
    if isinstance(pair, Mixed):
        return type(pair.base) in BASES or type(pair.base) in OUTCOMES
    if isinstance(pair, Branched):
        return all(p == q and is_known(base) for p, q, base in pair.branches)
    if isinstance(pair, Replaced):
        return is_known(pair.spliced)
    if isinstance(pair, Spliced):
        return is_known(pair.above) and _mirrored(pair)
    return type(pair) in _MAKERS


def _mixed(pair: Pair, grid: Grid) -> Cells:
    base, rate = (pair.base, pair.rate) if isinstance(pair, Mixed) else (pair, Fraction(1))
    if type(base) in OUTCOMES:
        return mixed_atoms(base, ball(rate), grid)
    return mixed_noise(base, rate, grid)


def _swapped(pair: Swapped, grid: Grid) -> Cells:
    return cells(pair.base, grid).swapped(grid.h)


def _spliced(pair: Spliced, grid: Grid) -> Cells:
    """Losses above 0 of the one pair, below 0 of the other; at loss 0 the rest of both masses.

    The two meet at x = 1, so that the rests of P and of Q are equal.
    """
    if not _mirrored(pair):
        raise NotConfirmed("Spliced")
    right, left = cells(pair.above, grid), cells(pair.below, grid)
    if any((*right.infinite, *left.infinite)):
        raise NotConfirmed("Spliced with infinite losses")
    zero, centre = -right.first, -left.first
    if not (0 <= zero < len(right.a) and 0 < centre < len(left.on)):
        raise NotConfirmed("Spliced without a loss of 0")
    a = np.concatenate((left.a[:centre], right.a[zero:]))
    b = np.concatenate((left.b[:centre], right.b[zero:]))
    on = np.concatenate((left.on[:centre], right.on[zero:]))
    relative = right.relative + left.relative
    on[centre] = 0.0
    used = math.fsum((*a, *b, *on, left.below[0], right.above[0]))
    rest = 1 - used
    if not rest > 1e-3:
        raise NotConfirmed("Spliced with little mass at 0")
    on[centre] = rest
    relative = relative + (relative + 8 * UNIT) / rest
    return Cells(
        left.first, a, b, on, left.below, right.above, relative, max(left.shift, right.shift)
    )


def _branched(pair: Branched, grid: Grid) -> Cells:
    """Cells of branches as likely under P as under Q, so that none moves its base's losses."""
    if not is_known(pair):
        raise NotConfirmed("Branched")
    known = [(up(ball(p)), base) for p, _, base in pair.branches if p != 0]
    light = grid.tail / len(known)
    parts = [(p, cells(base, grid)) for p, base in known if p > light]
    if not parts:
        raise NotConfirmed("branches of small masses only")
    first = min(part.first for _, part in parts)
    length = max(part.first + len(part.a) for _, part in parts) - first
    if not length < MOST_NODES:
        raise NotConfirmed("too many cells")
    a, b, on = np.zeros(length), np.zeros(length), np.zeros(length + 1)
    for weight, part in parts:
        inside = slice(part.first - first, part.first - first + len(part.a))
        a[inside] += weight * part.a
        b[inside] += weight * part.b
        on[inside.start : inside.stop + 1] += weight * part.on
    # What is outside of one branch's cells may lie at either end of all, as may light branches.
    below, above, infinite = (_weighted(parts, kind) for kind in ("below", "above", "infinite"))
    rest = math.fsum(p for p, _ in known if p <= light) * (1 + 8 * UNIT)
    outside = below[0] + above[0] + rest, below[1] + above[1] + rest
    return Cells(
        first,
        a,
        b,
        on,
        outside,
        outside,
        max(part.relative for _, part in parts) + UNIT * (8 + len(parts)),
        max(part.shift for _, part in parts),
        infinite,
    )


def _weighted(parts: list[tuple[float, Cells]], kind: str) -> tuple[float, float]:
    """(P, Q) masses of one kind over all branches, rounded up."""
    sums = (math.fsum(weight * getattr(part, kind)[k] for weight, part in parts) for k in (0, 1))
    p, q = (value * (1 + 8 * UNIT) for value in sums)
    return p, q


def _mirrored(pair: Spliced) -> bool:
    above, below = pair.above, pair.below
    return isinstance(above, Mixed) and Mixed(above.base.swapped, above.rate).swapped == below


_MAKERS: dict[type[Pair], Callable[[Any, Grid], Cells]] = {
    Normal: _mixed,
    LaplaceShift: _mixed,
    Mixed: _mixed,
    Branched: _branched,
    Clones: clones,
    Blanket: clones,
    Polled: clones,
    Tallied: tallied,
    Atoms: _mixed,
    DiscreteNormal: _mixed,
    Swapped: _swapped,
    Spliced: _spliced,
    Replaced: lambda pair, grid: cells(pair.spliced, grid),
}
