"""Total variation of normal rounds, sampled or not, stated a second time: chi-square of products.

delta(x) <= delta(0) = E_Q |P / Q - 1| / 2 <= sqrt(E_Q (P / Q)^2 - 1) / 2, and E_Q (P / Q)^2 of
independent factors is the product of theirs: 1 + q^2 (exp(m^2) - 1) for (1 - q) N(0, 1) + q N(m, 1)
against N(0, 1).  With all factors swapped, delta(0) is the same.
"""

from __future__ import annotations

from fractions import Fraction

from dpaudit.check.profile.cells import ball
from dpaudit.pairs import Pair


def alike_at_most(pair: Pair, epsilon: Fraction, delta: Fraction) -> bool:
    """Whether delta at every epsilon >= 0 is at most this one for certain."""
    import flint

    known = [*pair.factors]
    if all(factor.is_swapped for factor, _ in known):
        known = [(factor.swapped, times) for factor, times in known]
    with flint.ctx.workprec(128):
        product = ball(1)
        for factor, times in known:
            own, rate = factor.sample or (factor, Fraction(1))
            mu = own.gaussian_shift
            if mu is None:
                return False
            square = 1 + ball(rate) ** 2 * (ball(mu) ** 2).expm1()
            product *= (square.log() * ball(times)).exp()
        return epsilon >= 0 and bool((product - 1).sqrt() / 2 <= ball(delta))
