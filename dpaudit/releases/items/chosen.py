"""Sums and means whose bound is chosen inside the release: a private quantile, a sum in its units.

A bound c is one of a public list, chosen by the exponential mechanism among quantiles of the
values' sizes.  Each value then counts as the nearest one from -c to c, rounded to a multiple of
c / 2^20, and is summed in these multiples.  One unit moves that sum by as much whatever c is, so
that the noise is fixed before any data are read: the release composes two mechanisms, of which the
second one's query depends on the first one's answer.
Source: McSherry, Talwar 2007; Smith 2011 (bounds by private quantiles); Dwork, Roth 2014, Theorem
3.16 (the composition of queries that are chosen by earlier answers).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import islice
from math import prod
from typing import Any, ClassVar

import numpy as np

from dpaudit.errors import InvalidParameter
from dpaudit.releases.items.averages import ratio_error, row_of_ratio, short_up
from dpaudit.releases.items.counts import Grouped
from dpaudit.releases.items.item import Choice, Exact, Found, Margins, Part, Row, Vector
from dpaudit.releases.runs import ChosenSums, Runs, rank_scores
from dpaudit.tabular import ROWS, Counted, Number, Schema, Total
from dpaudit.tabular.schema import number, refuse_unknown, text_of

UNIT_BITS = 20  # a value is off by half of a unit, 1/2,000,000 of the bound
UNITS = 2**UNIT_BITS  # of which a bound is made
MANTISSAS = (8, 7, 6, 5)  # eighths of a power of two, from above: candidates differ by up to 20%
MOST_BOUNDS = 64  # candidates; the least is 1/57,000 of the largest
AT = Fraction(99, 100)


@dataclass(frozen=True, kw_only=True)
class ChosenSum(Grouped):
    """The sum of a column, whose values count up to a size that a part of the item chooses.

    ``bounds``: ``share`` of the item's budget that the choice spends; ``at``, the share of values
    (99/100) that the bound is to hold; ``within``, the least and the largest bound, by default from
    one step to the largest size that the column has.
    Errors: InvalidParameter for numbers outside their domain, and for limits on groups.
    """

    query: ClassVar[str] = "sum"
    column: str
    bounds: Mapping[str, Any]

    def __post_init__(self) -> None:
        super().__post_init__()
        place = f"item {self.name!r}: bounds"
        refuse_unknown(self.bounds, {"share", "at", "within"}, place)
        share, at = (number(self.bounds.get(key, AT), f"{place}.{key}") for key in ("share", "at"))
        if not (0 < share < 1 and 0 < at < 1 and at.denominator <= 10**6):
            raise InvalidParameter(
                f"{place}: share = {share}, at = {at}: expected numbers between 0 and 1, of up to "
                "6 digits"
            )
        if self.groups is not None or self.per_group is not None:
            raise InvalidParameter(
                f"item {self.name!r}: bounds that are chosen take no groups and no per_group; "
                "limit the rows of a unit in the schema"
            )

    @property
    def _labels(self) -> tuple[str, str]:
        return f"{self.name}/bound", f"{self.name}/sum"

    @property
    def _share(self) -> Fraction:
        return number(self.bounds["share"], "share")

    def ends(self, schema: Schema) -> list[int]:
        """The bounds among which one is chosen, in steps, growing; all of them are public.

        Errors: InvalidParameter where ``within`` is no pair of sizes of the column.
        """
        place = f"item {self.name!r}: bounds.within"
        column = schema.number(self.column, f"item {self.name!r}")
        most = max(abs(column.low), abs(column.high))
        given = self.bounds.get("within", (column.step, most * column.step))
        if isinstance(given, str) or not isinstance(given, list | tuple) or len(given) != 2:
            raise InvalidParameter(f"{place}: expected two numbers, the least and largest bound")
        least, largest = (number(end, place) / column.step for end in given)
        if not (0 <= least < largest <= most and largest.denominator == 1):
            raise InvalidParameter(
                f"{place}: expected two growing sizes up to {most * column.step}, the larger one "
                f"a multiple of {column.step}"
            )
        tops = (
            -(-int(largest) * eighths // (8 << power))
            for power in range(64)
            for eighths in MANTISSAS
        )
        first = max(least, Fraction(1))
        listed = dict.fromkeys(end for end in islice(tops, MOST_BOUNDS) if end >= first)
        return sorted(listed)

    def _column(self, schema: Schema) -> Number:
        """The column in units of the bound."""
        column = schema.number(self.column, f"item {self.name!r}")
        low = -UNITS if column.low < 0 else 0
        return replace(column, lower=Fraction(low), upper=Fraction(UNITS), step=Fraction(1))

    def parts(self, schema: Schema) -> tuple[Part, ...]:
        chosen, label = self._labels
        q, ends = number(self.bounds.get("at", AT), ""), self.ends(schema)
        column, scaled = schema.number(self.column, ""), self._column(schema)
        _, rows = self.limits(schema, 1)
        sums = self.sums(schema, self.column, scaled.low, scaled.high)
        return (
            Choice(
                chosen,
                chosen,
                len(ends),
                rows * max(q.numerator, q.denominator - q.numerator),
                rows * q.denominator,
                monotone=False,
                share=self._share,
                row=q.denominator,
            ),
            Vector(
                label,
                self.noise,
                (sums,),
                column.step * ends[-1] / UNITS,
                1 - self._share,
                chosen_by=chosen,
            ),
        )

    def totals(self, schema: Schema) -> tuple[Total, ...]:
        by, where = (*self.keys(schema), self.column), self.conditions(schema)
        return (Total(self.name, (ROWS,), by, where, sparse=True),)

    def values(self, schema: Schema, answers: Found) -> dict[str, Exact]:
        counted = answers[0][0]
        assert isinstance(counted, Counted)  # noqa: S101  (what a sparse total gives)
        column, ends = schema.number(self.column, ""), np.array(self.ends(schema), dtype=np.int64)
        cells, places = np.divmod(counted.places, column.high - column.low + 1)
        codes = places + column.low
        sizes, which = np.unique(np.abs(codes), return_inverse=True)
        counts = np.zeros(len(sizes), dtype=np.int64)
        np.add.at(counts, which, counted.counts)
        most = max(abs(column.low), abs(column.high))
        q = number(self.bounds.get("at", AT), "")
        scores = rank_scores(Counted(sizes, counts, most + 1), q).at(ends)
        every_place = np.arange(len(ends), dtype=np.int64)
        chosen, label = self._labels
        return {
            chosen: Runs(every_place, np.ones_like(every_place), scores),
            label: ChosenSums(
                cells, codes, counted.counts, ends, prod(self.shape(schema)), UNIT_BITS
            ),
        }

    def not_covered(self, schema: Schema) -> tuple[str, ...]:
        """Also that values beyond the bound are changed."""
        clipped = f"values of {self.column} beyond the chosen bound count as the bound"
        return (*super().not_covered(schema), clipped)

    def rows(self, schema: Schema, released: Mapping[str, Any], margins: Margins) -> list[Row]:
        chosen, label = self._labels
        step = schema.number(self.column, "").step
        (place,) = released[chosen]
        bound = self.ends(schema)[place] * step
        unit, error = bound / UNITS, margins.half(label) * bound / UNITS
        note = f"{text_of(self._share)[0]} of the item's budget chose it"
        return [
            Row(self.name, (), f"bound of {self.column}", bound, None, note),
            *(
                Row(self.name, keys, f"sum of {self.column}", value * unit, short_up(error))
                for keys, value in zip(self.domain(schema), released[label], strict=True)
            ),
        ]


@dataclass(frozen=True, kw_only=True)
class ChosenMean(ChosenSum):
    """The mean of values that count up to a chosen size: their sum over a count, in equal parts."""

    query: ClassVar[str] = "mean"

    @property
    def _count(self) -> str:
        return f"{self.name}/count"

    def parts(self, schema: Schema) -> tuple[Part, ...]:
        chosen, sums = super().parts(schema)
        assert isinstance(sums, Vector)  # noqa: S101  (what a sum is)
        half = sums.share / 2
        rows = Vector(self._count, self.noise, (self.added(schema),), share=half)
        return chosen, replace(sums, share=half), rows

    def values(self, schema: Schema, found: Found) -> dict[str, Exact]:
        counted = found[0][0]
        assert isinstance(counted, Counted)  # noqa: S101  (what a sparse total gives)
        column, rows = schema.number(self.column, ""), [0] * prod(self.shape(schema))
        cells = counted.places // (column.high - column.low + 1)
        for cell, count in zip(cells.tolist(), counted.counts.tolist(), strict=True):
            rows[cell] += count
        return {**super().values(schema, found), self._count: tuple(rows)}

    def rows(self, schema: Schema, released: Mapping[str, Any], margins: Margins) -> list[Row]:
        column, (_, label) = schema.number(self.column, ""), self._labels
        rows = super().rows(schema, released, margins)[:1]
        bound = rows[0].value
        assert bound is not None  # noqa: S101  (the first row is the bound's)
        unit, labels = bound / UNITS, (label, self._count)
        ends = max(column.lower, -bound), min(column.upper, bound)
        spread = margins.deviation(label), margins.deviation(self._count)
        widest = max(map(margins.deviations, labels))
        numbers = (released[name] for name in labels)
        for keys, total, count in zip(self.domain(schema), *numbers, strict=True):
            value = min(max(Fraction(total, max(count, 1)) * unit, ends[0]), ends[1])
            error = ratio_error(total, count, spread, widest)
            ratio = None if error is None else (value, error * float(unit))
            rows.append(row_of_ratio(self.name, keys, f"mean of {self.column}", ratio, ends))
        return rows
