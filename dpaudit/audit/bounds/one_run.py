"""Lower bounds on epsilon from one run with m canaries, each included by a fair coin of its own.

The auditor sees the outcome y of one run (the scores of all canaries), guesses the labels of r
canaries and counts the correct guesses.  The bounds below rest on this theorem, sharper than the
published one where delta > 0 (by about 2 + 2 exp(epsilon) in the term with delta).

Setting.  Labels S are uniform on {-1, 1}^m; flipping one label is one step between neighbours, so
that the laws of y under s and s' are (epsilon, delta)-indistinguishable when s, s' differ in one
place.  Labels may be looked at one after the other, each next choice made from y and the labels
already seen; among those never seen, r are guessed.  A *view* is y with the labels seen; given a
view, C in {0, 1}^r says which guesses are correct, pi is its law and P that of r independent
Bernoulli(q), q = e^epsilon / (1 + e^epsilon).

Budget.  Put cost(pi) = sum over i of sum over c without i of (pi(c, 1) - e^epsilon pi(c, 0))+.
For canary i guessed "in", summing the joint law of (y, S) over all views in which i is not seen
gives at most 2^-m sum_s sum_y (M(y|s, 1) - e^epsilon M(y|s, -1))+ <= delta / 2, because whether i
is seen does not depend on its label; likewise for "out".  So E[cost] <= m delta over views.

Worst case.  Averaging pi over the orders of the guesses keeps the law a of their correct number
and cannot raise the convex cost, which becomes sum_k ((k+1) a_{k+1} - e^epsilon (r-k) a_k)+.
With a = p u, p the Binomial(r, q) law, it is sum_k k p_k (u_k - u_{k-1})+: an integral over the
level sets of u.  Hence, with "sup over laws" replaced by "max over intervals [j, r]" (an interval
that ends earlier, or a union, has a smaller value or a larger cost), for every price lambda >= 0

    pi(correct >= v) - lambda cost(pi) <= mu = max_{0<=j<=v} (beta - lambda j p_j) / P[W >= j],

where W ~ p and beta = P[W >= v]; averaging over views, P(correct >= v) <= mu + m delta lambda.
The best lambda gives the exact worst case over laws of that cost.  With r and v fixed, lambda may
be the best one; if they depend on the view, the bound holds for one lambda fixed beforehand.

Source: Steinke, Nasr and Jagielski (2023), Theorem 5.2, for the setting and the case delta = 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
from scipy.special import betainc, expit, logsumexp

from dpaudit.audit.bounds.estimators import _count, _delta, _error_rate
from dpaudit.errors import InvalidParameter

FloatArray = npt.NDArray[np.float64]

MAXIMUM_CANARIES = 10**7  # arrays of so many numbers take 80 MB
MAXIMUM_EPSILON = 700.0  # exp(700) is near the largest float
# Logs of ratios of up to 1e5 neighbouring probabilities are added, none beyond 700: their
# rounding stays under 1e5 x 700 x 2^-52 < 2e-8; that of betainc was measured below 1e-10.
_ROUNDING_MARGIN = 1e-7
_LEAST_TAIL = 1e-200  # Tail probabilities below this are replaced by it, which is conservative.
# Standard deviations of a binomial; the mass beyond is below every positive float.
_BINOMIAL_WINDOW = 40.0


@dataclass(frozen=True, eq=False)
class _Intervals:
    """For j in a window below v: cost j p_j / P[W >= j] and value beta / P[W >= j] of [j, r].

    Costs are rounded down and values up; entry 0 stands for all j below the window.
    """

    cost: FloatArray
    value: FloatArray

    def excess(self, price: float) -> tuple[float, int]:
        """max_j (value_j - price cost_j), and the j."""
        excess = self.value - price * self.cost
        place = int(np.argmax(excess))
        return float(excess[place]), place


def one_run_p_value(
    correct: int, guesses: int, canaries: int, epsilon: float, delta: float
) -> float:
    """P-value of "the mechanism is (epsilon, delta)-DP" when ``correct`` guesses were right.

    The number of ``guesses`` is fixed before the labels are drawn; which canaries are guessed may
    depend on all scores.  The largest probability of at least ``correct`` right guesses over all
    laws that the theorem of this module allows; at delta = 0 the tail of Binomial(guesses,
    e^epsilon / (1 + e^epsilon)), reached by randomised response.  Rounded up.

    Errors: InvalidParameter unless 0 <= correct <= guesses <= canaries <= 1e7, guesses >= 1,
    0 <= epsilon <= 700 and 0 <= delta < 1.
    Source: Steinke, Nasr and Jagielski (2023), Theorem 5.2; the module's theorem for delta > 0.
    """
    hits, total = _guessed(correct, guesses, canaries)
    slack = _slack(canaries, delta)
    return _p_value(hits, total, slack, _epsilon(epsilon))


def one_run_epsilon_lower(
    correct: int, guesses: int, canaries: int, delta: float, error: float
) -> float:
    """The largest epsilon found whose p-value is at most ``error``, a valid lower bound.

    The p-value of :func:`one_run_p_value` grows with epsilon, since (epsilon, delta)-DP implies
    (epsilon', delta)-DP for epsilon' > epsilon: all epsilons below the bound are refuted too.
    ``guesses`` is fixed before the labels are drawn.  Rounded down; at least 0.

    Errors: as :func:`one_run_p_value`, and for an error rate outside [1e-100, 1).
    """
    hits, total = _guessed(correct, guesses, canaries)
    slack, rate = _slack(canaries, delta), _error_rate(error)
    return _largest(lambda epsilon: _p_value(hits, total, slack, epsilon) <= rate)


def price_share(canaries: int, delta: float, error: float) -> float:
    """Share of the error that a bound with chosen guesses keeps for delta; fixed before any guess.

    Near the best share for 2 sqrt(canaries) guesses and odds of 8; in [0.01, 0.5], and 0 at
    delta = 0.
    """
    slack = _slack(canaries, delta)
    if slack == 0:
        return 0.0
    usual = math.sqrt(16 * math.sqrt(canaries))
    return min(0.5, max(0.01, slack / _error_rate(error) / usual))


@dataclass(frozen=True)
class ChosenTest:
    """A test at level ``error`` that allows the guesses to be chosen from the view.

    That is from all scores and the labels of canaries that are not guessed.  The price lambda is
    :func:`price_share` x ``error`` / (canaries x delta), which depends on nothing observed, and
    epsilon is refuted if mu <= (1 - share) x ``error``: then P(refuted) <= mu + canaries x delta
    x lambda <= ``error`` whatever the choice.  At delta = 0 nothing is paid.

    Errors: InvalidParameter unless 1 <= canaries <= 1e7, 0 <= delta < 1, 1e-100 <= error < 1.
    """

    canaries: int
    delta: float
    error: float

    def __post_init__(self) -> None:
        _guessed(1, 1, self.canaries)
        _delta(self.delta)
        _error_rate(self.error)

    def refutes(self, correct: int, guesses: int, epsilon: float) -> bool:
        """Whether ``correct`` of ``guesses`` refute "the mechanism is (epsilon, delta)-DP"."""
        slack = _slack(self.canaries, self.delta)
        if slack == 0 or correct == 0:
            return _p_value(correct, guesses, 0.0, epsilon) <= self.error
        share = price_share(self.canaries, self.delta, self.error)
        price = share * self.error / slack * (1 - 1e-15)
        least, tail = _usable(correct, guesses, epsilon)
        excess, _ = _intervals(least, guesses, epsilon, tail).excess(price)
        return excess <= (1 - share) * self.error * (1 - 1e-15)


def chosen_epsilon_lower(
    correct: int, guesses: int, canaries: int, delta: float, error: float
) -> float:
    """As :func:`one_run_epsilon_lower`, where the guesses were chosen from the view.

    The largest epsilon found that :class:`ChosenTest` refutes; mu grows with epsilon.

    Errors: as :func:`one_run_epsilon_lower`.
    """
    hits, total = _guessed(correct, guesses, canaries)
    return _largest(partial(ChosenTest(canaries, delta, error).refutes, hits, total))


def one_run_price(correct: int, guesses: int, canaries: int, epsilon: float, delta: float) -> float:
    """The price lambda behind :func:`one_run_p_value`: what a checker needs; 0 at delta = 0.

    Errors: as :func:`one_run_p_value`.
    """
    hits, total = _guessed(correct, guesses, canaries)
    slack = _slack(canaries, delta)
    if hits == 0 or slack == 0:
        return 0.0
    least, tail = _usable(hits, total, _epsilon(epsilon))
    return _cheapest(_intervals(least, total, epsilon, tail), slack)[1]


def strongest_one_run(guesses: int, canaries: int, delta: float, error: float) -> float:
    """The largest bound ``guesses`` guesses could give: all of them correct."""
    return one_run_epsilon_lower(guesses, guesses, canaries, delta, error)


def _slack(canaries: int, delta: float) -> float:
    return canaries * float(_delta(delta)) * (1 + 1e-15)


def _p_value(correct: int, guesses: int, slack: float, epsilon: float) -> float:
    if correct == 0:
        return 1.0
    least, tail = _usable(correct, guesses, epsilon)
    if slack == 0:
        return min(1.0, tail * (1 + _ROUNDING_MARGIN))
    intervals = _intervals(least, guesses, epsilon, tail)
    return min(1.0, _cheapest(intervals, slack)[0] * (1 + 1e-12))


def _cheapest(intervals: _Intervals, slack: float) -> tuple[float, float]:
    """min over prices of (max_j (value_j - price cost_j) + price slack), and the price.

    Any price is valid.
    """
    low, high = 0, intervals.cost.size - 1
    if intervals.cost[high] <= slack:
        return 1.0, 0.0
    best, cheapest = 1.0, 0.0
    for _ in range(200):
        run = float(intervals.cost[high] - intervals.cost[low])
        price = max(0.0, float(intervals.value[high] - intervals.value[low]) / run)
        excess, place = intervals.excess(price)
        if excess + price * slack < best:
            best, cheapest = excess + price * slack, price
        if place in (low, high):
            break
        low, high = (low, place) if intervals.cost[place] > slack else (place, high)
    return best, cheapest


def _intervals(correct: int, guesses: int, epsilon: float, tail: float) -> _Intervals:
    """Costs and values of the intervals [j, guesses], j up to ``correct`` >= 1."""
    q = float(expit(epsilon))
    spread = math.sqrt(guesses * q * (1 - q))
    bottom = max(
        1, min(correct, math.floor(guesses * q - _BINOMIAL_WINDOW * spread - _BINOMIAL_WINDOW))
    )
    bottom = max(bottom, correct - 100_000)
    probability = _probabilities(bottom, correct, guesses, epsilon, tail)
    at_least = tail + np.concatenate([np.cumsum(probability[:-1][::-1])[::-1], [0.0]])
    down, up = 1 - _ROUNDING_MARGIN, 1 + _ROUNDING_MARGIN
    places = np.arange(bottom, correct + 1)
    cost = places * probability / at_least * down
    value = np.minimum(1.0, tail / at_least * up)
    # All j below the window, at cost 0: none has a value above that of the window's first entry.
    below = [tail * up] if bottom == 1 else value[:1]
    return _Intervals(np.concatenate([[0.0], cost]), np.concatenate([below, value]))


def _probabilities(
    bottom: int, correct: int, guesses: int, epsilon: float, tail: float
) -> FloatArray:
    """P[W = j] for j = bottom..correct, from the tail at ``correct`` and ratios of neighbours."""
    above = np.arange(correct, min(guesses, correct + 100_000))
    steps = np.cumsum(epsilon + np.log((guesses - above) / (above + 1.0)))
    # Logs of the tail's terms relative to its first; those left out are below a geometric series.
    left_out = -math.inf
    if above.size and (last := int(above[-1]) + 1) < guesses:
        ratio = math.exp(epsilon) * (guesses - last) / (last + 1.0)
        left_out = math.inf if ratio >= 1 else steps[-1] + math.log(ratio / (1 - ratio))
    first = math.log(tail) - float(logsumexp(np.concatenate([[0.0, left_out], steps])))
    below = np.arange(correct - 1, bottom - 1, -1)
    back = np.cumsum(np.log((below + 1.0) / (guesses - below)) - epsilon)
    return np.asarray(np.exp(first + np.concatenate([back[::-1], [0.0]])))


def _usable(correct: int, guesses: int, epsilon: float) -> tuple[int, float]:
    """P[W >= v] for v = ``correct``, or for the largest smaller v where it does not underflow."""
    tail = _tail(correct, guesses, epsilon)
    if tail >= _LEAST_TAIL:
        return correct, tail
    low, high = 0, correct
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (
            (middle, high) if _tail(middle, guesses, epsilon) >= _LEAST_TAIL else (low, middle)
        )
    return low, _tail(low, guesses, epsilon)


def _tail(correct: int, guesses: int, epsilon: float) -> float:
    """P[Binomial(guesses, e^epsilon / (1 + e^epsilon)) >= correct]."""
    if correct == 0:
        return 1.0
    return float(betainc(float(correct), guesses - correct + 1.0, expit(epsilon)))


def _largest(refuted: Callable[[float], bool]) -> float:
    """The largest epsilon found to be refuted, to 1e-6 relative; 0 if none is."""
    if not refuted(0.0):
        return 0.0
    low, high = 0.0, 1.0
    while high < MAXIMUM_EPSILON and refuted(high):
        low, high = high, 2 * high
    for _ in range(22):
        middle = (low + high) / 2
        low, high = (middle, high) if refuted(middle) else (low, middle)
    return low


def _guessed(correct: int, guesses: int, canaries: int) -> tuple[int, int]:
    hits, total = _count(correct, guesses, "correct")
    _, most = _count(guesses, canaries, "guesses")
    if most > MAXIMUM_CANARIES:
        raise InvalidParameter(f"canaries = {most}: expected at most {MAXIMUM_CANARIES:,}")
    return hits, total


def _epsilon(epsilon: float) -> float:
    if not 0 <= epsilon <= MAXIMUM_EPSILON:
        raise InvalidParameter(f"epsilon = {epsilon!r}: expected in [0, {MAXIMUM_EPSILON:g}]")
    return float(epsilon)
