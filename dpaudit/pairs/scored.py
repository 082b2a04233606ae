"""Scores against a secret threshold: one pair of scores exactly, and the largest over all of them.

With P_s = P(R >= s), Q_s = 1 - P_s and g the profile of N(mu, 1) against N(0, 1), the pair of
scores (s, t) has  delta(x) = (Q_s - x Q_t)+ + P_s g(x P_t / P_s).

The largest is found in floats.  With u = 2^-53: P and Q come from ``exp(e (s - kappa))`` and
``expm1``, with relative errors of at most (e kappa + 8) u; such errors of Q_s, Q_t, P_s and P_t,
and those of epsilon, are a factor and a move of epsilon by as much, for which ``_blur`` allows:
delta falls with epsilon, so that its value a blur before bounds it.  g is the difference of two
Mills ratios R(z) - R(z + mu), at most 4 u R(z) off, where R(z) <= (|z| + mu + 2) / mu times their
difference ((x + 2) R(x) falls), and exp(-z^2 / 2), at most 4 u |z| (|z| + mu) + u off.  Where g >
``SMALLEST_DELTA``, |z| < 37, and mu <= ``LARGEST_MU``: together less than 10,000 u + 250 u / mu,
which is less than ``RATIO_ROUNDING`` (1 + 1 / mu), far less than ``NEAR_LARGEST``.  Members so far
below the largest are left out of the Arb evaluation; on a grid, values are moved up by the error.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

from dpaudit.errors import Unsupported
from dpaudit.exact import Number, exp
from dpaudit.exact.later import Later
from dpaudit.pairs.balls import Ball, Delta, number
from dpaudit.pairs.branched import Branched
from dpaudit.pairs.core import Extremes, Pair, Symmetric, Threshold, delta_of
from dpaudit.pairs.normal import Normal

if TYPE_CHECKING:
    import numpy as np
    from scipy import special

    from dpaudit import grids
else:
    np = Later("numpy")
    special = Later("scipy.special")
    grids = Later("dpaudit.grids")

RATIO_ROUNDING = 1e-11  # Relative rounding error of a ratio, times 1 + 1 / mu.
NEAR_LARGEST = 1e-3  # Relative distance from the largest delta at which members are kept.
SMALLEST_MU = 1e-6  # mu from which on the rounding errors above hold.
LARGEST_MU = 20.0  # mu up to which they hold.
SMALLEST_DELTA = 1e-290  # a delta near the smallest float, which has few digits
MAX_EVALUATIONS = 2**23  # Evaluations of a normal distribution function; more take seconds.


# --- one pair of scores --------------------------------------------------------------------------


@dataclass(frozen=True)
class Scored(Pair):
    """A score under P, another under Q: a secret threshold R is below it (bottom), or Normal(mu).

    R is in 0..2 kappa with P(R = r) proportional to exp(-epsilon |r - kappa|); whether R is at
    least the score is seen, and only then N(mu, 1) against N(0, 1).
    """

    epsilon: Number
    kappa: Number
    score: Number
    other: Number
    mu: Number

    @property
    def swapped(self) -> Pair:
        return Scored(self.epsilon, self.kappa, self.other, self.score, self.mu)

    @property
    def branched(self) -> Branched:
        """Bottom, and a release, with their exact masses."""
        return _branches(self)

    @property
    def extremes(self) -> Extremes:
        return self.branched.extremes

    def delta(self, x: Ball, of: Delta | None = None) -> Ball:
        return (of or delta_of)(self.branched, x)

    @property
    def inner(self) -> tuple[Pair, ...]:
        return (self.branched,)

    def loss_masses(self, tail: float) -> grids.Closed | None:
        return self.branched.loss_masses(tail)


@lru_cache(maxsize=4096)
def _branches(pair: Scored) -> Branched:
    (p_fail, p_pass), (q_fail, q_pass) = (
        chances(pair.epsilon, int(pair.kappa), int(s)) for s in (pair.score, pair.other)
    )
    released = (p_pass, q_pass, Normal(pair.mu))
    return Branched(((p_fail, q_fail, Normal(Fraction(0))), released))


def chances(epsilon: Number, kappa: int, score: int) -> tuple[Number, Number]:
    """(P(R < s), P(R >= s)) for a score s of 0..2 kappa + 1.

    P(R < s) = e^(-e kappa) (e^(e s) - 1) / ((e^e - 1) Z) for s <= kappa, Z = 1 + 2 (1 - e^(-e
    kappa)) / (e^e - 1); R is symmetric about kappa.
    """
    if score > kappa:
        below, above = chances(epsilon, kappa, 2 * kappa + 1 - score)
        return above, below
    shrunk, step = exp(-epsilon * kappa), exp(epsilon)
    total = 1 + 2 * (1 - shrunk) / (step - 1)
    low = shrunk * (exp(epsilon * score) - 1) / ((step - 1) * total) if score else Fraction(0)
    return low, 1 - low


# --- the largest over all ------------------------------------------------------------------------


@dataclass(frozen=True)
class Thresholded(Symmetric):
    """The largest over scores s, t one apart: Scored, with mu = offset + slope * (s + t)."""

    epsilon: Number
    kappa: Number
    offset: Number
    slope: Number

    def member(self, index: int) -> Scored:
        """Scores (s, s + 1) for s = 0..2 kappa, then the same in the other order."""
        size = 2 * int(self.kappa) + 1
        low = index if index < size else index - size
        mu = self.offset + self.slope * (2 * low + 1)
        scores = (Fraction(low), Fraction(low + 1))
        score, other = scores if index < size else scores[::-1]
        return Scored(self.epsilon, self.kappa, score, other, mu)

    @property
    def extremes(self) -> Extremes:
        """The last score passes where the next never does."""
        largest = self.member(2 * int(self.kappa)).extremes[1]
        return largest, largest

    def delta(self, x: Ball, of: Delta | None = None) -> Ball:
        """The largest of the members that are near the largest in floats."""
        at = float(x.log().mid())
        blur = _blur(self, at)
        above, below = family_of(self).deltas(np.array([at - blur, at + blur])).T
        largest = float(below.max())
        near = above >= largest * (1 - NEAR_LARGEST) if largest > SMALLEST_DELTA else above >= 0
        most = number(0)
        for index in np.flatnonzero(near):
            most = most.max(self.member(int(index)).delta(x))
        return most

    def _on_grid(self, grid: grids.Grid, side: grids.Side) -> grids.Discrete:
        """Upper: the largest value at every node.  Lower: the two scores in the middle."""
        if side is grids.Side.LOWER:
            return self.member(int(self.kappa))._on_grid(grid, side)
        family, h = family_of(self), grid.width
        mu = float(family.mu.max())
        farthest = math.log1p(math.exp(grids.as_float(self.epsilon, "epsilon"))) + mu * (
            mu + grids.quantile(grid.tail)
        )
        last = math.ceil(farthest / h) + 1
        if last * len(family.mu) > MAX_EVALUATIONS or farthest > 500:
            raise grids.TooFine(f"step {h:g}: too many nodes for all scores; take a larger one")
        blur = _blur(self, last * h)
        right = np.array(
            [family.deltas(part - blur).max(axis=0) for part in _parts(last, h)]
        ).ravel()
        right = right[: last + 1] * (1 + RATIO_ROUNDING * (1 + 1 / float(family.mu.min())))
        x = np.exp(-np.arange(1, last + 1) * np.longdouble(h))
        left = 1 - x + x * right[1:]
        values = np.concatenate((left[::-1], right.astype(np.longdouble)))
        return grids.from_values(values, -last, 1 + 1e-12, grid.step, side)

    @property
    def threshold(self) -> Threshold | None:
        return Threshold(self.epsilon, self.kappa, self.offset, self.slope)


@dataclass(frozen=True)
class Family:
    """All pairs of scores one apart, in both orders: masses of passing, of bottom, and mu."""

    passes: grids.Floats
    other_passes: grids.Floats
    fails: grids.Floats
    other_fails: grids.Floats
    mu: grids.Floats

    def deltas(self, epsilon: grids.Floats) -> grids.Floats:
        """delta of every pair (rows) at every epsilon (columns)."""
        p, t, f, o, mu = (
            v[:, None]
            for v in (self.passes, self.other_passes, self.fails, self.other_fails, self.mu)
        )
        x = np.exp(np.minimum(epsilon, 700.0))
        with np.errstate(divide="ignore"):
            moved = epsilon + np.log(t / p)
        value: grids.Floats = np.maximum(f - x * o, 0) + p * gaussian(moved, mu)
        return value


def gaussian(epsilon: grids.Floats, mu: grids.Floats) -> grids.Floats:
    """The profile of N(mu, 1) against N(0, 1), positive terms only; 1 at -infinity."""
    distance = np.abs(epsilon)
    with np.errstate(invalid="ignore", over="ignore"):
        z = distance / mu - mu / 2
        ratio = special.erfcx(z / math.sqrt(2)) - special.erfcx((z + mu) / math.sqrt(2))
        right = np.exp(-z * z / 2) * ratio / 2
        left = -np.expm1(-distance) + np.exp(-distance) * right
    values = np.where(epsilon >= 0, right, left)
    return np.where(np.isneginf(epsilon), 1.0, np.nan_to_num(values))


@lru_cache(maxsize=64)
def family_of(pair: Thresholded) -> Family:
    """Pairs (s, s + 1) for s = 0..2 kappa, then the same in the other order."""
    e, kappa = grids.as_float(pair.epsilon, "epsilon"), int(pair.kappa)
    offset, slope = grids.as_float(pair.offset, "offset"), grids.as_float(pair.slope, "slope")
    scores = np.arange(2 * kappa + 2)
    near = np.minimum(scores, 2 * kappa + 1 - scores)
    total = math.expm1(e) - 2 * math.expm1(-e * kappa)
    low = np.exp(e * (near - kappa)) * -np.expm1(-e * near) / total
    fails = np.where(scores <= kappa, low, 1 - low)
    passes = np.where(scores <= kappa, 1 - low, low)
    mu = offset + slope * (2 * scores[:-1] + 1)
    if not SMALLEST_MU <= mu.min() <= mu.max() <= LARGEST_MU:
        raise Unsupported(f"noise of {offset:g} units: too much or too little for a profile")
    own, other = (passes[:-1], fails[:-1]), (passes[1:], fails[1:])
    both = [np.concatenate(rows) for rows in zip((*own, *other), (*other, *own), strict=True)]
    possible = both[0] > 0
    p, f, t, o = (row[possible] for row in both)
    return Family(p, t, f, o, np.concatenate((mu, mu))[possible])


def _blur(pair: Thresholded, farthest: float) -> float:
    """By how much roundings move an epsilon of at most ``farthest``, at most."""
    spread = grids.as_float(pair.epsilon, "epsilon") * int(pair.kappa)
    return grids.UNIT * (64 + 8 * spread + 8 * abs(farthest))


def _parts(last: int, h: float) -> list[grids.Floats]:
    """Nodes 0..last in rows of one length; the last row runs over."""
    size = min(last + 1, 1024)
    rows = -(-(last + 1) // size)
    return [np.arange(k * size, (k + 1) * size) * np.float64(h) for k in range(rows)]
