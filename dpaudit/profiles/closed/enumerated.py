"""Products of atoms with few outcomes in all: every outcome, as Arb balls.

A factor with outcomes (p_i, q_i) that occurs n times is met n_i times in each; such a multiset has
P mass n! / prod n_i! * prod p_i^n_i and Q mass alike.  Where one outcome is by far the most likely
under P, multisets with more than a few others are left out: together they have the P mass r that
the rest lacks, and delta grows by a number in [0, r].
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

from dpaudit.errors import Unsupported
from dpaudit.exact import enclose, is_symbolic, unknowns
from dpaudit.pairs import Atoms, Product

Ball = Any
MOST = 1000
# What is left out has a P mass of about exp(-LEFT_OUT), or less.
LEFT_OUT = 350.0


def is_enumerable(pair: Product) -> bool:
    """Whether all factors are atoms, counted by whole numbers, with at most ``MOST`` outcomes."""
    many = 1
    for factor, times in pair.parts:
        if not isinstance(factor, Atoms) or is_symbolic(times) or times.denominator != 1:
            return False
        if times < 0:
            return False
        kinds = len(factor.outcomes) - 1
        many *= math.comb(_others(factor, int(times)) + kinds, kinds)
        if many > MOST:
            return False
    return True


def _likeliest(factor: Atoms) -> int:
    """The place of the outcome of the largest P mass, about."""
    sizes = [float(enclose(p).mid()) for p, _ in factor.outcomes]
    return sizes.index(max(sizes))


@lru_cache(maxsize=256)
def _others(factor: Atoms, times: int) -> int:
    """Up to how many draws of other outcomes than the likeliest are told apart; all, where few.

    More than m have P mass at most (n r)^(m + 1) / (m + 1)!, r what the others have.
    """
    kinds = len(factor.outcomes) - 1
    if math.comb(times + kinds, kinds) <= MOST or any(unknowns(p) for p, _ in factor.outcomes):
        return times
    place = _likeliest(factor)
    rest = sum((enclose(p) for k, (p, _) in enumerate(factor.outcomes) if k != place), enclose(0))
    mean = times * rest
    if not mean > 0:
        return times
    log_mean = float(mean.log().mid())
    for m in range(min(times, MOST)):
        if (m + 1) * log_mean - math.lgamma(m + 2) < -LEFT_OUT:
            return m
    return times


def outcomes_of(pair: Product, number: Callable[[Any], Ball]) -> list[tuple[Ball, Ball]]:
    """(P, Q) masses of the outcomes of a product that :func:`is_enumerable`.

    The last one may be a ball from 0 on under P, of what was left out.
    """
    found = [(number(1), number(1))]
    whole = True
    for factor, times in pair.parts:
        if not isinstance(factor, Atoms):
            raise Unsupported(f"{factor}: not a finite list of outcomes")
        masses = [(number(p), number(q)) for p, q in factor.outcomes]
        place, most = _likeliest(factor), _others(factor, int(times))
        masses.insert(0, masses.pop(place))
        whole = whole and most == times
        own = [_mass(masses, counts) for counts in _multisets(int(times), most, len(masses))]
        found = [(p * a, q * b) for p, q in found for a, b in own]
    if not whole:
        left_out = (1 - sum((p for p, _ in found), number(0))).max(number(0))
        found.append((left_out.union(number(0)), number(0)))
    return found


def _multisets(total: int, others: int, kinds: int) -> Iterator[tuple[int, ...]]:
    """Every way to write a total as ``kinds`` counts, all but the first ``others`` at most."""
    if kinds == 1:
        yield (total,)
        return
    for last in range(others + 1):
        for rest in _multisets(total - last, others - last, kinds - 1):
            yield (*rest, last)


def _mass(masses: list[tuple[Ball, Ball]], counts: tuple[int, ...]) -> tuple[Ball, Ball]:
    ways, left = 1, sum(counts)
    p = q = masses[0][0] ** 0
    for (a, b), times in zip(reversed(masses), reversed(counts), strict=True):
        ways *= math.comb(left, times)
        left -= times
        p, q = p * a**times, q * b**times
    return ways * p, ways * q
