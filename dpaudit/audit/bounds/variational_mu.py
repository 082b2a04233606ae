"""mu of a Gaussian claim from weighted sums of events: the variational bound of its profile.

mu-GDP gives P[E] - exp(epsilon) Q[E] <= delta_mu(epsilon) for every event and every epsilon, hence
sum_i w_i (P[E_i] - exp(epsilon_i) Q[E_i]) <= sum_i w_i delta_mu(epsilon_i) for weights fixed
beforehand, which is bet on in pairs of draws (:mod:`dpaudit.audit.bounds.paired_bets`).

Source: Dong, Roth and Su (2022), Corollary 2.13.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, ndtri

from dpaudit.audit.bounds.estimators import TestScores, TrainingScores, _error_rate, _of_type
from dpaudit.audit.bounds.paired_bets import (
    BOLD_STAKE,
    MAX_STAKE,
    FloatArray,
    last_refuted,
    paired,
    peak,
    reach_of,
)
from dpaudit.errors import InvalidParameter

# Quantile levels p, tried with 1 - p, of each side's scores at which thresholds are put.
_QUANTILE_LEVELS = np.array([0.001, 0.004, 0.015, *np.linspace(0.06, 0.5, 7)])


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


def gaussian_witness(training: TrainingScores, pairs: int, error: float) -> GaussianWitness:
    """Events, weights, prices and stake whose mu bound from ``pairs`` test pairs promises most.

    Thresholds are quantiles of training; events that fall short of the best, with rates two
    standard errors better than seen where the best's are two worse, are left out.  A price is the
    slope of a Gaussian trade-off at the event's rate, three values of mu being tried; weights,
    none negative, maximise the change with mu over its standard error.
    Errors: InvalidParameter for scores that are not TrainingScores, no pairs or a bad error.
    """
    reach = reach_of(training, pairs, error)
    thresholds, hits, fired = _events(training)
    size = 1 / (1 / pairs + 1 / training.alternative.size + 1 / training.null.size)
    promised = ndtri(_raised(hits, size)) + ndtri(_raised(1 - fired, size))
    least = float(np.max(-ndtri(_raised(1 - hits, size)) - ndtri(_raised(fired, size))))
    useful = (promised >= least) & (hits > fired)
    events = np.stack([thresholds, hits, fired])[:, useful if useful.any() else slice(None)]
    middle = float(np.median(ndtri(events[1]) - ndtri(events[2])))
    tried = np.clip([least, (least + middle) / 2, middle], 1e-3, 30.0).tolist()
    return max((_priced(events, mu, reach) for mu in tried), key=lambda priced: priced[0])[1]


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
    first, second = paired(test.alternative, test.null)
    gains, prices = (
        step[np.searchsorted(witness.thresholds, side, "left")]
        for step, side in zip(steps, (first, second), strict=True)
    )
    lost = np.log1p(-witness.stake * (prices - witness.centre))
    reach = -math.log(_error_rate(error))

    def refuted(mu: float) -> bool:
        excess = gains - witness.centre - _profile_sum_upper(mu, weights, epsilons)
        return peak(np.log1p(witness.stake * excess), lost) >= reach

    return last_refuted(refuted, 40.0)


def _events(training: TrainingScores) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Thresholds increasing, and the two sides' rates above each, pulled into (0, 1)."""
    sides = (training.alternative, training.null)
    levels = [*_QUANTILE_LEVELS, *(1 - _QUANTILE_LEVELS)]
    both = [np.quantile(side, levels, method="higher") for side in sides]
    thresholds = np.unique(np.concatenate(both))
    rates = [
        (side.size - np.searchsorted(np.sort(side), thresholds, "right") + 0.5) / (side.size + 1)
        for side in sides
    ]
    return thresholds, rates[0], rates[1]


def _priced(events: FloatArray, mu: float, reach: float) -> tuple[float, GaussianWitness]:
    """The mu bound that training promises, and the witness with the prices of ``mu``."""
    thresholds, hits, fired = events
    epsilons = -mu * ndtri(fired) - mu**2 / 2
    prices = np.exp(epsilons)
    covariance = _covariance(hits) + prices[:, None] * prices * _covariance(fired)
    weights = _weights(covariance, np.exp(-((mu / 2 - epsilons / mu) ** 2) / 2))
    weights = weights / np.sum(weights * np.maximum(1.0, prices))
    spread = float(weights @ covariance @ weights)
    stake = min(BOLD_STAKE * math.sqrt(reach / spread), MAX_STAKE / 2)
    centre = float(np.sum(weights * prices * fired))
    gap = weights @ hits - centre - (reach / (2 * stake) + stake * spread / 2) / BOLD_STAKE
    predicted = last_refuted(lambda m: _profile_sum_upper(m, weights, epsilons) <= gap, 40.0)
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
