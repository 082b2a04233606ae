"""Pairs of columns that depend on one another most, chosen privately: which tables are worth noise.

The score of a pair is how far its table of counts n_ij is from that of independent columns,
sum |n_ij - n_i n_j / n|, rounded down: 0 where they are independent.

One row more changes it by less than 4.  The products grow with the row, from n_i n_j to m_i m_j,
which add up to n^2 and (n + 1)^2.  Hence m_i m_j / (n + 1) and n_i n_j / (n + 1) are
(2 n + 1) / (n + 1) apart, n_i n_j / (n + 1) and n_i n_j / n are n / (n + 1) apart, and n_ij changes
by 1 at one place: (4 n + 2) / (n + 1) < 4 in all.  Whole numbers that are less than 4 apart have
roundings at most 4 apart.  A large table of one row and column comes near it, with a row elsewhere.
Source: McKenna, Miklau, Sheldon 2021 (pairs of columns by the exponential mechanism); Durfee,
Rogers 2019 (peeling).  The score of exact counts and its bound are ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any, ClassVar

import numpy as np

from dpaudit.errors import InvalidParameter
from dpaudit.releases.items.counts import Grouped
from dpaudit.releases.items.item import Choice, Exact, Found, Margins, Part, Row
from dpaudit.releases.runs import Runs
from dpaudit.tabular import ROWS, Schema, Total
from dpaudit.tabular.schema import whole_number

MOVED = 4  # by which one row moves a score at most


@dataclass(frozen=True, kw_only=True)
class Pairs(Grouped):
    """The ``k`` pairs of the columns ``by`` that depend most, in order, for `[synthetic]` pairs.

    A row is counted in the tables of which it has both values.
    Errors: InvalidParameter for as many pairs as there are, or more, and for limits on groups.
    """

    query: ClassVar[str] = "pairs"
    k: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        whole_number(self.k, f"item {self.name!r}: k")
        if self.groups is not None or self.per_group is not None or self.noise:
            raise InvalidParameter(
                f"item {self.name!r}: a choice takes no groups, no per_group and no noise; limit "
                "the rows of a unit in the schema"
            )
        if self.k >= len(self._pairs):
            raise InvalidParameter(f"item {self.name!r}: k = {self.k} of {len(self._pairs)} pairs")

    @property
    def _pairs(self) -> list[tuple[str, str]]:
        return list(combinations(self.by, 2))

    def parts(self, schema: Schema) -> tuple[Part, ...]:
        self.keys(schema)
        moved, pairs = MOVED * schema.rows, len(self._pairs)
        # One unit for another is one that goes and one that comes.
        return (
            Choice(self.name, self.name, pairs, moved, 2 * moved, monotone=False, times=self.k),
        )

    def totals(self, schema: Schema) -> tuple[Total, ...]:
        where = self.conditions(schema)
        return tuple(
            Total(
                f"{self.name}: {one} and {other}",
                (ROWS,),
                (self._key(schema, one), self._key(schema, other)),
                where,
            )
            for one, other in self._pairs
        )

    def values(self, schema: Schema, found: Found) -> dict[str, Exact]:
        sizes = dict(zip(self.by, self.shape(schema), strict=True))
        scores = []
        for (one, other), (counts,) in zip(self._pairs, found, strict=True):
            assert isinstance(counts, tuple)  # noqa: S101  (what a total of public keys gives)
            table = np.array(counts, dtype=object).reshape(sizes[one], sizes[other])
            scores.append(dependence(table))
        places = np.arange(len(scores), dtype=np.int64)
        return {self.name: Runs(places, np.ones_like(places), np.array(scores, dtype=np.int64))}

    def rows(self, schema: Schema, released: Mapping[str, Any], margins: Margins) -> list[Row]:
        (part,) = self.parts(schema)
        assert isinstance(part, Choice)  # noqa: S101  (what its part is)
        said = f"its score is within {part.within(margins)} of the best one's, at 95%"
        return [
            Row(
                self.name,
                (("rank", str(rank)),),
                "pair of columns that depend most",
                None,
                None,
                said,
                text=" and ".join(self._pairs[place]),
            )
            for rank, place in enumerate(released[self.name], start=1)
        ]


def dependence(table: Any) -> int:
    """The score of a table of counts, Python's whole numbers, (keys, other keys)."""
    rows, columns, whole = table.sum(1), table.sum(0), int(table.sum())
    if not whole:
        return 0
    apart = abs(whole * table - rows[:, None] * columns[None, :]).sum()
    return int(apart) // whole
