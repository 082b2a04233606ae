"""Post-processing: steps that use released numbers only, and no budget.

``consistent``: counts of several items become sums of one table of cells, by least squares with
each count weighted by the variance of its noise.  ``non_negative``: counts below 0 become 0.
``round``: numbers are rounded to a multiple of ``to``.
Source: Dwork, Roth 2014, Proposition 2.1 (post-processing); Barak et al. 2007; Hay et al. 2010.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from dpaudit.errors import InvalidParameter
from dpaudit.exact.domains import rational
from dpaudit.releases.queries import Count, Item, Margins, Row, texts
from dpaudit.tabular import Schema
from dpaudit.tabular.schema import refuse_unknown

CONSISTENT, NON_NEGATIVE, ROUND = "consistent", "non_negative", "round"
MOST_CELLS = 3000


@dataclass(frozen=True)
class Step:
    """One step of post-processing, on the items named."""

    kind: str
    items: tuple[str, ...]
    to: Fraction = Fraction(1)

    def __post_init__(self) -> None:
        if self.kind not in (CONSISTENT, NON_NEGATIVE, ROUND):
            raise InvalidParameter(
                f"post.step = {self.kind!r}: expected {CONSISTENT}, {NON_NEGATIVE} or {ROUND}"
            )
        object.__setattr__(self, "items", texts(self.items))
        object.__setattr__(self, "to", rational(self.to, f"post {self.kind}: to"))
        if not self.items:
            raise InvalidParameter(f"post {self.kind}: items: expected names of items")
        if self.to <= 0:
            raise InvalidParameter(f"post {self.kind}: to = {self.to}: expected a positive number")

    def row(self) -> dict[str, Any]:
        """Everything as JSON."""
        return {"step": self.kind, "items": list(self.items), "to": str(self.to)}

    @property
    def text(self) -> str:
        """What was done to released numbers, for the certificate."""
        to = f" to {self.to}" if self.kind == ROUND else ""
        what = f"{self.kind.replace('_', '-')}{to}: {', '.join(self.items)}"
        return f"post-processing, of released numbers only: {what}"

    def check(self, schema: Schema, items: Mapping[str, Item]) -> None:
        """Errors: InvalidParameter for items it cannot work on."""
        for name in self.items:
            if name not in items:
                raise InvalidParameter(f"post {self.kind}: no item is called {name!r}")
        if self.kind == CONSISTENT:
            finest(schema, [items[name] for name in self.items])

    def apply(
        self, schema: Schema, items: Mapping[str, Item], rows: list[Row], margins: Margins
    ) -> list[Row]:
        """The rows after this step."""
        if self.kind == CONSISTENT:
            return _consistent(schema, [items[name] for name in self.items], rows, margins)
        return [self._changed(row) if row.item in self.items else row for row in rows]

    def _changed(self, row: Row) -> Row:
        if row.value is None:
            return row
        if self.kind == NON_NEGATIVE:
            return row if row.value >= 0 else replace(row, value=Fraction(0), note=_noted(row))
        return replace(row, value=round(row.value / self.to) * self.to, note=_noted(row))


def _noted(row: Row) -> str:
    return row.note or "post-processed"


def steps_of(table: Any) -> tuple[Step, ...]:
    """The steps that TOML states, [[post]] with step and items.  Errors: InvalidParameter."""
    if not isinstance(table, list) or not all(isinstance(row, Mapping) for row in table):
        raise InvalidParameter("plan.post: expected [[post]]")
    found = []
    for place, row in enumerate(table):
        refuse_unknown(row, {"step", "items", "to"}, f"post[{place}]")
        found.append(Step(str(row.get("step")), row.get("items", ()), row.get("to", Fraction(1))))
    return tuple(found)


def finest(schema: Schema, items: Sequence[Item]) -> Count:
    """The count whose cells all others are sums of.

    Errors: InvalidParameter where there is none, where conditions or limits differ, or where the
    cells are too many.
    """
    counts = [item for item in items if isinstance(item, Count)]
    if len(counts) != len(items) or len(items) < 2:
        raise InvalidParameter("post consistent: expected at least two counts")
    last = max(counts, key=lambda item: len(item.by))
    for item in counts:
        same = item.where == last.where and (item.groups, item.per_group) == (
            last.groups,
            last.per_group,
        )
        edges = all(list(item.edges[c]) == list(last.edges.get(c, ())) for c in item.edges)
        if not same or not edges or not set(item.by) <= set(last.by):
            raise InvalidParameter(
                f"post consistent: {item.name!r} is no margin of {last.name!r}: same conditions, "
                "limits and edges are needed, and columns that are all in its by"
            )
        if schema.unit is not None and (last.groups or last.per_group or 0):
            raise InvalidParameter(
                f"post consistent: {last.name!r} bounds a unit by group: cells do not add up"
            )
    if last.cells(schema) > MOST_CELLS:
        raise InvalidParameter(f"post consistent: over {MOST_CELLS} cells")
    return last


def _consistent(
    schema: Schema, items: Sequence[Item], rows: list[Row], margins: Margins
) -> list[Row]:
    """Least squares, then cells rounded to whole numbers, and every margin a sum of them."""
    import numpy as np

    last = finest(schema, items)
    cells = last.domain(schema)
    where = {keys: i for i, keys in enumerate(cells)}
    design, seen, weights = [], [], []
    members: dict[tuple[str, tuple[tuple[str, str], ...]], list[int]] = {}
    wanted = {item.name for item in items}
    for row in rows:
        if row.item not in wanted or row.value is None:
            continue
        own = [i for keys, i in where.items() if set(row.keys) <= set(keys)]
        members[row.item, row.keys] = own
        line = np.zeros(len(cells))
        line[own] = 1.0
        design.append(line)
        seen.append(float(row.value))
        weights.append(1.0 / margins.deviation(row.item))
    scaled = np.array(design) * np.array(weights)[:, None]
    solved = np.linalg.lstsq(scaled, np.array(seen) * np.array(weights), rcond=None)[0]
    whole = [Fraction(round(float(value))) for value in solved]
    note = "consistent with its margins, by least squares"
    return [
        replace(
            row,
            value=sum((whole[i] for i in members[row.item, row.keys]), Fraction(0)),
            error=None if row.item != last.name else row.error,
            note=note,
        )
        if (row.item, row.keys) in members
        else row
        for row in rows
    ]
