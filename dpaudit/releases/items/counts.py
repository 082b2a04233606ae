"""Counts and sums by group, and the number of units that the limits affect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise, product
from math import prod
from typing import Any, ClassVar, cast

from dpaudit.errors import InvalidParameter
from dpaudit.releases.contributions import Contribution
from dpaudit.releases.items.item import (
    LARGEST_SUM,
    Exact,
    Found,
    Item,
    Margins,
    Part,
    Row,
    Vector,
    texts,
)
from dpaudit.tabular import (
    ROWS,
    Bins,
    Category,
    Cut,
    Number,
    Period,
    Schema,
    Term,
    Text,
    Total,
    sizes_of,
)
from dpaudit.tabular.schema import number, on_grid, refuse_unknown, shown_in, text_of


@dataclass(frozen=True, kw_only=True)
class Grouped(Item):
    """Numbers for every combination of the public keys ``by``; of all rows where it is empty.

    A column of numbers in ``by`` is cut at ``edges[column]``.
    """

    by: tuple[str, ...] = ()
    edges: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    noise: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        by = texts(self.by)
        object.__setattr__(self, "by", by)
        if len(set(by)) != len(by):
            raise InvalidParameter(f"item {self.name!r}: by names a column twice")
        self.noise_of(self.noise)

    def keys(self, schema: Schema) -> tuple[str | Bins, ...]:
        """The grouping as the engine takes it.  Errors: InvalidParameter for unknown keys."""
        return tuple(self._key(schema, name) for name in self.by)

    def _key(self, schema: Schema, name: str) -> str | Bins:
        place = f"item {self.name!r}: by"
        column = schema.column(name, place)
        if isinstance(column, Category):
            return name
        if isinstance(column, Text):
            raise InvalidParameter(f"{place}: the keys of {name!r} are not public; use groups")
        if name not in self.edges:
            if isinstance(column, Period):
                return name
            raise InvalidParameter(f"{place}: {name!r} holds numbers; give edges.{name}")
        return _bins(name, column, tuple(self.edges[name]), f"item {self.name!r}: edges.{name}")

    def domain(self, schema: Schema) -> list[tuple[tuple[str, str], ...]]:
        """The keys of every cell, in the order of the cells."""
        axes = [_labels(schema, key) for key in self.keys(schema)]
        return [tuple(cell) for cell in product(*axes)]

    def shape(self, schema: Schema) -> tuple[int, ...]:
        """How many keys each column of ``by`` has."""
        return sizes_of(schema, Total(self.name, (ROWS,), self.keys(schema))) or ()

    def cells(self, schema: Schema) -> int:
        """How many cells there are."""
        return prod(self.shape(schema))

    def total(self, schema: Schema, *terms: Term, needed: tuple[str, ...] = ()) -> Total:
        """One grouped total of several terms."""
        cells = self.cells(schema)
        return Total(
            self.name,
            terms,
            self.keys(schema),
            self.conditions(schema),
            needed,
            *self.bounding(schema, cells),
            bounds=self.own_bounds(schema),
        )

    def own_bounds(self, schema: Schema) -> tuple[tuple[str, int, int], ...]:
        """Bounds of columns that are the item's own, in steps."""
        return ()

    def added(self, schema: Schema) -> Contribution:
        """Contribution of a unit to the counts of the cells."""
        cells = self.cells(schema)
        groups, rows = self.limits(schema, cells)
        return Contribution(cells, groups, 0, rows, schema.rows)

    def sums(self, schema: Schema, column: str, low: int, high: int) -> Contribution:
        """Contribution of a unit to sums of terms from ``low`` to ``high`` over its rows."""
        cells = self.cells(schema)
        groups, rows = self.limits(schema, cells)
        largest = max(-low, high, 0)
        if self.always_counts(schema, *self.by, column):
            return Contribution(cells, 1, low, high, None, always=True)
        return Contribution(
            cells, groups, rows * min(low, 0), rows * max(high, 0), schema.rows * largest
        )


@lru_cache(maxsize=64)
def _bins(name: str, column: Number, edges: tuple[Any, ...], place: str) -> Bins:
    """The bins of a column between edges; kept, because many may be asked for many times."""
    codes = tuple(on_grid(column, edge, place) for edge in edges)
    if not codes or any(a >= b for a, b in pairwise(codes)):
        raise InvalidParameter(f"{place}: expected growing numbers")
    return Bins(name, codes)


def _labels(schema: Schema, key: str | Bins) -> list[tuple[str, str]]:
    if isinstance(key, Bins):
        column = schema.ordered(key.column, "by")
        edges = [shown_in(column, edge * column.step) for edge in key.edges]
        first, last = f"below {edges[0]}", f"{edges[-1]} and above"
        between = [f"{a} to below {b}" for a, b in pairwise(edges)]
        return [(key.column, label) for label in (first, *between, last)]
    period = schema.columns[key]
    if isinstance(period, Period):
        return [(key, period.text(code)) for code in range(period.low, period.high + 1)]
    return [(key, label) for label in schema.category(key, "by").domain]


@dataclass(frozen=True, kw_only=True)
class Count(Grouped):
    """The number of rows (of units, with ``per_group = 1``), in all or in every cell of ``by``."""

    query: ClassVar[str] = "count"

    @property
    def _counts_units(self) -> bool:
        return self.per_group == 1

    def parts(self, schema: Schema) -> tuple[Part, ...]:
        return (Vector(self.name, self.noise, (self.added(schema),)),)

    def totals(self, schema: Schema) -> tuple[Total, ...]:
        return (self.total(schema, ROWS),)

    def values(self, schema: Schema, answers: Found) -> dict[str, Exact]:
        return {self.name: answers[0][0]}

    def rows(self, schema: Schema, released: Mapping[str, Any], margins: Margins) -> list[Row]:
        error = Fraction(margins.half(self.name))
        return [
            Row(self.name, keys, "count", Fraction(value), error)
            for keys, value in zip(self.domain(schema), released[self.name], strict=True)
        ]


@dataclass(frozen=True, kw_only=True)
class Valued(Grouped):
    """Numbers made of the values of ``column``.

    ``bounds``: ``{from, to}`` between which values count here, and others as the nearest of them;
    by default those of the schema, which are wider.
    """

    column: str
    bounds: Mapping[str, Any] | None = None

    def valued(self, schema: Schema) -> Number:
        """The column with the item's own bounds.

        Errors: InvalidParameter for bounds that are not on the column's grid, or not in order.
        """
        place = f"item {self.name!r}"
        column = schema.number(self.column, place)
        if self.bounds is None:
            return column
        given: Any = self.bounds
        if not isinstance(given, Mapping):
            raise InvalidParameter(f"{place}: bounds: expected {{from = ..., to = ...}}")
        (within,) = schema.within({self.column: self.bounds}, f"{place}: bounds")
        lower, upper = (code * column.step for code in within.codes)
        return replace(column, lower=lower, upper=upper)

    def own_bounds(self, schema: Schema) -> tuple[tuple[str, int, int], ...]:
        if self.bounds is None:
            return ()
        column = self.valued(schema)
        return ((self.column, column.low, column.high),)

    def not_covered(self, schema: Schema) -> tuple[str, ...]:
        """Also that values outside the item's own bounds are changed."""
        if self.bounds is None:
            return super().not_covered(schema)
        column = self.valued(schema)
        range_text = between(column, (column.low, column.high))
        clipped = f"values of {self.column} outside {range_text} count as the nearest bound here"
        return (*super().not_covered(schema), clipped)


@dataclass(frozen=True, kw_only=True)
class Sum(Valued):
    """The sum of a column of numbers, in all or in every cell of ``by``.

    ``unit_total``: ``{from, to}`` between which a unit's total in one cell counts, and others as
    the nearest of them; a unit then moves the sum by that much, however many rows it has.
    ``weights``: a column of numbers from 0, by which each value is multiplied.
    """

    query: ClassVar[str] = "sum"
    unit_total: Mapping[str, Any] | None = None
    weights: str | None = None

    def parts(self, schema: Schema) -> tuple[Part, ...]:
        column, weights = self.valued(schema), self._weights(schema)
        low, high = column.low * weights.high, column.high * weights.high
        if max(-low, high) > LARGEST_SUM:
            raise InvalidParameter(
                f"item {self.name!r}: a value times its weight has over 2^52 steps; choose larger "
                "steps"
            )
        # Weights go down to 0.
        ends_of_one = (min(low, 0), max(high, 0)) if self.weights else (low, high)
        sums = self.sums(schema, self.column, *ends_of_one)
        ends = unit_ends(schema, self.column, self.unit_total, f"item {self.name!r}")
        if ends is not None:
            sums = replace(sums, low=max(ends[0], sums.low), high=min(ends[1], sums.high))
        return (Vector(self.name, self.noise, (sums,), column.step * weights.step),)

    def _weights(self, schema: Schema) -> Number:
        """The column of weights; without one, all weights are 1.

        Errors: InvalidParameter for weights below 0, beside ``unit_total``, and without a step:
        weights of .3 that are rounded to whole numbers would all be 0.
        """
        if self.weights is None:
            return Number(Fraction(0), Fraction(1))
        place = f"item {self.name!r}: weights"
        column = schema.number(self.weights, place)
        if column.low < 0 or self.unit_total is not None or self.weights == self.column:
            raise InvalidParameter(
                f"{place} = {self.weights!r}: expected another column from 0, without unit_total"
            )
        if not column.says_step:
            raise InvalidParameter(
                f"{place} = {self.weights!r}: weights are rounded to the steps of their column, "
                "which states none; give it a step (1 for whole numbers, 0.001 for fractions)"
            )
        return column

    def totals(self, schema: Schema) -> tuple[Total, ...]:
        ends = unit_ends(schema, self.column, self.unit_total, f"item {self.name!r}")
        factors = [(self.column, 1, 0), *([] if self.weights is None else [(self.weights, 1, 0)])]
        return (replace(self.total(schema, Term(tuple(factors))), ends=ends),)

    def not_covered(self, schema: Schema) -> tuple[str, ...]:
        """Also that totals of a unit are clipped."""
        ends = unit_ends(schema, self.column, self.unit_total, "")
        if ends is None:
            return super().not_covered(schema)
        range_text = between(schema.number(self.column, ""), ends)
        clipped = f"totals of one {schema.entity} outside {range_text} count as the nearest bound"
        return (*super().not_covered(schema), clipped)

    def values(self, schema: Schema, answers: Found) -> dict[str, Exact]:
        return {self.name: answers[0][0]}

    def rows(self, schema: Schema, released: Mapping[str, Any], margins: Margins) -> list[Row]:
        step = schema.number(self.column, "").step * self._weights(schema).step
        error, by = margins.half(self.name) * step, f" by {self.weights}" if self.weights else ""
        return [
            Row(self.name, keys, f"sum of {self.column}{by}", value * step, error)
            for keys, value in zip(self.domain(schema), released[self.name], strict=True)
        ]


def unit_ends(
    schema: Schema, name: str, asked: Mapping[str, Any] | None, place: str
) -> tuple[int, int] | None:
    """The steps between which a unit's total of a column counts; None where all of it does.

    Errors: InvalidParameter for ends that are not on the column's grid, or not in order.
    """
    if asked is None:
        return None
    column, place = schema.number(name, place), f"{place}: unit_total"
    if schema.unit is None:
        raise InvalidParameter(f"{place}: every row is a unit; choose bounds of {name!r} instead")
    given: Any = asked
    if not isinstance(given, Mapping) or "to" not in given:
        raise InvalidParameter(f"{place}: expected {{from = ..., to = ...}}")
    refuse_unknown(asked, {"from", "to"}, place)
    if "from" not in asked and column.low < 0:
        raise InvalidParameter(f"{place}.from: missing, and {name!r} can be below 0")
    steps = [number(asked.get(end, 0), f"{place}.{end}") / column.step for end in ("from", "to")]
    low, high = steps
    # Ends on one side of 0 would make totals larger than they are.
    if any(step.denominator != 1 for step in steps) or not low <= 0 <= high or low == high:
        raise InvalidParameter(
            f"{place}: expected multiples of {column.step}, the step of {name!r}, with 0 between "
            "them"
        )
    if max(abs(low), abs(high)) > LARGEST_SUM:
        raise InvalidParameter(f"{place}: over 2^52 steps of {name!r}; choose a larger step")
    return int(low), int(high)


def between(column: Number, ends: tuple[int, int]) -> str:
    """Two numbers of steps in words."""
    return " to ".join(text_of(end * column.step)[0] for end in ends)


@dataclass(frozen=True, kw_only=True)
class Affected(Item):
    """How many units the schema's limits change: by their rows, by values, by a unit's total.

    One number for the limit on rows, where there is a unit, and one for the bounds of ``column``,
    where it is given; with ``unit_total`` one for totals outside it.  A unit moves each by 1.
    """

    query: ClassVar[str] = "affected"
    column: str = ""
    unit_total: Mapping[str, Any] | None = None
    noise: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.noise_of(self.noise)
        if self.where or self.groups is not None or self.per_group is not None:
            raise InvalidParameter(
                f"item {self.name!r}: all units are counted; leave where, groups, per_group out"
            )

    def _limits_of(self, schema: Schema) -> list[tuple[str, Cut]]:
        """Each limit in words, and for the engine."""
        place, entity = f"item {self.name!r}", schema.entity
        ends = unit_ends(schema, self.column, self.unit_total, place)
        limits = []
        if schema.unit is not None:
            limits.append((f"count of each {entity} with more rows than {schema.rows}", Cut()))
        if self.column:
            column = schema.ordered(self.column, place)
            limit_text = f"count of each {entity} with a value of {self.column} that is changed"
            limits.append((limit_text, Cut(self.column)))
            if ends is not None:
                limit_text = f"count of each {entity} whose total of {self.column} is not"
                limits.append((f"{limit_text} {between(column, ends)}", Cut(self.column, ends)))
        if not limits:
            raise InvalidParameter(f"{place}: without a unit no row is cut; name a column")
        return limits

    def parts(self, schema: Schema) -> tuple[Part, ...]:
        count = len(self._limits_of(schema))
        return (Vector(self.name, self.noise, (Contribution(count, count, 0, 1),)),)

    def totals(self, schema: Schema) -> tuple[Total, ...]:
        return (Total(self.name, (), cuts=tuple(cut for _, cut in self._limits_of(schema))),)

    def values(self, schema: Schema, answers: Found) -> dict[str, Exact]:
        counts = (value for (value,) in cast("list[tuple[int]]", answers[0]))
        return {self.name: tuple(counts)}

    def not_covered(self, schema: Schema) -> tuple[str, ...]:
        """Nothing: every unit counts, with all its rows."""
        return ()

    def rows(self, schema: Schema, released: Mapping[str, Any], margins: Margins) -> list[Row]:
        error, limits = Fraction(margins.half(self.name)), self._limits_of(schema)
        return [
            Row(self.name, (), statistic, Fraction(value), error)
            for (statistic, _), value in zip(limits, released[self.name], strict=True)
        ]
