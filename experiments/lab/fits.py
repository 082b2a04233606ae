"""Power laws fitted to measured values, with the fit's own uncertainty."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dpaudit.errors import InvalidParameter


@dataclass(frozen=True)
class Fit:
    """y = exp(intercept) x^slope; ``error`` is the standard error of the slope."""

    slope: float
    intercept: float
    error: float

    def at(self, x: float) -> float:
        """The fitted value at x."""
        return math.exp(self.intercept + self.slope * math.log(x))


def fit_power_law(
    x: Sequence[float], y: Sequence[float], errors: Sequence[float] | None = None
) -> Fit:
    """Least squares of log y on log x, every point with the same weight.

    ``errors``: the standard error of each y, independent of one another; the slope's follows to
    first order: sum_i (c_i errors_i / y_i)^2 for the slope sum_i c_i log y_i.
    A y that is not positive gives a slope that is not a number.
    Errors: InvalidParameter for fewer than two distinct x, an x that is not positive, or
    sequences of different lengths.
    """
    spread = [0.0] * len(x) if errors is None else errors
    if not len(x) == len(y) == len(spread):
        raise InvalidParameter(f"fit: {len(x)} x, {len(y)} y, {len(spread)} errors")
    if len(set(x)) < 2 or not all(math.isfinite(value) and value > 0 for value in x):
        raise InvalidParameter("fit: expected at least two distinct positive x")
    values = np.asarray(y, dtype=np.float64)
    if not (np.isfinite(values) & (values > 0)).all():
        return Fit(math.nan, math.nan, 0.0)
    logs, heights = np.log(np.asarray(x, dtype=np.float64)), np.log(values)
    centred = logs - logs.mean()
    weights = centred / np.square(centred).sum()
    slope = float(weights @ heights)
    error = float(np.sqrt(np.square(weights * np.asarray(spread) / values).sum()))
    return Fit(slope, float(heights.mean() - slope * logs.mean()), error)


def mean_and_error(values: Sequence[float]) -> tuple[float, float]:
    """The mean, and its standard error, which is 0 for a single value or one not finite."""
    array = np.asarray(values, dtype=np.float64)
    if array.size == 0:
        raise InvalidParameter("mean of no value")
    mean = float(array.mean())
    if array.size == 1 or not math.isfinite(mean):
        return mean, 0.0
    return mean, float(array.std(ddof=1) / math.sqrt(array.size))
