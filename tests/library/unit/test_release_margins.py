"""Margins of published numbers hold, or say what they leave out; totals stay sums of cells."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from benchmarks import margins
from benchmarks.margins import CASES, COUNTS, CROSSED, GAUSSIAN, PURE, Coverage, coverage, noisy
from dpaudit.errors import InvalidParameter
from dpaudit.families.opaque import ApproxDP
from dpaudit.releases import plan as plans
from dpaudit.releases import post
from dpaudit.releases.attacked import mechanism_of
from dpaudit.releases.families import Family, family_of, weights_of
from dpaudit.releases.items import averages
from dpaudit.releases.items.averages import Mean
from dpaudit.releases.items.choices import Quantiles, Top
from dpaudit.releases.items.counts import Count, Sum
from dpaudit.releases.items.keys import Groups
from dpaudit.releases.items.ranges import Ranges
from dpaudit.releases.plan import Release, release_of
from dpaudit.releases.post import Step
from dpaudit.releases.program import exact_values
from dpaudit.releases.publish import contents_of, published_rows, targets_of
from dpaudit.scope import Adjacency
from dpaudit.tabular import Category, DataRefused, Number, Schema, Table, Text

pa = pytest.importorskip("pyarrow")
pytest.importorskip("duckdb")

DRAWS = 200
# Of a row with coverage .95, so few draws are covered with a probability of 1e-7.
FEWEST = float(binom.ppf(1e-7, DRAWS, 0.95)) / DRAWS
STEPS = list(CASES)


def too_low(found: Sequence[Coverage]) -> list[Coverage]:
    return [row for row in found if row.worst < FEWEST]


@pytest.mark.first_case("step", by=lambda step: step.partition(",")[0])
@pytest.mark.parametrize("step", STEPS)
def test_margins_hold_after_each_step(step: str) -> None:
    """False alarm: at most 1e-7 a row, of up to 40."""
    items, steps = CASES[step]
    assert too_low(coverage(items, steps, GAUSSIAN, DRAWS)) == []


@pytest.mark.quality
@pytest.mark.parametrize("step", STEPS)
def test_margins_hold_in_a_thousand_draws_of_both_noises(step: str) -> None:
    """Coverage of all rows of an item is .95 or more: below .94 with a probability of 8% at most,
    were its rows one; so a fixed seed decides."""
    for budget in (PURE, GAUSSIAN):
        found = coverage(*CASES[step], budget, margins.DRAWS, margins.SEED)
        assert [row for row in found if row.mean < margins.LEAST] == []


# --- the check shown to fail ----------------------------------------------------------------------


def unrounded(row: Any, value: Fraction, to: Fraction, most: Fraction) -> Any:
    return replace(row, value=value, processed=True)


def test_without_the_move_of_rounding_margins_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(post, "_rounded", unrounded)
    low = {row.item for row in too_low(coverage(*CASES["rounded"], GAUSSIAN, DRAWS))}
    assert low >= {"regions", "cells"}


@pytest.mark.quality
def test_without_the_noise_of_least_squares_margins_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    """Margins that are simulated from half of the noise."""
    real = Family.halves

    def halves(self: Family, law: Any, seed: int) -> dict[str, int]:
        return {name: half // 2 for name, half in real(self, law, seed).items()}

    monkeypatch.setattr(Family, "halves", halves)
    assert too_low(coverage(*CASES["consistent"], GAUSSIAN, DRAWS))


def test_without_the_interval_of_clipped_tables_margins_fail(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A table of empty cells, whose totals are measured badly: clipping moves them far."""
    items = (
        Count(name="sexes", by="sex", weight="0.01"),
        Count(name="cells", by=("sex", "age"), edges=AGES),
    )
    names = ("sexes", "cells")
    release = Release(
        "t",
        SCHEMA,
        "add_remove",
        ApproxDP(1, "1e-6"),
        items,
        (Step("consistent", names), Step("non_negative", names)),
    )
    plan = release.plan()
    rng = np.random.default_rng(5)
    empty = {"sexes": (0, 0), "cells": (0,) * 100}

    def missed() -> int:
        rows = [
            row
            for _ in range(40)
            for row in published_rows(plan, noisy(plan, empty, rng))
            if row.item == "sexes"
        ]
        return sum(abs(row.value) > row.error for row in rows)

    assert missed() <= binom.isf(1e-7, 80, 0.05)
    monkeypatch.setattr(post, "_above_zero", lambda row, value: replace(row, value=value))
    assert missed() > binom.isf(1e-7, 80, 0.05)


def test_of_laplace_noise_a_mean_needs_more_than_1_96_deviations(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mean = [item for item in margins.SUMS if item.name == "mean"]
    assert not too_low(coverage(mean, (), PURE, DRAWS))
    real = averages.ratio_error
    monkeypatch.setattr(averages, "ratio_error", lambda *given: real(*given[:-1], 1.2))
    assert too_low(coverage(mean, (), PURE, DRAWS))


# --- tables stay consistent -----------------------------------------------------------------------

AGES = {"age": tuple(range(2, 100, 2))}
SCHEMA = Schema("t", {"age": Number(0, 100), "sex": Category(("f", "m"))})
NESTED = (
    Count(name="all"),
    Count(name="sexes", by="sex"),
    Count(name="cells", by=("age", "sex"), edges={"age": (20, 40, 60, 80)}),
)
NAMES = ("all", "sexes", "cells")
CONSISTENT, ABOVE = Step("consistent", NAMES), Step("non_negative", NAMES)


@pytest.mark.first_case
@pytest.mark.parametrize(
    "steps",
    [
        (CONSISTENT,),
        (CONSISTENT, ABOVE),
        (CONSISTENT, Step("round", NAMES, Fraction(7))),
        (CONSISTENT, ABOVE, Step("round", NAMES, Fraction(10))),
    ],
)
def test_totals_are_the_sums_of_their_cells(steps: tuple[Step, ...]) -> None:
    plan = Release("t", SCHEMA, "add_remove", ApproxDP(1, "1e-6"), NESTED, steps).plan()
    rng = np.random.default_rng(2)
    exact = {"all": (31,), "sexes": (31, 0), "cells": (20, 0, 5, 0, 3, 0, 2, 0, 1, 0)}
    for _ in range(60):
        rows = published_rows(plan, noisy(plan, exact, rng))
        by = {(row.item, row.keys): row.value for row in rows}
        for sex in "fm":
            cells = [v for (item, keys), v in by.items() if item == "cells" and keys[1][1] == sex]
            assert sum(cells) == by["sexes", (("sex", sex),)]
        assert by["all", ()] == sum(v for (item, _), v in by.items() if item == "sexes")
        assert ABOVE not in steps or min(by.values()) >= 0
        unit = steps[-1].to
        assert all(value % unit == 0 for value in by.values())
        assert all(row.error is not None and row.processed for row in rows) or ABOVE in steps


@pytest.mark.parametrize("by", [("region", "sex"), ("sex", "region")])
def test_least_squares_is_that_of_the_matrix(by: tuple[str, str]) -> None:
    """Beside NumPy's solution of the dense problem, with weights that differ."""
    items = (CROSSED[0], CROSSED[1], replace(CROSSED[2], by=by))
    family = family_of(margins.SCHEMA, items)
    rng = np.random.default_rng(0)
    size = int(np.prod(family.shape))
    cells = np.eye(size).reshape(size, *family.shape)
    design = {item.name: family.counts(item, cells).T for item in items}
    seen = {name: rng.normal(size=len(rows)) for name, rows in design.items()}
    weights = {"sexes": 0.3, "regions": 1.0, "cells": 0.7}
    roots = np.concatenate([np.full(len(seen[n]), weights[n] ** 0.5) for n in design])
    matrix, right = np.vstack(list(design.values())), np.concatenate([seen[n] for n in design])
    expected = np.linalg.lstsq(matrix * roots[:, None], right * roots, rcond=None)[0]
    assert family.solved(seen, weights).ravel() == pytest.approx(expected)


def test_margins_without_a_finest_count_get_the_least_squares_of_the_matrix() -> None:
    """Counts by pairs of three columns, beside NumPy's solution; what is rounded adds up."""
    columns = {n: Category(tuple(map(str, range(k)))) for n, k in (("a", 3), ("b", 4), ("c", 2))}
    schema = Schema("t", columns)
    items = tuple(Count(name="".join(by), by=by) for by in (("a", "b"), ("c", "b"), ("c",)))
    family = family_of(schema, items)
    assert family.shape == (3, 4, 2)
    assert family.last not in items
    rng = np.random.default_rng(0)
    cells = np.eye(24).reshape(24, *family.shape)
    design = {item.name: family.counts(item, cells).T for item in items}
    seen = {name: rng.normal(50, 9, size=len(rows)) for name, rows in design.items()}
    weights = {"ab": 0.3, "cb": 1.0, "c": 0.7}
    roots = np.concatenate([np.full(len(seen[n]), weights[n] ** 0.5) for n in design])
    matrix, right = np.vstack(list(design.values())), np.concatenate([seen[n] for n in design])
    expected = np.linalg.lstsq(matrix * roots[:, None], right * roots, rcond=None)[0]
    assert family.solved(seen, weights).ravel() == pytest.approx(expected)
    whole = family.least_squares(seen, weights)
    assert whole.sum(axis=0).T.ravel() == pytest.approx(family.counts(items[1], whole))
    assert np.abs(family.counts(items[0], whole) - matrix[:12] @ expected).max() < 1
    inverse = np.linalg.pinv(sum(weights[n] * design[n].T @ design[n] for n in design))
    variances = family.variances(weights)
    for name, rows in design.items():
        assert variances[name] == pytest.approx(np.diag(rows @ inverse @ rows.T).max())


def test_a_mean_divides_by_the_count_of_its_cells_and_gets_its_part_of_the_budget() -> None:
    table = TABLE | {"items": [*TABLE["items"], {"name": "m", "query": "mean", "column": "x"}]}
    columns = {**TABLE["table"]["columns"], "x": {"kind": "number", "lower": 0, "upper": 9}}
    made = release_of({**table, "table": {"name": "people", "columns": columns}})
    mean = made.items[-1]
    assert isinstance(mean, Mean)
    assert mean.counts == "all"
    plan = made.plan()
    alone = replace(made, items=(*made.items[:-1], replace(mean, counts=None))).plan()
    assert plan.margins.deviation("m/sum") < 0.75 * alone.margins.deviation("m/sum")
    light = {**table["items"][0], "weight": "0.4"}
    columns["x"]["missing"] = "drop"
    for items, dropped in (([light, *table["items"][1:]], False), (table["items"], True)):
        columns["x"]["missing"] = "drop" if dropped else "error"
        other = release_of({**table, "items": items, "table": {"name": "p", "columns": columns}})
        assert other.items[-1].counts is None  # type: ignore[attr-defined]
    with pytest.raises(InvalidParameter, match="counts = 'women': expected a count of the same by"):
        replace(made, items=(*made.items[:-1], replace(mean, counts="women")))


@pytest.mark.quality
def test_many_cells_are_made_consistent_in_seconds() -> None:
    """50,000 cells: a matrix of their normal equations would take 20 GB."""
    columns = {
        "a": Category(tuple(map(str, range(500)))),
        "b": Category(tuple(map(str, range(98)))),
    }
    items = (Count(name="n"), Count(name="a", by="a"), Count(name="ab", by=("a", "b")))
    schema = Schema("t", columns)
    plan = Release("t", schema, "add_remove", ApproxDP(1, "1e-6"), items).plan()
    family = family_of(schema, items)
    rng = np.random.default_rng(0)
    seen = {
        n: rng.integers(-5, 90, size).astype(float)
        for n, size in (("n", 1), ("a", 500), ("ab", 49_000))
    }
    table = family.least_squares(seen, weights_of(family, plan.margins))
    assert table.shape == (500, 98)
    assert table.min() < 0
    clipped = family.non_negative(table, weights_of(family, plan.margins))
    assert clipped.min() == 0


# --- steps that would make numbers wrong ----------------------------------------------------------

WIDE = Schema("t", {"x": Number(-5, 5), "age": Number(0, 100), "sex": Category(("f", "m"), "drop")})
WRONG: dict[str, tuple[tuple[Any, ...], tuple[Step, ...], str]] = {
    "a mean below 0": (
        (Mean(name="m", column="x"),),
        (Step("non_negative", ("m",)),),
        "goes down to -5",
    ),
    "a sum below 0": (
        (Sum(name="s", column="x"),),
        (Step("non_negative", ("s",)),),
        "raise the column's lower",
    ),
    "ranks": ((Top(name="t", column="sex"),), (Step("round", ("t",), Fraction(10)),), "is a top"),
    "a quantile": ((Quantiles(name="q", column="x"),), (Step("round", ("q",)),), "is a quantiles"),
    "ranges": (
        (Ranges(name="r", column="x", edges=(0,)),),
        (Step("non_negative", ("r",)),),
        "is a ranges",
    ),
    "part of a family": (
        (Count(name="n"), Count(name="a", by="age", edges={"age": (50,)})),
        (Step("consistent", ("n", "a")), Step("non_negative", ("a",))),
        "n would no longer fit the others; name all items of the consistent step: n, a",
    ),
    "consistent late": (
        (Count(name="n"), Count(name="a", by="age", edges={"age": (50,)})),
        (Step("round", ("n", "a")), Step("consistent", ("n", "a"))),
        "put consistent first",
    ),
    "non-negative after round": (
        (Count(name="n"), Count(name="a", by="age", edges={"age": (50,)})),
        (
            Step("consistent", ("n", "a")),
            Step("round", ("n", "a")),
            Step("non_negative", ("n", "a")),
        ),
        "put round last",
    ),
    "rows that only one counts": (
        (Count(name="n"), Count(name="s", by="sex")),
        (Step("consistent", ("n", "s")),),
        "rows without 'sex' count in 'n' and not in 's'",
    ),
    "to no whole number": (
        (Count(name="n"), Count(name="a", by="age", edges={"age": (50,)})),
        (Step("consistent", ("n", "a")), Step("round", ("n", "a"), Fraction(1, 2))),
        "counts need a whole number",
    ),
}


@pytest.mark.parametrize(("items", "steps", "said"), WRONG.values(), ids=WRONG)
def test_steps_that_make_numbers_wrong_are_refused(items: Any, steps: Any, said: str) -> None:
    with pytest.raises(InvalidParameter, match=said):
        Release("t", WIDE, "add_remove", ApproxDP(1, "1e-6"), items, steps)


def test_counts_that_do_not_nest_are_not_rounded_together() -> None:
    names = ("sexes", "regions", "cells")
    steps = (Step("consistent", names), Step("round", names, Fraction(5)))
    with pytest.raises(InvalidParameter, match="do not nest"):
        Release("t", margins.SCHEMA, "add_remove", GAUSSIAN, CROSSED, steps)


# --- what margins leave out -----------------------------------------------------------------------

VISITS = Schema(
    "visits",
    {"cost": Number(0, 1000, missing="drop")},
    unit="person",
    entity="person",
    rows=5,
)


def rows_of(schema: Schema, *items: Any, post: tuple[Step, ...] = ()) -> dict[str, Any]:
    plan = Release("t", schema, "add_remove", ApproxDP(1, "1e-6"), items, post).plan()
    rng = np.random.default_rng(1)
    exact = {label: (50,) * part.cells for label, part in plan.parts.items()}
    drawn = noisy(plan, exact, rng)
    table = contents_of(plan, drawn, published_rows(plan, drawn), targets_of(Path("p"), "r"))
    return json.loads(table[Path("p/r.json")])


@pytest.mark.quality
def test_a_margin_of_cut_rows_and_clamped_values_says_so() -> None:
    whole = rows_of(VISITS, Sum(name="s", column="cost"), Count(name="n", per_group=1))
    by = {row["item"]: row for row in whole["values"]}
    assert by["s"]["error_covers"] == "noise only"
    assert by["s"]["not_covered"] == (
        "rows of one person beyond 5 are left out; rows without cost are left out; values of cost "
        "outside 0 to 1000 count as the nearest bound, and others as the nearest multiple of 1"
    )
    # Persons are counted, whatever the number of their rows.
    assert (by["n"]["error_covers"], by["n"]["not_covered"]) == ("all (noise)", "")


def test_a_schema_that_allows_neither_has_margins_of_everything() -> None:
    strict = replace(VISITS, columns={"cost": Number(0, 1000, outside="error")}, excess="error")
    (row,) = rows_of(strict, Sum(name="s", column="cost"))["values"]
    assert (row["error_covers"], row["not_covered"]) == ("all (noise)", "")
    assert strict.digest != VISITS.digest
    assert "excess" not in VISITS.row()
    people = {"person": [1] * 7 + [2], "cost": [10.0] * 6 + [1000.5, 2000.0]}
    with pytest.raises(
        DataRefused, match=r"more rows than 5 in 2 rows.*between its steps in 2 rows"
    ):
        Table(strict, pa.table(people)).opened("k").check()
    Table(VISITS, pa.table(people)).opened("k").check()
    fine = {"person": [1] * 5, "cost": [0.0, 1000.0, 3.0, 2.0, 999.0]}
    Table(strict, pa.table(fine)).opened("k").check()


def test_steps_of_a_tenth_hold_what_is_written_in_tenths() -> None:
    schema = Schema("t", {"x": Number("-1", "900000", step="0.1", outside="error")})
    values = [0.1, 0.3, 0.1 + 0.2, 899999.9, 123456.7, -0.7]
    Table(schema, pa.table({"x": values})).opened("k").check()
    with pytest.raises(DataRefused, match="in 1 row"):
        Table(schema, pa.table({"x": [*values, 123456.75]})).opened("k").check()


def test_the_rounded_value_stands_alone_and_with_a_margin() -> None:
    items = (Count(name="n"), Count(name="sexes", by="sex"))
    step = Step("round", ("n",), Fraction(10_000))
    whole = rows_of(SCHEMA, *items, post=(step,))
    first = whole["values"][0]
    assert first["value"] == "0"
    assert Fraction(first["error_95"]) > 5000
    assert first["error_covers"] == "all (noise and processing)"
    assert set(whole["noisy"]) == {"sexes"}
    assert all("10000" in row["note"] for row in whole["values"] if row["item"] == "n")


def test_the_metadata_of_the_csv_states_suppression_and_rounding(tmp_path: Path) -> None:
    """Column by column as the CSV has them, by the names that the W3C gives."""
    schema = Schema("t", {"town": Text(), "sex": Category(("f", "m"))})
    items = (Groups(name="towns", column="town", delta="1e-7"), Count(name="n"))
    asked = Release(
        "t", schema, "add_remove", ApproxDP(1, "1e-6"), items, (Step("round", ("n",), 5),)
    )
    plan = asked.plan()
    drawn = {"towns": {"a": 70}, "n": [72]}
    rows, targets = published_rows(plan, drawn), targets_of(tmp_path, "release")
    contents = contents_of(plan, drawn, rows, targets)
    found = json.loads(contents[tmp_path / "release.csv-metadata.json"])
    assert found["@context"] == "http://www.w3.org/ns/csvw"
    assert found["url"] == "release.csv"
    names = [column["name"] for column in found["tableSchema"]["columns"]]
    assert names == contents[targets["csv"]].decode().splitlines()[0].split(",")
    threshold = int(plan.leaves["towns"].threshold)  # type: ignore[union-attr]
    shown, rounded = (note["rule"] for note in found["notes"])
    assert f"noisy count is at least {threshold}; all others are suppressed" in shown
    assert "round to 5: n" in rounded
    assert mechanism_of(plan).setting.notes == (shown, rounded)
    assert "ApproxDP(epsilon=1, delta=0.000001)" in found["dc:description"]


def test_exact_values_of_a_family_add_up_through_the_engine() -> None:
    data = {"age": [5, 5, 60, 99], "sex": ["f", "m", "m", "m"]}
    release = Release("t", SCHEMA, "add_remove", ApproxDP(1, "1e-6"), NESTED)
    exact = exact_values(release, Table(SCHEMA, pa.table(data)).opened("k"))
    family = family_of(SCHEMA, NESTED)
    table = np.array(exact["cells"], dtype=float).reshape(family.shape)
    for item in NESTED:
        assert family.counts(item, table).tolist() == list(map(float, exact[item.name]))


@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
def test_the_margin_of_all_cells_holds_for_all_of_them_at_once(noise: str) -> None:
    """4,000 draws of 40 cells (false alarm: 2 in 1,000 of seeds); one cell's margin fails."""
    keys = Category(tuple(map(str, range(40))))
    schema = Schema("t", {"key": keys})
    item = Count(name="n", by="key", noise=noise)
    plan = Release("t", schema, "add_remove", ApproxDP("0.1", "1e-6"), (item,)).plan()
    drawn = np.abs(plan.margins.draws("n", 40 * 4000, np.random.default_rng(8)).reshape(4000, 40))
    together = (drawn <= plan.margins.half_of_all("n", 40)).all(axis=1).mean()
    assert 0.94 <= together <= 0.97
    assert (drawn <= plan.margins.half("n")).all(axis=1).mean() < 0.3
    assert plan.margins.half_of_all("n", 1) == plan.margins.half("n")


# --- weights of counts that are made consistent, and what is done by default ----------------------


def largest_variance(items: Sequence[Count], weights: Sequence[Any]) -> float:
    """Over those of each item alone at its own weight; by NumPy's inverse of the dense problem."""
    family = family_of(margins.SCHEMA, [*items])
    size = int(np.prod(family.shape))
    cells = np.eye(size).reshape(size, *family.shape)
    design = {item.name: family.counts(item, cells).T for item in items}
    gram = sum(
        float(w) * design[item.name].T @ design[item.name]
        for item, w in zip(items, weights, strict=True)
    )
    covariance = np.linalg.inv(gram)
    own = [float(item.weight) for item in items]
    return max(
        float(np.diag(design[item.name] @ covariance @ design[item.name].T).max()) * weight
        for item, weight in zip(items, own, strict=True)
    )


FAMILIES = {
    "nested": COUNTS,
    "crossed": CROSSED,
    "no total": (CROSSED[0], CROSSED[2]),
    "weighted": (replace(COUNTS[0], weight=Fraction(5)), *COUNTS[1:]),
}


@pytest.mark.parametrize("name", FAMILIES)
def test_no_weights_make_the_largest_error_of_consistent_counts_smaller(name: str) -> None:
    """200 random choices of the same sum, and the variances are those of the dense inverse."""
    items = FAMILIES[name]
    family = family_of(margins.SCHEMA, items)
    found = family.weights(margins.SCHEMA, Adjacency.ADD_REMOVE)
    assert sum(found.values()) == sum(item.weight for item in items)
    weights = [float(found[item.name]) for item in items]
    best = largest_variance(items, weights)
    variances = family.variances(dict(zip(found, weights, strict=True)))
    shown = max(variances[item.name] * float(item.weight) for item in items)
    assert shown == pytest.approx(best)
    assert best <= largest_variance(items, [item.weight for item in items]) <= 1 + 1e-9
    rng = np.random.default_rng(1)
    for other in rng.dirichlet(np.ones(len(items)), 200) * sum(weights):
        assert best <= largest_variance(items, list(other)) * 1.01


def test_weights_for_the_margins_that_are_asked_give_smaller_errors() -> None:
    """Four nested counts of 120 cells: 12% in each number, at the same budget."""
    columns = {n: Category(tuple(map(str, range(k)))) for n, k in (("a", 2), ("b", 6), ("c", 10))}
    schema = Schema("d", columns)
    keys = ((), ("c",), ("b", "c"), ("a", "b", "c"))
    items = tuple(Count(name="".join(by) or "all", by=by) for by in keys)
    step = Step("consistent", tuple(item.name for item in items))

    def largest() -> int:
        budget = ApproxDP("1/5", "1e-6")
        return max(
            Release("t", schema, "add_remove", budget, items, (step,)).plan().halves.values()
        )

    best = largest()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plans, "weights_for", lambda *arguments: {})
        before = largest()
    assert best < 0.92 * before


TABLE: dict[str, Any] = {
    "title": "t",
    "adjacency": "add_remove",
    "budget": {"epsilon": 1, "delta": "1e-6"},
    "table": {
        "name": "people",
        "columns": {
            "sex": {"kind": "category", "keys": ["f", "m"]},
            "town": {"kind": "category", "keys": ["a", "b", "c"]},
        },
    },
    "items": [
        {"name": "all", "query": "count"},
        {"name": "cells", "query": "count", "by": ["sex", "town"]},
        {"name": "sexes", "query": "count", "by": "sex"},
        {"name": "women", "query": "count", "by": "town", "where": {"sex": "f"}},
    ],
}


def test_counts_of_one_table_are_consistent_unless_the_plan_says_other_steps() -> None:
    (step,) = release_of(TABLE).post
    assert (step.kind, set(step.items)) == ("consistent", {"all", "cells", "sexes"})
    assert release_of(TABLE | {"post": []}).post == ()
    stated = [{"step": "non_negative", "items": ["all"]}]
    assert [step.kind for step in release_of(TABLE | {"post": stated}).post] == ["non_negative"]
    assert release_of(TABLE | {"items": TABLE["items"][:1]}).post == ()
