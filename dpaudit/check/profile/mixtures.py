"""Products with branches: sums, over what is seen, of normal noise with or without Laplace noise.

Drawn one after another, the factors leave cases: seen with mass p under P and q under Q, and in
each a normal pair and at most one Laplace pair.  A case adds p delta(x q / p), and p where q = 0.

Normal(mu) with LaplaceShift(e), x = exp(epsilon): given the normal loss L, which is N(mu^2 / 2,
mu^2) under P, Laplace noise alone is left at epsilon - L.  With T(a) = P(L > a),
E[exp(-L); L > a] = T(a + mu^2) and E[exp(-L / 2); L > a] = exp(-mu^2 / 8) T(a + mu^2 / 2),

    delta = T(epsilon + e) - x T(epsilon + e + mu^2)                   (Laplace loss below -e)
          + T(epsilon - e) - T(epsilon + e)                            (between -e and e)
          - exp((epsilon - e) / 2 - mu^2 / 8)
            (T(epsilon - e + mu^2 / 2) - T(epsilon + e + mu^2 / 2)).
"""

from __future__ import annotations

from functools import lru_cache

from dpaudit.check.profile.cells import Ball, ball
from dpaudit.pairs import Pair

CASES = 1000


def has_cases(pair: Pair, most: int = CASES) -> bool:
    """Whether this is a product of at most ``most`` cases, each factor once, and what they hold.

    It has branches, or is normal noise with Laplace noise.
    """
    if not pair.is_product or not 0 < pair.case_count <= most:
        return False
    cases = list(pair.cases)
    (first, *others) = cases
    both = not others and first.square != 0 and first.laplaces > 0
    known = both or any(factor.seen for factor, _ in pair.factors)
    return known and all(case.laplaces <= 1 for case in cases)


@lru_cache(maxsize=64)
def _in_balls(pair: Pair, bits: int) -> tuple[tuple[Ball, Ball, Ball, Ball], ...]:
    """The cases that P may be in, at the precision of the context (``bits``)."""
    numbers = ((case.p, case.q, case.square, case.epsilon) for case in pair.cases if case.p != 0)
    known = (tuple(map(ball, case)) for case in numbers)
    return tuple((p, q, square, epsilon) for p, q, square, epsilon in known)


def delta_of_cases(pair: Pair, x: Ball) -> Ball:
    """delta at x > 0 of a product that :func:`has_cases`."""
    import flint

    whole = ball(0)
    for p, q, square, epsilon in _in_balls(pair, int(flint.ctx.prec)):
        if not p > 0:
            whole += ball(0).union(p)
        elif q == 0:
            whole += p
        else:
            whole += p * _noise(square, epsilon, x * q / p)
    return whole


def _noise(square: Ball, e: Ball, x: Ball) -> Ball:
    at = x.log()
    if square == 0:
        return (1 - ((at - e) / 2).exp()).max(ball(0)).max(1 - x)

    def above(a: Ball) -> Ball:
        return ((a - square / 2) / (2 * square).sqrt()).erfc() / 2

    if e == 0:
        return above(at) - x * above(at + square)
    sure = above(at - e) - x * above(at + e + square)
    bend = ((at - e) / 2 - square / 8).exp()
    return sure - bend * (above(at - e + square / 2) - above(at + e + square / 2))
