"""delta of one report among very many, by windows of the counts: stated a second time.

Given how many t are counted and how much D hides them, of law independent of the side, the ratio's
deviation is v = d W / D, W a sum of t fair signs, and delta(x) = (1 + x) E (v - u)_+ with u =
(x - 1) / (x + 1).  More signs and a smaller D are further apart (a martingale; a multiple of a
number of mean 0), fewer signs and a larger D less.  The numbers of others that are counted, and of
the rest, leave their windows by a chance that Chernoff bounds with the divergence of coins; there
the part of delta is between 0 and 1.  With A binomial(t, 1/2) and a the first number that tells,

    E (c W - u)_+ = c a P(A = a) - u P(A >= a),    for sum over k >= a of (2 k - t) C(t, k)
                                                   = a C(t, a).

Of more others than are computed with some may be left out, from above: who sees the counts may add
others to them.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

from dpaudit.check.profile.cells import Ball, NotConfirmed, ball
from dpaudit.exact import is_symbolic
from dpaudit.pairs import Pair
from dpaudit.pairs.core import Report

MOST_REPORTS = 2**50
# As a part of delta: what may be outside of the windows.
OUTSIDE = Fraction(1, 10**7)
BITS, MOST_BITS = 256, 20_000


def crowd_at_most(pair: Pair, epsilon: Fraction, delta: Fraction) -> bool:
    """Whether delta of the pair at ``epsilon`` is at most ``delta`` for certain."""
    return _compared(pair, epsilon, delta, 1)


def crowd_at_least(pair: Pair, epsilon: Fraction, delta: Fraction) -> bool:
    """Whether it is at least that."""
    return _compared(pair, epsilon, delta, -1)


def _compared(pair: Pair, epsilon: Fraction, delta: Fraction, sign: int) -> bool:
    import flint

    report = pair.report
    if report is None or delta <= 0 or epsilon < 0:
        return False
    if is_symbolic(report.others) or report.others.denominator != 1 or report.others < 2:
        return False
    others = int(report.others)
    if sign < 0 and (others > MOST_REPORTS or report.is_polled):
        return False
    bits = BITS + 2 * max(delta.denominator.bit_length() - delta.numerator.bit_length(), 0)
    if bits > MOST_BITS:
        return False
    try:
        with flint.ctx.workprec(bits):
            found = _bound(report, min(others, MOST_REPORTS), ball(epsilon), ball(delta), sign)
            return bool(sign * found <= sign * ball(delta))
    except NotConfirmed:
        return False


def _bound(pair: Report, others: int, epsilon: Ball, delta: Ball, sign: int) -> Ball:
    told, rate, loss = (ball(value) for value in (pair.told, pair.rate, pair.epsilon))
    if not (0 < rate < 1 and 0 < told <= 1 and loss > 0):
        raise NotConfirmed("chances that are none")
    outside = delta * ball(OUTSIDE)
    low, high = _window(others, rate, outside / 4)
    signs = (low, high + 1)
    if pair.rest is not None:
        rest = ball(pair.rest)
        if not (rest > 0 and rate + rest <= 1):
            raise NotConfirmed("a rest that is none")
        fewest, most = _window(others, rest, outside / 4)
        hidden = ((1 - told) * rate / rest * n for n in (fewest, most + 1))
        scales = [told * t + h for t, h in zip(signs, hidden, strict=True)]
    else:
        unseen = (1 - told) * rate / (1 - rate)
        scales = [told * t + unseen * (others + 1 - t) for t in signs]
    narrow, wide = scales[0].min(scales[1]), scales[0].max(scales[1])
    if not narrow > 0:
        raise NotConfirmed("a window from no count on")
    x, u = epsilon.exp(), (epsilon / 2).tanh()
    move = told * (loss / 2).tanh()
    if sign > 0:
        return (1 + x) * _mean_beyond(move / narrow, signs[1], u) + outside
    return (1 + x) * _mean_beyond(move / wide, signs[0], u) * (1 - outside)


def _window(trials: int, rate: Ball, outside: Ball) -> tuple[int, int]:
    """Numbers around the mean, beyond which on either side there is at most ``outside``."""
    wanted = -outside.log()
    mean, spread = trials * rate, float((trials * rate * (1 - rate)).mid())
    known = float(wanted.mid())
    reach = math.sqrt(2 * known * spread) + 1

    def beyond(side: int) -> int:
        """A number whose own tail is no more than that, about the first, or the end."""
        for more in range(60):
            size = reach + more * (known / 30 + 1)
            at = int((mean + side * size).mid().floor().unique_fmpz()) + side
            if not 0 < at < trials:
                return 0 if side < 0 else trials
            part = ball(at) / trials
            apart = part * (part / rate).log() + (1 - part) * ((1 - part) / (1 - rate)).log()
            if side * (part - rate) > 0 and trials * apart >= wanted:
                return at
        raise NotConfirmed("no window")

    return beyond(-1), beyond(1)


def _mean_beyond(c: Ball, signs: int, u: Ball) -> Ball:
    place = (signs + u / c) / 2
    near = place.mid().floor().unique_fmpz()
    if near is None or not abs(place - near) < 2:
        raise NotConfirmed("a place that is not known")
    found = ball(0)
    for first in range(max(int(near) - 1, 1), min(int(near) + 2, signs) + 1):
        # Any other than the first that tells gives less.
        if not (place >= first or place < first - 1):
            own = _log_choose(signs, first) - signs * ball(2).log()
            tail = (ball(1) / 2).beta_lower(first, signs - first + 1, regularized=True)
            found = found.max(c * first * own.exp() - u * tail)
    return found


def _log_choose(n: int, k: int) -> Any:
    return ball(n + 1).lgamma() - ball(k + 1).lgamma() - ball(n - k + 1).lgamma()
