"""Counts of ranges, as a tree of intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

from dpaudit.releases.contributions import Contribution
from dpaudit.releases.items.averages import short_up
from dpaudit.releases.items.counts import _bins, _labels
from dpaudit.releases.items.item import Exact, Found, Item, Margins, Part, Row, Vector
from dpaudit.tabular import ROWS, Bins, Schema, Total


@dataclass(frozen=True, kw_only=True)
class Ranges(Item):
    """Counts of every dyadic range of bins, from which any range and the distribution follow.

    ``edges``: where the column is cut; the bins are filled up to a power of two.  The published
    distribution function is the least-squares one, made consistent over the tree.
    Source: Hay, Rastogi, Miklau, Suciu 2010, Section 4; Honaker 2015.
    """

    query: ClassVar[str] = "ranges"
    column: str
    edges: tuple[Any, ...]
    noise: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "edges", tuple(self.edges))
        self.noise_of(self.noise)

    def _bins(self, schema: Schema) -> Bins:
        column = schema.ordered(self.column, f"item {self.name!r}")
        return _bins(self.column, column, self.edges, f"item {self.name!r}: edges")

    def levels(self, schema: Schema) -> list[int]:
        """How many ranges each level of the tree has, leaves first, the root left out."""
        leaves = 1 << (self._bins(schema).cells - 1).bit_length()
        return [leaves >> level for level in range(leaves.bit_length() - 1)]

    def parts(self, schema: Schema) -> tuple[Part, ...]:
        levels = self.levels(schema)
        groups, rows = self.limits(schema, levels[0])
        # All leaves under a higher range may be this unit's.
        most = min(rows * groups, schema.rows)
        leaves, *above = levels
        blocks = [Contribution(leaves, groups, 0, rows, most)]
        blocks += [Contribution(cells, groups, 0, most, most) for cells in above]
        return (Vector(self.name, self.noise, tuple(blocks)),)

    def totals(self, schema: Schema) -> tuple[Total, ...]:
        bins = self._bins(schema)
        limits = self.bounding(schema, bins.cells)
        return (Total(self.name, (ROWS,), (bins,), self.conditions(schema), (), *limits),)

    def values(self, schema: Schema, answers: Found) -> dict[str, Exact]:
        levels = self.levels(schema)
        counts = answers[0][0]
        assert isinstance(counts, tuple)  # noqa: S101  (bins have public places)
        level = [*counts, *[0] * (levels[0] - len(counts))]
        tree = list(level)
        for _ in levels[1:]:
            level = [a + b for a, b in zip(level[::2], level[1::2], strict=True)]
            tree += level
        return {self.name: tuple(tree)}

    def rows(self, schema: Schema, released: Mapping[str, Any], margins: Margins) -> list[Row]:
        levels = self.levels(schema)
        leaves, spread = consistent_tree(released[self.name], levels)
        bins = self._bins(schema)
        # No more than the noise of the leaf alone, of which least squares is no worse.
        leaf = Fraction(margins.half(self.name))
        labels = _labels(schema, bins)
        rows, total = [], Fraction(0)
        for place, keys in enumerate(labels):
            total += leaves[place]
            error = short_up(leaf * Fraction(spread[place] ** 0.5))
            rows.append(
                Row(self.name, (keys,), "count", leaves[place], leaf, "consistent over the tree")
            )
            rows.append(Row(self.name, (keys,), "count up to here", total, error))
        return rows


def consistent_tree(
    released: Sequence[int], levels: Sequence[int]
) -> tuple[list[Fraction], list[float]]:
    """Leaves by least squares over a binary tree, and the variance of each prefix sum.

    Going up, the estimate of a node from its own subtree has weight (2^l - 2^(l-1)) / (2^l - 1);
    going down, what a parent has beyond its children is split among them.  The level below the root
    has no parent.  The variance of a prefix is bounded by that of the nodes that make it up, of
    which there is at most one a level: a prefix of binary address with b ones adds up b nodes.
    Source: Hay, Rastogi, Miklau, Suciu 2010, Theorem 3.
    """
    start, noisy = 0, []
    for cells in levels:
        noisy.append([Fraction(value) for value in released[start : start + cells]])
        start += cells
    up = [noisy[0]]
    for level in range(1, len(levels)):
        own = Fraction(2 ** (level + 1) - 2**level, 2 ** (level + 1) - 1)
        below = [a + b for a, b in zip(up[-1][::2], up[-1][1::2], strict=True)]
        up.append([own * z + (1 - own) * s for z, s in zip(noisy[level], below, strict=True)])
    settled = up[-1]
    for level in range(len(levels) - 2, -1, -1):
        children = up[level]
        gap = [
            (parent - children[2 * i] - children[2 * i + 1]) / 2 for i, parent in enumerate(settled)
        ]
        settled = [child + gap[i // 2] for i, child in enumerate(children)]
    spread = [
        float((place + 1).bit_count() if place + 1 < levels[0] else 2) for place in range(levels[0])
    ]
    return settled, spread
