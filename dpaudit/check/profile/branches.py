"""Profiles of pairs with branches that are seen, in Arb: sums over branches, largest over scores.

A branch taken with mass p under P and q under Q adds p delta_base(x q / p), and p where q = 0.
Scores: the threshold R is in 0..2 kappa, P(R = r) proportional to exp(-epsilon |r - kappa|); its
masses are summed one by one.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import Any

from dpaudit.check.profile.cells import Ball, ball
from dpaudit.pairs import Normal, Pair
from dpaudit.pairs.core import Threshold

Delta = Callable[[Pair, Ball], Ball]
MOST_KAPPA = 2_000  # scores of a stability test that are gone through


def branch(p: Ball, q: Ball, base: Pair, x: Ball, delta: Delta) -> Ball:
    """The delta that one branch adds: between 0 and p, where a mass may be zero or not."""
    if p == 0 or q == 0:
        return p
    if not (p > 0 and q > 0):
        return ball(0).union(p)
    return p * delta(base, x * q / p)


def thresholded(pair: Threshold, x: Ball, delta: Delta) -> Ball:
    """The largest over all scores one apart, in both orders; between 0 and 1 for very many."""
    if pair.kappa > MOST_KAPPA:
        return ball(0).union(ball(1))
    below = _below(pair.epsilon, int(pair.kappa), _bits())
    largest = ball(0)
    for s in range(2 * int(pair.kappa) + 1):
        mu = pair.offset + pair.slope * (2 * s + 1)
        for score, other in ((s, s + 1), (s + 1, s)):
            largest = largest.max(_scores(below, score, other, mu, x, delta))
    return largest


def _scores(
    below: tuple[Ball, ...], score: int, other: int, mu: Any, x: Ball, delta: Delta
) -> Ball:
    """(P(R < s) - x P(R < t))+ and the released part."""
    last = len(below) - 1
    bottom = (below[score] - x * below[other]).max(ball(0))
    if score == last:
        return bottom
    # P(R >= s) = P(R < last - s): the law of R is symmetric.
    passes, others = below[last - score], below[last - other]
    return bottom + branch(passes, others, Normal(mu), x, delta)


def _bits() -> int:
    import flint

    return int(flint.ctx.prec)


@lru_cache(maxsize=16)
def _below(epsilon: Any, kappa: int, bits: int) -> tuple[Ball, ...]:
    """P(R < s) for s = 0..2 kappa + 1, at the precision of the context (``bits``)."""
    step = (-ball(epsilon)).exp()
    weights = [step ** abs(r - kappa) for r in range(2 * kappa + 1)]
    sums = [ball(Fraction(0))]
    for weight in weights:
        sums.append(sums[-1] + weight)
    return tuple(value / sums[-1] for value in sums)
