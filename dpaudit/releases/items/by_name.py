"""The items by the names that plans give them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from dpaudit.errors import InvalidParameter
from dpaudit.releases.items.averages import Averaged, Mean, Variance
from dpaudit.releases.items.choices import Quantiles, Top, UnitRows
from dpaudit.releases.items.chosen import ChosenMean, ChosenSum
from dpaudit.releases.items.counts import Affected, Count, Sum
from dpaudit.releases.items.item import Item
from dpaudit.releases.items.keys import Groups
from dpaudit.releases.items.pairs import Pairs
from dpaudit.releases.items.ranges import Ranges
from dpaudit.releases.items.regression import Regression
from dpaudit.releases.programs import Program
from dpaudit.tabular import Schema
from dpaudit.tabular.schema import ERROR, number, refuse_unknown

# Items by the name that a plan uses.
QUERIES: dict[str, type[Item]] = {
    kind.query: kind
    for kind in (
        *(Count, Sum, Mean, Variance, Affected),
        *(Quantiles, UnitRows, Top, Pairs, Groups, Ranges, Regression, Program),
    )
} | {"sum, bounds.share": ChosenSum, "mean, bounds.share": ChosenMean}


def check_counts(schema: Schema, items: Mapping[str, Item]) -> None:
    """Errors: InvalidParameter for ``counts`` that are no count of the same cells."""
    for item in items.values():
        if not isinstance(item, Averaged) or item.counts is None:
            continue
        if not item.fits(schema, items.get(item.counts)):
            raise InvalidParameter(
                f"item {item.name!r}: counts = {item.counts!r}: expected a count of the same by, "
                f"edges and where, without groups and per_group, and missing = {ERROR!r} of "
                f"{item.column!r}"
            )


def with_counts(schema: Schema, items: Sequence[Item]) -> list[Item]:
    """Means and variances with the count of the same cells, where one gets as much of the budget.

    Otherwise a count of their own is closer, which takes a half or a third of their part.
    """
    completed = []
    for item in items:
        counted = item
        if isinstance(item, Averaged) and item.counts is None:
            own = item.weight / (2 if isinstance(item, Mean) else 3)
            counts = (c.name for c in items if item.fits(schema, c) and c.weight >= own)
            counted = replace(item, counts=next(counts, None))
        completed.append(counted)
    return completed


def item_of(table: Mapping[str, Any], place: str) -> Item:
    """The item that a TOML table states.

    ``minimum`` and ``maximum`` are the quantiles at 1/100 and 99/100, or at ``share`` from the end.
    Errors: InvalidParameter naming the key.
    """
    given = dict(table)
    query = str(given.pop("query", ""))
    if query in ("minimum", "maximum"):
        share = number(given.pop("share", "0.01"), f"{place}.share")
        given["at"] = (share if query == "minimum" else 1 - share,)
        query = "quantiles"
    if query == "quantile":
        query = "quantiles"
    if isinstance(given.get("bounds"), Mapping) and "share" in given["bounds"]:
        query = f"{query}, bounds.share"
    kind = QUERIES.get(query)
    if kind is None:
        # A query of two kinds of item is named once.
        names = (name.partition(",")[0] for name in (*QUERIES, "quantile", "minimum", "maximum"))
        raise InvalidParameter(
            f"{place}.query = {query!r}: expected one of {', '.join(dict.fromkeys(names))}"
        )
    refuse_unknown(given, {f.name for f in fields(kind)}, place)
    try:
        return kind(**given)
    except TypeError as error:
        wanted = str(error).partition("argument")[2] or str(error)
        raise InvalidParameter(f"{place} ({query}): missing{wanted}") from None
