"""Banded noise over groups that take turns: a composition of sampled Gaussian releases.

A record of group j may take part in rounds j, j + b, j + 2 b, ..., b the groups.  Its addition in
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

Any strategy, in any number of turns: blocks of rows meet, as a tree's root is in all of them.
Let b be the record's coins, J of them ones, and S_j the largest squared move of j rounds so far
apart. Given the coins and what was released before, row i is moved by m_i(b), and whatever is
released, sum_i |m_i(b)|^2 <= S_J.  Then one number dominates the release, either way round:
N(sqrt(S_J), z^2), J binomial and not seen, against N(0, z^2).  Proof, with z = 1:

    Kahane's inequality (1985): for centred normal (X_b) and (Y_b), weights w_b >= 0 and a convex
    F that grows no faster than a polynomial, if Cov(X_a, X_b) <= Cov(Y_a, Y_b) for all a, b,
    equal ones too, E F(sum_b w_b exp(X_b - Var X_b / 2)) <= E F(sum_b w_b exp(Y_b - Var Y_b /
    2)).
    (For X and Y independent and Z = sqrt(1 - s) X + sqrt(s) Y, the derivative in s is half the
    sum over a, b of w_a w_b (Cov Y - Cov X)(a, b) E[F'' exp(..) exp(..)], none of them negative.)

delta is E F of the ratio of densities under the run without the record, with F(r) = max(r - x, 0)
one way round and max(1 - x r, 0) the other, both convex.  The ratio is a sum over b of
exponentials as above, X_b = sum_i <y_i, m_i(b)>.  From the last row back: given the rows up to i,
those after it are dominated by one number moved by r_b, r_b^2 = S_J - sum of |m_l(b)|^2 over l <=
i, which is decided before row i is drawn.  After the last row that is so by the inequality with X
= 0.  Row i and the number after it have covariances <m_i(a), m_i(b)> + r_a r_b, by Cauchy and
Schwarz at most sqrt(|m_i(a)|^2 + r_a^2) sqrt(|m_i(b)|^2 + r_b^2): those of one number with the
budget of both. Fewer turns, coins being coupled, or smaller moves have smaller covariances;
the signs in C may be any.  For more than ``MOST_COUNTED_TURNS`` turns, S is that of all turns.
Reached, of as much as is known: by one full move; by full moves in one direction in the first
group's turns t: sum_i d_i y_i / |d|, d the sum of their columns, is moved by <C_t, d> / |d| for
each that is on, and by J of them at least the sum of the J least (smaller moves reach less, as
above); of the last turns, which move little, the moves may be none.
Source: dpaudit 2026; norms for vectors in one row: Choquette-Choo, Ganesh, Steinke, Thakurta
2023, Privacy Amplification for Matrix Mechanisms.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import accumulate
from typing import Any

from dpaudit.exact import Number
from dpaudit.families.banded import CyclicPoisson
from dpaudit.families.correlated.moves import largest_move
from dpaudit.families.correlated.node import (
    SINGLE,
    BandedToeplitz,
    Factorisation,
    LowerTriangular,
    Participation,
)
from dpaudit.families.correlated.rules import quotient
from dpaudit.families.sampling.rules import mixed, mixed_away
from dpaudit.measures.approx import APPROX
from dpaudit.measures.calculus import Source
from dpaudit.measures.gdp import GAUSSIAN
from dpaudit.measures.profile import PROFILE
from dpaudit.measures.pure import PURE
from dpaudit.measures.renyi import RENYI
from dpaudit.measures.zcdp import CONCENTRATED
from dpaudit.pairs import DrawnMoves, Losses, Normal, Pair, product
from dpaudit.scope import Adjacency

BLOCKS = Source(
    "Choquette-Choo, Ganesh, McKenna, McMahan, Rush, Thakurta, Xu",
    2023,
    "Theorem 4, and where blocks meet Kahane 1985; proofs in families.banded.rules",
)
# Numbers of turns, from 1 on, for each of which a sum is computed; for more, that of all turns.
MOST_COUNTED_TURNS = 64
MOST_COLUMN_ENTRIES = 300_000  # Entries of the strategy's columns that are computed.
FIXED_POINT_BITS = 128  # Bits behind the binary point of fixed-point entries.
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
    """Sampled Normal(|c| / z), once for each turn of the first group; below, for each whole one.

    Blocks that overlap: Normal(sqrt(S_J) / z), with J the number of turns that the record takes.
    """
    child: Any = node.child
    rounds, groups = int(child.rounds), int(node.groups)
    squares = sum((Fraction(c) ** 2 for c in node.column), Fraction(0))
    block = (Normal(quotient(squares, child.noise_multiplier)),)
    if node.one_turn:
        move = largest_move(child.strategy, child.rounds, SINGLE)
        return _once(node, move.upper, move.reached)
    if not node.apart:
        return _counted(node)
    turns, complete_turns = -(-rounds // groups), (rounds - len(node.column)) // groups + 1
    towards, away = mixed(block, node.rate), mixed_away(block, node.rate)
    return Losses(
        _times(towards, turns),
        _times(away, turns),
        _times(towards, complete_turns),
        _times(away, complete_turns),
    )


def _once(node: Any, upper: Number, reached: Number | None) -> Losses:
    """Sampled Normal(the longest column / z), and what is reached of it."""
    z = node.child.noise_multiplier
    over = (Normal(quotient(upper, z)),)
    under = () if reached is None else (Normal(quotient(reached, z)),)
    forth, back = mixed(over, node.rate), mixed_away(over, node.rate)
    return Losses(forth, back, mixed(under, node.rate), mixed_away(under, node.rate))


def _counted(node: Any) -> Losses:
    """How many of its turns a record takes part in decides how far it may move the release."""
    z, turns = node.child.noise_multiplier, -(-int(node.child.rounds) // int(node.groups))
    squares, reached = _squares(node.child, turns, node.groups)
    over, under = _drawn(squares, z, node.rate, turns), _once(node, squares[0], reached)
    aligned, together = _aligned(node.child, int(node.groups))
    below = (_drawn(together, z, node.rate, aligned),) if aligned else ()
    return Losses(
        (over,),
        (over.swapped,),
        (*under.reached_remove, *below),
        (*under.reached_add, *(pair.swapped for pair in below)),
    )


def _squares(child: Any, turns: int, groups: Number) -> tuple[list[Number], Number | None]:
    """S_1, S_2, ..., the last of all turns; and what one move is known to reach."""
    every = [
        largest_move(child.strategy, child.rounds, Participation(count, groups))
        for count in (*range(1, min(turns, MOST_COUNTED_TURNS)), turns)
    ]
    # Not all are exact, and what bounds more of them bounds fewer.
    smallest = [*accumulate((move.upper for move in reversed(every)), min)]
    return smallest[::-1], every[0].reached


def _drawn(squares: Sequence[Number], z: Number, rate: Number, turns: int) -> Pair:
    moves = tuple(quotient(square, z) for square in squares)
    return Normal(moves[-1]) if rate == 1 else DrawnMoves(moves, rate, Fraction(turns))


def _aligned(child: Any, groups: int) -> tuple[int, list[Fraction]]:
    """A lower bound along one direction d, the sum of the columns C_t of all turns.

    Returns the number of turns that are counted, and for j = 1, 2, ... the squared sum of their j
    smallest <C_t, d> / |d|.  Turns that move the release so little that the others alone give a
    larger bound are left out; (0, []) for negative entries, or too many.
    """
    rounds = int(child.rounds)
    starts = range(0, rounds, groups)
    if len(starts) * rounds > MOST_COLUMN_ENTRIES:
        return 0, []
    columns = [_column(child.strategy, rounds, t) for t in starts]
    if any(c < 0 for column in columns for c in column.values()):
        return 0, []
    together: Counter[int] = Counter()
    for column in columns:
        together.update(column)
    moves = sorted(sum(c * together[i] for i, c in column.items()) for column in columns)
    moves = moves[max(range(len(moves)), key=lambda i: moves[i] * (len(moves) - i)) :]
    unit = 1 << FIXED_POINT_BITS if child.strategy is Factorisation.SQRT_TOEPLITZ else 1
    squares = sum(d * d for d in together.values()) * unit**2
    return len(moves), [
        Fraction(move**2) / squares for move in accumulate(moves[:MOST_COUNTED_TURNS])
    ]


def _column(strategy: Any, rounds: int, t: int) -> dict[int, Any]:
    """Entries by row, from 0; those of sqrt_toeplitz in fixed point, rounded down."""
    rows = range(t, rounds)
    if isinstance(strategy, LowerTriangular):
        return {i: strategy.entries[i][t] for i in rows}
    if isinstance(strategy, BandedToeplitz):
        return dict(zip(rows, strategy.entries, strict=False))
    if strategy is Factorisation.SQRT_TOEPLITZ:
        steps = range(1, rounds - t)
        falling = accumulate(
            steps, lambda c, k: c * (2 * k - 1) // (2 * k), initial=1 << FIXED_POINT_BITS
        )
        return dict(zip(rows, falling, strict=True))
    # independent_prefix: others have no bound of several rounds
    return dict.fromkeys(_nodes(rounds, t) if strategy is Factorisation.TREE else rows, 1)


def _nodes(rounds: int, t: int) -> Iterator[int]:
    """The rows of a tree that hold round t, both from 0."""
    m = t + 1
    while m <= rounds:
        yield m - 1
        m += m & -m


def _times(pairs: tuple[Pair, ...], count: int) -> tuple[Pair, ...]:
    return tuple(product([(pair, Fraction(count))]) for pair in pairs)
