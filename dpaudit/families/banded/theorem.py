"""Banded noise over groups that take turns, stated a second time."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from dpaudit.check.pairs import independent
from dpaudit.check.reading import require
from dpaudit.check.theorem import Table, Theorem, register
from dpaudit.exact import is_symbolic, sqrt
from dpaudit.families.correlated.theorem import column_of
from dpaudit.nodes.pairs import Losses, Mixed, Normal, Pair

WITH_OR_WITHOUT = frozenset({"add_remove", "zero_out"})


def _blocks(node: Any, base: Losses) -> Losses:
    """Rows that a record moves in one turn end before its next turn, whose coin is another."""
    child = node.child
    if child.rounds == node.groups:
        return _one_turn(node)
    bands = getattr(child.strategy, "entries", (Fraction(1),))
    require(len(bands) <= node.groups <= child.rounds, "CyclicPoisson: blocks of rows that meet")
    square, z = sum(c * c for c in bands), child.noise_multiplier
    one = Normal(sqrt(square) / z if is_symbolic(z) else sqrt(square / z**2))
    starts = range(1, int(child.rounds) + 1, int(node.groups))
    full = sum(1 for t in starts if t + len(bands) - 1 <= child.rounds)

    def side(pair: Pair, count: int) -> tuple[Pair, ...]:
        return (independent([(pair, Fraction(count))]),)

    forth = Mixed(one, node.rate)
    back = Mixed(one.swapped, node.rate).swapped
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

    upper, reached = (sides(one) for one in column_of(kind, strategy, node.child.rounds))
    return Losses(*upper, *reached)


BANDED: Table = {
    ("profile", "CyclicPoisson"): Theorem("banded_blocks", _blocks, WITH_OR_WITHOUT),
}

register(BANDED)
