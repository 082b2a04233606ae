"""Amplification by sampling: the child runs on a secret batch of the records."""

from __future__ import annotations

from dpaudit.arithmetic import Number, exp, log
from dpaudit.calculus import Source
from dpaudit.nodes import PoissonSampled, SampledWithoutReplacement
from dpaudit.pairs import Losses, Mixed, Pair, Spliced
from dpaudit.rules.profile import PROFILE
from dpaudit.rules.pure import PURE
from dpaudit.scope import Adjacency

BALLE_POISSON = Source("Balle, Barthe, Gaboardi", 2018, "Theorem 8")
BALLE_BATCH = Source("Balle, Barthe, Gaboardi", 2018, "Theorem 9")
ZHU_POISSON = Source("Zhu, Dong, Wang", 2022, "Theorem 11 (Poisson sampling of a dominating pair)")
ZHU_BATCH = Source("Zhu, Dong, Wang", 2022, "Theorem 11 (sampling without replacement)")


@PURE.rule(PoissonSampled, cite=BALLE_POISSON, adjacency=(Adjacency.ADD_REMOVE,))
def poisson_sampled(node: PoissonSampled, epsilon: Number) -> Number:
    """log(1 + q (e^epsilon - 1)) at rate q."""
    return log(1 + node.rate * (exp(epsilon) - 1))


@PURE.rule(SampledWithoutReplacement, cite=BALLE_BATCH, adjacency=(Adjacency.REPLACE_ONE,))
def sampled_without_replacement(node: SampledWithoutReplacement, epsilon: Number) -> Number:
    """log(1 + q (e^epsilon - 1)) with q = batch_size / population."""
    return log(1 + node.batch_size / node.population * (exp(epsilon) - 1))


def mixed(pairs: tuple[Pair, ...], rate: Number) -> tuple[Pair, ...]:
    """((1 - q) Q + q P, Q) for each (P, Q)."""
    return tuple(Mixed(pair, rate) for pair in pairs)


def mixed_away(pairs: tuple[Pair, ...], rate: Number) -> tuple[Pair, ...]:
    """(P, (1 - q) P + q Q) for each (P, Q)."""
    return tuple(Mixed(pair.swapped, rate).swapped for pair in pairs)


@PROFILE.rule(PoissonSampled, cite=ZHU_POISSON, adjacency=(Adjacency.ADD_REMOVE,))
def poisson_profile(node: PoissonSampled, base: Losses) -> Losses:
    """The run with the record mixes the two; attained by records whose queries are the child's."""
    return Losses(
        mixed(base.remove, node.rate),
        mixed_away(base.add, node.rate),
        mixed(base.reached_remove, node.rate),
        mixed_away(base.reached_add, node.rate),
        base.slack,
        base.in_one_part,
    )


@PROFILE.rule(SampledWithoutReplacement, cite=ZHU_BATCH, adjacency=(Adjacency.REPLACE_ONE,))
def batch_profile(node: SampledWithoutReplacement, base: Losses) -> Losses:
    """The two directions spliced at x = 1; one of them is reached.

    It is reached where all other records hold what the replaced one is replaced by.
    """
    share = node.batch_size / node.population
    remove = tuple(spliced(pair, share) for pair in base.remove)
    add = tuple(spliced(pair, share) for pair in base.add)
    return Losses(
        remove,
        add,
        mixed(base.reached_remove, share),
        mixed_away(base.reached_add, share),
        base.slack,
        base.in_one_part,
    )


def spliced(pair: Pair, share: Number) -> Pair:
    """((1 - q) Q + q P, Q) at x >= 1 and (P, (1 - q) P + q Q) at x < 1."""
    return Spliced(Mixed(pair, share), Mixed(pair.swapped, share).swapped)
