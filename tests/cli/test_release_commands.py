"""plan, release and ledger: what they print, write, spend and refuse."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from dpaudit.cli.main import main

PLAN = """
title = "People, 2026"
adjacency = "add_remove"
ledger = "ledger.sqlite"

[budget]
epsilon = 1
delta = 1e-6

[table]
name = "people"
unit = "person"
entity = "person"
rows = 2

[table.columns]
age = { kind = "number", lower = 0, upper = 100, missing = "drop" }
sex = { kind = "category", keys = ["f", "m"] }

[[items]]
name = "persons"
query = "count"
per_group = 1

[[items]]
name = "by sex"
query = "count"
by = "sex"
groups = 1
"""


def run(*arguments: str) -> Any:
    return CliRunner().invoke(main, list(map(str, arguments)))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "plan.toml").write_text(PLAN)
    rows = [[i // 2, 20 + i % 60, "fm"[i % 2]] for i in range(2000)]
    with (tmp_path / "people.csv").open("w", newline="") as stream:
        csv.writer(stream).writerows([["person", "age", "sex"], *rows])
    return tmp_path


def opened(folder: Path, *more: str) -> Any:
    cap = more or ("--epsilon", "2.5", "--delta", "1e-5")
    given = ("--entity", "person", "--adjacency", "add_remove", *cap)
    return run("ledger", "init", "people", *given, "--ledger", str(folder / "ledger.sqlite"))


def release(folder: Path, out: str = "out", *more: str) -> Any:
    plan, data = folder / "plan.toml", folder / "people.csv"
    given = ("--data", data, "--out", folder / out, "--trials", "300")
    return run("release", str(plan), *map(str, given), *more)


def test_a_plan_says_cost_and_error_before_data_are_touched(folder: Path) -> None:
    assert opened(folder).exit_code == 0
    found = run("plan", str(folder / "plan.toml"), "--json")
    assert found.exit_code == 0, found.output
    table = json.loads(found.stdout)
    assert [row["part"] for row in table["parts"]] == ["persons", "by sex"]
    assert 5 < int(table["parts"][0]["error_95"]) < 20
    assert 0.99 < float(table["guarantee"]["epsilon at delta 1e-6"]) <= 1
    assert table["ledger"]["spent"] == ["0 epsilon", "0 delta"]


def test_a_plan_over_budget_is_shown_and_refused(folder: Path) -> None:
    opened(folder, "--epsilon", "0.5", "--delta", "1e-5")
    found = run("plan", str(folder / "plan.toml"))
    assert found.exit_code == 2
    assert "does not fit" in found.output
    assert "persons" in found.output
    assert release(folder).exit_code == 2
    assert not (folder / "out" / "release.csv").exists()


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    folder = tmp_path_factory.mktemp("released")
    (folder / "plan.toml").write_text(PLAN)
    rows = [[i // 2, 20 + i % 60, "fm"[i % 2]] for i in range(2000)]
    with (folder / "people.csv").open("w", newline="") as stream:
        csv.writer(stream).writerows([["person", "age", "sex"], *rows])
    assert opened(folder).exit_code == 0
    return folder, release(folder)


@pytest.mark.quality
def test_a_release_writes_exact_values_with_their_certificate(published: Any) -> None:
    folder, found = published
    assert found.exit_code == 0, found.output
    rows = list(csv.DictReader((folder / "out" / "release.csv").open()))
    assert [row["item"] for row in rows] == ["persons", "by sex", "by sex"]
    assert abs(int(rows[0]["value"]) - 1000) < 60  # over ten deviations
    whole = json.loads((folder / "out" / "release.json").read_text())
    assert whole["noisy"]["persons"] == [rows[0]["value"]]
    import pyarrow.parquet as pq

    table = pq.read_table(folder / "out" / "release.parquet").to_pylist()
    assert [row["value"] for row in table] == [row["value"] for row in rows]
    verified = run("verify", str(folder / "out" / "certificate" / "release.json"))
    assert verified.exit_code == 0, verified.output


@pytest.mark.quality
def test_running_it_again_refuses_and_spends_nothing(published: Any) -> None:
    folder, _ = published
    before = run("ledger", "show", "--json", "--ledger", str(folder / "ledger.sqlite")).stdout
    for out, said in (("out", "is there"), ("other", "was released on")):
        found = release(folder, out)
        assert found.exit_code == 2
        assert said in found.output
    after = run("ledger", "show", "--json", "--ledger", str(folder / "ledger.sqlite")).stdout
    assert before == after
    assert json.loads(after)[0]["charges"] == 1
    assert run("ledger", "verify", "--ledger", str(folder / "ledger.sqlite")).exit_code == 0


def test_a_release_without_a_ledger_has_to_be_asked_for(folder: Path) -> None:
    (folder / "plan.toml").write_text(PLAN.replace('ledger = "ledger.sqlite"\n', ""))
    found = release(folder)
    assert found.exit_code == 2
    assert "--no-ledger" in found.output


BAD = {
    "a column that is missing": ("person,age\n1,2\n", "no column 'sex'"),
    "text for numbers": ("person,age,sex\n1,old,f\n", "holds text where numbers are declared"),
    "a key not in the schema": ("person,age,sex\n1,2,x\n", "a key that is not in the schema in 1"),
    "rows of nobody": ("person,age,sex\n,2,f\n", "'person' has no unit in 1 rows"),
    "no value": ("person,age,sex\n1,2,\n", "column 'sex' has no value in 1 rows"),
}


@pytest.mark.parametrize(("rows", "said"), BAD.values(), ids=BAD)
def test_data_that_do_not_fit_get_a_line_an_exit_code_and_spend_nothing(
    folder: Path, rows: str, said: str
) -> None:
    opened(folder)
    (folder / "people.csv").write_text(rows)
    found = release(folder)
    assert found.exit_code == 2
    assert said in found.output
    assert "Traceback" not in found.output
    shown = run("ledger", "show", "--json", "--ledger", str(folder / "ledger.sqlite"))
    assert json.loads(shown.stdout)[0]["charges"] == 0
    assert not (folder / "out" / "release.csv").exists()


def test_ledgers_that_are_missing_or_of_another_data_set_are_refused(folder: Path) -> None:
    found = release(folder)
    assert found.exit_code == 2
    assert "no ledger is there" in found.output
    given = ("--entity", "person", "--adjacency", "add_remove", "--epsilon", "1")
    place = ("--ledger", str(folder / "ledger.sqlite"))
    assert run("ledger", "init", "houses", *given, *place).exit_code == 0
    found = release(folder)
    assert found.exit_code == 2
    assert "it has no account of 'people' (it has: houses)" in found.output


def test_an_account_of_another_schema_refuses_a_changed_plan(folder: Path) -> None:
    cap = ("--epsilon", "2.5", "--delta", "1e-5", "--plan", str(folder / "plan.toml"))
    assert opened(folder, *cap).exit_code == 0
    changed = PLAN.replace("upper = 100", "upper = 120")
    (folder / "plan.toml").write_text(changed)
    found = release(folder)
    assert found.exit_code == 2
    assert "the public schema is not the one this budget was opened for" in found.output
