"""Atoms on a grid of losses: lists of outcomes, discrete normal noise, and mixtures of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

from dpaudit.check.profile.cells import (
    MOST_NODES,
    UNIT,
    Ball,
    Cells,
    Grid,
    Mass,
    NotConfirmed,
    ball,
    both_up,
    is_sharp,
    mixture,
    up,
)
from dpaudit.exact import is_symbolic
from dpaudit.exact.arrays import np
from dpaudit.pairs import Pair
from dpaudit.pairs.balls import bits as working_bits
from dpaudit.pairs.core import Lattice, Outcomes
from dpaudit.pairs.discrete_normal import weight_beyond

MOST_ATOMS = 2**15  # outcomes that are listed one by one
MOST_TERMS = 2**22  # integers over which a weight is summed
# An atom this near to a node, in cells, counts as on it.
ON_NODE = 2.0**-24
SHARP_TAIL = 1e-60  # mass: smaller tails than the grid's are left out at most


def with_atoms(made: Cells, atoms: Sequence[Mass], grid: Grid) -> Cells:
    """Atoms put on their nodes, or split over the two next to them; infinite losses go above."""
    placed = [_placed(mass, grid) for mass in atoms if mass[0] > 0 and mass[1] > 0]
    for p, q in atoms:
        if not (p > 0 or p == 0) or not (q > 0 or q == 0):
            raise NotConfirmed("an atom that may be empty")
    lost = math.fsum(up(p) for p, q in atoms if q == 0)
    never = math.fsum(up(q) for p, q in atoms if p == 0)
    made = _widened(made, [node for node, *_ in placed])
    for node, a, b, on, _ in placed:
        k = node - made.first
        made.on[k] += on
        if b > 0 or a > 0:
            made.a[k] += a
            made.b[k] += b
    return replace(
        made,
        infinite=(lost, never),
        relative=made.relative + UNIT * (8 + len(atoms)),
        shift=max([made.shift, *(distance for *_, distance in placed)]),
    )


def _placed(mass: Mass, grid: Grid) -> tuple[int, float, float, float, float]:
    """(node, a, b, mass on the node, its distance); next to a node an atom counts as on it."""
    p, q = mass
    place = (p / q).log() / ball(grid.step)
    near = round(float(place.mid()))
    if abs(place - near) < ON_NODE:
        return near, 0.0, 0.0, up(p), up(abs(place - near)) * grid.h
    node = math.floor(float(place.mid()))
    x, h = ball(grid.step * node).exp(), ball(grid.step)
    b = (p - x * q) / (1 - (-h).exp())
    a = p - b
    if not (is_sharp(a) and is_sharp(b)):
        raise NotConfirmed("an atom at a node")
    return node, up(a), up(b), 0.0, 0.0


def _widened(made: Cells, nodes: Sequence[int]) -> Cells:
    """Room for these nodes and for the cells above them.

    Mass that was outside may then lie at either end, and counts as outside of both.
    """
    last = made.first + len(made.a)
    low, high = min([made.first, *nodes]), max([last, *(node + 1 for node in nodes)])
    if not high - low < MOST_NODES:
        raise NotConfirmed("too many cells")
    left, right = made.first - low, high - last
    if not (left or right):
        return made
    outside = made.below[0] + made.above[0], made.below[1] + made.above[1]
    return replace(
        made,
        below=outside,
        above=outside,
        first=low,
        a=np.pad(made.a, (left, right)),
        b=np.pad(made.b, (left, right)),
        on=np.pad(made.on, (left, right)),
    )


def mixed_atoms(pair: Pair, r: Ball, grid: Grid) -> Cells:
    """((1 - r) Q + r P, Q) for outcomes (P, Q)."""
    outcomes, outside = outcomes_of(pair, grid)
    empty = Cells(0, np.zeros(1), np.zeros(1), np.zeros(2), (0.0, 0.0), (0.0, 0.0), 0.0)
    cells = with_atoms(empty, [mixture(mass, r) for mass in outcomes], grid)
    # Outcomes left out may lie at either end.
    p, q = both_up(mixture(outside, r))
    below, above = cells.below, cells.above
    return replace(cells, below=(below[0] + p, below[1] + q), above=(above[0] + p, above[1] + q))


def _listed(outcomes: Outcomes) -> tuple[list[Mass], Mass]:
    if len(outcomes) > MOST_ATOMS:
        raise NotConfirmed("too many atoms")
    return [(ball(p), ball(q)) for p, q in outcomes], (ball(0), ball(0))


def _discrete_normal(pair: Lattice, grid: Grid) -> tuple[list[Mass], Mass]:
    """Outcomes k with P mass f(k - shift) and Q mass f(k), f(k) proportional to exp(-k^2 / 2v)."""
    if is_symbolic(pair.shift) or pair.shift.denominator != 1:
        raise NotConfirmed("a shift that is no integer")
    shift, double = int(pair.shift), 2 * ball(pair.variance)
    rare = -math.log(min(grid.tail, SHARP_TAIL))
    reach = math.ceil(math.sqrt(rare * float(double.mid()))) + 2
    span = range(-reach - abs(shift), reach + abs(shift) + 1)
    if len(span) > MOST_ATOMS:
        return _by_cell(pair, grid, reach)
    density = {k: (-ball(k * k) / double).exp() for k in span}
    total = 1 + 2 * weight_beyond(pair.variance, 1, working_bits())
    inner = range(-reach + min(shift, 0), reach + max(shift, 0) + 1)
    outcomes = [(density[k - shift] / total, density[k] / total) for k in inner]
    p, q = (ball(1) - sum(masses, ball(0)) for masses in zip(*outcomes, strict=True))
    return outcomes, (p.max(ball(0)), q.max(ball(0)))


def _by_cell(pair: Lattice, grid: Grid, reach: int) -> tuple[list[Mass], Mass]:
    """As above, with the outcomes of each cell added up, which changes nothing.

    Masses are split over the two nodes of their cell linearly.  The loss of k is the fraction
    shift (2 k - shift) / 2v, so that which cell it is in is decided exactly.
    """
    if is_symbolic(pair.variance):
        raise NotConfirmed("a variance that is no fraction")
    variance, shift = Fraction(pair.variance), int(pair.shift)
    if shift < 0:
        raise NotConfirmed("a negative shift of wide noise")
    low, high = -reach, reach + shift
    if high + shift > MOST_TERMS:
        raise NotConfirmed("too many atoms")

    def node(k: int) -> int:
        return math.floor(shift * (2 * k - shift) / (2 * variance) / grid.step)

    first, last = node(low), node(high)
    if last - first >= MOST_ATOMS:
        raise NotConfirmed("too many atoms")
    # The first k of each cell: the smallest whose loss is at the cell's lower node or above it.
    starts = [low]
    for place in range(first + 1, last + 1):
        at = (place * grid.step * 2 * variance / shift + shift) / 2
        starts.append(min(max(math.ceil(at), low), high + 1))
    starts.append(high + 1)
    totals, total = _prefix_sums(
        {k for s in starts for k in (s, s - shift)}, variance, high + shift
    )
    outcomes = []
    for begin, end in pairwise(starts):
        if begin < end:
            p, q = totals[end - shift] - totals[begin - shift], totals[end] - totals[begin]
            outcomes.append((p / total, q / total))
    p, q = (ball(1) - sum(masses, ball(0)) for masses in zip(*outcomes, strict=True))
    return outcomes, (p.max(ball(0)), q.max(ball(0)))


def _prefix_sums(wanted: set[int], variance: Fraction, last: int) -> tuple[dict[int, Ball], Ball]:
    """Sums of exp(-j^2 / 2v) over -last <= j < k for each k that is wanted, and over all j.

    From one density to the next it is a product: exp(-1/2v) exp(-1/v)^j.
    """
    ratio, falling = (-1 / (2 * ball(variance))).exp(), (-1 / ball(variance)).exp()
    density, running = ball(1), ball(0)
    sizes = {abs(k) for k in wanted} | {abs(k) + 1 for k in wanted} | {last + 1}
    sums: dict[int, Ball] = {0: ball(0), 1: ball(0)}
    for j in range(1, last + 1):
        density = density * ratio
        ratio = ratio * falling
        running = running + density
        if j + 1 in sizes:
            sums[j + 1] = running  # over 1 <= i <= j, that is, below j + 1
    beyond = density / (1 - ratio)
    side = sums[last + 1]
    total = 1 + 2 * side
    total = total.union(total + 2 * beyond)
    totals = {}
    for k in wanted:
        # Below a k > 0: the left side, 0, and 1 .. k - 1; below k <= 0: the left side from k on.
        totals[k] = side + 1 + sums[k] if k > 0 else side - sums[1 - k]
    return totals, total


def has_outcomes(pair: Pair) -> bool:
    """Whether all mass is on outcomes that are gone through."""
    return pair.listed is not None or pair.lattice is not None


def outcomes_of(pair: Pair, grid: Grid) -> tuple[list[Mass], Mass]:
    """(P, Q) masses of outcomes, and of all that are left out.

    Errors: NotConfirmed for other pairs, and for sizes that are not computed with.
    """
    if pair.listed is not None:
        return _listed(pair.listed)
    if pair.lattice is not None:
        return _discrete_normal(pair.lattice, grid)
    raise NotConfirmed(type(pair).__name__)
