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
which is less than ``ROUNDING`` (1 + 1 / mu), far less than ``NEAR``.  Members that far below the
largest are left out of the Arb evaluation; on a grid, values are moved up by the error.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy import special

from dpaudit.errors import Unsupported
from dpaudit.pairs import Scored, Thresholded
from dpaudit.profiles.closed.single import Ball
from dpaudit.profiles.closed.single import _form as register_form
from dpaudit.profiles.grid.branched import closed_of, discrete_of, form_of
from dpaudit.profiles.grid.discrete import Discrete, Floats, Grid, Side, TooFine, discretiser
from dpaudit.profiles.grid.families import quantile
from dpaudit.profiles.grid.hull import UNIT
from dpaudit.profiles.grid.masses import Closed, as_float, closed_form
from dpaudit.profiles.grid.values import from_values

ROUNDING, NEAR = 1e-11, 1e-3
SMALLEST_MU, LARGEST_MU = 1e-6, 20.0
SMALLEST_DELTA = 1e-290
EVALUATIONS = 2**23


# --- one pair of scores --------------------------------------------------------------------------


@register_form(Scored)
def _scored_form(pair: Scored, x: Ball) -> Ball:
    return form_of(pair.branched, x)


@closed_form(Scored)
def _scored_closed(pair: Scored, tail: float) -> Closed | None:
    return closed_of(pair.branched, tail)


discretiser(Scored)(discrete_of)


# --- the largest over all ------------------------------------------------------------------------


@dataclass(frozen=True)
class Family:
    """All pairs of scores one apart, in both orders: masses of passing, of bottom, and mu."""

    passes: Floats
    other_passes: Floats
    fails: Floats
    other_fails: Floats
    mu: Floats

    def deltas(self, epsilon: Floats) -> Floats:
        """delta of every pair (rows) at every epsilon (columns)."""
        p, t, f, o, mu = (
            v[:, None]
            for v in (self.passes, self.other_passes, self.fails, self.other_fails, self.mu)
        )
        x = np.exp(np.minimum(epsilon, 700.0))
        with np.errstate(divide="ignore"):
            moved = epsilon + np.log(t / p)
        value: Floats = np.maximum(f - x * o, 0) + p * gaussian(moved, mu)
        return value


def gaussian(epsilon: Floats, mu: Floats) -> Floats:
    """The profile of N(mu, 1) against N(0, 1), positive terms only; 1 at -infinity."""
    distance = np.abs(epsilon)
    with np.errstate(invalid="ignore", over="ignore"):
        z = distance / mu - mu / 2
        ratio = special.erfcx(z / math.sqrt(2)) - special.erfcx((z + mu) / math.sqrt(2))
        right = np.exp(-z * z / 2) * ratio / 2
        left = -np.expm1(-distance) + np.exp(-distance) * right
    found = np.where(epsilon >= 0, right, left)
    return np.where(np.isneginf(epsilon), 1.0, np.nan_to_num(found))


@lru_cache(maxsize=64)
def family_of(pair: Thresholded) -> Family:
    """Pairs (s, s + 1) for s = 0..2 kappa, then the same in the other order."""
    e, kappa = as_float(pair.epsilon, "epsilon"), int(pair.kappa)
    offset, slope = as_float(pair.offset, "offset"), as_float(pair.slope, "slope")
    scores = np.arange(2 * kappa + 2)
    near = np.minimum(scores, 2 * kappa + 1 - scores)
    total = math.expm1(e) - 2 * math.expm1(-e * kappa)
    low = np.exp(e * (near - kappa)) * -np.expm1(-e * near) / total
    fails = np.where(scores <= kappa, low, 1 - low)
    passes = np.where(scores <= kappa, 1 - low, low)
    mu = offset + slope * (2 * scores[:-1] + 1)
    if not SMALLEST_MU <= mu.min() <= mu.max() <= LARGEST_MU:
        raise Unsupported(f"noise of {offset:g} units: too much or too little for a profile")
    one, other = (passes[:-1], fails[:-1]), (passes[1:], fails[1:])
    both = [np.concatenate(rows) for rows in zip((*one, *other), (*other, *one), strict=True)]
    kept = both[0] > 0
    p, f, t, o = (row[kept] for row in both)
    return Family(p, t, f, o, np.concatenate((mu, mu))[kept])


@register_form(Thresholded)
def _form(pair: Thresholded, x: Ball) -> Ball:
    """The largest of the members that are near the largest in floats."""
    import flint

    at = float(x.log().mid())
    blur = _blur(pair, at)
    above, below = family_of(pair).deltas(np.array([at - blur, at + blur])).T
    largest = float(below.max())
    near = above >= largest * (1 - NEAR) if largest > SMALLEST_DELTA else above >= 0
    found = flint.arb(0)
    for index in np.flatnonzero(near):
        found = found.max(form_of(pair.member(int(index)).branched, x))
    return found


@discretiser(Thresholded)
def _largest(pair: Thresholded, grid: Grid, side: Side) -> Discrete:
    """Upper: the largest value at every node.  Lower: the two scores in the middle."""
    if side is Side.LOWER:
        return discrete_of(pair.member(int(pair.kappa)), grid, side)
    family, h = family_of(pair), grid.width
    mu = float(family.mu.max())
    farthest = math.log1p(math.exp(as_float(pair.epsilon, "epsilon"))) + mu * (
        mu + quantile(grid.tail)
    )
    last = math.ceil(farthest / h) + 1
    if last * len(family.mu) > EVALUATIONS or farthest > 500:
        raise TooFine(f"step {h:g}: too many nodes for all scores; take a larger one")
    blur = _blur(pair, last * h)
    right = np.array([family.deltas(part - blur).max(axis=0) for part in _parts(last, h)]).ravel()
    right = right[: last + 1] * (1 + ROUNDING * (1 + 1 / float(family.mu.min())))
    x = np.exp(-np.arange(1, last + 1) * np.longdouble(h))
    left = 1 - x + x * right[1:]
    values = np.concatenate((left[::-1], right.astype(np.longdouble)))
    return from_values(values, -last, 1 + 1e-12, grid.step, side)


def _blur(pair: Thresholded, farthest: float) -> float:
    """By how much roundings move an epsilon of at most ``farthest``, at most."""
    spread = as_float(pair.epsilon, "epsilon") * int(pair.kappa)
    return UNIT * (64 + 8 * spread + 8 * abs(farthest))


def _parts(last: int, h: float) -> list[Floats]:
    """Nodes 0..last in rows of one length; the last row runs over."""
    size = min(last + 1, 1024)
    rows = -(-(last + 1) // size)
    return [np.arange(k * size, (k + 1) * size) * np.float64(h) for k in range(rows)]
