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
# Trials up to which a tail is summed: at most about 10 sqrt(trials) terms are not negligible.
MOST_SUMMED = 10**5
# Bits of a sum beside those asked for, so that its rounding does not show: 4 (m + 2)^2 < 2^32.
SPARE_BITS = 32
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
    """Ball around P(Binomial(trials, rate) <= count).

    Up to ``MOST_SUMMED`` trials the ball is a sum, which is tens of times faster; beyond, it is an
    incomplete beta function.
    """
    import flint

    with flint.ctx.workprec(bits):
        if not (0 <= count < trials <= MOST_SUMMED and 0 < rate < 1):
            return enclose(1 - rate).beta_lower(trials - count, count + 1, regularized=True)
        if count <= (trials + 1) * rate:
            return _lower_tail(count, trials, rate, bits)
        return 1 - _lower_tail(trials - count - 1, trials, 1 - rate, bits)


def _lower_tail(count: int, trials: int, rate: Fraction, bits: int) -> Any:
    """Ball around P(Binomial(trials, rate) <= count), where count <= (trials + 1) rate.

    The sum runs from P(X = count) downward; terms are multiples of it, in units of 2^-scale.  The
    ratio of P(X = j - 1) to P(X = j), j (1 - rate) / ((trials - j + 1) rate), is at most 1 and
    falls with j.  Proof of the width: rounding down takes less than i units off the i-th term, so
    less than m^2 / 2 off the m terms summed.  The sum stops at a term that is rounded to 0, whose
    exact value is below m units.  The m ratios so far have the product m 2^-scale at most, and the
    next ratio r is no larger than any of them; as m < 2^17 < 2^scale / 2^68, 1 / (1 - r) is at
    most max(2, m).  The terms left out therefore sum to less than 2 m (m + 1) units.
    """
    import flint

    success, failure = rate.numerator, rate.denominator - rate.numerator
    scale = bits + SPARE_BITS
    term = total = 1 << scale
    summed = 1
    for j in range(count, 0, -1):
        term = term * (j * failure) // ((trials - j + 1) * success)
        if not term:
            break
        total += term
        summed += 1
    with flint.ctx.workprec(scale):
        largest = flint.arb.bin_uiui(trials, count) * enclose(rate) ** count
        largest *= enclose(1 - rate) ** (trials - count)
        multiples = flint.arb(total).union(flint.arb(total + 4 * (summed + 2) ** 2))
        return largest * multiples / flint.arb(2) ** scale


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
    follows = upper == 1 or clopper_pearson(errors, trials, upper, error)
    return follows and (upper == 1 or upper * trials >= errors + 1)


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
