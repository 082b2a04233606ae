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
of three masses is an integral over z of phi(z) Phi((m(z) - t) / tau), m linear, of slope g s.
On |Im z| <= d, s d < pi, |Im t| is at most s d with the sign of Im z, so that the imaginary part of
the argument of Phi is at most b = max(g, 1 - g) s d / tau, and |Phi(u + i b)| <= exp(b^2 / 2).
The trapezoid rule of step h errs by at most 2 exp((d^2 + b^2) / 2) / (exp(2 pi d / h) - 1).
Sources: Zhu, Dong, Wang 2022, Theorem 11 (the two ends of the path); dpaudit 2026, proof above (the
triangles between); Trefethen, Weideman 2014, Theorem 5.1.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from dpaudit.profiles.grid.cells import UNIT
from dpaudit.profiles.grid.discrete import Floats
from dpaudit.profiles.grid.families import NORMAL_FACTOR, lower_normal

REACH, FARTHEST = 9.5, 7.3
EXPONENT = 44.0
WIDEST, LARGEST_TURN, LARGEST_BEND = 1.6, 2.9, 3.0
# exp(-EXPONENT) and what lies beyond REACH, of each of three masses.
OFF = 8 * math.exp(-EXPONENT)
BLOCK = 64

Profiles = tuple[Floats, Floats, Floats, Floats]


def phi_below(z: Floats) -> Floats:
    """Phi(z), with relative error at most ``NORMAL_FACTOR``."""
    tail = lower_normal(-np.abs(z))
    found: Floats = np.where(z < 0, tail, 1 - tail)
    return found


def at_place(mu: float, rate: float, place: float, losses: Floats) -> Profiles:
    """(delta of (P, Q), its error, delta of (Q, P), its error) of one triangle, at losses >= 0."""
    if place > 0:
        forth, off, back, back_off = at_place(mu, rate, -place, losses)
        return back, back_off, forth, off
    if place == -1:
        return *_sampled(mu, rate, losses), *_sampled_back(mu, rate, losses)
    square = (1 + place) * mu * mu
    there = _triangle(mu * mu, square, square / 2, rate, losses)
    # The equilateral one is its own swapped one.
    return *there, *(there if place == 0 else _triangle(square, mu * mu, square / 2, rate, losses))


def _error(size: Floats, growth: float | Floats) -> Floats:
    """Of a sum of masses of total ``size`` whose Phi has arguments with errors of ``growth``."""
    found: Floats = (size * (2 * NORMAL_FACTOR + 64 * UNIT + UNIT * growth)) * 1.001
    return found


def _sampled(mu: float, rate: float, losses: Floats) -> tuple[Floats, Floats]:
    """(1 - q) N(0) + q N(mu) against N(0)."""
    z = np.log1p(np.expm1(losses) / rate) / mu + mu / 2
    away, near = phi_below(-z), phi_below(mu - z)
    value = rate * near - (np.expm1(losses) + rate) * away
    size = rate * near + (np.exp(losses) + 1) * away
    return value, _error(size, 32 * (1 + np.abs(z)) * (np.abs(z) + mu + 1 / mu))


def _sampled_back(mu: float, rate: float, losses: Floats) -> tuple[Floats, Floats]:
    """N(0) against (1 - q) N(0) + q N(mu): the event is r < 1 - (1 - e^-loss) / q.

    Where floats do not tell that from 0, delta is between 0 and that of the loss before.
    """
    ratio = 1 + np.expm1(-losses) / rate
    told = ratio > 1e-6
    clipped = np.where(told, ratio, 1.0)
    z = np.log(clipped) / mu + mu / 2
    own, other = phi_below(z), phi_below(z - mu)
    factor = np.exp(losses)
    value = own - factor * ((1 - rate) * own + rate * other)
    moved = (1 + 1 / clipped) * 8 / mu + 32 * (np.abs(z) + mu)
    density = np.exp(-z * z / 2) * (1 + clipped)
    off = _error(2 * factor * (own + other), 32.0) + 4 * UNIT * factor * density * moved
    value, off = np.where(told, value, 0.0), np.where(told, off, 0.0)
    last = int(np.count_nonzero(told)) - 1
    unsure = ~told & (ratio > -1e-6)
    off[unsure] = value[last] + off[last]
    return value, off


def _triangle(
    x_square: float, y_square: float, inner: float, rate: float, losses: Floats
) -> tuple[Floats, Floats]:
    """Delta at losses >= 0; ``x_square``, ``y_square``, ``inner``: covariances of X, Y."""
    s, slope = math.sqrt(y_square), inner / y_square
    tau = math.sqrt(x_square - inner * slope)
    bend = s * max(slope, 1 - slope) / tau
    d = min(WIDEST, LARGEST_TURN / s, LARGEST_BEND / bend)
    step = 2 * math.pi * d / (EXPONENT + (1 + bend * bend) * d * d / 2)
    last = math.ceil(REACH / step) + 1
    z: Floats = np.arange(-last, last + 1, dtype=np.float64) * step
    weights = step / math.sqrt(2 * math.pi) * np.exp(-z * z / 2)
    shares = ((0.0, 0.0), (x_square, inner), (inner, y_square))
    value, size = np.zeros(len(losses)), np.zeros(len(losses))
    for start in range(0, len(losses), BLOCK):
        part = slice(start, start + BLOCK)
        at = losses[part]
        signs = (-(1 - rate) * np.expm1(at), np.full(len(at), rate), -rate * np.exp(at))
        for sign, (x_mean, y_mean) in zip(signs, shares, strict=True):
            y = s * z + (y_mean - y_square / 2)
            middle = x_mean - x_square / 2 + slope * s * z
            threshold: Floats = np.log(
                (np.expm1(at) * (1 - rate) / rate)[:, None] + np.exp(at[:, None] + y[None, :])
            )
            mass = phi_below((middle[None, :] - threshold) / tau) @ weights
            value[part] += sign * mass
            size[part] += np.abs(sign) * mass
    # |u| phi(u) <= |u| (1 + |u|) Phi(u) for u < 0; from |u| = 40 on nothing is left.
    far = 2 * (s * (REACH + 1) + x_square + y_square + float(losses[-1]) - math.log(rate) + 1)
    off = _error(size, 8 * 41 * far / tau + 8 * len(z)) + OFF * np.exp(losses)
    return value, off


# --- measures on a grid ---------------------------------------------------------------------------


def largest_loss_kept(mu: float, rate: float) -> float:
    """A loss beyond which no triangle has a delta that matters."""
    return math.log1p(rate * math.expm1(mu * FARTHEST + mu * mu / 2))


class Rounds:
    """One round's triangles on the losses i ``step``, |i| <= ``last``."""

    def __init__(self, mu: float, rate: float, step: float) -> None:
        self.step = step
        self.last = math.ceil(largest_loss_kept(mu, rate) / step) + 1
        self.losses: Floats = np.arange(self.last + 1, dtype=np.float64) * step
        self._at: Callable[[float], Profiles] = lambda p: at_place(mu, rate, p, self.losses)
        self._known: dict[float, Profiles] = {}

    def _profiles(self, place: float) -> Profiles:
        """As :func:`at_place`; a place and its mirrored one are computed once."""
        one = -abs(place)
        if one not in self._known:
            self._known[one] = self._at(one)
        forth, off, back, back_off = self._known[one]
        return (back, back_off, forth, off) if place > 0 else (forth, off, back, back_off)

    def above(self, first: float, second: float) -> tuple[Floats, float]:
        """Masses of P, and what is to be added to each delta, that dominate from place to place."""
        forth, off, _, _ = self._profiles(first)
        _, _, back, back_off = self._profiles(second)
        delta = self._whole(np.minimum(forth + off, 1.0), np.minimum(back + back_off, 1.0))
        # A profile is convex and falls: chords of running minima are above it.
        masses = self._kinks(np.minimum.accumulate(delta))
        made, off_sums = self._delta_of(masses)
        lacking = float(np.max(delta - made * (1 - off_sums)))
        return masses, max(lacking, 1 - float(masses.sum()), 0.0) + 8 * UNIT

    def below(self, place: float) -> tuple[Floats, float]:
        """Masses of P, and what is to be taken off each delta, that a triangle dominates."""
        forth, off, back, back_off = self._profiles(place)
        delta = self._whole(forth, back)
        x = np.exp(np.arange(-self.last, self.last + 1) * self.step)
        slack = self._whole(off, back_off, plain=True) + 8 * UNIT
        target = (
            delta
            - self._gaps(delta)
            - 16 * np.maximum.reduce([slack, np.append(slack[1:], 0.0), np.append(0.0, slack[:-1])])
        )
        # Where the line 1 - x, or 0, is above: one node more is given up on either side.
        rest = np.maximum(1 - x, 0.0)
        low = np.flatnonzero((target <= 1 - x) & (x < 1))
        start = int(low[-1]) + 2 if len(low) else 1
        high = np.flatnonzero(target <= 0)
        end = int(high[0]) - 1 if len(high) else len(x) - 1
        if end <= start:
            return np.zeros(len(x)), 0.0
        target[:start], target[end:] = 1 - x[:start], 0.0
        kept = _lower_hull(x, target)
        masses = self._kinks(np.interp(x, x[kept], target[kept]))
        made, off_sums = self._delta_of(masses)
        excess = float(np.max(made * (1 + off_sums) - np.maximum(target, rest)))
        return masses, max(excess, float(masses.sum()) - 1, 0.0) + 8 * UNIT

    def _whole(self, forth: Floats, back: Floats, *, plain: bool = False) -> Floats:
        """Values at losses of either sign: delta(-e) = 1 - exp(-e) + exp(-e) delta'(e)."""
        shrunk = np.exp(-self.losses) * back
        if not plain:
            shrunk = shrunk - np.expm1(-self.losses)
        found: Floats = np.concatenate((shrunk[:0:-1], [max(forth[0], back[0])], forth[1:]))
        return found

    def _kinks(self, delta: Floats) -> Floats:
        """P masses of the chords; what is above the last node is left out."""
        falls = np.diff(delta)
        masses = np.zeros(len(delta))
        masses[1:-1] = falls[1:] / math.expm1(self.step) + falls[:-1] / math.expm1(-self.step)
        masses[-1] = falls[-1] / math.expm1(-self.step)
        # Below the first node the chord from (0, 1).
        masses[0] = falls[0] / math.expm1(self.step) + 1 - delta[0]
        found: Floats = np.maximum(masses, 0.0)
        return found

    def _delta_of(self, masses: Floats) -> tuple[Floats, float]:
        """Sum of m max(0, 1 - x exp(-l)) at every node, and its relative error."""
        losses = np.arange(-self.last, self.last + 1) * self.step
        q = np.cumsum((masses * np.exp(-losses))[:0:-1])
        falls = np.exp(losses[-2::-1]) * math.expm1(self.step) * q
        made: Floats = np.append(0.0, np.cumsum(falls))[::-1]
        return made, 4 * UNIT * (len(masses) + 8 * float(losses[-1]) + 8)

    def _gaps(self, delta: Floats) -> Floats:
        """How far chords may be above the profile: it is above the chords of the cells beside."""
        falls = np.diff(delta)
        kinks = falls[1:] / math.expm1(self.step) + falls[:-1] / math.expm1(-self.step)
        kinks = np.maximum(kinks, 0.0)
        low, high = kinks[:-1], kinks[1:]
        both = low + high * math.exp(-self.step)
        with np.errstate(invalid="ignore", divide="ignore"):
            # Of kinks k, k' of slopes at x, x': k k' / (k + k') (x' - x).
            inner = np.nan_to_num(low * high * -math.expm1(-self.step) / both)
        x = np.exp(np.arange(-self.last, self.last + 1) * self.step)
        first = max(float(np.max((delta - 1 + x)[:2])), 0.0)
        cells = np.concatenate(([first], inner, [float(np.max(delta[-2:]))]))
        found: Floats = np.maximum(np.append(0.0, cells), np.append(cells, 0.0)) * (1 + 1e-9)
        return found


def _lower_hull(x: Floats, y: Floats) -> list[int]:
    """Indices of the points on the lower convex hull, x rising."""
    kept: list[int] = []
    for i in range(len(x)):
        while len(kept) > 1:
            a, b = kept[-2], kept[-1]
            if (y[b] - y[a]) * (x[i] - x[a]) < (y[i] - y[a]) * (x[b] - x[a]):
                break
            kept.pop()
        kept.append(i)
    return kept
