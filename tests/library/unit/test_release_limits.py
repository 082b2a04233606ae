"""What a plan accepts at its limits a release does, and what is too large a plan refuses."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpaudit.errors import InvalidParameter
from dpaudit.families.opaque import ApproxDP, PureDP
from dpaudit.kernels.query import Records
from dpaudit.releases import plan as plans
from dpaudit.releases import program
from dpaudit.releases.items.averages import Mean, Variance
from dpaudit.releases.items.by_name import QUERIES
from dpaudit.releases.items.choices import Quantiles, Top, UnitRows
from dpaudit.releases.items.chosen import ChosenMean, ChosenSum
from dpaudit.releases.items.counts import Count, Sum
from dpaudit.releases.items.item import Item
from dpaudit.releases.items.pairs import Pairs
from dpaudit.releases.items.ranges import Ranges
from dpaudit.releases.items.regression import Regression
from dpaudit.releases.plan import Release
from dpaudit.releases.program import GeneratedTables, exact_values
from dpaudit.releases.programs import Program
from dpaudit.releases.publish import NO_LEDGER, publish
from dpaudit.tabular import Category, Number, Schema, Table, engine

pa = pytest.importorskip("pyarrow")
pytest.importorskip("duckdb")

CELLS, PLACES, DRAWS = 24, 40, 9  # stand for the limits, which take minutes
AT: dict[str, Any] = {"by": "x", "name": "item"}


def edges(cells: int) -> dict[str, Any]:
    return {"edges": {"x": tuple(range(1, cells))}}


def keys(size: int) -> Schema:
    names = tuple(f"k{i}" for i in range(size))
    return Schema("t", {"x": Category(names), "y": Number(0, 9)})


def numbers(most: int, more: int = 0) -> Schema:
    columns = {"x": Number(0, most), "y": Number(0, 9)}
    return Schema("t", columns | {f"f{i}": Number(0, 9) for i in range(more)})


# Of each query an item and its schema by size, and the largest size that fits.
SIZED: dict[str, tuple[Callable[[int], tuple[Item, Schema]], int]] = {
    "count": (lambda n: (Count(**AT, **edges(n)), numbers(99)), CELLS),
    "sum": (lambda n: (Sum(**AT, **edges(n), column="y"), numbers(99)), CELLS),
    "sum, bounds.share": (
        lambda n: (ChosenSum(name="item", column="x", bounds={"share": "0.1"}), numbers(n - 1)),
        PLACES,
    ),
    "mean, bounds.share": (
        lambda n: (ChosenMean(name="item", column="x", bounds={"share": "0.1"}), numbers(n - 1)),
        PLACES,
    ),
    "mean": (lambda n: (Mean(**AT, **edges(n), column="y"), numbers(99)), CELLS // 2),
    "variance": (lambda n: (Variance(**AT, **edges(n), column="y"), numbers(99)), CELLS // 3),
    "quantiles": (lambda n: (Quantiles(name="item", column="x"), numbers(n - 1)), PLACES),
    "unit_rows": (
        lambda n: (UnitRows(name="item"), replace(numbers(9), unit="person", rows=n)),
        PLACES,
    ),
    # The largest of its tables has two bins of y for each of x.
    "pairs": (
        lambda n: (
            Pairs(
                name="item",
                by=("x", "y", "f0"),
                edges={**edges(n)["edges"], "y": (5,), "f0": (5,)},
            ),
            numbers(99, 1),
        ),
        CELLS // 2,
    ),
    "top": (lambda n: (Top(name="item", column="x"), keys(n)), PLACES),
    # Its leaves are filled up to a power of two: 8 + 4 + 2 numbers, then 16 + 8 + 4 + 2.
    "ranges": (
        lambda n: (
            Ranges(name="item", column="x", edges=tuple(range(1, n))),
            numbers(99),
        ),
        8,
    ),
    # A number for each column and pair of columns: 1 + 2 + 3, then 1 + 3 + 6.
    "regression": (
        lambda n: (
            Regression(name="item", target="y", features=tuple(f"f{i}" for i in range(n))),
            numbers(9, n),
        ),
        1,
    ),
}
# Keys are found in the data, draws are the author's own, and at most three numbers are published.
UNSIZED = {"groups", "program", "affected"}


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "MOST_CELLS", CELLS)
    monkeypatch.setattr(plans, "MOST_CELLS", CELLS)
    monkeypatch.setattr(engine, "MOST_PLACES", PLACES)
    monkeypatch.setattr(plans, "MOST_DRAWS", DRAWS)


def release(item: Item, schema: Schema) -> Release:
    return Release("t", schema, "add_remove", ApproxDP(1, "1e-6"), (item,))


def table(schema: Schema) -> Any:
    """Three rows with the first value of every column."""
    first = {n: c.keys[0] if isinstance(c, Category) else 1 for n, c in schema.columns.items()}
    units = {} if schema.unit is None else {schema.unit: "a"}
    return pa.table({name: [value] * 3 for name, value in (first | units).items()})


def test_every_query_has_its_limits_tried() -> None:
    assert set(SIZED) | UNSIZED == set(QUERIES) | {Program.query}


@pytest.mark.first_case
@pytest.mark.long_cases(
    "sum, bounds.share",
    "mean, bounds.share",
    "variance",
    "quantiles",
    "unit_rows",
    "pairs",
    "top",
    "regression",
)
@pytest.mark.parametrize("query", SIZED)
@pytest.mark.usefixtures("small")
def test_a_release_does_what_its_plan_accepts_at_the_limit(query: str, tmp_path: Path) -> None:
    made, largest = SIZED[query]
    item, schema = made(largest)
    assert item.query == query.partition(",")[0]
    plan = release(item, schema).plan()
    done = publish(plan, table(schema), tmp_path, ledger=NO_LEDGER, trials=0)
    assert done.rows


@pytest.mark.parametrize("query", SIZED)
@pytest.mark.usefixtures("small")
def test_a_plan_refuses_one_more_in_the_words_of_the_engine(query: str) -> None:
    """The engine's own refusal, where it has one, is the plan's."""
    made, largest = SIZED[query]
    asked = release(*made(largest + 1))
    with pytest.raises(InvalidParameter, match="at most") as planned:
        asked.plan()
    if query in ("count", "sum", "quantiles", "top"):
        with pytest.raises(InvalidParameter, match=re.escape(str(planned.value))):
            exact_values(asked, Table(asked.schema, table(asked.schema)).opened("k"))


@pytest.mark.quality
@pytest.mark.usefixtures("small")
def test_what_the_engine_alone_would_refuse_is_refused_after_the_charge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the plan's own question this is what happens: it is shown to be needed."""
    item, schema = SIZED["quantiles"][0](PLACES + 1)
    monkeypatch.setattr(plans, "refuse_groups", lambda *_: None)
    plan = release(item, schema).plan()
    with pytest.raises(Exception, match="interrupted after it was charged"):
        publish(plan, table(schema), tmp_path, ledger=NO_LEDGER, trials=0)


@pytest.mark.usefixtures("small")
def test_items_count_together() -> None:
    schema = numbers(99)
    halves = [Count(name=name, by="x", **edges(CELLS // 2)) for name in ("a", "b")]
    asked = Release("t", schema, "add_remove", ApproxDP(1, "1e-6"), tuple(halves))
    assert asked.plan()
    more = replace(asked, items=(*halves, Count(name="c")))
    with pytest.raises(InvalidParameter, match="25 numbers with noise; at most 24"):
        more.plan()
    tops = Top(name="top", column="x", k=DRAWS + 1)
    with pytest.raises(InvalidParameter, match="10 draws of noise"):
        release(tops, keys(PLACES)).plan()


FINE = Schema(
    "t", {"x": Number(-(10**5), 10**5, "0.5"), "key": Category(tuple(map(str, range(4000))))}
)


def attacked() -> tuple[GeneratedTables, Records]:
    """A choice on a fine grid and one among many keys, on generated units with any numbers."""
    items = (
        Quantiles(name="median", column="x", at=("1/2", "1/7"), where={"x": {"from": -77.5}}),
        Top(name="top", column="key", k=2),
    )
    rng = np.random.default_rng(4)
    values = np.stack(
        [
            rng.random((50, 1)) * 2 - 0.5,
            rng.choice([np.nan, 1e9, -1e9, 0.3, -77.5, *rng.normal(0, 4e4, 30)], (50, 1)),
            rng.choice([np.nan, 3999, 4000, -1, *rng.integers(0, 4000, 30)], (50, 1)),
        ],
        axis=-1,
    )
    schema = replace(FINE, columns={n: replace(c, missing="drop") for n, c in FINE.columns.items()})
    return GeneratedTables(Release("t", schema, "add_remove", ApproxDP(1, "1e-6"), items)), Records(
        values
    )


def changes(reader: GeneratedTables, records: Records) -> dict[str, bool]:
    """Whether scores of a generated table change where its reader says that they may, alone."""
    parts = [part for item in reader.release.items for part in item.parts(reader.release.schema)]
    found = reader.values(records)
    return {
        part.label: set(found[part.label].firsts.tolist()) <= set(reader.starts(part).tolist())
        for part in parts
    }


def test_the_attack_s_runs_of_candidates_hold_one_score_each() -> None:
    reader, records = attacked()
    assert all(changes(reader, records).values())
    assert max(len(reader.starts(p)) for i in reader.release.items for p in i.parts(FINE)) < 1100


def test_generated_values_that_are_not_listed_would_cut_the_attack_s_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What putting generated values on listed places is for."""
    monkeypatch.setattr(GeneratedTables, "_below", lambda _, name, codes: codes.astype(np.int64))
    assert not any(changes(*attacked()).values())


def test_noise_that_no_sampler_draws_is_refused_by_the_plan() -> None:
    """A sum of 2^51 steps at epsilon 1/4 has Laplace noise beyond 2^52."""
    schema = Schema("t", {"x": Number(0, 2**51)})
    asked = Release("t", schema, "add_remove", PureDP("0.25"), (Sum(name="s", column="x"),))
    with pytest.raises(InvalidParameter, match=r"outside .*; choose a larger step"):
        asked.plan()
    assert replace(asked, budget=PureDP(1)).plan()


@pytest.mark.quality
def test_tables_are_asked_of_the_engine_once_and_told_apart_by_units_rows_and_numbers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Random tables, each twice: answers that are kept are those of a reader that keeps none."""
    schema = Schema("t", {"x": Number(0, 9)}, unit="u", entity="person", rows=1)
    items = (Sum(name="s", column="x"), Count(name="c"))
    release = Release("t", schema, "add_remove", PureDP(1), items)
    rng, asked = np.random.default_rng(2), []

    def counted(*given: Any) -> Any:
        asked.append(given)
        return exact_values(*given)

    monkeypatch.setattr(program, "exact_values", counted)
    reader = GeneratedTables(release)
    tables = [
        np.stack([rng.choice([0.0, 1.0], (2, 2)), rng.choice([0.0, -0.0, 1.0, 2.0], (2, 2))], -1)
        for _ in range(40)
    ]
    for values in [*tables, *tables]:
        fresh = GeneratedTables(release).values(Records(values))
        assert reader.values(Records(values)) == fresh
    assert len(asked) - 80 <= 40
