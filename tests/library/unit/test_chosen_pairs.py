"""Pairs of columns that depend most: scores, how far one row moves them, and their choice."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dpaudit as dp
from dpaudit.errors import Disagreement, InvalidParameter
from dpaudit.families.opaque import PureDP
from dpaudit.releases.attacked import neighbours_of
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
    ],
)
def test_pairs_that_cannot_be_chosen_are_refused(settings: Any, said: str) -> None:
    with pytest.raises(InvalidParameter, match=said):
        item_of({"query": "pairs", "name": "most", **settings}, "t").parts(SCHEMA)
