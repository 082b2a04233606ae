"""Counts of one table by several sets of keys: made consistent, non-negative and whole together.

A family is a table by the keys of all its counts, of which each is a sum of cells.  Its cells need
no count of their own: what no count tells of them is 0, which gives the least squares.  The cosine
transform along each axis diagonalises the normal equations of all margins at once, so that least
squares takes time in proportion to the cells, whatever their number, and no matrix is stored.
Source: Barak et al. 2007; Hay et al. 2010; Xiao, He, Zhang, Kifer 2023 (residual bases); Cox 1987
(controlled rounding).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import combinations, pairwise
from math import ceil, inf, prod
from typing import Any

import numpy as np
from scipy.fft import dctn, idctn
from scipy.optimize import Bounds, minimize
from scipy.special import bdtrik

from dpaudit.errors import InvalidParameter
from dpaudit.kernels.query import Array
from dpaudit.releases.items.counts import Count
from dpaudit.releases.items.item import Item, Margins
from dpaudit.scope import Adjacency
from dpaudit.tabular import MOST_CELLS, Schema
from dpaudit.tabular.schema import DROP

# A margin is simulated with so many draws; fewer where the table is large, whose cells share a law.
MOST_DRAWS, LEAST_DRAWS, NUMBERS_DRAWN, AT_ONCE = 10_000, 500, 10**7, 2**20
OUTSIDE = 0.05  # of the draws, at most, are further off than a 95% margin
UNSURE = 1e-3  # the probability that a simulated margin is below the law's own
LEAST_SHARE, WORTHWHILE = 1e-3, 0.99  # of a family's weights; of its largest relative variance
STEPS, CLOSE = 300, 1e-3  # of projected gradients, and of a count; margins hold however far


@dataclass(frozen=True)
class Family:
    """Counts whose cells are sums of the cells of ``last``; ``shape``: how many keys its axes have.

    ``last``: one of the items, or a count that is not asked, by the keys of them all.
    Tables are arrays (..., *shape); the counts of an item are arrays (..., its cells).
    """

    items: tuple[Count, ...]
    last: Count
    shape: tuple[int, ...]

    @property
    def names(self) -> frozenset[str]:
        """The names of its items."""
        return frozenset(item.name for item in self.items)

    @property
    def chain(self) -> list[Count]:
        """The items from the coarsest to the finest; empty where two of them do not nest."""
        ordered = sorted(self.items, key=lambda item: len(item.by))
        nested = all(set(a.by) <= set(b.by) for a, b in pairwise(ordered))
        return ordered if nested else []

    def _summed(self, by: Sequence[str]) -> tuple[int, ...]:
        """The axes, from the end, that a count by these keys adds up."""
        size = len(self.shape)
        return tuple(i - size for i, name in enumerate(self.last.by) if name not in by)

    def counts(self, item: Count, table: Array) -> Array:
        """The counts of an item of a table, in the order of the item's cells."""
        batch = table.ndim - len(self.shape)
        summed = table.sum(axis=self._summed(item.by))
        axes_of_item = [name for name in self.last.by if name in item.by]
        order = [batch + axes_of_item.index(name) for name in item.by]
        return np.asarray(
            summed.transpose(*range(batch), *order).reshape([*table.shape[:batch], -1])
        )

    def _spread(self, item: Count, counts: Array) -> Array:
        """Each count in all cells that it adds up: the adjoint of :meth:`counts`."""
        sizes = dict(zip(self.last.by, self.shape, strict=True))
        batch = counts.shape[:-1]
        spread_counts = counts.reshape([*batch, *(sizes[name] for name in item.by)])
        order = [len(batch) + item.by.index(name) for name in self.last.by if name in item.by]
        spread_counts = spread_counts.transpose(*range(len(batch)), *order)
        return np.asarray(np.expand_dims(spread_counts, self._summed(item.by)))

    def solved(self, seen: Mapping[str, Array], weights: Mapping[str, float]) -> Array:
        """The table of least squares, where an item's squares have its weight.

        A cosine along an axis adds up to 0, but for the constant one; so a margin keeps the
        coefficients that are constant along the axes it adds up, times their lengths.
        """
        axes = tuple(range(-len(self.shape), 0))
        total: Array = np.zeros(self.shape)
        eigen = np.zeros(self.shape)
        for item in self.items:
            total = total + weights[item.name] * self._spread(item, seen[item.name])
            summed = self._summed(item.by)
            lengths = prod(self.shape[axis] for axis in summed)
            constant = tuple(slice(0, 1) if axis in summed else slice(None) for axis in axes)
            eigen[constant] += weights[item.name] * lengths
        if not axes:
            return np.asarray(total / eigen)
        transformed = dctn(total, axes=axes, norm="ortho")
        transformed = np.divide(transformed, eigen, out=np.zeros_like(transformed), where=eigen > 0)
        return np.asarray(idctn(transformed, axes=axes, norm="ortho"))

    def non_negative(self, table: Array, weights: Mapping[str, float]) -> Array:
        """About the nearest table without negative cells, in the norm of the least squares."""
        steepest = sum(
            weights[i.name] * prod(self.shape[axis] for axis in self._summed(i.by))
            for i in self.items
        )
        table_so_far = np.maximum(table, 0.0)
        ahead, pace = table_so_far, 1.0
        for _ in range(STEPS):
            apart = ahead - table
            slope = sum(
                (weights[i.name] * self._spread(i, self.counts(i, apart)) for i in self.items),
                np.zeros(self.shape),
            )
            moved = np.maximum(ahead - slope / steepest, 0.0)
            faster = (1 + (1 + 4 * pace**2) ** 0.5) / 2
            ahead = moved + (pace - 1) / faster * (moved - table_so_far)
            away, table_so_far, pace = np.abs(moved - table_so_far).max(), moved, faster
            if away < CLOSE:
                break
        return table_so_far

    def rounded(self, table: Array, unit: int, levels: Sequence[Sequence[str]]) -> Array:
        """Cells as multiples of a unit, each next to its own, level by level from the coarsest.

        The first level is rounded to the nearest; within a count the units that its cells lack go
        to those with the largest rests.  ``levels``: sets of keys that nest, ending with all.
        """
        above = np.rint(table.sum(axis=self._summed(levels[0])) / unit)
        names = [name for name in self.last.by if name in levels[0]]
        for level in levels[1:]:
            level_names = [name for name in self.last.by if name in level]
            counts = table.sum(axis=self._summed(level)) / unit
            batch = counts.ndim - len(level_names)
            order = [batch + level_names.index(name) for name in names]
            order += [batch + level_names.index(name) for name in level_names if name not in names]
            turned = counts.transpose(*range(batch), *order)
            flat = turned.reshape(*turned.shape[:batch], above[(0,) * batch].size, -1)
            floors = np.floor(flat + 1e-9)
            lacking = above.reshape(*flat.shape[:-1], 1) - floors.sum(axis=-1, keepdims=True)
            ranks = np.argsort(np.argsort(floors - flat, axis=-1, kind="stable"), axis=-1)
            floors += ranks < lacking
            back = np.argsort([*range(batch), *order])
            above, names = floors.reshape(turned.shape).transpose(*back), level_names
        return np.asarray(above * unit)

    @property
    def whole_levels(self) -> list[Sequence[str]]:
        """All rows, then the items where they nest, or the largest one, then the cells."""
        largest = max(self.items, key=lambda item: prod(self._sizes(item)))
        return [(), *(item.by for item in self.chain or [largest]), self.last.by]

    def least_squares(self, seen: Mapping[str, Array], weights: Mapping[str, float]) -> Array:
        """The table of least squares in whole numbers."""
        return self.rounded(self.solved(seen, weights), 1, self.whole_levels)

    def halves(self, margins: Margins, seed: int) -> dict[str, int]:
        """The 95% margin of each item's counts after least squares, simulated from the noise.

        For all true counts, which are whole and consistent, errors have the law that noise alone
        gives.  Cells of one item have one law, because noise does not depend on the key.
        The margin is an order statistic that is below the law's own with probability ``UNSURE``.
        """
        rng = np.random.default_rng(seed)
        weights = weights_of(self, margins)
        sizes = {item.name: prod(self._sizes(item)) for item in self.items}
        numbers = max(sum(sizes.values()), prod(self.shape))
        draws = int(np.clip(NUMBERS_DRAWN // numbers, LEAST_DRAWS, MOST_DRAWS))
        errors: dict[str, list[Array]] = {name: [] for name in sizes}
        while (draws_left := draws - sum(map(len, errors[self.items[0].name]))) > 0:
            batch = min(draws_left, max(1, AT_ONCE // numbers))
            noise = {
                name: margins.draws(name, batch * size, rng).reshape(batch, size)
                for name, size in sizes.items()
            }
            table = self.least_squares(noise, weights)
            for item in self.items:
                errors[item.name].append(np.abs(self.counts(item, table)))
        place = min(draws - 1, ceil(bdtrik(1 - UNSURE, draws, 1 - OUTSIDE)))
        margins_of = {}
        for name, parts in errors.items():
            flat = np.concatenate(parts).ravel()
            at = min(flat.size - 1, ceil((place + 1) * flat.size / draws) - 1)
            margins_of[name] = int(np.partition(flat, at)[at])
        return margins_of

    def variances(self, precisions: Mapping[str, float]) -> dict[str, float]:
        """The variance of each item's counts after least squares, by the precision of its noise.

        A set A of axes has one coefficient of :meth:`solved`, and its share of a count is
        prod (1 - 1/n) over A times prod 1/n over the item's other axes.
        """
        parts, residual_shares = self._by_axes
        total = np.array([precisions[item.name] for item in self.items]) @ residual_shares
        return dict(zip((item.name for item in self.items), parts @ (1 / total), strict=True))

    @cached_property
    def _by_axes(self) -> tuple[Array, Array]:
        """Shapes (items, sets of axes): shares of a variance, and of the precision."""
        axes = self.last.by
        sizes = dict(zip(axes, self.shape, strict=True))
        subsets = [set(s) for k in range(len(axes) + 1) for s in combinations(axes, k)]
        parts, outside_shares = (np.zeros((len(self.items), len(subsets))) for _ in range(2))
        for row, item in enumerate(self.items):
            outside = prod(n for name, n in sizes.items() if name not in item.by)
            for column, subset in enumerate(subsets):
                if subset <= set(item.by):
                    inside = (
                        (1 - 1 / n) if k in subset else 1 / n
                        for k, n in sizes.items()
                        if k in item.by
                    )
                    parts[row, column] = outside * prod(inside)
                    outside_shares[row, column] = outside
        measured = outside_shares.any(axis=0)  # of the others no count depends
        return parts[:, measured], outside_shares[:, measured]

    def weights(self, schema: Schema, adjacency: Adjacency) -> dict[str, Fraction]:
        """The items' weights, of the same sum, with which consistent counts err least.

        Every item's variance, over the one that its noise alone would have with its own weight, is
        at most the largest one; that one is the smallest that there is, to a thousandth.
        Variances are convex in the weights, as sums of inverses of what is linear.
        Source: Xiao, He, Zhang, Kifer 2023 (weights for the margins that are asked).
        """
        own = np.array([float(item.weight) for item in self.items])
        own /= own.sum()
        moved = np.array([_squared(item, schema, adjacency) for item in self.items])
        parts, residual_shares = self._by_axes
        relative, residual_shares = parts * (own / moved)[:, None], residual_shares / moved[:, None]

        relative /= (relative @ (1 / (own @ residual_shares))).max()

        def largest(weights: Array) -> Array:
            return np.asarray(relative @ (1 / (weights @ residual_shares)))

        def slopes(weights: Array) -> Array:
            return np.asarray(-(relative / (weights @ residual_shares) ** 2) @ residual_shares.T)

        least = np.full(len(own), LEAST_SHARE / len(own))
        constraints = (
            {
                "type": "ineq",
                "fun": lambda x: x[-1] - largest(x[:-1]),
                "jac": lambda x: np.column_stack([-slopes(x[:-1]), np.ones(len(own))]),
            },
            {
                "type": "eq",
                "fun": lambda x: x[:-1].sum() - 1,
                "jac": lambda x: np.append(np.ones(len(own)), 0.0),
            },
        )
        ends = Bounds(np.append(least, 0.0), np.append(np.ones(len(own)), inf))
        slope = np.append(np.zeros(len(own)), 1.0)
        solve: Any = minimize  # whose stubs know no constraints of several rows
        solution = solve(
            lambda x: float(x[-1]),
            np.append(own, 1.0),
            jac=lambda _: slope,
            method="SLSQP",
            bounds=ends,
            constraints=constraints,
        )
        better = np.clip(solution.x[:-1], least, 1.0)
        better /= better.sum()
        if not largest(better).max() < WORTHWHILE:
            better = own
        total_weight = sum((item.weight for item in self.items), Fraction(0))
        shares = [Fraction(float(share)).limit_denominator(10**6) for share in better]
        total = sum(shares, Fraction(0))
        names = [item.name for item in self.items]
        return {n: total_weight * share / total for n, share in zip(names, shares, strict=True)}

    def _sizes(self, item: Count) -> list[int]:
        sizes = dict(zip(self.last.by, self.shape, strict=True))
        return [sizes[name] for name in item.by]


def _squared(item: Count, schema: Schema, adjacency: Adjacency) -> float:
    """The square of how far one unit moves a count, in l2."""
    return float(item.added(schema).moves(adjacency).squared)


def weights_of(family: Family, margins: Margins) -> dict[str, float]:
    """One over the variance of each item's noise, as shares of the largest."""
    spread = {item.name: margins.deviation(item.name) for item in family.items}
    least = max(min(spread.values()), 1e-9)
    return {name: (least / max(value, 1e-9)) ** 2 for name, value in spread.items()}


def family_of(schema: Schema, items: Sequence[Item]) -> Family:
    """The family of counts, whose cells are by the keys of all of them.

    Errors: InvalidParameter where conditions, limits or edges differ, and for too many cells.
    """
    counts = tuple(item for item in items if isinstance(item, Count))
    if len(counts) != len(items) or len(items) < 2:
        raise InvalidParameter("post consistent: expected at least two counts")
    last = max(counts, key=lambda item: len(item.by))
    keys = dict.fromkeys([*last.by, *(name for item in counts for name in item.by)])
    if len(keys) > len(last.by):
        edges = {name: edges for item in counts for name, edges in item.edges.items()}
        last = replace(last, by=tuple(keys), edges=edges)
        if last.cells(schema) > MOST_CELLS:
            raise InvalidParameter(
                f"post consistent: the keys of {', '.join(item.name for item in counts)} make "
                f"{last.cells(schema)} cells together; at most {MOST_CELLS}"
            )
    for item in counts:
        same = item.where == last.where and (item.groups, item.per_group) == (
            last.groups,
            last.per_group,
        )
        if not same or any(
            list(item.edges.get(c, ())) != list(last.edges.get(c, ())) for c in item.by
        ):
            raise InvalidParameter(
                f"post consistent: {item.name!r} is no margin of {last.name!r}: same conditions, "
                "limits and edges are needed"
            )
        if schema.unit is not None and (last.groups or last.per_group or 0):
            raise InvalidParameter(
                f"post consistent: {last.name!r} bounds a unit by group: cells do not add up"
            )
        dropping = [
            name
            for name in last.by
            if name not in item.by
            and DROP in (schema.columns[name].missing, getattr(schema.columns[name], "other", ""))
        ]
        if dropping:
            other = next(count.name for count in counts if dropping[0] in count.by)
            raise InvalidParameter(
                f"post consistent: rows without {dropping[0]!r} count in {item.name!r} and not in "
                f"{other!r}; let the column's missing and other be an error, or a key"
            )
    return Family(counts, last, last.shape(schema))


def as_counts(values: Array) -> list[Fraction]:
    """Whole floats as exact numbers."""
    return [Fraction(int(value)) for value in values.ravel()]
