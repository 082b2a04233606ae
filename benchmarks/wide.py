"""Declarations whose interval of epsilon or delta is wide, each with the reason.

:func:`asked` answers one of them; ``python -m benchmarks.evidence wide`` asks all and puts them on
the page of evidence.  Reasons link to the sections of docs/accountant.md.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from benchmarks.account import batches
from dpaudit.accountant.account import Account, Bound
from dpaudit.exact import decimal_lower, decimal_upper
from dpaudit.families.adaptive import Filter
from dpaudit.families.additive import Gaussian, Laplace
from dpaudit.families.banded import CyclicPoisson
from dpaudit.families.batches import ShuffledBatches, TruncatedPoisson
from dpaudit.families.composition import Repeat
from dpaudit.families.correlated import CorrelatedGaussian, Participation
from dpaudit.families.distributed import DistributedGaussianVector
from dpaudit.families.events import Group, ProposeTestRelease
from dpaudit.families.iterates import LastIterate, SampledLastIterate
from dpaudit.families.local import Shuffled
from dpaudit.families.opaque import ZCDP
from dpaudit.families.sampling import PoissonSampled, RandomAllocation, SampledWithoutReplacement
from dpaudit.families.tuning import Tuned
from dpaudit.nodes import Node
from dpaudit.scope import central

ACCOUNTANT = "accountant.md"
DIGITS = 6  # of the bounds on the page


@dataclass(frozen=True)
class Question:
    """A question to the accountant, and why the upper and the lower bound lie apart."""

    name: str
    ask: Callable[[], Bound]
    upper: str
    lower: str


def epsilon(node: Node, delta: str = "1e-5", adjacency: str = "add_remove") -> Callable[[], Bound]:
    """The interval of epsilon at a delta."""
    return lambda: Account(node, central(adjacency)).epsilon(Fraction(delta))


def prefix(rounds: int, strategy: str, *who: int) -> Node:
    """Prefix sums with noise of multiplier 20; ``who``: participations, and rounds between them."""
    return CorrelatedGaussian("sums", 20, rounds, strategy, Participation(*map(Fraction, who)))


ONE = Gaussian("g", 1)
TEST = ProposeTestRelease(Laplace("test", 1), ONE, Fraction(1, 10**5))
TREE = CorrelatedGaussian("sums", 10, 256, "tree", Participation(Fraction(4), Fraction(64)))
QUESTIONS = (
    Question("propose-test-release, delta at epsilon 20",
        lambda: Account(TEST, central("add_remove")).delta(Fraction(20)),
        "the delta of the failing test, at every epsilon", "nothing is known to be attained"),
    Question("tree of 2^16 leaves, 5 participations 100 apart",
        epsilon(prefix(2**16, "tree", 5, 100)),
        "any rounds that are so far apart", "rounds at equal distances"),
    Question("Honaker's tree, 256 rounds", epsilon(prefix(256, "tree_honaker")),
        "all nodes of the tree", "the prefixes of one record's rounds alone"),
    Question("filter of Laplace noise, rho = .5",
        epsilon(Filter.of(Laplace("l", 1), ZCDP("0.5"))),
        "any mechanism of that concentrated privacy", "releases that spend the whole cap"),
    Question("batches of 600 of 60,000, replaced, noise = clip, 10,000 steps",
        epsilon(batches(10_000), adjacency="replace_one"),
        f"[rounds that choose]({ACCOUNTANT}#batches-of-one-size-under-replace-one), on half the "
        "grid",
        "moves of one record in two orders, or of an equilateral triangle"),
    Question("shuffled batches, 600 of 60,000, noise 1, two passes",
        epsilon(Repeat(ShuffledBatches(ONE, 60_000, 600), 2), adjacency="zero_out"),
        f"[partners]({ACCOUNTANT}#shuffled-batches-from-above) that the queries choose",
        "an explicit pair"),
    Question("90 clients' noise of variance 1 in vectors, squares of 7",
        epsilon(DistributedGaussianVector("sums", 1, 90, 0, 7), adjacency="replace_one"),
        "cells of normal noise", "four coordinates that move by 2, 1, 1 and 1"),
    Question("10,000 shuffled Laplace reports, epsilon 1, delta 1e-6",
        epsilon(Shuffled(Laplace("l", 1), 10_000), "1e-6", "replace_one"),
        "any randomiser of that epsilon", "counts of reports beyond a threshold"),
    Question("truncated batches: 100 of 10,000 on average and at most, noise 2, 200 steps",
        epsilon(Repeat(TruncatedPoisson(Gaussian("g", 2), Fraction(1, 100), 10_000, 100), 200)),
        "the attacker sees whether a batch was cut", "no batch is cut"),
    Question("users of 5 records, 200 batches of 100 of 10,000, replaced, noise = clip",
        epsilon(Group(Repeat(SampledWithoutReplacement(ONE, 100, 10_000), 200), 5),
                adjacency="replace_one"),
        "one record's guarantee, step by step", "one record of the group alone"),
    Question("a search over runs of noise 10, geometric with mean 100",
        epsilon(Tuned(Gaussian("g", 10), Fraction(1, 100))),
        "how far ranks move, at every rank the most that one run's profile allows", "one run"),
    Question("10 slots of noise 2, a record replaced",
        epsilon(RandomAllocation(Gaussian("g", 2), 10), adjacency="replace_one"),
        "the attacker sees the slot, as where there is one record only",
        f"[a pair]({ACCOUNTANT}#a-record-replaced-in-one-of-some-slots) of any number of records"),
    Question("10,000 shuffled values with noise 3",
        epsilon(Shuffled(Gaussian("g", 3), 10_000), adjacency="replace_one"),
        "the values in order", "one of equal values moves"),
    Question("last of 20 iterates in a ball of diameter 10^9, noise 1",
        epsilon(LastIterate("m", 1, 20, 1, 10**9), adjacency="replace_one"),
        "shifts, as of steps that are not projected", "the last step alone"),
    Question("last of 1,000,000 iterates, noise 4, sampled at .01, diameter 4",
        epsilon(SampledLastIterate("m", 4, 10**6, Fraction(1, 100), 1, 4)),
        "shifts beside coins", "the last step alone"),
    Question("tree of 256 rounds, noise 10, 64 groups, batches at rate 1/4 of them",
        epsilon(CyclicPoisson(TREE, 64, Fraction(1, 4))),
        f"[the worst rounds]({ACCOUNTANT}#rounds-that-are-sampled-each) of as many",
        "one move, or all turns"),
    Question("30 rounds of noise 2, sampled at 1/20, a record replaced",
        epsilon(Repeat(PoissonSampled(Gaussian("g", 2), Fraction(1, 20)), 30),
                adjacency="replace_one"),
        f"[the attacker sees the coin]({ACCOUNTANT}#a-record-replaced-in-poisson-samples), as "
        "where there is one record only", "a pair of any number of other records"),
)  # fmt: skip


def asked(question: Question) -> dict[str, Any]:
    """The interval as texts that are rounded outward, and the processor seconds that it took."""
    start = time.process_time()
    bound = question.ask()
    return {
        "interval": [decimal_lower(bound.lower, DIGITS), decimal_upper(bound.upper, DIGITS)],
        "seconds": round(time.process_time() - start, 2),
    }
