"""Noise in one of t slots, from below: what a function of the outcome shows of it.

The moved slot is N(a, 1) under P and N(b, 1) under Q, all others N(0, 1); m = 1 / z.
Allocated, a = m, b = 0: with X = exp(m x - m^2 / 2) of a slot, the likelihood ratio is the mean of
all X.  Each slot's X is rounded down to a multiple k d, k <= M, and what is seen is the sum of k:
under either law of one slot's k once, and of the others' t - 1 times.
In few slots of little noise, where X reaches far: each X is put into one of many intervals of
log X, and so is, two by two, the sum of what their middles stand for; what is seen is the last one.
Reshuffled, a = 2 m, b = m: what is seen is in which interval the largest x is.
No function of an outcome is further apart than the outcome (data processing).

Masses are whole multiples of 2^-BITS, rounded down wherever they are made, multiplied or cut off;
what their sum is short of 1 may belong to any outcome.  Outcomes that are not far above that in
either law are left out, which lowers every profile.  Masses of intervals are floats with a relative
error: all terms are positive, and outcomes that are rare in either law are left out of both.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from dpaudit.check.profile.cells import UNIT, Ball, Cells, Grid, NotConfirmed, ball, split
from dpaudit.exact import Number, is_symbolic
from dpaudit.exact.arrays import Floats, Integers, np
from dpaudit.pairs import Pair

BITS, PRECISION = 160, 192
# Masses below CUT are cut off; listed outcomes are ABOVE times what is missing; X of one slot
# reaches so many noises.
CUT, ABOVE, REACH = 2 ** (BITS - 120), 2**40, 6.0
# A part of X's deviation; about the most multiples of one slot, and of all within so many
# deviations; intervals of the largest slot.
FINE, MOST_PARTS, MOST_SUMS, WIDE, INTERVALS = 0.005, 25_000, 120_000, 32, 6_000
MOST_SLOTS, LARGEST_MOVE = 2**20, 4.0  # slots, and a record's move over the noise
# Intervals of log X: how many, for how many slots, rows at once, and the mass that is rare.
PLACES, FEW, ROWS, RARE = 6_000, 64, 256, 1e-30
Masses = tuple[int, list[int]]


def slots_below(pair: Pair, grid: Grid) -> Cells:
    """Cells of part of a function of the outcome.

    Errors: NotConfirmed for other pairs, and sizes that are not computed with.
    """
    slotted = pair.slotted
    if slotted is None or is_symbolic(slotted.slots):
        raise NotConfirmed(type(pair).__name__)
    if not (slotted.slots == int(slotted.slots) and 1 < slotted.slots <= MOST_SLOTS):
        raise NotConfirmed("a number of slots not computed with")
    law = _largest if slotted.others_move else _sum_of_all
    losses, p, outside, error = _seen(law, slotted.noise_multiplier, int(slotted.slots))
    first = math.floor(float(losses.min()) / grid.h) - 1
    count = math.ceil(float(losses.max()) / grid.h) + 1 - first
    if not count < MOST_SUMS:
        raise NotConfirmed("too many cells")
    a, b = split(losses, p, grid.h, first, count)
    shift = UNIT * (32 + 8 * float(np.max(np.abs(losses)))) + 2 * error
    relative = UNIT * (64 + len(p)) + 2 * error
    return Cells(first, a, b, np.zeros(count + 1), outside, outside, relative, shift)


@lru_cache(maxsize=16)
def _seen(law: Any, noise: Number, slots: int) -> tuple[Floats, Floats, tuple[float, float], float]:
    """Losses and P masses of outcomes, what is left out of either law, the masses' error."""
    import flint

    with flint.ctx.workprec(PRECISION):
        m = 1 / ball(noise)
        if not 0 < m < LARGEST_MOVE:
            raise NotConfirmed("noise not computed with")
        if law is _sum_of_all and slots <= FEW and _part(m, slots) > 2 * _width(m, slots):
            return _placed(m, slots)
        p, q = law(m, slots)
    least = [(2**BITS - sum(row) + 1) * ABOVE for row in (p, q)]
    likely = [(a, b) for a, b in zip(p, q, strict=True) if a > least[0] and b > least[1]]
    if not likely:
        raise NotConfirmed("no outcome is left")
    outside = [1 - sum(row) / 2**BITS for row in zip(*likely, strict=True)]
    losses = np.array([math.log(a / b) for a, b in likely])
    masses = np.array([a / 2**BITS for a, _ in likely])
    return losses, masses, (outside[0] + UNIT, outside[1] + UNIT), 1 / ABOVE


@dataclass(frozen=True)
class Placed:
    """P and Q masses of places of a sum of slots, one of which is moved under P; their error."""

    slots: int
    p: Floats
    q: Floats
    error: float


def _width(m: Ball, slots: int) -> float:
    """The width of an interval of log X."""
    move = float(m.mid())
    return (move * move + 2 * REACH * move + math.log(slots)) / PLACES


def _placed(m: Ball, slots: int) -> tuple[Floats, Floats, tuple[float, float], float]:
    """The result of :func:`_seen`, by intervals of log X."""
    width, low = _width(m, slots), -float((m * (m / 2 + REACH)).mid())
    ends = [(ball(low + k * width) + m * m / 2) / m for k in range(1, PLACES)]
    p, q = (_floats(_between([_under(x - move) for x in ends])) for move in (m, ball(0)))
    middles = np.exp(low + width * (np.arange(PLACES) + 0.5))
    placed = _of_all(_without_rare(Placed(1, p, q, 4 * UNIT)), slots, middles)
    p, q = placed.p[placed.p > 0], placed.q[placed.p > 0]
    if not len(p):
        raise NotConfirmed("no outcome is left")
    error = placed.error + UNIT * (8 + len(p))
    outside = [max(1 - float(row.sum()), 0.0) + 2 * error for row in (p, q)]
    return np.log(p / q), p, (outside[0], outside[1]), error


def _of_all(law: Placed, slots: int, middles: Floats) -> Placed:
    """The places of the sum of so many, by halves."""
    if slots == 1:
        return law
    half = _of_all(law, slots // 2, middles)
    twice = _added(half, half, middles)
    return _added(twice, law, middles) if slots % 2 else twice


def _floats(masses: list[int]) -> Floats:
    return np.array([mass / 2**BITS for mass in masses])


def _without_rare(law: Placed) -> Placed:
    likely = np.minimum(law.p, law.q) > RARE
    return Placed(law.slots, np.where(likely, law.p, 0.0), np.where(likely, law.q, 0.0), law.error)


def _added(one: Placed, other: Placed, middles: Floats) -> Placed:
    """The places of both sums' sum: the moved slot is as likely one as another."""
    p, q = np.zeros((2, PLACES))
    share = one.slots / (one.slots + other.slots)
    own, theirs = np.flatnonzero(one.p), np.flatnonzero(other.p)
    for rows in np.split(own, range(ROWS, len(own), ROWS)):
        place = _place(np.add.outer(middles[rows], middles[theirs]).ravel(), middles)
        moved = share * np.outer(one.p[rows], other.q[theirs])
        moved += (1 - share) * np.outer(one.q[rows], other.p[theirs])
        p += np.bincount(place, moved.ravel(), PLACES)
        q += np.bincount(place, np.outer(one.q[rows], other.q[theirs]).ravel(), PLACES)
    error = one.error + other.error + UNIT * (16 + ROWS * PLACES + PLACES)
    return _without_rare(Placed(one.slots + other.slots, p, q, error * (1 + 1e-6)))


def _place(sums: Floats, middles: Floats) -> Integers:
    """The interval whose middle is next to a sum, as logarithms are."""
    start, step = math.log(middles[0]), math.log(middles[1] / middles[0])
    places = np.floor((np.log(sums) - start) / step + 0.5)
    return np.clip(places, 0, PLACES - 1).astype(np.int64)


def _top(m: Ball) -> float:
    """The largest X."""
    return math.exp(float((m * (m + REACH) - m * m / 2).mid()))


def _part(m: Ball, slots: int) -> float:
    """The step to whose multiples X is rounded down."""
    deviation, top = math.sqrt(math.expm1(float((m * m).mid()))), _top(m)
    wide = WIDE * deviation * math.sqrt(slots) + top
    return max(FINE * deviation, top / MOST_PARTS, wide / MOST_SUMS)


def _sum_of_all(m: Ball, slots: int) -> tuple[list[int], list[int]]:
    """P and Q masses of the sum of all slots' multiples."""
    part, top = _part(m, slots), _top(m)
    ends = [(ball(k * part).log() + m * m / 2) / m for k in range(1, math.ceil(top / part))]
    moved, own = (_between([_under(x - move) for x in ends]) for move in (m, ball(0)))
    others = _times(own, slots - 1)
    (first, p), (other, q) = (_multiplied(others, (0, law)) for law in (moved, own))
    start, stop = max(first, other), min(first + len(p), other + len(q))
    return p[start - first : stop - first], q[start - other : stop - other]


def _largest(m: Ball, slots: int) -> tuple[list[int], list[int]]:
    """P and Q masses of intervals of the largest slot."""
    last = 2 * float(m.mid()) + 9 + math.sqrt(2 * math.log(slots))
    ends = [ball(float(x)) for x in np.linspace(-4.5 if slots < 100 else 0.0, last, INTERVALS)]
    others = [_under(x) ** (slots - 1) for x in ends]
    p, q = (
        _between([_under(x - k * m) * other for x, other in zip(ends, others, strict=True)])
        for k in (2, 1)
    )
    return p, q


def _under(x: Ball) -> Ball:
    """Phi."""
    return (-x / ball(2).sqrt()).erfc() / 2


def _between(laws: Sequence[Ball]) -> list[int]:
    """Masses below, between and above points, rounded down."""
    import flint

    masses, before, unit = [], ball(0), ball(2) ** BITS
    for law in (*laws, ball(1)):
        mass = ((law - before).lower() * unit).lower().floor()
        masses.append(max(int(flint.arb(mass.mid()).fmpz()) - 1, 0))
        before = law
    return masses


def _times(law: list[int], times: int) -> Masses:
    """The law of a sum of so many, by squaring."""
    law_so_far: Masses = (0, [2**BITS])
    square: Masses = (0, law)
    while times:
        if times % 2:
            law_so_far = _multiplied(law_so_far, square)
        times //= 2
        if times:
            square = _multiplied(square, square)
    return law_so_far


def _multiplied(one: Masses, other: Masses) -> Masses:
    """The law of a sum, without ends that are rare."""
    import flint

    masses = [
        int(c) >> BITS for c in (flint.fmpz_poly(one[1]) * flint.fmpz_poly(other[1])).coeffs()
    ]
    low, high = _heavy(masses), len(masses) - _heavy(masses[::-1])
    if not 0 < high - low <= 2 * MOST_SUMS:
        raise NotConfirmed("sums of too many parts")
    return one[0] + other[0] + low, masses[low:high]


def _heavy(masses: list[int]) -> int:
    """How many masses in a row, from the first on, are rare together."""
    passed = 0
    for k, mass in enumerate(masses):
        passed += mass
        if passed > CUT:
            return k
    return len(masses)
