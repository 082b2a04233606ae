"""Privacy profiles of one pair in Arb, and the largest loss of any pair, exactly.

delta at x = exp(epsilon) is the pair's own where it is a formula or a sum in balls, as no rounding
moves it out of its ball.  Computed here is what a pair searches for in floats:
    Thresholded         :mod:`dpaudit.check.profile.branches`
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import lru_cache

from dpaudit.check.profile.branches import thresholded
from dpaudit.check.profile.cells import Ball, NotConfirmed, ball
from dpaudit.errors import Unsupported
from dpaudit.exact import (
    Number,
    is_infinite,
    is_symbolic,
)
from dpaudit.exact.effort import TooMuch
from dpaudit.pairs import (
    Pair,
    largest_loss,
)
from dpaudit.pairs.balls import Delta
from dpaudit.pairs.cases import MAX_CASES, delta_of_cases, has_closed_cases
from dpaudit.pairs.enumerated import is_enumerable

PRECISIONS = (128, 400, 1200, 4000)  # bits, tried in turn until a comparison is decided
# delta of a pair of which only bounds are known; None for any other pair.
Bound = Callable[[Pair, Ball], Ball | None]


def is_form(pair: Pair) -> bool:
    """Whether a pair's own form is closed, whatever is inside."""
    if pair.is_product:
        return is_enumerable(pair.factors) or has_cases(pair)
    return pair.has_delta if pair.lattice is not None else type(pair).delta is not Pair.delta


@lru_cache(maxsize=256)
def has_cases(pair: Pair, most: int = MAX_CASES) -> bool:
    """Whether this is a product of at most ``most`` cases, each factor once.

    It has branches, or is normal noise with Laplace noise.
    """
    if not pair.is_product or not has_closed_cases(pair, most):
        return False
    if any(factor.seen for factor, _ in pair.factors):
        return True
    first = next(iter(pair.cases))
    return pair.case_count == 1 and first.square != 0 and first.laplaces > 0


def has_closed(pair: Pair) -> bool:
    """Whether the profile is known in closed form."""
    return is_form(pair) and all(map(has_closed, pair.inner))


def closed_at_most(pair: Pair, epsilon: Fraction, delta: Fraction) -> bool:
    """Whether delta(epsilon) <= delta for certain."""
    return any(upper <= allowed for upper, allowed in _compared(pair, epsilon, delta))


def closed_at_least(pair: Pair, epsilon: Fraction, delta: Fraction) -> bool:
    """Whether delta(epsilon) >= delta for certain."""
    return any(lower >= wanted for lower, wanted in _compared(pair, epsilon, delta))


def _compared(pair: Pair, epsilon: Fraction, delta: Fraction) -> Iterator[tuple[Ball, Ball]]:
    import flint

    if has_closed(pair):
        for bits in PRECISIONS:
            with flint.ctx.workprec(bits):
                yield delta_by(pair, ball(epsilon).exp()), ball(delta)


def delta_by(pair: Pair, x: Ball, bound: Bound | None = None) -> Ball:
    """delta at x > 0; ``bound`` may give it for pairs of which only bounds are known.

    The pair's own, but for what is searched in floats there.
    Errors: NotConfirmed.
    """
    bounded = None if bound is None else bound(pair, x)
    if bounded is not None:
        return bounded

    if pair.is_product:
        return _product(pair, x)
    inside = _inside(bound)
    if pair.threshold is not None:
        return thresholded(pair.threshold, x, inside)
    try:
        return pair.delta(x, inside)
    except TooMuch:
        raise
    except Unsupported:
        raise NotConfirmed(type(pair).__name__) from None


@lru_cache(maxsize=8)
def _inside(bound: Bound | None) -> Delta:
    """delta of pairs inside: one function for each ``bound``, whose answers pairs keep."""

    def inside(base: Pair, at: Ball) -> Ball:
        return delta_by(base, at, bound)

    return inside


def _product(pair: Pair, x: Ball) -> Ball:
    """The pair's own: over its cases, or over all outcomes of atoms."""
    if has_cases(pair):
        return delta_of_cases(pair, x)
    if not is_enumerable(pair.factors):
        raise NotConfirmed("Product")
    return pair.delta(x)


# --- the largest loss ----------------------------------------------------------------------------


def largest_loss_at_most(pair: Pair, epsilon: Fraction) -> bool:
    """Whether no loss is above epsilon for certain, so that delta(epsilon) = 0."""
    return _is_at_most(largest_loss(pair), epsilon)


def largest_loss_at_least(pair: Pair, epsilon: Fraction) -> bool:
    """Whether P puts mass on losses of at least epsilon, or next to it, for certain."""
    largest = largest_loss(pair)
    return is_infinite(largest) or _is_at_most(-largest, -epsilon)


def _is_at_most(value: Number, limit: Fraction) -> bool:
    import flint

    if is_infinite(value):
        return False
    if not is_symbolic(value):
        return bool(value <= limit)
    with flint.ctx.workprec(PRECISIONS[1]):
        return bool(ball(value) <= ball(limit))
