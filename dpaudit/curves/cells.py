"""From the P and Q masses of cells of loss to a Discrete: connect-the-dots and the chord gap.

Write h for the step, x_i = exp(i h), and for the cell of losses (i h, (i+1) h] with masses (p, q)
    b = (p - x_i q) / (1 - exp(-h)),   a = p - b,
the P masses that, put on the two ends, keep p and q.  P_i and Q_i are the masses of all cells from
i on, so that D_i = P_i - x_i Q_i, and any two measures with P_i' >= P_i, Q_i' <= Q_i give more.

Upper: a on node i, b on node i + 1: g is the chord of delta between nodes (convex functions lie
below their chords).  The cells above the last node become x q on it and the rest at infinity; the
P mass below the first node is moved up to it.

Lower: every line P_i - x Q_i lies below delta.  Between two nodes the chord of D exceeds the
larger of its two lines by at most G_i = a b (e^h - 1) / (a e^h + b).  So the function with values
g_i = D_i - max(G_{i-1}, G_i) lies below delta between nodes too; it starts on the line 1 - x (all
mass) and ends on 0, both of which are below delta, and its convex hull is a Discrete.

Rounding: ``relative`` bounds the relative error of P_i, Q_i and of their complements, edges of the
cells included (an edge may lie at most ``relative`` below its node, never above, for UPPER; any
edge serves LOWER).  Masses are moved outward by it before they are split.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpaudit.curves.discrete import MAXIMUM_NODES, Discrete, Floats, Side, TooFine

UNIT = 2.0**-53
SPLITTING = 32 * UNIT
TINY = 1e-290
EDGE_NODES = 4096
ON_NODE = 1e-7
Nodes = NDArray[np.int64]


@dataclass(frozen=True)
class Masses:
    """P and Q masses, each of which has its losses in one cell (index h, (index + 1) h]."""

    index: Nodes
    p: Floats
    q: Floats

    def moved(self, up: float, down: float) -> Masses:
        return Masses(self.index, self.p * up, self.q * down)

    def swapped(self) -> Masses:
        """The same outcomes of (Q, P), in ascending order of loss."""
        return Masses(-self.index[::-1] - 1, self.q[::-1], self.p[::-1])


NO_ATOMS = Masses(np.zeros(0, dtype=np.int64), np.zeros(0), np.zeros(0))


@dataclass(frozen=True)
class Cells:
    """P and Q masses of the cells (i h, (i+1) h], i = first, first + 1, ..., and of the two ends.

    ``below``: masses of losses up to ``first * h``; ``above``: beyond the last cell, infinite
    losses included.  ``atoms``: single outcomes, inside the cells and apart from ``p`` and ``q``
    (each has a chord gap of its own, none where it lies on a node).  ``infinite``: P mass where Q
    has none and Q mass where P has none, for certain; no part of ``above`` and ``below``.
    """

    step: Fraction
    first: int
    p: Floats
    q: Floats
    below: tuple[float, float]
    above: tuple[float, float]
    relative: float
    atoms: Masses = NO_ATOMS
    infinite: tuple[float, float] = (0.0, 0.0)

    def swapped(self) -> Cells:
        """Cells of (Q, P): losses change sign."""
        return Cells(
            self.step,
            -self.first - len(self.p),
            self.q[::-1],
            self.p[::-1],
            (self.above[1], self.above[0]),
            (self.below[1], self.below[0]),
            self.relative,
            self.atoms.swapped(),
            (self.infinite[1], self.infinite[0]),
        )

    def discrete(self, side: Side) -> Discrete:
        """The Discrete of the given side; TooFine where rounding would swamp the cells' width."""
        h = float(self.step)
        if len(self.p) > MAXIMUM_NODES or self.relative + SPLITTING > h / 16:
            raise TooFine(f"step {h:g}: too fine for this pair; take a larger one")
        return _upper(self) if side is Side.UPPER else _lower(self)

    @property
    def parts(self) -> tuple[Masses, Masses]:
        """The cells' own masses, and the atoms."""
        return Masses(self.first + np.arange(len(self.p)), self.p, self.q), self.atoms


def _moved(cells: Cells, sign: int) -> Cells:
    """P masses up and Q masses down by the relative error (sign 1), or the other way (-1)."""
    up = 1 + sign * (cells.relative + SPLITTING)
    down = 1 - sign * (cells.relative + SPLITTING)
    return Cells(
        cells.step,
        cells.first,
        cells.p * up,
        cells.q * down,
        (cells.below[0] * up, cells.below[1] * down),
        (cells.above[0] * up, cells.above[1] * down),
        0.0,
        cells.atoms.moved(up, down),
        (cells.infinite[0] * up, cells.infinite[1] * down),
    )


def _times_x(q: Floats, loss: Floats) -> Floats:
    """q * exp(loss) without overflow; 0 where q is too small to be accurate."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        value = np.where(loss < 600, q * np.exp(np.minimum(loss, 600)), np.exp(np.log(q) + loss))
    return np.where(q < TINY, 0.0, value)


def _split(part: Masses, h: float, side: Side) -> tuple[Floats, Floats]:
    """P masses (a, b) for the lower and the upper end of every mass's cell."""
    scaled = _times_x(part.q, part.index * h)
    if side is Side.LOWER:
        scaled = np.where(part.q < TINY, part.p, scaled)
    b = (part.p - scaled) / -np.expm1(-h)
    b = np.where(part.q < TINY, np.clip(b, 0, part.p), b)
    if side is Side.LOWER:
        b = np.where(np.abs(b) <= ON_NODE * part.p, np.minimum(b, 0), b)
    return part.p - b, b


def _nodes(cells: Cells, splits: list[tuple[Floats, Floats]]) -> Floats:
    """P masses of the nodes first, first + 1, ..., first + len(p) from the splits of both parts."""
    masses = np.zeros(len(cells.p) + 1)
    masses[:-1] = splits[0][0]
    masses[1:] += splits[0][1]
    at = cells.atoms.index - cells.first
    np.add.at(masses, at, splits[1][0])
    np.add.at(masses, at + 1, splits[1][1])
    masses[0] += cells.below[0]
    return masses


def _upper(cells: Cells) -> Discrete:
    cells = _moved(cells, 1)
    h = float(cells.step)
    masses = _nodes(cells, [_split(part, h, Side.UPPER) for part in cells.parts])
    top = np.array([(cells.first + len(cells.p)) * h])
    kept = min(float(_times_x(np.array([cells.above[1]]), top)[0]), cells.above[0])
    masses[-1] += kept
    infinite = max(cells.above[0] - kept, 0.0) + cells.infinite[0]
    return Discrete(cells.step, cells.first, np.maximum(masses, 0), infinite).trimmed()


def _lower(cells: Cells) -> Discrete:
    cells = _moved(cells, -1)
    h = float(cells.step)
    splits = [_split(part, h, Side.LOWER) for part in cells.parts]
    masses = _nodes(cells, splits)
    lowering = _lowering(cells, splits)
    start, end = _start(cells, masses, lowering), _end(masses, lowering, h)
    if start is None or end is None or start.node >= end.node:
        return _only_infinite(cells)
    hull = convexified(_second_differences(masses, lowering, start, end, h), h)
    if hull is None:
        return _only_infinite(cells)
    return Discrete(cells.step, cells.first + start.node, hull, cells.infinite[0]).trimmed()


def _only_infinite(cells: Cells) -> Discrete:
    """max(0, 1 - x), or the mass at infinite loss where there is some."""
    infinite = cells.infinite[0]
    return trivial(cells.step) if infinite == 0 else Discrete(
        cells.step, 0, np.array([max(1 - infinite - cells.infinite[1], 0.0)]), infinite
    )


def trivial(step: Fraction) -> Discrete:
    """max(0, 1 - x), which lies below every profile."""
    return Discrete(step, 0, np.array([1.0]))


@dataclass(frozen=True)
class _Lowering:
    """How far a chord of D may lie above delta.

    ``node``: the larger gap of a node's two cells; ``smooth`` and ``atoms``: each cell's gap by
    part; ``peak``: how far up its cell, from 0 to 1, the smooth part's gap is largest.
    """

    node: Floats
    smooth: Floats
    atoms: Floats
    peak: Floats

    def beside(self, cell: int, height: float, side: int) -> float:
        """What the other end of a cell is lowered by where one end is lowered by ``height`` only.

        The gap of the smooth part is a tent of that height over ``peak``; the line between the
        two lowerings must not lie below it.  ``side``: 0 for a given left end, 1 for a right one.
        """
        peak = self.peak[cell] if side == 0 else 1 - self.peak[cell]
        left, own = height - self.atoms[cell], self.smooth[cell]
        if left < 0 or peak <= 0:
            return np.inf
        needed = own if left >= own else (own - (1 - peak) * left) / peak
        return float(self.atoms[cell] + needed) * (1 + SPLITTING)


def _lowering(cells: Cells, splits: list[tuple[Floats, Floats]]) -> _Lowering:
    h = float(cells.step)
    smooth, peak = _gap(*splits[0], h)
    own, _ = _gap(*splits[1], h)
    atoms = np.bincount(cells.atoms.index - cells.first, own, len(smooth))
    both = (smooth + atoms) * (1 + SPLITTING)
    node = np.maximum(np.append(_gap_below(cells), both), np.append(both, 0.0))
    return _Lowering(node, smooth, atoms, peak)


def _gap(a: Floats, b: Floats, h: float) -> tuple[Floats, Floats]:
    """Largest height of a chord of D over the lines of its ends, and where in the cell it is."""
    a, b = np.maximum(a, 0), np.maximum(b, 0)
    with np.errstate(invalid="ignore", divide="ignore"):
        peak = np.nan_to_num(b / (a * np.exp(h) + b))
    return a * np.expm1(h) * peak, peak


def _gap_below(cells: Cells) -> float:
    """Chord gap of the cell between x = 0 and the first node."""
    excess = _excess_below(cells)
    total = excess + cells.below[0]
    return excess * cells.below[0] / total if total > 0 else 0.0


def _excess_below(cells: Cells) -> float:
    """x Q - P of the losses up to the first node, x the node: delta - (1 - x) there."""
    at = np.array([cells.first * float(cells.step)])
    q_mass = np.array([cells.below[1] + cells.infinite[1]])
    return max(float(_times_x(q_mass, at)[0]) - cells.below[0], 0.0)


@dataclass(frozen=True)
class _End:
    """A node where the lower function meets a line, and D's height above it there and one node on.

    ``next_height`` is None where it meets none: D is a chord from (0, 1) to the first node.
    """

    node: int
    height: float
    next_height: float | None


def _start(cells: Cells, masses: Floats, lowering: _Lowering) -> _End | None:
    """The node up to which the lower function is 1 - x; D exceeds that by the lowering from it on.

    One node earlier does as well if the next is lowered by what its cell then needs.
    """
    h = float(cells.step)
    at = np.arange(min(len(masses), EDGE_NODES, 2 + int(500 / h))) * h
    extra = _excess_below(cells)
    slope = extra + np.cumsum(masses[: len(at)] * np.exp(-at))
    excess = extra + np.expm1(h) * np.append(0.0, np.cumsum(np.exp(at[:-1]) * slope[:-1]))
    bad = np.flatnonzero(excess < lowering.node[: len(at)])
    node = int(bad[-1]) + 1 if len(bad) else 0
    if node + 1 >= len(at):
        return None
    if node == 0 and cells.below[0] == 0 and extra > 0:
        return _End(0, float(lowering.node[0]), None)
    if node and excess[node - 1] >= (lowering.atoms + lowering.smooth)[node - 2 : node - 1].sum():
        needed = lowering.beside(node - 1, float(excess[node - 1]), 0)
        if needed <= excess[node]:
            lowering.node[node] = max(needed, lowering.node[node])
            node -= 1
    return _End(node, float(excess[node]), float(excess[node + 1]))


def _end(masses: Floats, lowering: _Lowering, h: float) -> _End | None:
    """The node from which the lower function is 0; D exceeds the lowering up to it.

    One node later does as well if the one before is lowered by what its cell then needs.
    """
    last = len(masses) - 1
    heights = [0.0]
    rest = 0.0
    for node in range(last - 1, max(-1, last - EDGE_NODES), -1):
        rest = np.exp(-h) * (masses[node + 1] + rest)
        heights.append(float(heights[-1] + np.expm1(h) * rest))
        if heights[-2] > 0 and heights[-2] >= lowering.node[node + 1]:
            return _End(*_later(node + 1, last, heights, lowering))
    return None


def _later(
    node: int, last: int, heights: list[float], lowering: _Lowering
) -> tuple[int, float, float]:
    """The end one node later, where that is sound; ``heights`` are D at last, last - 1, ..."""
    back = last - node
    after = heights[back - 1]
    gaps = lowering.smooth + lowering.atoms
    if after >= gaps[node + 1 : node + 2].sum():
        needed = lowering.beside(node, after, 1)
        if needed <= heights[back]:
            lowering.node[node] = max(needed, lowering.node[node])
            return node + 1, after, heights[back]
    return node, heights[back], heights[back + 1]


def _second_differences(
    masses: Floats, lowering: _Lowering, start: _End, end: _End, h: float
) -> Floats:
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


def convexified(signed: Floats, h: float) -> Floats | None:
    """P masses of the convex hull of a function with these (signed) masses at its kinks.

    A negative mass is split over its neighbours with the P and the Q mass kept, which lowers the
    function; None where the last mass stays negative.
    """
    nodes = np.flatnonzero(signed)
    masses = signed[nodes].copy()
    before = np.arange(-1, len(nodes) - 1)
    for negative in np.flatnonzero(masses < 0):
        k = int(negative)
        while k < len(nodes) and masses[k] < 0:
            if k + 1 == len(nodes):
                return None
            _remove_up_to(masses, nodes, before, k, h)
            k += 1
    hull = np.zeros(len(signed))
    hull[nodes] = masses
    return hull


def _remove_up_to(masses: Floats, nodes: Nodes, before: Nodes, k: int, h: float) -> None:
    """Remove kink k, and kinks to its left for as long as they turn negative by it."""
    at, right = k, k + 1
    while at >= 0 and masses[at] < 0:
        mass, left = masses[at], int(before[at])
        share = 1.0
        if left >= 0:
            from_left, span = nodes[at] - nodes[left], nodes[right] - nodes[left]
            share = np.expm1(-from_left * h) / np.expm1(-span * h)
            masses[left] += mass * (1 - share)
        masses[right] += mass * share
        masses[at] = 0.0
        before[right] = at = left
