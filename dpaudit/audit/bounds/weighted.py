"""Lower bounds from privacy losses of runs that were drawn from a proposal, and their weights.

With L = log p/q and w = p/r of runs drawn from R, X = w (1 - e^(epsilon - L))_+ has mean
delta(epsilon) = E_P[(1 - e^(epsilon - L))_+], and Y = w e^((order - 1) L) has mean
e^((order - 1) D_order(P || Q)).  Both are non-negative, so the wealth prod (1 + f (X / m - 1)) of a
bet with one fraction f in (0, 1) is a non-negative supermartingale wherever the mean is at most m:
it exceeds 1 / error at any time with probability at most error (Ville), whatever X is at most.

A hypothesis says that a number (epsilon, delta or a divergence) is at most so much.  X / m falls in
the number, so that the hypotheses are nested and one test at level ``error`` serves them all: the
bound is the largest number that is refuted.  The fraction is a function of pilot runs that are not
counted; pilot and counted scores are different types.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from scipy.optimize import brentq
from scipy.special import log_ndtr, ndtr

from dpaudit.errors import InvalidParameter
from dpaudit.kernels.query import Array

LARGEST_FRACTION = 0.95  # of the money on one bet: a bettor who stakes all may be ruined by one run
BISECTION_STEPS = 60  # Halvings of the search for the bound.
STORED_DECIMALS = 6  # Decimal places of stored losses and log weights, rounded down.
LEAST_ESTIMATE = 1e-300  # Lower limit of a pilot estimate, so that a quotient stays finite.


@dataclass(frozen=True, eq=False)
class _Losses:
    """Privacy losses and logarithms of weights, (runs,) each, finite.

    Errors: InvalidParameter for other shapes, or numbers that are not finite.
    """

    losses: Array
    log_weights: Array

    def __post_init__(self) -> None:
        for name in ("losses", "log_weights"):
            values = np.array(getattr(self, name), dtype=np.float64)
            if values.ndim != 1 or values.shape != np.shape(self.losses) or not len(values):
                raise InvalidParameter(f"{name}: shape {values.shape}; expected one number a run")
            if not np.isfinite(values).all():
                raise InvalidParameter(f"{name}: a number that is not finite")
            object.__setattr__(self, name, values)

    def __len__(self) -> int:
        return len(self.losses)


class PilotLosses(_Losses):
    """Losses and weights of pilot runs; they choose proposal and bet, and are not counted."""


class CountedLosses(_Losses):
    """Losses and weights of the counted runs, rounded down to the six decimals that are stored."""

    def __post_init__(self) -> None:
        super().__post_init__()
        unit = 10.0**STORED_DECIMALS
        for name in ("losses", "log_weights"):
            object.__setattr__(self, name, np.floor(getattr(self, name) * unit) / unit)


@dataclass(frozen=True)
class Sought:
    """The number that a bound is about: "epsilon" at a delta, "delta" at an epsilon, or the Renyi
    "divergence" of an order; ``at``: the delta, the epsilon or the order.
    """

    number: Literal["epsilon", "delta", "divergence"]
    at: float

    def __post_init__(self) -> None:
        low, high = {"epsilon": (0, 1), "delta": (-1, math.inf), "divergence": (1, math.inf)}[
            self.number
        ]
        if not low < self.at < high:
            raise InvalidParameter(f"{self.number} at {self.at}: expected between {low} and {high}")

    def ratios(self, scores: _Losses, number: float) -> Array:
        """Each run's e-value against "the number is at most ``number``"; shape (runs,).

        A statistic X >= 0 over the largest mean that it can have under that hypothesis, so that its
        own mean is at most 1.
        """
        losses, weights = scores.losses, scores.log_weights
        if self.number == "divergence":
            logs = weights + (self.at - 1) * (losses - number)
            return np.asarray(np.where(losses > 0, np.exp(np.minimum(logs, 700.0)), 0.0))
        epsilon, mean = (number, self.at) if self.number == "epsilon" else (self.at, number)
        gap = np.minimum(epsilon - losses, 0.0)
        return np.asarray(np.exp(weights) * -np.expm1(gap) / mean)

    def estimate(self, scores: _Losses) -> float:
        """The number at which the ratios' mean is 1; 0 where it is smaller everywhere."""
        if self.number == "delta":
            return float(self.ratios(scores, 1.0).mean())
        if not self.ratios(scores, 0.0).mean() > 1:
            return 0.0
        highest = float(scores.losses.max() + max(scores.log_weights.max(), 0.0))
        return float(brentq(lambda x: self.ratios(scores, x).mean() - 1, 0.0, highest, xtol=1e-9))


@dataclass(frozen=True)
class Bet:
    """A fraction of the wealth, chosen on a pilot, with which a number is sought at an error rate.

    Errors: InvalidParameter for a fraction or an error rate outside (0, 1).
    """

    sought: Sought
    fraction: float
    error: float

    def __post_init__(self) -> None:
        for name in ("fraction", "error"):
            if not 0 < getattr(self, name) < 1:
                raise InvalidParameter(f"{name} = {getattr(self, name)}: expected within (0, 1)")

    SHARE: ClassVar[float] = 1e-3  # no fraction is smaller

    @classmethod
    def of(cls, pilot: PilotLosses, sought: Sought, runs: int, error: float) -> Bet:
        """f = sqrt(2 ln(1/error) / (runs var)), var that of X over its mean; at most 0.95."""
        _of_type(pilot, PilotLosses)
        estimate = sought.estimate(pilot)
        spread = float(sought.ratios(pilot, max(estimate, LEAST_ESTIMATE)).var())
        fraction = math.sqrt(2 * math.log(1 / error) / (runs * max(spread, 1e-6)))
        return cls(sought, min(LARGEST_FRACTION, max(cls.SHARE, fraction)), error)

    def lower(self, counted: CountedLosses) -> float:
        """The largest number that is refuted, 0 for none; wrong with probability ``error``."""
        _of_type(counted, CountedLosses)
        return self._lower(counted, 1.0)

    def promise(self, pilot: PilotLosses, runs: int) -> float:
        """The bound that so many runs like the pilot's would give: a forecast, no bound itself."""
        _of_type(pilot, PilotLosses)
        return self._lower(pilot, runs / len(pilot))

    def refutes(self, scores: _Losses, number: float, repeated: float = 1.0) -> bool:
        """Whether the wealth against "at most ``number``" reaches 1 / error."""
        ratios = self.sought.ratios(scores, number)
        wealth = float(np.log1p(self.fraction * (ratios - 1)).sum())
        return repeated * wealth >= math.log(1 / self.error)

    def _lower(self, scores: _Losses, repeated: float) -> float:
        # At the estimate the mean ratio is 1, and the wealth at most 1.
        high = self.sought.estimate(scores)
        low = high * 1e-9 if self.sought.number == "delta" else 0.0
        if high <= low or not self.refutes(scores, low, repeated):
            return 0.0
        for _ in range(BISECTION_STEPS):
            middle = math.sqrt(low * high) if self.sought.number == "delta" else (low + high) / 2
            low, high = (middle, high) if self.refutes(scores, middle, repeated) else (low, middle)
        return low


def mu_of_delta(epsilon: float, delta: float) -> float:
    """The mu whose Gaussian profile is ``delta`` at ``epsilon``, to 1e-9; 0 where delta is 0."""
    if not 0 < delta < 1:
        return 0.0

    def above(mu: float) -> float:
        other = np.exp(epsilon + log_ndtr(-mu / 2 - epsilon / mu))
        return float(ndtr(mu / 2 - epsilon / mu) - other) - delta

    high = 1.0
    while above(high) < 0:
        high *= 2
    root = float(brentq(above, 1e-6, high, xtol=1e-12)) if above(1e-6) < 0 else 0.0
    return max(0.0, root * (1 - 1e-9))


def _of_type(value: object, expected: type) -> None:
    if not isinstance(value, expected):
        raise InvalidParameter(
            f"expected {expected.__name__}, not {type(value).__name__}: runs that choose a bet are "
            "never counted"
        )
