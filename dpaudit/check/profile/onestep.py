"""The cells of one pair, by its type."""

from __future__ import annotations

import math
from fractions import Fraction

from dpaudit.check.profile.atoms import has_outcomes, mixed_atoms
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
from dpaudit.check.profile.noise import has_base, mixed_noise, noise_cells
from dpaudit.check.profile.opposed import is_moderate, opposed
from dpaudit.check.profile.tallied import tallied
from dpaudit.exact.arrays import np
from dpaudit.pairs import (
    Mixed,
    Pair,
)


def cells(pair: Pair, grid: Grid) -> Cells:
    """The cells of one pair.  Errors: NotConfirmed for a pair type or a size not known here."""
    import flint

    with flint.ctx.workprec(BITS):
        return _cells(pair, grid)


def _cells(pair: Pair, grid: Grid) -> Cells:
    if pair.is_swapped:
        return _cells(pair.unswapped, grid).swapped(grid.h)
    if pair.splice is not None:
        return _spliced(*pair.splice, grid)
    if pair.seen:
        return _branched(pair, grid)
    if pair.report is not None:
        return clones(pair.report, grid)
    if pair.tally is not None:
        return tallied(pair.tally, grid)
    if pair.opposition is not None:
        return noise_cells(opposed(pair.opposition, grid.tail), Fraction(1), grid)
    base, rate = pair.sample or (pair, Fraction(1))
    if has_outcomes(base):
        return mixed_atoms(base, ball(rate), grid)
    return mixed_noise(base, rate, grid)


def is_known(pair: Pair) -> bool:
    """Whether there are cells for a pair of this form."""
    if pair.is_swapped:
        return is_known(pair.unswapped)
    if pair.splice is not None:
        return is_known(pair.splice[0]) and _mirrored(*pair.splice)
    if pair.seen:
        return all(p == q and is_known(base) for p, q, base in pair.seen)
    if pair.report is not None or pair.tally is not None:
        return True
    if pair.opposition is not None:
        return is_moderate(pair.opposition)
    base, _ = pair.sample or (pair, Fraction(1))
    return has_base(base) or has_outcomes(base)


def _spliced(above: Pair, below: Pair, grid: Grid) -> Cells:
    """Losses above 0 of the one pair, below 0 of the other; at loss 0 the rest of both masses.

    The two meet at x = 1, so that the rests of P and of Q are equal.
    """
    if not _mirrored(above, below):
        raise NotConfirmed("Spliced")
    right, left = cells(above, grid), cells(below, grid)
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
    mass_left = 1 - used
    if not mass_left > 1e-3:
        raise NotConfirmed("Spliced with little mass at 0")
    on[centre] = mass_left
    relative = relative + (relative + 8 * UNIT) / mass_left
    return Cells(
        left.first, a, b, on, left.below, right.above, relative, max(left.shift, right.shift)
    )


def _branched(pair: Pair, grid: Grid) -> Cells:
    """Cells of branches as likely under P as under Q, so that none moves its base's losses."""
    if not is_known(pair):
        raise NotConfirmed("Branched")
    branches = [(up(ball(p)), base) for p, _, base in pair.seen if p != 0]
    light = grid.tail / len(branches)
    parts = [(p, cells(base, grid)) for p, base in branches if p > light]
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
    # Mass outside of one branch's cells may lie at either end of all, as may light branches.
    below, above, infinite = (_weighted(parts, kind) for kind in ("below", "above", "infinite"))
    rare_mass = math.fsum(p for p, _ in branches if p <= light) * (1 + 8 * UNIT)
    outside = below[0] + above[0] + rare_mass, below[1] + above[1] + rare_mass
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


def _mirrored(above: Pair, below: Pair) -> bool:
    sample = above.sample
    return sample is not None and Mixed(sample.base.swapped, sample.rate).swapped == below
