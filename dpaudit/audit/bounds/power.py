"""Power of an audit: its information limit, trials needed, the smallest epsilon in its reach.

All of it is predicted from normal quantiles and likelihood balls, before or beside the audit.
These numbers are predictions: none is a bound, and none decides a verdict.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr, ndtri

from dpaudit.audit.bounds.binormal import smoothed_tails
from dpaudit.audit.bounds.estimators import Counts, epsilon_lower
from dpaudit.audit.bounds.selection import (
    Needed,
    Sizes,
    Tails,
    choose_declared,
    epsilon_needed,
    predicted_lower,
)
from dpaudit.errors import InvalidParameter
from dpaudit.measures.region import ApproxRegion, FloatArray, Region

BoolArray = npt.NDArray[np.bool_]

LARGEST_EPSILON = 50.0  # the largest epsilon that is looked for
MAXIMUM_TRIALS = 10**9  # the most trials that are recommended
_BISECTIONS = 28  # Halvings of a search: enough for whole numbers below 2^28.
# Multipliers tried in the search for the best weights of the events.
_LAGRANGE_SCALES = np.geomspace(0.1, 1e8, 64)
_GRID_RATES = 64  # False-positive rates at which the information limit is computed.


@dataclass(frozen=True)
class Power:
    """The best possible bounds: ``limit`` with the best weights, ``event`` with the best event."""

    limit: float
    event: float

    def achieved(self, bound: float) -> float:
        """A bound as a share of the limit; 1 where the limit is 0 (nothing can be shown).

        Luck may carry a bound above the median limit, and the share above 1.
        """
        return bound / self.limit if self.limit > 0 else 1.0


def information_limit(tails: Tails, sizes: Sizes, delta: float, error: float) -> Power:
    """Median bounds on epsilon at ``delta`` of an oracle that knows the pair behind ``tails``.

    ``limit``: the largest epsilon at which some weight w of outcomes, 0 <= w <= 1, has
    E_P w - e^epsilon E_Q w - delta at least z standard errors above 0 (or so with P and Q
    exchanged), z the normal quantile of ``error``.  For a given epsilon the best w is
    min(1, max(0, c (P - e^epsilon Q) / (P + e^(2 epsilon) Q))); c is searched on a grid.
    Errors: InvalidParameter for a delta outside [0, 1) or an error rate outside (0, 0.5).
    Source: Cauchy and Schwarz; the linear statistic of the largest mean in standard errors.
    """
    event = choose_declared(tails, sizes, error, epsilon_needed(delta)).predicted
    p, q = _masses(tails.rates), _masses(tails.other_rates)
    quantile, low, high = -float(ndtri(error)), 0.0, LARGEST_EPSILON
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        forward = _largest_quantile(p, q, middle, delta, sizes)
        backward = _largest_quantile(q, p, middle, delta, Sizes(sizes.other_trials, sizes.trials))
        low, high = (middle, high) if max(forward, backward) >= quantile else (low, middle)
    return Power(max(low, event), event)


def limit_of_scores(
    scores_in: FloatArray, scores_out: FloatArray, delta: float, error: float
) -> float:
    """The information limit of an audit of two samples of scores, as they look: an estimate.

    An audit that knew the distributions of both samples, and spent no trial on choosing an event,
    would show it; at most what two samples that never overlap would show.  The distributions are
    estimated by :func:`dpaudit.audit.bounds.binormal.smoothed_tails`.
    Shapes: (trials,), no NaN.
    Errors: InvalidParameter for a delta outside [0, 1) or an error rate outside (0, 0.5).
    """
    sizes = Sizes(scores_in.size, scores_out.size)
    limit = information_limit(smoothed_tails(scores_in, scores_out), sizes, delta, error).limit
    clearest = Counts(0, scores_out.size, 0, scores_in.size)
    return min(limit, epsilon_lower(clearest, delta, error).epsilon_lower)


def trials_needed(
    tails: Tails, wanted: float, error: float, needed: Needed, power: float = 0.5
) -> int | None:
    """Trials a side after which the best event shows at least ``wanted`` with chance ``power``.

    Predicted; within some percent of the exact joint test.  None if 1e9 trials do not suffice.
    Errors: InvalidParameter unless 0 < error < 0.5, 0.5 <= power < 1 and 0 < wanted is finite.
    """
    if not 0 < wanted < math.inf:
        raise InvalidParameter(f"wanted = {wanted!r}: expected a positive number")
    strict = _error_of_power(error, power)

    def suffices(trials: int) -> bool:
        return choose_declared(tails, Sizes(trials, trials), strict, needed).predicted >= wanted

    if not suffices(MAXIMUM_TRIALS):
        return None
    low, high = 0, MAXIMUM_TRIALS
    while high - low > max(1, high // 1_000):
        middle = math.isqrt(low * high) if low else high // 32
        middle = min(max(middle, low + 1), high - 1)
        low, high = (low, middle) if suffices(middle) else (middle, high)
    return high


def smallest_epsilon(
    sizes: Sizes,
    claim: Region,
    delta: float,
    error: float,
    power: float = 0.5,
    other_rates: FloatArray | None = None,
) -> float:
    """The smallest epsilon that an audit of this size could have shown to break a claim.

    The least epsilon for which an event on the edge of (epsilon, ``delta``)-DP, with the most
    convenient of ``other_rates`` (the event's probability under Q; 63 of them by default),
    refutes ``claim`` at ``error`` with chance ``power``.  Infinite beyond 50.
    Errors: InvalidParameter for a bad delta, error rate, power or rate.
    """
    ApproxRegion(0.0, delta)
    strict = _error_of_power(error, power)
    q = _rates(sizes) if other_rates is None else np.asarray(other_rates, dtype=np.float64)
    if q.ndim != 1 or q.size == 0 or not ((q >= 0) & (q <= 1)).all():
        raise InvalidParameter("other_rates: expected numbers in [0, 1] of shape (events,)")
    low, high = np.zeros(q.size), np.full(q.size, LARGEST_EPSILON)
    refuted = _refutes(_edge(high, delta, q), q, sizes, strict, claim)
    if not refuted.any():
        return math.inf
    low, high, q = low[refuted], high[refuted], q[refuted]
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        shown = _refutes(_edge(middle, delta, q), q, sizes, strict, claim)
        low, high = np.where(shown, low, middle), np.where(shown, middle, high)
    return float(high.min())


def _refutes(p: FloatArray, q: FloatArray, sizes: Sizes, error: float, claim: Region) -> BoolArray:
    """Where the likelihood ball around (p, q) lies outside the claim's region."""
    return predicted_lower(p, q, sizes, error, lambda a, b: a - claim.largest(b)) > 0


def _edge(epsilon: FloatArray, delta: float, q: FloatArray) -> FloatArray:
    missed = np.exp(-epsilon) * np.maximum(1 - delta - q, 0.0)
    return np.asarray(np.minimum(np.exp(epsilon) * q + delta, 1 - missed))


def _rates(sizes: Sizes) -> FloatArray:
    """Rates from a hundredth of one count to all but that, and between them even odds."""
    least = 0.01 / sizes.other_trials
    tail = np.geomspace(least, 0.5, _GRID_RATES // 2)
    return np.concatenate([tail, 1 - tail[-2::-1]])


def _largest_quantile(
    p: FloatArray, q: FloatArray, epsilon: float, delta: float, sizes: Sizes
) -> float:
    """The largest (E_P w - e^epsilon E_Q w - delta) / standard error over weights of outcomes."""
    growth = math.exp(epsilon)
    with np.errstate(divide="ignore", invalid="ignore"):
        slope = (p - growth * q) / (p + growth**2 * sizes.trials / sizes.other_trials * q)
    weights = np.clip(_LAGRANGE_SCALES[:, None] * np.nan_to_num(slope), 0.0, 1.0)
    means, others = weights @ p, weights @ q
    squares, other_squares = weights**2 @ p, weights**2 @ q
    spread = np.maximum(squares - means**2, 0) / sizes.trials
    spread = spread + growth**2 * np.maximum(other_squares - others**2, 0) / sizes.other_trials
    excess = means - growth * others - delta
    with np.errstate(divide="ignore", invalid="ignore"):
        quantiles = excess / np.sqrt(spread)
    return float(np.max(np.where((excess > 0) & (spread > 0), quantiles, -np.inf)))


def _masses(rates: FloatArray) -> FloatArray:
    """Probabilities between neighbouring thresholds, from nested tails."""
    return -np.diff(np.concatenate([[1.0], rates, [0.0]]))


def _error_of_power(error: float, power: float) -> float:
    """The error rate whose quantile leaves room for a chance of ``power`` above one half."""
    if not (0 < error < 0.5 and 0.5 <= power < 1):
        raise InvalidParameter(
            f"error = {error!r}, power = {power!r}: expected in (0, 1/2), [1/2, 1)"
        )
    return float(ndtr(ndtri(error) - ndtri(power)))
