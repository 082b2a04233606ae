"""Correlated noise over groups that take turns, stated a second time.

Turns whose blocks of rows meet: given how many of them a record is in, and whatever is released,
the squares of its moves sum to at most what so many rounds can move.  Two choices of coins move a
row by vectors whose product is at most that of their lengths, and so are all rows together, by
Cauchy and Schwarz: at most as two numbers that either moves by its whole length.  Weighted
exponentials of normal numbers are the more spread the more any two of them vary together (Kahane
1985), and both directions of delta are convex in the ratio: one number, N(length of J turns,
z^2), J unseen.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from dpaudit.check.reading import require
from dpaudit.check.theorem import Table, Theorem, register
from dpaudit.exact import is_symbolic, sqrt
from dpaudit.families.correlated.theorem import column_of, turns_of
from dpaudit.pairs import DrawnMoves, Losses, Mixed, Normal, Pair, product

ONE_BY_ONE = 64  # turns up to which every number of them has its own bound
MOST_ENTRIES = 300_000  # entries of a strategy's matrix
FRACTION_BITS = 128  # Bits behind the binary point of fixed-point numbers.
Kept = tuple[int, list[Fraction]]
WITH_OR_WITHOUT = frozenset({"add_remove", "zero_out"})


def _blocks(node: Any, base: Losses) -> Losses:
    """Rows that a record moves in one turn end before its next turn, whose coin is another."""
    child = node.child
    if child.rounds == node.groups:
        return _one_turn(node)
    require(node.groups <= child.rounds, "CyclicPoisson: more groups than rounds")
    kind = getattr(child.strategy, "value", type(child.strategy).__name__)
    bands = getattr(child.strategy, "entries", (Fraction(1),))
    if kind not in ("identity", "BandedToeplitz") or len(bands) > node.groups:
        return _turns_that_meet(node, kind)
    square, z = sum(c * c for c in bands), child.noise_multiplier
    noise = Normal(sqrt(square) / z if is_symbolic(z) else sqrt(square / z**2))
    starts = range(1, int(child.rounds) + 1, int(node.groups))
    full = sum(1 for t in starts if t + len(bands) - 1 <= child.rounds)

    def side(pair: Pair, count: int) -> tuple[Pair, ...]:
        return (product([(pair, Fraction(count))]),)

    forth = Mixed(noise, node.rate)
    back = Mixed(noise.swapped, node.rate).swapped
    return Losses(
        side(forth, len(starts)), side(back, len(starts)), side(forth, full), side(back, full)
    )


def _one_turn(node: Any) -> Losses:
    """One coin decides whether the longest column moves the release."""
    strategy, z = node.child.strategy, node.child.noise_multiplier
    kind = getattr(strategy, "value", type(strategy).__name__)

    def sides(squares: Any) -> tuple[tuple[Pair, ...], tuple[Pair, ...]]:
        if squares is None:
            return (), ()
        moved = Normal(sqrt(squares) / z if is_symbolic(z) else sqrt(squares / z**2))
        return (Mixed(moved, node.rate),), (Mixed(moved.swapped, node.rate).swapped,)

    upper, reached = (sides(column) for column in column_of(kind, strategy, node.child.rounds))
    return Losses(*upper, *reached)


def _turns_that_meet(node: Any, kind: str) -> Losses:
    """N(the move of J turns, z^2) against N(0, z^2), J binomial."""
    strategy, rounds, apart = node.child.strategy, int(node.child.rounds), int(node.groups)
    starts = range(0, rounds, apart)
    numbers = sorted({*range(1, min(len(starts), ONE_BY_ONE)), len(starts)})
    extents = [turns_of(kind, strategy, rounds, number, apart) for number in numbers]
    uppers = [min(upper for upper, _ in extents[j:]) for j in range(len(extents))]
    above, below = _unseen(node, uppers, len(starts)), list[Pair]()
    if extents[0][1] is not None:
        below.append(Mixed(_unseen(node, [extents[0][1]], 0), node.rate))
    directions, together = _along_their_sum(kind, strategy, rounds, starts)
    if directions:
        below.append(_unseen(node, together, directions))
    back = tuple(pair.swapped for pair in below)
    return Losses((above,), (above.swapped,), tuple(below), back)


def _unseen(node: Any, squares: Sequence[Any], turns: int) -> Pair:
    """The pair of the turns that are drawn; normal if all are, or if there are none."""
    z = node.child.noise_multiplier
    moves = tuple(sqrt(s) / z if is_symbolic(z) else sqrt(s / z**2) for s in squares)
    if node.rate == 1 or not turns:
        return Normal(moves[-1])
    return DrawnMoves(moves, node.rate, Fraction(turns))


def _along_their_sum(kind: str, strategy: Any, rounds: int, starts: range) -> Kept:
    """How many turns are kept, and squared moves along the sum of all turns' columns.

    Kept are those that move most, as many as make the least of them, times their number, largest;
    then 1, 2, ... of those kept that move least.
    """
    if len(starts) * rounds > MOST_ENTRIES:
        return 0, []
    unit = 2**FRACTION_BITS if kind == "sqrt_toeplitz" else 1
    columns = [_rows_of(kind, strategy, rounds, t + 1, unit) for t in starts]
    if min(map(min, columns)) < 0:
        return 0, []
    direction = [sum(row) for row in zip(*columns, strict=True)]
    length = sum(d * d for d in direction) * unit**2
    least = sorted(sum(c * d for c, d in zip(column, direction, strict=True)) for column in columns)
    most = max(len(least[i:]) * least[i] for i in range(len(least)))
    directions = next(least[i:] for i in range(len(least)) if len(least[i:]) * least[i] == most)
    one_by_one = range(1, min(len(directions), ONE_BY_ONE) + 1)
    return len(directions), [Fraction(sum(directions[:j])) ** 2 / length for j in one_by_one]


def _rows_of(kind: str, strategy: Any, rounds: int, t: int, one: int) -> list[Any]:
    """Column t, rounds and rows from 1, in units of 1 / one and rounded down."""
    if kind == "tree":
        return [int(i - (i & -i) < t <= i) for i in range(1, rounds + 1)]
    if kind == "independent_prefix":
        return [int(i >= t) for i in range(1, rounds + 1)]
    if kind == "LowerTriangular":
        return [0] * (t - 1) + [strategy.entries[i][t - 1] for i in range(t - 1, rounds)]
    column = list(getattr(strategy, "entries", ()))
    if kind == "sqrt_toeplitz":
        column = [one]
        for k in range(1, rounds):
            column.append(column[-1] * (2 * k - 1) // (2 * k))
    return ([0] * (t - 1) + column + [0] * rounds)[:rounds]


BANDED: Table = {
    ("profile", "CyclicPoisson"): Theorem("banded_blocks", _blocks, WITH_OR_WITHOUT),
}

register(BANDED)
