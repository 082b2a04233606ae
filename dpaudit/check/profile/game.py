"""Rounds of a replaced record's batches, from their triangles: the game played a second time.

With the notation and the proof of :mod:`dpaudit.profiles.grid.triangles`: one round's laws are
(1 - q) N(y) + q N(x) and (1 - q) N(y) + q N(x'), |x - y| = |x - x'| = mu, |x' - y|^2 = v mu^2, or
those swapped.  An event "loss above e" has masses a, b, c under N(y), N(x) and N(x'):

    delta(e) = (1 - q) a + q b - e^e ((1 - q) a + q c),    Q = (1 - q) a + q c its slope in e^e.

Here the points of the trapezoid rule lie between the accountant's, masses are of erfc, and from
below a chord is lowered to the tangents at its ends, whose slopes are those Q.  delta of t rounds
is the largest, over the triangles, of one round's mean of delta of t - 1, whatever is chosen by
what was released; between two triangles delta is that of the first above e = 0, else the second's.
Of a witness the step, the number of nodes and that of cells are taken: any give true bounds.
Sources: dpaudit 2026, proof at the accountant's triangles; Trefethen, Weideman 2014, Theorem 5.1;
Higham 2002, Theorem 24.2 (FFT).
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from scipy import special

from dpaudit.check.profile.cells import UNIT, Floats, NotConfirmed
from dpaudit.nodes.pairs import Replaced

MOST_NODES, MOST_CELLS, MOST_ROUNDS, MOST_LOSSES = 20_000, 128, 10_000, 24_000
PLACES = (0.0, 1.0)
TAIL, PRECISION, SPAN = 7.3, 46.0, 9.8
# Of erfc, in roundings.
CDF = 64
Order = tuple[Floats, Floats, Floats]


def played_delta(
    pair: Replaced, times: int, epsilon: float, shape: tuple[float, int, int], sign: int
) -> float:
    """A bound of delta at every epsilon from this one on (above), or up to it (below).

    ``shape``: step, nodes, cells.  Errors: NotConfirmed for numbers that are out of reach.
    """
    step, nodes, cells = shape
    mu, rate = float(pair.mu), float(pair.rate)
    fits = 1e-3 <= mu <= 6 and 1e-8 <= rate <= 0.9 and 1e-9 < step < 1 and times <= MOST_ROUNDS
    sized = 2 <= cells <= MOST_CELLS and 2 <= nodes <= MOST_NODES
    if not (fits and sized and math.log1p(rate * math.exp(10 * mu)) < step * MOST_LOSSES):
        raise NotConfirmed("a game of other sizes")
    delta = _rounds(mu, rate, times, shape, sign)
    if sign < 0:
        at = math.ceil(epsilon / step - 1e-12)
        return float(delta[at]) if 0 <= at < nodes else 0.0
    at = math.floor(epsilon / step)
    if not 0 <= at < nodes - 1:
        return 1.0
    share = math.expm1(epsilon - at * step) / math.expm1(step)
    share = min(max(share * (1 - 1e-12) - 1e-12, 0.0), 1.0)
    return float(delta[at]) * (1 - share) * (1 + 1e-12) + float(delta[at + 1]) * share


@lru_cache(maxsize=4)
def _rounds(mu: float, rate: float, times: int, shape: tuple[float, int, int], sign: int) -> Floats:
    step, nodes, cells = shape
    farthest = math.log1p(rate * math.expm1((TAIL + mu / 2) * mu)) / step
    losses: Floats = step * np.arange(math.ceil(farthest), dtype=np.float64)
    if sign > 0:
        half = [math.sin(math.pi * k / (cells // 2) / 2) ** 2 for k in range(cells // 2 + 1)]
        known = [_either_way(mu, rate, v, losses) for v in half]
        path = [*known, *((back, forth) for forth, back in known[-2::-1])]
        made = [_chords(path[k][0], path[k + 1][1], losses) for k in range(len(path) - 1)]
    else:
        (first, last), (middle, other) = (_either_way(mu, rate, v, losses) for v in PLACES)
        made = [_tangents(p, q, losses) for p, q in ((first, last), (middle, other), (last, first))]
    return _recursion(made, times, step, nodes, sign)


def _cdf(z: Floats) -> Floats:
    found: Floats = special.erfc(z * -math.sqrt(0.5)) / 2
    return found


def _together(
    rate: float, losses: Floats, masses: tuple[Floats, Floats, Floats], growth: Floats | float
) -> Order:
    """delta, the slope's size Q, and the error of delta (and of exp(loss) Q)."""
    a, b, c = masses
    x = np.exp(losses)
    q = (1 - rate) * a + rate * c
    size = a + rate * b + x * q
    rise = np.expm1(losses)
    delta = rate * (b - x * c) - (1 - rate) * rise * a
    off = 1.01 * UNIT * size * (2 * CDF + 32 + growth) + 1e-18 * x
    return delta, q, off


def _order(mu: float, rate: float, v: float, losses: Floats) -> Order:
    """P the mixture with N(x): its ratio is far out on the side of x."""
    if v == 0:
        z = np.log1p(np.expm1(losses) / rate) / mu
        a, b = _cdf(-z - mu / 2), _cdf(mu / 2 - z)
        return _together(rate, losses, (a, b, a), 40 * (2 + z + mu) * (2 + z + mu + 1 / mu))
    return _integrals(rate, losses, (mu * mu, v * mu * mu, v * mu * mu / 2))


def _back(mu: float, rate: float, v: float, losses: Floats) -> Order:
    """The same triangle, P and Q exchanged."""
    if v != 0:
        return _integrals(rate, losses, (v * mu * mu, mu * mu, v * mu * mu / 2))
    # r < 1 - (1 - exp(-loss)) / q; at the last such losses the one before bounds delta.
    r = 1 + np.expm1(-losses) / rate
    held = r > 1e-5
    z = np.log(np.where(held, r, 1.0)) / mu
    a, b = np.where(held, _cdf(z + mu / 2), 0.0), np.where(held, _cdf(z - mu / 2), 0.0)
    shift = 16 * (1 + 1 / np.where(held, r, 1.0)) / mu + 40 * (np.abs(z) + mu)
    density = np.exp(-((z + mu / 2) ** 2) / 2) * np.exp(losses)
    delta, q, off = _together(rate, losses, (a, a, b), 40.0)
    off = np.where(held, off + 4 * UNIT * density * shift, 0.0)
    last = int(np.count_nonzero(held)) - 1
    off[~held & (r > -1e-5)] = delta[last] + off[last]
    return delta, q, off


def _either_way(mu: float, rate: float, v: float, losses: Floats) -> tuple[Order, Order]:
    """A triangle and the swapped one, which is the same if it is equilateral."""
    order = _order(mu, rate, v, losses)
    return order, order if v == 1 else _back(mu, rate, v, losses)


def _integrals(rate: float, losses: Floats, gram: tuple[float, float, float]) -> Order:
    """Masses a, b, c by the trapezoid rule over Y, at points half a step off 0."""
    xx, yy, xy = gram
    s, g = math.sqrt(yy), xy / yy
    tau = math.sqrt(xx - xy * g)
    b_of_d = max(g, 1 - g) * s / tau
    d = min(1.5, 2.8 / s, 2.8 / b_of_d)
    h = 2 * math.pi * d / (PRECISION + d * d * (1 + b_of_d**2) / 2)
    z = (np.arange(-math.ceil(SPAN / h), math.ceil(SPAN / h)) + 0.5) * h
    weights = np.exp(-z * z / 2) * (h / math.sqrt(2 * math.pi))
    moved = np.log((1 - rate) / rate) + np.log(np.maximum(np.expm1(losses), 1e-300))
    found = []
    for x_mean, y_mean in ((0.0, 0.0), (xx, xy), (xy, yy)):
        y = s * z + y_mean - yy / 2
        middle = x_mean - xx / 2 + g * s * z
        rows = [
            _cdf((middle - np.logaddexp(m, loss + y)) / tau) @ weights
            for m, loss in zip(moved.tolist(), losses.tolist(), strict=True)
        ]
        found.append(np.array(rows))
    far = s * (SPAN + 1) + xx + yy + float(losses[-1]) + abs(math.log(rate)) + 1
    return _together(rate, losses, (found[0], found[1], found[2]), 700 * far / tau + 8 * len(z))


def _either_side(forth: Floats, back: Floats, losses: Floats, *, of_delta: bool) -> Floats:
    """Values at -losses and losses; delta at a negative one by that of the swapped pair."""
    away = np.exp(-losses[1:]) * back[1:] - (np.expm1(-losses[1:]) if of_delta else 0.0)
    found: Floats = np.concatenate((away[::-1], forth))
    return found


def _masses(delta: Floats, step: float) -> Floats:
    """P masses at the nodes of the chords of delta: kinks of its slope, times exp(loss)."""
    up = np.diff(delta) / math.expm1(step)
    kinks = np.empty(len(delta))
    kinks[0] = 1 - delta[0] + up[0]
    kinks[1:-1] = up[1:] - math.exp(step) * up[:-1]
    kinks[-1] = -math.exp(step) * up[-1]
    return np.clip(kinks, 0.0, None)


def _values(masses: Floats, losses: Floats) -> tuple[Floats, float]:
    """sum m max(0, 1 - exp(e - l)) at the nodes, by sums of positive numbers; its rounding."""
    step = float(losses[1] - losses[0])
    slopes = np.cumsum((masses * np.exp(-losses))[::-1])[::-1]
    parts = slopes[1:] * np.exp(losses[:-1]) * math.expm1(step)
    found = np.append(np.cumsum(parts[::-1])[::-1], 0.0)
    return found, UNIT * (4 * len(losses) + 32 * (1 + float(losses[-1])))


def _chords(above: Order, below: Order, losses: Floats) -> tuple[Floats, float]:
    """Masses whose profile, with the number added, is at least delta everywhere."""
    upper = [np.minimum(delta + off, 1.0) for delta, _, off in (above, below)]
    delta = _either_side(upper[0], upper[1], losses, of_delta=True)
    delta[len(losses) - 1] = max(upper[0][0], upper[1][0])
    delta = np.minimum.accumulate(delta)
    nodes = np.concatenate((-losses[:0:-1], losses))
    masses = _masses(delta, float(losses[1]))
    own, rounding = _values(masses, nodes)
    missing = max(float((delta - own * (1 - rounding)).max()), 1 - math.fsum(masses))
    return masses, missing + 16 * UNIT


def _tangents(above: Order, below: Order, losses: Floats) -> tuple[Floats, float]:
    """Masses whose profile, with the number taken off, is nowhere above delta."""
    step = float(losses[1])
    nodes = np.concatenate((-losses[:0:-1], losses))
    x = np.exp(nodes)
    delta = _either_side(above[0], below[0], losses, of_delta=True)
    off = _either_side(above[2], below[2], losses, of_delta=False) + 8 * UNIT
    # Q of the swapped pair's event is P of it, less delta's share: delta = P - x Q.
    p_back = below[0] + np.exp(losses) * below[1]
    q = np.concatenate(((1 - p_back[:0:-1]), above[1]))
    width = np.diff(x)
    chord = np.diff(delta) / width
    left, right = np.maximum(chord + q[:-1], 0.0), np.maximum(-q[1:] - chord, 0.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        gap = np.nan_to_num(left * right / (left + right)) * width
    worst = np.maximum(off[1:], off[:-1])
    gap = gap * (1 + 1e-9) + 24 * worst * (1 + math.exp(step))
    lowered = delta - np.maximum(np.append(0.0, gap), np.append(gap, 0.0))
    line = 1 - x
    low, high = np.flatnonzero((lowered <= line) & (x < 1)), np.flatnonzero(lowered <= 0)
    start = int(low[-1]) + 2 if len(low) else 1
    end = int(high[0]) - 1 if len(high) else len(x) - 1
    if start >= end:
        return np.zeros(len(x)), 0.0
    lowered[:start], lowered[end:] = line[:start], 0.0
    masses = _masses(_convex(x, lowered), step)
    own, rounding = _values(masses, nodes)
    over = float((own * (1 + rounding) - np.maximum(lowered, np.maximum(line, 0))).max())
    return masses, max(over, math.fsum(masses) - 1, 0.0) + 16 * UNIT


def _convex(x: Floats, y: Floats) -> Floats:
    """The largest convex function below points, at those points."""
    hull = [0]
    for i in range(1, len(x)):
        while len(hull) > 1:
            j, k = hull[-2:]
            if (y[k] - y[j]) / (x[k] - x[j]) < (y[i] - y[j]) / (x[i] - x[j]):
                break
            hull.pop()
        hull.append(i)
    return np.asarray(np.interp(x, x[hull], y[hull]), dtype=np.float64)


def _recursion(
    made: list[tuple[Floats, float]], times: int, step: float, nodes: int, sign: int
) -> Floats:
    """delta_t at losses 0, step, ...: sums of each choice's masses times delta_(t-1)."""
    wide = len(made[0][0])
    half = wide // 2
    size = 1 << (nodes + 2 * wide).bit_length()
    choices = np.array([np.fft.rfft(masses, size) for masses, _ in made])
    weights = np.array([masses.sum() for masses, _ in made])[:, None]
    moved = np.array([shift for _, shift in made])[:, None]
    longest = max(float(np.sqrt(masses @ masses)) for masses, _ in made)
    mirror = np.exp(-step * np.arange(half, 0, -1))
    delta = np.zeros(nodes)
    for _ in range(times):
        rest = float(delta[-1]) if sign > 0 else 0.0
        reflected = np.full(half, rest)
        inside = min(half, nodes - 1)
        reflected[half - inside :] = delta[inside:0:-1]
        line = np.concatenate((1 - mirror + mirror * reflected, delta)) - rest
        sums = np.fft.irfft(np.fft.rfft(line, size) * choices, size)
        off = 40 * math.log2(size) * UNIT * longest * float(np.sqrt(line @ line)) + 64 * UNIT
        options = sums[:, wide - 1 : wide - 1 + nodes] + rest * weights + sign * (moved + off)
        delta = np.clip(options.max(axis=0), 0, 1)
    return delta
