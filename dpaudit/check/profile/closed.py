"""Privacy profiles of one pair in Arb, and the largest loss of any pair, exactly.

delta at x = exp(epsilon) is the pair's own where it is a formula or a sum in balls, as no rounding
moves it out of its ball.  Computed here is what pairs search for in floats:
    Drawn(mu, q, k)     sum_j w_j Phi(j mu - t) - x Phi(-t), w binomial(k, q), where the ratio
                        sum_j w_j exp(j mu t - j^2 mu^2 / 2) is x; 1 - x for x <= w_0
    DrawnMoves(m, q, k) the same with m_j for j mu, m_0 = 0 and the last move from there on
    NormalMixture(m, w) the same with the w_j of a declaration
    Thresholded         :mod:`dpaudit.check.profile.branches`
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from math import comb

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
from dpaudit.pairs.core import Binomial
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
    if pair.draw is not None:
        return _of_a_group(pair, x)
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


def _of_a_group(pair: Pair, x: Ball) -> Ball:
    """The best test is {z > t}; from any t below to any above the best, by what lies between.

    Where the best is far out, so may either be: all is above the lower one then, or nothing is
    gained but what P has above it.
    """
    chances, steps = _chances(pair)
    if x <= chances[0]:
        return 1 - x
    if not x > chances[0]:
        return (1 - x).union(1 - chances[0])

    def ratio(t: Ball) -> Ball:
        return sum(
            (c * (s * t - s * s / 2).exp() for c, s in zip(chances, steps, strict=True)), ball(0)
        )

    middle, width = _threshold(pair, float(x.log().mid())), 2.0**-44
    while True:
        low, high = (ball(Fraction(middle)) + side * ball(width) for side in (-1, 1))
        is_below, is_above = ratio(low) < x, ratio(high) > x
        width *= 16
        if (is_below and is_above) or width > 1:
            break
    root = ball(2).sqrt()

    def beyond(t: Ball) -> Ball:
        return (t / root).erfc() / 2

    def moved_beyond(t: Ball) -> Ball:
        return sum((c * beyond(t - s) for c, s in zip(chances, steps, strict=True)), ball(0))

    if not is_above:
        if not is_below:
            raise NotConfirmed(f"{type(pair).__name__}: a threshold that is not found")
        return ball(0).union(moved_beyond(low))
    at_test = moved_beyond(high) - x * beyond(high)
    between = (beyond(low) if is_below else 1) - beyond(high)
    return at_test.union(at_test + (ratio(high) - x) * between)


@lru_cache(maxsize=64)
def _chances(pair: Pair) -> tuple[list[Ball], list[Ball]]:
    """How likely each number of them is, and how far that many move."""
    draw = pair.draw
    if draw is None:
        raise NotConfirmed(type(pair).__name__)
    if isinstance(draw.chances, Binomial):
        q, k = ball(draw.chances.rate), int(draw.chances.size)
        masses = [comb(k, j) * q**j * (1 - q) ** (k - j) for j in range(k + 1)]
    else:
        masses = [ball(chance) for chance in draw.chances]
        if not all(mass >= 0 for mass in masses) or len(masses) != len(draw.moves) + 1:
            raise NotConfirmed(f"{type(pair).__name__}: chances that are none")
    steps = [ball(0), *(ball(move) for move in draw.moves)]
    if not steps[1:] or not all(b >= a or b.overlaps(a) for a, b in pairwise(steps)):
        raise NotConfirmed(f"{type(pair).__name__}: moves that do not grow")
    return masses, [steps[min(j, len(steps) - 1)] for j in range(len(masses))]


@lru_cache(maxsize=64)
def _logs_and_steps(pair: Pair) -> list[tuple[float, float]]:
    chances, steps = _chances(pair)
    pairs = zip(chances, steps, strict=True)
    return [(float(c.log().mid()), float(s.mid())) for c, s in pairs if c != 0]


def _threshold(pair: Pair, loss: float) -> float:
    """About where the loss is reached: Newton's method, by halving where that leaves the ends."""
    logs_and_steps = _logs_and_steps(pair)
    far = max(s for _, s in logs_and_steps)
    low, high = -60.0 - far, 60.0 + far + max(loss, 0.0)
    t = (low + high) / 2
    for _ in range(70):
        exponents = [c + s * t - s * s / 2 for c, s in logs_and_steps]
        top = max(exponents)
        weights = [math.exp(e - top) for e in exponents]
        total = math.fsum(weights)
        excess = top + math.log(total) - loss
        low, high = (t, high) if excess < 0 else (low, t)
        slope = math.fsum(w * s for w, (_, s) in zip(weights, logs_and_steps, strict=True)) / total
        before, t = t, t - excess / slope if slope > 0 else math.inf
        if not low < t < high:
            t = (low + high) / 2
        if abs(t - before) <= 2.0**-50 * max(1.0, abs(t)):
            break
    return t


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
