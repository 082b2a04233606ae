"""Synthetic records: margins that stay the published ones, and files that are verified."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpaudit.certificate.publish import confirmed
from dpaudit.check.file import read
from dpaudit.errors import InvalidParameter
from dpaudit.releases import synthetic
from dpaudit.releases.generator import generator
from dpaudit.releases.items.counts import Count
from dpaudit.releases.plan import Plan, release_of
from dpaudit.releases.program import exact_values
from dpaudit.releases.publish import NO_LEDGER, draw, publish, published_rows
from dpaudit.releases.published import differences
from dpaudit.releases.synthetic import Synthetic, synthesised, tree_of
from dpaudit.tabular import Table

pa = pytest.importorskip("pyarrow")
pytest.importorskip("duckdb")

PLAN: dict[str, Any] = {
    "title": "records",
    "adjacency": "add_remove",
    "budget": {"rho": 1},
    "table": {
        "name": "people",
        "columns": {
            "sex": {"kind": "category", "keys": ["f", "m"]},
            "age": {"kind": "number", "lower": 0, "upper": 99},
            "since": {"kind": "period", "every": "year", "lower": "2020", "upper": "2022"},
        },
    },
    "synthetic": {"columns": ["sex", "age", "since"], "edges": {"age": [20, 60]}},
}


def table(size: int = 3000) -> Any:
    """Women are old, the old came early: sex and year depend on each other by age alone."""
    rng = np.random.default_rng(3)
    sex = rng.integers(0, 2, size)
    age = np.where(sex == 0, rng.integers(50, 100, size), rng.integers(0, 70, size))
    since = np.where(age >= 60, 2020, 2020 + rng.integers(1, 3, size))
    return pa.table({"sex": ["fm"[s] for s in sex], "age": age, "since": since})


def plan_of(**changes: Any) -> Plan:
    return release_of({**PLAN, **changes}).plan()


def noisy(plan: Plan, seed: int) -> tuple[dict[str, list[int]], dict[str, np.ndarray]]:
    """The plan's noisy counts by the public law of its noise, and the true ones."""
    values = exact_values(plan.release, Table(plan.release.schema, table()).opened("k"))
    true = {name: np.array(value) for name, value in values.items()}
    rng = np.random.default_rng(seed)
    drawn = {n: (v + plan.margins.draws(n, v.size, rng)).astype(int) for n, v in true.items()}
    return {name: value.tolist() for name, value in drawn.items()}, true


def counts(made: synthetic.Made, names: tuple[str, ...], sizes: tuple[int, ...]) -> np.ndarray:
    found = np.zeros(sizes)
    places = [made.columns.index(name) for name in names]
    np.add.at(found, tuple(made.codes[:, place] for place in places), 1)
    return found


def test_margins_of_the_tree_are_those_that_were_published() -> None:
    plan = plan_of(budget={"rho": 10**6})  # no noise to speak of
    drawn, true = noisy(plan, 1)
    made = synthesised(plan, published_rows(plan, drawn))
    assert made is not None
    assert len(made.records) == 3000
    sizes = {"sex": 2, "age": 3, "since": 3}
    for item in plan.release.items:
        assert isinstance(item, Count)
        shape = tuple(sizes[name] for name in item.by)
        apart = np.abs(counts(made, item.by, shape) - true[item.name].reshape(shape)).max()
        # sex and since are no edge of the tree: their table is that of independence given age.
        assert apart <= (60 if set(item.by) == {"sex", "since"} else 4)
    ages = {int(row[1]) for row in made.records}
    assert (min(ages), max(ages), len(ages)) == (0, 99, 100)
    assert {row[2] for row in made.records} == {"2020", "2021", "2022"}


def test_a_tree_of_the_least_information_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_of(budget={"rho": 10**6})
    drawn, _ = noisy(plan, 1)
    information = synthetic._information
    monkeypatch.setattr(synthetic, "_information", lambda table: -information(table))
    made = synthesised(plan, published_rows(plan, drawn))
    assert made is not None
    assert max(float(row.value or 0) for row in made.rows) > 100


@pytest.mark.quality
def test_the_bound_of_each_margin_holds_in_nineteen_of_twenty() -> None:
    """Of 100 draws each count is outside in 5 on average; false alarm: below 10^-6 with 20."""
    plan = plan_of(budget={"rho": "0.05"})
    sizes = {"sex": 2, "age": 3, "since": 3}
    outside = np.zeros(3)
    for seed in range(100):
        drawn, true = noisy(plan, seed)
        made = synthesised(plan, published_rows(plan, drawn))
        assert made is not None
        for place, (item, row) in enumerate(zip(plan.release.items, made.rows, strict=True)):
            assert isinstance(item, Count)
            bound = float(row.note.split("within ")[1].split(" of")[0])
            shape = tuple(sizes[name] for name in item.by)
            cell = counts(made, item.by, shape).ravel()[0]
            outside[place] += abs(cell - true[item.name][0]) > bound
    assert outside.max() <= 20


@pytest.mark.quality
def test_counts_of_the_plan_are_used_and_only_missing_pairs_are_added() -> None:
    edges = {"age": [20, 60]}
    items = [
        {"name": "all", "query": "count", "by": ["age", "sex"], "edges": edges, "weight": 3},
        {"name": "by sex", "query": "count", "by": "sex"},
        {"name": "women", "query": "count", "where": {"sex": "f"}},
    ]
    asked = {**PLAN["synthetic"], "share": "0.5"}
    release = release_of({**PLAN, "items": items, "synthetic": asked})
    added = release.items[3:]
    assert [item.name for item in added] == ["synthetic sex and since", "synthetic age and since"]
    assert sum(item.weight for item in added) == sum(item.weight for item in release.items[:3])
    plan = release.plan()
    drawn, _ = noisy(plan, 1)
    made = synthesised(plan, published_rows(plan, drawn))
    assert made is not None
    assert [row.keys[0][1] for row in made.rows] == ["age, sex", "sex", "sex, since", "age, since"]


def test_records_of_no_rows_are_none() -> None:
    plan = plan_of()
    nothing = {part.label: [-3] * part.cells for part in plan.parts.values()}  # type: ignore[union-attr]
    made = synthesised(plan, published_rows(plan, nothing))
    assert made is not None
    assert made.records == []


def test_a_number_of_records_is_kept() -> None:
    plan = plan_of(synthetic={**PLAN["synthetic"], "records": 10})
    drawn, _ = noisy(plan, 1)
    made = synthesised(plan, published_rows(plan, drawn))
    assert made is not None
    assert len(made.records) == 10
    assert all("scaled to the rows counted" in row.note for row in made.rows)


def test_a_column_that_no_pair_joins_to_the_others_is_independent() -> None:
    first, second = np.array([[5.0, 0.0], [0.0, 5.0]]), np.array([1.0, 9.0])
    tree = tree_of({("a", "b"): [(first, 1.0)], ("c",): [(second, 1.0)]}, {"a": 2, "b": 2, "c": 2})
    assert tree.order == ("a", "b", "c")
    assert tree.tables["c"] == pytest.approx(np.outer([5, 5], [0.1, 0.9]), abs=0.6)


@pytest.mark.quality
def test_records_are_published_verified_and_a_changed_cell_is_named(tmp_path: Path) -> None:
    done = publish(plan_of(), table(), tmp_path, ledger=NO_LEDGER, trials=300)
    path = tmp_path / "release.synthetic.csv"
    assert path in done.files
    rows = list(csv.reader(path.open()))
    assert rows[0] == ["sex", "age", "since"]
    assert abs(len(rows) - 3000) < 100
    (file,) = (f for f in done.files if f.parent != tmp_path and f.suffix == ".json")
    statement, _ = confirmed(read(file))
    assert "by a tree of their counts" in json.dumps(statement["predicate"])
    assert differences(statement, file, tmp_path) == []
    content = path.read_text()
    path.write_text(content.replace("f,", "m,", 1))
    (said,) = differences(statement, file, tmp_path)
    assert said.startswith("release.synthetic.csv, row ")
    path.unlink()
    assert differences(statement, file, tmp_path) == ["release.synthetic.csv: missing"]


def chosen_plan(**changes: Any) -> Plan:
    """Each column is counted, and two pairs are chosen and counted, in one plan."""
    edges = {"age": [20, 60]}
    names = ("sex", "age", "since")
    singles = [{"name": f"by {n}", "query": "count", "by": n} for n in names]
    singles[1]["edges"] = edges
    pairs = {"name": "pairs", "query": "pairs", "by": list(names), "edges": edges, "k": 2}
    items = [*singles, pairs | {"share": "1/4", "weight": 3, **changes}]
    return plan_of(items=items, budget={"rho": 4})


def test_pairs_are_chosen_and_counted_for_records_in_one_plan() -> None:
    """The two that depend most are the tree, and no pair is added."""
    plan = chosen_plan()
    assert [item.name for item in plan.release.items] == ["by sex", "by age", "by since", "pairs"]
    values = exact_values(plan.release, Table(plan.release.schema, table()).opened("k"))
    rows = published_rows(plan, draw(plan, values))
    chosen = [tuple(row.text.split(" and ")) for row in rows if row.text]
    distances = {dict(row.keys)["counts by"] for row in rows if row.item == "synthetic"}
    assert distances == {"sex", "age", "since", *(", ".join(pair) for pair in chosen)}
    made = synthesised(plan, [row for row in rows if row.item != "synthetic"])
    assert made is not None
    cells = {name: table()[name].to_numpy(zero_copy_only=False) for name in table().column_names}
    codes = {
        "sex": (cells["sex"] == "m").astype(int),
        "age": np.digitize(cells["age"], [20, 60]),
        "since": cells["since"] - 2020,
    }
    sizes = {"sex": 2, "age": 3, "since": 3}
    # Two pairs of three columns are a tree, whose counts the records keep.
    for one, other in chosen:
        true = np.zeros((sizes[one], sizes[other]))
        np.add.at(true, (codes[one], codes[other]), 1)
        assert np.abs(counts(made, (one, other), true.shape) - true).max() < 60


@pytest.mark.quality
def test_without_the_chosen_counts_records_would_not_keep_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Synthetic, "chooses", lambda self, item: False)
    names = [item.name for item in chosen_plan().release.items]
    assert "synthetic sex and since" in names


def test_a_column_of_chosen_pairs_is_counted_alone() -> None:
    """A pair that is not chosen counts no column."""
    plan = {**PLAN, "items": [{"name": "n", "query": "count", "by": "sex"}]}
    pairs = {"name": "p", "query": "pairs", "by": ["sex", "age", "since"], "share": "1/4"}
    plan["items"].append(pairs | {"edges": {"age": [20, 60]}})
    with pytest.raises(InvalidParameter, match="or a count by it alone where pairs are chosen"):
        release_of(plan)


def test_a_membership_audit_takes_the_plan_as_a_generator() -> None:
    pytest.importorskip("sklearn")
    from dpaudit.membership.data import Data
    from dpaudit.membership.synthetic import SyntheticTarget

    plan = plan_of()
    rng = np.random.default_rng(0)
    ends = ((0, 2), (0, 100), (2020, 2023))
    data = Data(np.stack([rng.integers(*end, 50) for end in ends], axis=1).astype(float))
    target = SyntheticTarget(generator(plan), "density_ratio", reference=data)
    model = target.fit(data, rng)
    assert model.shape[1] == 3
    assert set(np.unique(model[:, 2])) <= {2020, 2021, 2022}
    assert np.isfinite(target.score(model, data)).all()
    other = replace(plan.release, synthetic=Synthetic(("age", "sex"), edges={"age": (20, 60)}))
    with pytest.raises(InvalidParameter, match="all its columns, in order"):
        generator(other.plan())


REFUSED = [
    ({"columns": ["sex"]}, "two or more"),
    ({"columns": ["sex", "sex"]}, "none twice"),
    ({"columns": ["sex", "town"]}, "no column 'town'"),
    ({"columns": ["sex", "age"]}, "give edges.age"),
    ({"columns": ["sex", "since"], "share": 0}, "share = 0"),
    ({"columns": ["sex", "since"], "share": 2}, "share = 2"),
    ({"columns": ["sex", "since"], "pairs": [["sex", "age"]]}, "expected two columns"),
    ({"columns": ["sex", "since"], "records": 10**7}, "at most 1000000"),
    ({"columns": ["sex", "since"], "records": 0}, "whole number"),
    ({"columns": ["sex", "since"], "rows": 5}, "no such setting"),
    ({"share": 1}, "synthetic.columns"),
    ({"columns": ["sex", "since"], "pairs": 5}, "expected a list of pairs"),
    ({"columns": ["sex", "since"], "pairs": [5]}, "expected a name"),
    ({"columns": ["sex", "age"], "edges": [20]}, "edges: expected a list"),
    ({"columns": ["sex", "age"], "edges": {"age": 20}}, "edges: expected a list"),
    ({"columns": ["sex", "age"], "edges": {"age": [20, 10]}}, "growing"),
    ({"columns": ["sex", "age"], "edges": {"age": ["x"]}}, "expected"),
    ({"columns": 5}, "expected a name"),
    ({"columns": ["sex", "since"], "share": "x"}, "share"),
    (["sex"], "expected a table"),
]


@pytest.mark.parametrize(("asked", "said"), REFUSED, ids=str)
def test_records_that_do_not_fit_are_refused(asked: Any, said: str) -> None:
    with pytest.raises(InvalidParameter, match=said):
        release_of({**PLAN, "synthetic": asked})


def test_a_column_that_nothing_counts_and_a_name_that_is_taken_are_refused() -> None:
    three = {**PLAN["synthetic"], "pairs": [["sex", "age"]]}
    with pytest.raises(InvalidParameter, match="'since' is counted by no item"):
        release_of({**PLAN, "synthetic": three})
    named = [{"name": "synthetic", "query": "count"}]
    with pytest.raises(InvalidParameter, match="an item has this name"):
        release_of({**PLAN, "items": named})
    whole = {**PLAN["synthetic"], "share": 1}
    with pytest.raises(InvalidParameter, match="leaves nothing for the other items"):
        release_of({**PLAN, "items": [{"name": "all", "query": "count"}], "synthetic": whole})


def test_the_digest_of_a_release_without_records_is_what_it_was() -> None:
    asked = {key: value for key, value in PLAN.items() if key != "synthetic"}
    release = release_of({**asked, "items": [{"name": "a", "query": "count"}]})
    assert "synthetic" not in release.row()
