"""Linear regression from noisy sums of products."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from dpaudit.errors import InvalidParameter
from dpaudit.releases.contributions import Contribution
from dpaudit.releases.items.item import (
    SQUARES,
    Exact,
    Found,
    Item,
    Margins,
    Part,
    Row,
    Vector,
    texts,
)
from dpaudit.tabular import ROWS, Number, Schema, Term, Total, rounded


@dataclass(frozen=True, kw_only=True)
class Regression(Item):
    """Linear regression of ``target`` on ``features``, by noisy sufficient statistics.

    Every column is centred on the middle of its bounds; sums of products of all pairs get noise,
    and the coefficients solve the noisy normal equations with a public ridge of two standard
    deviations of that noise.
    Source: Vu, Slavkovic 2009; Sheffet 2017 (noisy second moments).
    """

    query: ClassVar[str] = "regression"
    target: str
    features: tuple[str, ...]
    noise: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        features = texts(self.features)
        object.__setattr__(self, "features", features)
        names = (*features, self.target)
        if not features or len(set(names)) != len(names):
            raise InvalidParameter(f"item {self.name!r}: expected features, none twice")
        if self.groups is not None or self.per_group is not None:
            raise InvalidParameter(f"item {self.name!r}: a regression has no groups")
        self.noise_of(self.noise)

    def _columns(self, schema: Schema) -> list[tuple[str, Number, int]]:
        columns = []
        for name in (*self.features, self.target):
            column = schema.number(name, f"item {self.name!r}")
            width = column.high - column.low
            if width > 2**26:
                raise InvalidParameter(f"item {self.name!r}: {name!r} has over 2^26 steps")
            columns.append((name, column, width))
        return columns

    def _terms(self, schema: Schema) -> Iterator[tuple[Term, int, int]]:
        """Each sum of products, with its bounds; squares have none below 0."""
        columns = self._columns(schema)
        factors = [(name, 2, -(c.low + c.high)) for name, c, _ in columns]
        for i, (_, _, width) in enumerate(columns):
            divisor = max(1, width // 2**8)
            most = rounded(width, divisor)
            yield Term((factors[i],), divisor), rounded(-width, divisor), most
            for j in range(i + 1):
                other = columns[j][2]
                divisor = max(1, width * other // SQUARES)
                low = 0 if i == j else rounded(-width * other, divisor)
                yield Term((factors[i], factors[j]), divisor), low, rounded(width * other, divisor)

    def parts(self, schema: Schema) -> tuple[Part, ...]:
        rows = schema.rows
        scaled = [Contribution(1, 1, 0, rows)]
        for _, low, high in self._terms(schema):
            scaled.append(Contribution(1, 1, rows * low, rows * high))
        count, *moments = scaled
        share = Fraction(1, 1 + len(moments))
        return (
            Vector(f"{self.name}/count", self.noise, (count,), share=share),
            *(
                Vector(f"{self.name}/{place}", self.noise, (moment,), share=share)
                for place, moment in enumerate(moments)
            ),
        )

    def totals(self, schema: Schema) -> tuple[Total, ...]:
        terms = (ROWS, *(term for term, _, _ in self._terms(schema)))
        needed = (*self.features, self.target)
        return (Total(self.name, terms, (), self.conditions(schema), needed),)

    def values(self, schema: Schema, answers: Found) -> dict[str, Exact]:
        count, *moments = answers[0]
        return {
            f"{self.name}/count": count,
            **{f"{self.name}/{place}": moment for place, moment in enumerate(moments)},
        }

    def rows(self, schema: Schema, released: Mapping[str, Any], margins: Margins) -> list[Row]:

        columns = self._columns(schema)
        size = len(columns)
        second, first = np.zeros((size + 1, size + 1)), iter(enumerate(self._terms(schema)))
        noise = 0.0
        second[0, 0] = max(released[f"{self.name}/count"][0], 1)
        for i, (_, _, width) in enumerate(columns, start=1):
            place, (term, _, _) = next(first)
            value = float(released[f"{self.name}/{place}"][0] * term.divisor) / width
            second[0, i] = second[i, 0] = value
            for j in range(1, i + 1):
                place, (term, _, _) = next(first)
                scale = term.divisor / (width * columns[j - 1][2])
                second[i, j] = second[j, i] = released[f"{self.name}/{place}"][0] * scale
                noise = max(noise, margins.deviation(f"{self.name}/{place}") * scale)
        ridge = 2 * noise * size**0.5 * np.eye(size)
        ridge[0, 0] = 0.0
        solved = np.linalg.lstsq(second[:size, :size] + ridge, second[:size, size], rcond=None)[0]
        return _coefficients(self, columns, [float(c) for c in solved])


def _coefficients(
    item: Regression, columns: list[tuple[str, Number, int]], solved: list[float]
) -> list[Row]:
    """From columns scaled to [-1, 1] back to their own units."""

    def half(column: Number) -> Fraction:
        return (column.upper - column.lower) / 2

    def middle(column: Number) -> Fraction:
        return (column.upper + column.lower) / 2

    target = columns[-1][1]
    slopes = [
        Fraction(c).limit_denominator(10**12) * half(target) / half(column)
        for c, (_, column, _) in zip(solved[1:], columns[:-1], strict=True)
    ]
    intercept = Fraction(solved[0]).limit_denominator(10**12) * half(target) + middle(target)
    intercept -= sum(s * middle(column) for s, (_, column, _) in zip(slopes, columns, strict=False))
    rows = [Row(item.name, (("term", "(intercept)"),), "coefficient", intercept, None)]
    for slope, (name, _, _) in zip(slopes, columns, strict=False):
        rows.append(Row(item.name, (("term", name),), "coefficient", slope, None))
    return rows
