"""How far one unit moves a vector of whole numbers, computed from what it may contribute."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from dpaudit.errors import InvalidParameter
from dpaudit.scope import Adjacency

Sizes: TypeAlias = tuple[tuple[int, int], ...]
MOST_LISTED = 8  # worst vectors of a release that are listed
MOST_SPLIT = 40  # rows of a unit whose splits are gone through


@dataclass(frozen=True)
class Moves:
    """Bounds on the difference of two neighbours' vectors, in whole numbers.

    ``cells``: how many coordinates differ (l0); ``largest``: by how much each (l-infinity);
    ``absolute``: by how much together (l1); ``squared``: the sum of squares (l2, squared).
    ``worst``: vectors as (size, count) pairs, one of which is at least as large as the difference
    in every coordinate, up to order and sign; empty where they would be too many to list.
    """

    cells: int
    largest: int
    absolute: int
    squared: int
    worst: tuple[Sizes, ...] = ()


@dataclass(frozen=True)
class Contribution:
    """Contribution of one unit to a vector of ``cells`` whole numbers.

    At most ``groups`` cells get something, each from ``low`` to ``high``, and no more than
    ``absolute`` together (None: whatever that allows).  ``always``: the unit adds to one cell,
    never nothing (a row that is never left out).
    Errors: InvalidParameter for bounds out of order.
    """

    cells: int
    groups: int
    low: int
    high: int
    absolute: int | None = None
    always: bool = False

    def __post_init__(self) -> None:
        if not (self.cells >= 1 and self.groups >= 1 and self.low <= self.high):
            raise InvalidParameter(f"Contribution: bounds out of order: {self}")

    def moves(self, adjacency: Adjacency) -> Moves:
        """The largest differences under an adjacency.

        One unit's vector c goes under add_remove and zero_out; under replace_one the difference is
        c - c' of two such vectors.  Where no entry is negative, a cell of the difference is at most
        the larger entry, so that it is nowhere above the entries of c and c' laid side by side.
        Else it is at most high - low in a cell that both fill, and at most M = max(-low, high)
        elsewhere, in at most 2 (groups - b) cells where b are filled by both.
        """
        single = self._alone()
        if adjacency is not Adjacency.REPLACE_ONE:
            return single
        low, high = (self.low, self.high) if self._fixed else (min(self.low, 0), max(self.high, 0))
        width, groups = high - low, min(self.groups, self.cells)
        cells = min(2 * groups, self.cells)
        absolute = min(2 * single.absolute, cells * width)
        if cells == 1:
            return Moves(1, width, absolute, width**2, (((width, 1),),))
        if low >= 0:
            worst = _beside([single.worst, single.worst], cells)
            squared = 2 * single.squared
        else:
            total = single.absolute == groups * single.largest
            worst = _signed(groups, width, single.largest, cells) if total or groups == 1 else ()
            squared = min(groups * max(width**2, 2 * single.largest**2), 4 * single.squared)
        if worst:
            squared = max(map(_squares, worst))
        return Moves(cells, width, absolute, min(squared, cells * width**2), worst)

    @property
    def _fixed(self) -> bool:
        """One number, to which every unit adds."""
        return self.always and self.cells == 1

    def _alone(self) -> Moves:
        most = max(-self.low, self.high)
        groups = min(self.groups, self.cells)
        absolute = groups * most
        if self.absolute is not None:
            absolute = min(absolute, self.absolute)
        if most == 0:
            return Moves(groups, 0, 0, 0)
        # Squares are convex: fill cells up, one after the other.
        full, remainder = divmod(absolute, most)
        squared = full * most**2 + remainder**2
        return Moves(groups, most, absolute, squared, _splits(absolute, groups, most))


def _splits(absolute: int, groups: int, most: int) -> tuple[Sizes, ...]:
    """The largest vectors of at most ``groups`` entries up to ``most`` that add up to ``absolute``.

    None where they are too many.  Below the sum every vector is at most one that reaches it.
    """
    if absolute == groups * most:
        return (((most, groups),),)
    if absolute > MOST_SPLIT:
        return ()
    splits: list[Sizes] = []
    for split in _partitions(absolute, groups, most):
        splits.append(_merged(tuple((size, 1) for size in split)))
        if len(splits) > MOST_LISTED:
            return ()
    return tuple(splits)


def _partitions(total: int, parts: int, most: int) -> Iterator[list[int]]:
    if total == 0:
        yield []
        return
    for first in range(min(most, total), 0, -1):
        if first * parts < total:
            return
        for others in _partitions(total - first, parts - 1, first):
            yield [first, *others]


def _signed(groups: int, width: int, most: int, cells: int) -> tuple[Sizes, ...]:
    """b cells that both fill, and 2 (groups - b) that one of them does, for every b."""
    if groups >= MOST_LISTED:
        return ()
    vectors = {
        _cut(_merged(((width, shared), (most, 2 * (groups - shared)))), cells)
        for shared in range(groups + 1)
    }
    return tuple(sorted(vectors, reverse=True))


def _merged(sizes: Sizes) -> Sizes:
    """Each size once, the largest first."""
    counts = Counter[int]()
    for size, count in sizes:
        counts[size] += count
    return tuple(sorted(((s, n) for s, n in counts.items() if n), reverse=True))


def _cut(sizes: Sizes, cells: int) -> Sizes:
    """The largest ``cells`` entries."""
    cut: list[tuple[int, int]] = []
    for size, count in sizes:
        entries_taken = min(count, cells - sum(n for _, n in cut))
        if entries_taken > 0:
            cut.append((size, entries_taken))
    return tuple(cut)


def _squares(sizes: Sizes) -> int:
    return sum(count * size**2 for size, count in sizes)


def together(contributions: Iterable[Contribution], adjacency: Adjacency) -> Moves:
    """The moves of several vectors side by side, which one unit may all move at once."""
    moves = [contribution.moves(adjacency) for contribution in contributions]
    if len(moves) == 1:
        return moves[0]
    cells = sum(m.cells for m in moves)
    return Moves(
        cells,
        max(m.largest for m in moves),
        sum(m.absolute for m in moves),
        sum(m.squared for m in moves),
        _beside([m.worst for m in moves], cells),
    )


def _beside(lists: Iterable[tuple[Sizes, ...]], cells: int) -> tuple[Sizes, ...]:
    """One vector of each list beside the others; none where they are too many."""
    joined: set[Sizes] = {()}
    for alternatives in lists:
        joined = {_merged((*a, *b)) for a in joined for b in alternatives}
        if len(joined) > MOST_LISTED:
            return ()
    return tuple(sorted({_cut(sizes, cells) for sizes in joined}, reverse=True))
