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

import math
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from dpaudit.grids.discrete import MAXIMUM_NODES, NEGLIGIBLE_MASS, Discrete, Reals, Side, TooFine
from dpaudit.grids.hull import (
    EDGE_NODES,
    SPLITTING,
    End,
    Lowering,
    Nodes,
    convexified,
    gap,
    last_end,
    second_differences,
)
from dpaudit.grids.hull import UNIT as UNIT

# Masses below this are so near the smallest float that quotients of them carry no digits.
LEAST_MASS = 1e-290
ON_NODE = 1e-7  # share of a mass below which it counts as on its node
MAX_EXPONENT = 700.0  # Nats: exp of a larger exponent overflows a float.
EXPONENT_ROUNDING = 1e-10  # Relative rounding error of sums of exponents up to that size.


@dataclass(frozen=True)
class Masses:
    """P and Q masses, each of which has its losses in one cell (index h, (index + 1) h]."""

    index: Nodes
    p: Reals
    q: Reals

    def moved(self, up: float, down: float) -> Masses:
        return Masses(self.index, self.p * up, self.q * down)

    def swapped(self) -> Masses:
        """The outcomes of (Q, P), in ascending order of loss."""
        return Masses(-self.index[::-1] - 1, self.q[::-1], self.p[::-1])


# The masses of a pair without atoms.
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
    p: Reals
    q: Reals
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


def _times_x(q: Reals, loss: Reals) -> Reals:
    """q * exp(loss) without overflow; 0 where q is too small to be accurate."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        value = np.where(loss < 600, q * np.exp(np.minimum(loss, 600)), np.exp(np.log(q) + loss))
    return np.where(q < LEAST_MASS, 0.0, value)


def _over_x(p: Reals, loss: Reals) -> Reals:
    """p * exp(-loss) without overflow, where it is no number of a float from its logarithm."""
    with np.errstate(over="ignore", divide="ignore"):
        far = np.exp(np.log(p) - loss) * (1 - EXPONENT_ROUNDING)
    return np.where(loss > -MAX_EXPONENT, p * np.exp(np.minimum(-loss, MAX_EXPONENT)), far)


def _split(part: Masses, h: float, side: Side) -> tuple[Reals, Reals]:
    """P masses (a, b) for the lower and the upper end of every mass's cell."""
    scaled = _times_x(part.q, part.index * h)
    if side is Side.LOWER:
        scaled = np.where(part.q < LEAST_MASS, part.p, scaled)
    b = (part.p - scaled) / -np.expm1(-h)
    b = np.where(part.q < LEAST_MASS, np.clip(b, 0, part.p), b)
    if side is Side.LOWER:
        b = np.where(np.abs(b) <= ON_NODE * part.p, np.minimum(b, 0), b)
    return part.p - b, b


def _nodes(cells: Cells, splits: list[tuple[Reals, Reals]]) -> Reals:
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
    finite_mass = min(float(_times_x(np.array([cells.above[1]]), top)[0]), cells.above[0])
    masses[-1] += finite_mass
    infinite = max(cells.above[0] - finite_mass, 0.0) + cells.infinite[0]
    return Discrete(cells.step, cells.first, np.maximum(masses, 0), infinite).trimmed()


def _tiny_down(cells: Cells) -> Cells:
    """P masses whose Q mass is too small to be accurate, one node further down.

    There, whatever their losses in the cell, ``p exp(-node)`` is more than their Q mass, rounding
    included; those below the first node are dropped.
    """
    own, atoms = cells.parts
    few = own.q < LEAST_MASS, atoms.q < LEAST_MASS
    index = np.concatenate((own.index[few[0]], atoms.index[few[1]]))
    p = np.concatenate((own.p[few[0]], atoms.p[few[1]]))
    if not np.any(p > 0):
        return cells
    inside = (index > cells.first) & (p > 0)
    accurate = ~few[1]
    return replace(
        cells,
        p=np.where(few[0], 0.0, cells.p),
        atoms=Masses(
            np.concatenate((atoms.index[accurate], index[inside] - 1)),
            np.concatenate((atoms.p[accurate], p[inside])),
            np.concatenate((atoms.q[accurate], np.zeros(int(inside.sum())))),
        ),
    )


def _lower(cells: Cells) -> Discrete:
    cells = _tiny_down(_moved(cells, -1))
    h = float(cells.step)
    splits = [_split(part, h, Side.LOWER) for part in cells.parts]
    masses = _nodes(cells, splits)
    lowering = _lowering(cells, splits)
    start, end = _start(cells, masses, lowering), last_end(masses, lowering, h)
    hull = None
    if start is not None and end is not None and start.node < end.node:
        hull = convexified(second_differences(masses, lowering, start, end, h), h)
    if hull is None or start is None:
        return _rounded_down(cells) if len(cells.atoms.index) else _only_infinite(cells)
    lowered = Discrete(cells.step, cells.first + start.node, hull, cells.infinite[0]).trimmed()
    if not len(cells.atoms.index):
        return lowered
    # Either is sound; the larger one is wanted where large losses count.
    return max(lowered, _rounded_down(cells), key=_log_moment)


def _log_moment(discrete: Discrete) -> float:
    """log of the sum of masses times exp(loss)."""
    with np.errstate(divide="ignore"):
        logs = np.log(discrete.masses) + discrete.losses
    top = float(logs.max())
    return top + math.log(float(np.exp(logs - top).sum()))


def _rounded_down(cells: Cells) -> Discrete:
    """Every mass at the lower end of its cell, where its Q mass is larger: p (1 - x q / p)_+ falls.

    Chords that are lowered say more of smooth laws, and nothing of outcomes far apart whose masses
    fall faster than the chords between them.  A mass whose Q mass says that its loss is below the
    node, by rounding, lies one node further down.
    """
    h = float(cells.step)
    masses = np.zeros(len(cells.p) + 1)
    for part in cells.parts:
        below = part.q * (1 + SPLITTING) > _over_x(part.p, part.index * h)
        held = part.q * (1 + SPLITTING) <= _over_x(part.p, (part.index - 1) * h)
        np.add.at(masses, part.index - cells.first + 1 - below, np.where(held, part.p, 0.0))
    if not masses.any():
        return _only_infinite(cells)
    discrete = Discrete(cells.step, cells.first - 1, masses * (1 - SPLITTING), cells.infinite[0])
    return discrete.trimmed()


def _only_infinite(cells: Cells) -> Discrete:
    """Two events alone: everything, P - x Q with Q = 1, and the mass at infinite loss."""
    infinite = cells.infinite[0]
    finite_mass = (1 - infinite) * (1 - 2 * SPLITTING)
    if infinite == 0 or finite_mass < LEAST_MASS:
        return (
            trivial(cells.step)
            if infinite == 0
            else Discrete(cells.step, 0, np.array([NEGLIGIBLE_MASS]), infinite)
        )
    node = math.floor(math.log(finite_mass) / float(cells.step)) - 1
    return Discrete(cells.step, node, np.array([finite_mass]), infinite)


def trivial(step: Fraction) -> Discrete:
    """max(0, 1 - x), which lies below every profile."""
    return Discrete(step, 0, np.array([1.0]))


def _lowering(cells: Cells, splits: list[tuple[Reals, Reals]]) -> Lowering:
    h = float(cells.step)
    smooth, peak = gap(*splits[0], h)
    own, _ = gap(*splits[1], h)
    atoms = np.bincount(cells.atoms.index - cells.first, own, len(smooth)).astype(np.float64)
    both = (smooth + atoms) * (1 + SPLITTING)
    # The chord gap of the cell between x = 0 and the first node.
    excess = _excess_below(cells)
    total = excess + cells.below[0]
    below = excess * cells.below[0] / total if total > 0 else 0.0
    node = np.maximum(np.append(below, both), np.append(both, 0.0))
    return Lowering(node, smooth, atoms, peak)


def _excess_below(cells: Cells) -> float:
    """x Q - P of the losses up to the first node, x the node: delta - (1 - x) there."""
    at = np.array([cells.first * float(cells.step)])
    q_mass = np.array([cells.below[1] + cells.infinite[1]])
    return max(float(_times_x(q_mass, at)[0]) - cells.below[0], 0.0)


def _start(cells: Cells, masses: Reals, lowering: Lowering) -> End | None:
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
        return End(0, float(lowering.node[0]), None)
    if node and excess[node - 1] >= (lowering.atoms + lowering.smooth)[node - 2 : node - 1].sum():
        needed = lowering.beside(node - 1, float(excess[node - 1]), 0)
        if needed <= excess[node]:
            lowering.node[node] = max(needed, lowering.node[node])
            node -= 1
    return End(node, float(excess[node]), float(excess[node + 1])).rounded(node)
