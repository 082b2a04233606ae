"""Laws of means of independent lognormal ratios, enclosed in the convex order.

X_i = exp(x_i / z - 1 / (2 z^2)), x_i standard normal, so that E X_i = 1.  The law of the mean of n
of them is built by doubling, on grids of loss (log value) of step H 2^-k, finer as the law narrows.
With B given, E f(aA + bB) is convex in A for every convex f, so that each of these keeps the
convex order of the mean R of all t:

* Upper: a value between two nodes becomes those two nodes, its mass and mean kept (by Jensen's
  inequality the value is the smaller: connect-the-dots).  Ends are cut: let C be the event that
  some block of n summands falls into a cut end of mass q and first moment p.  By the union over
  t/n blocks, each of which is n/t of R, Q(C) <= (t/n) q and E[R; C] <= p + (t/n) q.
* Lower: all values in a cell become their mean (Jensen).  Only each cell's mass and first moment
  are kept, and any grouping is sound: cells are found from nominal positions, ends are merged.

Either way a step sums masses and first moments by cell: the sum over pairs (i, j) with i - j = d is
exp(i * width) times one ratio, so that the pairs of a run of d share a cell, and their sums are
window sums of one law times the other law.

Rounding: masses of the single ratio come from Arb; everything after is sums of products of positive
numbers, whose relative error is counted in ``relative``.  It bounds the error of masses and of
moments, and the factor by which a value is moved to where its cell's mean is computed to be.
Source: Shaked, Shanthikumar 2007, "Stochastic orders", Theorem 3.A.12 (convex order of independent
sums); Doroshenko, Ghazi, Kamath, Kumar, Manurangsi 2022 (connect-the-dots).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit.exact import Number, enclose
from dpaudit.grids.cells import UNIT
from dpaudit.grids.discrete import Floats, Side, TooFine
from dpaudit.grids.noise import quantile

MEAN_NODES = 8192  # Nodes of the law of a mean.
FEWEST_NODES = 1024  # of the same, after many halvings
SPLIT_ROUNDING = 16 * UNIT  # Relative error of first moments after masses are split between nodes.
LEAST_MASS = 1e-140  # Masses below this are left out and counted as cut.
CUT_MARGIN = 1 + 1e-3  # Factor on the mass that is left out, above the rounding of its sum.
SMALLEST_TAIL = 1e-130  # Mass that may be left out, at the least: smaller masses underflow.
LARGEST_TAIL = 1e-3  # Mass that may be left out, at most.
SINGLE_BITS = 128  # Precision of the balls of one ratio, in bits.
ACCURACY_BITS = 64  # Bits of them that must be right.
Indices = NDArray[np.int64]


@dataclass(frozen=True)
class Law:
    """Masses and first moments under Q of the mean of ``summands`` ratios, by cell of loss.

    Upper: ``masses[i]`` sits on the loss ``(first + i) * width``; Lower: near the middle of the
    cell that starts there, its mean being moment / mass.  ``cut``: P and Q masses left out.
    """

    width: Fraction
    first: int
    masses: Floats
    moments: Floats
    summands: int
    cut: tuple[float, float] = (0.0, 0.0)
    relative: float = 2 * UNIT

    @property
    def end(self) -> int:
        """One more than the last index."""
        return self.first + len(self.masses)

    @property
    def span(self) -> Fraction:
        """Length of the interval of losses."""
        return len(self.masses) * self.width


@dataclass(frozen=True)
class Plan:
    """How the mean of ``slots`` ratios is built: step H, what may be cut at each stage, side."""

    slots: int
    step: Fraction
    stage_tail: float
    side: Side

    def width(self, span: Fraction, summands: int) -> Fraction:
        """Step H 2^-k for a law on an interval of losses ``span`` long, within the node limits.

        Errors of early laws average out: a law of n summands counts n/t of the law of all t.
        """
        wanted = 1 - math.log2(self.slots / summands) / 4
        most = math.log2(MEAN_NODES) - math.log2(self.slots / summands) / 8
        present = math.log2(span / self.step)
        fewest = math.log2(FEWEST_NODES)
        fineness = math.floor(min(max(wanted, fewest - present), max(most, fewest) - present))
        return self.step * Fraction(2) ** -fineness

    def multiplicity(self, summands: int) -> float:
        """How many blocks of so many summands there are at most."""
        return self.slots / summands


# --- the single ratio ----------------------------------------------------------------------------


@lru_cache(maxsize=8)
def _edge_masses(noise: Number, width: Fraction, reach: float) -> tuple[int, list[Any], list[Any]]:
    """First index, Q and P masses (balls) below, between and above edges of loss i * width."""
    z = enclose(noise)
    size = float(z.mid())
    farthest = reach / size + 1 / (2 * size * size)
    first, last = math.floor(-farthest / width), math.ceil(farthest / width)
    h = enclose(width)
    edges = [z * (i * h) + 1 / (2 * z) for i in range(first, last + 1)]
    return first, _masses(edges), _masses([x - 1 / z for x in edges])


def _masses(edges: list[Any]) -> list[Any]:
    """Standard normal masses below, between and above the edges; differences of small tails."""
    root = enclose(Fraction(2)).sqrt()
    right = [bool(x > 0) for x in edges]
    tails = [((x if side else -x) / root).erfc() / 2 for x, side in zip(edges, right, strict=True)]
    masses = [1 - tails[0] if right[0] else tails[0]]
    for (side, tail), (next_side, next_tail) in pairwise(zip(right, tails, strict=True)):
        masses.append(abs(tail - next_tail) if side == next_side else 1 - tail - next_tail)
    return [*masses, tails[-1] if right[-1] else 1 - tails[-1]]


def _floats(balls: list[Any]) -> Floats:
    """Midpoints, each within two roundings of the number in its ball."""
    if min(ball.rel_accuracy_bits() for ball in balls) < ACCURACY_BITS:
        raise TooFine("random allocation: step too fine for its precision; take a larger one")
    return np.array([float(ball.mid()) for ball in balls])


def _single(noise: Number, plan: Plan) -> Law:
    """The law of one ratio."""
    import flint

    reach = quantile(plan.stage_tail / plan.slots / 4)
    size = float(noise)
    width = plan.width(Fraction(2 * reach / size + 1 / (size * size)), 1)
    with flint.ctx.workprec(SINGLE_BITS):
        first, q, p = _edge_masses(noise, width, reach)
        masses, moments = _floats(q), _floats(p)
    law = Law(width, first - 1, masses, moments, 1, relative=4 * UNIT)
    if plan.side is Side.LOWER:
        return _merged(law, plan)
    ends = [0, -1]
    q_end, p_end = float(np.sum(masses[ends])), float(np.sum(moments[ends]))
    masses[ends] = moments[ends] = 0.0
    return _cut(_split(law), plan, q_end, p_end)


@lru_cache(maxsize=32)
def _powers(width: Fraction, first: int, count: int) -> Floats:
    """exp((first + i) * width) for i < count, within four roundings (products of two of Arb's)."""
    import flint

    stride = math.isqrt(max(count - 1, 0)) + 1
    with flint.ctx.workprec(256):
        base = enclose(width).exp()
        small = np.array([float((base**k).mid()) for k in range(stride)])
        large = np.array([float((base ** (first + k * stride)).mid()) for k in range(stride)])
    table: Floats = (large[:, None] * small).ravel()[:count]
    table.flags.writeable = False
    return table


# --- the mean of two independent laws ------------------------------------------------------------


@dataclass(frozen=True)
class Diagonals:
    """Pairs (i, i - d), d >= start, of two laws on one grid: share * a_i + (1 - share) * b_(i-d).

    A value is exp(i * width) times a ratio that falls with d.
    """

    larger: Law
    smaller: Law
    share: float
    start: int

    @property
    def count(self) -> int:
        """How many d have pairs."""
        return max(self.larger.end - self.smaller.first - self.start, 0)

    @property
    def ratios(self) -> Floats:
        """share + (1 - share) exp(-d width), within eight roundings."""
        falling = _powers(-self.larger.width, self.start, self.count)
        ratios: Floats = self.share + (1 - self.share) * falling
        return ratios


def _diagonals(a: Law, b: Law) -> list[Diagonals]:
    """All pairs; of a law with itself those off the diagonal once, to be counted twice."""
    share = a.summands / (a.summands + b.summands)
    if a is b:
        return [Diagonals(a, a, share, 1)]
    return [Diagonals(a, b, share, 0), Diagonals(b, a, 1 - share, 1)]


def _refined(law: Law, width: Fraction, side: Side) -> Law:
    """This law on a grid that is finer by a power of two."""
    times = int(law.width / width)
    if times == 1:
        return law
    size = (len(law.masses) - 1) * times + 1
    masses, moments = np.zeros(size), np.zeros(size)
    masses[::times], moments[::times] = law.masses, law.moments
    first = law.first * times + (times // 2 if side is Side.LOWER else 0)
    return replace(law, width=width, first=first, masses=masses, moments=moments)


def _mean(a: Law, b: Law, plan: Plan) -> Law:
    """The law of the mean over the summands of both, in the order that ``plan.side`` asks for."""
    common = min(a.width, b.width)
    same, summands = a is b, a.summands + b.summands
    width = min(common, plan.width(min(a.span, b.span), summands))
    a = _refined(a, common, plan.side)
    b = a if same else _refined(b, common, plan.side)
    times = int(common / width)
    first = min(a.first, b.first) * times - 2
    sums = np.zeros((2, max(a.end, b.end) * times + 2 - first))
    terms = 64
    for run in _diagonals(a, b):
        cells = _cells_of_ratios(run.ratios, width, times if plan.side is Side.LOWER else 0)
        terms += _add_pairs(run, cells - first, times, sums)
    if same:
        sums *= 2
        _add_diagonal(a, times, (times // 2 if plan.side is Side.LOWER else 0) - first, sums)
    relative = (1 + a.relative) * (1 + b.relative) * (1 + 3 * terms * UNIT) - 1
    law = Law(width, first, sums[0], sums[1], summands, relative=relative)
    return _merged(law, plan) if plan.side is Side.LOWER else _cut(_split(law), plan)


def _cells_of_ratios(ratios: Floats, width: Fraction, times: int) -> Indices:
    """The cell of each ratio, its position raised by times / 2 cells; exact but for roundings."""
    if times:
        return np.floor(times / 2 + np.log(ratios) / float(width)).astype(np.int64)
    deepest = math.floor(math.log(float(ratios.min())) / width) - 2
    nodes = _powers(width, deepest, 3 - deepest)
    return np.searchsorted(nodes, ratios, side="right") + (deepest - 1)


def _add_pairs(run: Diagonals, cells: Indices, times: int, sums: Floats) -> int:
    """Add masses and first moments of all pairs to their cells; how many sums a cell may get.

    Pair (i, i - d) goes to ``i * times + cells[d - start]``; runs of d with one cell go at once.
    """
    a, b = run.larger, run.smaller
    edges = np.flatnonzero(np.diff(cells)) + 1
    starts = np.append(0, edges)
    stops = np.append(edges, len(cells))
    tables, pad = _window_tables(b, 1 - run.share, int(np.max(stops - starts)))
    scaled = run.share * a.moments
    bounds = np.stack((starts, stops), axis=1) + run.start
    for low_d, high_d in bounds.tolist():
        low, high = max(a.first, b.first + low_d), min(a.end, b.end + high_d - 1)
        if low >= high:
            continue
        left_part = slice(low - a.first, high - a.first)
        inside = low - high_d + 1 - b.first + pad
        window = _window(tables, inside, high - low, high_d - low_d)
        start = low * times + int(cells[low_d - run.start])
        at = slice(start, start + times * (high - low - 1) + 1, times)
        sums[0, at] += a.masses[left_part] * window[0]
        sums[1, at] += scaled[left_part] * window[0] + a.masses[left_part] * window[1]
    return len(starts)


def _window_tables(law: Law, weight: float, longest: int) -> tuple[list[Floats], int]:
    """Sums over 2^k successive entries of masses and weighted moments; zeros around them."""
    padded = np.zeros((2, len(law.masses) + 2 * longest))
    padded[0, longest:-longest] = law.masses
    padded[1, longest:-longest] = weight * law.moments
    tables = [padded]
    while 2 ** len(tables) <= longest:
        half = 2 ** (len(tables) - 1)
        wider = tables[-1].copy()
        wider[:, :-half] += tables[-1][:, half:]
        tables.append(wider)
    return tables, longest


def _window(tables: list[Floats], first: int, count: int, size: int) -> Floats:
    """Sums over [first + n, first + n + size), n < count: positive terms, so nothing cancels."""
    pieces = []
    for k, table in enumerate(tables):
        if size >> k & 1:
            pieces.append(table[:, first : first + count])
            first += 1 << k
    sums = pieces[0]
    for piece in pieces[1:]:
        sums = sums + piece
    return sums


def _add_diagonal(law: Law, times: int, offset: int, sums: Floats) -> None:
    """Pairs (i, i), whose value is that of i."""
    start = law.first * times + offset
    at = slice(start, start + times * (len(law.masses) - 1) + 1, times)
    sums[0, at] += law.masses * law.masses
    sums[1, at] += law.masses * law.moments


# --- from sums by cell to a law -------------------------------------------------------------------


def _split(law: Law) -> Law:
    """Each cell's mass on its two ends, its mean kept (moved into the cell if it lies outside)."""
    width = float(enclose(law.width).expm1().mid())
    nodes = _powers(law.width, law.first, len(law.masses) + 1)
    with np.errstate(invalid="ignore", divide="ignore"):
        means = law.moments / law.masses
        upper = np.clip((means / nodes[:-1] - 1) / width, 0, 1)
    upper = np.where(law.masses > 0, upper, 0.0)
    masses = np.append(law.masses * (1 - upper), 0.0)
    masses[1:] += law.masses * upper
    return replace(
        law, masses=masses, moments=masses * nodes, relative=law.relative + SPLIT_ROUNDING
    )


def _ends(law: Law, plan: Plan) -> slice:
    """The nodes that remain after both ends, of cost ``stage_tail`` each, are cut."""
    cost = law.moments + plan.multiplicity(law.summands) * law.masses
    below = np.searchsorted(np.cumsum(cost), plan.stage_tail, side="right")
    above = np.searchsorted(np.cumsum(cost[::-1]), plan.stage_tail, side="right")
    return slice(int(below), len(cost) - int(above))


def _cut(law: Law, plan: Plan, q: float = 0.0, p: float = 0.0) -> Law:
    """The law without its ends and nodes too small for their accuracy, with what that cost.

    ``q`` and ``p``: mass and first moment that had been left out before.
    """
    inside = _ends(law, plan)
    inside_cut = np.zeros(len(law.masses), dtype=bool)
    inside_cut[inside] = law.masses[inside] >= LEAST_MASS
    q += float(np.sum(law.masses[~inside_cut]))
    p += float(np.sum(law.moments[~inside_cut]))
    q *= plan.multiplicity(law.summands)
    masses, moments = (np.where(inside_cut, m, 0.0)[inside] for m in (law.masses, law.moments))
    first = law.first + inside.start
    cut = (p + q) * CUT_MARGIN, q * CUT_MARGIN
    return replace(law, first=first, masses=masses, moments=moments, cut=cut)


def _merged(law: Law, plan: Plan) -> Law:
    """The law without its ends and cells too small, which join the cell kept before them.

    Indices follow the means, lest nominal positions drift away from them.
    """
    inside = _ends(law, plan)
    strong = (law.masses[inside] >= LEAST_MASS) & (law.moments[inside] >= LEAST_MASS)
    at = np.flatnonzero(strong) + inside.start
    starts = np.append(0, at[1:])
    q, p = (np.add.reduceat(m, starts) for m in (law.masses, law.moments))
    masses, moments = np.zeros((2, at[-1] + 1 - at[0]))
    masses[at - at[0]], moments[at - at[0]] = q, p
    offsets = np.log(p / q) / float(law.width) - (law.first + at + 0.5)
    drift = round(float(np.average(offsets, weights=np.sqrt(p * q))))
    first = law.first + int(at[0]) + drift
    relative = law.relative + int(np.max(np.diff(starts, append=len(law.masses)))) * UNIT
    return replace(law, first=first, masses=masses, moments=moments, relative=relative)


# --- all slots -----------------------------------------------------------------------------------


@lru_cache(maxsize=8)
def law_of_mean(
    noise: Number, slots: int, step: Fraction, tail: float, side: Side
) -> tuple[Law, tuple[float, float]]:
    """The law of the mean of all slots' ratios, and the P and Q masses left out (upper only)."""
    stages = 2 * slots.bit_length()
    plan = Plan(slots, step, min(max(tail, SMALLEST_TAIL), LARGEST_TAIL) / (2 * stages), side)
    power = _single(noise, plan)
    mean = power if slots % 2 else None
    used = [power]
    for bit in reversed(bin(slots // 2)[2:] if slots > 1 else ""):
        power = _mean(power, power, plan)
        used.append(power)
        if bit == "1" and mean is not None:
            mean = _mean(power, mean, plan)
            used.append(mean)
        elif bit == "1":
            mean = power
    cut = math.fsum(law.cut[0] for law in used), math.fsum(law.cut[1] for law in used)
    return mean or power, cut
