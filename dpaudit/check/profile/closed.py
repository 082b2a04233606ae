"""Privacy profiles of one pair in Arb, and the largest loss of any pair, exactly.

With x = exp(epsilon) and (u)+ = max(0, u); formulas of one line are the pairs' own:
    DiscreteNormal      sum of (p - x q)+ over the integers, of moderate variance and shift
    Drawn(mu, q, k)     sum_j w_j Phi(j mu - t) - x Phi(-t), w binomial(k, q), where the ratio
                        sum_j w_j exp(j mu t - j^2 mu^2 / 2) is x; 1 - x for x <= w_0
    DrawnMoves(m, q, k) the same with m_j for j mu, m_0 = 0 and the last move from there on
    NormalMixture(m, w) the same with the w_j of a declaration
    Opposed(mu, q)      P(z > t) - x Q(z > t) with the largest of these by t: P and Q are
                        (1 - q) N(0) + q N(mu) and (1 - q) N(0) + q N(-mu), whose ratio grows with z
    Tallied(e, r, m)    (1 - x) P(B >= k) + (r e^e - r) P(B' = k - 1), B and B' binomial of m + 1
                        and m reports at r, k the first number of ones with a ratio of at least x
    Product             the pairs' own: over all outcomes of atoms, or over all cases of branches,
                        or of normal with Laplace noise
    Thresholded: see profile_branches
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from math import comb, isqrt
from typing import Any

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
from dpaudit.pairs.core import Binomial, Lattice, Opposition, Tally
from dpaudit.pairs.enumerated import is_enumerable

PRECISIONS = (128, 400, 1200, 4000)  # bits, tried in turn until a comparison is decided
INTEGERS = 10**4  # integers of any weight that are gone through one by one
REPORTS = 2**50  # numbers of reports that floats hold exactly, by far
Ends = tuple[Number, Number]
# delta of a pair of which only bounds are known; None for any other pair.
Bound = Callable[[Pair, Ball], Ball | None]


def is_form(pair: Pair) -> bool:
    """Whether a pair's own form is closed, whatever is inside."""
    if pair.is_product:
        return is_enumerable(pair.factors) or has_cases(pair)
    if pair.lattice is not None:
        return _is_moderate(pair.lattice)
    return type(pair).delta is not Pair.delta


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

    Formulas of one line are the pair's own; what is summed or searched is computed here.
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
    numbers: Any
    own: Callable[[Any, Ball], Ball]
    for numbers, own in (
        (pair.lattice, _discrete_normal),
        (pair.opposition, _against_opposite),
        (pair.tally, _tallied),
    ):
        if numbers is not None:
            return own(numbers, x)
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


def _positive(value: Ball) -> Ball:
    return value.max(ball(0))


def _is_moderate(pair: Lattice) -> bool:
    """Whether the integers of any weight are few enough to be gone through."""
    if is_symbolic(pair.variance) or is_symbolic(pair.shift):
        return False
    is_whole = pair.shift == int(pair.shift) and 0 < pair.shift <= INTEGERS
    return bool(is_whole and Fraction(1, INTEGERS**2) <= pair.variance <= INTEGERS)


def _discrete_normal(pair: Lattice, x: Ball) -> Ball:
    """Every integer k with p_k > x q_k, p_k proportional to exp(-k^2 / (2 v)), q_k = p_(k - s).

    For x < 1 by delta(x) = 1 - x + x delta(1 / x), as the pair is symmetric.
    """
    if not _is_moderate(pair):
        raise NotConfirmed("DiscreteNormal")
    if x < 1:
        return 1 - x + x * _discrete_normal(pair, 1 / x)
    v, s = ball(pair.variance), int(pair.shift)
    reach = isqrt(int(2 * pair.variance * context_bits())) + 3

    def weight(k: int) -> Ball:
        return (-ball(k * k) / (2 * v)).exp()

    def far(k: int) -> Ball:
        """Between 0 and the weights from k > 0 on, whose ratios are at most the first."""
        return ball(0).union(weight(k) / (1 - weight(k + 1) / weight(k)))

    end = ball(s) / 2 - v * x.log() / s
    last = math.ceil(float(end.mid())) + 1
    if not end < last:
        return ball(0).union(1)
    first = min(last, 0) - reach
    gained = [weight(k) - x * weight(k - s) for k in range(first, last + 1)]
    total = sum(map(_positive, gained), ball(0)) + far(1 - first)
    total_weight = 1 + 2 * sum(map(weight, range(1, reach + 1)), ball(0)) + 2 * far(reach + 1)
    return total / total_weight


def context_bits() -> int:
    """The working precision."""
    import flint

    return int(flint.ctx.prec)


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


def _against_opposite(pair: Opposition, x: Ball) -> Ball:
    """Between two places, of which the ratio is below x and above it.

    The best place is between them, where P - x Q gains at most (ratio - x) Q, ratio that of the
    upper place, and the density of Q is at most what normal ones are at the place nearest to 0.
    About where it is a square root says: with u = exp(mu z) the ratio is x where
    b u^2 - a (x - 1) u - x b = 0.
    For x < 1 by delta(x) = 1 - x + x delta(1 / x): reflection exchanges P and Q.
    """
    if x < 1:
        return 1 - x + x * _against_opposite(pair, 1 / x)
    mu, q = ball(pair.mu), ball(pair.rate)
    if not (mu > 0 and q > 0 and q <= 1):
        raise NotConfirmed("Opposed: a move or a rate that is none")
    root, a, b = ball(2).sqrt(), 1 - q, q * (-mu * mu / 2).exp()

    def ratio(z: Ball) -> Ball:
        return (a + b * (mu * z).exp()) / (a + b * (-mu * z).exp())

    def beyond(z: Ball) -> Ball:
        return (z / root).erfc() / 2

    grown = a * (x - 1)
    u = (grown + (grown * grown + 4 * x * b * b).sqrt()) / (2 * b)
    middle = (u.log() / mu).mid()
    for bits in (context_bits() // 2, context_bits() // 4):
        width = (1 + abs(middle)) / ball(2**bits)
        low, high = (middle - width).mid(), (middle + width).mid()
        if ratio(low) < x < ratio(high):
            missed = (ratio(high) - x) * (high - low) * (-low * _positive(low) / 2).exp()
            gained = q * (beyond(high - mu) - x * beyond(high + mu)) - grown * beyond(high)
            return gained + ball(0).union(_positive(missed))
    raise NotConfirmed("Opposed: a threshold that is not found")


def _tallied(pair: Tally, x: Ball) -> Ball:
    """The ratio at k ones is 1 + (k - n r) (e^e - 1) / (n (1 - r)); P exceeds Q where the one tips.

    From k ones on, P has (r e^e - r) P(B' = k - 1) more than Q: the others have k - 1 of them.
    """
    if is_symbolic(pair.others) or pair.others.denominator != 1 or not 0 <= pair.others < REPORTS:
        raise NotConfirmed("Tallied: a number of others")
    n, r, grown = int(pair.others) + 1, ball(pair.rare), ball(pair.epsilon).expm1()
    if not (r > 0 and grown > 0 and r * (grown + 1) < 1):
        raise NotConfirmed("Tallied: chances that are none")
    place = n * (r + (x - 1) * (1 - r) / grown)
    nearest = place.mid().floor().unique_fmpz()
    if nearest is None or not abs(place - nearest) < 2:
        return ball(0).union(1)
    around = {min(max(int(nearest) + more_ones, 0), n + 1) for more_ones in (-1, 0, 1, 2)}
    largest = ball(0)
    for k in around:
        if not (place <= k - 1 or place > k):
            tail, tip = _tails(pair.rare, n, k, context_bits())
            largest = largest.max((1 - x) * tail + r * grown * tip)
    # All ones, or none, are the last: beyond, nothing is to be had, or all of 1 - x.
    return largest.max(1 - x)


@lru_cache(maxsize=512)
def _tails(rate: Number, n: int, k: int, bits: int) -> tuple[Ball, Ball]:
    """P(B >= k) of n reports, and P(B' = k - 1) of n - 1."""
    if k <= 0 or k > n:
        return ball(1 if k <= 0 else 0), ball(0)
    r = ball(rate)
    log_ways = ball(n).lgamma() - ball(k).lgamma() - ball(n - k + 1).lgamma()
    tip = (log_ways + (k - 1) * r.log() + (n - k) * (1 - r).log()).exp()
    return r.beta_lower(k, n - k + 1, regularized=True), tip


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
