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
from math import prod
from typing import Any

from dpaudit.check.profile.cells import Ball, NotConfirmed, ball
from dpaudit.pairs import Atoms, Branched, LaplaceShift, Normal, Pair, Product

CASES = 1000
# Masses under P and Q, mu^2, and the Laplace pair's epsilon.
Case = tuple[Any, Any, Any, Any]


def has_cases(pair: Pair, most: int = CASES) -> bool:
    """Whether this is a product of at most ``most`` cases, each factor once, and what they hold.

    It has branches, or is normal noise with Laplace noise.
    """
    if not isinstance(pair, Product):
        return False
    kinds = [type(factor) for factor, _ in pair.parts]
    known = Branched in kinds or set(kinds) == {Normal, LaplaceShift}
    return known and 0 < _size(pair) <= most and _laplaces(pair) <= 1


def _size(pair: Pair) -> int:
    """The number of cases; 0 where one has no closed form."""
    if isinstance(pair, Product):
        once = all(times == 1 for _, times in pair.parts)
        return prod(_size(factor) for factor, _ in pair.parts) if once else 0
    if isinstance(pair, Branched):
        sizes = [_size(base) for _, _, base in pair.branches]
        return sum(sizes) if 0 not in sizes else 0
    if isinstance(pair, Atoms):
        return len(pair.outcomes)
    return 1 if isinstance(pair, (Normal, LaplaceShift)) else 0


def _laplaces(pair: Pair) -> int:
    if isinstance(pair, Product):
        return sum(_laplaces(factor) for factor, _ in pair.parts)
    if isinstance(pair, Branched):
        return max(_laplaces(base) for _, _, base in pair.branches)
    return 1 if isinstance(pair, LaplaceShift) else 0


def _cases(pair: Pair) -> list[Case]:
    if isinstance(pair, Product):
        found: list[Case] = [(1, 1, 0, 0)]
        for factor, _ in pair.parts:
            own = _cases(factor)
            found = [(p * a, q * b, v + w, e + f) for p, q, v, e in found for a, b, w, f in own]
        return found
    if isinstance(pair, Branched):
        return [(p * a, q * b, v, e) for p, q, m in pair.branches for a, b, v, e in _cases(m)]
    if isinstance(pair, Atoms):
        return [(p, q, 0, 0) for p, q in pair.outcomes]
    if isinstance(pair, Normal):
        return [(1, 1, pair.mu**2, 0)]
    if isinstance(pair, LaplaceShift):
        return [(1, 1, 0, pair.epsilon)]
    raise NotConfirmed(type(pair).__name__)


@lru_cache(maxsize=64)
def _in_balls(pair: Product, bits: int) -> tuple[tuple[Ball, Ball, Ball, Ball], ...]:
    """The cases that P may be in, at the precision of the context (``bits``)."""
    known = (tuple(map(ball, case)) for case in _cases(pair) if case[0] != 0)
    return tuple((p, q, square, epsilon) for p, q, square, epsilon in known)


def delta_of_cases(pair: Product, x: Ball) -> Ball:
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
