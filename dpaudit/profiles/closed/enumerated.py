"""Products of atoms with few outcomes in all: every outcome, as Arb balls.

A factor with outcomes (p_i, q_i) that occurs n times is met n_i times in each; such a multiset has
P mass n! / prod n_i! * prod p_i^n_i and Q mass alike.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

from dpaudit.errors import Unsupported
from dpaudit.exact import is_symbolic
from dpaudit.nodes.pairs import Atoms, Product

Ball = Any
MOST = 1000


def is_enumerable(pair: Product) -> bool:
    """Whether all factors are atoms, counted by whole numbers, with at most ``MOST`` outcomes."""
    many = 1
    for factor, times in pair.parts:
        if not isinstance(factor, Atoms) or is_symbolic(times) or times.denominator != 1:
            return False
        if times < 0 or times > MOST:
            return False
        many *= math.comb(int(times) + len(factor.outcomes) - 1, len(factor.outcomes) - 1)
        if many > MOST:
            return False
    return True


def outcomes_of(pair: Product, number: Callable[[Any], Ball]) -> list[tuple[Ball, Ball]]:
    """(P, Q) masses of the outcomes of a product that :func:`is_enumerable`."""
    found = [(number(1), number(1))]
    for factor, times in pair.parts:
        if not isinstance(factor, Atoms):
            raise Unsupported(f"{factor}: not a finite list of outcomes")
        masses = [(number(p), number(q)) for p, q in factor.outcomes]
        own = [_mass(masses, counts) for counts in _multisets(int(times), len(masses))]
        found = [(p * a, q * b) for p, q in found for a, b in own]
    return found


def _multisets(total: int, kinds: int) -> Iterator[tuple[int, ...]]:
    """Every way to write a total as ``kinds`` counts."""
    if kinds == 1:
        yield (total,)
        return
    for first in range(total + 1):
        for rest in _multisets(total - first, kinds - 1):
            yield (first, *rest)


def _mass(masses: list[tuple[Ball, Ball]], counts: tuple[int, ...]) -> tuple[Ball, Ball]:
    ways, left = 1, sum(counts)
    p = q = masses[0][0] ** 0
    for (a, b), times in zip(masses, counts, strict=True):
        ways *= math.comb(left, times)
        left -= times
        p, q = p * a**times, q * b**times
    return ways * p, ways * q
