"""Bands: error rates of every threshold at once, tight in the tails, from one error rate.

For every threshold t, however chosen, on the same trials or not, the true rates lie below

    FPR(t) = Q[score > t]  <= rates_upper(trials of Q above t),
    FNR(t) = P[score <= t] <= rates_upper(trials of P at or below t),

both together except with probability ``error``.  So the threshold may be chosen on the same trials
on which errors are counted, and the whole curve of (epsilon, delta), mu, Renyi divergences and the
trade-off function follow from the one band, simultaneously.

Argument.  Let U_1, ..., U_n be uniform, N(u) the number of them at most u, and 0 < theta < 1.  Then

    M_theta(u) = theta^N(u) ((1 - theta u) / (1 - u))^(n - N(u))

is a non-negative martingale in u, M_theta(0) = 1: the likelihood ratio, from what is seen up to u,
of points that fall below u with probability theta u.  So is an average over theta with weights w
fixed beforehand.  It is continuous while it grows (N stands still), and where it never reaches a
level L it ends, at u = 1, in m = sum_j w_j theta_j^n.  So 1 = L P(reached) + m P(not reached), and
P(reached) = error, exactly, at L = m + (1 - m) / error: no union bound, no asymptotics, no waste.
Scores X with distribution function F are F^-1(U), hence #{X <= t} = N(F(t)) for every t, atoms or
not, and F(t) is below the u at which the average, at that count, reaches L; for #{X > t} likewise,
with left limits.  At a count k the best theta has theta u = k / n and M = exp(n KL(k/n, u)), the
statistic of Berk and Jones: an average over geometric ranks spends on every rank, in the tails as
in the centre, about one part in the number of those ranks.

Source: Ville (1939); Berk and Jones (1979) for the statistic; Dempster (1959) and Daniels (1945)
for the exact crossing of one such boundary; Dong, Roth and Su (2022) for curves into divergences.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from scipy.special import expit, logsumexp, ndtri, xlogy

from dpaudit.audit.bounds.estimators import (
    MAXIMUM_TRIALS,
    TestScores,
    _delta,
    _error_rate,
    _implied,
    _of_type,
)
from dpaudit.errors import InvalidParameter

FloatArray = npt.NDArray[np.float64]

MAXIMUM_ORDER = 1e4  # Renyi orders above differ from infinite order by less than any audit shows
_RANK_RATIO = 2.0  # Ratio of consecutive ranks at which the tilts are tight.
_RATE_BISECTIONS = 90  # Halvings that resolve a rate in (0, 1) to floating-point precision.
_NEWTON_STEPS = 60  # Most Newton steps; each at least halves the distance to the root.
_MAX_TABLED = 4_096  # Trials up to which the bound of every rank is computed once and kept.
_ALL_RANKS = 48  # ranks at either end that are all computed
_TAIL_RANKS = 400  # ranks of both tails, geometric
_CENTRE_RANKS = 400  # ranks between the tails, evenly
_ROUNDING_NATS = 1e-9  # Nats by which the bounds are moved outward, above the rounding error.
_RENYI_ORDERS = 48  # Number of Renyi orders from which a bound on rho is taken.


@dataclass(frozen=True, eq=False)
class Band:
    """Upper corners (FPR, FNR) of thresholds that all hold at once except with ``error``.

    ``thresholds``, ``false_positive_upper`` and ``false_negative_upper`` have shape (thresholds,).
    ``corners`` are the corners of the convex curve above the trade-off function of the pair,
    from (0, 1) to (1, 0), shape (corners, 2).  Every bound of a band holds whenever the band does:
    they need no correction for being many.  A claim is taken to hold for (P, Q) and (Q, P).
    """

    thresholds: FloatArray
    false_positive_upper: FloatArray
    false_negative_upper: FloatArray
    corners: FloatArray
    error: float

    def epsilon_lower(self, delta: float) -> float:
        """Lower bound on epsilon at ``delta``: the best corner; rounded down, at least 0.

        (epsilon, delta)-DP gives 1 - FNR <= exp(epsilon) FPR + delta, and with the two exchanged.
        Errors: InvalidParameter for a delta outside [0, 1).
        """
        slack = _delta(delta)
        best = 0.0
        for fired, missed in (self._corners(), self._corners()[::-1]):
            if fired.size == 0:
                break
            at = int(np.argmax((1 - float(slack) - missed) / fired))
            rates = float(missed[at]), float(fired[at])
            best = max(best, _implied(rates, slack))
        return best

    def delta_lower(self, epsilon: float) -> float:
        """Lower bound on delta at ``epsilon`` >= 0: max of 1 - FNR - exp(epsilon) FPR; at least 0.

        Errors: InvalidParameter for an epsilon that is not a finite number >= 0.
        """
        if not 0 <= epsilon < math.inf:
            raise InvalidParameter(f"epsilon = {epsilon!r}: expected a finite number >= 0")
        fired, missed = self._corners()
        with np.errstate(over="ignore"):
            factor = float(np.exp(epsilon)) * (1 + 1e-15)
        margins = np.concatenate([1 - missed - factor * fired, 1 - fired - factor * missed])
        return max(0.0, float(np.max(margins, initial=0.0)) - 1e-15)

    def mu_lower(self) -> float:
        """Lower bound on mu if mu-GDP is claimed; it refutes that family of claims and no other.

        mu-GDP gives mu >= Phi^-1(1 - FPR) - Phi^-1(FNR).  Rounded down; at least 0.
        """
        quantiles = -ndtri(np.stack(self._corners()))
        size = np.abs(quantiles).sum(axis=0)
        bounds = quantiles.sum(axis=0) - 1e-13 * (1 + size)
        return max(0.0, float(np.max(bounds, initial=0.0, where=np.isfinite(bounds))))

    def renyi_lower(self, order: float) -> float:
        """Lower bound on max(D(P || Q), D(Q || P)), Renyi of ``order`` >= 1; 1 is Kullback-Leibler.

        A smaller trade-off function has a larger divergence.  The curve through the corners lies
        above the true one and is that of two discrete laws, one atom a segment: masses are minus
        the step of FNR and the step of FPR.  Rounded down; at least 0.

        Errors: InvalidParameter unless 1 <= order <= 1e4.
        Source: Dong, Roth and Su (2022), Propositions B.7 and B.8.
        """
        if not 1 <= order <= MAXIMUM_ORDER:
            raise InvalidParameter(f"order = {order!r}: expected in [1, {MAXIMUM_ORDER:g}]")
        return float(_divergences(self.corners, np.array([float(order)]))[0])

    def rho_lower(self) -> float:
        """Lower bound on rho of zCDP: the largest D_a / a over a grid of orders a; at least 0.

        Errors: none.  Source: Bun and Steinke (2016), Definition 1.1.
        """
        orders = np.concatenate([[1.0], 1 + np.geomspace(0.02, 200, _RENYI_ORDERS)])
        return float(np.max(_divergences(self.corners, orders) / orders)) * (1 - 1e-15)

    def tradeoff_upper(self, alpha: float | FloatArray) -> FloatArray:
        """Upper bound on the smallest FNR of tests with FPR at most ``alpha``, same shape.

        The trade-off function is convex and decreasing, so it lies below the chords between
        corners.  Rounded up.  Errors: InvalidParameter for an alpha outside [0, 1].
        Source: Dong, Roth and Su (2022), Proposition 1.
        """
        at = np.asarray(alpha, dtype=np.float64)
        if not np.all((at >= 0) & (at <= 1)):
            raise InvalidParameter("alpha: expected numbers in [0, 1]")
        value = np.interp(at, self.corners[:, 0], self.corners[:, 1])
        return np.asarray(np.minimum(value + 1e-15, 1.0), dtype=np.float64)

    def _corners(self) -> tuple[FloatArray, FloatArray]:
        return self.corners[1:-1, 0], self.corners[1:-1, 1]


def score_band(test: TestScores, error: float) -> Band:
    """The band of ``test`` scores: all rates of all thresholds at once except with ``error``.

    Each of the two sides gets ``error`` / 2.  Thresholds are ranks of both samples, all of them in
    the tails and about 1,600 in all; those left out would hold as well.  The scores may be any
    numbers, ties and infinities included.  1e6 trials a side take about half a second.

    Errors: InvalidParameter for scores that are not TestScores, or a bad error rate.
    """
    _of_type(test, TestScores)
    half = _error_rate(error) / 2
    alternative, null = np.sort(test.alternative), np.sort(test.null)
    # Thinned ranks of either sample, and the numbers just below them.
    values = np.concatenate([side[_ranks(side.size)] for side in (alternative, null)])
    thresholds = np.unique(np.concatenate([values, np.nextafter(values, -np.inf)]))
    above = null.size - np.searchsorted(null, thresholds, "right")
    missed = np.searchsorted(alternative, thresholds, "right")
    positive = rates_upper(above, null.size, half)
    negative = rates_upper(missed, alternative.size, half)
    return Band(thresholds, positive, negative, _hull(positive, negative), float(error))


def rates_upper(counts: npt.ArrayLike, trials: int, error: float) -> FloatArray:
    """Upper bounds on F(t), one for each count #{X <= t} of ``trials``, that hold for all t.

    P(some t has F(t) > rates_upper(#{X <= t})) <= ``error``: the band of this module's docstring,
    with equal weights on thetas for the ranks 1/4, 1/2, 1, 2, ... up to half of the trials, and
    ..., 2, 1 from the other end.  Increasing in the count; 1 at the last.  Rounded up: the average
    is evaluated with an error below 1e-11 and must pass the level by a factor of 1 + 1e-9.

    Errors: InvalidParameter unless 0 <= counts <= trials <= 1e9 are integers and the rate is good.
    """
    hits = np.asarray(counts)
    if hits.dtype.kind not in "iu" or not 1 <= trials <= MAXIMUM_TRIALS:
        raise InvalidParameter(f"counts of {trials!r}: expected integers, of 1 to 1e9 trials")
    if hits.size and (hits.min() < 0 or hits.max() > trials):
        raise InvalidParameter(f"counts: expected 0 <= counts <= trials = {trials}")
    rate = _error_rate(error)
    if trials <= _MAX_TABLED:
        return np.asarray(_table(int(trials), rate)[hits], dtype=np.float64)
    distinct, where = np.unique(hits, return_inverse=True)
    bounds = _crossings(distinct.astype(np.float64), int(trials), rate)
    return np.asarray(bounds[where].reshape(hits.shape), dtype=np.float64)


@lru_cache(maxsize=16)
def _table(trials: int, error: float) -> FloatArray:
    """The bounds of every count of few trials."""
    return _crossings(np.arange(trials + 1.0), trials, error)


def _crossings(counts: FloatArray, trials: int, error: float) -> FloatArray:
    """Where the average of the martingales, at each count held fixed, passes the level L.

    In the logarithm of u / (1 - u) the logarithm of the average is convex and increasing, so that
    Newton's steps come down from above; they start where the first single martingale suffices.
    """
    tilts = _tilts(trials, error)
    # log L; where the average ends if it never reaches L is rounded down.
    end = float(np.mean(np.exp(trials * np.log1p(-tilts)))) * (1 - 1e-9)
    reach = math.log(end + (1 - end) / error) + _ROUNDING_NATS
    inside = counts < trials
    hits, misses = counts[inside][:, None], (trials - counts[inside])[:, None]
    lost = hits * np.log1p(-tilts) - math.log(tilts.size)
    # log(exp(x) - 1) as x + log(1 - exp(-x)), also where exp(x) is too large.
    x = (reach - lost) / misses
    logit = np.min(x + np.log(-np.expm1(-x)) - np.log(tilts), axis=1)
    for _ in range(_NEWTON_STEPS):
        value, slope = _log_average(logit, misses, lost, tilts)
        step = np.maximum(value - reach, 0.0) / slope
        logit = logit - step
        if np.all(step < 1e-12):
            break
    while np.any(short := _log_average(logit, misses, lost, tilts)[0] < reach - _ROUNDING_NATS / 2):
        logit = np.where(short, logit + 1e-9, logit)
    upper = np.ones_like(counts)
    upper[inside] = np.minimum(expit(logit) * (1 + 4e-15 * (1 + np.abs(logit))), 1.0)
    return upper


def _log_average(
    logit: FloatArray, misses: FloatArray, lost: FloatArray, tilts: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Log of the average of M_theta over theta = 1 - tilt, and its slope, at log(u / (1 - u)).

    (1 - theta u) / (1 - u) = 1 + tilt u / (1 - u): no cancellation, and no large sums.
    """
    odds = tilts * np.exp(logit)[:, None]
    terms = lost + misses * np.log1p(odds)
    highest = np.max(terms, axis=1)
    weights = np.exp(terms - highest[:, None])
    total = weights.sum(axis=1)
    slope = np.sum(weights * (misses * (odds / (1 + odds))), axis=1) / total
    return highest + np.log(total), slope


@lru_cache(maxsize=64)
def _tilts(trials: int, error: float) -> FloatArray:
    """1 - theta for geometric ranks k: theta u = k / n at the u where n KL(k/n, u) suffices."""
    ranks = 0.25 * _RANK_RATIO ** np.arange(math.log2(2 * trials) + 1)
    ranks = ranks[ranks < trials / 2]
    ranks = np.concatenate([ranks, [trials / 2], trials - ranks[ranks >= 1][::-1]])
    shares = ranks / trials
    reach = math.log(ranks.size / error) / trials
    low, high = shares, np.ones_like(shares)
    for _ in range(_RATE_BISECTIONS):
        middle = low + (high - low) / 2
        passed = _divergence(shares, middle) > reach
        low, high = np.where(passed, low, middle), np.where(passed, middle, high)
    return np.asarray(np.clip(1 - shares / low, 1e-12, 1 - 1e-12), dtype=np.float64)


def _divergence(shares: FloatArray, u: FloatArray) -> FloatArray:
    """Kullback-Leibler divergence of two coins; +inf at u = 1."""
    with np.errstate(divide="ignore"):
        return np.asarray(xlogy(shares, shares / u) + xlogy(1 - shares, (1 - shares) / (1 - u)))


def _ranks(size: int) -> npt.NDArray[np.intp]:
    """Indices below ``size``: all near both ends, geometric further in, evenly spaced inside."""
    tail = np.concatenate([np.arange(_ALL_RANKS), np.geomspace(1, size, _TAIL_RANKS // 2)])
    centre = np.linspace(0, size - 1, _CENTRE_RANKS // 2)
    ranks = np.concatenate([tail, size - 1 - tail, centre]).astype(np.intp)
    return np.unique(ranks[(ranks >= 0) & (ranks < size)])


def _hull(positive: FloatArray, negative: FloatArray) -> FloatArray:
    """Corners of the lower convex hull of the points, (0, 1) and (1, 0), in exact arithmetic."""
    order = np.lexsort((negative, positive))
    x, y = positive[order], negative[order]
    useful = (x + y < 1) & (y < np.minimum.accumulate(np.concatenate([[1.0], y[:-1]])))
    points = zip(x[useful].tolist(), y[useful].tolist(), strict=True)
    corners: list[tuple[float, float]] = []
    for point in ((0.0, 1.0), *points, (1.0, 0.0)):
        while len(corners) > 1 and not _turns_left(corners[-2], corners[-1], point):
            corners.pop()
        corners.append(point)
    return np.array(corners)


def _turns_left(
    first: tuple[float, float], second: tuple[float, float], third: tuple[float, float]
) -> bool:
    """Whether ``second`` lies strictly below the chord from ``first`` to ``third``."""
    (x, y), (far, low) = first, third
    left = (second[0] - x) * (low - y)
    right = (second[1] - y) * (far - x)
    if abs(left - right) > 1e-15 * (abs(left) + abs(right)):
        return left > right
    exact = [tuple(map(Fraction, point)) for point in (first, second, third)]
    (x0, y0), (x1, y1), (x2, y2) = exact
    return (x1 - x0) * (y2 - y0) > (y1 - y0) * (x2 - x0)


def _divergences(corners: FloatArray, orders: FloatArray) -> FloatArray:
    """max of D(P || Q) and D(Q || P) of the two laws of a hull, for each order; rounded down."""
    steps = np.diff(corners, axis=0)
    first, second = -steps[:, 1], steps[:, 0]
    both = [_renyi(first, second, orders), _renyi(second, first, orders)]
    return np.maximum(np.maximum(*both), 0.0)


def _renyi(first: FloatArray, second: FloatArray, orders: FloatArray) -> FloatArray:
    """Renyi divergences of the law ``first`` from ``second``, both positive; a little low."""
    log_ratio = np.log(first) - np.log(second)
    kullback = float(np.sum(first * log_ratio))
    excess = (orders - 1)[:, None]
    safe = np.where(excess == 0, 1.0, excess)
    values = logsumexp(excess * log_ratio, b=first, axis=1) / safe[:, 0]
    values = np.where(orders == 1, kullback, values)
    # Sums of positive terms err by 1e-13 relatively, which the division by order - 1 magnifies.
    slack = 1e-11 * (1 + np.abs(values)) * np.maximum(1.0, 1 / safe[:, 0])
    return np.asarray(values - slack, dtype=np.float64)
