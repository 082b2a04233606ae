"""SQL of releases: each SELECT as the items it stands for, and DuckDB's own answer beside them."""

from __future__ import annotations

import random
from fractions import Fraction
from typing import Any

import pytest

from dpaudit.errors import BudgetExceeded, InvalidParameter
from dpaudit.families.opaque import ZCDP
from dpaudit.releases.items.by_name import item_of
from dpaudit.releases.plan import Release, release_of
from dpaudit.releases.program import exact_values
from dpaudit.releases.session import open as open_session
from dpaudit.releases.sql import aggregates_of
from dpaudit.tabular import Category, Date, Number, Schema, Table
from dpaudit.tabular.schema import Text

pytest.importorskip("sqlglot")
duckdb = pytest.importorskip("duckdb")
pa = pytest.importorskip("pyarrow")

PEOPLE = Schema(
    "people",
    {
        "Region": Category(("west", "east", "far")),
        "sick": Category(("true", "false")),
        "age": Number(0, 100),
        "cost": Number(-50, 50, "0.5"),
        "day": Date("2026-01-01", "2026-12-31"),
        "town": Text(),
    },
    unit="person",
    rows=50,
)


def table(count: int = 200) -> Any:
    rng = random.Random(7)
    return pa.table(
        {
            "person": [rng.randrange(40) for _ in range(count)],
            "Region": [rng.choice(("west", "east", "far")) for _ in range(count)],
            "sick": [rng.random() < 0.5 for _ in range(count)],
            "age": [rng.randrange(101) for _ in range(count)],
            "cost": [rng.randrange(-100, 101) / 2 for _ in range(count)],
            "day": [
                f"2026-{rng.randrange(1, 13):02}-{rng.randrange(1, 29):02}" for _ in range(count)
            ],
            "town": [rng.choice("xyz") for _ in range(count)],
        }
    )


def exact(where: str, asked: str, by: str = "") -> list[Any]:
    """The numbers without noise, group by group, by the engine."""
    grouped = f" GROUP BY {by}" if by else ""
    (settings,) = aggregates_of("SELECT " + asked + " FROM people" + where + grouped, PEOPLE, "t")  # noqa: S608
    item = item_of(settings, "t")
    values = exact_values(
        Release("t", PEOPLE, "add_remove", ZCDP(1), (item,)), Table(PEOPLE, table()).opened("k")
    )
    (found,) = values.values()
    return list(found)  # type: ignore[arg-type]


WHERE = [
    "",
    " WHERE age >= 18",
    " WHERE 18 < age AND age <= 60.5",
    " WHERE age BETWEEN 20 AND 30 AND sick",
    " WHERE region = 'west' AND cost > -3.25 AND cost < 20",
    " WHERE Region IN ('west', 'far') AND region <> 'far'",
    " WHERE NOT region IN ('west') AND sick = FALSE",
    " WHERE (age = 5 OR FALSE)",
    " WHERE day >= DATE '2026-03-01' AND day < '2026-07-01'",
    " WHERE people.age > 100 - 1",
]
REFUSED_WHERE = {
    "30 AND sick": "expected =",
    "OR FALSE": "expected =",
    "100 - 1": "expected a number",
}


@pytest.mark.parametrize("where", WHERE)
def test_conditions_are_those_of_duckdb(where: str) -> None:
    said = [text for part, text in REFUSED_WHERE.items() if part in where]
    if said:
        with pytest.raises(InvalidParameter, match=said[0]):
            exact(where, "count(*)")
        return
    people = table()  # noqa: F841  (DuckDB reads it by its name)
    asked = "SELECT region, count(*), sum(cost) FROM people" + where + " GROUP BY region"  # noqa: S608
    asked = asked.replace("day >=", "CAST(day AS DATE) >=")
    rows = {row[0]: row[1:] for row in duckdb.sql(asked).fetchall()}
    regions = ("west", "east", "far")
    assert exact(where, "count(*)", "region") == [rows.get(r, (0,))[0] for r in regions]
    sums = [int(2 * rows.get(r, (0, 0))[1]) for r in regions]
    assert exact(where, "sum(cost)", "region") == sums


def test_units_are_counted_once() -> None:
    people = table()  # noqa: F841
    ((count,),) = duckdb.sql("SELECT count(DISTINCT person) FROM people WHERE age > 90").fetchall()
    assert exact(" WHERE age > 90", "count(DISTINCT person)") == [count]


def read(select: str) -> list[dict[str, Any]]:
    return aggregates_of(f"SELECT {select}", PEOPLE, "t")


def test_aggregates_and_their_names() -> None:
    half, tenth = Fraction(1, 2), Fraction(1, 10)
    found = read(
        "sum(cost) AS total, AVG(cost), median(age), quantile(age, 0.1) q, count(age), "
        "percentile_cont(0.1) WITHIN GROUP (ORDER BY age) p, var_pop(age) FROM people"
    )
    assert [f["name"] for f in found] == [
        "total", "AVG(cost)", "MEDIAN(age)", "q", "COUNT(age)", "p", "VARIANCE_POP(age)",
    ]  # fmt: skip
    kinds = [f["query"] for f in found]
    assert kinds == ["sum", "mean", "quantiles", "quantiles", "count", "quantiles", "variance"]
    assert [f["at"] for f in found if "at" in f] == [(half,), (tenth,), (tenth,)]
    (group,) = read("town, count(*) FROM people GROUP BY town")
    assert (group["query"], group["column"]) == ("groups", "town")
    (cells,) = read("region, day, count(*) FROM people GROUP BY Region, day")
    assert cells["by"] == ["Region", "day"]


REFUSED = [
    ("count(*) FROM people HAVING count(*) > 3", "line 1, column 36.*SELECT ... FROM"),
    ("count(*) FROM people ORDER BY 1", "SELECT ... FROM"),
    ("count(*) FROM people LIMIT 3", "SELECT ... FROM"),
    ("DISTINCT age FROM people", "SELECT ... FROM"),
    ("count(*) FROM people, others", "SELECT ... FROM"),
    ("count(*) FROM people JOIN towns USING (town)", "SELECT ... FROM"),
    ("count(*) FROM others", 'line 1, column 22.*FROM "people"'),
    ("count(*) FROM people AS p", "without an alias"),
    ("count(*) FROM (SELECT * FROM people)", 'FROM "people"'),
    ("count(*)", 'FROM "people"'),
    ("age FROM people", "no key; name it in GROUP BY"),
    ("* FROM people", "expected one of count"),
    ("max(age) FROM people", r"line 1, column 8: expected one of count"),
    ("sum(age * 2) FROM people", "name of a column; recode"),
    ("sum(max(age)) FROM people", "name of a column"),
    ("sum(age) OVER () FROM people", "expected one of"),
    ("sum(DISTINCT age) FROM people", "name of a column"),
    ("count(DISTINCT age) FROM people", "only units are counted once: person"),
    ("count(DISTINCT person, age) FROM people", "only units"),
    ("count(DISTINCT) FROM people", "only units"),
    ("count(DISTINCT 'person') FROM people", "only units"),
    ("count(DISTINCT o.person) FROM people", "only units"),
    ('count(DISTINCT "Person") FROM people', "only units"),
    ("avg(salary) FROM people", "no such column; the schema has Region"),
    ('avg("AGE") FROM people', "no such column"),
    ("avg(o.age) FROM people", 'a column of "people"'),
    ("quantile(age, age) FROM people", "expected a number"),
    ("median(age) FROM people GROUP BY region", "quantiles have no groups"),
    ("sum(age) FROM people GROUP BY age", "with edges"),
    ("sum(age) FROM people GROUP BY town", "not public"),
    ("count(*) FROM people GROUP BY 1", "name of a column"),
    ("count(*) FROM people GROUP BY ROLLUP (region)", "name of a column"),
    ("region FROM people GROUP BY region", "no aggregate"),
    ("count(*) FROM people WHERE age > 30 OR sick = true", "joined by AND"),
    ("count(*) FROM people WHERE age IS NULL", "joined by AND"),
    ("count(*) FROM people WHERE age > cost", "expected a number"),
    ("count(*) FROM people WHERE age > (SELECT avg(age) FROM people)", "expected a number"),
    ("count(*) FROM people WHERE age IN (SELECT 1)", "expected"),
    ("count(*) FROM people WHERE region = 'north'", "'north' is no key"),
    ("count(*) FROM people WHERE region > 'east'", "no order"),
    ("count(*) FROM people WHERE town = 'x'", "no public keys"),
    ("count(*) FROM people WHERE age IN (1, 2)", "no public keys"),
    ("count(*) FROM people WHERE region = 'west' AND region = 'east'", "no key meets"),
    ("count(*) FROM people WHERE age > 50\n AND age < 40", r"line 2, column 6: no value of 'age'"),
    ("count(*) FROM people WHERE age > 200", "no value of 'age' from 0 to 100"),
    ("count(*) FROM people WHERE day > 'March'", "expected a day"),
    ("count(*) FROM people WHERE age <> 5", "no public keys"),
    ("count(*) FROM people WHERE region NOT IN UNNEST(['west'])", "compared with values"),
    ("count(*) FROM people WHERE region NOT IN others", "compared with values"),
    ("count(* EXCLUDE age) FROM people", r"count\(\*\)"),
    ("count() FROM people", "expected one of count"),
    ("quantile(age, '1/0') FROM people", "expected one finite number"),
    ("quantile(age, 1e99999999) FROM people", "expected one finite number"),
    (f"count(*) FROM people WHERE {'(' * 2000}age > 1{')' * 2000}", "parts within parts"),
    (f"count(*) FROM people WHERE {'age > 1 AND ' * 3000}age > 1", "parts within parts"),
    ("count(*) FROM people; DROP TABLE people", "one SELECT, and nothing"),
    ("count(* FROM people", "no SQL near line 1"),
    ("'x FROM people", "no SQL"),
]


@pytest.mark.parametrize(("text", "said"), REFUSED)
def test_what_the_dialect_does_not_hold_is_refused_with_its_place(text: str, said: str) -> None:
    with pytest.raises(InvalidParameter, match=said):
        read(text)


@pytest.mark.parametrize("text", ["", "  ", 3, None, "DELETE FROM people", "-- nothing"])
def test_what_is_no_select_is_refused(text: Any) -> None:
    with pytest.raises(InvalidParameter, match="expected"):
        aggregates_of(text, PEOPLE, "t")


def test_a_plan_states_items_in_sql() -> None:
    plan = {
        "title": "t",
        "adjacency": "add_remove",
        "budget": {"rho": 1},
        "table": {
            "name": "people",
            "columns": {
                "sex": {"kind": "category", "keys": ["f", "m"]},
                "age": {"kind": "number", "lower": 0, "upper": 99},
            },
        },
        "items": [
            {"name": "all", "query": "count"},
            {
                "name": "by sex",
                "weight": 2,
                "sql": "SELECT sex, count(*), avg(age) AS age FROM people GROUP BY sex",
            },
        ],
    }
    release = release_of(plan)
    assert [i.name for i in release.items] == ["all", "by sex: COUNT(*)", "by sex: age"]
    assert [i.weight for i in release.items] == [1, 2, 2]
    release.plan()
    plan["items"] = [{"sql": "SELECT count(*) FROM people", "where": {}}]
    with pytest.raises(InvalidParameter, match=r"items\[0\].where: the SQL says it"):
        release_of(plan)


def test_a_session_answers_sql_within_its_budget() -> None:
    from dpaudit.releases.publish import NO_LEDGER

    asked = {"title": "t", "adjacency": "add_remove", "budget": 50, "ledger": NO_LEDGER}
    with open_session(table(), PEOPLE, **asked) as session:
        answer = session.sql(
            "SELECT region, count(*), sum(age) FROM people GROUP BY region", rho=20
        )
        assert (len(answer), answer.rho, session.left) == (6, 20, 30)
        assert [row.item for row in answer][::3] == ["1 sql: COUNT(*)", "1 sql: SUM(age)"]
        truth = exact("", "count(*)", "region")
        assert all(abs(r.value - n) < 150 for r, n in zip(answer.rows[:3], truth, strict=True))
        with pytest.raises(InvalidParameter, match=r"query '3 sql'.*line 1, column 8"):
            session.sql("SELECT max(age) FROM people")
        with pytest.raises(BudgetExceeded, match="rho = 31 was asked, and 30 is left"):
            session.sql("SELECT count(*), sum(age) FROM people", rho=31)
        assert session.left == 30


def test_a_select_of_which_one_aggregate_is_refused_spends_nothing() -> None:
    from dpaudit.releases.publish import NO_LEDGER

    asked = {"title": "t", "adjacency": "add_remove", "budget": 50, "ledger": NO_LEDGER}
    with open_session(table(), PEOPLE, **asked) as session:
        for text in (
            "SELECT count(*), count(*) FROM people",
            "SELECT count(*), sum(age) AS b, avg(age) AS b FROM people",
        ):
            with pytest.raises(InvalidParameter, match="has this name"):
                session.sql(text)
        with pytest.raises(InvalidParameter, match="town"):
            session.sql("SELECT count(*), sum(town) FROM people")
        assert session.left == 50
