"""Banded noise over groups that take turns, stated a second time."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from dpaudit.check.pairs import independent
from dpaudit.check.reading import require
from dpaudit.check.theorem import Table, Theorem, register
from dpaudit.exact import is_symbolic, sqrt
from dpaudit.nodes.pairs import Losses, Mixed, Normal, Pair

WITH_OR_WITHOUT = frozenset({"add_remove", "zero_out"})


def _blocks(node: Any, base: Losses) -> Losses:
    """Rows that a record moves in one turn end before its next turn, whose coin is another."""
    child = node.child
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


BANDED: Table = {
    ("profile", "CyclicPoisson"): Theorem("banded_blocks", _blocks, WITH_OR_WITHOUT),
}

register(BANDED)
