"""Rows that a query or program made before: the engine bounds them, and cannot see how they came.

After ``max(cost) OVER ()``, or a join that repeats rows under other units, one person moves the
rows of all.  So nothing about them is *enforced*: the author of the query answers for one sentence.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dpaudit.cli.main import main
from dpaudit.families.opaque import ApproxDP
from dpaudit.releases import publish as publishing
from dpaudit.releases.items.counts import Count, Sum
from dpaudit.releases.plan import Plan, Release
from dpaudit.releases.program import exact_values
from dpaudit.releases.publish import NO_LEDGER, publish
from dpaudit.tabular import Join, Number, Schema, Table

duckdb = pytest.importorskip("duckdb")
pytest.importorskip("pyarrow")

ASKED = "each row depends on one unit and public tables"
PERSONS, COST = 200, 10_000
# Queries of a table (person, cost): a window over all rows; a join that gives each person the
# cost of the first one.
WINDOW = "SELECT person, max(cost) OVER () AS cost FROM bills"
FAN_OUT = "SELECT other.person, mine.cost FROM bills AS mine JOIN bills AS other ON mine.person = 0"
PLAIN = "SELECT person, cost FROM bills"


def plan(**settings: Any) -> Plan:
    columns = {"cost": Number(0, COST)}
    table = Schema("bills", columns, unit="person", entity="person", rows=5, **settings)
    items = (Count(name="rows"), Sum(name="cost", column="cost"))
    return Release("Bills", table, "add_remove", ApproxDP(2, "1e-6"), items).plan()


def bills(query: str, costs: list[int]) -> Any:
    """A relation of the rows that a query makes of one bill a person."""
    connection = duckdb.connect()
    connection.execute("CREATE TABLE bills (person INTEGER, cost INTEGER)")
    connection.executemany("INSERT INTO bills VALUES (?, ?)", [*enumerate(costs)])
    return connection.sql(query)


def assumed(folder: Path) -> dict[str, dict[str, str]]:
    (file,) = (folder / "certificate").glob("*.json")
    return {row["id"]: row for row in json.loads(file.read_text())["predicate"]["assumptions"]}


@pytest.mark.long_cases("SELECT person, max(cost) OVER () AS cost FROM bills")
@pytest.mark.parametrize("query", [WINDOW, FAN_OUT])
def test_one_person_moves_what_such_a_relation_gives_by_more_than_the_noise_is_for(
    query: str,
) -> None:
    """Why it has to be declared: the engine sees rows of one person each, and bounds those."""
    made, costs = plan(), [0] * PERSONS
    several, other = (
        exact_values(made.release, Table(made.release.schema, bills(query, one)).opened("k"))
        for one in (costs, [COST, *costs[1:]])
    )
    assert made.release.schema.rows * COST < abs(other["cost"][0] - several["cost"][0])


@pytest.mark.quality
@pytest.mark.parametrize("query", [WINDOW, FAN_OUT, PLAIN])
def test_a_relation_is_declared_and_the_page_asks_for_one_sentence(
    query: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With what the rows came in deleted, the certificate says *enforced*: the test goes red."""
    held = bills(query, [*range(PERSONS)])
    done = publish(plan(), held, tmp_path / "out", ledger=NO_LEDGER, trials=100)
    assert done.verdict == "certified_under_assumptions"
    found = assumed(tmp_path / "out")
    assert found["bounded_queries"]["status"] == "declared"
    assert ASKED in found["bounded_queries"]["evidence"]
    (page,) = (tmp_path / "out" / "certificate").glob("bills.html")
    assert ASKED in page.read_text()
    (file,) = (tmp_path / "out" / "certificate").glob("bills.json")
    forged = json.loads(file.read_text())
    assert forged["predicate"]["run"].pop("ready_made") == "DuckDBPyRelation"
    file.write_text(json.dumps(forged))
    with pytest.raises(SystemExit) as left:
        main(["verify", str(file)])
    assert left.value.code
    monkeypatch.setattr("dpaudit.tabular.engine.ready_made", lambda *given: "")
    publish(plan(), held, tmp_path / "deleted", ledger=NO_LEDGER, trials=100)
    assert assumed(tmp_path / "deleted")["bounded_queries"]["status"] == "enforced"


def test_a_file_is_read_by_the_engine_and_an_object_of_a_join_is_not(tmp_path: Path) -> None:
    bills(PLAIN, [1, 2]).write_csv(str(tmp_path / "bills.csv"))
    bills("SELECT person, 1 AS region FROM bills", [1]).write_csv(str(tmp_path / "regions.csv"))
    columns = {"cost": Number(0, COST), "region": Number(0, 9, of="regions.region")}

    def made(data: Any, joined: Any) -> str:
        joins = {"regions": Join(joined, {"person": "person"})}
        schema = Schema("bills", columns, unit="person", joins=joins, rows=5)
        return Table(schema, data).opened("k").ready_made

    files, regions = tmp_path / "bills.csv", bills("SELECT person, 1 AS region FROM bills", [1])
    assert Table(plan().release.schema, files).opened("k").ready_made == ""
    assert made(files, tmp_path / "regions.csv") == ""
    assert made(files, regions) == "DuckDBPyRelation"


def test_a_release_that_is_finished_later_says_what_its_rows_came_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From its own JSON: whoever finishes it may name another table."""
    made, told = plan(), []
    publish(made, bills(PLAIN, [1, 2]), tmp_path, ledger=NO_LEDGER, trials=0)
    (tmp_path / ".release.running").write_bytes(made.release.digest.encode())
    monkeypatch.setattr(publishing, "certified", lambda *given, **_: told.append(given[-1]))
    with pytest.raises(AttributeError):
        publish(made, tmp_path / "none.csv", tmp_path, ledger=NO_LEDGER, trials=100)
    assert told == ["DuckDBPyRelation"]
