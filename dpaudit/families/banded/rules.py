"""Banded noise over groups that take turns: a composition of sampled Gaussian releases.

A record of group j may take part in rounds j, j + b, j + 2 b, ..., b the groups.  What it adds in
round t moves rows t to t + b - 1 of C X + Z alone, by C_(t+i, t) u_t: blocks of rows that share
none.  Given the rows before the block and everybody else's coins, u_t is decided, and the block is
N(0, z^2 I), or that moved by |C_t| |u_t| in a direction that is decided, |u_t| <= 1, where the
record's own coin of the round says so.  Coins of different rounds are independent, so that the
blocks are, adaptively composed, sampled Gaussian releases of noise z over |C_t|; in rows of the
last block what is cut off moves nothing.  The first group has most turns.
Where every group has one turn, rows before it are of others, and the record's coin of it decides
whether the whole release is moved by its column: any strategy is one sampled Gaussian release of
noise z over the longest column, reached where the strategy's own bound is.
Reached, as sampled Gaussian releases are, by full moves in one direction in the first group's
blocks that are whole.
Source: Choquette-Choo, Ganesh, McKenna, McMahan, Rush, Thakurta, Xu 2023, (Amplified) Banded Matrix
Factorization, Theorem 4 (there all batches of one expected size).
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from dpaudit.exact import Number
from dpaudit.families.banded import CyclicPoisson
from dpaudit.families.correlated.moves import largest_move
from dpaudit.families.correlated.node import SINGLE
from dpaudit.families.correlated.rules import quotient
from dpaudit.families.sampling.rules import mixed, mixed_away
from dpaudit.measures.approx import APPROX
from dpaudit.measures.calculus import Source
from dpaudit.measures.gdp import GAUSSIAN
from dpaudit.measures.profile import PROFILE
from dpaudit.measures.pure import PURE
from dpaudit.measures.renyi import RENYI
from dpaudit.measures.zcdp import CONCENTRATED
from dpaudit.nodes.pairs import Losses, Normal, Pair, product
from dpaudit.scope import Adjacency

BLOCKS = Source(
    "Choquette-Choo, Ganesh, McKenna, McMahan, Rush, Thakurta, Xu",
    2023,
    "Theorem 4; proof in families.banded.rules",
)
PURE.absent(CyclicPoisson, reason="Gaussian noise has no finite largest privacy loss")
for _calculus in (APPROX, CONCENTRATED, RENYI, GAUSSIAN):
    _calculus.absent(CyclicPoisson, reason="a composition of sampled releases: use profile")


@PROFILE.rule(
    CyclicPoisson,
    "banded_blocks",
    cite=BLOCKS,
    adjacency=(Adjacency.ADD_REMOVE, Adjacency.ZERO_OUT),
)
def banded_blocks(node: CyclicPoisson, base: Losses) -> Losses:
    """Sampled Normal(|c| / z), once for each turn of the first group; below, for each whole one."""
    child: Any = node.child
    rounds, groups = int(child.rounds), int(node.groups)
    squares = sum((Fraction(c) ** 2 for c in node.column), Fraction(0))
    block = (Normal(quotient(squares, child.noise_multiplier)),)
    if node.one_turn:
        move = largest_move(child.strategy, child.rounds, SINGLE)
        return _once(node, move.upper, move.reached)
    turns, whole = -(-rounds // groups), (rounds - len(node.column)) // groups + 1
    towards, away = mixed(block, node.rate), mixed_away(block, node.rate)
    return Losses(
        _times(towards, turns), _times(away, turns), _times(towards, whole), _times(away, whole)
    )


def _once(node: Any, upper: Number, reached: Number | None) -> Losses:
    """Sampled Normal(the longest column / z), and what is reached of it."""
    z = node.child.noise_multiplier
    over = (Normal(quotient(upper, z)),)
    under = () if reached is None else (Normal(quotient(reached, z)),)
    forth, back = mixed(over, node.rate), mixed_away(over, node.rate)
    return Losses(forth, back, mixed(under, node.rate), mixed_away(under, node.rate))


def _times(pairs: tuple[Pair, ...], count: int) -> tuple[Pair, ...]:
    return tuple(product([(pair, Fraction(count))]) for pair in pairs)
