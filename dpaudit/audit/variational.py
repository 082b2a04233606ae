"""Variational bounds: Renyi divergences, rho and mu from means of functions, not from one event.

A two-point event shows at most 2 / pi of the divergence of two close Gaussians at orders near 1,
however many draws, and at large orders only by events too rare to be drawn.  Means of a bounded
function g of the score show all of it.  With r = D_a(P || Q) / a, for every bounded g,

    E_P exp((a - 1) g) <= exp((a - 1) r) (E_Q exp(a g))^((a - 1) / a),   a > 1,
    E_P g <= r + log E_Q exp(g),                                         a = 1,

and mu-GDP gives P[E] - exp(epsilon) Q[E] <= delta_mu(epsilon) for every event and every epsilon,
hence for sums of them with weights fixed beforehand.  Each right-hand side is concave in the mean
under Q, so it lies below its tangent: E_P A_r <= E_Q B, with A_r decreasing in r (or mu).  Paired
draws multiply a wealth by (1 + c A_r(X)) (1 - c B(Y)), both factors positive, whose mean is at most
(1 + c w) (1 - c w) <= 1 with w = E_Q B, if the claim of r is true.  By Ville's inequality that
wealth ever reaches 1 / error with probability at most ``error``; the largest r refuted is the
lower bound, cheaper by one bet on both sides than by two bounds at half the error each.

Function, tangent and stake come from training.  Test draws are paired in a pseudo-random order
that does not depend on them; draws without a partner are left out.

Sources: Donsker and Varadhan (1975); Birrell, Dupuis, Katsoulakis, Rey-Bellet and Wang (2021),
Theorem 3; Dong, Roth and Su (2022), Corollary 2.13; Waudby-Smith and Ramdas (2023); Ville (1939).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr, ndtri

from dpaudit.audit.estimators import (
    MAXIMUM_TRIALS,
    TestScores,
    TrainingScores,
    _error_rate,
    _of_type,
)
from dpaudit.errors import InvalidParameter

FloatArray = npt.NDArray[np.float64]
Sides = tuple[FloatArray, FloatArray]
Range = tuple[float, float]

ORDERS = (1.0, 1.25, 1.5, 2.0, 3.0, 5.0, 8.0, 16.0, 32.0)
MAXIMUM_ORDER = 1e4
SCALES = (0.5, 1.0, 1.5)
_TAILS = ((0.0, 0.0), (1e-3, 1e-3), (1e-2, 1e-2), (1e-2, 0.0), (0.0, 1e-2))
_TINY = 1e-300
_WIDTHS = (1.5, 3.0, 6.0, math.inf)
_SCREENED = 2_000
_FITTED = 50_000
_FINALISTS = 8
_LEVELS = np.array([0.001, 0.004, 0.015, *np.linspace(0.06, 0.5, 7)])
_PAIRING = 0x6470_6175
_BOLD = 1.2
_FULL = 0.95
_HALVINGS = 24


@dataclass(frozen=True)
class RenyiWitness:
    """A function g = clip(scale * score, low, high) and the bet on it; all fixed on training.

    ``sign`` is 1 for D(P || Q) and -1 for D(Q || P), where the score is -score.  ``centre`` is the
    guessed E_Q exp(order (g - high)), where the tangent touches, in (0, 1]; ``stake`` is c.
    ``predicted`` is the lower bound on D / order that training promises.
    Errors: InvalidParameter for an order outside [1, 1e4] or a domain that is not met.
    """

    order: float
    sign: int
    scale: float
    low: float
    high: float
    centre: float
    stake: float
    predicted: float

    def __post_init__(self) -> None:
        _order(self.order)
        finite = -math.inf < self.low <= self.high < math.inf and 0 < self.scale < math.inf
        if self.sign not in (1, -1) or not finite:
            raise InvalidParameter(f"witness {self}: expected a sign, a scale, finite low <= high")
        if not (0 < self.centre <= 1 and 0 <= self.stake * (1 / self.centre - 1) < 1):
            raise InvalidParameter(f"witness {self}: a bet could lose more than all")


@dataclass(frozen=True)
class GaussianWitness:
    """Events score > threshold with weights and a price exp(epsilon) each; fixed on training.

    Shapes (events,).  ``centre`` is the guessed E_Q of the weighted prices; ``stake`` is c.
    Errors: InvalidParameter unless total weight, total price and centre are <= 1 and c < 1/2.
    """

    thresholds: tuple[float, ...]
    weights: tuple[float, ...]
    epsilons: tuple[float, ...]
    centre: float
    stake: float

    def __post_init__(self) -> None:
        weights, epsilons = np.array(self.weights), np.array(self.epsilons)
        most = max(float(weights.sum()), float(np.sum(weights * np.exp(epsilons))))
        bounded = np.all(weights >= 0) and most <= 1 + 1e-9
        if not (bounded and 0 <= self.centre <= 1 and 0 <= self.stake < 0.499):
            raise InvalidParameter(f"witness {self}: a bet could lose more than all")


def renyi_witness(
    training: TrainingScores, orders: Sequence[float], pairs: int, error: float
) -> RenyiWitness:
    """The witness whose bound on D_order / order, from ``pairs`` test pairs, promises most.

    Every order, both directions and clips at quantiles of the score are tried on 2,000 training
    scores a side; the best eight, with three scales, on up to 50,000.  Any choice is valid.
    Errors: InvalidParameter for scores that are not TrainingScores, bad orders, pairs or error.
    """
    reach = _reach(training, pairs, error)
    if not orders:
        raise InvalidParameter("orders: none given; expected at least one")
    many = _windowed(training)
    few = _both_thinned(*many, _SCREENED)
    tried = product(map(_order, orders), (1, -1), (1.0,), _clips(*many))
    screened = [_fitted(few, *choice, reach) for choice in tried]
    screened.sort(key=lambda witness: -witness.predicted)
    finalists = [
        _fitted(many, found.order, found.sign, scale, _clip_of(found), reach)
        for found, scale in product(screened[:_FINALISTS], SCALES)
    ]
    return max(finalists, key=lambda witness: witness.predicted)


def renyi_lower(test: TestScores, witness: RenyiWitness, error: float) -> float:
    """Lower bound on the Renyi divergence of ``witness.order``, wrong with at most ``error``.

    Of P from Q if the witness's sign is 1, else of Q from P; order 1 is Kullback-Leibler.  At least
    0; rounded down.  1e6 test draws a side take about a second.
    Errors: InvalidParameter for scores that are not TestScores, or a bad error rate.
    Source: Birrell et al. (2021), Theorem 3; this module's docstring.
    """
    bet, gains, lost = _bets(test, witness)
    reach = -math.log(_error_rate(error))
    top = witness.high - witness.low + 1e-9  # beyond it no pair of draws gains
    bound = _last_refuted(lambda r: _peak(bet.won(gains, r), lost) >= reach, top)
    return max(0.0, bound * witness.order * (1 - 1e-15))


def renyi_p_value(test: TestScores, witness: RenyiWitness, claimed: float) -> float:
    """P-value of D <= ``claimed`` for the Renyi divergence of ``witness.order``, order as above.

    One over the largest wealth of the bet against it, at most 1; rounded up.
    Errors: InvalidParameter for scores that are not TestScores, or a claim that is no number >= 0.
    Source: Ville (1939); this module's docstring.
    """
    if not 0 <= claimed < math.inf:
        raise InvalidParameter(f"claimed = {claimed!r}: expected a finite number >= 0")
    bet, gains, lost = _bets(test, witness)
    return min(1.0, math.exp(-_peak(bet.won(gains, claimed / witness.order * (1 + 1e-15)), lost)))


def _bets(test: TestScores, witness: RenyiWitness) -> tuple[_RenyiBet, FloatArray, FloatArray]:
    """The bet, the function on one side's draws, and what the other side's draws lose."""
    _of_type(test, TestScores)
    _of_type(witness, RenyiWitness)
    first, second = _paired(*(test.alternative, test.null)[:: witness.sign])
    factor = witness.sign * witness.scale
    gains, prices = (
        np.clip(factor * side, witness.low, witness.high) - witness.high for side in (first, second)
    )
    bet = _RenyiBet(witness.order, witness.centre, witness.stake, witness.low - witness.high)
    return bet, gains, bet.lost(prices)


def rho_lower(training: TrainingScores, test: TestScores, error: float) -> float:
    """Lower bound on rho of zCDP, wrong with probability at most ``error``; at least 0.

    D_a <= rho a for all a > 1, and D_1 <= rho as the limit; order, direction and function are
    chosen on training.  Errors: as :func:`renyi_witness`.
    Source: Bun and Steinke (2016), Definition 1.1.
    """
    _of_type(test, TestScores)
    witness = renyi_witness(training, ORDERS, min(test.alternative.size, test.null.size), error)
    return renyi_lower(test, witness, error) / witness.order * (1 - 1e-15)


def gaussian_witness(training: TrainingScores, pairs: int, error: float) -> GaussianWitness:
    """Events, weights, prices and stake whose mu bound from ``pairs`` test pairs promises most.

    Thresholds are quantiles of training; events that fall short of the best, with rates two
    standard errors better than seen where the best's are two worse, are left out.  A price is the
    slope of a Gaussian trade-off at the event's rate, three values of mu being tried; weights,
    none negative, maximise the change with mu over its standard error.
    Errors: InvalidParameter for scores that are not TrainingScores, no pairs or a bad error.
    """
    reach = _reach(training, pairs, error)
    thresholds, hits, fired = _events(training)
    size = 1 / (1 / pairs + 1 / training.alternative.size + 1 / training.null.size)
    promised = ndtri(_raised(hits, size)) + ndtri(_raised(1 - fired, size))
    least = float(np.max(-ndtri(_raised(1 - hits, size)) - ndtri(_raised(fired, size))))
    kept = (promised >= least) & (hits > fired)
    events = np.stack([thresholds, hits, fired])[:, kept if kept.any() else slice(None)]
    middle = float(np.median(ndtri(events[1]) - ndtri(events[2])))
    tried = np.clip([least, (least + middle) / 2, middle], 1e-3, 30.0).tolist()
    return max((_priced(events, mu, reach) for mu in tried), key=lambda found: found[0])[1]


def mu_lower(training: TrainingScores, test: TestScores, error: float) -> float:
    """Lower bound on mu if mu-GDP is claimed, wrong with probability at most ``error``.

    sum_i w_i (P[E_i] - exp(epsilon_i) Q[E_i]) <= sum_i w_i delta_mu(epsilon_i), increasing in mu,
    over nested events.  It refutes a claim of mu-GDP and no other.  At least 0; rounded down.
    Errors: InvalidParameter for scores of the wrong type, or a bad error rate.
    Source: Dong, Roth and Su (2022), Corollary 2.13.
    """
    _of_type(test, TestScores)
    witness = gaussian_witness(training, min(test.alternative.size, test.null.size), error)
    weights, epsilons = np.array(witness.weights), np.array(witness.epsilons)
    steps = (np.concatenate([[0.0], np.cumsum(w)]) for w in (weights, weights * np.exp(epsilons)))
    first, second = _paired(test.alternative, test.null)
    gains, prices = (
        step[np.searchsorted(witness.thresholds, side, "left")]
        for step, side in zip(steps, (first, second), strict=True)
    )
    lost = np.log1p(-witness.stake * (prices - witness.centre))
    reach = -math.log(_error_rate(error))

    def refuted(mu: float) -> bool:
        excess = gains - witness.centre - _profile_sum_upper(mu, weights, epsilons)
        return _peak(np.log1p(witness.stake * excess), lost) >= reach

    return _last_refuted(refuted, 40.0)


@dataclass(frozen=True)
class _RenyiBet:
    """log(1 + c A_r) and log(1 - c B) for g in [floor, 0]."""

    order: float
    centre: float
    stake: float
    floor: float

    def won(self, values: FloatArray, r: float) -> FloatArray:
        """-inf throughout if the bet against r could lose more than all, so that r stands."""
        if self.stake * _gain(np.array([self.floor]), self.order, self.centre, r)[0] <= -1:
            return np.full_like(values, -math.inf)
        return np.log1p(self.stake * _gain(values, self.order, self.centre, r))

    def lost(self, values: FloatArray) -> FloatArray:
        return np.log1p(-self.stake * _price(values, self.order, self.centre))


def _gain(values: FloatArray, order: float, centre: float, r: float) -> FloatArray:
    """A_r(g) of the tangent at E_Q exp(order g) = centre."""
    if order == 1:
        return np.asarray(values - (r + math.log(centre)))
    share = (order - 1) / order
    return np.asarray(np.expm1((order - 1) * (values - r) - share * math.log(centre)) / share)


def _price(values: FloatArray, order: float, centre: float) -> FloatArray:
    return np.asarray(np.exp(order * values) / centre - 1)


def _fitted(
    sides: Sides, order: float, sign: int, scale: float, clip: Range, reach: float
) -> RenyiWitness:
    """The witness of clip(scale * score, scale * clip) with centre, stake and bound predicted."""
    low, high = sorted((sign * scale * clip[0], sign * scale * clip[1]))
    first, second = (np.clip(sign * scale * s, low, high) - high for s in sides[::sign])
    centre = min(max(float(np.mean(np.exp(order * second))), _TINY), 1.0)
    inner = float(np.mean(first if order == 1 else np.exp((order - 1) * first)))
    divergence = inner if order == 1 else math.log(max(inner, _TINY)) / (order - 1)
    r = max(divergence - math.log(centre) / order, 0.0)
    gains, prices = _gain(first, order, centre, r), _price(second, order, centre)
    spread = float(np.var(gains) + np.var(prices)) + _TINY
    floor = -float(_gain(np.array([low - high]), order, centre, r + 1.0)[0])
    full = _FULL / max(floor, 1 / centre - 1)
    stake = min(_BOLD * math.sqrt(reach / spread), full)
    cost = (reach / stake + stake * spread) / (2 * _BOLD) + math.sqrt(spread / first.size)
    return RenyiWitness(order, sign, scale, low, high, centre, stake, r - cost)


def _clip_of(witness: RenyiWitness) -> Range:
    """The clip of the score that a witness of scale 1 makes."""
    return (witness.low, witness.high) if witness.sign > 0 else (-witness.high, -witness.low)


def _windowed(training: TrainingScores) -> Sides:
    """Scores within log(trials) + 5 of their median: beyond, no count could tell them apart."""
    sides = _both_thinned(training.alternative, training.null, _FITTED)
    both = np.concatenate(sides)
    finite = both[np.isfinite(both)]
    middle = float(np.median(finite)) if finite.size else 0.0
    reach = math.log(both.size) + 5
    first, second = (np.clip(side, middle - reach, middle + reach) for side in sides)
    return first, second


def _both_thinned(first: FloatArray, second: FloatArray, most: int) -> Sides:
    """Every so many of the scores, so that an array in order is thinned evenly as well."""
    return first[:: 1 + (first.size - 1) // most], second[:: 1 + (second.size - 1) // most]


def _clips(first: FloatArray, second: FloatArray) -> list[Range]:
    """Ranges of the score worth trying: quantiles of both sides, no further than some widths."""
    both = np.concatenate([first, second])
    middle = np.median(both)
    ranges = (np.quantile(both, (low, 1 - high)) for low, high in _TAILS)
    pairs = {
        tuple(np.clip(ends, middle - width, middle + width).tolist())
        for ends, width in product(ranges, _WIDTHS)
    }
    return [(low, high) for low, high in sorted(pairs)]


def _events(training: TrainingScores) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Thresholds increasing, and the two sides' rates above each, pulled into (0, 1)."""
    sides = (training.alternative, training.null)
    levels = [*_LEVELS, *(1 - _LEVELS)]
    both = [np.quantile(side, levels, method="higher") for side in sides]
    thresholds = np.unique(np.concatenate(both))
    rates = [
        (side.size - np.searchsorted(np.sort(side), thresholds, "right") + 0.5) / (side.size + 1)
        for side in sides
    ]
    return thresholds, rates[0], rates[1]


def _reach(training: TrainingScores, pairs: int, error: float) -> float:
    """2 log(1 / error) a pair: the square of a bound's width in standard deviations."""
    _of_type(training, TrainingScores)
    if not 1 <= pairs <= MAXIMUM_TRIALS:
        raise InvalidParameter(f"pairs = {pairs!r}: expected an integer in [1, 1e9]")
    return -2 * math.log(_error_rate(error)) / pairs


def _priced(events: FloatArray, mu: float, reach: float) -> tuple[float, GaussianWitness]:
    """The mu bound that training promises, and the witness with the prices of ``mu``."""
    thresholds, hits, fired = events
    epsilons = -mu * ndtri(fired) - mu**2 / 2
    prices = np.exp(epsilons)
    covariance = _covariance(hits) + prices[:, None] * prices * _covariance(fired)
    weights = _weights(covariance, np.exp(-((mu / 2 - epsilons / mu) ** 2) / 2))
    weights = weights / np.sum(weights * np.maximum(1.0, prices))
    spread = float(weights @ covariance @ weights)
    stake = min(_BOLD * math.sqrt(reach / spread), _FULL / 2)
    centre = float(np.sum(weights * prices * fired))
    gap = weights @ hits - centre - (reach / (2 * stake) + stake * spread / 2) / _BOLD
    predicted = _last_refuted(lambda m: _profile_sum_upper(m, weights, epsilons) <= gap, 40.0)
    ends, shares, logs = (tuple(map(float, v)) for v in (thresholds, weights, epsilons))
    return predicted, GaussianWitness(ends, shares, logs, centre, stake)


def _raised(rates: FloatArray, size: float) -> FloatArray:
    """Rates as they may turn out in the test: two standard errors up."""
    higher = rates + 2 * np.sqrt(rates * (1 - rates) / size) + 3 / size
    return np.asarray(np.minimum(higher, 1 - 1e-9))


def _covariance(rates: FloatArray) -> FloatArray:
    """Covariances of the indicators of nested events."""
    return np.asarray(np.minimum(rates[:, None], rates) - rates[:, None] * rates)


def _weights(covariance: FloatArray, change: FloatArray) -> FloatArray:
    """Weights >= 0 that maximise (w . change)^2 / (w . covariance w)."""
    from scipy.optimize import lsq_linear

    ridge = 1e-6 * float(np.trace(covariance)) / change.size + 1e-12
    root = np.linalg.cholesky(covariance + ridge * np.eye(change.size))
    target = np.linalg.solve(root, change)
    weights = np.maximum(lsq_linear(root.T, target, (0, np.inf), method="bvls").x, 0.0)
    return np.asarray(weights if weights.any() else np.ones_like(change))


def _profile_sum_upper(mu: float, weights: FloatArray, epsilons: FloatArray) -> float:
    """sum_i w_i delta_mu(epsilon_i), rounded up; at mu = 0 the limit max(0, 1 - exp(epsilon))."""
    prices = np.exp(epsilons)
    if mu == 0:
        deltas = np.maximum(0.0, -np.expm1(epsilons))
    else:
        deltas = ndtr(mu / 2 - epsilons / mu) - prices * ndtr(-mu / 2 - epsilons / mu)
    return float(np.sum(weights * (np.maximum(deltas, 0.0) + 1e-12 * (1 + prices))))


def _paired(first: FloatArray, second: FloatArray) -> Sides:
    """Pairs of draws in an order that does not depend on them."""
    pairs = min(first.size, second.size)
    shuffled = np.random.default_rng(_PAIRING).permutation
    return shuffled(first)[:pairs], shuffled(second)[:pairs]


def _peak(won: FloatArray, lost: FloatArray) -> float:
    """The largest log wealth after any pair, lowered by more than the sums' rounding error."""
    path = np.cumsum(won + lost)
    return float(np.max(path)) - 1e-7


def _last_refuted(refuted: Callable[[float], bool], beyond: float) -> float:
    """The largest parameter found that is refuted, all smaller ones being so; 0 if none is."""
    low, high = 0.0, beyond if refuted(0.0) else 0.0
    for _ in range(_HALVINGS if high else 0):
        middle = low + (high - low) / 2
        low, high = (middle, high) if refuted(middle) else (low, middle)
    return low


def _order(order: float) -> float:
    if not 1 <= order <= MAXIMUM_ORDER:
        raise InvalidParameter(f"order = {order!r}: expected in [1, {MAXIMUM_ORDER:g}]")
    return float(order)
