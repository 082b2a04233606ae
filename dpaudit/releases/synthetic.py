"""Synthetic records, made of published counts alone: a tree of margins, and no budget of its own.

The plan counts rows by pairs of columns.  Every estimate of one column's counts is averaged by its
variance, and each pair is fitted to its columns; of all pairs a spanning tree with the largest
mutual information is kept.  Records follow the tree, each count of it rounded up or down, so that
margins in the tree stay those that were published, to a rounding.  Nothing but published numbers is
read, so that the certificate of the counts covers the records.
Source: McKenna, Miklau, Sheldon 2021 (a tree of measured margins); Chow, Liu 1968; Dwork, Roth
2014, Proposition 2.1 (post-processing).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import combinations
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard

import numpy as np
from numpy.typing import NDArray

from dpaudit.errors import InvalidParameter
from dpaudit.kernels.query import Array
from dpaudit.releases.items.averages import short_up
from dpaudit.releases.items.counts import Count, Grouped
from dpaudit.releases.items.item import Item, Row, texts
from dpaudit.releases.items.pairs import Pairs
from dpaudit.tabular import Bins, Category, Period, Schema
from dpaudit.tabular.schema import number, refuse_unknown, shown_in, text_of, whole_number

if TYPE_CHECKING:
    from dpaudit.releases.plan import Plan

NAME = "synthetic"  # of the file, and of its rows among the published ones
MOST_RECORDS = 1_000_000  # synthetic records that are made
FITS = 100  # passes of iterative fitting; margins of the tree are exact however many
TINY = 1e-9  # of a row, where margins ask for rows that no count has
_LISTS = (list, tuple)  # types of a list in a plan
Codes: TypeAlias = NDArray[np.int64]
Axes: TypeAlias = tuple[str, ...]


@dataclass(frozen=True)
class Synthetic:
    """The records that a release publishes beside its counts.

    ``columns``: what a record has; numbers need ``edges``, and get a value between two of them.
    ``share``: of the budget, for the pairs that no item of the plan counts.  ``pairs``: of columns,
    which are counted; all of them by default.  ``records``: how many; by default as many as rows
    were counted, at most a million.
    Errors: InvalidParameter for fewer than two columns, pairs of others, and a share that leaves
    nothing.
    """

    columns: tuple[str, ...]
    share: Fraction = Fraction(1, 2)
    pairs: tuple[Axes, ...] = ()
    edges: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    records: int | None = None

    def __post_init__(self) -> None:
        columns = texts(self.columns)
        object.__setattr__(self, "columns", columns)
        object.__setattr__(self, "share", number(self.share, f"{NAME}: share"))
        if len(columns) < 2 or len(set(columns)) < len(columns):
            raise InvalidParameter(f"{NAME}: columns: expected two or more, none twice")
        if not 0 < self.share <= 1:
            raise InvalidParameter(f"{NAME}: share = {self.share}: expected above 0, at most 1")
        given: Any = self.edges
        if not isinstance(given, Mapping) or not all(isinstance(e, _LISTS) for e in given.values()):
            raise InvalidParameter(f"{NAME}: edges: expected a list of numbers for each column")
        listed: Any = self.pairs
        if not isinstance(listed, _LISTS):
            raise InvalidParameter(f"{NAME}: pairs: expected a list of pairs of columns")
        pairs = tuple(map(texts, self.pairs)) or tuple(combinations(columns, 2))
        object.__setattr__(self, "pairs", pairs)
        for pair in pairs:
            if len(set(pair)) != 2 or not set(pair) <= set(columns):
                raise InvalidParameter(f"{NAME}: pairs: {', '.join(pair)}: expected two columns")
        if self.records is not None:
            whole_number(self.records, f"{NAME}: records")
            if self.records > MOST_RECORDS:
                raise InvalidParameter(f"{NAME}: records: expected at most {MOST_RECORDS}")

    def row(self) -> dict[str, Any]:
        """Everything as JSON; the items hold what is counted."""
        records_row = {} if self.records is None else {"records": str(self.records)}
        edges = {name: [str(edge) for edge in edges] for name, edges in self.edges.items()}
        return {"columns": list(self.columns), "edges": edges, **records_row}

    @property
    def text(self) -> str:
        """The step in words, for the certificate."""
        return (
            f"post-processing, of released numbers only: {NAME} records of "
            f"{', '.join(self.columns)}, by a tree of their counts"
        )

    def items(self, schema: Schema, others: Sequence[Item]) -> tuple[Count, ...]:
        """The counts that are missing among the others, with their share of the budget.

        Errors: InvalidParameter as for counts, and for a share of 1 beside other items.
        """
        counted = {frozenset(item.by) for item in others if self.uses(item)}
        # Where an item chooses pairs and counts them, no others are added unless they are named.
        all_of_them = self.pairs == tuple(combinations(self.columns, 2))
        wanted = () if all_of_them and any(map(self.chooses, others)) else self.pairs
        missing = [pair for pair in wanted if frozenset(pair) not in counted]
        weights = sum((item.weight for item in others), Fraction(0))
        if others and missing and self.share == 1:
            raise InvalidParameter(f"{NAME}: share = 1 leaves nothing for the other items")
        total_weight = weights * self.share / (1 - self.share) if others else Fraction(1)
        counts_added = tuple(
            Count(
                name=f"{NAME} {' and '.join(pair)}",
                by=pair,
                edges={name: self.edges[name] for name in pair if name in self.edges},
                weight=total_weight / len(missing),
            )
            for pair in missing
        )
        for item in counts_added:
            item.keys(schema)
        return counts_added

    def check(self, schema: Schema, items: Sequence[Item]) -> None:
        """Errors: InvalidParameter for a column that no item counts, and for an item's name."""
        counted = {name for item in items if self.uses(item) for name in item.by}
        if missing := [name for name in self.columns if name not in counted]:
            raise InvalidParameter(
                f"{NAME}: columns: {missing[0]!r} is counted by no item and no pair; add one to "
                "pairs, or a count by it alone where pairs are chosen"
            )
        if any(item.name == NAME for item in items):
            raise InvalidParameter(f"{NAME}: an item has this name; rename it")

    def chooses(self, item: Item) -> TypeGuard[Pairs]:
        """Whether an item counts pairs of the columns that it chooses, with the same edges."""
        return isinstance(item, Pairs) and bool(item.tables) and self._alike(item)

    def uses(self, item: Item) -> TypeGuard[Count]:
        """Whether an item counts all rows by one or two of the columns, with the same edges."""
        return (
            isinstance(item, Count)
            and item.groups is None
            and item.per_group is None
            and 1 <= len(item.by) <= 2
            and self._alike(item)
        )

    def _alike(self, item: Grouped) -> bool:
        """Whether an item's groups are those of the records, of all rows."""
        return (
            not item.where
            and set(item.by) <= set(self.columns)
            and all(list(item.edges[n]) == list(self.edges.get(n, ())) for n in item.edges)
        )


def synthetic_of(table: Any) -> Synthetic:
    """The records that a plan's [synthetic] asks for; errors: InvalidParameter."""
    if not isinstance(table, Mapping):
        raise InvalidParameter(f"plan.{NAME}: expected a table, [{NAME}]")
    refuse_unknown(table, {"columns", "share", "pairs", "edges", "records"}, NAME)
    if "columns" not in table:
        raise InvalidParameter(f"{NAME}.columns: expected the columns of a record")
    return Synthetic(**table)


# --- a tree of margins ----------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Tree:
    """Counts of a spanning tree: ``order`` begins with the root; ``above``: a column's parent.

    ``tables``: of the root (keys,), of each other column (keys of its parent, its own keys).
    """

    total: float
    order: tuple[str, ...]
    above: Mapping[str, str]
    tables: Mapping[str, Array]

    def records(self, count: int, rng: np.random.Generator) -> dict[str, Codes]:
        """Codes of so many records, by column.

        Among the records with one key of the parent, each key of the child is as frequent as its
        share of them, rounded up or down at random so that no key is favoured.
        """
        root = self.order[0]
        codes_of = {root: _shared(self.tables[root], count, rng)}
        for name in self.order[1:]:
            parents = codes_of[self.above[name]]
            codes = np.zeros(count, dtype=np.int64)
            for key, shares in enumerate(self.tables[name]):
                places = np.flatnonzero(parents == key)
                codes[places] = rng.permutation(_shared(shares, len(places), rng))
            codes_of[name] = codes
        return codes_of


def _shared(shares: Array, count: int, rng: np.random.Generator) -> Codes:
    """So many codes, of which each has its share, rounded up or down (systematic sampling)."""
    total = shares.sum()
    even = np.full(len(shares), 1 / len(shares))
    ends = np.cumsum(shares / total if total > 0 else even) * count
    ends[-1] = count
    offsets = np.arange(count) + rng.random()
    return np.searchsorted(ends[:-1], offsets, side="right").astype(np.int64)


def _simplex(values: Array, total: float) -> Array:
    """The nearest counts that are not negative and add up to a total."""
    ordered = np.sort(values)[::-1]
    above = (np.cumsum(ordered) - total) / np.arange(1, len(values) + 1)
    positive = int(np.flatnonzero(ordered > above)[-1]) if total > 0 else 0
    return np.asarray(np.maximum(values - above[positive], 0.0))


def _pair(seen: Array, rows: Array, columns: Array) -> Array:
    """The counts of a pair, fitted to those of its columns: least squares, then proportionally."""
    first, second = seen.shape
    moved = seen + ((rows - seen.sum(1)) / second)[:, None] + (columns - seen.sum(0)) / first
    moved -= (rows.sum() - seen.sum()) / seen.size
    fitted = np.maximum(moved, 0.0) + TINY
    for _ in range(FITS):
        fitted *= (rows / np.maximum(fitted.sum(1), TINY))[:, None]
        fitted *= columns / np.maximum(fitted.sum(0), TINY)
    return np.asarray(fitted)


def _information(table: Array) -> float:
    """The mutual information of two columns by their counts."""
    shares = table / max(table.sum(), TINY)
    apart = np.outer(shares.sum(1), shares.sum(0))
    positive = shares > 0
    return float((shares[positive] * np.log(shares[positive] / apart[positive])).sum())


def tree_of(seen: Mapping[Axes, list[tuple[Array, float]]], sizes: Mapping[str, int]) -> Tree:
    """The tree that noisy counts by one or two columns give.

    ``seen``: counts by columns, in their order, each with the variance of its noise.
    """
    tables = [(axes, *counted) for axes, counts_of in seen.items() for counted in counts_of]
    totals = np.array([table.sum() for _, table, _ in tables])
    precise = np.array([1 / (variance * table.size) for _, table, variance in tables])
    total = max(float((totals * precise).sum() / precise.sum()), 0.0)
    singles = {}
    for name in sizes:
        own = [
            (table.sum(axis=tuple(i for i, n in enumerate(axes) if n != name)), table, variance)
            for axes, table, variance in tables
            if name in axes
        ]
        weights = np.array([sizes[name] / (table.size * v) for _, table, v in own])
        mean = sum(w * count for w, (count, _, _) in zip(weights, own, strict=True)) / weights.sum()
        singles[name] = _simplex(np.asarray(mean), total)
    pairs: dict[Axes, Array] = {}
    for axes, counts_of in seen.items():
        if len(axes) == 2:
            weights = np.array([1 / variance for _, variance in counts_of])
            mean = sum(w * table for w, (table, _) in zip(weights, counts_of, strict=True))
            pairs[axes] = _pair(mean / weights.sum(), singles[axes[0]], singles[axes[1]])
    return _spanning(total, singles, pairs)


def _spanning(total: float, singles: Mapping[str, Array], pairs: Mapping[Axes, Array]) -> Tree:
    """The largest spanning tree; a column that no pair reaches is independent of the root."""
    gains = {axes: _information(table) for axes, table in pairs.items()}
    root = next(iter(singles))
    order, above, tables = [root], {}, {root: singles[root]}
    while len(order) < len(singles):
        edges = [axes for axes in pairs if (axes[0] in order) != (axes[1] in order)]
        if edges:
            best = max(edges, key=lambda axes: gains[axes])
            parent, child = best if best[0] in order else best[::-1]
            tables[child] = pairs[best] if best[0] == parent else pairs[best].T
        else:
            parent, child = root, next(name for name in singles if name not in order)
            tables[child] = np.outer(singles[root], singles[child]) / max(total, TINY)
        order.append(child)
        above[child] = parent
    return Tree(total, tuple(order), above, tables)


# --- of a release ---------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Made:
    """Synthetic records as texts, (records, columns), and how far their counts are off, as rows."""

    columns: tuple[str, ...]
    codes: Codes
    records: list[list[str]]
    rows: list[Row]


def synthesised(plan: Plan, published: Sequence[Row]) -> Made | None:
    """The synthetic records of a release that asks for some, from its published rows.

    Their random numbers are public, made of the release's digest: they hide nothing.
    """
    wanted, schema = plan.release.synthetic, plan.release.schema
    if wanted is None:
        return None
    counted = list(_counted(plan, wanted, published))
    sizes = {
        name: size
        for one in counted
        for name, size in zip(one.item.by, one.table.shape, strict=True)
    }
    keys = {
        name: key
        for one in counted
        for name, key in zip(one.item.by, one.item.keys(schema), strict=True)
    }
    tree = tree_of(_seen(counted), {name: sizes[name] for name in wanted.columns})
    count = round(tree.total) if wanted.records is None else wanted.records
    rng = np.random.default_rng(int(plan.release.digest[:16], 16))
    codes = tree.records(min(count, MOST_RECORDS), rng)
    together = np.stack([codes[name] for name in wanted.columns], axis=1)
    cells = [_texts(schema, keys[name], codes[name], rng) for name in wanted.columns]
    # For another number of records, the shares are kept.
    scale = 1.0 if len(together) == round(tree.total) else tree.total / max(len(together), 1)
    rows = [_distance(one, codes, scale) for one in counted]
    return Made(wanted.columns, together, [list(row) for row in zip(*cells, strict=True)], rows)


@dataclass(frozen=True, eq=False)
class _Counted:
    """Published counts by an item's columns, and the largest 95% margin of one.

    ``called``: in words, where they were published; ``variance``: of their noise.
    """

    item: Count
    called: str
    table: Array
    error: Fraction
    variance: float


def _counted(plan: Plan, wanted: Synthetic, published: Sequence[Row]) -> Iterator[_Counted]:
    """The counts of which records are made: of items, and of the pairs that items chose."""
    schema = plan.release.schema
    for item in plan.release.items:
        own = [row for row in published if row.item == item.name]
        if wanted.uses(item):
            yield _table(plan, item, item.name, item.name, own)
        elif wanted.chooses(item):
            rows = [row for row in own if not row.text]
            for label in item.tables:
                pair = tuple(name for name, _ in rows[0].keys)
                counts = item.counted(pair)
                size = counts.cells(schema)
                called = f"{item.name} ({', '.join(pair)})"
                yield _table(plan, counts, label, called, rows[:size])
                rows = rows[size:]


def _table(plan: Plan, item: Count, label: str, called: str, rows: Sequence[Row]) -> _Counted:
    table = np.array([float(row.value or 0) for row in rows])
    error = max(row.error or Fraction(0) for row in rows)
    variance = max(plan.margins.deviation(label) ** 2, TINY)
    return _Counted(item, called, table.reshape(item.shape(plan.release.schema)), error, variance)


def _seen(counted: Sequence[_Counted]) -> dict[Axes, list[tuple[Array, float]]]:
    """The counts by columns, those of one pair in one order, with the variance of their noise."""
    counts_of: dict[Axes, list[tuple[Array, float]]] = {}
    for one in counted:
        by = one.item.by
        turned = by[::-1]
        if turned != by and turned in counts_of:
            counts_of[turned].append((one.table.T, one.variance))
        else:
            counts_of.setdefault(by, []).append((one.table, one.variance))
    return counts_of


def _texts(schema: Schema, key: str | Bins, codes: Codes, rng: np.random.Generator) -> list[str]:
    """The cells of a column; of a number any step between two edges, each as likely."""
    if isinstance(key, Bins):
        column = schema.ordered(key.column, NAME)
        firsts = np.array([column.low, *key.edges])
        ends = np.array([*key.edges, column.high + 1])
        drawn = rng.integers(firsts[codes], np.maximum(ends, firsts + 1)[codes])
        codes_drawn, places = np.unique(drawn, return_inverse=True)
        shown = [shown_in(column, int(code) * column.step) for code in codes_drawn]
        return [shown[place] for place in places]
    declared = schema.columns[key]
    if isinstance(declared, Category):
        return [declared.domain[code] for code in codes]
    assert isinstance(declared, Period)  # noqa: S101  (other keys have bins)
    return [declared.text(declared.low + int(code)) for code in codes]


def _distance(counted: _Counted, codes: Mapping[str, Codes], scale: float) -> Row:
    """How far the records' counts are from the published ones, and so from the true ones."""
    by, synthetic_counts = counted.item.by, np.zeros(counted.table.shape)
    np.add.at(synthetic_counts, tuple(codes[name] for name in by), 1.0)
    apart = short_up(Fraction(float(np.abs(synthetic_counts * scale - counted.table).max())))
    bound, scaled = text_of(short_up(apart + counted.error))[0], ", scaled to the rows counted,"
    return Row(
        NAME,
        (("counts by", ", ".join(by)),),
        f"largest distance from {counted.called}",
        apart,
        None,
        f"a count of the records{scaled * (scale != 1)} is within {bound} of the true one, in 19 "
        "of 20 releases",
    )
