"""Products of atoms with few outcomes in all: every outcome, as Arb balls.

A factor with outcomes (p_i, q_i) that occurs n times is met n_i times in each; such a multiset has
P mass n! / prod n_i! * prod p_i^n_i and Q mass alike.  Where one outcome is by far the most likely
under P, multisets with more than a few others are left out: together they have the P mass r that
the rest lacks, and delta grows by a number in [0, r].
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

from dpaudit.exact import Number, enclose, is_symbolic, unknowns
from dpaudit.pairs.balls import Ball, number

# Masses under P and Q of each outcome; factors with such lists, and their counts.
Outcomes = tuple[tuple[Number, Number], ...]
Parts = Sequence[tuple[Any, Number]]
MAX_OUTCOMES = 1000  # Outcomes of a product that are enumerated.
# Outcomes are left out up to a P mass of about exp(-LEFT_OUT), which is added to delta.
LEFT_OUT = 350.0


def is_enumerable(parts: Parts) -> bool:
    """Whether all factors are atoms with whole counts, and ``MAX_OUTCOMES`` outcomes at most."""
    many = 1
    for factor, times in parts:
        listed = factor.listed
        if listed is None or is_symbolic(times) or times.denominator != 1:
            return False
        if times < 0:
            return False
        kinds = len(listed) - 1
        many *= math.comb(_others(listed, int(times)) + kinds, kinds)
        if many > MAX_OUTCOMES:
            return False
    return True


def _likeliest(listed: Outcomes) -> int:
    """The place of the outcome of the largest P mass, about."""
    sizes = [float(enclose(p).mid()) for p, _ in listed]
    return sizes.index(max(sizes))


@lru_cache(maxsize=256)
def _others(listed: Outcomes, times: int) -> int:
    """Up to how many draws of other outcomes than the likeliest are told apart; all, where few.

    More than m have P mass at most (n r)^(m + 1) / (m + 1)!, r what the others have.
    """
    kinds = len(listed) - 1
    if math.comb(min(times, MAX_OUTCOMES) + kinds, kinds) <= MAX_OUTCOMES or any(
        unknowns(p) for p, _ in listed
    ):
        return times
    place = _likeliest(listed)
    other_mass = sum((enclose(p) for k, (p, _) in enumerate(listed) if k != place), enclose(0))
    mean = times * other_mass
    if not mean > 0:
        return times
    log_mean = float(mean.log().mid())
    for m in range(min(times, MAX_OUTCOMES)):
        if (m + 1) * log_mean - math.lgamma(m + 2) < -LEFT_OUT:
            return m
    return times


def outcomes_of(parts: Parts) -> list[tuple[Ball, Ball]]:
    """(P, Q) masses of the outcomes of a product that :func:`is_enumerable`.

    The last one may be a ball from 0 on under P, of what was left out.
    """
    outcomes = [(number(1), number(1))]
    complete = True
    for factor, times in parts:
        listed = factor.listed
        masses = [(number(p), number(q)) for p, q in listed]
        place, most = _likeliest(listed), _others(listed, int(times))
        masses.insert(0, masses.pop(place))
        complete = complete and most == times
        own = [_mass(masses, counts) for counts in _multisets(int(times), most, len(masses))]
        outcomes = [(p * a, q * b) for p, q in outcomes for a, b in own]
    if not complete:
        left_out = (1 - sum((p for p, _ in outcomes), number(0))).max(number(0))
        outcomes.append((left_out.union(number(0)), number(0)))
    return outcomes


def _multisets(total: int, others: int, kinds: int) -> Iterator[tuple[int, ...]]:
    """Every way to write a total as ``kinds`` counts, all but the first ``others`` at most."""
    if kinds == 1:
        yield (total,)
        return
    for last in range(others + 1):
        for counts in _multisets(total - last, others - last, kinds - 1):
            yield (*counts, last)


def _mass(masses: list[tuple[Ball, Ball]], counts: tuple[int, ...]) -> tuple[Ball, Ball]:
    ways, draws_left = 1, sum(counts)
    p = q = masses[0][0] ** 0
    for (a, b), times in zip(reversed(masses), reversed(counts), strict=True):
        ways *= math.comb(draws_left, times)
        draws_left -= times
        p, q = p * a**times, q * b**times
    return ways * p, ways * q
