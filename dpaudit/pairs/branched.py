"""Branches that an observer sees, each with a pair of its own."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from dpaudit.exact import Number, infinity, is_infinite, log
from dpaudit.pairs.atoms import largest_of
from dpaudit.pairs.core import Branch, Extremes, Pair


@dataclass(frozen=True)
class Branched(Pair):
    """Branches (p, q, base): taken with mass p under P and q under Q, seen, then the base's pair.

    delta(x) is the sum of p delta_base(x q / p), and p where q = 0; either side's masses sum to 1.
    """

    branches: tuple[Branch, ...]

    @property
    def swapped(self) -> Pair:
        return Branched(tuple((q, p, base.swapped) for p, q, base in self.branches))

    @property
    def inner(self) -> tuple[Pair, ...]:
        return tuple(base for _, _, base in self.branches)

    @property
    def seen(self) -> tuple[Branch, ...]:
        return self.branches

    @property
    def extremes(self) -> Extremes:
        """Over branches that are taken, log(p / q) plus the base's."""
        ends = [(p, q, base.extremes) for p, q, base in self.branches]
        return _largest((q, p, end[0]) for p, q, end in ends), _largest(
            (p, q, end[1]) for p, q, end in ends
        )

    def _dominates_alike(self, other: Branched) -> bool:
        mass = [branch[:2] for branch in self.branches] == [b[:2] for b in other.branches]
        bases = zip(self.inner, other.inner, strict=False)
        return mass and all(ours.dominates(theirs) for ours, theirs in bases)


def _largest(branches: Iterable[tuple[Number, Number, Number]]) -> Number:
    taken = [(p, q, own) for p, q, own in branches if p != 0]
    return largest_of(
        infinity() if q == 0 or is_infinite(own) else log(p / q) + own for p, q, own in taken
    )
