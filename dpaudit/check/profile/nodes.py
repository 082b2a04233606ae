"""Node masses whose profile lies above, or below, that of a pair; see ``profile_cells``.

Node masses m_i stand for g(x) = infinite + sum of m_i max(0, 1 - x exp(-l_i)), l_i the losses.

Upper: a and b on their nodes; convex functions lie below their chords.

Lower: with D the chords of delta, a chord exceeds the tangents of its cell by at most
Gap = a b (e^h - 1) / (a e^h + b).  The chords of D_i - max of the two gaps at node i lie below
delta; they start where delta has left 1 - x by that much, and end where it is that close to 0.
Concave kinks are then cut off, which lowers them.  Where nothing is left by that, or too little,
masses are moved down to the node below.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from dpaudit.check.profile.cells import UNIT, Cells, NotConfirmed
from dpaudit.exact.arrays import Floats, np

ROUNDING = 64 * UNIT  # relative error of a mass, beside that of its cell
CUMULATED = 1e-9  # relative error of a sum over all nodes
CRUMBS = 1e-11  # share of an atom: smaller masses beyond the outermost atom are left out


@dataclass(frozen=True)
class Nodes:
    """P masses at the losses (first + i) h, each within ``shift`` of it, and infinite ones.

    Masses are exact up to the factor 1 +- ``relative``.
    """

    first: int
    masses: Floats
    infinite: float
    relative: float
    shift: float

    def log_moment(self, tilt: float, h: float) -> float:
        """About log of the sum of masses times exp(tilt * loss)."""
        with np.errstate(divide="ignore"):
            logs = np.log(self.masses) + tilt * h * (self.first + np.arange(len(self.masses)))
        return float(np.logaddexp.reduce(logs))


def upper_nodes(cells: Cells) -> Nodes:
    """A profile at least that of the cells' pair."""
    masses = cells.on.copy()
    masses[:-1] += cells.a
    masses[1:] += cells.b
    masses[0] += cells.below[0]
    relative = cells.relative + ROUNDING
    return Nodes(cells.first, masses, cells.above[0] + cells.infinite[0], relative, cells.shift)


def lower_nodes(cells: Cells, h: float) -> Nodes:
    """A profile at most that of the cells' pair; masses outside of the nodes are left out.

    Errors: NotConfirmed where nothing is left.
    """
    cells = _without_crumbs(cells)
    if not cells.a.any() and not cells.b.any():
        own = cells.relative + ROUNDING
        return Nodes(cells.first, cells.on, cells.infinite[0], own, cells.shift)
    masses = cells.on.copy()
    masses[:-1] += cells.a
    masses[1:] += cells.b
    relative = 8 * cells.relative + ROUNDING
    with np.errstate(invalid="ignore", divide="ignore"):
        gap = np.nan_to_num(cells.a * cells.b * math.expm1(h) / (cells.a * math.exp(h) + cells.b))
    lowering = np.maximum(np.append(0.0, gap), np.append(gap, 0.0)) * (1 + relative)
    excess, remainder = _excess(cells, masses, h), _rest(cells, masses, h)
    start, end = _first(cells, excess, lowering, h), _last(cells, remainder, lowering, h)
    if end - start < 2:
        raise NotConfirmed("no node is left")
    lowering[start], lowering[end] = excess[start], remainder[end]
    inside = slice(start, end + 1)
    kinks = _kinks(masses[inside], lowering[inside], h, relative)
    kinks[0] = (excess[start + 1] * (1 - CUMULATED) - lowering[start + 1]) / math.expm1(h)
    kinks[-1] = (remainder[end - 1] * (1 - CUMULATED) - lowering[end - 1]) / -math.expm1(-h)
    return Nodes(cells.first + start, convex(kinks, h), cells.infinite[0], relative, cells.shift)


def rounded_down(cells: Cells) -> Nodes:
    """Every mass at the lower end of its cell: a smaller loss lowers p (1 - x exp(-l))_+."""
    masses = cells.on.copy()
    masses_each, inside = np.maximum(cells.a + cells.b, 0.0), cells.b >= 0
    masses[:-1] += np.where(inside, masses_each, 0.0)
    # A loss that rounding has below its cell goes to the node before that.
    masses[:-2] += np.where(inside, 0.0, masses_each)[1:]
    relative = 8 * cells.relative + ROUNDING
    return Nodes(cells.first, masses, cells.infinite[0], relative, cells.shift)


def _without_crumbs(cells: Cells) -> Cells:
    """Without the little that lies beyond the outermost atoms: less mass is a lower profile."""
    atoms = np.flatnonzero(cells.on)
    if not len(atoms):
        return cells
    a, b = cells.a.copy(), cells.b.copy()
    for atom, beyond in ((atoms[0], slice(None, atoms[0])), (atoms[-1], slice(atoms[-1], None))):
        if (a[beyond] + b[beyond]).sum() <= CRUMBS * cells.on[atom]:
            a[beyond] = b[beyond] = 0.0
    return replace(cells, a=a, b=b)


def _first(cells: Cells, excess: Floats, lowering: Floats, h: float) -> int:
    """Where to leave 1 - x: an atom at the smallest loss, or where delta is above it by enough.

    From the atom on, the chord of its cell stays below the tangent there.
    """
    atom = int(np.flatnonzero(np.append(cells.a, 0.0) + cells.on + np.append(0.0, cells.b))[0])
    if cells.on[atom] > 0:
        lowering[atom + 1] = max(lowering[atom + 1], cells.a[atom] * math.expm1(h) * (1 + 1e-12))
        return atom
    few = np.flatnonzero(excess < lowering)
    few = few[few <= np.argmax(cells.a)]
    return int(few[-1]) + 1 if len(few) else 0


def _last(cells: Cells, remainder: Floats, lowering: Floats, h: float) -> int:
    """Where to reach 0: as ``_first``, from above."""
    atom = int(np.flatnonzero(np.append(cells.a, 0.0) + cells.on + np.append(0.0, cells.b))[-1])
    if cells.on[atom] > 0:
        own = cells.b[atom - 1] * -math.expm1(-h) * (1 + 1e-12)
        lowering[atom - 1] = max(lowering[atom - 1], own)
        return atom
    few = np.flatnonzero(remainder < lowering)
    few = few[few >= np.argmax(cells.b)]
    return int(few[0]) - 1 if len(few) else len(remainder) - 1


def _excess(cells: Cells, masses: Floats, h: float) -> Floats:
    """delta - (1 - x) at every node: it grows by (x_{i+1} - x_i) times the Q mass up to i."""
    losses = (cells.first + np.arange(len(masses))) * h
    q = cells.infinite[1] + np.cumsum(masses * np.exp(-losses))
    growth = np.cumsum(np.exp(losses[:-1]) * math.expm1(h) * q[:-1])
    return math.exp(losses[0]) * cells.infinite[1] + np.append(0.0, growth)


def _rest(cells: Cells, masses: Floats, h: float) -> Floats:
    """delta at every node, without what is above: it falls by (x_{i+1} - x_i) Q(above i)."""
    losses = (cells.first + np.arange(len(masses))) * h
    q = np.cumsum((masses * np.exp(-losses))[:0:-1])
    falls = np.exp(losses[-2::-1]) * math.expm1(h) * q
    return np.append(0.0, np.cumsum(falls))[::-1]


def _kinks(masses: Floats, lowering: Floats, h: float, relative: float) -> Floats:
    """P masses of the kinks of D - lowering between its ends, lowered by their rounding errors."""
    down, up = math.expm1(h), -math.expm1(-h)
    rise = np.diff(lowering)
    kinks = masses * (1 - 4 * relative)
    kinks[1:-1] += rise[:-1] / up - rise[1:] / down
    kinks[1:-1] -= relative * (lowering[:-2] + 2 * lowering[1:-1] + lowering[2:]) / up
    return kinks


def convex(kinks: Floats, h: float) -> Floats:
    """Kinks with no negative mass left, of a function that is nowhere larger.

    A negative mass moves to its two neighbours with its P and Q mass kept: a chord instead of a
    concave kink.  Without a left neighbour it moves to the right one.
    """
    if np.all(kinks >= 0):
        return kinks
    stack: list[tuple[int, float]] = []
    for node, mass in enumerate(kinks.tolist()):
        while stack and stack[-1][1] < 0:
            at, negative = stack.pop()
            if not stack:
                mass += negative
                continue
            node_before, kink = stack[-1]
            share = math.expm1((node_before - at) * h) / math.expm1((node_before - node) * h)
            mass += negative * share * (1 + ROUNDING)
            stack[-1] = node_before, kink + negative * (1 - share) * (1 + ROUNDING)
        stack.append((node, mass))
    if stack[-1][1] < 0:
        raise NotConfirmed("a profile that is not convex at its end")
    convex = np.zeros(len(kinks))
    for node, mass in stack:
        convex[node] = mass
    return convex
