"""Lowering a function on a grid below the profile, and its convex hull.

The tent: on a cell (x_i, x_{i+1}] of loss, D's chord exceeds the larger of the two supporting
lines at its ends by a tent of height G = a b (e^h - 1) / (a e^h + b), at a part b / (a e^h + b) of
the way in x; so a line that is lowered by l at the left end and r at the right one lies below
delta if (1 - t) l + t r >= G at that part t, l >= 0 and r >= 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpaudit.exact.effort import spend
from dpaudit.grids.discrete import Reals

UNIT = 2.0**-53  # Unit roundoff of a float: half a unit in the last place of 1.
SPLITTING = 32 * UNIT  # Relative rounding error of a mass that is split between two nodes.
EDGE_NODES = 4096  # nodes at either end that are looked at
MOST_NEGATIVE = 50_000  # negative masses that are mended one by one
Nodes = NDArray[np.int64]


@dataclass(frozen=True)
class End:
    """A node where the lower function meets a line, and D's height above it there and one node on.

    ``next_height`` is None where it meets none: D is a chord from (0, 1) to the first node.
    """

    node: int
    height: float
    next_height: float | None

    def rounded(self, terms: int) -> End:
        """With heights that are sums of sums of so many terms: what it meets is no higher."""
        off = (2 * terms + 32) * UNIT
        next_height = None if self.next_height is None else self.next_height * (1 - off)
        return End(self.node, self.height * (1 + off), next_height)


@dataclass(frozen=True)
class Lowering:
    """How far a chord of D may lie above delta.

    ``node``: the larger gap of a node's two cells; ``smooth`` and ``atoms``: each cell's gap by
    part; ``peak``: how far up its cell, from 0 to 1, the smooth part's gap is largest.
    """

    node: Reals
    smooth: Reals
    atoms: Reals
    peak: Reals

    def beside(self, cell: int, height: float, side: int) -> float:
        """How far the other end of a cell is lowered if one end is lowered by ``height`` only.

        The gap of the smooth part is a tent of that height over ``peak``; the line between the
        two lowerings must not lie below it.  ``side``: 0 for a given left end, 1 for a right one.
        """
        peak = self.peak[cell] if side == 0 else 1 - self.peak[cell]
        height_left, own = height - self.atoms[cell], self.smooth[cell]
        if height_left < 0 or peak <= 0:
            return np.inf
        needed = own if height_left >= own else (own - (1 - peak) * height_left) / peak
        return float(self.atoms[cell] + needed) * (1 + SPLITTING)


def gap(a: Reals, b: Reals, h: float) -> tuple[Reals, Reals]:
    """Largest height of a chord of D over the lines of its ends, and where in the cell it is."""
    a, b = np.maximum(a, 0), np.maximum(b, 0)
    with np.errstate(invalid="ignore", divide="ignore"):
        peak = np.nan_to_num(b / (a * np.exp(h) + b))
    return a * np.expm1(h) * peak, peak


def last_end(masses: Reals, lowering: Lowering, h: float) -> End | None:
    """The node from which the lower function is 0; D exceeds the lowering up to it.

    One node later does as well if the one before is lowered by what its cell then needs.
    """
    last = len(masses) - 1
    back = np.arange(min(len(masses), EDGE_NODES, 2 + int(500 / h)))
    falls = np.cumsum(masses[last - back[:-1]] * np.exp(back[:-1] * h)) * np.exp(-back[1:] * h)
    heights = np.append(0.0, np.expm1(h) * np.cumsum(falls))
    bad = np.flatnonzero(heights < lowering.node[last - back])
    node = int(bad[-1]) + 1 if len(bad) else 0
    while node + 1 < len(heights) and heights[node] <= 0:
        node += 1
    if node + 1 >= len(heights):
        return None
    return _later(last - node, last, heights, lowering)


def _later(node: int, last: int, heights: Reals, lowering: Lowering) -> End:
    """The end one node later, where that is sound; ``heights`` are D at last, last - 1, ..."""
    back = last - node
    gaps = lowering.smooth + lowering.atoms
    if back and heights[back - 1] >= gaps[node + 1 : node + 2].sum():
        needed = lowering.beside(node, float(heights[back - 1]), 1)
        if needed <= heights[back]:
            lowering.node[node] = max(needed, lowering.node[node])
            return End(node + 1, float(heights[back - 1]), float(heights[back])).rounded(back)
    return End(node, float(heights[back]), float(heights[back + 1])).rounded(back + 1)


def second_differences(masses: Reals, lowering: Lowering, start: End, end: End, h: float) -> Reals:
    """P masses at the kinks of D - gap between the lines 1 - x (before) and 0 (after)."""
    lowered = lowering.node[start.node : end.node + 1].copy()
    lowered[0], lowered[-1] = start.height, end.height
    signed = masses[start.node : end.node + 1].copy()
    rise = np.diff(lowered)
    signed[1:] += rise / -np.expm1(-h)
    signed[:-1] -= rise / np.expm1(h)
    if start.next_height is None:
        signed[0] += start.height
    else:
        signed[0] = (start.next_height - lowered[1]) / np.expm1(h)
    if end.next_height is not None:
        signed[-1] = (end.next_height - lowered[-2]) / -np.expm1(-h)
    return signed


def convexified(signed: Reals, h: float) -> Reals | None:
    """P masses of the convex hull of a function with these (signed) masses at its kinks.

    A negative mass is split over its neighbours with the P and the Q mass kept, which lowers the
    function; None where the last mass stays negative.
    """
    nodes = np.flatnonzero(signed)
    masses = signed[nodes].copy()
    before = np.arange(-1, len(nodes) - 1)
    below = np.flatnonzero(masses < 0)
    if len(below) > MOST_NEGATIVE:
        return None
    spend(10 * len(below), "the convex hull of a privacy profile")
    for negative in below:
        k = int(negative)
        while k < len(nodes) and masses[k] < 0:
            if k + 1 == len(nodes):
                return None
            _remove_up_to(masses, nodes, before, k, h)
            k += 1
    hull = np.zeros(len(signed))
    hull[nodes] = masses
    return hull


def _remove_up_to(masses: Reals, nodes: Nodes, before: Nodes, k: int, h: float) -> None:
    """Remove kink k, and kinks to its left for as long as they turn negative by it.

    With roundings downward, as chains may have a million kinks: less mass on either side lowers the
    function, and so does a larger share on the right.
    """
    at, right = k, k + 1
    while at >= 0 and masses[at] < 0:
        mass, left_node = masses[at], int(before[at])
        share = 1.0
        if left_node >= 0:
            from_left, span = nodes[at] - nodes[left_node], nodes[right] - nodes[left_node]
            share = np.expm1(-from_left * h) / np.expm1(-span * h) * (1 + SPLITTING)
            masses[left_node] = _down(masses[left_node] + mass * (1 - share) * (1 + SPLITTING))
        masses[right] = _down(masses[right] + mass * share * (1 + SPLITTING))
        masses[at] = 0.0
        before[right] = at = left_node


def _down(mass: float) -> float:
    return mass - 2 * UNIT * abs(mass)
