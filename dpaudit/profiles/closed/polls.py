"""One poll of answers of two values, whatever number k of the others hold the one.

Let p = e^e0 / (1 + e^e0), q = 1 - p, S = Bin(k, p) + Bin(others - k, q), f its masses.  The count
of ones is S + Ber(p) against S + Ber(q).  S is log-concave, so that the ratio of both grows with
the count, and the best event is a number t of ones and more: with T(t) = P(S >= t),

    delta_k(x) = the largest over t of  (p - x q) f(t - 1) - (x - 1) T(t),    x >= 1,

as P(S + Ber(p) >= t) = T(t) + p f(t - 1).  Any t is a lower bound, any k as well.  All k are gone
through: delta is no monotone function of k, as counts are whole numbers.

Numbers.  Binomial masses are exp of sums of logarithms of factorials, each the float next to Arb's:
relative errors of ``_relative``.  Beyond a window masses fall geometrically.  The convolution uses
fast Fourier transforms of length N, whose error at any place is at most ``TRANSFORM_ROUNDINGS``
log2(N) units of roundoff times the product of the two laws' Euclidean norms.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import optimize

from dpaudit.exact import enclose, is_symbolic
from dpaudit.grids.hull import UNIT
from dpaudit.pairs import Pair
from dpaudit.profiles.interval import Interval, rounded_down, rounded_up

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]
MOST_OTHERS = 20_000  # other reports: each number of ones among them is tried
LARGEST_LOSS = 30.0  # largest epsilon of a report
WINDOW_DEVIATIONS = 9.0  # Standard deviations that a window of counts reaches from the mean.
WINDOW_COUNTS = 40  # Counts that a window reaches beyond that.
BLOCK_OTHERS = 128  # Numbers of others that are evaluated together.
# Rounding errors of a transform, in units of the last place; covers those of the bound itself.
TRANSFORM_ROUNDINGS = 32.0
ROUND_UP = 1 + 1e-12  # Factor above the relative rounding error of a bound's last steps.
FIRST_ENDS = 40  # Values of k that are tried first at either end.
FIRST_BETWEEN = 8  # Values of k that are tried first between the ends.
MAX_ROUNDS = 6  # Rounds in which further values of k are tried.
ROOT_MARGIN = 1e-7  # Relative distance from a root at which its bounds are taken.
LEAST_ANSWERED = 1e-11  # Smaller deltas and losses are left to other routes.


@dataclass(frozen=True)
class Poll:
    """Bounds of delta at x, over all or over some k."""

    epsilon: float
    others: int

    @property
    def chances(self) -> tuple[float, float]:
        """p and q, each as near as a float is: 1 - p is not."""
        return 1 / (1 + math.exp(-self.epsilon)), 1 / (1 + math.exp(self.epsilon))

    @cached_property
    def _logs(self) -> Floats:
        """log 0!, log 1!, .."""
        return _log_factorials(self.others)

    @cached_property
    def _relative(self) -> float:
        """The relative error of a binomial mass: three logarithms, of the largest, two products."""
        return 16 * UNIT * (float(self._logs[-1]) + self.others * (self.epsilon + 1) + 4)

    def _binomial(self, trials: Indices, chance: float, other_rate: float) -> tuple[Floats, Floats]:
        """Masses of windows, in rows, and what is at most beyond them."""
        sd = math.sqrt(self.others * chance * other_rate)
        width = min(2 * math.ceil(WINDOW_DEVIATIONS * sd) + 2 * WINDOW_COUNTS, self.others + 1)
        first = np.clip(np.rint(trials * chance).astype(np.int64) - width // 2, 0, None)
        counts = first[:, None] + np.arange(width)
        inside = counts <= trials[:, None]
        valid_counts = np.where(inside, counts, 0)
        logs = (
            self._logs[trials][:, None]
            - self._logs[valid_counts]
            - self._logs[trials[:, None] - valid_counts]
        )
        logs += valid_counts * math.log(chance) + (trials[:, None] - valid_counts) * math.log(
            other_rate
        )
        masses = np.where(inside, np.exp(logs), 0.0)
        odds = chance / other_rate
        n, low = trials.astype(np.float64), first.astype(np.float64)
        top = low + width - 1
        with np.errstate(divide="ignore", invalid="ignore"):
            up = np.where(top < n, (n - top) / (top + 1) * odds, 0.0)
            down = np.where(low > 0, low / (n - low + 1) / odds, 0.0)
            # From the last mass on, ratios are at most this one, and fall.
            beyond = masses[:, -1] * up / (1 - up) + masses[:, 0] * down / (1 - down)
        beyond = np.where((up < 1) & (down < 1), beyond, 1.0)
        return masses, beyond * (1 + self._relative)

    def sums(self, ks: Indices) -> tuple[Floats, Floats]:
        """Masses of S in rows, and what any is off at most, besides its relative error."""
        p, q = self.chances
        ones, left = self._binomial(ks, p, q)
        zeros, right = self._binomial(self.others - ks, q, p)
        length = ones.shape[1] + zeros.shape[1] - 1
        size = 1 << (length - 1).bit_length()
        turned = np.fft.rfft(ones, size, axis=1) * np.fft.rfft(zeros, size, axis=1)
        masses = np.maximum(np.fft.irfft(turned, size, axis=1)[:, :length], 0.0)
        norms = np.linalg.norm(ones, axis=1) * np.linalg.norm(zeros, axis=1)
        off = TRANSFORM_ROUNDINGS * UNIT * math.log2(2 * size) * norms
        return masses, (off + left + right) * ROUND_UP

    def bounds(self, x: float, ks: Indices) -> tuple[Floats, Floats]:
        """delta_k from below and from above."""
        p, q = self.chances
        # Rounding epsilon changes q by a relative error of as much; ``gain`` errs by that of both.
        slack = 16 * UNIT * (1 + self.epsilon) * (p + x * q)
        gain = p - x * q
        if gain <= slack:
            return np.zeros(len(ks)), np.full(len(ks), 2 * slack)
        masses, off = self.sums(ks)
        ahead = np.cumsum(masses[:, ::-1], axis=1)[:, ::-1] - masses
        relative = 2 * self._relative + (masses.shape[1] + 16) * UNIT
        lost = (gain + (x - 1) * masses.shape[1] + slack) * off * ROUND_UP
        above = (gain + slack) * (1 + relative) * masses - (x - 1) * (1 - relative) * ahead
        below = (gain - slack) * (1 - relative) * masses - (x - 1) * (1 + relative) * ahead
        high = np.maximum(above.max(axis=1), 0.0) * ROUND_UP + lost
        return np.maximum(below.max(axis=1) / ROUND_UP - lost, 0.0), np.minimum(high, 1.0)

    def largest(self, x: float) -> tuple[float, float, Indices]:
        """Bounds over all k, and the k that are the largest of their blocks."""
        low, high, where = 0.0, 0.0, []
        for start in range(0, self.others + 1, BLOCK_OTHERS):
            ks = np.arange(start, min(start + BLOCK_OTHERS, self.others + 1))
            below, above = self.bounds(x, ks)
            low, high = max(low, float(below.max())), max(high, float(above.max()))
            where.append(int(ks[above.argmax()]))
        return low, high, np.array(where)


@lru_cache(maxsize=4)
def _log_factorials(most: int) -> Floats:
    import flint

    with flint.ctx.workprec(128):
        return np.array([float(flint.arb(k + 1).lgamma().mid()) for k in range(most + 1)])


def _poll(pair: Pair) -> Poll | None:
    """One poll of a size that is gone through; None for anything else."""
    report = pair.report
    if report is None or not report.is_polled or is_symbolic(report.others):
        return None
    loss, others = float(enclose(report.epsilon).mid()), report.others
    is_poll = others == int(others) and 0 < others <= MOST_OTHERS
    return Poll(loss, int(others)) if is_poll and 0 < loss < LARGEST_LOSS else None


def _shown(epsilon: Fraction) -> dict[str, str]:
    return {"form": "poll", "epsilon": str(epsilon)}


def epsilon_polled(pair: Pair, delta: Fraction) -> Interval | None:
    """Epsilon at delta > 0 from both sides; None where this form does not apply."""
    poll, goal = _poll(pair), float(delta)
    if poll is None or goal < LEAST_ANSWERED:
        return None
    ks = np.arange(poll.others + 1)
    places = np.unique(
        np.concatenate(
            (ks[:FIRST_ENDS], ks[-FIRST_ENDS:], ks[:: max(poll.others // FIRST_BETWEEN, 1)])
        )
    )
    for _ in range(MAX_ROUNDS):
        root = _root(poll, places, goal)
        upper = Fraction(rounded_up(root * (1 + ROOT_MARGIN) + ROOT_MARGIN**2))
        _, high, where = poll.largest(math.exp(float(upper)) / ROUND_UP)
        if high <= goal / ROUND_UP:
            lower = _reached(poll, places, root, goal)
            return Interval(lower, upper, _shown(lower), _shown(upper), "one poll")
        places = np.union1d(places, where)
    return None


def _reached(poll: Poll, some: Indices, root: float, goal: float) -> Fraction:
    """The first of a few decimals below a root, ever farther, at which delta is enough."""
    for k in range(5):
        lower = Fraction(rounded_down(root * (1 - ROOT_MARGIN * 10**k)))
        below, _ = poll.bounds(math.exp(float(lower)) * ROUND_UP, some)
        if float(below.max()) >= goal * ROUND_UP:
            return lower
    return Fraction(0)


def _root(poll: Poll, some: Indices, goal: float) -> float:
    """About where the largest delta of some k is this; 0 where it is less everywhere."""

    def excess(epsilon: float) -> float:
        return float(poll.bounds(math.exp(epsilon), some)[1].max()) - goal

    if excess(0.0) <= 0:
        return 0.0
    return float(optimize.brentq(excess, 0.0, poll.epsilon, xtol=1e-300, rtol=1e-12))


def delta_polled(pair: Pair, epsilon: Fraction) -> Interval | None:
    """Delta at epsilon >= 0 from both sides; None where this form does not apply."""
    poll = _poll(pair)
    if poll is None or epsilon > LARGEST_LOSS:
        return None
    x = math.exp(float(epsilon))
    low = poll.largest(x * ROUND_UP)[0]
    high = poll.largest(x / ROUND_UP)[1]
    if high > 0 and high < LEAST_ANSWERED:
        return None
    shown = _shown(epsilon)
    return Interval(
        Fraction(rounded_down(low)),
        min(Fraction(rounded_up(high)), Fraction(1)),
        shown,
        shown,
        "one poll",
    )
