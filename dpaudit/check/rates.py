"""Counts into error rates, and error rates into lower bounds.

Audits write these numbers into certificates and the checker confirms them with the same functions,
so that a certificate of ours cannot fail on its own numbers.  Searches may be done in floating
point: what they find is only where these functions start.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from typing import Any

from dpaudit.check.normal import quantile
from dpaudit.exact import decimal_lower, decimal_upper, enclose, working_precision

MILLIONTH = Fraction(1, 10**6)
# Precision of a tail that must be at most the error, and of one that must be above it.
HELD_BITS, TIGHT_BITS = 96, 53
# A decimal of so many digits is the shortest one of its float, so that neither loses the other.
DIGITS = 15
Rates = tuple[Any, Any]


@lru_cache(maxsize=4096)
def clopper_pearson(count: int, trials: int, upper: Fraction, error: Fraction) -> bool:
    """P(Binomial(trials, upper) <= count) <= error, and not for a bound a millionth lower."""
    if count >= trials or upper >= 1:
        return upper == 1 and count == trials
    if not is_upper(count, trials, upper, error):
        return False
    return bool(tail(count, trials, upper * (1 - MILLIONTH), TIGHT_BITS) > enclose(error))


@lru_cache(maxsize=4096)
def is_upper(count: int, trials: int, upper: Fraction, error: Fraction) -> bool:
    """Whether P(Binomial(trials, upper) <= count) <= error is proved."""
    return upper >= 1 or bool(tail(count, trials, upper, HELD_BITS) <= enclose(error))


def tail(count: int, trials: int, rate: Fraction, bits: int) -> Any:
    """Ball around P(Binomial(trials, rate) <= count)."""
    import flint

    with flint.ctx.workprec(bits):
        return enclose(1 - rate).beta_lower(trials - count, count + 1, regularized=True)


@lru_cache(maxsize=4096)
def upper_rate(count: int, trials: int, error: Fraction, near: float) -> Fraction:
    """The Clopper-Pearson bound as a decimal of 15 digits that :func:`clopper_pearson` confirms.

    ``near``: where the search starts, a little above the bound for speed; the bound is valid
    wherever it starts.
    """
    if count >= trials:
        return Fraction(1)
    start = Fraction(near) if 0 < near < 1 else Fraction(1)
    widening = Fraction(1, 2**46)
    for upper in (start, start * (1 + widening), start * (1 + 64 * widening)):
        printed = Fraction(decimal_upper(upper, DIGITS))
        if clopper_pearson(count, trials, printed, error):
            return printed
    low, high = Fraction(count, trials), Fraction(1)
    while high - low > low * MILLIONTH / 4 and high > MILLIONTH**20:
        middle = (low + high) / 2
        low, high = (low, middle) if is_upper(count, trials, middle, error) else (middle, high)
    return Fraction(decimal_upper(high, DIGITS))


def pooled_holds(errors: int, trials: int, upper: Fraction, error: Fraction) -> bool:
    """Whether ``upper`` bounds the mean of two rates, of ``errors`` in ``trials`` of both sides.

    With S errors in 2n trials of mean rate p, P(S <= t) <= P(Bin(2n, p) <= t) where t + 1 <= 2np
    (Hoeffding 1956, Theorem 4): so the bound of S has to be at least (S + 1) / 2n.  Regions of
    claims are convex and the same with the rates exchanged: no allowed mean is below the rate at
    which both are equal.
    """
    held = upper == 1 or clopper_pearson(errors, trials, upper, error)
    return held and (upper == 1 or upper * trials >= errors + 1)


def no_errors(trials: int, error: Fraction) -> Any:
    """Ball around the Clopper-Pearson bound of no error in ``trials``: 1 - error^(1/trials)."""
    with working_precision():
        return 1 - (enclose(error).log() / trials).exp()


def implied(rates: Rates, delta: Fraction | None) -> Any:
    """Ball around the mu (no delta) or the epsilon that the rates imply, at least 0."""
    positive, negative = rates
    with working_precision():
        zero = enclose(Fraction(0))
        if delta is None:
            both = max(positive.upper(), negative.upper()) < 1
            return (-quantile(positive) - quantile(negative)).max(0) if both else zero
        spare = 1 - enclose(delta)
        ratios = ((spare - negative) / positive, (spare - positive) / negative)
        return max((ratio.log() if ratio > 1 else zero for ratio in ratios), key=_middle)


def _middle(ball: Any) -> float:
    return float(ball.mid())


def lower_bound(rates: tuple[Fraction, Fraction], delta: Fraction | None) -> Fraction:
    """The mu (no delta) or the epsilon that the rates imply, rounded down to 15 digits."""
    return Fraction(decimal_lower(implied((enclose(rates[0]), enclose(rates[1])), delta), DIGITS))
