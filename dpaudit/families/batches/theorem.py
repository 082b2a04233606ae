"""Batches of one size, stated a second time; proofs stand beside the accountant's rules."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from dpaudit.check.theorem import Table, Theorem, always, register
from dpaudit.errors import Unsupported
from dpaudit.exact import exp, log, settled
from dpaudit.exact.effort import spend
from dpaudit.nodes import postorder
from dpaudit.pairs import (
    Allocated,
    Branched,
    Losses,
    Mixed,
    Pair,
    Reshuffled,
)
from dpaudit.pairs.core import gaussian_shifts

IN_PLACE = frozenset({"replace_one", "zero_out"})
ZEROED = frozenset({"zero_out"})
COMING = frozenset({"add_remove"})
ADDING_UP = frozenset({"Gaussian", "Laplace", "Assuming", "Compose", "Group", "Repeat"})
CUT_DECIMALS = 60  # Decimals to which a probability is rounded up.
TAIL_WORK = 250_000  # Units of work (microseconds) of an incomplete beta integral.


def _moves_as_one(child: Any) -> bool:
    """Gaussian and Laplace noise composed; over parts of a partition Gaussian noise alone."""
    kinds = {type(part).__name__ for part in postorder(child)}
    if "Parallel" in kinds:
        return kinds <= {"Gaussian", "Assuming", "Compose", "Group", "Repeat", "Parallel"}
    return kinds <= ADDING_UP


def _shuffled(node: Any, base: Losses) -> Losses:
    """Shuffled batches: a record is in one batch a pass, so the base's pairs are upper bounds.

    Attained, for Gaussian noise: all other records contribute nothing (:class:`Allocated`), or the
    opposite of this one (:class:`Reshuffled`).
    """
    slots = node.population / node.batch_size
    shifts = gaussian_shifts(base.reached_remove)
    if slots == 1:
        return base
    if not shifts or not _moves_as_one(node.child):
        return Losses(base.remove, base.add, (), (), base.slack, base.in_one_part)
    reached: list[Pair] = []
    for mu in shifts:
        reached += [Allocated(1 / mu, slots), Reshuffled(1 / mu, slots)]
    return Losses(
        base.remove,
        base.add,
        tuple(reached),
        tuple(pair.swapped for pair in reached),
        base.slack,
        base.in_one_part,
    )


def _cut(node: Any) -> Fraction:
    """1 minus the chance that fewer than batch_size of the others come.

    Above the mean the chance that so many come is the smaller one, and its digits converge sooner.
    """
    import flint

    others, most = int(node.population) - 1, int(node.batch_size)
    if others < most:
        return Fraction(0)
    if node.rate == 1:
        return Fraction(1)
    with flint.ctx.workprec(640):
        spend(TAIL_WORK, "the chance that a batch is cut")
        other_rate = flint.arb(flint.fmpq(node.rate.denominator - node.rate.numerator))
        other_rate /= int(node.rate.denominator)
        if others * node.rate < most:
            cut = (1 - other_rate).beta_lower(most, others - most + 1, regularized=True)
        else:
            cut = 1 - other_rate.beta_lower(others - most + 1, most, regularized=True)
        scaled = (cut * flint.arb(10) ** CUT_DECIMALS).upper()
        if not scaled.is_finite() or scaled >= 10**CUT_DECIMALS:
            return Fraction(1)
        return Fraction(int(scaled.ceil().fmpz()), 10**CUT_DECIMALS)


def _pure(node: Any, epsilon: Any) -> Any:
    largest = 2 * epsilon if _cut(node) > 0 else epsilon
    return settled(log(1 + node.rate * (exp(largest) - 1)))


def _truncated(node: Any, base: Losses) -> Losses:
    """Truncated Poisson batches: sampled pairs, with the case of a cut batch as a branch."""
    chance, q = _cut(node), node.rate

    def towards(share: Any, pairs: tuple[Pair, ...]) -> tuple[Pair, ...]:
        return tuple(Mixed(pair, share) for pair in pairs)

    def away(share: Any, pairs: tuple[Pair, ...]) -> tuple[Pair, ...]:
        return tuple(Mixed(pair.swapped, share).swapped for pair in pairs)

    forth, back = towards(q, base.remove), away(q, base.add)
    stays = q * (1 - chance)
    reached = (
        (towards(stays, base.reached_remove), away(stays, base.reached_add))
        if stays != 0
        else ((), ())
    )
    if chance > 0:
        if not _moves_as_one(node.child) or len(forth) != 1 or len(back) != 1:
            raise Unsupported("truncated batches: no theorem for two records of this child")
        forth = (_cases(chance, forth[0], towards(q, (_two(base.remove[0]),))[0]),)
        back = (_cases(chance, back[0], away(q, (_two(base.add[0]),))[0]),)
    return Losses(forth, back, *reached, base.slack, base.in_one_part)


def _two(single: Pair) -> Pair:
    both = single.scaled(Fraction(2))
    if both is None:
        raise Unsupported("truncated batches: no theorem for two records of this child")
    return both


def _cases(chance: Fraction, usual: Pair, rare: Pair) -> Pair:
    often = 1 - chance
    return rare if often == 0 else Branched(((often, often, usual), (chance, chance, rare)))


BATCHES: Table = {
    **{
        (calculus, "CyclicBatches"): Theorem(
            "cyclic_batches", lambda n, base: base, IN_PLACE, attained=always
        )
        for calculus in ("pure", "approx", "zcdp", "rdp", "gdp", "profile")
    },
    **{
        (calculus, "ShuffledBatches"): Theorem("shuffled_batches", lambda n, base: base, IN_PLACE)
        for calculus in ("pure", "approx", "zcdp", "rdp", "gdp")
    },
    ("profile", "ShuffledBatches"): Theorem("shuffled_batches", _shuffled, ZEROED),
    ("pure", "TruncatedPoisson"): Theorem("truncated_poisson", _pure, COMING),
    ("profile", "TruncatedPoisson"): Theorem("truncated_poisson_profile", _truncated, COMING),
}

register(BATCHES)
