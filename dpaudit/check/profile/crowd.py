"""delta of one report among very many: windows of counts, at an epsilon that a witness shows.

The bounds are :mod:`dpaudit.pairs.crowd`'s, as of other pairs of which a formula is known.
"""

from __future__ import annotations

from fractions import Fraction

from dpaudit.check.profile.cells import ball
from dpaudit.exact import is_symbolic
from dpaudit.pairs import Pair
from dpaudit.pairs.crowd import windows

# As a part of delta: what may be outside of the windows.
OUTSIDE = Fraction(1, 10**7)
BITS, MOST_BITS = 256, 20_000  # least precision; the most, which a tiny delta needs


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
    bits = BITS + 2 * max(delta.denominator.bit_length() - delta.numerator.bit_length(), 0)
    if bits > MOST_BITS:
        return False
    with flint.ctx.workprec(bits):
        bounds = windows(report, delta * OUTSIDE)
        if bounds is None or (sign < 0 and not bounds.exact):
            return False
        bound = (bounds.most if sign > 0 else bounds.least)(ball(epsilon))
        return bool(sign * bound <= sign * ball(delta))
