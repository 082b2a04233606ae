"""Epsilon 0 of normal rounds, sampled or not, that hardly differ: by chi-square alone.

For independent factors, with chi^2 = E_Q (P / Q - 1)^2 of each and n of them (Cauchy and Schwarz)
    delta(0) = TV(P, Q) <= sqrt(prod (1 + chi^2)^n - 1) / 2,
chi^2 = exp(mu^2) - 1 of N(mu, 1) against N(0, 1), q^2 times that where it is sampled at rate q.  TV
is symmetric, so that all factors may be swapped together.
Source: Tsybakov 2009, section 2.4 (chi-square of products, and total variation below it).
"""

from __future__ import annotations

import math
from fractions import Fraction

from dpaudit.exact import Number, enclose
from dpaudit.pairs import Pair
from dpaudit.profiles.interval import Interval

# Roundings of floats are far below this, relative.
OUTWARD, LARGEST_MU, SMALLEST = 1 + 1e-9, 5.0, 1e-280


def epsilon_alike(pair: Pair, delta: Fraction) -> Interval | None:
    """Epsilon 0, where delta there is at most the given one for certain; None elsewhere."""
    factors = pair.factors
    if all(factor.is_swapped for factor, _ in factors):
        factors = tuple((factor.swapped, times) for factor, times in factors)
    squares = [_log_square(*factor) for factor in factors]
    total = math.fsum(squares)
    if not total < 1 or math.sqrt(math.expm1(total)) / 2 * OUTWARD > delta:
        return None
    return Interval(Fraction(0), Fraction(0), {}, {"form": "alike"}, "chi-square")


def _log_square(factor: Pair, times: Number) -> float:
    """n log(1 + chi^2); infinite for other pairs, and where floats say little."""
    base, rate = factor.sample or (factor, Fraction(1))
    shift = base.gaussian_shift
    if shift is None:
        return math.inf
    mu, part, rounds = (float(enclose(number).mid()) for number in (shift, rate, times))
    square = (part * math.sqrt(math.expm1(mu * mu))) ** 2 if abs(mu) < LARGEST_MU else math.inf
    return rounds * math.log1p(square) if square > SMALLEST else math.inf
