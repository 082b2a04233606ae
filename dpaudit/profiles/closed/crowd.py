"""One report among very many: a few windows hold all counts that matter, and no grid is needed.

With the notation of :mod:`dpaudit.grids.counts` and ``blanket``: t reports are counted, l
are of the rest, both with one law under P and Q, W is a sum of t fair signs, d = s tanh(epsilon/2)
and v = d W / D, D = s t + (1 - s) l r / b (Blanket), D = s t + (1 - s) (others + 1 - t) r / (1 - r)
(Clones).  With u = (x - 1) / (x + 1),

    delta(x) = E (1 + v - x (1 - v))_+ = (1 + x) E (d W / D - u)_+.

t is C or C + 1 with C binomial(others, r), l is M or M + 1 with M binomial(others, b): outside of
windows around both means there is at most ``left`` (Bernstein), where the mean given the counts is
between 0 and 1.  Inside of them the mean given the counts is at most that at the most signs and the
smallest D, as signs are a martingale and multiples of them grow (Jensen), and at least that at the
fewest signs and the largest D.  For c = d / D and fair signs in number t,

    E (c W - u)_+ = c t / 2 P(A' = a - 1) - u P(A >= a),    A and A' binomial of t and t - 1 signs,

a the first number with c (2 a - t) > u; any other a gives less.
More others than incomplete beta functions are computed at: from above fewer serve for them, as one
other more is a report that is drawn alike under P and Q.
Source: the pairs are those of Feldman, McMillan, Talwar 2021 and Balle, Bell, Gascon, Nissim 2019.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

from scipy import optimize

from dpaudit.exact import enclose, is_symbolic
from dpaudit.pairs import Pair
from dpaudit.pairs.core import Report
from dpaudit.profiles.interval import Interval, rounded_down, rounded_up

Ball = Any
# Fewer are the grid's alone; more are computed with as so many, from above.
FEWEST, MOST = 2**20, 2**50
BITS, SMALLEST_LOG = 200, -700.0
# Parts of delta: the mass that windows leave out, and the margin for rounding.
LEFT, ROOM = Fraction(1, 10**7), Fraction(1, 10**9)
WIDEST, SMALLEST = Fraction(1, 10**40), Fraction(1, 10**300)


@dataclass(frozen=True)
class Counts:
    """How many are counted, and D, at least and at most, and what lies outside."""

    fewest: int
    most: int
    least: Ball
    largest: Ball
    outside: Ball


def crowd_of(pair: Pair) -> Report | None:
    """One report among so many others; None for any other pair."""
    report = pair.report
    if report is None or is_symbolic(report.others):
        return None
    return report if report.others.denominator == 1 and report.others >= FEWEST else None


def _ball(value: Any) -> Ball:
    import flint

    if isinstance(value, Fraction):
        return flint.arb(value.numerator) / flint.arb(value.denominator)
    return enclose(value) if is_symbolic(value) else flint.arb(value)


def window(trials: int, rate: Ball, log_left: float) -> tuple[int, int]:
    """Around the mean of a binomial law; outside of it is at most exp(log_left) (Bernstein)."""
    often = math.log(2) - log_left
    spread = float((trials * rate * (1 - rate)).upper())
    reach = often / 3 + math.sqrt(often * often / 9 + 2 * often * spread)
    middle = trials * rate
    low = int((middle - reach * (1 + 1e-9) - 2).lower().floor().fmpz())
    high = int((middle + reach * (1 + 1e-9) + 2).upper().ceil().fmpz())
    return max(low, 0), min(high, trials)


def _counts(pair: Report, others: int, left: Ball) -> Counts:
    log_left = float((left / 2).log().lower())
    s, r, n = _ball(pair.told), _ball(pair.rate), others + 1
    low, high = window(others, r, log_left)
    if pair.rest is not None:
        rest = _ball(pair.rest)
        fewest, most = window(others, rest, log_left)
        per_rest = (1 - s) * r / rest
        ends = s * low + per_rest * fewest, s * (high + 1) + per_rest * (most + 1)
    else:
        unseen = (1 - s) * r / (1 - r)
        at = s * low + unseen * (n - low), s * (high + 1) + unseen * (n - high - 1)
        ends = at[0].min(at[1]), at[0].max(at[1])
    return Counts(low, high + 1, *ends, left)


def mean_above(c: Ball, signs: int, u: Ball) -> Ball:
    """E (c W - u)_+ of a sum W of fair signs."""
    import flint

    place = (signs + u / c) / 2
    middle = place.mid().floor().unique_fmpz()
    if middle is None or not abs(place - middle) < 2:
        return flint.arb(0).union(c * signs)
    found = flint.arb(0)
    for k in (-1, 0, 1, 2):
        first = int(middle) + k
        # The one above ``place``, or where that is open both.
        if 0 < first <= signs and not (place >= first or place < first - 1):
            tip, tail = _tails(signs, first, int(flint.ctx.prec))
            found = found.max(c * signs / 2 * tip - u * tail)
    return found


@lru_cache(maxsize=4096)
def _tails(signs: int, first: int, bits: int) -> tuple[Ball, Ball]:
    """P(A' = first - 1) of one sign fewer, and P(A >= first)."""
    import flint

    ways = flint.arb(signs).lgamma() - flint.arb(first).lgamma()
    ways -= flint.arb(signs - first + 1).lgamma()
    tip = (ways - (signs - 1) * flint.arb(2).log()).exp()
    half = flint.arb(1) / 2
    return tip, half.beta_lower(first, signs - first + 1, regularized=True)


class _Bounds:
    """delta of one pair from above and from below, at any epsilon."""

    def __init__(self, pair: Report, left: Ball) -> None:
        others = int(pair.others)
        self.counts = _counts(pair, min(others, MOST), left)
        self.move = _ball(pair.told) * (_ball(pair.epsilon) / 2).tanh()
        self.exact = others <= MOST and not pair.is_polled

    def most(self, epsilon: Ball) -> Ball:
        """At least delta."""
        x, u = epsilon.exp(), (epsilon / 2).tanh()
        inside = mean_above(self.move / self.counts.least, self.counts.most, u)
        return (1 + x) * inside + self.counts.outside

    def least(self, epsilon: Ball) -> Ball:
        """At most delta."""
        x, u = epsilon.exp(), (epsilon / 2).tanh()
        inside = mean_above(self.move / self.counts.largest, self.counts.fewest, u)
        return (1 - self.counts.outside) * (1 + x) * inside


def _made(pair: Report, left: Fraction) -> _Bounds | None:
    rate, told, epsilon = _ball(pair.rate), _ball(pair.told), _ball(pair.epsilon)
    if not (0 < rate < 1 and 0 < told <= 1 and epsilon > 0):
        return None
    if pair.rest is not None and not 0 < _ball(pair.rest) < 1:
        return None
    made = _Bounds(pair, _ball(left))
    return made if made.counts.least > 0 and made.counts.fewest > 1 else None


def epsilon_crowd(pair: Pair, delta: Fraction) -> Interval | None:
    """Epsilon at delta > 0 from both sides; None where this form does not apply."""
    import flint

    log_delta = math.log(delta.numerator) - math.log(delta.denominator)
    report = crowd_of(pair)
    if report is None or log_delta < SMALLEST_LOG:
        return None
    with flint.ctx.workprec(BITS - 2 * int(log_delta)):
        bounds = _made(report, delta * LEFT)
        if bounds is None:
            return None
        smaller, larger = (_ball(delta * (1 + side * ROOM)) for side in (-1, 1))
        high = float(_ball(report.epsilon).upper())
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
        found = bound(_ball(Fraction(epsilon))).mid()
        return max(float(found.log()), 4 * log_delta) - log_delta if found > 0 else 3 * log_delta

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
        if holds(bound(_ball(at))):
            return at
    return None


def delta_crowd(pair: Pair, epsilon: Fraction) -> Interval | None:
    """Delta at epsilon >= 0 from both sides; None where this form does not apply."""
    import flint

    report = crowd_of(pair)
    if report is None:
        return None
    with flint.ctx.workprec(2 * BITS):
        wide = _made(report, WIDEST)
        if wide is None:
            return None
        # Windows as wide as what was found asks for.
        about = Fraction(rounded_up(wide.most(_ball(epsilon)))) * LEFT
        bounds = _made(report, max(about, SMALLEST)) or wide
        found = bounds.most(_ball(epsilon))
        low = bounds.least(_ball(epsilon)) if bounds.exact else _ball(0)
    shown = {"form": "crowd", "epsilon": str(epsilon)}
    return Interval(
        min(rounded_down(low.max(_ball(0))), Fraction(1)),
        min(Fraction(rounded_up(found.max(_ball(0)))), Fraction(1)),
        shown,
        shown,
        "windows of many counts",
    )
