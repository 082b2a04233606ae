"""Batches of one size: every calculus.

Cyclic and shuffled batches.  Given the order, a record is in one batch, and no other batch moves:
the pass is as private as the child on that batch.  A secret order is a mixture of such passes,
which is no further apart than its parts.

Reached by shuffled batches, by queries that are full moves in one direction (units of the largest
move, noise z in them).  All other records contribute 0: the batch of the record moves by 1, which
is the pair of :class:`RandomAllocation`.  All others contribute -1 and the record 1, or 0 where it
is zeroed: its batch is 2, or 1, above the others, the mixture over i of N(2 e_i / z, I) against
that of N(e_i / z, I); likely where little noise leaves batches apart.
Source: Chua, Ghazi, Kamath, Kumar, Manurangsi, Sinha, Zhang 2024, How Private are DP-SGD
Implementations?, where that pair is the one of lower bounds.

Truncated Poisson batches of at most B.  Fix the coins of the others and in which order they are
kept; let K of them come, at most m = population - 1 others.  While K < B the record, if it comes,
joins them: the Poisson mixture.  Where K >= B it stays with a chance of at most the rate, and takes
the place of another: two records change, so that the mixture of the child's pair for a group of two
dominates.  That dominates the Poisson mixture too, so that a larger chance of the second case,
t = P(binomial(m, rate) >= B), dominates.  The fixed part is as likely under both runs and counts as
seen (joint convexity):

    (1 - t, 1 - t, Mixed(pair, rate)), (t, t, Mixed(pair of two, rate)).

Reached: all others contribute 0; the record stays with probability rate (1 - t) at least.
Source: dpaudit 2026, the proof above; Chua and others 2024, Scalable DP-SGD, count t as a failure.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from dpaudit.errors import Unsupported
from dpaudit.exact import Number
from dpaudit.exact.effort import spend
from dpaudit.families.batches import CyclicBatches, ShuffledBatches, TruncatedPoisson
from dpaudit.families.events.group_rules import moves_together
from dpaudit.families.sampling.rules import amplified, mixed, mixed_away
from dpaudit.measures.approx import APPROX
from dpaudit.measures.calculus import (
    Calculus,
    Source,
    always,
    in_every_calculus,
    never,
)
from dpaudit.measures.gdp import GAUSSIAN
from dpaudit.measures.profile import PROFILE
from dpaudit.measures.pure import PURE
from dpaudit.measures.renyi import RENYI
from dpaudit.measures.zcdp import CONCENTRATED
from dpaudit.nodes import Node
from dpaudit.pairs import (
    Allocated,
    Branched,
    Losses,
    Pair,
    Reshuffled,
)
from dpaudit.pairs.core import gaussian_shifts
from dpaudit.scope import Adjacency

ONE_BATCH = Source("dpaudit", 2026, "given the order, one batch holds the record")
SHUFFLED = Source(
    "Chua, Ghazi, Kamath, Kumar, Manurangsi, Sinha, Zhang",
    2024,
    "shuffled batches (below); joint convexity (above); proof in families.batches.rules",
)
CUT = Source("dpaudit", 2026, "truncated Poisson batches; proof in families.batches.rules")
# A record that comes or goes moves others from batch to batch.
IN_PLACE = (Adjacency.REPLACE_ONE, Adjacency.ZERO_OUT)
ZEROED = (Adjacency.ZERO_OUT,)  # neighbours for which the theorem is proved
COMING = (Adjacency.ADD_REMOVE,)  # neighbours for which the theorem is proved
CHANCE_DECIMALS = 60  # Decimals to which a probability is rounded up.
INTEGRAL_WORK = 250_000  # Units of work (microseconds) of an incomplete beta integral of 512 bits.


@in_every_calculus
def batches(calculus: Calculus) -> None:
    """Register cyclic batches everywhere, shuffled ones where there is no profile."""

    def one_batch(node: Node, base: Any) -> Any:
        """The child's own."""
        return base

    rules: list[tuple[type[Node], str, Any]] = [(CyclicBatches, "cyclic_batches", always)]
    if calculus.name != PROFILE.name:
        rules.append((ShuffledBatches, "shuffled_batches", never))
    for kind, name, attained in rules:
        calculus.rule(kind, name, cite=ONE_BATCH, adjacency=IN_PLACE, attained=attained)(one_batch)


@PROFILE.rule(ShuffledBatches, "shuffled_batches", cite=SHUFFLED, adjacency=ZEROED)
def shuffled_batches(node: ShuffledBatches, base: Losses) -> Losses:
    """The child's pairs; below a normal one what two data sets reach."""
    slots = node.population / node.batch_size
    ends = gaussian_shifts(base.reached_remove)
    if slots == 1 or not ends or not moves_together(node.child):
        reached = (base.reached_remove, base.reached_add) if slots == 1 else ((), ())
        return Losses(base.remove, base.add, *reached, base.slack, base.in_one_part)
    forth = tuple(kind(1 / mu, slots) for mu in ends for kind in (Allocated, Reshuffled))
    back = tuple(pair.swapped for pair in forth)
    return Losses(base.remove, base.add, forth, back, base.slack, base.in_one_part)


# --- truncated Poisson batches -------------------------------------------------------------------

for _calculus in (APPROX, CONCENTRATED, RENYI, GAUSSIAN):
    _calculus.absent(
        TruncatedPoisson, reason="a mixture of two cases, told apart by their number: use profile"
    )


def chance_of_cut(node: TruncatedPoisson) -> Fraction:
    """P(binomial(population - 1, rate) >= batch_size), rounded up to ``CHANCE_DECIMALS`` decimals.

    An incomplete beta integral: P(binomial(m, q) >= B) = I_q(B, m - B + 1), or 1 less that of the
    rest, whichever is smaller: of one that is almost 1 the digits take seconds, or are not found.
    """
    others, most = int(node.population) - 1, int(node.batch_size)
    if most > others:
        return Fraction(0)
    if node.rate == 1:
        return Fraction(1)
    import flint

    with flint.ctx.workprec(512):
        rate = flint.arb(flint.fmpq(node.rate.numerator, node.rate.denominator))
        spend(INTEGRAL_WORK, "the chance that a batch is cut")
        if most > others * node.rate:
            chance = rate.beta_lower(most, others - most + 1, regularized=True)
        else:
            chance = 1 - (1 - rate).beta_lower(others - most + 1, most, regularized=True)
        if not chance <= 1:
            return Fraction(1)  # of so many records the integral is not found
        scaled = (chance * flint.arb(10) ** CHANCE_DECIMALS).upper().ceil().fmpz()
    return Fraction(int(scaled), 10**CHANCE_DECIMALS)


@PURE.rule(TruncatedPoisson, "truncated_poisson", cite=CUT, adjacency=COMING)
def truncated_poisson(node: TruncatedPoisson, epsilon: Number) -> Number:
    """log(1 + q (e^r - 1)), r = 2 epsilon where batches are ever cut, else epsilon."""
    return amplified(epsilon if chance_of_cut(node) == 0 else 2 * epsilon, node.rate)


@PROFILE.rule(TruncatedPoisson, "truncated_poisson_profile", cite=CUT, adjacency=COMING)
def truncated_poisson_profile(node: TruncatedPoisson, base: Losses) -> Losses:
    """The Poisson mixture, and with the chance of a cut the pair of two records.

    Errors: Unsupported for a child whose pair for two records is not known.
    """
    cut, rate = chance_of_cut(node), node.rate
    remove, add = mixed(base.remove, rate), mixed_away(base.add, rate)
    if cut == 0:
        reached = mixed(base.reached_remove, rate), mixed_away(base.reached_add, rate)
        return Losses(remove, add, *reached, base.slack, base.in_one_part)
    if not moves_together(node.child) or len(base.remove) != 1 or len(base.add) != 1:
        raise Unsupported(_unknown(node))
    uncut_rate = rate * (1 - cut)
    below = mixed(base.reached_remove, uncut_rate), mixed_away(base.reached_add, uncut_rate)
    two = Losses((_twice(base.remove[0], node),), (_twice(base.add[0], node),))
    return Losses(
        (_either(remove[0], mixed(two.remove, rate)[0], cut),),
        (_either(add[0], mixed_away(two.add, rate)[0], cut),),
        *(below if uncut_rate != 0 else ((), ())),
        base.slack,
        base.in_one_part,
    )


def _either(usual: Pair, rare: Pair, chance: Fraction) -> Pair:
    if chance == 1:
        return rare
    return Branched(((1 - chance, 1 - chance, usual), (chance, chance, rare)))


def _twice(pair: Pair, node: TruncatedPoisson) -> Pair:
    twice = pair.scaled(Fraction(2))
    if twice is None:
        raise Unsupported(_unknown(node))
    return twice


def _unknown(node: TruncatedPoisson) -> str:
    return (
        f"{node.head}: no pair for two records of {node.child.head[:80]} is known; use Gaussian or "
        "Laplace noise below it, or a batch_size of the whole population"
    )
