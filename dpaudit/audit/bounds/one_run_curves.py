"""One-run bounds against claims that are whole curves: mu-GDP, rho-zCDP, Renyi-DP, an account's.

A claim allows p <= h(q) for the probabilities p, q of an event under neighbours, h concave.  Let
R_j be the probability of at least j correct guesses of r, fixed beforehand, among m canaries.  For
canary i, apply the claim to "i is guessed in, and at least j - 1 other guesses are correct", whose
occurrence does not depend on label i; likewise for "out".  Summing over i and by concavity

    sum_{k >= j} k a_k <= m h( sum_{k >= j-1} (r - k) a_k / m ),    a_k = R_k - R_{k+1},

that is, with T_j = R_j + R_{j+1} + ...,

    R_{j-1} >= ( m h^-1( ((j - 1) R_j + T_j) / m ) + T_j ) / (r - j + 1).

The right side grows with every R.  Starting from R_v = t and nothing above v, the recursion
therefore stays below the true R_v, ..., R_0 whenever t <= R_v.  If it ends above 1, R_v < t.

Source: Mahloujifar, Melis and Chaudhuri (2024) for the idea of such a recursion in f-DP.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq
from scipy.special import log_ndtr, ndtr, ndtri

from dpaudit.audit.bounds.estimators import MINIMUM_ERROR, _error_rate
from dpaudit.audit.bounds.one_run import _guessed
from dpaudit.errors import InvalidParameter

FloatArray = npt.NDArray[np.float64]
Inverse = Callable[[float], float]

MAXIMUM_MU = 50.0  # the largest mu that is looked for
MAXIMUM_RHO = 1_250.0  # mu^2 / 2 of the largest mu
MAXIMUM_DIVERGENCE = 700.0  # exp(700) is near the largest float
MAXIMUM_MULTIPLE = 100.0  # of an account's privacy losses
_MOST_PLANNED = 4_000  # guesses: the recursion takes time proportional to them
# Factor that lowers each step of the recursion by more than its own rounding error.
_ROUND_DOWN = 1 - 1e-12
# Epsilons at which a profile is tabulated: geometric, up to about 600.
_PROFILE_EPSILONS: FloatArray = np.concatenate([[0.0], 0.01 * 1.06 ** np.arange(190)]).astype(
    np.float64
)
# Renyi orders from 1.01 to 2,000.
_RENYI_ORDERS: FloatArray = 1 + 0.01 * np.power(1.3, np.arange(48.0))
_PARAMETER_BISECTIONS = 22  # Halvings of the search for the largest refuted parameter.


def one_run_mu_p_value(correct: int, guesses: int, canaries: int, mu: float) -> float:
    """P-value of "the mechanism is mu-GDP"; refutes claims of mu-GDP and no other family.

    The number of ``guesses`` is fixed before the labels are drawn.  Rounded up, to 1e-6 relative;
    at least 1e-100.
    Errors: InvalidParameter for bad counts, or unless 0 <= mu <= 50.
    """
    return _p_value(*_guessed(correct, guesses, canaries), canaries, gaussian_inverse(mu))


def one_run_rho_p_value(correct: int, guesses: int, canaries: int, rho: float) -> float:
    """P-value of "the mechanism is rho-zCDP"; as :func:`one_run_mu_p_value`.

    Errors: InvalidParameter for bad counts, or unless 0 <= rho <= 1250.
    """
    return _p_value(*_guessed(correct, guesses, canaries), canaries, zcdp_inverse(rho))


def one_run_renyi_p_value(
    correct: int, guesses: int, canaries: int, order: float, divergence: float
) -> float:
    """P-value of "the mechanism is (order, divergence)-Renyi-DP"; as :func:`one_run_mu_p_value`.

    Errors: InvalidParameter for bad counts, an order outside (1, 1e6], a divergence outside [0,
    700].
    """
    inverse = renyi_inverse(order, divergence)
    return _p_value(*_guessed(correct, guesses, canaries), canaries, inverse)


def one_run_mu_lower(correct: int, guesses: int, canaries: int, error: float) -> float:
    """Lower bound on mu, wrong with probability at most ``error``, if mu-GDP is claimed.

    The largest mu found that is refuted at ``error``; a smaller mu implies a larger one, so all
    below it are refuted too.  Rounded down; at least 0, at most 50.
    Errors: InvalidParameter for bad counts or a bad error rate.
    """
    return _largest(correct, guesses, canaries, error, gaussian_inverse, MAXIMUM_MU)


def one_run_rho_lower(correct: int, guesses: int, canaries: int, error: float) -> float:
    """Lower bound on the rho of rho-zCDP; as :func:`one_run_mu_lower`, at most 1250."""
    return _largest(correct, guesses, canaries, error, zcdp_inverse, MAXIMUM_RHO)


def one_run_renyi_lower(
    correct: int, guesses: int, canaries: int, order: float, error: float
) -> float:
    """Lower bound on the Renyi divergence of ``order``; as :func:`one_run_mu_lower`, at most 700.

    Errors: also InvalidParameter for an order outside (1, 1e6].
    """

    def family(divergence: float) -> Inverse:
        return renyi_inverse(order, divergence)

    return _largest(correct, guesses, canaries, error, family, MAXIMUM_DIVERGENCE)


@dataclass(frozen=True, eq=False)
class Curve:
    """A privacy profile by upper bounds: ``deltas`` at ``epsilons``, of the same length.

    Any points are valid; more points make a sharper test.
    Errors: InvalidParameter for epsilons that are negative or not finite, or deltas outside [0, 1].
    """

    epsilons: FloatArray
    deltas: FloatArray

    def __post_init__(self) -> None:
        inside = np.isfinite(self.epsilons) & (self.epsilons >= 0) & (self.epsilons <= 600)
        if self.epsilons.shape != self.deltas.shape or not inside.all():
            raise InvalidParameter("Curve.epsilons: expected numbers in [0, 600], one a delta")
        if not ((self.deltas >= 0) & (self.deltas <= 1)).all():
            raise InvalidParameter("Curve.deltas: expected numbers in [0, 1]")

    def inverse(self, multiple: float) -> Inverse:
        """As :func:`profile_inverse`, of losses that are ``multiple`` times as large."""
        epsilons = np.minimum(self.epsilons * multiple, 600.0)
        return profile_inverse(epsilons, self.deltas)


def one_run_curve_p_value(correct: int, guesses: int, canaries: int, curve: Curve) -> float:
    """P-value of "the mechanism has this privacy profile"; as :func:`one_run_mu_p_value`.

    Errors: InvalidParameter for bad counts.
    """
    return _p_value(*_guessed(correct, guesses, canaries), canaries, curve.inverse(1.0))


def one_run_curve_lower(
    correct: int, guesses: int, canaries: int, curve: Curve, error: float
) -> float:
    """Lower bound on c, if the mechanism's privacy losses are c times those of the curve.

    The largest c found that is refuted at ``error``; delta(epsilon / c) grows with c, so all below
    it are refuted too.  Above 1, it refutes the curve itself whatever the family.  Rounded down; at
    least 0, at most 100.
    Errors: InvalidParameter for bad counts or a bad error rate.
    """
    return _largest(correct, guesses, canaries, error, curve.inverse, MAXIMUM_MULTIPLE)


@lru_cache(maxsize=256)
def planned_guesses(canaries: int, mu: float, error: float) -> int:
    """How many guesses show most of a mu-GDP mechanism with one Gaussian score a canary.

    It depends on nothing observed, so that bounds at fixed guesses hold.  Numbers from
    sqrt(canaries) on, by factors of sqrt(2), are compared by the bound on mu at the expected count.
    """
    usual = 2 * math.isqrt(canaries)
    if mu <= 0 or canaries < 16:
        return min(canaries, max(1, usual))
    grid = (usual * 2 ** (step / 2) for step in range(-2, 12))
    most = min(canaries, max(usual, _MOST_PLANNED))
    numbers = sorted({int(number) for number in grid if number <= most})
    return max(numbers, key=lambda number: _expected_bound(number, canaries, mu, error))


def _expected_bound(guesses: int, canaries: int, mu: float, error: float) -> float:
    """The bound on mu where the largest absolute scores of N(+-mu/2, 1) are guessed by sign."""
    half, share = mu / 2, guesses / canaries

    def guessed(threshold: float) -> float:
        return float(ndtr(half - threshold) + ndtr(-half - threshold))

    threshold = 0.0
    if share < 1:
        threshold = float(brentq(lambda t: guessed(t) - share, 0.0, half + 40.0))
    correct = int(guesses * float(ndtr(half - threshold)) / guessed(threshold))
    return one_run_mu_lower(correct, guesses, canaries, error)


def gaussian_inverse(mu: float) -> Inverse:
    """Smallest q with h(q) >= y under mu-GDP: Phi(Phi^-1(y) - mu), rounded down.

    Errors: InvalidParameter unless 0 <= mu <= 50.
    Source: Dong, Roth and Su (2022), Definition 2.6.
    """
    _inside(mu, MAXIMUM_MU, "mu")

    def inverse(y: float) -> float:
        quantile = float(ndtri(y))
        # ndtri and log_ndtr err by a few units in the last place of their argument.
        shifted = quantile - mu - 1e-14 * (1 + abs(quantile) + mu)
        return math.exp(float(log_ndtr(shifted)) * (1 + 1e-14) - 1e-14)

    return inverse


def profile_inverse(epsilons: FloatArray, deltas: FloatArray) -> Inverse:
    """Smallest q that (epsilon, delta)-DP at all these points allows for p = y, rounded down.

    From p <= e^epsilon q + delta and 1 - q <= e^epsilon (1 - p) + delta.
    """
    shrink, growth = np.exp(-epsilons) * (1 - 1e-15), np.exp(epsilons) * (1 + 1e-15)

    def inverse(y: float) -> float:
        low = float(np.max((y - deltas) * shrink))
        high = float(np.max(1 - deltas - growth * (1 - y))) - 1e-15
        return max(low, high, 0.0)

    return inverse


def zcdp_inverse(rho: float) -> Inverse:
    """As :func:`profile_inverse`, of the Renyi divergences rho x order on a grid of orders.

    Errors: InvalidParameter unless 0 <= rho <= 1250.
    Source: Bun and Steinke (2016), Definition 1.1.
    """
    _inside(rho, MAXIMUM_RHO, "rho")
    return _of_divergences(_RENYI_ORDERS, np.asarray(rho * _RENYI_ORDERS))


def renyi_inverse(order: float, divergence: float) -> Inverse:
    """As :func:`profile_inverse`, of a Renyi divergence at ``order`` and so at all below it.

    Errors: InvalidParameter unless 1 < order <= 1e6 and 0 <= divergence <= 700.
    Source: Mironov (2017); van Erven and Harremoes (2014), Theorem 3, for lower orders.
    """
    _inside(divergence, MAXIMUM_DIVERGENCE, "Renyi divergence")
    if not 1 < order <= 1e6:
        raise InvalidParameter(f"order = {order!r}: expected in (1, 1e6]")
    orders: FloatArray = np.append(_RENYI_ORDERS[order > _RENYI_ORDERS], order)
    return _of_divergences(orders, np.full(orders.size, float(divergence), dtype=np.float64))


def _of_divergences(orders: FloatArray, divergences: FloatArray) -> Inverse:
    """delta(epsilon) = min_a e^((a-1)(D_a - epsilon)) (1 - 1/a)^a / (a - 1), rounded up.

    Source: Canonne, Kamath and Steinke (2020), Proposition 12.
    """
    a = orders[:, None]
    excess = (a - 1) * (divergences[:, None] - _PROFILE_EPSILONS)
    exponent = excess + a * np.log1p(-1 / a) - np.log(a - 1)
    least = np.min(exponent + 1e-14 * (1 + np.abs(excess) + a), axis=0)
    return profile_inverse(_PROFILE_EPSILONS, np.minimum(1.0, np.exp(np.minimum(least, 0.0))))


def _refuted(correct: int, guesses: int, canaries: int, inverse: Inverse, level: float) -> bool:
    """Whether R_correct = ``level`` leads to R_0 > 1: the recursion, rounded down."""
    reached, total = level, level
    for j in range(correct, 0, -1):
        needed = canaries * inverse(((j - 1) * reached + total) / canaries * _ROUND_DOWN)
        reached = max(reached, (needed + total) / (guesses - j + 1) * _ROUND_DOWN)
        if reached > 1:
            return True
        total = (total + reached) * _ROUND_DOWN
    return False


def _p_value(correct: int, guesses: int, canaries: int, inverse: Inverse) -> float:
    """The smallest level found that is refuted; 1 if none is."""
    low, high = math.log(MINIMUM_ERROR), 0.0
    if correct == 0 or not _refuted(correct, guesses, canaries, inverse, 1 - 1e-9):
        return 1.0
    if _refuted(correct, guesses, canaries, inverse, MINIMUM_ERROR):
        return MINIMUM_ERROR
    while high - low > 1e-6:
        middle = (low + high) / 2
        refuted = _refuted(correct, guesses, canaries, inverse, math.exp(middle))
        low, high = (low, middle) if refuted else (middle, high)
    return min(1.0, math.exp(high) * (1 + 1e-12))


def _largest(
    correct: int,
    guesses: int,
    canaries: int,
    error: float,
    family: Callable[[float], Inverse],
    top: float,
) -> float:
    """The largest value up to ``top`` that the guesses refute, found by doubling and bisection."""
    hits, total = _guessed(correct, guesses, canaries)
    rate = _error_rate(error)

    def refuted(value: float) -> bool:
        return _refuted(hits, total, canaries, family(value), rate)

    if not refuted(0.0):
        return 0.0
    low, high = 0.0, 1.0
    while high < top and refuted(high):
        low, high = high, min(2 * high, top)
    for _ in range(_PARAMETER_BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if refuted(middle) else (low, middle)
    return low


def _inside(value: float, top: float, place: str) -> None:
    if not 0 <= value <= top:
        raise InvalidParameter(f"{place} = {value!r}: expected a number in [0, {top:g}]")
