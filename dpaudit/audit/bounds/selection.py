"""Which event to count: the one of the largest bound predicted, from training or from densities.

Any event fixed before the test trials is valid; what is chosen here is power.  A bound is predicted
as the joint test gives it: from the rates (p, q) of an event, the least parameter of a claim that
holds anywhere in the likelihood ball of the expected counts.  Rates known from declared densities
need no training trials; rates guessed from training are first moved towards no finding.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, ndtri

from dpaudit.audit.bounds.estimators import TrainingScores
from dpaudit.audit.bounds.extremes import PSEUDO_COUNTS, kl, reach
from dpaudit.audit.bounds.thresholds import at_most, candidates
from dpaudit.errors import InvalidParameter
from dpaudit.measures.region import ApproxRegion, FloatArray

Needed = Callable[[FloatArray, FloatArray], FloatArray]
"""The least parameter of a claim that allows event probabilities (p, q), elementwise."""

# Nats by which observed rates are moved against a finding before an event is chosen.
SHRINKAGE_NATS = 1.5
MASS_TOLERANCE = 1e-6  # how far a law's masses may be from adding up to 1
# Shares of the squared normal quantile spent on the first rate; the other rate gets the rest.
_DEVIATION_SHARES = (0.02, 0.08, 0.2, 0.35, 0.5, 0.65, 0.8, 0.92, 0.98)
_TAIL_POINTS = 2_001  # Points at which the tails of two normal distributions are tabulated.
_NEWTON_STEPS = 10  # Newton steps for the end of a likelihood ball.


@dataclass(frozen=True)
class Sizes:
    """Trials of the test to come, a side: ``trials`` under P, ``other_trials`` under Q.

    Errors: InvalidParameter unless both are at least 1.
    """

    trials: float
    other_trials: float

    def __post_init__(self) -> None:
        if not (1 <= self.trials < math.inf and 1 <= self.other_trials < math.inf):
            given = f"{self.trials!r} and {self.other_trials!r}"
            raise InvalidParameter(f"trials = {given}: expected numbers of at least 1")


@dataclass(frozen=True)
class Event:
    """The event "score > threshold", the rates it is expected to have, and the bound predicted."""

    threshold: float
    rate: float
    other_rate: float
    predicted: float


@dataclass(frozen=True, eq=False)
class Tails:
    """Rates of nested events "score > threshold" under P and under Q.

    Shapes: (events,) each, ``thresholds`` increasing, rates in [0, 1] and not increasing.
    Errors: InvalidParameter for anything else.
    """

    thresholds: FloatArray
    rates: FloatArray
    other_rates: FloatArray

    def __post_init__(self) -> None:
        for name in ("thresholds", "rates", "other_rates"):
            values = np.array(getattr(self, name), dtype=np.float64)
            if values.ndim != 1 or values.size == 0 or np.isnan(values).any():
                raise InvalidParameter(f"{name}: expected numbers of shape (events,), no NaN")
            object.__setattr__(self, name, values)
        if not self.thresholds.size == self.rates.size == self.other_rates.size:
            raise InvalidParameter("tails: expected one rate a side for each threshold")
        if (np.diff(self.thresholds) <= 0).any():
            raise InvalidParameter("thresholds: expected increasing numbers")
        for name in ("rates", "other_rates"):
            values = getattr(self, name)
            if values.min() < 0 or values.max() > 1 or (np.diff(values) > 0).any():
                raise InvalidParameter(f"{name}: expected numbers in [0, 1] that do not increase")


def epsilon_needed(delta: float) -> Needed:
    """The least epsilon with p <= e^epsilon q + delta and 1 - q <= e^epsilon (1 - p) + delta.

    Errors: InvalidParameter for a delta outside [0, 1).
    """
    ApproxRegion(0.0, delta)

    def needed(p: FloatArray, q: FloatArray) -> FloatArray:
        with np.errstate(divide="ignore", invalid="ignore"):
            ratios = np.maximum((p - delta) / q, (1 - delta - q) / (1 - p))
            least = np.log(np.maximum(np.nan_to_num(ratios, nan=1.0, posinf=np.inf), 1.0))
        return np.asarray(least)

    return needed


def mu_needed(p: FloatArray, q: FloatArray) -> FloatArray:
    """The least mu whose Gaussian trade-off curve allows (p, q)."""
    with np.errstate(invalid="ignore"):
        mu = ndtri(p) - ndtri(q)
    return np.asarray(np.maximum(np.nan_to_num(mu, nan=0.0, posinf=np.inf), 0.0))


def predicted_lower(
    rates: FloatArray, other_rates: FloatArray, sizes: Sizes, error: float, needed: Needed
) -> FloatArray:
    """The lower bound at error rate ``error`` to expect, in the median, of events of known rates.

    The least parameter needed on the boundary of {trials kl(rate, p) + other_trials kl(other, q)
    <= z^2 / 2}, z the normal quantile of ``error``, over nine ways to share it between the sides.
    Not a bound: a prediction, 1-2% above the median of the exact bound.  Shapes: (events,).
    Errors: InvalidParameter for an error rate outside (0, 0.5).
    """
    if not 0 < error < 0.5:
        raise InvalidParameter(f"error = {error!r}: expected in (0, 0.5)")
    budget = float(ndtri(error)) ** 2 / 2
    missed = (sizes.trials * (1 - rates) + PSEUDO_COUNTS) / (sizes.trials + PSEUDO_COUNTS)
    fired = (sizes.other_trials * other_rates + PSEUDO_COUNTS) / (
        sizes.other_trials + PSEUDO_COUNTS
    )
    best = np.full(np.shape(rates), np.inf)
    for share in _DEVIATION_SHARES:
        p = 1 - _likely_upper(missed, share * budget / (sizes.trials + PSEUDO_COUNTS))
        q = _likely_upper(fired, (1 - share) * budget / (sizes.other_trials + PSEUDO_COUNTS))
        best = np.minimum(best, needed(p, q))
    return np.asarray(np.where(rates > other_rates, best, 0.0))


def choose_declared(tails: Tails, sizes: Sizes, error: float, needed: Needed) -> Event:
    """The event of the largest predicted bound among events of declared rates; no split of trials.

    Valid because the rates come from the declared densities, never from the trials counted.
    Errors: InvalidParameter for an error rate outside (0, 0.5).
    Source: Neyman and Pearson (1933): events {log-likelihood ratio > threshold} are the best.
    """
    predicted = predicted_lower(tails.rates, tails.other_rates, sizes, error, needed)
    return _best(tails.thresholds, tails.rates, tails.other_rates, predicted)


def choose_trained(training: TrainingScores, sizes: Sizes, error: float, needed: Needed) -> Event:
    """The event of the largest predicted bound, rates guessed from training and shrunk.

    Each observed rate is moved towards no finding by a likelihood ball of ``SHRINKAGE_NATS`` (1.7
    standard errors), so that an empty tail does not promise a rate of zero.
    Errors: InvalidParameter for scores that are not TrainingScores, or a bad error rate.
    """
    if not isinstance(training, TrainingScores):
        raise InvalidParameter(f"{type(training).__name__}: expected TrainingScores")
    alternative, null = np.sort(training.alternative), np.sort(training.null)
    thresholds = candidates(alternative, null)
    rates = 1 - at_most(alternative, thresholds) / alternative.size
    other_rates = 1 - at_most(null, thresholds) / null.size
    p = 1 - _likely_upper(1 - rates, SHRINKAGE_NATS / alternative.size)
    q = _likely_upper(other_rates, SHRINKAGE_NATS / null.size)
    return _best(thresholds, p, q, predicted_lower(p, q, sizes, error, needed))


def gaussian_tails(mu: float) -> Tails:
    """Events {log-likelihood ratio > threshold} of N(mu, 1) against N(0, 1), 2,001 of them.

    Errors: InvalidParameter unless 0 < mu <= 100.
    """
    if not 0 < mu <= 100:
        raise InvalidParameter(f"mu = {mu!r}: expected a number in (0, 100]")
    points = np.linspace(-9.0, mu + 9.0, _TAIL_POINTS)
    return Tails(mu * points - mu**2 / 2, ndtr(mu - points), ndtr(-points))


def tails_of_losses(losses: FloatArray, masses: FloatArray, other_masses: FloatArray) -> Tails:
    """Events of a declared privacy-loss distribution: ``masses`` of P and of Q at each loss.

    Losses log(P / Q) may be infinite and come in any order; a threshold lies below each of them.
    Shapes: (losses,) each.  Errors: InvalidParameter for NaN, negative masses, or masses that do
    not sum to 1 within 1e-6 on each side (truncated mass belongs to an infinite loss).
    """
    values, sides = np.asarray(losses, dtype=np.float64), []
    if values.ndim != 1 or values.size == 0 or np.isnan(values).any():
        raise InvalidParameter("losses: expected numbers of shape (losses,), no NaN")
    order = np.argsort(values)
    for name, given in (("masses", masses), ("other_masses", other_masses)):
        mass = np.asarray(given, dtype=np.float64)
        if mass.shape != values.shape or not (mass >= 0).all():
            raise InvalidParameter(f"{name}: expected one number of at least 0 a loss")
        if not abs(float(mass.sum()) - 1) <= MASS_TOLERANCE:
            raise InvalidParameter(f"{name}: sum {float(mass.sum())!r}, expected 1 within 1e-6")
        sides.append(np.minimum(np.cumsum(mass[order][::-1])[::-1], 1.0))
    ordered = values[order]
    first = np.concatenate([[True], np.diff(ordered) > 0])
    return Tails(_below(ordered[first]), sides[0][first], sides[1][first])


def _likely_upper(rate: FloatArray, room: float) -> FloatArray:
    """About the largest a with kl(rate, a) <= room, by Newton's steps on a convex function.

    Nearby a: in a, from above.  Far ones: in log(1 - a), from below, as a nears 1.
    """
    near = (rate < 0.5) & (reach(rate, np.full(rate.shape, room)) < 0.2)
    small, large = np.where(near, rate, 0.25), np.where(near | (rate >= 1), 0.5, rate)
    point = small + np.minimum(reach(small, np.full(rate.shape, room)), 0.5)
    missed = 1 - large
    with np.errstate(divide="ignore", invalid="ignore"):
        log = np.log(missed) + np.maximum(-room / missed - 1, -600.0)
        close = missed - np.sqrt(2 * large * missed * room)
        log = np.where(large >= 0.5, np.maximum(log, np.log(np.maximum(close, 1e-300))), log)
        for _ in range(_NEWTON_STEPS):
            point = point - (kl(small, point) - room) * point * (1 - point) / (point - small)
            miss_rate = np.exp(log)
            slope = large * miss_rate / (1 - miss_rate) - missed
            log = log - (kl(missed, miss_rate) - room) / slope
    uppers = np.nan_to_num(np.where(near, point, -np.expm1(log)), nan=1.0)
    return np.asarray(np.where(rate >= 1, 1.0, np.maximum(uppers, rate)))


def _below(ordered: FloatArray) -> FloatArray:
    """Thresholds half-way to the loss before; below the first, the next float down."""
    before = np.concatenate([[-np.inf], ordered[:-1]])
    with np.errstate(invalid="ignore"):
        middle = before / 2 + ordered / 2
    apart = np.isfinite(middle) & (middle < ordered)
    return np.asarray(np.where(apart, middle, np.nextafter(ordered, -np.inf)))


def _best(
    thresholds: FloatArray, rates: FloatArray, other_rates: FloatArray, predicted: FloatArray
) -> Event:
    at = int(np.argmax(predicted))
    return Event(
        float(thresholds[at]), float(rates[at]), float(other_rates[at]), float(predicted[at])
    )
