"""Counts of keys that nobody listed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

from dpaudit.errors import InvalidParameter
from dpaudit.releases.contributions import Contribution
from dpaudit.releases.items.item import Exact, Found, Item, Margins, Part, Row, Thresholded
from dpaudit.tabular import ROWS, Schema, Text, Total
from dpaudit.tabular.schema import number


@dataclass(frozen=True, kw_only=True)
class Groups(Item):
    """Counts under keys that are not known in advance; only large noisy counts are shown.

    ``delta``: the most that keys of one unit alone may show it; part of the release's delta.
    Source: Korolova, Kenthapadi, Mishra, Ntoulas 2009; Gaussian noise: Wilkins, Kifer, Zhang,
    Karwa 2023.
    """

    query: ClassVar[str] = "groups"
    column: str
    delta: Fraction | None = None
    noise: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.noise_of(self.noise)
        if self.delta is not None:
            delta = number(self.delta, f"item {self.name!r}: delta")
            object.__setattr__(self, "delta", delta)
            if not 0 < delta < 1:
                raise InvalidParameter(f"item {self.name!r}: delta = {delta}: between 0 and 1")

    def parts(self, schema: Schema) -> tuple[Part, ...]:
        if not isinstance(schema.column(self.column, f"item {self.name!r}"), Text):
            raise InvalidParameter(
                f"item {self.name!r}: the keys of {self.column!r} are public; use count"
            )
        if self.delta is None:
            raise InvalidParameter(f"item {self.name!r}: delta: expected a number")
        cells = 2 * schema.rows
        groups, rows = self.limits(schema, cells)
        counts = Contribution(cells, groups, 0, rows, schema.rows)
        return (Thresholded(self.name, counts, self.delta, noise=self.noise),)

    def totals(self, schema: Schema) -> tuple[Total, ...]:
        limits = self.bounding(schema, schema.rows)
        where = self.conditions(schema)
        return (Total(self.name, (ROWS,), (self.column,), where, (), *limits),)

    def values(self, schema: Schema, answers: Found) -> dict[str, Exact]:
        return {self.name: answers[0][0]}

    def not_covered(self, schema: Schema) -> tuple[str, ...]:
        """Also that noise decides which groups are shown."""
        shown = "groups are shown where their noisy count is large: small ones that are look larger"
        return (*super().not_covered(schema), shown)

    def rows(self, schema: Schema, released: Mapping[str, Any], margins: Margins) -> list[Row]:
        error = Fraction(margins.half(self.name))
        return [
            Row(self.name, ((self.column, key),), "count", Fraction(value), error)
            for key, value in sorted(released[self.name].items())
        ]
