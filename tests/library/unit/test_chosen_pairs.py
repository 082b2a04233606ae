"""Pairs of columns that depend most: scores, how far one row moves them, and their choice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dpaudit as dp
from dpaudit.errors import Disagreement, InvalidParameter
from dpaudit.families.opaque import ZCDP, PureDP
from dpaudit.releases.attacked import neighbours_of, records_like
from dpaudit.releases.contributions import Contribution
from dpaudit.releases.items import pairs
from dpaudit.releases.items.by_name import item_of
from dpaudit.releases.items.pairs import MOVED, Pairs, dependence
from dpaudit.releases.plan import Release
from dpaudit.releases.program import GeneratedTables, exact_values
from dpaudit.releases.publish import NO_LEDGER, draw, publish, published_rows
from dpaudit.scope import Adjacency
from dpaudit.tabular import Category, Number, Schema, Table

pa = pytest.importorskip("pyarrow")
pytest.importorskip("duckdb")

COLUMNS = {
    "sex": Category(("f", "m")),
    "town": Category(("a", "b", "c")),
    "age": Number(0, 9, missing="drop"),
}
SCHEMA = Schema("people", COLUMNS)
ITEM = Pairs(name="most", by=("sex", "town", "age"), edges={"age": (3, 6)})
COUNTED = {"by": ["sex", "town", "age"], "edges": {"age": [3, 6]}}


def of(rows: Any) -> Any:
    return np.array(rows, dtype=object)


def test_scores_are_distances_from_independence() -> None:
    assert dependence(of([[0, 0], [0, 0]])) == dependence(of([[4, 8], [2, 4]])) == 0
    # 100 rows, 50 in each of two cells: 25 away in each of four.
    assert dependence(of([[50, 0], [0, 50]])) == 100
    assert dependence(of([[10**12, 0], [0, 10**12]])) == 2 * 10**12


def test_one_row_moves_a_score_by_four_at_most_and_comes_near() -> None:
    """Every table of 2 x 2 and 2 x 3 of up to three rows a cell; then one that comes near."""
    found = 0
    for shape in ((2, 2), (2, 3)):
        size = shape[0] * shape[1]
        for counts in product(range(4 if size == 4 else 3), repeat=size):
            before = dependence(of(counts).reshape(shape))
            for cell in range(size):
                more = np.array(counts, dtype=object)
                more[cell] += 1
                found = max(found, abs(dependence(more.reshape(shape)) - before))
    large = dependence(of([[0, 0], [10**6, 0]])), dependence(of([[0, 1], [10**6, 0]]))
    assert (found <= MOVED, abs(large[1] - large[0])) == (True, 3)
    assert 4 * 10**6 / (10**6 + 1) - 3.99 > 0


def test_the_engine_counts_pairs_and_a_row_without_a_value_only_where_it_has_both() -> None:
    table = {"sex": ["f", "m"] * 50, "town": ["a", "b"] * 50, "age": [1, 8] * 40 + [None] * 20}
    release = Release("t", SCHEMA, "add_remove", PureDP(1), (ITEM,))
    values = exact_values(release, Table(SCHEMA, pa.table(table)).opened("key"))
    assert values["most"].scores.tolist() == [100, 80, 80]


def test_the_pair_that_depends_most_is_chosen() -> None:
    """False alarm: e^-(epsilon gap / 8) a candidate, below 1e-9."""
    rng = np.random.default_rng(3)
    sex = rng.integers(0, 2, 2000)
    table = {
        "sex": np.array(["f", "m"])[sex],
        "town": np.array(["a", "b"])[sex],
        "age": rng.integers(0, 10, 2000),
    }
    release = Release("t", SCHEMA, "add_remove", PureDP(1), (ITEM,))
    plan = release.plan()
    values = exact_values(release, Table(SCHEMA, pa.table(table)).opened("key"))
    (row,) = published_rows(plan, draw(plan, values))
    assert (row.text, row.keys) == ("sex and town", (("rank", "1"),))
    with dp.open(
        pa.table(table), SCHEMA, title="t", adjacency="add_remove", budget=2, ledger=NO_LEDGER
    ) as session:
        asked = {"by": list(ITEM.by), "edges": {"age": [3, 6]}, "k": 2}
        assert session.ask("pairs", rho=1, **asked).rows[0].text == "sex and town"


@pytest.mark.first_case
@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
def test_what_is_attacked_stays_within_what_is_stated(rows: int, adjacency: str) -> None:
    unit: Any = {} if rows == 1 else {"unit": "person", "entity": "person", "rows": rows}
    release = Release("t", Schema("people", COLUMNS, **unit), adjacency, PureDP(1), (ITEM,))
    plan, reader = release.plan(), GeneratedTables(release)
    pair = neighbours_of(plan)
    one, two = (reader.values(records)["most"].scores for records in (pair.first, pair.second))
    (part,) = ITEM.parts(release.schema)
    assert 0 < np.abs(one - two).max() <= part.by(Adjacency(adjacency))


# --- pairs that are chosen and counted in one release ---------------------------------------------


def chosen_and_counted(**changes: Any) -> Release:
    unit: Any = {"unit": "person", "entity": "person", "rows": 3}
    item = replace(ITEM, k=2, share=Fraction(1, 4), **changes)
    return Release("t", Schema("people", COLUMNS, **unit), "add_remove", ZCDP(1), (item,))


def people(size: int = 3000) -> Any:
    """Sex and town are as good as one; age depends on both a little."""
    rng = np.random.default_rng(3)
    sex = rng.integers(0, 2, size)
    age = np.where(rng.random(size) < 0.3, 7 * sex, rng.integers(0, 10, size))
    texts = {"sex": np.array(["f", "m"])[sex], "town": np.array(["a", "b"])[sex]}
    return pa.table({**texts, "age": age, "person": np.arange(size)})


def drawn(release: Release) -> tuple[dict[tuple[str, ...], int], list[Any]]:
    """The true counts by every pair, and the published rows."""
    table = people()
    true = {
        ((one, first), (other, second)): count
        for one, other in (("sex", "town"), ("sex", "age"), ("town", "age"))
        for (first, second), count in Counter(
            zip(*(named(name, table) for name in (one, other)), strict=True)
        ).items()
    }
    values = exact_values(release, Table(release.schema, table).opened("key"))
    plan = release.plan()
    return true, published_rows(plan, draw(plan, values))


def named(name: str, table: Any) -> list[str]:
    cells = table.column(name).to_pylist()
    if name != "age":
        return cells
    return ["below 3" if c < 3 else "3 to below 6" if c < 6 else "6 and above" for c in cells]


def far(true: Any, rows: Sequence[Any]) -> list[Any]:
    """Published counts beyond twice their margin: each of them once in 10^4 draws at most."""
    counts = [row for row in rows if row.statistic == "count"]
    return [r for r in counts if abs(r.value - true.get(r.keys, 0)) > 2 * r.error]


@pytest.mark.quality
def test_chosen_pairs_are_counted_in_the_same_release() -> None:
    """Rows of the two pairs that were chosen, each beside its own counts, within their margins."""
    true, rows = drawn(chosen_and_counted())
    first, second, *counts = rows
    assert first.text == "sex and town"
    assert second.text in ("sex and age", "town and age")
    columns = [tuple(name for name, _ in row.keys) for row in counts]
    sizes = {("sex", "town"): 6, ("sex", "age"): 6, ("town", "age"): 9}
    assert Counter(columns) == {p: sizes[p] for p in set(columns)}
    assert list(dict.fromkeys(columns)) == [tuple(row.text.split(" and ")) for row in rows[:2]]
    assert far(true, rows) == []


def test_counts_of_another_pair_would_be_far_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """Taken away: which of the chosen pairs a table is of; the second's is then the first's."""
    real = Pairs.parts

    def unranked(self: Pairs, schema: Schema) -> Any:
        return tuple(replace(p, rank=0) if hasattr(p, "rank") else p for p in real(self, schema))

    monkeypatch.setattr(Pairs, "parts", unranked)
    true, rows = drawn(chosen_and_counted())
    assert far(true, rows) != []


def test_the_share_is_spent_on_the_choice_and_the_rest_on_counts() -> None:
    """Two choices of epsilon e, e^2 / 8 of rho each, and two vectors, s / (2 v) each."""
    plan = chosen_and_counted().plan()
    spent = 2 * float(plan.leaves["most"].epsilon) ** 2 / 8
    vectors = [plan.leaves[label] for label in ("most/1", "most/2")]
    rest = [float(leaf.squared / (2 * leaf.variance)) for leaf in vectors]
    assert spent == pytest.approx(0.25, rel=0.01)
    assert rest == pytest.approx([0.375, 0.375], rel=0.01)
    assert {leaf.squared for leaf in vectors} == {9}  # three rows of a unit in one cell


@pytest.mark.quality
@pytest.mark.first_case
@pytest.mark.parametrize("adjacency", [Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE])
def test_one_unit_moves_the_counts_of_no_pair_by_more_than_is_stated(adjacency: Adjacency) -> None:
    """Whichever pair is chosen, on 40 pairs of made-up tables; the largest move is reached."""
    release = replace(chosen_and_counted(), adjacency=adjacency)
    plan, reader, rng = release.plan(), GeneratedTables(release), np.random.default_rng(2)
    moves, furthest = plan.parts["most/1"].moves(adjacency), 0
    for _ in range(40):
        one = records_like(plan, rng).values
        two = one[:-1]
        if adjacency is Adjacency.REPLACE_ONE:
            two = np.concatenate([two, records_like(plan, rng).values[:1]])
        both = [reader.values(dp.Records(rows))["most/1"] for rows in (one, two)]
        for place in range(3):
            gap = np.array(both[0].at(place)) - np.array(both[1].at(place))
            assert np.abs(gap).sum() <= moves.absolute
            furthest = max(furthest, int(gap @ gap))
    assert furthest == moves.squared


@pytest.mark.quality
def test_a_certificate_of_chosen_and_counted_pairs_is_true_and_of_fewer_rows_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = chosen_and_counted()
    done = publish(release.plan(), people(50), tmp_path / "a", ledger=NO_LEDGER, trials=300)
    assert done.verdict.startswith("certified")
    real = Contribution.moves

    def of_one_row(self: Contribution, adjacency: Adjacency) -> Any:
        return real(replace(self, high=1, absolute=1, groups=1), adjacency)

    monkeypatch.setattr(Contribution, "moves", of_one_row)
    with pytest.raises(Disagreement):
        publish(release.plan(), people(50), tmp_path / "b", ledger=NO_LEDGER, trials=300)


def test_a_smaller_bound_is_exceeded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Taken away: half of the bound, which one row passes in a table of 1,001 rows."""
    monkeypatch.setattr(pairs, "MOVED", 2)
    (part,) = ITEM.parts(SCHEMA)
    before, after = (dependence(of([[0, more], [1000, 0]])) for more in (0, 1))
    assert after - before > part.moved


@pytest.mark.quality
def test_a_certificate_of_a_choice_is_true_and_of_a_smaller_bound_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = pa.table({"sex": ["f", "m"], "town": ["a", "b"], "age": [1, 8]})
    release = Release("t", SCHEMA, "add_remove", PureDP(1), (ITEM,))
    done = publish(release.plan(), table, tmp_path / "a", ledger=NO_LEDGER)
    assert done.verdict.startswith("certified")
    # The examination's tables have tens of rows, in which one moves a score by up to 3.
    monkeypatch.setattr(pairs, "MOVED", 1)
    with pytest.raises(Disagreement):
        publish(release.plan(), table, tmp_path / "b", ledger=NO_LEDGER)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"by": ["sex", "town"]}, "k = 1 of 1 pairs"),
        ({"by": ["sex", "town", "age"], "k": 3}, "k = 3 of 3 pairs"),
        ({"by": ["sex", "town", "age"], "groups": 1}, "no groups"),
        ({"by": ["sex", "town", "age"]}, "give edges.age"),
        ({"by": ["sex", "town", "size"]}, "no column"),
        ({**COUNTED, "share": 1}, "share = 1 of 3 pairs"),
        ({**COUNTED, "share": 0}, "share = 0 of 3 pairs"),
        ({**COUNTED, "share": "a"}, "share"),
    ],
)
def test_pairs_that_cannot_be_chosen_are_refused(settings: Any, said: str) -> None:
    with pytest.raises(InvalidParameter, match=said):
        item_of({"query": "pairs", "name": "most", **settings}, "t").parts(SCHEMA)
