"""Dominating pairs, stated a second time: composition, repetition, parts, assumptions.

A bound is a value of :class:`dpaudit.pairs.Losses`.  Each of its four sides is folded by
itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from itertools import chain
from typing import Any

from dpaudit.check.theorem import Row, Table, Theorem, alternatives, dominating, register
from dpaudit.errors import Unsupported
from dpaudit.exact import is_symbolic, maximum, replaced, sqrt, total, total_over
from dpaudit.pairs import (
    Atoms,
    Losses,
    Normal,
    Pair,
    distinct,
    joined,
    largest,
    numbers_in,
    product,
)

Pairs = tuple[Pair, ...]
MOST_ROUNDS = 100_000  # different ones: a second of work is what a stranger may ask for
ZERO, ONE = Fraction(0), Fraction(1)


def _composed(node: Any, witness: Row, *premises: Losses) -> Losses:
    """Pairs multiply; slacks add.

    Upper: a query may be asked because of earlier answers, and with it the record's part, or its
    vector, so that given any past the release is dominated by the pointwise largest of its
    alternatives.  That is a convex function of x, hence some pair's profile, and pairs that hold
    given any past multiply (Zhu, Dong, Wang 2022, Theorem 10).  Only the direction is the run's.
    Reached: one record, in one part of one partition; what other partitions add is left out, which
    a release after the fact may do.  Without partitions, all premises' alternatives in order, a
    shorter list's last one repeated.
    """
    return Losses(
        (joined(largest(p.remove) for p in premises),),
        (joined(largest(p.add) for p in premises),),
        _together([(p.reached_remove, p.in_one_part) for p in premises], alternatives(witness)),
        _together([(p.reached_add, p.in_one_part) for p in premises], alternatives(witness)),
        total(p.slack for p in premises),
        any(p.in_one_part for p in premises),
    )


def _together(sides: Sequence[tuple[Pairs, bool]], most: int) -> Pairs:
    always = [pairs for pairs, parted in sides if pairs and not parted]
    parts = [pair for pairs, parted in sides if parted for pair in pairs]
    if parts:
        return tuple(joined((*(pairs[0] for pairs in always), part)) for part in parts[:most])
    longest = max((len(pairs) for pairs in always), default=0)
    filled = [(*pairs, *pairs[-1:] * (longest - len(pairs)))[:most] for pairs in always]
    return tuple(dict.fromkeys(joined(chosen) for chosen in zip(*filled, strict=True)))


def _disjoint(node: Any, witness: Row, *premises: Losses) -> Losses:
    """The record's part alone sees it; its past may choose which, so that the largest bounds it."""
    most = alternatives(witness)

    def any_of(sides: Iterable[Pairs]) -> Pairs:
        return distinct(chain.from_iterable(sides))

    return Losses(
        (largest(any_of(p.remove for p in premises)),),
        (largest(any_of(p.add for p in premises)),),
        any_of(p.reached_remove for p in premises)[:most],
        any_of(p.reached_add for p in premises)[:most],
        maximum(p.slack for p in premises),
        True,
    )


def _repeated(node: Any, premise: Losses) -> Losses:
    """All rounds multiply.

    Upper: the worst profile of a round, every round.  Reached: a record that stays in its part.
    """

    # The product over index = 1..times; Unsupported for different rounds of a symbol's number.
    def rounds(pair: Pair) -> Pair:
        return product(chain(*(_each_round(f, n, node.index, node.times) for f, n in pair.factors)))

    return Losses(
        (rounds(largest(premise.remove)),),
        (rounds(largest(premise.add)),),
        tuple(map(rounds, premise.reached_remove)),
        tuple(map(rounds, premise.reached_add)),
        total_over(premise.slack, node.index, node.times),
        premise.in_one_part,
    )


def _each_round(pair: Pair, count: Any, index: Any, times: Any) -> list[tuple[Pair, Any]]:
    if (mu := pair.gaussian_shift) is not None:
        # Squares add, so that a schedule of normal pairs is one normal pair.
        return [(Normal(sqrt(total_over(mu**2 * count, index, times))), ONE)]
    parameters = [n for n in (*numbers_in(pair), count) if is_symbolic(n)]
    if index is None or not any(index in n.free_symbols for n in parameters):
        return [(pair, count * times)]
    if is_symbolic(times) or times > MOST_ROUNDS:
        raise Unsupported(f"{times} different rounds: no product of pairs for them")

    def bind(k: int) -> Callable[[Any], Any]:
        return lambda n: replaced(n, {index: k})

    return [(pair.with_numbers(bind(k)), bind(k)(count)) for k in range(1, int(times) + 1)]


def _unchanged(node: Any, premise: Losses) -> Losses:
    """An assumption may rule out the data that reach the base's pairs."""
    return Losses(premise.remove, premise.add, slack=premise.slack)


PROFILE: Table = {
    ("profile", "NonPrivate"): Theorem(
        "no_guarantee", lambda n: dominating(Atoms(((ONE, ZERO), (ZERO, ONE))))
    ),
    ("profile", "Compose"): Theorem("composition", _composed, reads=True),
    ("profile", "Repeat"): Theorem("repetition", _repeated),
    ("profile", "Parallel"): Theorem("disjoint", _disjoint, reads=True),
    ("profile", "Assuming"): Theorem("unchanged", _unchanged),
}

register(PROFILE)
