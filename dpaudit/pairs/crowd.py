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
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from dpaudit.pairs.balls import Ball, number
from dpaudit.pairs.core import Report

# Other reports; a larger number is replaced by this one, which bounds from above.
MAX_OTHERS = 2**50


@dataclass(frozen=True)
class Counts:
    """How many are counted, and D, at least and at most, and what lies outside."""

    fewest: int
    most: int
    least: Ball
    largest: Ball
    outside: Ball


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
    s, r, n = number(pair.told), number(pair.rate), others + 1
    low, high = window(others, r, log_left)
    if pair.rest is not None:
        rest = number(pair.rest)
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
    largest = flint.arb(0)
    for k in (-1, 0, 1, 2):
        first = int(middle) + k
        # The one above ``place``, or where that is open both.
        if 0 < first <= signs and not (place >= first or place < first - 1):
            tip, tail = _tails(signs, first, int(flint.ctx.prec))
            largest = largest.max(c * signs / 2 * tip - u * tail)
    return largest


@lru_cache(maxsize=4096)
def _tails(signs: int, first: int, bits: int) -> tuple[Ball, Ball]:
    """P(A' = first - 1) of one sign fewer, and P(A >= first)."""
    import flint

    ways = flint.arb(signs).lgamma() - flint.arb(first).lgamma()
    ways -= flint.arb(signs - first + 1).lgamma()
    tip = (ways - (signs - 1) * flint.arb(2).log()).exp()
    half = flint.arb(1) / 2
    return tip, half.beta_lower(first, signs - first + 1, regularized=True)


class Windows:
    """delta of one pair from above and from below, at any epsilon."""

    def __init__(self, pair: Report, left: Ball) -> None:
        others = int(pair.others)
        self.counts = _counts(pair, min(others, MAX_OTHERS), left)
        self.move = number(pair.told) * (number(pair.epsilon) / 2).tanh()
        self.exact = others <= MAX_OTHERS and not pair.is_polled

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


def windows(pair: Report, left: Fraction) -> Windows | None:
    """Those that leave out this mass; None for chances that are none, or too few reports."""
    rate, told, epsilon = number(pair.rate), number(pair.told), number(pair.epsilon)
    if not (0 < rate < 1 and 0 < told <= 1 and epsilon > 0):
        return None
    if pair.rest is not None and (not 0 < number(pair.rest) < 1 or rate + number(pair.rest) > 1):
        return None
    made = Windows(pair, number(left))
    return made if made.counts.least > 0 and made.counts.fewest > 1 else None
