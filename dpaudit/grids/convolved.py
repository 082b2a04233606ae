"""Products as one Discrete, by direct convolution: every term is positive, so errors stay relative.

For mixtures of products, and other pairs made of a base without a closed form.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from dpaudit.errors import InvalidParameter
from dpaudit.exact.effort import spend
from dpaudit.grids.cells import UNIT
from dpaudit.grids.discrete import (
    Discrete,
    Grid,
    Reals,
    Side,
    TooFine,
)
from dpaudit.grids.masses import Outcomes, as_rate, cells_from
from dpaudit.grids.noise import finite, mixed_losses, rounded_rest

MOST_NODES = 2**13  # of factors that are convolved directly
PRODUCTS_PER_UNIT = 500  # Products of two masses in one unit of work (a microsecond).
SUMS_PER_UNIT = 20  # Masses added up exactly in one unit of work.
# A pair's profile on a grid, from one side.
Profile = Callable[[Grid, Side], Discrete]


def composed_on(parts: Sequence[tuple[Profile, int]], grid: Grid, side: Side) -> Discrete:
    """Factors on a grid that ``MOST_NODES`` allow, composed, put on the grid asked for."""
    tail = max(grid.tail / float(4 * sum(times for _, times in parts)), 1e-300)
    step = grid.step
    while True:
        try:
            return _composed(parts, Grid(step, tail), side, grid)
        except TooFine:
            step *= 2
            if step > 2**20:
                raise


def _composed(
    parts: Sequence[tuple[Profile, int]], inner: Grid, side: Side, grid: Grid
) -> Discrete:
    result = None
    for profile, times in parts:
        power = _power(profile(inner, side), times, inner.tail, side)
        result = power if result is None else convolved(result, power, inner.tail, side)
    if result is None:
        return Discrete(grid.step, 0, np.array([1.0]))
    return result if inner.step == grid.step else regridded(result, grid, side)


def _power(discrete: Discrete, times: int, tail: float, side: Side) -> Discrete:
    """The discrete composed with itself, by repeated squaring."""
    result, square = None, _cut(discrete, tail, side)
    while times:
        if times & 1:
            result = square if result is None else convolved(result, square, tail, side)
        times >>= 1
        if times:
            square = convolved(square, square, tail, side)
    return result if result is not None else Discrete(discrete.step, 0, np.array([1.0]))


def convolved(first: Discrete, second: Discrete, tail: float, side: Side) -> Discrete:
    """The product of two independent measures."""
    sizes = len(first.masses), len(second.masses)
    size = min(sizes)
    spend(math.prod(sizes) / PRODUCTS_PER_UNIT + sum(sizes) / SUMS_PER_UNIT, "a product of grids")
    masses = np.convolve(first.masses, second.masses)
    totals = [math.fsum(d.masses) for d in (first, second)]
    infinite = first.infinite * (totals[1] + second.infinite) + totals[0] * second.infinite
    relative = (1 + first.relative) * (1 + second.relative) * (1 + 4 * UNIT * (size + 4)) - 1
    if not relative < 1:
        raise InvalidParameter("a product of so many factors inside another pair: too many")
    return _cut(
        Discrete(first.step, first.first + second.first, masses, infinite, relative), tail, side
    )


def _cut(discrete: Discrete, tail: float, side: Side) -> Discrete:
    """Without the P mass ``tail`` at either end, moved up (UPPER) or dropped (LOWER)."""
    masses = discrete.masses
    low = int(np.searchsorted(np.cumsum(masses), tail))
    high = len(masses) - int(np.searchsorted(np.cumsum(masses[::-1]), tail))
    low = min(low, len(masses) - 1)
    high = max(high, low + 1)
    masses_inside = masses[low:high].copy()
    infinite = discrete.infinite
    if side is Side.UPPER:
        masses_inside[0] += math.fsum(masses[:low])
        infinite += math.fsum(masses[high:])
    if len(masses_inside) > MOST_NODES:
        raise TooFine("a product of too many nodes; take a larger step")
    relative = discrete.relative + 4 * UNIT
    return Discrete(discrete.step, discrete.first + low, masses_inside, infinite, relative)


def outcomes_of(discrete: Discrete, side: Side) -> Outcomes:
    """The nodes as outcomes of a pair: P mass at infinity, and the rest of Q at -infinity."""
    losses = discrete.losses
    factor = 1 + (1 if side is Side.UPPER else -1) * discrete.relative
    p = discrete.masses * factor
    with np.errstate(over="ignore"):
        q = p * np.exp(-losses)
    if not np.all(np.isfinite(q)) or np.any((q == 0) & (p > 0)):
        raise TooFine("a product whose losses are too large for a mixture; take a larger step")
    q_total = math.fsum(q)
    if q_total > 1 and side is Side.LOWER:
        p, q, q_total = p / q_total, q / q_total, 1.0
    elif q_total > 1:
        q = _from_top(q, 1.0)
        q_total = 1.0
    ends = np.array([-np.inf, np.inf])
    return Outcomes(
        np.concatenate((ends, losses)),
        np.concatenate(([0.0, discrete.infinite * factor], p)),
        np.concatenate(([max(1 - q_total, 0.0), 0.0], q)),
    )


def regridded(discrete: Discrete, grid: Grid, side: Side) -> Discrete:
    """A bound, from ``side``, of the discrete pair on another grid."""
    return cells_from(finite(outcomes_of(discrete, side), 16 * UNIT), grid, 1).discrete(side)


def mixture_of(discrete: Discrete, rate: object, grid: Grid, side: Side) -> Discrete:
    """((1 - rate) Q + rate P, Q) for a discretised base (P, Q).

    Its profile is rate * g(1 + (x - 1) / rate) for x > 1 - rate: nodes of loss l move to
    log(1 - rate + rate exp(l)), with the same Q masses.
    """
    share = as_rate(rate)
    base = outcomes_of(discrete, side)
    mixed = Outcomes(
        mixed_losses(base.losses, share), (1 - share) * base.q + share * base.p, base.q
    )
    off = rounded_rest(share)
    # Losses next to log(1 - rate): roundings of the rate, expm1 and the product count so often.
    return cells_from(finite(mixed, 16 * UNIT + off, 8 * off), grid, 1).discrete(side)


def turned(discrete: Discrete, grid: Grid) -> Discrete:
    """An upper profile of (Q, P) from one of (P, Q): delta'(x) = 1 - x + x delta(1 / x).

    The P mass is made 1 first, by taking what exceeds it from the lowest nodes: that leaves the
    chord from (0, 1) to the next node, which is not below delta.
    """
    infinite = discrete.infinite * (1 + discrete.relative)
    p = _from_top(discrete.masses * (1 + discrete.relative), 1 - infinite)
    base = outcomes_of(Discrete(discrete.step, discrete.first, p, infinite), Side.UPPER)
    swapped = Outcomes(-base.losses, base.q, base.p)
    return cells_from(finite(swapped, 16 * UNIT), grid, 1).discrete(Side.UPPER)


def _from_top(masses: Reals, most: float) -> Reals:
    """Masses cut, from the lowest node up, to a total of at most ``most``."""
    above = np.append(np.cumsum(masses[::-1])[::-1][1:], 0.0)
    return np.clip(most - above, 0.0, masses)
