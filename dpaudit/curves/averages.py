"""Laws of means of independent lognormal ratios, enclosed in the convex order.

X_i = exp(x_i / z - 1 / (2 z^2)), x_i standard normal, so that E X_i = 1.  The law of the mean of n of
them is built by doubling, on grids of loss log(value) of step H 2^-k, finer as the law narrows.
With B given, E f(aA + bB) is convex in A for every convex f, so that each of these keeps the
convex order of the mean of t:

* Upper: a value between two nodes becomes those two nodes, its mass and mean kept (by Jensen's
  inequality the value is the smaller: connect-the-dots).  Ends are cut: let C be the event that
  some block of n summands falls into a cut end of mass q and first moment p.  Expectations over C
  are bounded by Q(C) <= (t/n) q and, with the mean R of all t, E[R; C] <= p + (t/n) q (a union
  over t/n blocks, each of which is n/t of R).
* Lower: all values in a cell become their mean (Jensen).  Only each cell's mass and first moment
  are kept, and any grouping is sound: cells are found from nominal positions, ends are merged.

Rounding: masses of the single ratio come from Arb; everything after is sums of products of positive
numbers, whose relative error is counted (``relative``: of masses and moments, the factor by which a
value is moved when rounding leaves it outside its cell included).
Source: Shaked, Shanthikumar 2007, "Stochastic orders", Theorem 3.A.12 (convex order of independent
sums); Doroshenko, Ghazi, Kamath, Kumar, Manurangsi 2022 (connect-the-dots).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpaudit.arithmetic import Number, enclose
from dpaudit.curves.cells import UNIT
from dpaudit.curves.discrete import Floats, Side, TooFine

NODES = 4096
FEWEST_NODES = 1024
MOVED = 16 * UNIT
TINY = 1e-140
CAUTION = 1 + 1e-6
SMALLEST_TAIL = 1e-120
ACCURACY_BITS = 64
Flags = NDArray[np.bool_]


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
    """How a law of the mean of ``slots`` ratios is built: its step and the mass cut at each stage."""

    slots: int
    step: Fraction
    stage_tail: float
    side: Side

    def width(self, span: Fraction, summands: int) -> Fraction:
        """Step H 2^-k for a law on an interval of losses ``span`` long, within the node limits."""
        wanted = 1 - math.log2(self.slots / summands) / 4
        nodes = span / self.step
        fewest, most = (math.log2(n) - math.log2(nodes) for n in (FEWEST_NODES, NODES))
        fineness = math.floor(min(max(wanted, fewest), most))
        return self.step * Fraction(2) ** -fineness


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
    found = [1 - tails[0] if right[0] else tails[0]]
    for (side, tail), (next_side, next_tail) in pairwise(zip(right, tails, strict=True)):
        found.append(abs(tail - next_tail) if side == next_side else 1 - tail - next_tail)
    return [*found, tails[-1] if right[-1] else 1 - tails[-1]]


def _floats(balls: list[Any]) -> Floats:
    """Midpoints; each within two roundings of its ball."""
    if min(ball.rel_accuracy_bits() for ball in balls) < ACCURACY_BITS:
        raise TooFine("random allocation: step too fine for its precision; take a larger one")
    return np.array([float(ball.mid()) for ball in balls])


def _single(noise: Number, plan: Plan) -> Law:
    """The law of one ratio: cells split to their ends (upper) or kept with their means (lower)."""
    import flint

    reach = float(-special.ndtri(plan.stage_tail / plan.slots / 4))
    size = float(noise)
    width = plan.width(Fraction(2 * reach / size + 1 / (size * size)), 1)
    with flint.ctx.workprec(256):
        first, q, p = _edge_masses(noise, width, reach)
        if plan.side is Side.LOWER:
            return _trimmed(Law(width, first - 1, _floats(q), _floats(p), 1), plan)
        nodes = _split(first, enclose(width), q[1:-1], p[1:-1])
        ends = _floats([q[0] + q[-1], p[0] + p[-1]])
    cut = float(ends[1] + plan.slots * ends[0]), float(plan.slots * ends[0])
    return _trimmed(_valued(Law(width, first, _floats(nodes), np.zeros(0), 1, cut)), plan)


def _split(first: int, h: Any, q: list[Any], p: list[Any]) -> list[Any]:
    """Q masses of the nodes when each cell's mass and mean are put on its two ends."""
    nodes = [h * 0] * (len(q) + 1)
    for i, (mass, moment) in enumerate(zip(q, p, strict=True)):
        low = ((first + i) * h).exp()
        above = (moment - low * mass) / (low * h.expm1())
        nodes[i] = nodes[i] + mass - above
        nodes[i + 1] = nodes[i + 1] + above
    return nodes


def _valued(law: Law) -> Law:
    """The law with the moments that its nodes have."""
    return replace(law, moments=law.masses * _powers(law.width, law.first, len(law.masses)))


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
    """Pairs (i, i - d), d = start, start + 1, ..., of two laws: ``share`` a_i + (1 - share) b_j.

    The value is exp(i * width) times one ratio for each d.
    """

    larger: Law
    smaller: Law
    share: float
    start: int
    factors: Floats

    def __iter__(self) -> Iterator[tuple[int, int, slice, slice]]:
        """For each d with pairs: its number, the first i, and the slices of the two laws."""
        a, b = self.larger, self.smaller
        for k in range(len(self.factors)):
            d = self.start + k
            low, high = max(a.first, b.first + d), min(a.end, b.end + d)
            if low < high:
                yield (
                    k,
                    low,
                    slice(low - a.first, high - a.first),
                    slice(low - d - b.first, high - d - b.first),
                )

    @property
    def ratios(self) -> Floats:
        """share + (1 - share) exp(-d width), within eight roundings."""
        falling = _powers(-self.larger.width, self.start, len(self.factors))
        found: Floats = self.share + (1 - self.share) * falling
        return found


def _diagonals(a: Law, b: Law) -> list[Diagonals]:
    """All pairs: of a law with itself, those below the diagonal count twice."""
    share = a.summands / (a.summands + b.summands)
    if a is b:
        factors = np.full(len(a.masses), 2.0)
        factors[0] = 1.0
        return [Diagonals(a, a, share, 0, factors)]
    return [
        Diagonals(a, b, share, 0, np.ones(max(a.end - b.first, 0))),
        Diagonals(b, a, 1 - share, 1, np.ones(max(b.end - a.first - 1, 0))),
    ]


def _refined(law: Law, width: Fraction, side: Side) -> Law:
    """The same law on a grid finer by a power of two."""
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
    size = max(a.end, b.end) * times + 2 - first
    masses, moments = np.zeros(size), np.zeros(size)
    runs = _diagonals(a, b)
    for run in runs:
        if plan.side is Side.UPPER:
            _add_split(run, masses, times, first, width)
        else:
            _add_grouped(run, (masses, moments), times, first, width)
    rounds = 2 * sum(len(run.factors) for run in runs) + 16
    relative = (1 + a.relative) * (1 + b.relative) * (1 + rounds * UNIT) - 1 + MOVED
    law = Law(width, first, masses, moments, summands, relative=relative)
    return _trimmed(_valued(law) if plan.side is Side.UPPER else law, plan)


def _add_split(run: Diagonals, masses: Floats, times: int, first: int, width: Fraction) -> None:
    """Add every pair's mass to the two nodes around its value, its mean kept."""
    ratios = run.ratios
    deepest = math.floor(math.log(float(ratios.min())) / width) - 2
    nodes = _powers(width, deepest, 3 - deepest)
    cells = np.searchsorted(nodes, ratios, side="right") - 1
    upper = np.clip((ratios / nodes[cells] - 1) / float(enclose(width).expm1().mid()), 0, 1)
    weights = (run.factors * (1 - upper), run.factors * upper)
    a, b = run.larger.masses, run.smaller.masses
    starts = (cells + deepest - first).tolist()
    for k, low, left, right in run:
        product = a[left] * b[right]
        start = low * times + starts[k]
        stop = start + times * (len(product) - 1) + 1
        masses[start:stop:times] += weights[0][k] * product
        masses[start + 1 : stop + 1 : times] += weights[1][k] * product


def _add_grouped(
    run: Diagonals, sums: tuple[Floats, Floats], times: int, first: int, width: Fraction
) -> None:
    """Add every pair's mass and first moment to the cell of its nominal position."""
    masses, moments = sums
    starts = np.floor(times / 2 + np.log(run.ratios) / float(width)).astype(int) - first
    scaled = run.share * run.larger.moments
    other = (1 - run.share) * run.smaller.moments
    a, b = run.larger.masses, run.smaller.masses
    for k, low, left, right in run:
        start = low * times + int(starts[k])
        at = slice(start, start + times * (left.stop - left.start - 1) + 1, times)
        masses[at] += run.factors[k] * (a[left] * b[right])
        moments[at] += run.factors[k] * (scaled[left] * b[right] + a[left] * other[right])


# --- ends ----------------------------------------------------------------------------------------


def _trimmed(law: Law, plan: Plan) -> Law:
    """The law without ends of cost ``stage_tail``, or of masses too small for their accuracy."""
    cost = law.moments + (plan.slots / law.summands) * law.masses
    low = int(np.searchsorted(np.cumsum(cost), plan.stage_tail, side="right"))
    high = len(cost) - int(np.searchsorted(np.cumsum(cost[::-1]), plan.stage_tail, side="right"))
    kept = np.zeros(len(cost), dtype=bool)
    kept[low:high] = law.masses[low:high] >= TINY
    if plan.side is Side.LOWER:
        kept &= law.moments >= TINY
    return _cut(law, kept, plan) if plan.side is Side.UPPER else _merged(law, kept)


def _cut(law: Law, kept: Flags, plan: Plan) -> Law:
    """Only the nodes kept; P and Q masses of the event that any block is at another node."""
    q = plan.slots / law.summands * float(np.sum(law.masses[~kept]))
    p = q + float(np.sum(law.moments[~kept]))
    cut = law.cut[0] + p * CAUTION, law.cut[1] + q * CAUTION
    at = np.flatnonzero(kept)
    inside = slice(at[0], at[-1] + 1)
    masses, moments = (np.where(kept, m, 0.0)[inside] for m in (law.masses, law.moments))
    return replace(law, first=law.first + int(at[0]), masses=masses, moments=moments, cut=cut)


def _merged(law: Law, kept: Flags) -> Law:
    """Every cell that is not kept joins the one kept before it; indices follow the means."""
    at = np.flatnonzero(kept)
    starts = np.append(0, at[1:])
    masses, moments = np.zeros(at[-1] + 1 - at[0]), np.zeros(at[-1] + 1 - at[0])
    masses[at - at[0]] = np.add.reduceat(law.masses, starts)
    moments[at - at[0]] = np.add.reduceat(law.moments, starts)
    q, p = masses[at - at[0]], moments[at - at[0]]
    middles = law.first + at + 0.5
    drift = np.average(np.log(p / q) / float(law.width) - middles, weights=np.sqrt(p * q))
    first = law.first + int(at[0]) + round(float(drift))
    return replace(law, first=first, masses=masses, moments=moments)


# --- all slots -----------------------------------------------------------------------------------


@lru_cache(maxsize=8)
def law_of_mean(
    noise: Number, slots: int, step: Fraction, tail: float, side: Side
) -> tuple[Law, tuple[float, float]]:
    """The law of the mean of all slots' ratios, and the P and Q masses left out (upper only)."""
    stages = 2 * slots.bit_length()
    plan = Plan(slots, step, max(tail, SMALLEST_TAIL) / (2 * stages), side)
    power = _single(noise, plan)
    whole = power if slots % 2 else None
    used = [power]
    for bit in reversed(bin(slots // 2)[2:] if slots > 1 else ""):
        power = _mean(power, power, plan)
        used.append(power)
        if bit == "1" and whole is not None:
            whole = _mean(power, whole, plan)
            used.append(whole)
        elif bit == "1":
            whole = power
    cut = math.fsum(law.cut[0] for law in used), math.fsum(law.cut[1] for law in used)
    return whole or power, cut
