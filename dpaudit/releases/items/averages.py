"""Means and variances by group."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

from dpaudit.errors import InvalidParameter
from dpaudit.releases.items.counts import Count, Grouped, Valued
from dpaudit.releases.items.item import (
    LARGEST_SUM,
    SQUARES,
    Exact,
    Found,
    Item,
    Margins,
    Part,
    Row,
    Vector,
)
from dpaudit.tabular import ROWS, Number, Schema, Term, Total, rounded
from dpaudit.tabular.schema import ERROR

CENTRED, RATIO = "centred", "ratio"


@dataclass(frozen=True, kw_only=True)
class Averaged(Valued):
    """An item divided by the number of rows, which is an equal part of the item.

    ``counts``: the name of a count of the same cells, whose noisy numbers are taken in the place of
    such a part; after ``consistent`` they are those that are published.
    """

    counts: str | None = None

    @property
    def _count(self) -> str:
        """The label of the part, or of the count, that says how many rows there are."""
        return self.counts or f"{self.name}/count"

    def _own_count(self, schema: Schema, share: Fraction) -> tuple[Part, ...]:
        if self.counts:
            return ()
        return (Vector(self._count, self.noise, (self.added(schema),), share=share),)

    def _without_others(self, values: dict[str, Exact]) -> dict[str, Exact]:
        """The values of the item's own parts."""
        return {label: value for label, value in values.items() if label != self.counts}

    def fits(self, schema: Schema, item: Item | None) -> bool:
        """Whether an item counts the rows of the same cells: all, and no others."""

        def cells(item: Grouped) -> Any:
            edges = [list(item.edges.get(name, ())) for name in item.by]
            return item.by, edges, dict(item.where), item.groups, item.per_group

        has_no_gaps = schema.column(self.column, f"item {self.name!r}").missing == ERROR
        limits = self.groups is None and self.per_group is None
        return isinstance(item, Count) and has_no_gaps and limits and cells(self) == cells(item)


@dataclass(frozen=True, kw_only=True)
class Mean(Averaged):
    """The mean of a column: a noisy sum over a noisy count.

    ``method``: ``centred`` sums deviations from the middle of the bounds, which one unit moves by
    half as much; ``ratio`` sums the values themselves.
    """

    query: ClassVar[str] = "mean"
    method: str = CENTRED

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.method not in (CENTRED, RATIO):
            raise InvalidParameter(
                f"item {self.name!r}: method = {self.method!r}: expected {CENTRED} or {RATIO}"
            )

    def _ends(self, schema: Schema) -> tuple[Number, int, int, int]:
        """The column, and the values' factor and bounds in steps, or in half steps."""
        column = self.valued(schema)
        if self.method == RATIO:
            return column, 1, 0, 1
        return column, 2, -(column.low + column.high), 2

    def parts(self, schema: Schema) -> tuple[Part, ...]:
        column, times, offset, _ = self._ends(schema)
        low, high = (times * end + offset for end in (column.low, column.high))
        share = Fraction(1, 1 if self.counts else 2)
        return (
            Vector(
                f"{self.name}/sum",
                self.noise,
                (self.sums(schema, self.column, low, high),),
                column.step / times,
                share,
            ),
            *self._own_count(schema, share),
        )

    def totals(self, schema: Schema) -> tuple[Total, ...]:
        _, times, offset, _ = self._ends(schema)
        term = Term(((self.column, times, offset),))
        return (self.total(schema, term, ROWS, needed=(self.column,)),)

    def values(self, schema: Schema, answers: Found) -> dict[str, Exact]:
        return self._without_others({f"{self.name}/sum": answers[0][0], self._count: answers[0][1]})

    def rows(self, schema: Schema, released: Mapping[str, Any], margins: Margins) -> list[Row]:
        column, times, offset, _ = self._ends(schema)
        unit = column.step / times
        labels = f"{self.name}/sum", self._count
        sums, counts = (released[label] for label in labels)
        spread = margins.deviation(labels[0]), margins.deviation(labels[1])
        widest = max(map(margins.deviations, labels))
        rows = []
        for keys, total, count in zip(self.domain(schema), sums, counts, strict=True):
            centre = Fraction(total, max(count, 1))
            value = min(max((centre - offset) * unit, column.lower), column.upper)
            error = ratio_error(total, count, spread, widest)
            estimate = None if error is None else (value, error * float(unit))
            ends = column.lower, column.upper
            rows.append(row_of_ratio(self.name, keys, f"mean of {self.column}", estimate, ends))
        return rows


def row_of_ratio(
    item: str,
    keys: tuple[tuple[str, str], ...],
    statistic: str,
    found: tuple[Fraction, float] | None,
    ends: tuple[Fraction, Fraction],
) -> Row:
    """The row of a quotient of noisy sums: its value and margin, or that there are too few rows.

    The true value lies between ``ends``, as the published one does: no margin is wider.
    """
    if found is None:
        return Row(item, keys, statistic, None, None, "too few rows beside the noise")
    value, error = found
    margin = min(Fraction(error), max(value - ends[0], ends[1] - value))
    return Row(item, keys, statistic, value, short_up(margin), "margin of a quotient of noisy sums")


def short_up(value: Fraction) -> Fraction:
    """The next number of six significant digits at or above."""
    if value <= 0:
        return Fraction(0)
    unit = Fraction(10) ** (math.floor(math.log10(value)) - 5)
    return math.ceil(value / unit) * unit


def ratio_error(total: int, count: int, spread: tuple[float, float], widest: float) -> float | None:
    """How far total / count is, at 95%, from the quotient without noise; None without a bound.

    The quotients r that are compatible are those with |total - r count| at most ``widest``
    deviations of the noise of total - r count.  They are an interval where count itself is above
    so many deviations.
    Source: Fieller 1954.
    """
    own, other = (widest * s for s in spread)
    if count <= other:
        return None
    ahead = float(count) ** 2 - other**2
    centre = float(total) * count / ahead
    away = math.sqrt((other * total) ** 2 + own**2 * ahead) / ahead
    return abs(centre - total / count) + away


@dataclass(frozen=True, kw_only=True)
class Variance(Averaged):
    """The variance of a column, of its noisy count, centred sum and centred squares.

    Squares are put on a grid of 2^10 steps of their largest, rounded half up.
    """

    query: ClassVar[str] = "variance"

    def _centred(self, schema: Schema) -> tuple[Number, int, int]:
        """The column, the largest deviation in half steps, and the divisor of its square."""
        column = self.valued(schema)
        width = column.high - column.low
        if width**2 > LARGEST_SUM:
            raise InvalidParameter(
                f"item {self.name!r}: {self.column!r} has over 2^26 steps; choose a larger step"
            )
        return column, width, max(1, width**2 // SQUARES)

    def parts(self, schema: Schema) -> tuple[Part, ...]:
        column, width, divisor = self._centred(schema)
        share = Fraction(1, 2 if self.counts else 3)
        squares = self.sums(schema, self.column, 0, rounded(width**2, divisor))
        return (
            Vector(
                f"{self.name}/squares",
                self.noise,
                (squares,),
                column.step**2 * divisor / 4,
                share,
            ),
            Vector(
                f"{self.name}/sum",
                self.noise,
                (self.sums(schema, self.column, -width, width),),
                column.step / 2,
                share,
            ),
            *self._own_count(schema, share),
        )

    def totals(self, schema: Schema) -> tuple[Total, ...]:
        column, _, divisor = self._centred(schema)
        factor = (self.column, 2, -(column.low + column.high))
        terms = (Term((factor, factor), divisor), Term((factor,)), ROWS)
        return (self.total(schema, *terms, needed=(self.column,)),)

    def values(self, schema: Schema, answers: Found) -> dict[str, Exact]:
        names = (f"{self.name}/squares", f"{self.name}/sum", self._count)
        return self._without_others(dict(zip(names, answers[0], strict=True)))

    def rows(self, schema: Schema, released: Mapping[str, Any], margins: Margins) -> list[Row]:
        column, _, divisor = self._centred(schema)
        names = [f"{self.name}/squares", f"{self.name}/sum", self._count]
        spread = [margins.deviation(name) for name in names]
        widest = max(map(margins.deviations, names))
        rows = []
        columns = (released[name] for name in names)
        for keys, squares, total, count in zip(self.domain(schema), *columns, strict=True):
            size = max(count, 1)
            centre = Fraction(total, size)
            raw = (Fraction(squares * divisor, size) - centre**2) * column.step**2 / 4
            largest = (column.upper - column.lower) ** 2 / 4
            value = min(max(raw, Fraction(0)), largest)
            slopes = (divisor, 2 * float(centre), float(squares * divisor / size - 2 * centre**2))
            deviation = sum((a * b) ** 2 for a, b in zip(slopes, spread, strict=True)) ** 0.5
            # Rounded squares are off by half a step of their grid a row, all in one direction.
            grid = 0.0 if divisor == 1 else divisor / 2
            # To first order; divided by the fewest rows that there may be, which covers the rest.
            fewest = count - widest * spread[2]
            estimate = None
            if fewest > 0:
                scale = float(column.step**2) / 4
                estimate = value, (widest * deviation / fewest + grid) * scale
            statistic, ends = f"variance of {self.column}", (Fraction(0), largest)
            rows.append(row_of_ratio(self.name, keys, statistic, estimate, ends))
        return rows
