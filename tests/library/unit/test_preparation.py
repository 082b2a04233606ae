"""Preparation inside the engine: filters, recodes and edges, beside the same steps in Python."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from dpaudit.errors import InvalidParameter
from dpaudit.families.opaque import ApproxDP
from dpaudit.releases.items.counts import Count, Sum
from dpaudit.releases.items.item import Item
from dpaudit.releases.plan import Release
from dpaudit.releases.program import GeneratedTables
from dpaudit.scope import Adjacency
from dpaudit.tabular import Category, DataRefused, Date, Join, Number, Schema, Table, Total
from dpaudit.tabular.engine import ROWS
from dpaudit.tabular.schema import Text, schema_of

pa = pytest.importorskip("pyarrow")

AGES, WORDS = ("child", "adult", "old"), ("west", "east")
COLUMNS: dict[str, Any] = {
    "group": Category(AGES, edges=(18, "64.5"), of="age", missing="count", missing_codes=(-99,)),
    "region": Category(WORDS, recode={"Bern": "west", "chur": "east"}, other="drop", of="town"),
    "status": Category(("active", "gone")),
    "age": Number(0, 100, missing="drop", missing_codes=(-99,)),
}
WHERE = {"status": "active", "age": {"from": 10}}
TOWNS = ("Bern", " chur", "west", "Basel")


def schema(rows: int = 1000, **settings: Any) -> Schema:
    return Schema("people", COLUMNS, unit="person", rows=rows, where=WHERE, **settings)


def rows_at_random(seed: int, units: int = 12, count: int = 60) -> list[tuple[int, str, str, str]]:
    rng = random.Random(seed)
    ages = ("-99", "", "9", "10", "17", "18", "64", "65", "99", "101")
    return [
        (rng.randrange(units), rng.choice(ages), rng.choice(TOWNS), rng.choice(("active", "gone")))
        for _ in range(count)
    ]


def frame(rows: list[tuple[int, str, str, str]]) -> Any:
    columns = zip(*rows, strict=True) if rows else ((), (), (), ())
    names = ("person", "age", "town", "status")
    kinds = (pa.int64(), pa.string(), pa.string(), pa.string())
    return pa.table({n: pa.array(c, k) for n, c, k in zip(names, columns, kinds, strict=True)})


def counts(made: Schema, rows: list[tuple[int, str, str, str]]) -> dict[tuple[str, str], int]:
    asked = Total("cells", (ROWS,), ("group", "region"))
    ((found,),) = Table(made, frame(rows)).opened("key").totals([asked])
    cells = [(a, r) for a in made.columns["group"].domain for r in WORDS]
    return dict(zip(cells, found, strict=True))


def expected(rows: list[tuple[int, str, str, str]]) -> dict[tuple[str, str], int]:
    """The same by hand: no bounding."""
    found = Counter[tuple[str, str]]()
    for _, age, town, status in rows:
        region = {"Bern": "west", "chur": "east", "west": "west"}.get(town.strip())
        if status != "active" or age in ("-99", "") or float(age) < 10 or region is None:
            continue
        found[AGES[(float(age) >= 18) + (float(age) >= 64.5)], region] += 1
    return {(a, r): found[a, r] for a in (*AGES, "(missing)") for r in WORDS}


@pytest.mark.parametrize("seed", range(5))
def test_rows_are_filtered_and_recoded_as_by_hand(seed: int) -> None:
    rows = rows_at_random(seed)
    assert counts(schema(), rows) == expected(rows)
    assert sum(expected(rows).values()) > 0


@pytest.mark.first_case
@pytest.mark.parametrize("seed", range(5))
def test_a_unit_moves_at_most_its_rows_after_preparation(seed: int) -> None:
    rows, limit = rows_at_random(seed), 2
    whole = counts(schema(limit), rows)
    moved = []
    for unit in range(12):
        less = counts(schema(limit), [row for row in rows if row[0] != unit])
        assert all(whole[cell] >= less[cell] for cell in whole)
        moved.append(sum(whole.values()) - sum(less.values()))
    assert max(moved) == limit  # one more, and this test would be red
    # Rows are bounded among those that are kept: a unit with two of them loses none.
    kept = Counter(row[0] for row in rows if sum(expected([row]).values()))
    assert all(a >= min(limit, kept[unit]) - 1 for unit, a in enumerate(moved))


def test_dates_are_filtered_before_rows_are_bounded() -> None:
    columns = {"day": Date("2026-01-01", "2026-12-31")}
    made = Schema("v", columns, unit="id", rows=1, where={"day": {"from": "2026-03-01"}})
    data = pa.table({"id": [1] * 5 + [2], "day": ["2026-02-01"] * 4 + ["2026-03-01"] * 2})
    ((found,),) = Table(made, data).opened("key").totals([Total("n", (ROWS,))])
    assert found == (2,)


def test_errors_in_rows_that_the_filter_leaves_out_stop_nothing() -> None:
    columns = {"status": Category(("active", "gone")), "age": Number(0, 100)}
    made = Schema("people", columns, where={"status": "active"})
    gone = {"status": ["gone", "active"], "age": ["?", "3"]}
    table = Table(made, pa.table(gone)).opened("key")
    table.check()
    assert table.changes() == {}
    with pytest.raises(DataRefused, match="text where numbers"):
        Table(made, pa.table({**gone, "status": ["active", "active"]})).opened("key").check()
    with pytest.raises(DataRefused, match="'status' has no value in 1 row"):
        Table(made, pa.table({**gone, "status": ["", "active"]})).opened("key").check()


def test_the_operator_is_told_of_rows_beyond_the_limit_among_those_that_are_kept() -> None:
    rows = [(1, "20", "Bern", "active")] * 3 + [(2, "20", "Bern", "gone")] * 9
    table = Table(schema(2), frame(rows)).opened("key")
    assert list(table.changes().values()) == [1]


def test_a_filter_may_leave_the_one_row_of_a_unit_out() -> None:
    """Without it, a row that is always there would move a sum by upper - lower only."""
    columns = {"age": Number(50, 60), "sex": Category(("f", "m"))}
    item: Item = Sum(name="age", column="age")
    always, filtered = Schema("p", columns), Schema("p", columns, where={"sex": "f"})
    parts: list[Any] = [part for made in (always, filtered) for part in item.parts(made)]
    largest = [part.moves(Adjacency.REPLACE_ONE).largest for part in parts]
    assert largest == [10, 60]


def test_generated_tables_hold_what_is_left_after_preparation() -> None:
    """The attack of a plan bounds and sums rows that were prepared, of which some are kept."""
    from dpaudit.releases.attacked import neighbours_of

    made = schema(2)
    release = Release(
        "t", made, "add_remove", ApproxDP(1, Fraction(1, 10**6)), (Count(name="n", by="region"),)
    )
    plan = release.plan()
    pair = neighbours_of(plan)
    reader = GeneratedTables(release)
    gap = [
        a - b
        for a, b in zip(
            reader.values(pair.first)["n"], reader.values(pair.second)["n"], strict=True
        )
    ]
    assert sum(map(abs, gap)) == 2


def test_the_digest_of_a_schema_holds_its_preparation() -> None:
    plain = Schema("people", {"sex": Category(("f", "m"))})
    assert set(plain.row()["columns"][0]) == {"name", "kind", "keys", "missing", "other"}
    made = [
        {"sex": Category(("f", "m"), recode={"w": "f"})},
        {"sex": Category(("f", "m"), of="gender")},
        {"sex": Category(("f", "m"), edges=(1,))},
    ]
    digests = {Schema("people", columns).digest for columns in made}
    digests |= {plain.digest, Schema("people", plain.columns, where={"sex": "f"}).digest}
    assert len(digests) == 5


REFUSED = [
    ({"recode": {"w": "x"}}, "no such key"),
    ({"recode": {" f": "m"}}, "is a key"),
    ({"recode": {"w": "f", " w": "m"}}, "recoded twice"),
    ({"recode": {"": "f"}}, "missing value"),
    ({"recode": {"9": "f"}, "missing_codes": ["9"]}, "missing code"),
    ({"recode": ["w"]}, "expected texts"),
    ({"edges": [1, 2]}, "2 edges part numbers into 3 keys"),
    ({"edges": [2, 1], "keys": ["a", "b", "c"]}, "growing"),
    ({"edges": "1"}, "growing"),
    ({"edges": [1], "other": "f"}, "leave recode and other out"),
    ({"of": " x"}, "column's name"),
]


@pytest.mark.parametrize(("settings", "said"), REFUSED, ids=str)
def test_a_preparation_that_does_not_fit_is_refused(settings: dict[str, Any], said: str) -> None:
    column = {"kind": "category", "keys": ["f", "m"], **settings}
    with pytest.raises(InvalidParameter, match=said):
        schema_of({"name": "people", "columns": {"sex": column}})


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ({"town": "x"}, "no column 'town'"),
        ({"sex": "x"}, "x is no key"),
        ({"name": "x"}, "not public"),
        ({"sex": {"from": 1}}, "a key of 'sex'"),
        (["sex"], "expected a table"),
    ],
)
def test_a_filter_that_does_not_fit_is_refused(where: Any, said: str) -> None:
    with pytest.raises(InvalidParameter, match=said):
        Schema("people", {"sex": Category(("f", "m")), "name": Text()}, where=where)
    with pytest.raises(InvalidParameter, match="unit = 'id' is a column"):
        Schema("people", {"sex": Category(("f", "m"), of="id")}, unit="id")


def test_the_page_says_what_was_prepared_here_and_asks_of_what_was_made_elsewhere() -> None:
    from dpaudit.releases.attacked import mechanism_of

    joins = {"towns": Join("towns.csv", {"town": "id"}), "visits": Join("v.csv", unit="patient")}
    made = schema(2, entity="person", joins=joins)
    release = Release("t", made, "add_remove", ApproxDP(1, "1e-6"), (Count(name="n"),))
    setting = mechanism_of(release.plan()).setting
    (asked,) = (text for text in setting.uncovered if "more than one person" in text)
    assert "whoever made the table answers for that" in asked
    *prepared, uncharged = setting.notes
    assert prepared == [
        "joined to 'towns', a public table by town, before rows of one person are bounded",
        "joined to 'visits', rows of the same person, before rows of one person are bounded",
        "rows are those that meet conditions on status, age",
    ]
    assert "charged for 'people' alone" in uncharged
    assert "('visits') hold rows of the same person: name the dataset of each" in uncharged
    named = {"visits": replace(joins["visits"], dataset="visits")}
    both = replace(release, schema=schema(2, joins=named))
    (_, _, charged) = mechanism_of(both.plan()).setting.notes
    assert charged.startswith("a ledger is charged for joined private tables too ('visits'), as")
    assert "two steps" not in replace(both, adjacency=Adjacency.REPLACE_ONE).accounts
    public = replace(release, schema=schema(2, joins={"towns": joins["towns"]}))
    assert not any("charged" in note for note in mechanism_of(public.plan()).setting.notes)
