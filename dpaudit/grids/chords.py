"""A profile on a grid from delta alone, as balls at the nodes x_i = exp(i h).

delta is convex and falls from 1 at x = 0.  Let D_i be its values, s_i the slope of the chord from
node i to node i + 1, and w_i = x_{i+1} - x_i.

Upper: chords of a convex function lie above it.  They start at (0, 1), and stay at the last value
from the last node on: P masses x_i (s_i - s_{i-1}), and the last value at infinite loss.

Lower: on the cell from i to i + 1 delta is above the chords of both neighbouring cells, so that its
own chord exceeds it by at most G_i = u v w_i / (u + v), u = s_i - s_{i-1}, v = s_{i+1} - s_i.  A
chord that is lowered by G_i at both of its ends is below delta.  The lowered values start on 1 - x
and end at 0, which are below delta everywhere, from nodes at which delta is that far above them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from dpaudit.grids.cells import trivial
from dpaudit.grids.discrete import Discrete, Grid, Side, TooFine
from dpaudit.grids.values import from_values

BALL_BITS = 256  # Precision of the balls, in bits.
MOST_NODES = 2**15  # nodes of a grid: each takes a ball of delta
MAX_LOSS = 600.0  # Nats: exp of a larger loss comes close to the overflow of a float.


def by_chords(delta: Callable[[Any], Any], grid: Grid, side: Side, cost: int = 1) -> Discrete:
    """The profile from one side; ``delta`` gives a ball around delta at a ball x > 0.

    ``cost``: about how many deltas of other pairs one takes.  Where it is above 1, chords from
    above join every n-th node only, which holds as well and is less near.
    Errors: TooFine where the losses that matter have more than ``MOST_NODES`` nodes.
    """
    import flint

    with flint.ctx.workprec(BALL_BITS):
        h = flint.arb(grid.step.numerator) / grid.step.denominator

        def excess(node: int) -> Any:
            """delta at a node, above the line 1 - x where that is positive."""
            x = (h * node).exp()
            return delta(x) - (1 - x if node < 0 else 0)

        first, last = (_end(excess, grid, sign) for sign in (-1, 1))
        every = -(-cost * (last - first) // MOST_NODES) if cost > 1 and side is Side.UPPER else 1
        if last - first > MOST_NODES * every:
            raise TooFine(f"step {grid.width:g}: more than {MOST_NODES} nodes; take a larger one")
        x = [(h * node).exp() for node in range(first, last + every, every)]
        values = [delta(at) for at in x]
        if side is Side.LOWER:
            return _lower(x, values, first, grid)
        return _upper(x, values, first, grid, every)


def _end(excess: Callable[[int], Any], grid: Grid, sign: int) -> int:
    """A node beyond which delta is within the tail of the line 1 - x, or of 0."""
    far = math.floor(MAX_LOSS / grid.width)

    def is_beyond(node: int) -> bool:
        return bool(excess(sign * node) <= grid.tail)

    near, beyond = 0, 2
    while beyond < far and not is_beyond(beyond):
        near, beyond = beyond, 2 * beyond
    if beyond >= far and not is_beyond(far):
        # Delta does not fall to 0, as an outcome has infinite loss: end where it is nearly flat.
        far_excess = excess(sign * far)
        near, beyond = 0, far
        while beyond - near > 1:
            middle = (near + beyond) // 2
            flat = bool(excess(sign * middle) - far_excess <= grid.tail)
            near, beyond = (near, middle) if flat else (middle, beyond)
        return sign * beyond
    while beyond - near > 1:
        middle = (near + beyond) // 2
        near, beyond = (near, middle) if is_beyond(middle) else (middle, beyond)
    return sign * beyond


def _slopes(x: list[Any], values: list[Any]) -> list[Any]:
    """Slopes of the chords: from (0, 1) to the first node, between nodes, and beyond the last."""
    inner = [(values[i + 1] - values[i]) / (x[i + 1] - x[i]) for i in range(len(x) - 1)]
    return [(values[0] - 1) / x[0], *inner, values[0] * 0]


def _upper(x: list[Any], values: list[Any], first: int, grid: Grid, every: int) -> Discrete:
    """Masses whose profile runs along the chords between the nodes (module, Upper)."""
    slopes = _slopes(x, values)
    masses = np.zeros((len(x) - 1) * every + 1)
    masses[::every] = [_up(at * (slopes[i + 1] - slopes[i])) for i, at in enumerate(x)]
    return Discrete(grid.step, first, masses, _up(values[-1])).trimmed()


def _lower(x: list[Any], values: list[Any], first: int, grid: Grid) -> Discrete:
    """Masses whose profile runs along lowered chords (module, Lower).

    Each node is lowered by the larger G_i of its two cells.  Nodes are cut off at either end where
    the lowered value would fall below max(1 - x, 0), which bounds delta too.
    """
    slopes = _slopes(x, values)
    gaps = []
    for i in range(1, len(x)):
        u, v = (max(_up(slopes[k + 1] - slopes[k]), 0.0) for k in (i - 1, i))
        gaps.append(_up((x[i] - x[i - 1]) * _joint(u, v)))
    lowering = np.maximum(np.append(0.0, gaps), np.append(gaps, 0.0))
    above = np.array([_down(value - (1 - at)) for value, at in zip(values, x, strict=True)])
    rounded = np.array([_down(value) for value in values])
    starts = np.flatnonzero(above < lowering)
    starts = starts[starts <= np.argmax(lowering)]
    start = int(starts[-1]) + 1 if len(starts) else 0
    ends = np.flatnonzero(rounded < lowering)
    ends = ends[ends >= np.argmax(lowering)]
    end = int(ends[0]) - 1 if len(ends) else len(x) - 1
    if end - start < 2:
        return trivial(grid.step)
    lowered = np.array(
        [_down(value - low) for value, low in zip(values, lowering, strict=True)],
        dtype=np.longdouble,
    )
    lowered[start] = min(_down(1 - x[start]), float(lowered[start]))
    lowered[end] = 0.0
    return from_values(lowered[start : end + 1], first + start, 1.0, grid.step, Side.LOWER)


def _joint(u: float, v: float) -> float:
    """u v / (u + v), rounded up."""
    return u * v / (u + v) * (1 + 2.0**-50) if u > 0 and v > 0 else 0.0


def _up(value: Any) -> float:
    """A float that is not below a ball, and not below 0."""
    return max(math.nextafter(float(value.upper()), math.inf), 0.0)


def _down(value: Any) -> float:
    """A float that is not above a ball."""
    return math.nextafter(float(value.lower()), -math.inf)
