"""Normal and Laplace noise on a grid of losses, mixed with a rate or not.

The masses a and b of a cell are integrals of positive functions, so that nothing cancels: for
Laplace noise they have a closed form; for normal noise Gauss-Legendre rules serve cells that are
not too wide, part by part (the remainder is far below the roundings counted); all other cells are
done in Arb.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from dpaudit.check.profile.atoms import ON_NODE, with_atoms
from dpaudit.check.profile.cells import (
    MOST_NODES,
    SPILL,
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
from dpaudit.exact import Number
from dpaudit.exact.arrays import Floats, Integers, np
from dpaudit.pairs import Pair

# Points of a rule, and the widths up to which it serves: in units of the noise, and of the loss.
WIDEST = 0.25
# Points of a Gauss rule, and the widest panel for which they do.
RULES = ((4, 0.003), (8, 0.02), (16, WIDEST))
MOST_PARTS = 32  # parts of a cell, each with one quadrature
FARTHEST = 37.0  # noises: beyond, the normal density underflows
LARGEST_WIDTH = 0.1  # nats: of cells for which the quadrature's error is proved
LARGEST_RATIO = 64.0  # a function that bends more on a panel is bounded at its ends instead
CHUNK = 2**19  # numbers of a block: 4 MB
SMALLER = 4  # A step is made smaller by a part of this many at most, so that atoms lie on nodes.


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


def normal_mass(low: Ball | None, high: Ball | None, mean: Ball) -> Ball:
    """The mass of N(mean, 1) between two z; None is infinite.  Smaller tails are subtracted."""
    root = ball(2).sqrt()
    ends = [None if z is None else z - mean for z in (low, high)]
    if ends[0] is not None and ends[0] > 0:
        ends = [None if z is None else -z for z in reversed(ends)]
    under = [ball(k) if z is None else (-z / root).erfc() / 2 for k, z in enumerate(ends)]
    return under[1] - under[0]


def _normal(shift: Number, tail: float) -> Base:
    """The base of N(shift, 1) against N(0, 1); ``tail``: the mass that may lie beyond its span."""
    mu = ball(shift)
    m = float(mu.mid())
    if not 1e-9 < m < 1e3:
        raise NotConfirmed(f"mu = {m}")

    def between(low: Ball | None, high: Ball | None) -> Mass:
        z = [None if u is None else u / mu + mu / 2 for u in (low, high)]
        return normal_mass(z[0], z[1], mu), normal_mass(z[0], z[1], ball(0))

    def inside(u: Floats, d: Floats, moved: Floats) -> tuple[Floats, Floats, Floats]:
        farthest = np.abs(u / m + m / 2) + d / m
        error = UNIT * (128 + 16 * farthest * farthest + 8 * np.abs(u))
        error += (2 + 2 * farthest / m) * moved
        wide = (farthest > FARTHEST) | (d > LARGEST_WIDTH) | (d > MOST_PARTS * WIDEST * m)
        up, down = np.zeros(len(u)), np.zeros(len(u))
        for rule, part in by_rule(np.where(wide, np.nan, np.maximum(d / m, d))):
            up[part], down[part] = _quadrature(u[part], d[part], m, rule)
        return up, down, np.where(wide, np.inf, error)

    reach = math.sqrt(-2 * math.log(tail)) if tail > 0 else math.inf
    return Base(between, inside, (-m * (reach + m / 2), m * (reach + m / 2)))


def by_rule(widths: Floats) -> Iterator[tuple[tuple[int, int], Integers]]:
    """Cells by what their integrals take: points of a rule, and into how many parts they go."""
    below = -math.inf
    for points, widest in RULES:
        yield from _chunks(points, 1, np.flatnonzero((widths > below) & (widths <= widest)))
        below = widest
    several = np.ceil(widths / WIDEST)
    for parts in np.unique(several[several > 1]):
        yield from _chunks(points, int(parts), np.flatnonzero(several == parts))


def _chunks(points: int, parts: int, cells: Integers) -> Iterator[tuple[tuple[int, int], Integers]]:
    size = max(CHUNK // (points * parts), 1)
    for k in range(0, len(cells), size):
        yield (points, parts), cells[k : k + size]


def _quadrature(u: Floats, d: Floats, m: float, rule: tuple[int, int]) -> tuple[Floats, Floats]:
    """Integrals of e^v - e^u and of e^(u + d) - e^v over [u, u + d] of loss v, dQ(v).

    With z the normal noise and w the width of a part in z, the relative remainder of the n-point
    rule is below (n!)^4 / (2n + 1) / (2n)!^2 times 2 (w + R) w^(2n - 1) / R^(2n) times
    exp((R + w) |z| + R^2 / 2 + w^2 + m (R + w) + 2 d), for every R > 0: the largest value on a
    disc of that radius, over the part's own integral.  It is far below the roundings counted.
    """
    points, parts = rule
    width = d / m
    t, weights = np.polynomial.legendre.leggauss(points)
    t = ((np.arange(parts)[:, None] + (t + 1) / 2) / parts).ravel()
    weights = np.tile(weights / (2 * parts), parts)
    at = (u / m + m / 2)[:, None] + width[:, None] * t
    density = np.exp(u[:, None] - at * at / 2) * weights
    scale = width / math.sqrt(2 * math.pi)
    up = scale * (density * np.expm1(d[:, None] * t)).sum(axis=1)
    down = scale * np.exp(d) * (density * -np.expm1(-d[:, None] * (1 - t))).sum(axis=1)
    return up, down


def _laplace(epsilon: Number) -> Base:
    """The base of Laplace noise with largest loss epsilon."""
    largest = ball(epsilon)
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


def has_base(pair: Pair) -> bool:
    """Whether this is normal or Laplace noise."""
    return pair.gaussian_shift is not None or pair.laplace_epsilon is not None


def base_of(pair: Pair, tail: float) -> Base:
    """Errors: NotConfirmed for other noise."""
    if pair.gaussian_shift is not None:
        return _normal(pair.gaussian_shift, tail)
    if pair.laplace_epsilon is not None:
        return _laplace(pair.laplace_epsilon)
    raise NotConfirmed(f"Mixed({type(pair).__name__})")


def has_atoms(pair: Pair) -> bool:
    """Whether this is Laplace noise, sampled or not, in either direction."""
    return _drawn(pair)[0].laplace_epsilon is not None


def _drawn(pair: Pair) -> tuple[Pair, Number]:
    return pair.unswapped.sample or (pair.unswapped, Fraction(1))


def aligned(factors: Iterable[tuple[Pair, int]], step: Fraction) -> Fraction:
    """The step, or one a little smaller at which atoms of noise lie next to nodes, and beyond them.

    From below, a profile leaves 1 - x at the first node above the least loss, and is 0 from the
    last node below the largest one on: what is between a node and an atom beyond it is lost.
    """
    losses, weights = list[float](), list[float]()
    for pair, times in factors:
        base, rate = _drawn(pair)
        if base.laplace_epsilon is not None:
            for mass in _laplace(base.laplace_epsilon).atoms:
                p, q = mixture(mass, ball(rate))
                losses.append(abs(float((p / q).log().mid())))
                weights.append(times * float(p.mid()))
    largest = max(losses, default=0.0)
    cells = math.ceil(largest / step)
    if not 0 < cells < MOST_NODES:
        return step
    steps = np.append(float(step), largest / np.arange(cells, cells + cells // SMALLER + 1))
    places = np.outer(losses, 1 / steps) + ON_NODE / 2
    lost = steps * (np.asarray(weights) @ (places - np.floor(places)))
    return Fraction(float(steps[int(np.argmin(lost))]))


def mixed_noise(pair: Pair, rate: Any, grid: Grid) -> Cells:
    """The cells of normal or Laplace noise, sampled or not."""
    return noise_cells(base_of(pair, grid.tail), rate, grid)


def noise_cells(base: Base, rate: Any, grid: Grid) -> Cells:
    """((1 - r) Q + r P, Q): its P'/Q - x_i is r (e^u - w_i) with w_i = (x_i - 1 + r) / r."""
    r = ball(rate)
    first, last = _nodes(base, float(r.mid()), grid)
    a, b, error = _in_floats(base, rate, first, last, grid)
    spilled = 0.0
    for k in np.flatnonzero(~np.isfinite(error)):
        a[k], b[k], spill = _in_arb(base, r, first + int(k), grid)
        error[k], spilled = 4 * UNIT, spilled + spill
    low, high = (_edge(r, node, grid) for node in (first, last))
    below = mixture(base.between(None, low), r) if low is not None else (ball(0), ball(0))
    above = mixture(base.between(high, None), r)
    continuous = Cells(
        first=first,
        a=a,
        b=b,
        on=np.zeros(last - first + 1),
        below=both_up(below),
        above=(up(above[0]) + spilled, up(above[1]) + spilled),
        relative=float(error.max()),
    )
    return with_atoms(continuous, [mixture(mass, r) for mass in base.atoms], grid)


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
    losses: Floats = np.asarray((first + np.arange(last - first)) * h, dtype=np.float64)
    u, d, moved = losses, np.full(len(losses), h), np.asarray(4 * UNIT * np.abs(losses))
    if rate != 1:
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            over = np.expm1(losses) + r
            bend = (np.abs(np.expm1(losses)) + r) / over
            u, d = np.log(over / r), np.log1p(np.exp(losses) * math.expm1(h) / over)
            moved = 8 * UNIT * (bend + np.abs(u) + np.abs(losses))
        usable = (over > 0) & (bend < LARGEST_RATIO) & np.isfinite(u) & np.isfinite(d)
        u, d = np.where(usable, u, 0.0), np.where(usable, d, h)
        moved = np.where(usable, moved, np.inf)
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
    if all(is_sharp(mass) for mass in split):
        return up(split[0]), up(split[1]), 0.0
    spill = up(split[0]) + up(split[1])
    if spill > max(SPILL, grid.tail):
        raise NotConfirmed("a mass that is not sharp")
    return 0.0, 0.0, spill
