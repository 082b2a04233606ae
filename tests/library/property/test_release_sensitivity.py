"""No unit moves a part by more than its plan says: all small neighbouring tables, real engine.

Every query, under each adjacency, with and without limits on groups; and each bound planted one too
small, which the same comparison must catch.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from dpaudit.families.opaque import ApproxDP
from dpaudit.releases.contributions import Contribution, Moves
from dpaudit.releases.items.averages import Mean, Variance
from dpaudit.releases.items.choices import Quantiles, Top, UnitRows
from dpaudit.releases.items.chosen import ChosenMean, ChosenSum
from dpaudit.releases.items.counts import Affected, Count, Sum
from dpaudit.releases.items.item import Choice, Item, Thresholded
from dpaudit.releases.items.keys import Groups
from dpaudit.releases.items.pairs import Pairs
from dpaudit.releases.items.ranges import Ranges
from dpaudit.releases.items.regression import Regression
from dpaudit.releases.plan import Release
from dpaudit.releases.program import exact_values
from dpaudit.releases.runs import Chosen, Runs
from dpaudit.scope import Adjacency
from dpaudit.tabular import Category, Number, Schema, Table, Text

pa = pytest.importorskip("pyarrow")

BUDGET = ApproxDP(1, Fraction(1, 10**6))
COLUMNS = {
    "age": Number(-1, 2),
    "sex": Category(("f", "m"), missing="drop"),
    "town": Text("drop"),
    "age2": Number(0, 3, 1),
}
ROWS = [
    (-1, "f", "a"),
    (2, "f", "b"),
    (2, "m", "c"),
    (0, None, "a"),
]
PERSONS = Schema("people", COLUMNS, unit="person", rows=2)
SINGLE = Schema("people", COLUMNS)
BYSTANDERS = [(1, "f", "a"), (-1, "m", "b")]

ITEMS: list[Item] = [
    Count(name="count"),
    Count(name="units", per_group=1),
    Count(name="cells", by=("sex",)),
    Count(name="one cell", by=("sex",), groups=1),
    Count(name="bins", by=("age",), edges={"age": (0, 1)}, per_group=1),
    Count(name="women", where={"sex": "f"}),
    Sum(name="sum", column="age"),
    Sum(name="sums", column="age", by=("sex",)),
    Sum(name="sums once", column="age", by=("sex",), groups=1, per_group=1),
    Sum(name="totals", column="age", by=("sex",), unit_total={"from": -1, "to": 2}),
    Sum(name="one total", column="age", unit_total={"from": 0, "to": 3}),
    Sum(name="weighted", column="age", weights="age2", by=("sex",)),
    Sum(name="bounded", column="age", bounds={"from": -1, "to": 1}),
    Mean(name="bounded mean", column="age", bounds={"from": 0}, by=("sex",)),
    Variance(name="bounded variance", column="age", bounds={"from": 0, "to": 1}),
    ChosenSum(name="chosen", column="age", by=("sex",), bounds={"share": "1/10"}),
    ChosenMean(name="mean of chosen", column="age", by=("sex",), bounds={"share": "1/10"}),
    ChosenSum(name="chosen alone", column="age2", bounds={"share": "1/2"}),
    UnitRows(name="unit rows", at=("1/3", "9/10")),
    UnitRows(name="women's rows", at="1/2", where={"sex": "f"}),
    Affected(name="affected", column="age", unit_total={"from": -1, "to": 3}),
    Affected(name="affected rows", column="age2"),
    Mean(name="mean", column="age"),
    Mean(name="ratio", column="age", method="ratio", by=("sex",)),
    Variance(name="variance", column="age"),
    Quantiles(name="quantiles", column="age", at=("1/3", "1/2", "9/10")),
    Quantiles(name="quantile of one", column="age", at="2/3", per_group=1),
    Top(name="top", column="sex"),
    Top(name="top units", column="sex", per_group=1),
    Pairs(name="pairs", by=("sex", "age", "age2"), edges={"age": (0, 1), "age2": (1,)}),
    Groups(name="groups", column="town", delta="1e-7"),
    Groups(name="one group", column="town", delta="1e-7", groups=1, per_group=1),
    Ranges(name="ranges", column="age", edges=(0, 1, 2)),
    Ranges(name="ranges once", column="age", edges=(0, 1, 2), groups=1, per_group=1),
    Regression(name="line", target="age", features=("age2",)),
]


def limited(item: Item) -> bool:
    """Whether it says how much of one unit counts, which asks for a unit."""
    limits = item.groups or item.per_group or getattr(item, "unit_total", None)
    return bool(limits) or isinstance(item, UnitRows)


def units_of(schema: Schema) -> list[tuple[tuple[object, ...], ...]]:
    """Every unit of up to three rows (one more than counts), of four kinds of rows."""
    if schema.unit is None:
        return [(row,) for row in ROWS]
    most = range(schema.rows + 2)
    return [u for n in most for u in itertools.combinations_with_replacement(ROWS, n)]


def values_of(
    items: list[Item], schema: Schema, units: list[tuple[tuple[object, ...], ...]]
) -> dict[str, object]:
    rows = [(i, *row) for i, unit in enumerate(units) for row in unit]
    columns = list(zip(*rows, strict=True)) if rows else [(), (), (), ()]
    table = pa.table(
        {
            "person": pa.array(columns[0], pa.int64()),
            "age": pa.array(columns[1], pa.float64()),
            "sex": pa.array(columns[2], pa.string()),
            "town": pa.array(columns[3], pa.string()),
            "age2": pa.array([a + 1 for a in columns[1]], pa.float64()),
        }
    )
    release = Release("t", schema, Adjacency.ADD_REMOVE, BUDGET, tuple(items))
    return exact_values(release, Table(schema, table).opened("key"))


def vector(values: object, keys: list[str]) -> np.ndarray:
    if isinstance(values, dict):
        return np.array([values.get(k, 0) for k in keys], dtype=float)
    if isinstance(values, Runs):
        return values.at(np.arange(values.sizes.sum())).astype(float)
    if isinstance(values, Chosen):  # at every bound
        return np.array([values.at(place) for place in range(len(values.ends))], dtype=float)
    return np.array(values, dtype=float)


def pairs_of(adjacency: Adjacency, count: int) -> list[tuple[int, int]]:
    """Places of units that may stand for each other; -1 is nobody."""
    if adjacency is Adjacency.REPLACE_ONE:
        return [(a, b) for a in range(count) for b in range(a)]
    return [(a, -1) for a in range(count)]


def excess(part: object, adjacency: Adjacency, gap: np.ndarray) -> dict[str, float]:
    """By how much a difference is above each bound; at most 0 where the bounds hold."""
    if isinstance(part, Choice):
        return {"score": float(np.abs(gap).max()) - part.by(adjacency)}
    moves: Moves = part.moves(adjacency)  # type: ignore[attr-defined]
    size = np.sort(np.abs(gap))[::-1]
    found = {
        "cells": float(np.count_nonzero(size)) - moves.cells,
        "largest": float(size.max()) - moves.largest,
        "absolute": float(size.sum()) - moves.absolute,
        "squared": float(np.square(size).sum()) - moves.squared,
    }
    if moves.worst:
        over = []
        for sizes in moves.worst:
            allowed = [float(s) for s, n in sizes for _ in range(n)]
            allowed += [0.0] * max(0, len(size) - len(allowed))
            over.append(float((size - np.array(allowed[: len(size)])).max()))
        found["worst"] = min(over)
    return found


@pytest.fixture(scope="module")
def moved() -> dict[bool, list[dict[str, np.ndarray]]]:
    """Of either schema: all values with each unit beside the bystanders; last, with nobody."""
    found = {}
    for single, schema in ((False, PERSONS), (True, SINGLE)):
        items = [i for i in ITEMS if not (single and limited(i))]
        others = [(row,) for row in BYSTANDERS]
        tables = [values_of(items, schema, [*others, unit]) for unit in units_of(schema)]
        tables.append(values_of(items, schema, list(others)))
        keys = sorted({k for t in tables for v in t.values() if isinstance(v, dict) for k in v})
        found[single] = [{k: vector(v, keys) for k, v in table.items()} for table in tables]
    return found


def cases() -> list[tuple[Item, bool, Adjacency]]:
    return [
        (item, single, adjacency)
        for item in ITEMS
        for single in (False, True)
        for adjacency in Adjacency
        if not (single and limited(item))
    ]


def largest_excess(moved, item: Item, single: bool, adjacency: Adjacency) -> dict[str, dict]:
    """Per part: the largest excess over each bound, over all pairs of units."""
    tables, schema = moved[single], SINGLE if single else PERSONS
    found: dict[str, dict[str, float]] = {}
    for part in item.parts(schema):
        worst: dict[str, float] = {}
        for a, b in pairs_of(adjacency, len(tables) - 1):
            for gap in np.atleast_2d(tables[a][part.label] - tables[b][part.label]):
                for name, over in excess(part, adjacency, gap).items():
                    worst[name] = max(worst.get(name, -np.inf), over)
        found[part.label] = worst
    return found


@pytest.mark.first_case("item")
@pytest.mark.parametrize(("item", "single", "adjacency"), cases(), ids=str)
def test_no_unit_moves_a_part_further_than_planned(moved, item, single, adjacency):
    for label, worst in largest_excess(moved, item, single, adjacency).items():
        assert max(worst.values()) <= 0, (label, worst)


TIGHT = [
    ("count", "add_remove"),
    ("units", "add_remove"),
    ("cells", "add_remove"),
    ("cells", "replace_one"),
    ("one cell", "replace_one"),
    ("bins", "add_remove"),
    ("women", "zero_out"),
    ("sum", "add_remove"),
    ("sum", "replace_one"),
    ("sums once", "replace_one"),
    ("totals", "replace_one"),
    ("one total", "add_remove"),
    ("weighted", "add_remove"),
    ("bounded", "add_remove"),
    ("bounded mean", "replace_one"),
    ("bounded variance", "add_remove"),
    ("chosen alone", "add_remove"),
    ("unit rows", "add_remove"),
    ("women's rows", "replace_one"),
    ("affected", "add_remove"),
    ("mean", "replace_one"),
    ("ratio", "add_remove"),
    ("variance", "add_remove"),
    ("quantiles", "replace_one"),
    ("quantile of one", "add_remove"),
    ("top", "add_remove"),
    ("groups", "add_remove"),
    ("ranges", "add_remove"),
    ("ranges once", "replace_one"),
    ("line", "add_remove"),
]


@pytest.mark.first_case("name", by=lambda name: name.split()[0])
@pytest.mark.parametrize(("name", "adjacency"), TIGHT)
def test_a_bound_that_is_one_too_small_is_caught(moved, name, adjacency):
    """Some pair of tables reaches the bound, so that a smaller one would be seen to be wrong."""
    item = next(i for i in ITEMS if i.name == name)
    found = largest_excess(moved, item, False, Adjacency(adjacency))
    reached = [
        max(over for bound, over in worst.items() if bound in ("squared", "score", "largest"))
        for worst in found.values()
    ]
    # Of several quantiles one is enough: the others are computed alike.
    assert (max if isinstance(item, Quantiles) else min)(reached) == 0, found


def test_the_engine_without_bounding_would_be_caught(moved):
    """The unit of three rows moves a count by 2 because one row is left out; by 3 it would not."""
    tables, count = moved[False], ITEMS[0]
    three = len(units_of(PERSONS)) - 1
    assert len(units_of(PERSONS)[three]) == 3
    assert tables[three]["count"] - tables[-1]["count"] == 2
    unbounded = replace(PERSONS, rows=3)
    others = [(row,) for row in BYSTANDERS]
    more = values_of([count], unbounded, [*others, units_of(PERSONS)[three]])
    gap = np.array(more["count"]) - tables[-1]["count"]
    (part,) = count.parts(PERSONS)
    assert excess(part, Adjacency.ADD_REMOVE, gap)["largest"] == 1


def test_thresholded_parts_know_how_many_own_keys_a_unit_has(moved):
    for item in ITEMS:
        if not isinstance(item, Groups):
            continue
        (part,) = item.parts(PERSONS)
        assert isinstance(part, Thresholded)
        tables = moved[False]
        # The bystanders have keys a and b; c is the unit's own.
        for table in tables:
            own = table[item.name][np.array(tables[-1][item.name]) == 0]
            assert np.count_nonzero(own) <= part.contribution.groups
            assert own.max(initial=0) <= part.contribution.high


def brute(contribution: Contribution, adjacency: Adjacency) -> list[np.ndarray]:
    """Every difference of two vectors that the contribution allows."""
    span = range(min(contribution.low, 0), max(contribution.high, 0) + 1)
    most = contribution.absolute
    units = [
        np.array(v)
        for v in itertools.product(span, repeat=contribution.cells)
        if np.count_nonzero(v) <= contribution.groups
        and (most is None or np.abs(v).sum() <= most)
        and (not contribution.always or any(contribution.low <= x <= contribution.high for x in v))
    ]
    if contribution.always and contribution.cells == 1:
        units = [np.array([x]) for x in range(contribution.low, contribution.high + 1)]
    if adjacency is Adjacency.REPLACE_ONE:
        return [a - b for a in units for b in units]
    return units


CONTRIBUTIONS = [
    Contribution(1, 1, 0, 3),
    Contribution(1, 1, -2, 3),
    Contribution(1, 1, 2, 3, always=True),
    Contribution(1, 1, -3, -2, always=True),
    Contribution(3, 1, 0, 2),
    Contribution(3, 2, 0, 3, 3),
    Contribution(4, 2, 0, 2, 3),
    Contribution(3, 3, 0, 3, 3),
    Contribution(3, 2, -1, 2),
    Contribution(3, 2, -2, 0),
    Contribution(2, 2, -2, 1, 3),
    Contribution(4, 1, -1, 1),
]


@pytest.mark.parametrize("contribution", CONTRIBUTIONS, ids=str)
@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_moves_bound_every_difference_that_is_allowed(contribution, adjacency):
    moves = contribution.moves(adjacency)

    class Part:
        @staticmethod
        def moves(_: Adjacency) -> Moves:
            return moves

    worst: dict[str, float] = {}
    for gap in brute(contribution, adjacency):
        for name, over in excess(Part, adjacency, gap).items():
            worst[name] = max(worst.get(name, -np.inf), over)
    assert max(worst.values()) <= 0, worst
    assert worst["largest"] == 0
