"""A lower bound of epsilon that shares nothing with the accountant: coarse-grained outputs.

The outputs of a mechanism on two data sets are put into finitely many cells, whose P and Q masses
are known; by data processing delta(x) >= sum over cells of (P - x Q)_+.  Products of cells are
again cells, merged by likelihood ratio.  All sums are of positive terms, so that double precision
keeps a relative accuracy of about 1e-12 at any delta.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

Floats = NDArray[np.float64]
CELLS = 160
SLACK = 1e-9


@dataclass(frozen=True)
class Cells:
    """P and Q masses of the cells, remove direction; swapping them gives the other."""

    p: Floats
    q: Floats

    @property
    def swapped(self) -> Cells:
        return Cells(self.q, self.p)

    def __mul__(self, other: Cells) -> Cells:
        return merged(Cells(np.outer(self.p, other.p).ravel(), np.outer(self.q, other.q).ravel()))

    def __pow__(self, times: int) -> Cells:
        found, power = Cells(np.ones(1), np.ones(1)), self
        while times:
            if times & 1:
                found = found * power
            times >>= 1
            if times:
                power = power * power
        return found

    def mixed(self, rate: float) -> Cells:
        """((1 - rate) Q + rate P, Q)."""
        return Cells((1 - rate) * self.q + rate * self.p, self.q)


def merged(cells: Cells) -> Cells:
    """At most ``CELLS`` cells: neighbours in likelihood ratio are joined."""
    with np.errstate(divide="ignore", invalid="ignore"):
        loss = np.log(cells.p) - np.log(cells.q)
    keep = (cells.p > 0) | (cells.q > 0)
    loss, p, q = loss[keep], cells.p[keep], cells.q[keep]
    if len(p) <= CELLS:
        return Cells(p, q)
    finite = np.isfinite(loss)
    low, high = loss[finite].min(), loss[finite].max()
    width = (high - low) / (CELLS - 3) or 1.0
    place = np.where(finite, np.clip((loss - low) / width, 0, CELLS - 3), 0).astype(int) + 1
    place[loss == np.inf], place[loss == -np.inf] = CELLS - 1, 0
    return Cells(np.bincount(place, p, CELLS), np.bincount(place, q, CELLS))


def normal(mu: float) -> Cells:
    """N(mu, 1) against N(0, 1): the tails are taken on the side where they are small."""
    reach = 12.0
    edges = np.linspace(mu / 2 - reach - mu / 2, mu / 2 + reach + mu / 2, CELLS)

    def masses(centre: float) -> Floats:
        z = np.concatenate([[-np.inf], edges - centre, [np.inf]])
        below, above = np.diff(ndtr(z)), -np.diff(ndtr(-z))
        found: Floats = np.where(z[1:] <= 0, below, above)
        return found

    return Cells(masses(mu), masses(0.0))


def laplace(epsilon: float) -> Cells:
    """Laplace noise moved by ``epsilon`` scales, cut at many points."""
    edges = np.linspace(0.0, epsilon, CELLS - 1)

    def masses(centre: float) -> Floats:
        below = np.exp(np.minimum(edges - centre, 0)) / 2
        above = np.exp(np.minimum(centre - edges, 0)) / 2
        left = np.diff(below, prepend=0.0)
        right = -np.diff(above, append=0.0)
        cumulative = edges <= centre
        inner = np.where(cumulative[1:], left[1:], right[:-1])
        first = below[0]
        last = above[-1] if epsilon >= centre else 1 - below[-1]
        return np.concatenate([[first], np.maximum(inner, 0), [last]])

    return Cells(masses(epsilon), masses(0.0))


def response(epsilon: float, delta: float = 0.0) -> Cells:
    """Randomised response with probability 1 - delta, else an outcome that tells all."""
    high, low = 1 / (1 + math.exp(-epsilon)), 1 / (1 + math.exp(epsilon))
    return Cells(
        np.array([delta, (1 - delta) * high, (1 - delta) * low, 0.0]),
        np.array([0.0, (1 - delta) * low, (1 - delta) * high, delta]),
    )


def delta_lower(cells: Cells, epsilon: float) -> float:
    """sum (P - e^epsilon Q)_+, a little less for rounding."""
    terms = np.where(cells.q > 0, cells.p - math.exp(epsilon) * cells.q * (1 + SLACK), cells.p)
    return float(np.maximum(terms, 0).sum()) * (1 - SLACK)


def epsilon_lower(cells: Cells, delta: float) -> float:
    """The epsilon above which no test on the cells shows more than ``delta``; 0 if at once."""
    if delta_lower(cells, 0.0) <= delta:
        return 0.0
    low, high = 0.0, 1.0
    while delta_lower(cells, high) > delta:
        low, high = high, 2 * high
        if high > 600:
            return 600.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if delta_lower(cells, middle) > delta else (low, middle)
    return low
