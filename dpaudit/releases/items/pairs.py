"""Pairs of columns that depend on one another most, chosen privately: which tables are worth noise.

The score of a pair is how far its table of counts n_ij is from that of independent columns,
sum |n_ij - n_i n_j / n|, rounded down: 0 where they are independent.

One row more changes it by less than 4.  The products grow with the row, from n_i n_j to m_i m_j,
which add up to n^2 and (n + 1)^2.  Hence m_i m_j / (n + 1) and n_i n_j / (n + 1) are
(2 n + 1) / (n + 1) apart, n_i n_j / (n + 1) and n_i n_j / n are n / (n + 1) apart, and n_ij changes
by 1 at one place: (4 n + 2) / (n + 1) < 4 in all.  Whole numbers that are less than 4 apart have
roundings at most 4 apart.  A large table of one row and column comes near it, with a row elsewhere.
The pairs may be counted in the same release: with ``share`` of the item's budget they are chosen,
and the rest is noise on their tables.  One unit moves any of the tables by no more than it may move
the largest, so that the noise is fixed before a pair is chosen: each count is a mechanism whose
query depends on an earlier answer.
Source: McKenna, Miklau, Sheldon 2021 (pairs of columns by the exponential mechanism, then counted);
Durfee, Rogers 2019 (peeling); Dwork, Roth 2014, Theorem 3.16 (queries that are chosen by earlier
answers).  The score of exact counts and its bound are ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations
from operator import attrgetter
from typing import Any, ClassVar

import numpy as np

from dpaudit.errors import InvalidParameter
from dpaudit.releases.items.counts import Count, Grouped
from dpaudit.releases.items.item import Choice, Exact, Found, Margins, Part, Row, Vector
from dpaudit.releases.runs import ChosenTable, Runs
from dpaudit.tabular import ROWS, Schema, Total
from dpaudit.tabular.schema import number, whole_number

MOVED = 4  # by which one row moves a score at most
MOST_COUNTED = 200  # pairs, of which the attack's made-up tables tell each from the others


@dataclass(frozen=True, kw_only=True)
class Pairs(Grouped):
    """The ``k`` pairs of the columns ``by`` that depend most, in order, for `[synthetic]` pairs.

    A row is counted in the tables of which it has both values.
    ``share``: of the item's budget, for the choice, where the chosen pairs are counted too.
    Errors: InvalidParameter for as many pairs as there are, or more, for limits on groups, and for
    a share outside (0, 1) or of too many pairs.
    """

    query: ClassVar[str] = "pairs"
    k: int = 1
    share: Fraction | None = None

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
        if self.share is not None:
            share = number(self.share, f"item {self.name!r}: share")
            object.__setattr__(self, "share", share)
            if not 0 < share < 1 or len(self._pairs) > MOST_COUNTED:
                raise InvalidParameter(
                    f"item {self.name!r}: share = {share} of {len(self._pairs)} pairs: expected a "
                    f"number between 0 and 1, of at most {MOST_COUNTED} pairs"
                )

    @property
    def _pairs(self) -> list[tuple[str, str]]:
        return list(combinations(self.by, 2))

    def parts(self, schema: Schema) -> tuple[Part, ...]:
        self.keys(schema)
        moved, pairs = MOVED * schema.rows, len(self._pairs)
        # One unit for another is one that goes and one that comes.
        choice = Choice(self.name, self.name, pairs, moved, 2 * moved, monotone=False, times=self.k)
        if self.share is None:
            return (choice,)
        added = (self.counted(pair).added(schema) for pair in self._pairs)
        counts, each = max(added, key=attrgetter("cells")), (1 - self.share) / self.k
        return (
            replace(choice, share=self.share),
            *(
                Vector(label, "", (counts,), share=each, chosen_by=self.name, rank=rank)
                for rank, label in enumerate(self.tables)
            ),
        )

    @property
    def tables(self) -> tuple[str, ...]:
        """The labels of the counts of the chosen pairs, in order; none without ``share``."""
        ranks = range(0 if self.share is None else self.k)
        return tuple(f"{self.name}/{rank + 1}" for rank in ranks)

    def counted(self, pair: tuple[str, ...]) -> Count:
        """The counts by a pair of columns, as an item of their own."""
        edges = {name: edges for name, edges in self.edges.items() if name in pair}
        return Count(name=self.name, by=pair, edges=edges)

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
        scores, tables = [], []
        for (one, other), (counts,) in zip(self._pairs, found, strict=True):
            assert isinstance(counts, tuple)  # noqa: S101  (what a total of public keys gives)
            table = np.array(counts, dtype=object).reshape(sizes[one], sizes[other])
            scores.append(dependence(table))
            tables.append(counts)
        places = np.arange(len(scores), dtype=np.int64)
        runs = Runs(places, np.ones_like(places), np.array(scores, dtype=np.int64))
        return {self.name: runs, **dict.fromkeys(self.tables, ChosenTable(tuple(tables)))}

    def rows(self, schema: Schema, released: Mapping[str, Any], margins: Margins) -> list[Row]:
        part, *_ = self.parts(schema)
        assert isinstance(part, Choice)  # noqa: S101  (what its first part is)
        said = f"its score is within {part.within(margins)} of the best one's, at 95%"
        chosen = [self._pairs[place] for place in released[self.name]]
        named = [
            Row(
                self.name,
                (("rank", str(rank)),),
                "pair of columns that depend most",
                None,
                None,
                said,
                text=" and ".join(pair),
            )
            for rank, pair in enumerate(chosen, start=1)
        ]
        counted = [
            Row(self.name, keys, "count", Fraction(value), Fraction(margins.half(label)))
            for label, pair in zip(self.tables, chosen, strict=False)
            # Behind the cells of a smaller table there is nothing but noise.
            for keys, value in zip(self.counted(pair).domain(schema), released[label], strict=False)
        ]
        return [*named, *counted]


def dependence(table: Any) -> int:
    """The score of a table of counts, Python's whole numbers, (keys, other keys)."""
    rows, columns, whole = table.sum(1), table.sum(0), int(table.sum())
    if not whole:
        return 0
    apart = abs(whole * table - rows[:, None] * columns[None, :]).sum()
    return int(apart) // whole
