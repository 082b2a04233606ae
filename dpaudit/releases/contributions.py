"""How far one unit moves a vector of whole numbers, computed from what it may contribute."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from dpaudit.errors import InvalidParameter
from dpaudit.scope import Adjacency


@dataclass(frozen=True)
class Moves:
    """Bounds on the difference of two neighbours' vectors, in whole numbers.

    ``cells``: how many coordinates differ (l0); ``largest``: by how much each (l-infinity);
    ``absolute``: by how much together (l1); ``squared``: the sum of squares (l2, squared).
    """

    cells: int
    largest: int
    absolute: int
    squared: int


@dataclass(frozen=True)
class Contribution:
    """What one unit adds to a vector of ``cells`` whole numbers.

    At most ``groups`` cells get something, each from ``low`` to ``high``, and no more than
    ``absolute`` together (None: whatever that allows).  ``always``: the unit adds to one cell, never
    nothing (a row that is never left out).
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
        c - c' of two such vectors.  Then in a cell that both fill it is at most high - low, elsewhere
        at most M = max(-low, high); with b cells of both kinds filled twice, the sum of squares is
        at most b (high - low)^2 + 2 (groups - b) M^2, which is linear in b; and where no entry is
        negative (x - y)^2 <= x^2 + y^2, so that it is at most twice that of one unit.
        """
        one = self._alone()
        if adjacency is not Adjacency.REPLACE_ONE:
            return one
        low, high = (self.low, self.high) if self._fixed else (min(self.low, 0), max(self.high, 0))
        width, groups = high - low, min(self.groups, self.cells)
        cells = min(2 * groups, self.cells)
        if low >= 0:
            squares = 2 * one.squared
        else:
            squares = groups * max(width**2, 2 * one.largest**2)
        return Moves(
            cells,
            width,
            min(2 * one.absolute, cells * width),
            min(squares, cells * width**2),
        )

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
        full, rest = divmod(absolute, most)
        return Moves(groups, most, absolute, full * most**2 + rest**2)


def together(contributions: Iterable[Contribution], adjacency: Adjacency) -> Moves:
    """The moves of several vectors side by side, which one unit may all move at once."""
    found = [contribution.moves(adjacency) for contribution in contributions]
    return Moves(
        sum(m.cells for m in found),
        max(m.largest for m in found),
        sum(m.absolute for m in found),
        sum(m.squared for m in found),
    )
