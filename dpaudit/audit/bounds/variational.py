"""Variational bounds: Renyi divergences, rho and mu from means of functions, not from one event.

A two-point event shows at most 2 / pi of the divergence of two close Gaussians at orders near 1,
however many draws, and at large orders only by events too rare to be drawn.  Means of a bounded
function g of the score show all of it.  With r = D_a(P || Q) / a, for every bounded g,

    E_P exp((a - 1) g) <= exp((a - 1) r) (E_Q exp(a g))^((a - 1) / a),   a > 1,
    E_P g <= r + log E_Q exp(g),                                         a = 1,

each right-hand side is concave in the mean under Q, so it lies below its tangent: E_P A_r <= E_Q B,
with A_r decreasing in r.  Pairs of draws bet on that (:mod:`dpaudit.audit.bounds.paired_bets`); the
largest r refuted is the lower bound.  Function, tangent and stake come from training.  mu of a
Gaussian claim is bounded in the same way, from events (:mod:`dpaudit.audit.bounds.variational_mu`).

Sources: Donsker and Varadhan (1975); Birrell, Dupuis, Katsoulakis, Rey-Bellet and Wang (2021),
Theorem 3; Waudby-Smith and Ramdas (2023); Ville (1939).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from dpaudit.audit.bounds.estimators import TestScores, TrainingScores, _error_rate, _of_type
from dpaudit.audit.bounds.paired_bets import (
    BOLD_STAKE,
    MAX_STAKE,
    FloatArray,
    Sides,
    last_refuted,
    paired,
    peak,
    reach_of,
)
from dpaudit.audit.bounds.variational_mu import GaussianWitness, gaussian_witness, mu_lower
from dpaudit.errors import InvalidParameter

__all__ = [
    "MAXIMUM_ORDER",
    "ORDERS",
    "GaussianWitness",
    "RenyiWitness",
    "gaussian_witness",
    "mu_lower",
    "renyi_lower",
    "renyi_p_value",
    "renyi_witness",
    "rho_lower",
]

Range = tuple[float, float]

ORDERS = (1.0, 1.25, 1.5, 2.0, 3.0, 5.0, 8.0, 16.0, 32.0)  # Renyi orders that a bound on rho tries
MAXIMUM_ORDER = 1e4  # orders above differ from infinite order by less than any audit shows
SLOPE_MULTIPLES = (0.5, 1.0, 1.5)  # Multiples of a witness's optimal slope that are tried.
# Shares of the scores that are clipped at the lower and the upper end.
_CLIPPED_TAILS = ((0.0, 0.0), (1e-3, 1e-3), (1e-2, 1e-2), (1e-2, 0.0), (0.0, 1e-2))
_LEAST_POSITIVE = 1e-300  # Lower limit that keeps logarithms and quotients finite.
# Half-widths around the median to which scores are clipped; inf does not clip.
_CLIP_WIDTHS = (1.5, 3.0, 6.0, math.inf)
_SCREENING_SCORES = 2_000  # Scores a side on which all witnesses are compared.
_FITTING_SCORES = 50_000  # Scores a side on which the best witnesses are fitted.
_MAX_FITTED = 8  # Witnesses that are fitted, the best of the comparison.
_RULE_OF_THREE = 3  # Pseudo-count: an event unseen in n trials may have a rate of 3 / n.


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


def renyi_witness(
    training: TrainingScores, orders: Sequence[float], pairs: int, error: float
) -> RenyiWitness:
    """The witness whose bound on D_order / order, from ``pairs`` test pairs, promises most.

    Every order, both directions and clips at quantiles of the score are tried on 2,000 training
    scores a side; the best eight, with three scales, on up to 50,000.  Any choice is valid.
    Errors: InvalidParameter for scores that are not TrainingScores, bad orders, pairs or error.
    """
    reach = reach_of(training, pairs, error)
    if not orders:
        raise InvalidParameter("orders: none given; expected at least one")
    many = _windowed(training)
    few = _both_thinned(*many, _SCREENING_SCORES)
    tried = product(map(_order, orders), (1, -1), (1.0,), _clips(*many))
    screened = [_fitted(few, *choice, reach) for choice in tried]
    screened.sort(key=lambda witness: -witness.predicted)
    finalists = [
        _fitted(many, witness.order, witness.sign, scale, _clip_of(witness), reach)
        for witness, scale in product(screened[:_MAX_FITTED], SLOPE_MULTIPLES)
    ]
    return max(finalists, key=lambda witness: witness.predicted)


def renyi_lower(test: TestScores, witness: RenyiWitness, error: float) -> float:
    """Lower bound on the Renyi divergence of ``witness.order``, wrong with at most ``error``.

    The divergence is that of P from Q if the witness's sign is 1, else that of Q from P; order 1 is
    Kullback-Leibler.  At least 0; rounded down.  1e6 test draws a side take about a second.
    Errors: InvalidParameter for scores that are not TestScores, or a bad error rate.
    Source: Birrell et al. (2021), Theorem 3; this module's docstring.
    """
    bet, gains, lost = _bets(test, witness)
    reach = -math.log(_error_rate(error))
    top = witness.high - witness.low + 1e-9  # beyond it no pair of draws gains
    bound = last_refuted(lambda r: peak(bet.won(gains, r), lost) >= reach, top)
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
    return min(1.0, math.exp(-peak(bet.won(gains, claimed / witness.order * (1 + 1e-15)), lost)))


def _bets(test: TestScores, witness: RenyiWitness) -> tuple[_RenyiBet, FloatArray, FloatArray]:
    """The bet, the function on one side's draws, and what the other side's draws lose."""
    _of_type(test, TestScores)
    _of_type(witness, RenyiWitness)
    first, second = paired(*(test.alternative, test.null)[:: witness.sign])
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
    """The witness of clip(scale * score, scale * clip) with centre, stake and bound predicted.

    The centre counts three more scores at the top: as many may be missing where none was seen.
    """
    low, high = sorted((sign * scale * clip[0], sign * scale * clip[1]))
    first, second = (np.clip(sign * scale * s, low, high) - high for s in sides[::sign])
    centre = min(
        (float(np.sum(np.exp(order * second))) + _RULE_OF_THREE) / (second.size + _RULE_OF_THREE),
        1.0,
    )
    inner = float(np.mean(first if order == 1 else np.exp((order - 1) * first)))
    divergence = inner if order == 1 else math.log(max(inner, _LEAST_POSITIVE)) / (order - 1)
    r = max(divergence - math.log(centre) / order, 0.0)
    gains, prices = _gain(first, order, centre, r), _price(second, order, centre)
    spread = float(np.var(gains) + np.var(prices)) + _LEAST_POSITIVE
    floor = -float(_gain(np.array([low - high]), order, centre, r + 1.0)[0])
    full = MAX_STAKE / max(floor, 1 / centre - 1)
    stake = min(BOLD_STAKE * math.sqrt(reach / spread), full)
    cost = (reach / stake + stake * spread) / (2 * BOLD_STAKE) + math.sqrt(spread / first.size)
    return RenyiWitness(order, sign, scale, low, high, centre, stake, r - cost)


def _clip_of(witness: RenyiWitness) -> Range:
    """The clip of the score that a witness of scale 1 makes."""
    return (witness.low, witness.high) if witness.sign > 0 else (-witness.high, -witness.low)


def _windowed(training: TrainingScores) -> Sides:
    """Scores within log(trials) + 5 of their median: beyond, no count could tell them apart."""
    sides = _both_thinned(training.alternative, training.null, _FITTING_SCORES)
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
    ranges = (np.quantile(both, (low, 1 - high)) for low, high in _CLIPPED_TAILS)
    pairs = {
        tuple(np.clip(ends, middle - width, middle + width).tolist())
        for ends, width in product(ranges, _CLIP_WIDTHS)
    }
    return [(low, high) for low, high in sorted(pairs)]


def _order(order: float) -> float:
    if not 1 <= order <= MAXIMUM_ORDER:
        raise InvalidParameter(f"order = {order!r}: expected in [1, {MAXIMUM_ORDER:g}]")
    return float(order)
