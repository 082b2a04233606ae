"""One round of a batch of one size, some record replaced: the profiles of its worst triangles.

Let q = b / n, and let the round add N(0, I) noise to what it reads of the batch, which any one
record replaced moves by at most m.  Fix b - 1 of the other records and one more of them: what is
read is y, x or x', at most m apart, as the batch is completed by that one, by the record, or by
what replaces it.  The laws P and Q of the release are averages over this choice (it is uniform
among the others, as b < n) of

    (1 - q) N(y) + q N(x)   and   (1 - q) N(y) + q N(x').

Every E_Q f(P / Q), f convex, is jointly convex in (P, Q), hence at most that of one triangle.

Which triangles.  Moving one corner away from the line of the other two, at right angles, adds a
positive semidefinite matrix to the Gram matrix of the corners, and scaling and noise of its own
undo it: no divergence falls.  So two sides have length m; let a be the third.  With
s = (1 - q) + q r, s' = (1 - q) + q r', r and r' the ratios of N(x) and N(x') to N(y), R = s / s':
differentiating a normal mean with respect to a covariance,

    d/dc E f(R) = -q^2 E[f''(R) r r' s / s'^2] <= 0,    c = (x - y).(x' - y),

so that where y is the corner between the two long sides, the equilateral triangle is worse.  Where
x is, v = |x' - y|^2 is in [0, m^2], |x - y| = m, c = v / 2, and

    d/dv E f(R) = q^2 (1 - q) / 2 E[f''(R) r' (s / s'^3) (r' - r)].

r > r' exactly if R > 1: what bends at R > 1 falls, what bends at R < 1 rises with v.  Where x' is
the corner, P and Q change places.  One path thus leads from v = 0 (``place`` -1: P || Q of the
sampled pair) by the equilateral triangle (0) to Q || P of that pair (1); along it delta(e) falls at
every e > 0 and rises at every e < 0.  So all triangles between two places are dominated by delta of
the first at e > 0 and of the second at e < 0.

Numbers.  At a loss e >= 0 the event R > e^e is X > t(Y) = log(A + B e^Y), A = (e^e - 1)(1 - q) / q,
B = e^e, X and Y the logs of the ratios in P and Q: given Y = its mean + s z, X is normal, and each
of three masses is an integral over z of phi(z) Phi((m(z) - t) / tau), m linear, of slope g s (the
last two with phi around inner / s and s, and with t - tau^2 for t under N(x), along one grid).
On |Im z| <= d, s d < pi, |Im t| is at most s d with the sign of Im z, so that the imaginary part of
the argument of Phi is at most b = max(g, 1 - g) s d / tau, and |Phi(u + i b)| <= exp(b^2 / 2).
The trapezoid rule of step h errs by at most 2 exp((d^2 + b^2) / 2) / (exp(2 pi d / h) - 1).
Sources: Zhu, Dong, Wang 2022, Theorem 11 (the two ends of the path); dpaudit 2026, proofs above
(the triangles between); Trefethen, Weideman 2014, Theorem 5.1.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpaudit.grids.cells import UNIT
from dpaudit.grids.discrete import Floats
from dpaudit.grids.noise import NORMAL_FACTOR, lower_normal, quantile

WIDEST = 1.6  # Bound on the half width of the strip of analyticity,
LARGEST_TURN = 2.9  # on it times the side s,
LARGEST_BEND = 3.0  # and on it times the bend of the normal part.
TRAPEZOID_NATS = 44.0  # The error of trapezoid sums is exp(-this) relative to delta.
TRAPEZOID_REACH = 16.0  # Noise multiples up to which that holds.
BLOCK_LOSSES = 48  # Losses evaluated at a time.
# The error of ``ndtr`` down to -40, in roundings (a test pins it to Arb).
NDTR_FACTOR = 2048
DENSE_NODES = 24  # Losses of the grid that are all nodes, from 0 on.
NODE_SPACING = 1 / 32  # Spacing of the later nodes, relative to the loss.
# Values this near to the line 1 - x differ from it by rounding only.
LINE_ROUNDING = 1e-11

# One order of a triangle's laws, at losses >= 0: delta, its error, and the event's mass under Q.
Order = tuple[Floats, Floats, Floats]


def phi_below(z: Floats) -> Floats:
    """Phi(z), with relative error at most ``NORMAL_FACTOR``."""
    tail = lower_normal(-np.abs(z))
    values: Floats = np.where(z < 0, tail, 1 - tail)
    return values


def at_place(mu: float, rate: float, place: float, losses: Floats) -> tuple[Order, Order]:
    """(P, Q) and (Q, P) of one triangle, at losses >= 0 that rise."""
    if place > 0:
        forth, back = at_place(mu, rate, -place, losses)
        return back, forth
    if place == -1:
        return _sampled(mu, rate, losses), _sampled_back(mu, rate, losses)
    square = (1 + place) * mu * mu
    return (
        _triangle(mu * mu, square, square / 2, rate, losses),
        _triangle(square, mu * mu, square / 2, rate, losses),
    )


def _error(size: Floats, growth: float | Floats) -> Floats:
    """The error of a sum of masses of total ``size``, if Phi's arguments err by ``growth``."""
    errors: Floats = (size * (2 * NORMAL_FACTOR + 64 * UNIT + UNIT * growth)) * 1.001
    return errors


def _sampled(mu: float, rate: float, losses: Floats) -> Order:
    """(1 - q) N(0) + q N(mu) against N(0)."""
    z = np.log1p(np.expm1(losses) / rate) / mu + mu / 2
    away, near = phi_below(-z), phi_below(mu - z)
    value = rate * near - (np.expm1(losses) + rate) * away
    size = rate * near + (np.exp(losses) + 1) * away
    return value, _error(size, 32 * (1 + np.abs(z)) * (np.abs(z) + mu + 1 / mu)), away


def _sampled_back(mu: float, rate: float, losses: Floats) -> Order:
    """N(0) against (1 - q) N(0) + q N(mu): the event is r < 1 - (1 - e^-loss) / q.

    Where floats do not tell that from 0, delta is between 0 and that of the loss before.
    """
    ratio = 1 + np.expm1(-losses) / rate
    usable = ratio > 1e-6
    clipped = np.where(usable, ratio, 1.0)
    z = np.log(clipped) / mu + mu / 2
    own, other = phi_below(z), phi_below(z - mu)
    factor = np.exp(losses)
    mixed = (1 - rate) * own + rate * other
    value = own - factor * mixed
    moved = (1 + 1 / clipped) * 8 / mu + 32 * (np.abs(z) + mu)
    density = np.exp(-z * z / 2) * (1 + clipped)
    off = _error(2 * factor * (own + other), 32.0) + 4 * UNIT * factor * density * moved
    value, off = np.where(usable, value, 0.0), np.where(usable, off, 0.0)
    last = int(np.count_nonzero(usable)) - 1
    unsure = ~usable & (ratio > -1e-6)
    off[unsure] = value[last] + off[last]
    return value, off, np.where(usable, mixed, 0.0)


def _triangle(x_square: float, y_square: float, inner: float, rate: float, losses: Floats) -> Order:
    """At losses >= 0; ``x_square``, ``y_square``, ``inner``: covariances of X, Y."""
    parts = [
        _integrals((x_square, y_square, inner), rate, losses[start : start + BLOCK_LOSSES])
        for start in range(0, len(losses), BLOCK_LOSSES)
    ]
    value, off, under = (np.concatenate(rows) for rows in zip(*parts, strict=True))
    return value, off, under


def _integrals(gram: tuple[float, float, float], rate: float, at: Floats) -> Order:
    """delta, Q and errors of a triangle with three sides, by a trapezoid rule over Y."""
    x_square, y_square, inner = gram
    s, slope = math.sqrt(y_square), inner / y_square
    tau = math.sqrt(x_square - inner * slope)
    bend = s * max(slope, 1 - slope) / tau
    d = min(WIDEST, LARGEST_TURN / s, LARGEST_BEND / bend)
    # Masses under Q count exp(loss) times; delta is about the mass of N(x) beyond so many noises.
    ratio_at = math.log1p(math.expm1(float(at[-1])) / rate)
    mu = math.sqrt(max(x_square, y_square))
    out = min(max(ratio_at / mu - mu / 2, 0.0), TRAPEZOID_REACH)
    exponent = TRAPEZOID_NATS + float(at[-1]) + out * out / 2
    step = 2 * math.pi * d / (exponent + (1 + bend * bend) * d * d / 2)
    reach = math.sqrt(2 * exponent)
    # Masses of N(0), N(x), N(x') are integrals over Y around 0, inner / s and s: of the last two
    # by their densities relative to the first.
    last = math.ceil(reach / step) + 1
    most = last + math.ceil(max(s, inner / s) / step)
    z: Floats = np.arange(-last, most + 1, dtype=np.float64) * step
    own = step / math.sqrt(2 * math.pi)
    weights = own * np.exp(-z * z / 2)
    of_x = own * np.exp(-((z - inner / s) ** 2) / 2)
    of_other = own * np.exp(-((z - s) ** 2) / 2)
    y = s * z - y_square / 2
    middle = slope * s * z - x_square / 2
    # log(A + B e^Y) = loss + log(A / B + e^Y).
    ratio = -np.expm1(-at) * ((1 - rate) / rate)
    threshold = np.log(ratio[:, None] + np.exp(y)[None, :])
    threshold += at[:, None]
    argument = (middle[None, :] - threshold) / tau
    below = special.ndtr(argument)
    a, c = below @ weights, below @ of_other
    # Given Y, X is tau^2 higher under N(x).
    b = special.ndtr(argument + tau) @ of_x
    x, rise = np.exp(at), np.expm1(at)
    value = rate * (b - x * c) - (1 - rate) * rise * a
    under = (1 - rate) * a + rate * c
    size = rate * b + x * under
    # |u| phi(u) <= |u| (1 + |u|) Phi(u) for u < 0; from |u| = 40 on nothing is left.
    far = 2 * (s * (reach + s + 1) + x_square + y_square + float(at[-1]) - math.log(rate) + 1)
    # The error of each mass: rounding of its sum, the rule, and the part beyond ``reach``.
    off = _error(size, NDTR_FACTOR + 8 * 41 * far / tau + 8 * len(z)) + 8 * math.exp(-exponent) * x
    return value, off, under


# --- measures on a grid ---------------------------------------------------------------------------


def farthest(mu: float, rate: float, tail: float) -> float:
    """A loss beyond which a batch with the record has a part below ``tail`` of its mass."""
    return math.log1p(rate * math.expm1(mu * quantile(tail) + mu * mu / 2))


def place_at(angle: float) -> float:
    """A place by its angle: 0 and the ends are their own."""
    return math.copysign(math.sin(math.pi * abs(angle) / 2) ** 2, angle)


def node_places(last: int) -> NDArray[np.int64]:
    """0, 1, ...: every place of a grid at first, then fewer, up to ``last``."""
    places = [0]
    while places[-1] < last:
        places.append(
            min(places[-1] + 1 + int(max(places[-1] - DENSE_NODES, 0) * NODE_SPACING), last)
        )
    return np.array(places, dtype=np.int64)


@dataclass(frozen=True)
class Move:
    """Masses of P on a grid, what they lack relative to delta, and P's mass at an infinite loss.

    From above delta is at most (1 + lack) sum m_i max(0, 1 - x exp(-l_i)) + rest, from below at
    least (1 - lack) of that sum.
    """

    masses: Floats
    lack: float
    rest: float = 0.0


class Rounds:
    """One round's triangles on some of the losses i ``step``, |i| <= ``last``."""

    def __init__(self, mu: float, rate: float, step: float, tail: float) -> None:
        self.step = step
        self.last = math.ceil(farthest(mu, rate, tail) / step) + 1
        places = node_places(self.last)
        self.losses: Floats = places.astype(np.float64) * step
        self.places = np.concatenate((-places[:0:-1], places)) + self.last
        self.x: Floats = np.exp(np.concatenate((-self.losses[:0:-1], self.losses)))
        self._at: Callable[[float, Floats], tuple[Order, Order]] = partial(at_place, mu, rate)
        self._known: dict[float, tuple[Order, Order]] = {}

    def _orders(self, place: float) -> tuple[Order, Order]:
        if place > 0:
            forth, back = self._orders(-place)
            return back, forth
        if place not in self._known:
            self._known[place] = self._at(place, self.losses)
        return self._known[place]

    def above(self, first: float, second: float) -> Move:
        """A move that dominates all places between two: chords of delta, raised by its error."""
        return self._chords(self._raised(first, second))

    def _raised(self, first: float, second: float) -> Floats:
        """Delta at the nodes and its error: of one place above a loss of 0, else the other's."""
        (forth, off, _), _ = self._orders(first)
        _, (back, back_off, _) = self._orders(second)
        forth, back = np.minimum(forth + off, 1.0), np.minimum(back + back_off, 1.0)
        shrunk = np.exp(-self.losses) * back - np.expm1(-self.losses)
        values: Floats = np.concatenate((shrunk[:0:-1], [max(forth[0], back[0])], forth[1:]))
        return values

    def _chords(self, delta: Floats) -> Move:
        """A move whose profile is above values at the nodes, and above chords between them."""
        # A profile is convex and falls: chords of running minima are above it.
        delta = np.minimum.accumulate(delta)
        last_delta = float(delta[-1])
        masses = self._kinks(delta - last_delta)
        chord_delta = self._delta_of(masses)
        lack = max(
            _largest_ratio(delta - last_delta, chord_delta), (1 - last_delta) / math.fsum(masses)
        )
        return Move(self._on_grid(masses), max(lack - 1, 0.0) + self._rounding, last_delta)

    def below(self, place: float) -> Move:
        """A move that a triangle dominates: lines below delta between nodes, lowered by errors.

        Between two nodes every line through values at most theirs there is below delta.
        """
        between = (self.losses[1:] + self.losses[:-1]) / 2
        (forth, off, q), (back, back_off, back_q) = self._at(place, between)
        x = np.exp(between)
        # delta(-e) = 1 - exp(-e) + exp(-e) delta'(e), of slope -(1 - P) in exp(-e).
        slope = np.concatenate((1 - (back + x * back_q)[::-1], q))
        value = np.concatenate(((back / x - np.expm1(-between))[::-1], forth))
        slack = np.concatenate(((back_off / x)[::-1], off)) + 8 * UNIT * np.minimum(value, 1.0)
        at = np.concatenate((1 / x[::-1], x))
        # A slope that is wrong by as much as exp(loss) times it turns its line by that at the node.
        width = np.diff(self.x)
        wrong = slack * (1 + 2 * width / at)
        left = value + slope * (at - self.x[:-1]) - wrong
        right = value - slope * (self.x[1:] - at) - wrong
        target = np.minimum(np.append(left, right[-1]), np.append(left[0], right))
        # Where the line 1 - x, or 0, is above, one node more is given up on either side; but the
        # last one on the line, which delta is below the loss of a batch without the record.
        line = np.maximum(1 - self.x, 0.0)
        low = np.flatnonzero((target <= 1 - self.x + LINE_ROUNDING) & (self.x < 1))
        edge = int(low[-1]) if len(low) else 0
        if target[edge] < line[edge] - LINE_ROUNDING:
            edge += 1
        high = np.flatnonzero(target <= 0)
        end = int(high[0]) - 1 if len(high) else len(self.x) - 1
        if end <= edge + 1:
            return Move(np.zeros(2 * self.last + 1), 0.0)
        target[edge] = min(target[edge], line[edge])
        target[:edge], target[end:] = line[:edge], 0.0
        hull = _lower_hull(self.x, target)
        masses = self._kinks(np.interp(self.x, self.x[hull], target[hull]))
        chord_delta, limit = self._delta_of(masses), np.maximum(target, line)
        excess = max(_largest_ratio(chord_delta, limit), math.fsum(masses))
        return Move(self._on_grid(masses), max(excess - 1, 0.0) + self._rounding)

    @property
    def _rounding(self) -> float:
        """Relative: of :meth:`_delta_of`, sums of so many positive numbers, and of delta."""
        return 4 * UNIT * (len(self.x) + 8 * float(self.losses[-1]) + 32)

    def _on_grid(self, masses: Floats) -> Floats:
        spread = np.zeros(2 * self.last + 1)
        spread[self.places] = masses
        return spread

    def _kinks(self, delta: Floats) -> Floats:
        """P masses of the chords; below the first node the chord from (0, 1)."""
        first = (delta[0] - 1) / self.x[0]
        slopes = np.concatenate(([first], np.diff(delta) / np.diff(self.x), [0.0]))
        kinks: Floats = np.maximum(self.x * np.diff(slopes), 0.0)
        return kinks

    def _delta_of(self, masses: Floats) -> Floats:
        """Sum of m max(0, 1 - x exp(-l)) at every node."""
        q = np.cumsum((masses / self.x)[:0:-1])[::-1]
        sums: Floats = np.append(np.cumsum((np.diff(self.x) * q)[::-1])[::-1], 0.0)
        return sums


def _largest_ratio(one: Floats, other: Floats) -> float:
    """The largest ratio of ``one`` to ``other``, over positive ``one``; ``other`` may be 0."""
    with np.errstate(divide="ignore"):
        return float(np.max(np.divide(one, other, out=np.zeros(len(one)), where=one > 0)))


def _lower_hull(x: Floats, y: Floats) -> list[int]:
    """Indices of the points on the lower convex hull, x rising."""
    hull: list[int] = []
    for i in range(len(x)):
        while len(hull) > 1:
            a, b = hull[-2], hull[-1]
            if (y[b] - y[a]) * (x[i] - x[a]) < (y[i] - y[a]) * (x[b] - x[a]):
                break
            hull.pop()
        hull.append(i)
    return hull
