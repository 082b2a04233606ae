"""Epsilon and delta of one report among very many, by windows of counts: no grid is needed.

Bounds at one epsilon are :mod:`dpaudit.pairs.crowd`'s.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from scipy import optimize

from dpaudit.exact import is_symbolic
from dpaudit.pairs import Pair
from dpaudit.pairs.balls import Ball, number
from dpaudit.pairs.core import Report
from dpaudit.pairs.crowd import windows
from dpaudit.profiles.interval import Interval, rounded_down, rounded_up

FEWEST_OTHERS = 2**20  # Other reports; for fewer, the grid answers.
BALL_BITS = 200  # Precision of the balls, in bits, at delta near 1.
SMALLEST_LOG = -700.0  # log of the smallest delta: a float underflows below
LEFT_OUT = Fraction(1, 10**7)  # Share of delta that the windows leave out.
DECIMAL_ERROR = Fraction(1, 10**9)  # Share of delta that is kept as a margin for rounding.
WINDOW_MASS = Fraction(1, 10**40)  # Mass that the windows leave out when delta is sought.
LEAST_WINDOW_MASS = Fraction(1, 10**300)  # The windows never leave out less mass than this.


def crowd_of(pair: Pair) -> Report | None:
    """One report among so many others; None for any other pair."""
    report = pair.report
    if report is None or is_symbolic(report.others):
        return None
    return report if report.others.denominator == 1 and report.others >= FEWEST_OTHERS else None


def epsilon_crowd(pair: Pair, delta: Fraction) -> Interval | None:
    """Epsilon at delta > 0 from both sides; None where this form does not apply."""
    import flint

    log_delta = math.log(delta.numerator) - math.log(delta.denominator)
    report = crowd_of(pair)
    if report is None or log_delta < SMALLEST_LOG:
        return None
    with flint.ctx.workprec(BALL_BITS - 2 * int(log_delta)):
        bounds = windows(report, delta * LEFT_OUT)
        if bounds is None:
            return None
        smaller, larger = (number(delta * (1 + side * DECIMAL_ERROR)) for side in (-1, 1))
        high = float(number(report.epsilon).upper())
        upper = _crossing(bounds.most, log_delta, high, 1, lambda found: bool(found <= smaller))
        lower: Fraction | None = Fraction(0)
        if bounds.exact:
            lower = _crossing(bounds.least, log_delta, high, -1, lambda found: bool(found > larger))
    if upper is None:
        return None
    lower = lower or Fraction(0)
    return Interval(lower, upper, _shown(lower), _shown(upper), "windows of many counts")


def _shown(epsilon: Fraction) -> dict[str, str]:
    return {"form": "crowd", "epsilon": str(epsilon)}


def _crossing(
    bound: Callable[[Ball], Ball],
    log_delta: float,
    high: float,
    sign: int,
    holds: Callable[[Ball], bool],
) -> Fraction | None:
    """The first of a few decimals beyond the root, ever farther, at which a bound holds."""

    def excess(epsilon: float) -> float:
        delta = bound(number(Fraction(epsilon))).mid()
        return max(float(delta.log()), 4 * log_delta) - log_delta if delta > 0 else 3 * log_delta

    root = 0.0
    if excess(0.0) > 0:
        if excess(high) > 0:
            return None
        low = high
        while excess(low) <= 0:
            low, high = low / 4, low
        root = float(optimize.brentq(excess, low, high, rtol=1e-12, xtol=low * 1e-12))
    rounded = rounded_up if sign > 0 else rounded_down
    for k in range(36):
        at = Fraction(rounded(max(root * (1 + sign * 1e-12 * 2**k), 0.0)))
        if at == 0 and sign < 0:
            return Fraction(0)
        if holds(bound(number(at))):
            return at
    return None


def delta_crowd(pair: Pair, epsilon: Fraction) -> Interval | None:
    """Delta at epsilon >= 0 from both sides; None where this form does not apply."""
    import flint

    report = crowd_of(pair)
    if report is None:
        return None
    with flint.ctx.workprec(2 * BALL_BITS):
        wide = windows(report, WINDOW_MASS)
        if wide is None:
            return None
        # Windows as wide as what was found asks for.
        about = Fraction(rounded_up(wide.most(number(epsilon)))) * LEFT_OUT
        bounds = windows(report, max(about, LEAST_WINDOW_MASS)) or wide
        upper = bounds.most(number(epsilon))
        low = bounds.least(number(epsilon)) if bounds.exact else number(0)
    shown = {"form": "crowd", "epsilon": str(epsilon)}
    return Interval(
        min(rounded_down(low.max(number(0))), Fraction(1)),
        min(Fraction(rounded_up(upper.max(number(0)))), Fraction(1)),
        shown,
        shown,
        "windows of many counts",
    )
