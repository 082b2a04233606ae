"""Rounds of a replaced record's batches, from their triangles: the game played a second time.

With the notation and the proof of :mod:`dpaudit.profiles.grid.triangles`: one round's laws are
(1 - q) N(y) + q N(x) and (1 - q) N(y) + q N(x'), |x - y| = |x - x'| = mu, |x' - y|^2 = v mu^2, or
those swapped.  An event "loss above e" has masses a, b, c under N(y), N(x) and N(x'):

    delta(e) = (1 - q) a + q b - e^e ((1 - q) a + q c),    Q = (1 - q) a + q c its slope in e^e.

Here the points of the trapezoid rule lie between the accountant's, masses are of erfc, and from
below lines touch delta between two nodes, with slopes that are those Q.  delta of t rounds
is the largest, over the triangles, of one round's mean of delta of t - 1, whatever is chosen by
what was released; between two triangles delta is at most that of the first above e = 0, else the
second's.  Sums are of delta times
exp(tilt e), so that their errors are relative to small deltas.
The witness states the step, the numbers of nodes and cells, the tilt and the mass that a round
leaves out: any give true bounds.
Sums are FFTs of N = k 2^m numbers, k = 2, 3 or 5.  Stages of radix r, of at most r + 6 operations
an output, make either transform forward err by 12 u log2 N of its 2-norm at most
(:mod:`dpaudit.check.profile.fourier`), and the one back by 8 u log2 N of the sum of sizes that it
adds up, as r + 6 <= 8 log2 r; that sum, over N, is at most the product of the two 2-norms, and so
is what the others' errors come to.  2 * 12 + 8 = 32 of ``FFT_FACTOR`` = 40; products have the rest.
Sources: dpaudit 2026, proof at the accountant's triangles; Trefethen, Weideman 2014, Theorem 5.1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from dpaudit.check.profile.cells import UNIT, NotConfirmed
from dpaudit.exact.arrays import Floats, np, special
from dpaudit.pairs.core import Replacement

# Sizes of a game that the checker plays, in seconds: nodes of delta, cells of triangles, rounds,
# losses of a round.
MOST_NODES, MOST_CELLS, MOST_ROUNDS, MOST_LOSSES = 20_000, 128, 10_000, 24_000
PLACES = (0.0, 1.0)  # moves that every game has: both ends of the triangle
PRECISION = 46.0  # nats: a trapezoid sum errs by exp(-46), relative to delta
OUT = 16.0  # noises: how far out delta may lie for that precision
ROWS = 32  # losses in memory at a time
CDF = 2048  # roundings by which erfc errs up to 40 noises
FFT_FACTOR = 40  # roundings of both 2-norms by which a sum by FFT errs, for a stage of radix 2
# Angles of the cells of swapped triangles, from the equilateral one.
TURNED = (0.0, 0.1, 0.3, 1.0)
ON_THE_LINE = 1e-11  # how near two values count as equal: rounding is far below
# Steps of nodes: one up to so many, then a part of the loss.
SINGLE, PART = 24, 32
Order = tuple[Floats, Floats, Floats]


@dataclass(frozen=True)
class Shape:
    """The shape of a game, as a witness states it, within what the checker plays."""

    step: float
    nodes: int
    cells: int
    tilt: float
    tail: float

    def farthest(self, mu: float, rate: float) -> float:
        """A loss beyond which one round leaves out ``tail`` of the record's part."""
        out = -float(special.ndtri(self.tail)) + mu / 2
        return math.log1p(rate * math.expm1(out * mu))

    def fits(self, mu: float, rate: float, times: int) -> bool:
        """Whether numbers are in reach."""
        in_range = 1e-3 <= mu <= 6 and 1e-8 <= rate <= 0.9 and times <= MOST_ROUNDS
        inside = (
            2 <= self.cells <= MOST_CELLS
            and 2 <= self.nodes <= MOST_NODES
            and 1e-9 < self.step < 10
        )
        if not (in_range and inside and 1e-60 < self.tail < 0.1 and self.tilt >= 0):
            return False
        last = self.farthest(mu, rate)
        return last < self.step * MOST_LOSSES and self.tilt * (last + self.step * self.nodes) < 600


@dataclass(frozen=True)
class Move:
    """Masses at every node, what they lack relative to delta, the mass at an infinite loss."""

    masses: Floats
    lack: float
    rest: float


def played_delta(pair: Replacement, times: int, epsilon: float, shape: Shape, sign: int) -> float:
    """A bound of delta at every epsilon from this one on (above), or up to it (below).

    Errors: NotConfirmed for numbers that are out of reach.
    """
    mu, rate = float(pair.mu), float(pair.rate)
    if not shape.fits(mu, rate, times):
        raise NotConfirmed("a game of other sizes")
    step, nodes = shape.step, shape.nodes
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


class Triangles:
    """One round's triangles, at some of a grid's losses of either sign."""

    def __init__(self, mu: float, rate: float, shape: Shape) -> None:
        self.mu, self.rate, self.step = mu, rate, shape.step
        self.most = math.ceil(shape.farthest(mu, rate) / shape.step) + 1
        at = [0]
        while at[-1] < self.most:
            at.append(min(self.most, at[-1] + 1 + max(0, at[-1] - SINGLE) // PART))
        self.at = np.array(at)
        self.losses: Floats = shape.step * self.at
        self.x: Floats = np.exp(np.concatenate((-self.losses[:0:-1], self.losses)))
        self.known: dict[float, tuple[Floats, Floats]] = {}

    def orders(self, angle: float, losses: Floats) -> tuple[Order, Order]:
        """delta, Q and errors of the triangle at an angle in [-1, 1]: of (P, Q), of (Q, P)."""
        v = math.sin(math.pi / 2 * (1 - abs(angle))) ** 2
        orders = _order(self.mu, self.rate, v, losses), _back(self.mu, self.rate, v, losses)
        return orders if angle <= 0 else orders[::-1]

    def most_of(self, angle: float) -> tuple[Floats, Floats]:
        """delta, raised by its error, of (P, Q) and (Q, P) at the nodes."""
        if angle not in self.known:
            first, other = self.orders(angle, self.losses)
            self.known[angle] = (
                np.minimum(first[0] + first[2], 1),
                np.minimum(other[0] + other[2], 1),
            )
        return self.known[angle]

    def between(self, first: float, second: float) -> Floats:
        """At all nodes, above every triangle from the first to the second."""
        forth, back = self.most_of(first)[0], self.most_of(second)[1]
        delta = _either_side(forth, back, self.losses)
        delta[len(self.losses) - 1] = max(forth[0], back[0])
        return delta

    def cells(self, angles: list[float]) -> list[Move]:
        """A move for each cell between neighbouring angles."""
        return [self.chords(self.between(a, b)) for a, b in pairwise(angles)]

    def chords(self, delta: Floats) -> Move:
        """Masses whose profile, with what is added, is above delta everywhere."""
        delta = np.minimum.accumulate(delta)
        last_delta = float(delta[-1])
        masses = _masses(delta - last_delta, self.x)
        own = _values(masses, self.x)
        lack = max(_highest(delta - last_delta, own), (1 - last_delta) / math.fsum(masses)) - 1
        return Move(self.everywhere(masses), max(lack, 0.0) + self.rounding, last_delta)

    def tangents(self, angle: float) -> Move:
        """Masses whose profile, with what is taken off, is nowhere above delta."""
        middle = (self.losses[:-1] + self.losses[1:]) / 2
        forth, back = self.orders(angle, middle)
        touch = np.exp(np.concatenate((-middle[::-1], middle)))
        delta = np.concatenate((_swapped_side(back[0], middle)[::-1], forth[0]))
        # Q of the swapped pair's event is P of it, less delta's share: delta = P - x Q.
        q = np.concatenate(((1 - back[0] - np.exp(middle) * back[1])[::-1], forth[1]))
        off = np.concatenate(((back[2] * np.exp(-middle))[::-1], forth[2]))
        off = off + 8 * UNIT * np.minimum(delta, 1)
        off = off * (1 + 2 * np.diff(self.x) / touch)
        at_left = delta + q * (touch - self.x[:-1]) - off
        at_right = delta - q * (self.x[1:] - touch) - off
        lowered = np.concatenate(
            (at_left[:1], np.minimum(at_left[1:], at_right[:-1]), at_right[-1:])
        )
        x, line = self.x, 1 - self.x
        # The last place on the line, but for rounding, is kept; else one more is left out.
        low = np.flatnonzero((lowered <= line + ON_THE_LINE) & (x < 1))
        high = np.flatnonzero(lowered <= 0)
        last = int(low[-1]) if len(low) else 0
        if lowered[last] < line[last] - ON_THE_LINE:
            last += 1
        end = int(high[0]) - 1 if len(high) else len(x) - 1
        if last + 1 >= end:
            return Move(np.zeros(2 * self.most + 1), 0.0, 0.0)
        lowered[last] = min(float(lowered[last]), float(line[last]))
        lowered[:last], lowered[end:] = line[:last], 0.0
        masses = _masses(_convex(x, lowered), x)
        limit = np.maximum(lowered, np.maximum(line, 0))
        over = max(_highest(_values(masses, x), limit), math.fsum(masses)) - 1
        return Move(self.everywhere(masses), max(over, 0.0) + self.rounding, 0.0)

    @property
    def rounding(self) -> float:
        """Relative: of :func:`_values`, and of values and means of them."""
        return UNIT * (4 * len(self.x) + 32 * (2 + float(self.losses[-1])))

    def everywhere(self, masses: Floats) -> Floats:
        """Masses at every place of the grid."""
        spread = np.zeros(2 * self.most + 1)
        spread[np.concatenate((self.most - self.at[:0:-1], self.most + self.at))] = masses
        return spread


@lru_cache(maxsize=4)
def _rounds(mu: float, rate: float, times: int, shape: Shape, sign: int) -> Floats:
    triangles = Triangles(mu, rate, shape)
    if sign < 0:
        moves = [triangles.tangents(angle) for angle in (-1.0, 0.0, 1.0)]
    else:
        moves = triangles.cells(np.linspace(-1, 0, shape.cells + 1).tolist())
        moves += triangles.cells(list(TURNED))
    return _recursion(moves, times, shape, sign)


def _cdf(z: Floats) -> Floats:
    values: Floats = special.erfc(z * -math.sqrt(0.5)) / 2
    return values


def _together(
    rate: float,
    losses: Floats,
    masses: tuple[Floats, Floats, Floats],
    growth: Floats | float,
    left: float = 0.0,
) -> Order:
    """delta of an event, its slope's size Q, and the error of delta (and of exp(loss) Q).

    ``masses``: of the event "loss above e" under N(y), N(x) and N(x') (the module's a, b, c).
    ``growth``: roundings of the masses beyond those of ``CDF``; ``left``: what a quadrature leaves
    out of each mass.
    """
    a, b, c = masses
    x = np.exp(losses)
    q = (1 - rate) * a + rate * c
    size = a + rate * b + x * q
    rise = np.expm1(losses)
    delta = rate * (b - x * c) - (1 - rate) * rise * a
    off = 1.01 * UNIT * size * (2 * CDF + 32 + growth) + left * x
    return delta, q, off


def _order(mu: float, rate: float, v: float, losses: Floats) -> Order:
    """delta, Q and errors of the triangle's (P, Q), P being the mixture with N(x)."""
    if v == 0:
        z = np.log1p(np.expm1(losses) / rate) / mu
        a, b = _cdf(-z - mu / 2), _cdf(mu / 2 - z)
        return _together(rate, losses, (a, b, a), 40 * (2 + z + mu) * (2 + z + mu + 1 / mu))
    return _integrals(rate, losses, (mu * mu, v * mu * mu, v * mu * mu / 2))


def _back(mu: float, rate: float, v: float, losses: Floats) -> Order:
    """delta, Q and errors of the triangle's (Q, P): P and Q exchanged."""
    if v != 0:
        return _integrals(rate, losses, (v * mu * mu, mu * mu, v * mu * mu / 2))
    # r < 1 - (1 - exp(-loss)) / q; at the last such losses the one before bounds delta.
    r = 1 + np.expm1(-losses) / rate
    usable = r > 1e-5
    z = np.log(np.where(usable, r, 1.0)) / mu
    a, b = np.where(usable, _cdf(z + mu / 2), 0.0), np.where(usable, _cdf(z - mu / 2), 0.0)
    shift = 16 * (1 + 1 / np.where(usable, r, 1.0)) / mu + 40 * (np.abs(z) + mu)
    density = np.exp(-((z + mu / 2) ** 2) / 2) * np.exp(losses)
    delta, q, off = _together(rate, losses, (a, a, b), 40.0)
    off = np.where(usable, off + 4 * UNIT * density * shift, 0.0)
    last = int(np.count_nonzero(usable)) - 1
    off[~usable & (r > -1e-5)] = delta[last] + off[last]
    return delta, q, off


def _integrals(rate: float, losses: Floats, gram: tuple[float, float, float]) -> Order:
    """Masses a, b, c by the trapezoid rule over Y, at points half a step off 0."""
    blocks = [losses[i : i + ROWS] for i in range(0, len(losses), ROWS)]
    rows = [_integrals_near(rate, block, gram) for block in blocks]
    delta, q, off = (np.concatenate(columns) for columns in zip(*rows, strict=True))
    return delta, q, off


def _integrals_near(rate: float, losses: Floats, gram: tuple[float, float, float]) -> Order:
    """Masses a, b, c for a few losses that rise, by one rule whose error ``left_out`` bounds.

    With Y = s z - s^2 / 2 the masses are integrals over z of a normal density around 0, xy / s and
    s, times the normal tail beyond ``away`` (with N(x) tau nearer).  The tail is analytic for
    s |Im z| < pi, and at most exp((bend Im z)^2 / 2) there.  A strip of half width d so allows the
    step h at an error of exp(-precision); h is longest at d = sqrt(2 precision / (1 + bend^2)).
    Points at which each density times its tail is below exp(-precision) at the first loss are left
    out of all: tails fall with the loss.
    """
    xx, yy, xy = gram
    s, g, most = math.sqrt(yy), xy / yy, math.sqrt(max(xx, yy))
    tau = math.sqrt(xx - xy * g)
    out = math.log1p(math.expm1(float(losses[-1])) / rate) / most - most / 2
    precision = PRECISION + float(losses[-1]) + min(max(out, 0.0), OUT) ** 2 / 2
    bend = max(g, 1 - g) * s / tau
    d = min(2.8 / s, math.sqrt(2 * precision / (1 + bend**2)))
    h = 2 * math.pi * d / (precision + d * d * (1 + bend**2) / 2)
    span = math.sqrt(2 * precision)
    last = math.ceil((span + max(s, xy / s)) / h)
    z = (np.arange(-math.ceil(span / h), last, dtype=np.float64) + 0.5) * h
    odds = -np.expm1(-losses) * ((1 - rate) / rate)

    def away(odds: Floats, loss: Floats, z: Floats) -> Floats:
        linear = loss - (g * s * z - xx / 2)
        noises: Floats = (np.log(odds + np.exp(s * z - yy / 2)) + linear) / tau
        return noises

    first = away(odds[0], losses[0], z)
    heights = [
        (z - mean) ** 2 + np.maximum(first - nearer, 0) ** 2
        for mean, nearer in ((0.0, 0.0), (xy / s, tau), (s, 0.0))
    ]
    z = z[np.minimum(np.minimum(heights[0], heights[1]), heights[2]) < 2 * precision]
    a_weights, b_weights, c_weights = (
        np.exp(-((z - mean) ** 2) / 2) * (h / math.sqrt(2 * math.pi)) for mean in (0.0, xy / s, s)
    )
    noises = away(odds[:, None], losses[:, None], z[None, :])
    tails = _cdf(-noises)
    masses = tails @ a_weights, _cdf(tau - noises) @ b_weights, tails @ c_weights
    far = s * (span + 1) + 2 * (xx + yy) + float(losses[-1]) + abs(math.log(rate)) + 1
    growth = 1100 * far / tau + 4 * (span + most) ** 2 + 8 * len(z)
    return _together(rate, losses, masses, growth, 24 * math.exp(-precision))


def _swapped_side(back: Floats, losses: Floats) -> Floats:
    """delta at -losses, from that of the swapped pair."""
    swapped: Floats = np.exp(-losses) * back - np.expm1(-losses)
    return swapped


def _either_side(forth: Floats, back: Floats, losses: Floats) -> Floats:
    both_sides: Floats = np.concatenate((_swapped_side(back[1:], losses[1:])[::-1], forth))
    return both_sides


def _masses(delta: Floats, x: Floats) -> Floats:
    """P masses at the nodes of the chords of delta: kinks of its slope, times exp(loss)."""
    falls = np.append(np.insert(np.diff(delta) / np.diff(x), 0, (delta[0] - 1) / x[0]), 0.0)
    return np.clip(np.diff(falls) * x, 0.0, None)


def _values(masses: Floats, x: Floats) -> Floats:
    """sum m max(0, 1 - exp(e - l)) at the nodes, by sums of positive numbers."""
    slopes = np.cumsum((masses / x)[::-1])[::-1]
    parts = slopes[1:] * np.diff(x)
    return np.append(np.cumsum(parts[::-1])[::-1], 0.0)


def _highest(one: Floats, other: Floats) -> float:
    """The largest ratio where the first is above 0; infinite where the other is not."""
    positive = one > 0
    if np.any(other[positive] <= 0):
        return math.inf
    return float((one[positive] / other[positive]).max(initial=0.0))


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


def _recursion(made: list[Move], times: int, shape: Shape, sign: int) -> Floats:
    """delta_t at losses 0, step, ...: sums of each choice's masses times delta_(t-1)."""
    nodes, step = shape.nodes, shape.step
    wide = len(made[0].masses)
    half = wide // 2
    needed = nodes + 2 * wide
    size = min(k << max((needed // k).bit_length(), 1) for k in (2, 3, 5))
    at = step * np.arange(-half, nodes)
    turned = [move.masses * np.exp(shape.tilt * step * np.arange(-half, half + 1)) for move in made]
    choices = np.array([np.fft.rfft(masses, size) for masses in turned])
    weights = np.array([move.masses.sum() for move in made])[:, None]
    # Roundings of exponentials are relative to their exponents.
    own = UNIT * (64 + 8 * shape.tilt * step * (wide + nodes))
    scales = np.array([1 + sign * (move.lack + own) for move in made])[:, None]
    lost = np.array([move.rest if sign > 0 else 0.0 for move in made])[:, None]
    longest = max(float(np.sqrt(masses @ masses)) for masses in turned)
    up, down = np.exp(shape.tilt * at), np.exp(-shape.tilt * at[half:])
    mirror = np.exp(at[:half])
    delta = np.zeros(nodes)
    for _ in range(times):
        last_delta = float(delta[-1]) if sign > 0 else 0.0
        reflected = np.full(half, last_delta)
        inside = min(half, nodes - 1)
        reflected[half - inside :] = delta[inside:0:-1]
        line = (np.concatenate((1 - mirror + mirror * reflected, delta)) - last_delta) * up
        sums = np.fft.irfft(np.fft.rfft(line, size) * choices, size)[:, wide - 1 :][:, :nodes]
        off = FFT_FACTOR * math.log2(size) * UNIT * longest * float(np.sqrt(line @ line))
        options = ((sums + sign * off) * down + last_delta * weights) * scales + lost
        delta = np.clip(options.max(axis=0), 0, 1)
    return delta
