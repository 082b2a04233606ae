"""delta at an epsilon, and the trade-off at an alpha, of one step: from below and from above."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from dpaudit import profiles
from dpaudit.exact import (
    decimal_lower,
    decimal_upper,
    enclose,
    is_infinite,
    lower_fraction,
    upper_fraction,
    working_precision,
)
from dpaudit.measures.calculus import CALCULI, Sides, Step, order
from dpaudit.measures.convert import gaussian_delta, normal_cdf, require_numbers, to_approx
from dpaudit.measures.intervals import delta_two_sided, losses_of
from dpaudit.pairs import Losses

NO_BOUND: Sides = (None, Fraction(1))  # Without a bound, delta is between 0 and 1.
FIRST_DELTA = Fraction(1, 2)  # Delta at which the search starts.
# Steps towards an epsilon at which delta also pays for the failure probability.
MAX_CORRECTIONS = 8
# A number with more digits is not taken as a delta.
SMALLEST_ASKED = Fraction(1, 10**900)


def delta_sides(step: Step, epsilon: Fraction) -> Sides:
    """(what is reached or None, an upper bound) of delta at ``epsilon``.

    Errors: Unsupported while the guarantee holds free symbols.
    """
    require_numbers(step)
    measure = CALCULI[step.calculus].measure
    if measure.delta_at is None or is_infinite_value(step):
        return NO_BOUND
    with working_precision():
        return measure.delta_at(step, epsilon)


def of_pairs(step: Step, epsilon: Fraction) -> Sides:
    """The largest over the pairs."""
    delta = delta_two_sided(step, epsilon)
    return delta.lower, min(delta.upper, Fraction(1))


def of_gaussian(step: Step, epsilon: Fraction) -> Sides:
    """The curve of mu-GDP."""
    mu = enclose(step.value)
    if mu == 0:
        return Fraction(0), Fraction(0)
    ball = gaussian_delta(enclose(epsilon), mu)
    return (_floor(ball) if step.attained else None), _ceiling(ball)


def of_pure(step: Step, epsilon: Fraction) -> Sides:
    """Randomised response dominates: (e^E - e^e) / (e^E + 1) for E-DP."""
    if step.value == epsilon:
        return None, Fraction(0)
    own = enclose(step.value)
    ball = (own.exp() - enclose(epsilon).exp()) / (own.exp() + 1)
    return None, _ceiling(ball)


def of_approx(step: Step, epsilon: Fraction) -> Sides:
    """Randomised response with probability 1 - delta dominates."""
    own, delta = step.value
    if is_infinite(own) or is_infinite(delta):
        return NO_BOUND
    high, at, failing = enclose(own).exp(), enclose(epsilon).exp(), enclose(delta)
    return None, _ceiling(failing + (1 - failing) * ((high - at) / (high + 1)).max(0))


def of_renyi(step: Step, epsilon: Fraction) -> Sides:
    """exp((a - 1)(D_a - e)) (1 - 1/a)^a / (a - 1) at a good order a.

    The order is the one that is best for delta, which is the one at that order, a few times over.
    """
    best, delta = Fraction(1), FIRST_DELTA
    for _ in range(MAX_CORRECTIONS):
        witness = to_approx(step, delta).witness
        if "order" not in witness:
            break
        candidate = _ceiling(_delta_at(step, Fraction(witness["order"]), epsilon))
        if candidate >= best:
            break
        best = delta = candidate
        if delta < SMALLEST_ASKED:
            break
    return None, best


def _delta_at(step: Step, alpha: Fraction, epsilon: Fraction) -> Any:
    a = enclose(alpha)
    curve = (
        enclose(step.value) * a if step.calculus == "zcdp" else enclose(step.value, {order(): a})
    )
    loss = (a - 1) * (curve - enclose(epsilon)) + a * (1 - 1 / a).log() - (a - 1).log()
    return loss.exp()


def _ceiling(ball: Any) -> Fraction:
    upper = upper_fraction(ball) if ball.is_finite() else None
    return (
        Fraction(1)
        if upper is None
        else Fraction(decimal_upper(max(Fraction(0), min(upper, Fraction(1)))))
    )


def _floor(ball: Any) -> Fraction:
    lower = lower_fraction(ball) if ball.is_finite() else None
    return Fraction(0) if lower is None else Fraction(decimal_lower(max(Fraction(0), lower)))


def tradeoff_sides(step: Step, alphas: Sequence[Fraction]) -> list[tuple[Fraction, Fraction]]:
    """(a lower bound, what is reached from above) of the false-negative rate at each alpha."""
    require_numbers(step)
    measure = CALCULI[step.calculus].measure
    if measure.tradeoff_at is None or is_infinite_value(step):
        return [(Fraction(0), 1 - alpha) for alpha in alphas]
    with working_precision():
        return measure.tradeoff_at(step, alphas)


def is_infinite_value(step: Step) -> bool:
    """Whether a step says nothing: an infinite number."""
    return not isinstance(step.value, (tuple, Losses)) and is_infinite(step.value)


def tradeoff_of_pure(step: Step, alphas: Sequence[Fraction]) -> list[tuple[Fraction, Fraction]]:
    """The two segments of epsilon-DP."""
    own = enclose(step.value).exp()
    balls = [(1 - own * enclose(a)).max((1 - enclose(a)) / own).max(0) for a in alphas]
    return [(_floor(ball), 1 - a) for ball, a in zip(balls, alphas, strict=True)]


def tradeoff_of_gaussian(step: Step, alphas: Sequence[Fraction]) -> list[tuple[Fraction, Fraction]]:
    """The curve of mu-GDP."""
    mu = enclose(step.value)
    balls = [(_gaussian_tradeoff(mu, alpha), 1 - alpha) for alpha in alphas]
    return [(_floor(b), min(_ceiling(b), most) if step.attained else most) for b, most in balls]


def _gaussian_tradeoff(mu: Any, alpha: Fraction) -> Any:
    """Phi(Phi^{-1}(1 - alpha) - mu)."""
    if alpha in (0, 1):
        return enclose(1 - alpha)
    quantile = enclose(Fraction(2)).sqrt() * (1 - 2 * enclose(alpha)).erfinv()
    return normal_cdf(quantile - mu)


def tradeoff_of_pairs(step: Step, alphas: Sequence[Fraction]) -> list[tuple[Fraction, Fraction]]:
    """f(min(alpha + slack, 1)) - slack, the least over the pairs.

    Each data set's output is within ``slack`` in total variation of one that the pairs dominate:
    a test at level alpha is one at level alpha + slack there, and misses by slack less at most.
    """
    losses = losses_of(step)
    slack = Fraction(decimal_upper(losses.slack))
    moved = [alpha + slack for alpha in alphas if alpha + slack < 1]
    curves = {pair: profiles.tradeoff_curve(pair, moved) for pair in losses.pairs}
    uppers = [[ends.lower for ends in curves[pair]] for pair in losses.pairs]
    least = {at - slack: min(ends) - slack for at, *ends in zip(moved, *uppers, strict=True)}
    lower = [max(Fraction(0), least.get(alpha, Fraction(0))) for alpha in alphas]
    if slack or not losses.reached:
        return [(low, 1 - alpha) for low, alpha in zip(lower, alphas, strict=True)]
    for pair in losses.reached:
        curves[pair] = curves.get(pair) or profiles.tradeoff_curve(pair, alphas)
    reached = [[ends.upper for ends in curves[pair]] for pair in losses.reached]
    rows = zip(lower, alphas, *reached, strict=True)
    return [(low, min(*ends, 1 - alpha)) for low, alpha, *ends in rows]
