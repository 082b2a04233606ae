"""Choosing an event where scores look binormal: rates smoothed by a line of normal quantiles.

If Phi^-1(FPR) is about linear in Phi^-1(TPR), one line fitted to all thresholds estimates a tail
better than the few scores in it.  Otherwise the observed rates are used.  The event is chosen on
training scores only; any choice is valid, and a poor one costs only power.
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr, ndtri

from dpaudit.audit.bounds.estimators import TrainingScores
from dpaudit.audit.bounds.extremes import kl
from dpaudit.audit.bounds.selection import (
    Event,
    Needed,
    Sizes,
    Tails,
    _best,
    _likely_upper,
    choose_trained,
    predicted_lower,
)
from dpaudit.audit.bounds.thresholds import at_most, candidates
from dpaudit.measures.region import FloatArray

FEWEST_THRESHOLDS = 16  # of a fitted curve; fewer fit any
# Nats between an observed count and the binormal curve beyond which the curve is not used.
MAX_MISFIT = 9.0
# Nats by which observed rates are moved against a finding before an event is chosen.
_CAUTION_NATS = 0.1
_SLOPE_RANGE = (0.3, 3.0)  # Smallest and largest ratio of standard deviations that a fit may have.
# Normal quantiles at which the smoothed tails are tabulated.
_TAIL_QUANTILES = np.linspace(6.0, -6.0, 241)
_SCORES_PER_CELL = 100  # Scores in one cell of the fit, about.
_MOST_CELLS = 200  # Cells of the fit.


def choose_smoothed(training: TrainingScores, sizes: Sizes, error: float, needed: Needed) -> Event:
    """The event "score > threshold" of the largest predicted bound, its rates on a fitted line.

    The line is fitted by weighted least squares; each threshold's pair of rates is then moved to
    the nearest point of the line, and a tenth of a unit of likelihood towards no finding.  Where
    some threshold is 9 units of log-likelihood or more off the line, or there are few thresholds:
    :func:`dpaudit.audit.bounds.selection.choose_trained`.

    Errors: InvalidParameter for a bad error rate.
    Source: Dorfman and Alf (1969), the binormal model of a receiver's operating curve.
    """
    alternative, null = np.sort(training.alternative), np.sort(training.null)
    thresholds = candidates(alternative, null)
    rates = 1 - at_most(alternative, thresholds) / alternative.size
    others = 1 - at_most(null, thresholds) / null.size
    if thresholds.size < FEWEST_THRESHOLDS:
        return choose_trained(training, sizes, error, needed)
    p, q = _smoothed(rates, others, alternative.size, null.size)
    distance = alternative.size * kl(rates, p) + null.size * kl(others, q)
    if not float(np.max(distance)) < MAX_MISFIT:
        return choose_trained(training, sizes, error, needed)
    p = 1 - _likely_upper(1 - p, _CAUTION_NATS / alternative.size)
    q = _likely_upper(q, _CAUTION_NATS / null.size)
    return _best(thresholds, p, q, predicted_lower(p, q, sizes, error, needed))


def smoothed_tails(first: FloatArray, second: FloatArray) -> Tails:
    """Rates of nested events "score > threshold" in two samples, as their laws may have them.

    On the fitted line where scores look binormal; else as observed, a hundred scores or more
    between thresholds, and half a score more on each side.  Shapes: (trials,).  An estimate.
    """
    sides = np.sort(first), np.sort(second)
    both = np.sort(np.concatenate(sides))
    cells = min(max(both.size // _SCORES_PER_CELL, 2), _MOST_CELLS)
    cuts = np.unique(both[np.linspace(0, both.size - 1, cells + 1)[1:-1].astype(int)])
    rates, others = (1 - at_most(side, cuts) / side.size for side in sides)
    sizes = sides[0].size, sides[1].size
    if cuts.size >= FEWEST_THRESHOLDS:
        p, q = _smoothed(rates, others, *sizes)
        if float(np.max(sizes[0] * kl(rates, p) + sizes[1] * kl(others, q))) < MAX_MISFIT:
            slope, shift = _line(rates, others, *sizes)
            return Tails(
                -_TAIL_QUANTILES, ndtr(_TAIL_QUANTILES), ndtr(shift + slope * _TAIL_QUANTILES)
            )
    return Tails(cuts, *(_rates_above(side, cuts) for side in sides))


def _rates_above(side: FloatArray, cuts: FloatArray) -> FloatArray:
    """Shares above each cut, with half a score more in every cell between them."""
    above = side.size - at_most(side, cuts)
    more = 0.5 * np.arange(cuts.size, 0, -1)
    return np.asarray((above + more) / (side.size + 0.5 * (cuts.size + 1)))


def _smoothed(
    rates: FloatArray, others: FloatArray, trials: int, other_trials: int
) -> tuple[FloatArray, FloatArray]:
    """The points of the fitted line nearest to each pair of rates, as rates."""
    x, along = _quantiles(rates, trials)
    y, across = _quantiles(others, other_trials)
    slope, shift = _line(rates, others, trials, other_trials)
    nearest = (along * x + across * slope * (y - shift)) / (along + across * slope**2)
    return ndtr(nearest), ndtr(shift + slope * nearest)


def _line(
    rates: FloatArray, others: FloatArray, trials: int, other_trials: int
) -> tuple[float, float]:
    """Slope and shift of the line of normal quantiles, by weighted least squares."""
    x, along = _quantiles(rates, trials)
    y, across = _quantiles(others, other_trials)
    weights = 1 / (1 / along + 1 / across)
    weights = weights / weights.sum()
    centre, other_centre = float(weights @ x), float(weights @ y)
    spread = float(weights @ (x - centre) ** 2)
    slope = float(weights @ ((x - centre) * (y - other_centre))) / max(spread, 1e-12)
    slope = min(max(slope, _SLOPE_RANGE[0]), _SLOPE_RANGE[1])
    return slope, other_centre - slope * centre


def _quantiles(rates: FloatArray, trials: int) -> tuple[FloatArray, FloatArray]:
    """Normal quantiles of rates, half a count from 0 and 1, and their inverse variances."""
    inside = (rates * trials + 0.5) / (trials + 1)
    quantiles = ndtri(inside)
    density = np.exp(-(quantiles**2) / 2) / np.sqrt(2 * np.pi)
    return quantiles, density**2 * trials / (inside * (1 - inside))
