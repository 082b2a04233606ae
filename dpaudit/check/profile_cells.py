"""One-step masses on a grid of losses, by pair type, for the checker.

Write h for the step, x_i = exp(i h).  The cell (i h, (i + 1) h] of loss with masses (p, q) is
split into P masses a and b on its lower and upper node that keep p and q:

    b (1 - exp(-h)) = p - x_i q,        a (exp(h) - 1) = x_{i+1} q - p.

Both right sides are integrals of positive functions, so a and b are computed without cancellation:
for Laplace noise in closed form, for normal noise by the 8-point Gauss-Legendre rule on cells that
are narrow (remainder below one rounding), and in Arb on all others.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit.arithmetic import enclose, is_symbolic
from dpaudit.pairs import (
    Atoms,
    DiscreteNormal,
    LaplaceShift,
    Mixed,
    Normal,
    Pair,
    Spliced,
    Swapped,
)

Floats = NDArray[np.float64]
Ball = Any
Mass = tuple[Ball, Ball]
UNIT = 2.0**-53
BITS = 512
MOST_NODES = 2**21
MOST_ATOMS = 2**15
NARROW, LARGEST_RATIO, FARTHEST = 0.02, 64.0, 37.0
SHARP_TAIL = 1e-60
ON_NODE, SPILL = 2.0**-24, 2.0**-400


class NotConfirmed(Exception):
    """The checker has no way to confirm this; nothing is wrong with it for certain."""


@dataclass(frozen=True)
class Cells:
    """Cells from node ``first`` on; their masses (a, b), and masses ``on`` the nodes themselves.

    ``below`` and ``above``: (P, Q) masses outside.  ``infinite``: P mass where Q has none, and Q
    mass where P has none.  ``relative``: error of every mass; ``shift``: how far the loss of a mass
    may lie from its node.
    """

    first: int
    a: Floats
    b: Floats
    on: Floats
    below: tuple[float, float]
    above: tuple[float, float]
    relative: float
    shift: float = 0.0
    infinite: tuple[float, float] = (0.0, 0.0)

    def swapped(self, h: float) -> Cells:
        """Cells of (Q, P): losses change sign."""
        falling = np.exp(-(self.first + np.arange(len(self.on))) * h)
        reach = max(abs(self.first), abs(self.first + len(self.a))) * h
        return Cells(
            -(self.first + len(self.a)),
            (self.b * falling[1:])[::-1],
            (self.a * falling[:-1])[::-1],
            (self.on * falling)[::-1],
            (self.above[1], self.above[0]),
            (self.below[1], self.below[0]),
            self.relative + UNIT * (8 + 4 * reach),
            self.shift,
            (self.infinite[1], self.infinite[0]),
        )


@dataclass(frozen=True)
class Grid:
    """Step h; P and Q masses that may be left out at either end."""

    step: Fraction
    tail: float

    @property
    def h(self) -> float:
        """The step as a float."""
        return float(self.step)


@dataclass(frozen=True)
class Base:
    """The continuous part of a pair of symmetric noise, by its loss u, and its atoms (P, Q).

    ``between(u, v)``: balls of the P and the Q mass of losses in (u, v); None is infinite.
    ``inside(u, d, moved)``: integrals over [u, u + d] of e^v - e^u and of e^(u + d) - e^v, dQ(v),
    and their relative error where u is known up to ``moved``; infinite where not accurate.
    ``span``: outside of it P and Q have mass ``tail`` at most.
    """

    between: Callable[[Ball | None, Ball | None], Mass]
    inside: Callable[[Floats, Floats, Floats], tuple[Floats, Floats, Floats]]
    span: tuple[float, float]
    atoms: tuple[Mass, ...] = ()


def ball(value: Any) -> Ball:
    """A ball at the precision of the context."""
    import flint

    if isinstance(value, Fraction):
        return flint.arb(value.numerator) / flint.arb(value.denominator)
    return enclose(value) if is_symbolic(value) else flint.arb(value)


def cells(pair: Pair, grid: Grid) -> Cells:
    """The cells of one pair.  Errors: NotConfirmed for a pair type or a size not known here."""
    import flint

    maker = _MAKERS.get(type(pair))
    if maker is None:
        raise NotConfirmed(type(pair).__name__)
    with flint.ctx.workprec(BITS):
        return maker(pair, grid)


def is_known(pair: Pair) -> bool:
    """Whether there are cells for a pair of this form."""
    if isinstance(pair, Swapped):
        return is_known(pair.base)
    if isinstance(pair, Mixed):
        return type(pair.base) in _BASES or type(pair.base) in _OUTCOMES
    if isinstance(pair, Spliced):
        return is_known(pair.above) and _mirrored(pair)
    return type(pair) in _MAKERS


# --- normal and Laplace noise, mixed or not ------------------------------------------------------


def _normal(pair: Normal, tail: float) -> Base:
    mu = ball(pair.mu)
    m = float(mu.mid())
    if not 1e-9 < m < 1e3:
        raise NotConfirmed(f"mu = {m}")
    root = ball(2).sqrt()

    def phi(z: Ball) -> Ball:
        return (-z / root).erfc() / 2

    def mass(low: Ball | None, high: Ball | None, mean: Ball) -> Ball:
        """Of N(mean, 1) between two z; None is infinite.  The smaller tails are subtracted."""
        ends = [None if z is None else z - mean for z in (low, high)]
        if ends[0] is not None and ends[0] > 0:
            ends = [None if z is None else -z for z in reversed(ends)]
        under = [ball(k) if z is None else phi(z) for k, z in enumerate(ends)]
        return under[1] - under[0]

    def between(low: Ball | None, high: Ball | None) -> Mass:
        z = [None if u is None else u / mu + mu / 2 for u in (low, high)]
        return mass(*z, mu), mass(*z, ball(0))

    def inside(u: Floats, d: Floats, moved: Floats) -> tuple[Floats, Floats, Floats]:
        t, weights = np.polynomial.legendre.leggauss(8)
        t, weights = (t + 1) / 2, weights / 2
        z, width = u / m + m / 2, d / m
        at = z[:, None] + width[:, None] * t
        scale = width / math.sqrt(2 * math.pi)
        density = np.exp(u[:, None] - at * at / 2) * weights
        up = scale * (density * np.expm1(d[:, None] * t)).sum(axis=1)
        down = scale * np.exp(d) * (density * -np.expm1(-d[:, None] * (1 - t))).sum(axis=1)
        farthest = np.abs(z) + width
        error = UNIT * (128 + 16 * farthest * farthest + 8 * np.abs(u))
        error += (2 + 2 * farthest / m) * moved
        wide = (width > NARROW) | (farthest > FARTHEST) | (d > 5 * NARROW)
        return up, down, np.where(wide, np.inf, error)

    reach = math.sqrt(-2 * math.log(tail)) if tail > 0 else math.inf
    return Base(between, inside, (-m * (reach + m / 2), m * (reach + m / 2)))


def _laplace(pair: LaplaceShift, tail: float) -> Base:
    largest = ball(pair.epsilon)
    e = float(largest.mid())
    if not 1e-9 < e < 600:
        raise NotConfirmed(f"epsilon = {e}")

    def between(low: Ball | None, high: Ball | None) -> Mass:
        u = -largest if low is None else low.max(-largest).min(largest)
        v = largest if high is None else high.max(-largest).min(largest)
        up = ((v - largest) / 2).exp() - ((u - largest) / 2).exp()
        down = (-(u + largest) / 2).exp() - (-(v + largest) / 2).exp()
        return up / 2, down / 2

    def inside(u: Floats, d: Floats, moved: Floats) -> tuple[Floats, Floats, Floats]:
        """2 exp((u - e) / 2) sinh(d / 4)^2, and the same at the upper end."""
        bend = 2 * np.sinh(d / 4) ** 2
        up, down = (bend * np.exp((v - e) / 2) for v in (u, u + d))
        outside = (u < -e * (1 - 1e-9)) | (u + d > e * (1 - 1e-9))
        return up, down, np.where(outside, np.inf, UNIT * (64 + 4 * (np.abs(u) + e)) + 2 * moved)

    half = ball(1) / 2
    low = (-largest).exp() / 2
    return Base(between, inside, (-e, e), ((half, low), (low, half)))


_BASES: dict[type[Pair], Callable[[Any, float], Base]] = {Normal: _normal, LaplaceShift: _laplace}


def _mixed(pair: Pair, grid: Grid) -> Cells:
    """((1 - r) Q + r P, Q): its P'/Q - x_i is r (e^u - w_i) with w_i = (x_i - 1 + r) / r."""
    base_pair, rate = (pair.base, pair.rate) if isinstance(pair, Mixed) else (pair, Fraction(1))
    if type(base_pair) in _OUTCOMES:
        return _mixed_atoms(base_pair, ball(rate), grid)
    if type(base_pair) not in _BASES:
        raise NotConfirmed(f"Mixed({type(base_pair).__name__})")
    base, r = _BASES[type(base_pair)](base_pair, grid.tail), ball(rate)
    first, last = _nodes(base, float(r.mid()), grid)
    a, b, error = _in_floats(base, rate, first, last, grid)
    spilled = 0.0
    for k in np.flatnonzero(~np.isfinite(error)):
        a[k], b[k], spill = _in_arb(base, r, first + int(k), grid)
        error[k], spilled = 4 * UNIT, spilled + spill
    low, high = (_edge(r, node, grid) for node in (first, last))
    below = _mixture(base.between(None, low), r) if low is not None else (ball(0), ball(0))
    above = _mixture(base.between(high, None), r)
    made = Cells(
        first=first,
        a=a,
        b=b,
        on=np.zeros(last - first + 1),
        below=_up_to(below),
        above=(_up(above[0]) + spilled, _up(above[1]) + spilled),
        relative=float(error.max()),
    )
    return _with_atoms(made, [_mixture(mass, r) for mass in base.atoms], grid)


def _mixture(mass: Mass, r: Ball) -> Mass:
    p, q = mass
    return (1 - r) * q + r * p, q


def _nodes(base: Base, r: float, grid: Grid) -> tuple[int, int]:
    """First and last node: all of the span is between them."""
    ends = [u if r == 1 or u > 600 else math.log1p(r * math.expm1(u)) for u in base.span]
    first, last = math.floor(ends[0] / grid.h) - 1, math.ceil(ends[1] / grid.h) + 1
    if not last - first < MOST_NODES:
        raise NotConfirmed("too many cells")
    return first, last


def _in_floats(
    base: Base, rate: Any, first: int, last: int, grid: Grid
) -> tuple[Floats, Floats, Floats]:
    """(a, b) of every cell and their relative error, infinite where that is not accurate."""
    h, r = grid.h, float(ball(rate).mid())
    losses = (first + np.arange(last - first)) * h
    u, d, moved = losses, np.full(len(losses), h), 4 * UNIT * np.abs(losses)
    if rate != 1:
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            over = np.expm1(losses) + r
            bend = (np.abs(np.expm1(losses)) + r) / over
            u, d = np.log(over / r), np.log1p(np.exp(losses) * math.expm1(h) / over)
            moved = 8 * UNIT * (bend + np.abs(u) + np.abs(losses))
        usable = (over > 0) & (bend < LARGEST_RATIO) & np.isfinite(u) & np.isfinite(d)
        u, d, moved = (np.where(usable, n, s) for n, s in ((u, 0.0), (d, h), (moved, np.inf)))
    up, down, error = base.inside(u, d, moved)
    return r * down / math.expm1(h), r * up / -math.expm1(-h), error + 8 * moved + 64 * UNIT


def _edge(r: Ball, node: int, grid: Grid) -> Ball | None:
    """u at a node; None where every loss is larger."""
    w = (ball(grid.step * node).exp() - 1 + r) / r
    if w > 0:
        return w.log()
    if w <= 0:
        return None
    raise NotConfirmed("a node at the smallest loss")


def _in_arb(base: Base, r: Ball, node: int, grid: Grid) -> tuple[float, float, float]:
    """(a, b) of one cell, and a mass that was too small to split."""
    low, high = _edge(r, node, grid), _edge(r, node + 1, grid)
    if high is None:
        return 0.0, 0.0, 0.0
    p, q = base.between(low, high)
    w = [(ball(grid.step * (node + k)).exp() - 1 + r) / r for k in (0, 1)]
    h = ball(grid.step)
    split = r * (w[1] * q - p) / (h.exp() - 1), r * (p - w[0] * q) / (1 - (-h).exp())
    if all(_sharp(mass) for mass in split):
        return _up(split[0]), _up(split[1]), 0.0
    spill = _up(split[0]) + _up(split[1])
    if spill > SPILL:
        raise NotConfirmed("a mass that is not sharp")
    return 0.0, 0.0, spill


def _sharp(value: Ball) -> bool:
    return bool(value > 0 and float(value.rad()) <= UNIT * float(value.mid()))


def _up(value: Ball) -> float:
    """A float of at least a ball's upper end, by one rounding at most; never negative."""
    top = float(value.upper())
    if not math.isfinite(top):
        raise NotConfirmed("a mass is not finite")
    return max(math.nextafter(top, math.inf), 0.0) if top != 0 else 0.0


def _up_to(mass: Mass) -> tuple[float, float]:
    return _up(mass[0]), _up(mass[1])


# --- atoms ---------------------------------------------------------------------------------------


def _with_atoms(made: Cells, atoms: Sequence[Mass], grid: Grid) -> Cells:
    """Atoms put on their nodes, or split over the two next to them; infinite losses go above."""
    placed = [_placed(mass, grid) for mass in atoms if mass[0] > 0 and mass[1] > 0]
    for p, q in atoms:
        if not (p > 0 or p == 0) or not (q > 0 or q == 0):
            raise NotConfirmed("an atom that may be empty")
    lost = math.fsum(_up(p) for p, q in atoms if q == 0)
    never = math.fsum(_up(q) for p, q in atoms if p == 0)
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
        return near, 0.0, 0.0, _up(p), _up(abs(place - near)) * grid.h
    node = math.floor(float(place.mid()))
    x, h = ball(grid.step * node).exp(), ball(grid.step)
    b = (p - x * q) / (1 - (-h).exp())
    a = p - b
    if not (_sharp(a) and _sharp(b)):
        raise NotConfirmed("an atom at a node")
    return node, _up(a), _up(b), 0.0, 0.0


def _widened(made: Cells, nodes: Sequence[int]) -> Cells:
    """Room for these nodes and for the cells above them."""
    last = made.first + len(made.a)
    low, high = min([made.first, *nodes]), max([last, *(node + 1 for node in nodes)])
    if not high - low < MOST_NODES:
        raise NotConfirmed("too many cells")
    left, right = made.first - low, high - last
    if (left and made.below[0] > 0) or (right and made.above[0] > SPILL):
        raise NotConfirmed("an atom outside of the span")
    return replace(
        made,
        first=low,
        a=np.pad(made.a, (left, right)),
        b=np.pad(made.b, (left, right)),
        on=np.pad(made.on, (left, right)),
    )


def _atoms(pair: Pair, grid: Grid) -> Cells:
    return _mixed_atoms(pair, ball(1), grid)


def _mixed_atoms(pair: Pair, r: Ball, grid: Grid) -> Cells:
    outcomes, rest = _OUTCOMES[type(pair)](pair, grid)
    made = _with_atoms(_nothing(), [_mixture(mass, r) for mass in outcomes], grid)
    # Outcomes left out may lie at either end.
    p, q = _up_to(_mixture(rest, r))
    below, above = made.below, made.above
    return replace(made, below=(below[0] + p, below[1] + q), above=(above[0] + p, above[1] + q))


def _listed(pair: Atoms, grid: Grid) -> tuple[list[Mass], Mass]:
    if len(pair.outcomes) > MOST_ATOMS:
        raise NotConfirmed("too many atoms")
    return [(ball(p), ball(q)) for p, q in pair.outcomes], (ball(0), ball(0))


def _nothing() -> Cells:
    return Cells(0, np.zeros(1), np.zeros(1), np.zeros(2), (0.0, 0.0), (0.0, 0.0), 0.0)


def _discrete_normal(pair: DiscreteNormal, grid: Grid) -> tuple[list[Mass], Mass]:
    """Outcomes k with P mass f(k - shift) and Q mass f(k), f(k) proportional to exp(-k^2 / 2v)."""
    if is_symbolic(pair.shift) or pair.shift.denominator != 1:
        raise NotConfirmed("a shift that is no integer")
    shift, double = int(pair.shift), 2 * ball(pair.variance)
    rare = -math.log(min(grid.tail, SHARP_TAIL))
    reach = math.ceil(math.sqrt(rare * float(double.mid()))) + 2
    span = range(-reach - abs(shift), reach + abs(shift) + 1)
    if len(span) > MOST_ATOMS:
        raise NotConfirmed("too many atoms")
    density = {k: (-ball(k * k) / double).exp() for k in span}
    # Beyond the last integer densities fall by this factor at least.
    last = span.stop - 1
    beyond = density[last] / (1 - (-ball(2 * last) / double).exp())
    whole = sum(density.values(), ball(0))
    whole = whole.union(whole + 2 * beyond)
    inner = range(-reach + max(shift, 0), reach + min(shift, 0) + 1)
    outcomes = [(density[k - shift] / whole, density[k] / whole) for k in inner]
    p, q = (ball(1) - sum(masses, ball(0)) for masses in zip(*outcomes, strict=True))
    return outcomes, (p.max(ball(0)), q.max(ball(0)))


_OUTCOMES: dict[type[Pair], Callable[[Any, Grid], tuple[list[Mass], Mass]]] = {
    Atoms: _listed,
    DiscreteNormal: _discrete_normal,
}


# --- swapped and spliced -------------------------------------------------------------------------


def _swapped(pair: Swapped, grid: Grid) -> Cells:
    return cells(pair.base, grid).swapped(grid.h)


def _spliced(pair: Spliced, grid: Grid) -> Cells:
    """Losses above 0 of the one pair, below 0 of the other; at loss 0 the rest of both masses.

    The two meet at x = 1, so that the rests of P and of Q are equal.
    """
    if not _mirrored(pair):
        raise NotConfirmed("Spliced")
    right, left = cells(pair.above, grid), cells(pair.below, grid)
    if any((*right.infinite, *left.infinite)):
        raise NotConfirmed("Spliced with infinite losses")
    zero, centre = -right.first, -left.first
    if not (0 <= zero < len(right.a) and 0 < centre < len(left.on)):
        raise NotConfirmed("Spliced without a loss of 0")
    a = np.concatenate((left.a[:centre], right.a[zero:]))
    b = np.concatenate((left.b[:centre], right.b[zero:]))
    on = np.concatenate((left.on[:centre], right.on[zero:]))
    relative = right.relative + left.relative
    on[centre] = 0.0
    used = math.fsum((*a, *b, *on, left.below[0], right.above[0]))
    rest = 1 - used
    if not rest > 1e-3:
        raise NotConfirmed("Spliced with little mass at 0")
    on[centre] = rest
    relative = relative + (relative + 8 * UNIT) / rest
    return Cells(
        left.first, a, b, on, left.below, right.above, relative, max(left.shift, right.shift)
    )


def _mirrored(pair: Spliced) -> bool:
    above, below = pair.above, pair.below
    return isinstance(above, Mixed) and Mixed(above.base.swapped, above.rate).swapped == below


_MAKERS: dict[type[Pair], Callable[[Any, Grid], Cells]] = {
    Normal: _mixed,
    LaplaceShift: _mixed,
    Mixed: _mixed,
    Atoms: _atoms,
    DiscreteNormal: _atoms,
    Swapped: _swapped,
    Spliced: _spliced,
}
