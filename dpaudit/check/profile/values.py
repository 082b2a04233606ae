"""Node masses above profiles of which only upper bounds at single points are known.

Any bounds D_i of delta at nodes x_i give one: delta is convex, so that it lies below the lower
hull of the points (x_i, D_i), of (0, 1), and of the constant from the last one on.

    Concentrated(rho)   min over orders a > 1 of exp((a - 1)(a rho - epsilon)) (1 - 1/a)^a / (a - 1)
    Renyi(a, d)         the same with d for a rho, at orders up to a
    the rest            closed forms of ``profile_closed``

Source: Canonne, Kamath, Steinke 2020, Proposition 12.  Below x = 1 the two directions exchange:
delta(x) = 1 - x + x delta(1/x).
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import Any

from dpaudit.check.profile.cells import UNIT, Ball, Grid, NotConfirmed, ball, up
from dpaudit.check.profile.closed import delta_by, has_cases, is_form
from dpaudit.check.profile.nodes import ROUNDING, Nodes, convex
from dpaudit.exact import Number
from dpaudit.exact.arrays import Floats, np
from dpaudit.pairs import Pair
from dpaudit.pairs.core import Divergence

BITS = 192  # precision of delta at the nodes
MOST_NODES = 200_000  # nodes at which delta is computed; a longer grid is thinned
# Deltas of simple pairs that a grid of a costly one takes: twice the accountant's, whose chords,
# of other nodes, these have to stay below.
MOST_DELTAS = 2**16
# From below no node is left out.
MOST_NODES_BELOW = 30_000
LARGEST_LOSS = 400.0  # losses beyond lie outside of a grid
# Cases of a product whose closed form is quick enough.
FEW = 2


def has_values(pair: Pair) -> bool:
    """Whether bounds at single points are known, at a cost that allows thousands of them."""
    many = pair.threshold is not None or (has_cases(pair) and not has_cases(pair, most=FEW))
    if many:
        return False
    return pair.divergence is not None or (is_form(pair) and all(map(has_values, pair.inner)))


def value_nodes(pair: Pair, grid: Grid) -> Nodes:
    """A profile at least that of the pair; only every n-th node is used where they are many.

    Errors: NotConfirmed for a pair whose losses have no end that is known.
    """
    import flint

    with flint.ctx.workprec(BITS):
        last = _end(pair, grid, 1)
        first = -last if pair.is_symmetric else _end(pair, grid, -1)
        cost = pair.delta_cost
        most = MOST_NODES if cost == 1 else max(MOST_DELTAS // cost, 1)
        every = -(-(last - first) // most)
        if pair.is_symmetric:
            kinks, infinite = _mirrored(pair, grid, last, every)
            first = -(len(kinks) // 2) * every
        else:
            kinks, infinite = _kinks(pair, grid, range(first, last + every, every), None)
        masses = np.zeros((len(kinks) - 1) * every + 1)
        masses[::every] = convex(kinks, grid.h * every)
        relative = ROUNDING + UNIT * (len(kinks) + 8 * last * grid.h)
        return Nodes(first, masses, infinite, relative, 0.0)


def _kinks(pair: Pair, grid: Grid, at: range, slope: Ball | None) -> tuple[Floats, float]:
    """P masses at these nodes of the lines through the bounds, and the last bound.

    ``slope``: of the line before the first; None for the line from (0, 1).
    """
    x = [ball(grid.step * k).exp() for k in at]
    d = [delta_by(pair, value, _bound) for value in x]
    slopes = [(d[k + 1] - d[k]) / (x[k + 1] - x[k]) for k in range(len(x) - 1)]
    before = [(d[0] - 1) / x[0] if slope is None else slope, *slopes]
    kinks = [
        math.nextafter(float((v * (s - r)).upper()), math.inf)
        for v, r, s in zip(x, before, [*slopes, 0], strict=True)
    ]
    return np.array(kinks), up(d[-1])


def nodes_below(pair: Pair, grid: Grid) -> Nodes:
    """A profile at most that of a pair, from its delta at the nodes.

    A chord exceeds delta on its cell by at most its gap u v w / (u + v): w is the cell's width,
    u and v are how much steeper and flatter the chords beside it are, which lie below delta there.
    Chords lowered by the larger gap of either side are below delta.  They start on 1 - x and end at
    0, from where delta is that far above both.
    Errors: NotConfirmed where too little is left, or of too many nodes.
    """
    import flint

    with flint.ctx.workprec(BITS):
        last = _end(pair, grid, 1)
        first = -last if pair.is_symmetric else _end(pair, grid, -1)
        computed = 0 if pair.is_symmetric else first
        if last - computed > MOST_NODES_BELOW:
            raise NotConfirmed("too many nodes")
        x = [ball(grid.step * k).exp() for k in range(first, last + 1)]
        d = [delta_by(pair, at) for at in x[computed - first :]]
        # The other values of a pair that is its own swap follow: delta(x) = 1 - x + x delta(1 / x).
        d = [1 - at + at * d[-k] for k, at in zip(range(first, computed), x, strict=False)] + d
        steep = _chords(x, d)
        bends = [t - s for s, t in pairwise([(d[0] - 1) / x[0], *steep, ball(0)])]
        gaps = [_gap(bends[k], bends[k + 1], x[k + 1] - x[k]) for k in range(len(steep))]
        lowering = [max(sides) for sides in pairwise([0.0, *gaps, 0.0])]
        lowered = [value - low for value, low in zip(d, lowering, strict=True)]
        peak = max(range(len(x)), key=lowering.__getitem__)
        start = _last([not d[k] - 1 + x[k] >= lowering[k] for k in range(peak + 1)]) + 1
        end = len(x) - 2 - _last([not d[k] >= lowering[k] for k in range(len(x) - 1, peak - 1, -1)])
        if end - start < 2:
            raise NotConfirmed("no node is left")
        lowered[start], lowered[end] = lowered[start].min(1 - x[start]), ball(0)
        x, lowered = x[start : end + 1], lowered[start : end + 1]
        slopes = [(lowered[0] - 1) / x[0], *_chords(x, lowered), ball(0)]
        kinks = [at * (t - s) for at, (s, t) in zip(x, pairwise(slopes), strict=True)]
        below = [math.nextafter(float(kink.lower()), -math.inf) for kink in kinks]
        masses = convex(np.array(below), grid.h)
        relative = ROUNDING + UNIT * (len(masses) + 8 * max(abs(first), abs(last)) * grid.h)
        return Nodes(first + start, masses, 0.0, relative, 0.0)


def _chords(x: list[Ball], values: list[Ball]) -> list[Ball]:
    """Slopes between neighbours."""
    return [(values[k + 1] - values[k]) / (x[k + 1] - x[k]) for k in range(len(x) - 1)]


def _gap(u: Ball, v: Ball, width: Ball) -> float:
    steeper, flatter = up(u), up(v)
    if steeper == 0 or flatter == 0:
        return 0.0
    return up(width / (1 / ball(Fraction(steeper)) + 1 / ball(Fraction(flatter))))


def _last(marks: list[bool]) -> int:
    """The last place that is marked; -1 where none is."""
    return max((k for k, marked in enumerate(marks) if marked), default=-1)


def _mirrored(pair: Pair, grid: Grid, last: int, every: int) -> tuple[Floats, float]:
    """As ``_kinks`` for a pair that is its own swap: masses at -l are those at l times exp(-l)."""
    x = [ball(grid.step * k).exp() for k in (-every, 0)]
    d = [delta_by(pair, value, _bound) for value in x]
    slope = (d[1] - d[0]) / (x[1] - x[0])
    right, infinite = _kinks(pair, grid, range(0, last + every, every), slope)
    left = right[1:] * np.exp(-np.arange(1, len(right)) * grid.h * every)
    return np.concatenate((left[::-1], right)), infinite


def _end(pair: Pair, grid: Grid, side: int) -> int:
    """The node from which delta (or its excess over 1 - x) is below the grid's tail.

    If an outcome has infinite loss, delta does not fall to 0: then the node from which it is that
    near to its limit.
    """
    reach, deltas = min(4 * grid.h, 1.0), list[tuple[float, Ball]]()
    while True:
        x = ball(Fraction(side) * Fraction(reach)).exp()
        deltas.append((reach, delta_by(pair, x, _bound) - (ball(0) if side > 0 else 1 - x)))
        if deltas[-1][1] <= ball(grid.tail):
            break
        reach *= 1.15
        if reach > LARGEST_LOSS:
            reach = next(end for end, d in deltas if not d - deltas[-1][1] > ball(grid.tail))
            if reach > LARGEST_LOSS / 2:
                raise NotConfirmed("no end")
            break
    return side * math.ceil(reach / grid.h)


@lru_cache(maxsize=64)
def _parameter(value: Number) -> Ball:
    """A ball, which an expression of SymPy takes long to give."""
    return ball(value)


# --- bounds at single points ---------------------------------------------------------------------


def _at_order(a: float, divergence: Ball, epsilon: Ball) -> Ball:
    order = ball(a)
    rise = (order - 1) * (divergence - epsilon)
    return (rise + order * (1 - 1 / order).log() - (order - 1).log()).exp()


def _both_ways(x: Ball, above: Any, divergence: Ball) -> Ball:
    """A bound known for x >= 1, at any x; Pinsker's where it is smaller (divergence at order 1)."""
    pinsker = (divergence / 2).sqrt().min(ball(1))
    if x >= 1:
        return above(x.log()).min(pinsker)
    return 1 - x + x * above(-x.log()).min(pinsker)


def _concentrated(at: Divergence, x: Ball) -> Ball:
    rho = _parameter(at.value)
    if rho <= 0:
        return (1 - x).max(ball(0))

    def above(epsilon: Ball) -> Ball:
        a = _order(float(rho.mid()), float(epsilon.mid()))
        return _at_order(a, rho * ball(a), epsilon)

    return _both_ways(x, above, rho)


def _renyi(order: Number, value: Number, x: Ball) -> Ball:
    largest, divergence = float(_parameter(order).lower()), _parameter(value)

    def above(epsilon: Ball) -> Ball:
        inner = -math.expm1(min(float((epsilon - divergence).mid()), 0.0))
        a = max(1 / inner if inner > 0 else math.inf, 1 + 1e-9)
        # No order above the one that is known; at 1 nothing is said.
        a = min(a, math.nextafter(largest, 1.0))
        return _at_order(a, divergence, epsilon) if a > 1 else ball(1)

    return _both_ways(x, above, divergence)


def _order(rho: float, epsilon: float) -> float:
    """Where (2 a - 1) rho - epsilon + log(1 - 1/a) = 0, about; every order gives a true bound."""
    excess = max((epsilon + rho) / (2 * rho) - 1, 1e-9)
    for _ in range(12):
        slope = (2 * excess + 1) * rho - epsilon + math.log(excess / (1 + excess))
        change = slope / (2 * rho + 1 / (excess * (1 + excess)))
        excess = max(excess - change, excess / 4, 1e-12)
        if abs(change) < 1e-9 * excess:
            break
    return 1 + excess


def _bound(pair: Pair, x: Ball) -> Ball | None:
    """An upper bound of delta where only a divergence of the pair is known; None otherwise."""
    divergence = pair.divergence
    if divergence is None:
        return None
    if divergence.order is None:
        return _concentrated(divergence, x)
    return _renyi(divergence.order, divergence.value, x)
