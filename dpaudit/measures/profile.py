"""Privacy profiles: a value holds the dominating pairs by direction, and the attained ones.

Composition multiplies pairs: dominating pairs compose adaptively, and Gaussian ones collapse into
one.  The guarantee is the largest over alternatives (the part of a partition, how a replaced record
moves the counts, the mechanism that is selected).

Which alternatives are fixed.  A run has one pair of neighbouring data sets, hence one direction:
``remove`` and ``add`` are composed apart.  Everything else may be chosen by what was released
before: a later query decides into which part a record falls, which vector is its own, which test it
is put to.  Given the past each choice has a profile below the pointwise largest M of them, and M is
the profile of a pair (Zhu, Dong, Wang 2022, Lemma 9: it is convex, as each of them is).  So M
dominates the release given any past, and Theorem 10 composes it:

    delta(x) = E_L [max over j of delta_j(x e^-L)] <= E_L [M(x e^-L)],   L the loss so far.

The largest of the products, one choice for the whole run, is max over j of E_L [delta_j(x e^-L)],
which is smaller wherever profiles cross.  A program that chooses in advance attains it, so it is a
lower bound, and not an upper one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from operator import attrgetter
from typing import Any

from dpaudit.errors import Unsupported
from dpaudit.exact import (
    Number,
    is_symbolic,
    maximum,
    replaced,
    sqrt,
    total,
    total_over,
)
from dpaudit.measures.calculus import Calculus, Laws, Measure, Source, register
from dpaudit.measures.convert import PROFILE_TO_DP, from_profile
from dpaudit.measures.sides import of_pairs, tradeoff_of_pairs
from dpaudit.pairs import (
    Atoms,
    Losses,
    Normal,
    Pair,
    distinct,
    joined,
    largest,
    numbers_in,
    opaque,
    product,
)

Point = tuple[Number, Number]


Side = Callable[[Losses], tuple[Pair, ...]]


REMOVE, ADD = attrgetter("remove"), attrgetter("add")


REACHED_REMOVE, REACHED_ADD = attrgetter("reached_remove"), attrgetter("reached_add")


MAX_ALTERNATIVES = 64  # Attained pairs kept for each direction, at most.


MAX_ROUNDS = 100_000  # Rounds of a Repeat whose parameters differ from round to round, at most.


COMPOSITION = Source("Zhu, Dong, Wang", 2022, "Theorem 10 (adaptive composition of pairs)")


DISJOINT = Source("McSherry", 2009, "Theorem 4 (parallel composition)")


def kept(node: Any, *premises: Losses) -> dict[str, int]:
    """``alternatives``: how many attained pairs are kept, if some are dropped; empty otherwise."""
    sides = [list(map(side, premises)) for side in (REACHED_REMOVE, REACHED_ADD)]
    most = max(sum(map(len, side)) for side in sides)
    return {"alternatives": MAX_ALTERNATIVES} if most > MAX_ALTERNATIVES else {}


def repeated(pair: Pair, index: Any, times: Number) -> Pair:
    """The product of a pair over ``index`` = 1..times.

    Errors: Unsupported where the number of different rounds is a symbol, or above ``MAX_ROUNDS``.
    """
    return product(f for p, n in pair.factors for f in _rounds(p, n, index, times))


def _rounds(pair: Pair, count: Number, index: Any, times: Number) -> list[tuple[Pair, Number]]:
    """One factor's product over the rounds, Gaussian factors summed to one."""
    if (mu := pair.gaussian_shift) is not None:
        return [(Normal(sqrt(total_over(mu**2 * count, index, times))), Fraction(1))]
    if index is None or not any(_holds(n, index) for n in (*numbers_in(pair), count)):
        return [(pair, count * times)]
    if is_symbolic(times) or times > MAX_ROUNDS:
        raise Unsupported(
            f"a profile of {times} different rounds: expected a number of at most {MAX_ROUNDS}"
        )
    return [_in_round(pair, count, index, k) for k in range(1, int(times) + 1)]


def _in_round(pair: Pair, count: Number, index: Any, k: int) -> tuple[Pair, Number]:
    def at(value: Number) -> Number:
        return replaced(value, {index: k}) if _holds(value, index) else value

    return pair.with_numbers(at), at(count)


def _holds(value: Number, index: Any) -> bool:
    return is_symbolic(value) and index in value.free_symbols


def no_guarantee() -> Losses:
    """The pair of an access without noise, which may reveal everything: delta is 1."""
    return opaque(Atoms(((Fraction(1), Fraction(0)), (Fraction(0), Fraction(1)))))


def unchanged(base: Losses) -> Losses:
    """The base's upper bounds alone: the assumption may exclude the data sets that attain them."""
    return Losses(base.remove, base.add, slack=base.slack)


def disjoint(parts: Sequence[Losses]) -> Losses:
    """Parallel composition: one record's pairs are the largest over the parts.

    The record falls into one part; which one may depend on earlier releases.
    """

    def each(side: Side) -> tuple[Pair, ...]:
        return distinct(pair for part in parts for pair in side(part))

    return Losses(
        (largest(each(REMOVE)),),
        (largest(each(ADD)),),
        each(REACHED_REMOVE)[:MAX_ALTERNATIVES],
        each(REACHED_ADD)[:MAX_ALTERNATIVES],
        maximum(part.slack for part in parts),
        in_one_part=True,
    )


def composition(premises: Sequence[Losses]) -> Losses:
    """The product of the premises' largest profiles; one part of at most one partition is reached.

    A release's alternatives are joined before they are composed: what came before may choose among
    them.  Releases of which nothing is known to be reached may be dropped after the fact.
    """
    parted = [p for p in premises if p.in_one_part]
    # By identity, since large fractions are slow to hash; the tuples live in the premises.
    made: dict[tuple[int, ...], tuple[Pair, ...]] = {}

    def upper(side: Side) -> tuple[Pair, ...]:
        alternatives = tuple(map(side, premises))
        key = tuple(map(id, alternatives))
        if key not in made:
            made[key] = (joined(map(largest, alternatives)),)
        return made[key]

    def reached(side: Side) -> tuple[Pair, ...]:
        if not parted and set(map(len, map(side, premises))) == {1}:
            return upper(side)
        always = [side(p) for p in premises if not p.in_one_part and side(p)]
        in_a_part = [pair for p in parted for pair in side(p)][:MAX_ALTERNATIVES]
        if in_a_part:
            firsts = [pairs[0] for pairs in always]
            return tuple(joined([*firsts, pair]) for pair in in_a_part)
        # Several attained pairs are combined by rank: the k-th of every premise, or its last.
        most = min(max(map(len, always), default=0), MAX_ALTERNATIVES)
        chosen = (joined(p[min(k, len(p) - 1)] for p in always) for k in range(most))
        return tuple(dict.fromkeys(chosen))

    return Losses(
        upper(REMOVE),
        upper(ADD),
        reached(REACHED_REMOVE),
        reached(REACHED_ADD),
        total([p.slack for p in premises]) if any(p.slack for p in premises) else Fraction(0),
        in_one_part=bool(parted),
    )


def repetition(base: Losses, index: Any, times: Number) -> Losses:
    """The product over all rounds of a round's largest profile, as every round chooses anew.

    Reached: the same alternative in every round.
    """

    def upper(pairs: tuple[Pair, ...]) -> tuple[Pair, ...]:
        return (repeated(largest(pairs), index, times),)

    def reached(pairs: tuple[Pair, ...]) -> tuple[Pair, ...]:
        return tuple(repeated(pair, index, times) for pair in pairs)

    return Losses(
        upper(base.remove),
        upper(base.add),
        reached(base.reached_remove),
        reached(base.reached_add),
        total_over(base.slack, index, times),
        base.in_one_part,
    )


def _region(claim: Any) -> Any:
    """The region that all points of a profile allow."""
    from dpaudit.measures.region import CommonRegion, approx_region

    return CommonRegion(tuple(approx_region(*point) for point in claim.points))


PROFILE = register(
    Calculus(
        Measure(
            name="profile",
            meaning="pairs of distributions that dominate the privacy profile",
            symbol="pairs",
            latex="(P, Q)",
            words="privacy profile δ(ε)",
            wire="pairs",
            laws=Laws(
                COMPOSITION,
                DISJOINT,
                composition,
                repetition,
                disjoint,
                no_guarantee,
                unchanged,
                attained=False,
                witness=kept,
            ),
            rank=4,
            to_approx=from_profile,
            to_approx_cite=PROFILE_TO_DP,
            delta_at=of_pairs,
            tradeoff_at=tradeoff_of_pairs,
            region=_region,
        )
    )
)
