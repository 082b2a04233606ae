"""Private choices: quantiles, the rows of a unit, and the most frequent keys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar

from dpaudit.errors import InvalidParameter
from dpaudit.releases.items.item import Choice, Exact, Found, Item, Margins, Part, Row
from dpaudit.releases.runs import counts_of, rank_scores
from dpaudit.tabular import ROWS, Counted, Period, Schema, Total
from dpaudit.tabular.schema import number, shown_in, text_of, whole_number


@dataclass(frozen=True, kw_only=True)
class Quantiles(Item):
    """Quantiles of a column, each a point of its public grid, by the exponential mechanism.

    The score of a point t for the quantile a/b of n values is minus b times the distance of a n / b
    from the ranks #{values < t} to #{values <= t} that t has: 0 at the quantile itself, also where
    many values are equal.  Another value moves either end by at most max(a, b - a).
    Source: McSherry, Talwar 2007; Smith 2011 (the utility of quantiles).
    """

    query: ClassVar[str] = "quantiles"
    column: str
    at: tuple[Fraction, ...] = (Fraction(1, 2),)

    def __post_init__(self) -> None:
        super().__post_init__()
        given: Any = self.at
        listed = given if isinstance(given, (tuple, list)) else (given,)
        at = tuple(number(q, f"item {self.name!r}: at") for q in listed)
        object.__setattr__(self, "at", at)
        if not at or any(not 0 < q < 1 or q.denominator > 10**6 for q in at):
            raise InvalidParameter(
                f"item {self.name!r}: at: expected numbers between 0 and 1, of up to 6 digits"
            )
        if len(set(at)) != len(at):
            raise InvalidParameter(f"item {self.name!r}: at names a quantile twice")
        if self.groups is not None:
            raise InvalidParameter(f"item {self.name!r}: quantiles have no groups")

    def _labels(self) -> list[tuple[str, Fraction]]:
        return [(f"{self.name}/{q.numerator}of{q.denominator}", q) for q in self.at]

    def parts(self, schema: Schema) -> tuple[Part, ...]:
        column = schema.ordered(self.column, f"item {self.name!r}")
        share, (_, rows) = Fraction(1, len(self.at)), self.limits(schema, 1)
        return tuple(
            Choice(
                label,
                self.column,
                column.high - column.low + 1,
                rows * max(q.numerator, q.denominator - q.numerator),
                rows * q.denominator,
                monotone=False,
                share=share,
                row=q.denominator,
            )
            for label, q in self._labels()
        )

    def totals(self, schema: Schema) -> tuple[Total, ...]:
        where, (_, per_unit) = self.conditions(schema), self.bounding(schema, 1)
        by = (self.column,)
        return (Total(self.name, (ROWS,), by, where, sparse=True, per_unit=per_unit),)

    def values(self, schema: Schema, answers: Found) -> dict[str, Exact]:
        counted = answers[0][0]
        assert isinstance(counted, Counted)  # noqa: S101  (what a sparse total gives)
        return {label: rank_scores(counted, q) for label, q in self._labels()}

    def rows(self, schema: Schema, released: Mapping[str, Any], margins: Margins) -> list[Row]:
        column = schema.ordered(self.column, "")
        rows = []
        for (label, q), part in zip(self._labels(), self.parts(schema), strict=True):
            assert isinstance(part, Choice)  # noqa: S101  (what its parts are)
            (place,) = released[label]
            value = (column.low + place) * column.step
            dated = isinstance(column, Period)
            rows.append(
                Row(
                    self.name,
                    (),
                    f"quantile {text_of(q)[0]} of {self.column}",
                    None if dated else value,
                    None,
                    f"its rank is within {part.within(margins)} rows of the best point's, at 95%",
                    text=shown_in(column, value) if dated else "",
                )
            )
        return rows


@dataclass(frozen=True, kw_only=True)
class UnitRows(Quantiles):
    """Quantiles of how many rows a unit has, of those that meet ``where``, up to ``schema.rows``.

    Each unit has one number, and one without a row has none.  So it moves a rank by as much as one
    value does, however many rows it has.
    """

    query: ClassVar[str] = "unit_rows"
    column: str = field(default="", init=False)

    def _refuse_rows(self, schema: Schema) -> None:
        if self.per_group is not None:
            raise InvalidParameter(f"item {self.name!r}: all rows of a unit are counted")
        if schema.unit is None:
            raise InvalidParameter(f"item {self.name!r}: every row is a unit, of one row")
        if schema.rows == 1:
            raise InvalidParameter(
                f"item {self.name!r}: rows = 1; let the table have the most that a unit may have"
            )

    def parts(self, schema: Schema) -> tuple[Part, ...]:
        self._refuse_rows(schema)
        share = Fraction(1, len(self.at))
        return tuple(
            Choice(
                label,
                "",
                schema.rows,
                max(q.numerator, q.denominator - q.numerator),
                q.denominator,
                monotone=False,
                share=share,
                row=q.denominator,
            )
            for label, q in self._labels()
        )

    def totals(self, schema: Schema) -> tuple[Total, ...]:
        where = self.conditions(schema)
        return (Total(self.name, (ROWS,), where=where, sparse=True, of_units=True),)

    def rows(self, schema: Schema, released: Mapping[str, Any], margins: Margins) -> list[Row]:
        rows = []
        for (label, q), part in zip(self._labels(), self.parts(schema), strict=True):
            assert isinstance(part, Choice)  # noqa: S101  (what its parts are)
            (place,) = released[label]
            statistic = f"quantile {text_of(q)[0]} of the rows of one {schema.entity}"
            within = f"its rank is within {part.within(margins)} units of the best one's, at 95%"
            rows.append(Row(self.name, (), statistic, Fraction(place + 1), None, within))
        return rows


@dataclass(frozen=True, kw_only=True)
class Top(Item):
    """The ``k`` keys of a column with the most rows, in order, by the exponential mechanism.

    Source: Durfee, Rogers 2019 (peeling).
    """

    query: ClassVar[str] = "top"
    column: str
    k: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.groups is not None:
            raise InvalidParameter(f"item {self.name!r}: a choice needs no limit on groups")
        whole_number(self.k, f"item {self.name!r}: k")

    def parts(self, schema: Schema) -> tuple[Part, ...]:
        keys = schema.category(self.column, f"item {self.name!r}").domain
        if self.k >= len(keys):
            raise InvalidParameter(f"item {self.name!r}: k = {self.k} of {len(keys)} keys")
        rows = min(self.per_group or schema.rows, schema.rows)
        return (Choice(self.name, self.column, len(keys), rows, rows, monotone=True, times=self.k),)

    def totals(self, schema: Schema) -> tuple[Total, ...]:
        cells = len(schema.category(self.column, "").domain)
        _, per_group = self.bounding(schema, cells)
        where = self.conditions(schema)
        return (Total(self.name, (ROWS,), (self.column,), where, per_group=per_group, sparse=True),)

    def values(self, schema: Schema, answers: Found) -> dict[str, Exact]:
        counted = answers[0][0]
        assert isinstance(counted, Counted)  # noqa: S101  (what a sparse total gives)
        return {self.name: counts_of(counted)}

    def rows(self, schema: Schema, released: Mapping[str, Any], margins: Margins) -> list[Row]:
        keys = schema.category(self.column, "").domain
        return [
            Row(self.name, ((self.column, keys[place]),), "rank", Fraction(rank), None)
            for rank, place in enumerate(released[self.name], start=1)
        ]
