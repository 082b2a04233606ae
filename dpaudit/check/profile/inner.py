"""Upper bounds of a pair whose delta is a formula of deltas of compositions, as a search's is.

The formula is the pair's own; it grows with each delta inside.  These are the checker's own sums,
each at a tilt that is chosen for its loss: any tilt gives a true bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from fractions import Fraction

from dpaudit.check.profile.cells import Ball, NotConfirmed, ball
from dpaudit.check.profile.closed import delta_by, has_closed
from dpaudit.check.profile.fourier import delta_bound
from dpaudit.check.profile.nodes import Nodes
from dpaudit.exact import lower_fraction
from dpaudit.pairs import Pair

Factors = Sequence[tuple[Nodes, int]]
FORMULA_BITS = 200  # precision of the formula
# Logs of the least and the largest tilt; comparisons that choose one between them.
TILTS, COMPARISONS = (-6.0, 6.0), 16
ATTEMPTS = 10  # losses, each half the last, that are tried where a sum at one is too long


def inner_at_most(
    pair: Pair, epsilon: Fraction, step: Fraction, factors_of: Callable[[Pair], Factors]
) -> Fraction:
    """A bound of delta from above; ``factors_of`` gives the masses of a composition at ``step``.

    Errors: NotConfirmed for a pair inside of which no masses are known.
    """
    import flint

    def bound(inside: Pair, x: Ball) -> Ball | None:
        if inside is pair or has_closed(inside):
            return None
        loss = lower_fraction(x.log())
        if loss is None:
            raise NotConfirmed("no loss")
        if loss < 0 and x < 1:
            return 1 - x + x * delta_by(inside.swapped, 1 / x, bound)
        # Around 1: delta(x) <= delta(1) + 1 - x.
        own = _at_most(factors_of(inside), max(loss, Fraction(0)), step)
        return ball(own) + (1 - x).max(ball(0))

    with flint.ctx.workprec(FORMULA_BITS):
        delta = delta_by(pair, ball(epsilon).exp(), bound)
        return Fraction(float(delta.upper()) * (1 + 1e-15))


def _at_most(factors: Factors, loss: Fraction, step: Fraction) -> Fraction:
    """Delta of a composition at a loss >= 0, or at a smaller one, where it is no smaller."""
    for _ in range(ATTEMPTS):
        with suppress(NotConfirmed):
            tilt = _tilt(factors, float(loss), float(step))
            return min(delta_bound(factors, step, tilt, loss, 1), Fraction(1))
        loss /= 2
    return Fraction(1)


def _tilt(factors: Factors, loss: float, h: float) -> float:
    """About where Chernoff's bound is least, which is convex in the tilt."""

    def log_bound(log_tilt: float) -> float:
        t = math.exp(log_tilt)
        return math.fsum(n * nodes.log_moment(t, h) for nodes, n in factors) - t * loss

    low, high = TILTS
    for _ in range(COMPARISONS):
        left, right = low + (high - low) / 3, high - (high - low) / 3
        low, high = (low, right) if log_bound(left) <= log_bound(right) else (left, high)
    return math.exp((low + high) / 2)
