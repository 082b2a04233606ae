"""Sets of outcomes at least as extreme as those seen, and how probable a claim lets them be.

The likelihood ratio of a claim at counts (x, y) of (n, m) trials is, halved, the minimum over q of
n kl(x/n, largest(q)) + m kl(y/m, q): convex in q, as the region is.  A quarter of a count is added
against the finding on each side (a miss under P, a hit under Q), which keeps the order monotone and
evens its error at small counts.  The set where the ratio is at least c starts, for each y, at the x
given by a maximum over q of a binomial upper limit; any q gives an x that is too small, hence a
superset, which keeps a p-value valid.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import betainc, betaincc, gammaln, kl_div, ndtri

from dpaudit.measures.region import CONCAVITY_ROUNDING, FloatArray, Region

IntArray = npt.NDArray[np.int64]

_BLOCK_NUMBERS = 500_000  # Floats of one block, 4 MB.
_ARC_NODES = 49  # Points along an arc of rates from which the peak search starts.
# Relative positions in an interval at which a peak search evaluates the function.
_PEAK_GRID = np.linspace(0.0, 1.0, 9)
_PEAK_ZOOMS = 7  # Rounds of a peak search; each narrows the interval to a quarter.
_FINE_ZOOMS = 18  # the same, of the final search
_NEWTON_STEPS = 14  # Newton steps for the end of a likelihood ball.
_REFINEMENTS = 14  # Rounds in which the pieces of the edge that matter are halved.
# Counts added to each total so that estimated rates stay strictly between 0 and 1.
PSEUDO_COUNTS = 0.25
# Relative distance from a corner of the region at which grid points are added.
_CORNER_DISTANCE = 1e-9
# Pieces of the edge that are evaluated before the bound is returned as it stands.
_MAX_PIECES = 4_000
_LEAST_SMOOTH = 1e-6  # Probability below which the curvature bound is not used: it is loose there.


@dataclass(frozen=True)
class Trials:
    """Counts of one event: ``hits`` of ``total`` under P, ``other_hits`` of ``other`` under Q."""

    hits: int
    total: int
    other_hits: int
    other: int


@dataclass(frozen=True, eq=False)
class Extreme:
    """The outcomes {x >= first[y - lowest]}, y in a window; below it every x, above it the last.

    ``first`` does not decrease, so the set is closed upward in x and downward in y.
    """

    trials: Trials
    lowest: int
    first: IntArray

    def probability_upper(self, p: FloatArray, q: FloatArray) -> FloatArray:
        """P(set) for hits ~ Binomial(total, p), other_hits ~ Binomial(other, q), rounded up.

        ``p`` and ``q``: shape (pairs,).  All terms are positive, so nothing cancels; the logarithms
        of the binomial coefficients err by less than 8 units of trials x log(trials).
        """
        width = self.first.size + int(min(self.first[-1], self.trials.total) - self.first[0]) + 2
        step = max(1, _BLOCK_NUMBERS // width)
        parts = [self._chunk(p[k : k + step], q[k : k + step]) for k in range(0, p.size, step)]
        most = max(self.trials.total, self.trials.other)
        room = 1 + 1e-10 + 2.0**-49 * most * math.log(most + 1)
        return np.minimum(np.concatenate(parts) * room, 1.0)

    def _chunk(self, p: FloatArray, q: FloatArray) -> FloatArray:
        total, other = self.trials.total, self.trials.other
        lowest, highest = self.lowest, self.lowest + self.first.size - 1
        start, stop = int(self.first[0]), int(min(self.first[-1], total))
        tail = _law(start, stop, total, p)
        tail[:, -1:] += _above(stop, total, p)[:, None]
        survival = np.cumsum(tail[:, ::-1], axis=1)[:, ::-1]
        survival = np.concatenate([survival, np.zeros((p.size, 1))], axis=1)
        reached = survival[:, np.minimum(self.first, total + 1) - start]
        law = _law(lowest, highest, other, q)
        law[:, -1] += _above(highest, other, q)
        inside = np.einsum("ij,ij->i", law, reached)
        return np.asarray(inside + _below(lowest, other, q))


def half_deviance(trials: Trials, region: Region) -> float:
    """Half the likelihood ratio of the counts, rounded down; 0 if the claim allows their rates."""
    total, other = trials.total + PSEUDO_COUNTS, trials.other + PSEUDO_COUNTS
    hit, other_hit = trials.hits / total, (trials.other_hits + PSEUDO_COUNTS) / other
    if hit <= float(region.largest(np.array([other_hit]))[0]):
        return 0.0

    def cost(q: FloatArray) -> FloatArray:
        edge = np.minimum(region.largest(q), hit)
        return -(total * kl(hit, edge) + other * kl(other_hit, q))

    where = _peak(cost, np.array([other_hit]), np.array([hit]), _FINE_ZOOMS)
    least = -float(cost(where[:, None])[0, 0])
    return max(0.0, least * (1 - 1e-6) - _noise(trials))


def tail_upper(cost: float) -> float:
    """P(half deviance >= ``cost``) under any pair the claim allows: at most (1 + c) e^-c.

    At a true pair the half deviance is at most n kl(x/n, p) [x/n > p] + m kl(y/m, q) [y/m < q],
    independent terms, each above u with probability at most e^-u (Chernoff); so is their sum to a
    sum of two exponential variables.  Caution only lowers it.
    """
    return min(1.0, (1 + cost) * math.exp(-cost) * (1 + 1e-12))


def at_least(trials: Trials, region: Region, cost: float, low: float, high: float) -> Extreme:
    """The outcomes of half deviance at least ``cost``, as a superset, for q in [low, high]."""
    other = trials.other
    depth = math.sqrt(2 * cost) + 3
    lowest = math.floor(other * low - depth * math.sqrt(other * low * (1 - low)) - 1)
    highest = math.ceil(other * high + 3 * math.sqrt(other * high * (1 - high)) + 8)
    lowest = min(max(lowest, 0), trials.other_hits)
    highest = max(min(highest, other), trials.other_hits)
    counts = np.arange(lowest, highest + 1)
    first = _first(trials, region, cost, counts)
    place = trials.other_hits - lowest
    first[: place + 1] = np.minimum(first[: place + 1], trials.hits)
    first = np.minimum.accumulate(first[::-1])[::-1]
    return Extreme(trials, lowest, first)


def supremum_upper(extreme: Extreme, region: Region, low: float, high: float) -> float:
    """An upper bound of sup over q in [low, high] of P(extreme; largest(q), q).

    Between two grid points the edge lies below a line, and along a line the probability has second
    derivative at most sqrt(2 P) (dp^2 I_p + dq^2 I_q), I the Fisher informations: by Cauchy and
    Schwarz, as the ratios of derivatives to the law are orthogonal polynomials.  It is also at most
    its value at the larger p and the smaller q (monotonicity).  Intervals where both bounds stay
    above the largest value seen are divided.
    """
    guess = float(_at(extreme, region, np.array([low + (high - low) / 2]))[0])
    grid = _grid(extreme.trials, region, low, high, _spacing(guess))
    left, right = grid[:-1], grid[1:]
    done, spent, largest = 0.0, 0, guess
    for _ in range(_REFINEMENTS):
        value, upper = _between(extreme, region, left, right, guess)
        largest, spent = max(largest, float(value.max())), spent + left.size
        open_ = upper > largest * (1 + _tolerance(largest))
        done = max(done, float(upper[~open_].max(initial=0.0)))
        left, right, upper = left[open_], right[open_], upper[open_]
        if left.size == 0 or spent > _MAX_PIECES:
            break
        middle = left + (right - left) / 2
        left, right = np.concatenate([left, middle]), np.concatenate([middle, right])
    return min(1.0, max(done, float(upper.max(initial=0.0))))


def supremum_estimate(extreme: Extreme, region: Region, low: float, high: float) -> float:
    """The largest of a few values of P(extreme; largest(q), q): quick, not a bound."""
    corners = [corner for corner in region.corners if low < corner < high]
    return float(_at(extreme, region, np.append(_between_arcs(low, high, 9), corners)).max())


def _at(extreme: Extreme, region: Region, q: FloatArray) -> FloatArray:
    return extreme.probability_upper(region.largest(q), q)


def _between(
    extreme: Extreme, region: Region, left: FloatArray, right: FloatArray, guess: float
) -> tuple[FloatArray, FloatArray]:
    """Largest value at the ends, and an upper bound over each interval [left, right]."""
    start, stop = _line(region, left, right)
    ends = np.stack([start, stop, left, right])
    smooth = (ends.min(axis=0) > 0) & (ends.max(axis=0) < 1) & (guess > _LEAST_SMOOTH)
    value, upper = np.zeros(left.size), np.ones(left.size)
    if smooth.any():
        value[smooth], upper[smooth] = _curved(extreme, *ends[:, smooth])
    rough = ~smooth | (upper > 1.5 * value)
    if rough.any():
        flat = extreme.probability_upper(region.largest(right[rough]), left[rough])
        upper[rough] = np.minimum(upper[rough], flat)
        value[rough] = np.maximum(value[rough], _at(extreme, region, left[rough]))
    return value, upper


def _curved(
    extreme: Extreme, start: FloatArray, stop: FloatArray, left: FloatArray, right: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Values and bounds along lines from (start, left) to (stop, right), (p, q) in (0, 1)."""
    p, q = np.concatenate([start, stop]), np.concatenate([left, right])
    pairs, where = np.unique(np.stack([p, q]), axis=1, return_inverse=True)
    uppers = extreme.probability_upper(pairs[0], pairs[1])[where.ravel()]
    value = np.maximum(uppers[: left.size], uppers[left.size :])
    trials = extreme.trials
    spread = np.minimum(start * (1 - start), stop * (1 - stop))
    other_spread = np.minimum(left * (1 - left), right * (1 - right))
    square = (stop - start) ** 2 * trials.total / spread
    square = square + (right - left) ** 2 * trials.other / other_spread
    bend = math.sqrt(2) / 8 * square
    # M <= value + bend sqrt(M), solved for M.
    upper = ((bend + np.sqrt(bend**2 + 4 * value)) / 2) ** 2
    return value, np.minimum(upper * (1 + 1e-12), 1.0)


def _line(region: Region, left: FloatArray, right: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Ends of a line that lies above the concave edge between ``left`` and ``right``."""
    ends = region.largest(left), region.largest(right)
    centre = region.largest(left + (right - left) / 2)
    # Over the chord by less than twice what the middle is: by less than the margin of the ends.
    straight = 2 * centre <= (ends[0] + ends[1]) * (1 + CONCAVITY_ROUNDING)
    straight &= ends[1] <= 3 * ends[0]
    wide, room = 1 + 8 * CONCAVITY_ROUNDING, 8 * CONCAVITY_ROUNDING * centre + 1e-14
    start = np.where(straight, ends[0] * wide, 2 * centre - ends[1] + room)
    stop = np.where(straight, ends[1] * wide, 2 * centre - ends[0] + room)
    return start, stop


def _spacing(guess: float) -> float:
    """Width of an interval, in standard deviations, at which a bound meets its tolerance."""
    room = 0.9 * _tolerance(guess)
    if guess > _LEAST_SMOOTH:
        return math.sqrt(room * math.sqrt(guess) * 8 / math.sqrt(2))
    return room / max(2.0, -float(ndtri(max(guess, 1e-300))))


def _tolerance(probability: float) -> float:
    """Relative margin above a probability: at least an eighth of a percent of its quantile."""
    quantile = -float(ndtri(min(max(probability, 1e-300), 0.5)))
    return min(max(0.0025 * quantile**2 * max(1.0, quantile / 2), 0.005), 0.3)


def _grid(trials: Trials, region: Region, low: float, high: float, width: float) -> FloatArray:
    """Values of q from ``low`` to ``high``, ``width`` standard deviations of both counts apart."""
    q = _between_arcs(low, high, 65)
    p = region.largest(q)
    steps = [2 * math.sqrt(count) * np.diff(np.arcsin(np.sqrt(rate)))
             for count, rate in ((trials.total, p), (trials.other, q))]  # fmt: skip
    travelled = np.concatenate([[0.0], np.cumsum(np.hypot(*steps))])
    pieces = min(max(math.ceil(travelled[-1] / width), 8), _MAX_PIECES // 2)
    grid = np.interp(np.linspace(0, travelled[-1], pieces + 1), travelled, q)
    grid[0], grid[-1] = low, high
    edges = [
        corner * side
        for corner in region.corners
        for side in (1 - _CORNER_DISTANCE, 1 + _CORNER_DISTANCE)
    ]
    return np.unique(np.concatenate([grid, [edge for edge in edges if low < edge < high]]))


def _between_arcs(low: float, high: float, count: int) -> FloatArray:
    arcs = np.linspace(math.asin(math.sqrt(low)), math.asin(math.sqrt(high)), count)
    q = np.sin(arcs) ** 2
    q[0], q[-1] = low, high
    return np.asarray(q)


def _first(trials: Trials, region: Region, cost: float, counts: IntArray) -> IntArray:
    """For each count y, at most the smallest x of half deviance ``cost``; total + 1 if none."""
    total, other = trials.total + PSEUDO_COUNTS, trials.other + PSEUDO_COUNTS
    rates = np.asarray((counts + PSEUDO_COUNTS) / other, dtype=np.float64)
    room = max(0.0, cost - _noise(trials))
    farthest = np.minimum(rates + reach(rates, np.full(rates.size, room / other)), 1.0)

    def limit(q: FloatArray, rate: FloatArray) -> FloatArray:
        divergence_left = (room - other * kl(rate, q)) / total
        edge = region.largest(q) * (1 - 2 * CONCAVITY_ROUNDING)
        return np.where(
            divergence_left >= 0, _kl_upper(edge, np.maximum(divergence_left, 0.0)), 0.0
        )

    arcs = np.sqrt(counts)
    nodes = np.unique(np.searchsorted(arcs, np.linspace(arcs[0], arcs[-1], _ARC_NODES)))
    best = _peak(
        lambda q: limit(q, rates[nodes][:, None]), rates[nodes], farthest[nodes], _PEAK_ZOOMS
    )
    span = np.maximum(farthest[nodes] - rates[nodes], 1e-300)
    share = np.interp(arcs, arcs[nodes], (best - rates[nodes]) / span)
    q = rates + share * (farthest - rates)
    reached = np.maximum(limit(q, rates), limit(rates, rates))
    first = np.ceil(reached * total - (1e-9 * total + 1e-7)).astype(np.int64)
    first = np.where(reached >= 1.0, trials.total + 1, first)
    return np.clip(first, 0, trials.total + 1)


def _peak(
    value: Callable[[FloatArray], FloatArray], low: FloatArray, high: FloatArray, zooms: int
) -> FloatArray:
    """Where concave functions, one a row, are about largest in [low, high]."""
    for _ in range(zooms):
        points = low[:, None] + (high - low)[:, None] * _PEAK_GRID
        best = np.argmax(value(points), axis=1)
        rows = np.arange(low.size)
        low = points[rows, np.maximum(best - 1, 0)]
        high = points[rows, np.minimum(best + 1, _PEAK_GRID.size - 1)]
    points = low[:, None] + (high - low)[:, None] * _PEAK_GRID
    return np.asarray(points[np.arange(low.size), np.argmax(value(points), axis=1)])


def _kl_upper(rate: FloatArray, room: FloatArray) -> FloatArray:
    """The largest a with kl(a, rate) <= room, rounded down; 1 if kl(1, rate) is below it."""
    with np.errstate(divide="ignore", invalid="ignore"):
        certain = -np.log(rate) < room * (1 - 1e-12)
        low, high = rate, np.minimum(rate + reach(rate, room), 1.0)
        point = np.minimum(high, 1 - 2.0**-53)
        for _ in range(_NEWTON_STEPS):
            excess = kl(point, rate) - room
            low, high = np.where(excess <= 0, point, low), np.where(excess > 0, point, high)
            slope = np.log(point) - np.log(rate) + np.log1p(-rate) - np.log1p(-point)
            step = point - excess / slope
            point = np.where((step > low) & (step < high), step, low + (high - low) / 2)
        near = point * (1 - 1e-12)
        uppers = np.where((near > low) & (kl(near, rate) <= room), near, low)
    return np.where(certain, 1.0, np.where(rate <= 0, 0.0, uppers))


def reach(rate: FloatArray, room: FloatArray) -> FloatArray:
    """No less than a - rate where a > rate and kl(a, rate) <= room or kl(rate, a) <= room.

    By Pinsker, and by kl >= (a - rate)^2 / (2 v) for the largest variance v in between: at most a,
    and rate (1 - rate) above a half.
    """
    low = np.minimum(np.sqrt(room / 2), room + np.sqrt(room**2 + 2 * rate * room))
    return np.where(rate < 0.5, low, np.sqrt(2 * rate * (1 - rate) * room) * (1 + 1e-12))


def kl(first: FloatArray | float, second: FloatArray | float) -> FloatArray:
    """Divergence of Bernoulli(first) from Bernoulli(second)."""
    return np.asarray(kl_div(first, second) + kl_div(1 - np.asarray(first), 1 - np.asarray(second)))


def _noise(trials: Trials) -> float:
    """Bound on the rounding error of trials times a divergence of two nearly equal rates."""
    return 1e-15 * (trials.total + trials.other)


def _law(low: int, high: int, trials: int, rates: FloatArray) -> FloatArray:
    """Binomial probabilities of the counts low..high, shape (rates, counts)."""
    counts = np.arange(low, min(high, trials) + 1)
    ways = gammaln(trials + 1) - gammaln(counts + 1) - gammaln(trials - counts + 1)
    # Rates of 0 and 1 have no logarithm of odds; their neighbours err by less than the rounding.
    inside = np.clip(rates, 1e-300, 1 - 2.0**-53)
    odds, missed = np.log(inside) - np.log1p(-inside), np.log1p(-inside)
    logs = np.multiply.outer(odds, counts.astype(np.float64))
    logs += ways + (trials * missed)[:, None]
    return np.asarray(np.exp(logs, out=logs))


def _above(count: int, trials: int, rates: FloatArray) -> FloatArray:
    """P(Binomial(trials, rates) > count)."""
    if count >= trials:
        return np.zeros(rates.size)
    return np.asarray(betainc(count + 1, trials - count, rates))


def _below(count: int, trials: int, rates: FloatArray) -> FloatArray:
    """P(Binomial(trials, rates) < count)."""
    if count <= 0:
        return np.zeros(rates.size)
    return np.asarray(betaincc(count, trials - count + 1, rates))
