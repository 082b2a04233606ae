"""A program of the catalogue as one item of a release: planned, charged and run with the others."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from dpaudit.accountant.account import Account
from dpaudit.cli.main import main
from dpaudit.errors import BudgetExceeded, InvalidParameter
from dpaudit.families.additive import Gaussian
from dpaudit.families.opaque import ApproxDP
from dpaudit.ledger import open_ledger, terms_of
from dpaudit.releases.items.counts import Count
from dpaudit.releases.plan import Release, load_plan
from dpaudit.releases.program import GeneratedTables, ReleaseProgram
from dpaudit.releases.programs import Program, records_of
from dpaudit.releases.publish import publish
from dpaudit.tabular import Category, Number, Schema, Table
from mechanisms.classics.dp_sgd import poisson_sgd

pa = pytest.importorskip("pyarrow")
pytest.importorskip("duckdb")

SCHEMA = Schema(
    "people",
    {
        "x": Number(-1, 1, "0.25"),
        "z": Number(-1, 1, "0.25", missing="drop"),
        "y": Category(("no", "yes")),
    },
)
MODEL = Program(name="model", program=poisson_sgd, columns=("x", "z", "y"))
BUDGET = ApproxDP(3, "1e-5")


def release(*items: object, **given: object) -> Release:
    chosen = items or (Count(name="n", by="y"), MODEL)
    schema, adjacency = given.pop("schema", SCHEMA), given.pop("adjacency", "add_remove")
    return Release("t", schema, adjacency, given.pop("budget", BUDGET), chosen)


def table(size: int = 400) -> object:
    rng = np.random.default_rng(2)
    x, z = rng.uniform(-1, 1, (2, size))
    return pa.table({"x": x, "z": z, "y": np.where(x > z, "yes", "no")})


@pytest.fixture(scope="module")
def planned():
    return release().plan()


@pytest.mark.quality
def test_a_program_is_composed_tightly_with_the_other_items() -> None:
    planned = release(Count(name="n", by="y", noise="gaussian"), MODEL).plan()
    alone = Account(poisson_sgd.declaration, planned.release.scope).approximate("1e-5").value[0]
    spent = planned.account.approximate("1e-5").value[0]
    assert Fraction(299, 100) <= spent <= 3
    count = Account(planned.leaves["n"], planned.release.scope).approximate("1e-5").value[0]
    assert alone + count > spent * Fraction(11, 10), "tighter than their sum"


@pytest.mark.quality
def test_a_program_is_charged_and_run_with_the_other_items(planned, tmp_path: Path) -> None:
    ledger = open_ledger(tmp_path / "ledger.sqlite")
    ledger.create("people", terms_of("row", planned.release.scope, ApproxDP(4, "1e-4")))
    done = publish(planned, table(), tmp_path / "out", ledger=ledger, trials=0)
    outputs = [row for row in done.rows if row.item == "model"]
    assert len(outputs) == 2
    assert "64-bit floats" in outputs[0].note
    assert (outputs[0].value > 0) == (outputs[1].value < 0), "x for it, z against it"
    state = ledger.verify("people")
    assert (state.count, state.unfinished) == (1, ())
    assert Fraction(299, 100) <= state.spent[0] <= 3


def test_what_a_program_sees_is_one_row_a_unit_on_its_grid() -> None:
    data = pa.table(
        {
            "person": [7, 7, 8, 9],
            "x": [0.3, 0.3, -9.0, 0.5],
            "z": [0.0, 0.0, 1.0, None],
            "y": ["no", "no", "yes", "yes"],
        }
    )
    schema = replace(SCHEMA, unit="person", entity="person")
    found = records_of(Table(schema, data).opened("key"), ("x", "z", "y"))
    assert sorted(map(tuple, found.values)) == [(-1, 1, 1), (0.25, 0, 0)]
    empty = records_of(Table(schema, data.slice(0, 0)).opened("key"), ("x", "z", "y"))
    assert not empty.present.any()


@pytest.mark.quality
def test_the_attacked_program_sees_the_tables_that_the_engine_bounds() -> None:
    plan = release().plan()
    program = ReleaseProgram(plan, GeneratedTables(plan.release))
    from dpaudit.kernels.query import Records

    rows = Records(np.array([[[1, 0.3, 0.5, 1.0]], [[0, 1, 1, 0]], [[1, -5, 0, 0]]], dtype=float))
    seen = program.reader.records(("x", "z", "y"), rows)
    assert seen.present.tolist() == [True, False, True]
    assert seen.values[[0, 2]].tolist() == [[0.25, 0.5, 1], [-1, 0, 0]]


@pytest.mark.parametrize(
    ("given", "said", "kind"),
    [
        ({"budget": ApproxDP(1, "1e-5")}, "model: its own noise is fixed", BudgetExceeded),
        ({"adjacency": "replace_one"}, "'z' leaves rows out", InvalidParameter),
        (
            {"schema": replace(SCHEMA, unit="person", rows=2)},
            "a program reads one row of each unit",
            InvalidParameter,
        ),
    ],
)
def test_what_a_program_cannot_be_is_refused_before_data(given, said, kind) -> None:
    with pytest.raises(kind, match=said):
        release(**given).plan()


def test_labels_and_outputs_that_do_not_fit_are_refused() -> None:
    with pytest.raises(InvalidParameter, match="two releases are called gradient"):
        release(Count(name="gradient"), MODEL).plan()

    class Two:
        def declaration(self, scope):
            return Gaussian("a", 9)

        def run(self, curator):
            return {"one": 1}

    wrong = replace(poisson_sgd, program=Two())
    with pytest.raises(InvalidParameter, match="gives dict, where an array"):
        release(Program(name="m", program=wrong, columns=("x",))).plan()


PLAN = """
title = "A model"
adjacency = "add_remove"
[budget]
epsilon = 3
delta = 1e-5
[table]
name = "people"
[table.columns]
x = { kind = "number", lower = -1, upper = 1, step = 0.25 }
z = { kind = "number", lower = -1, upper = 1, step = 0.25 }
y = { kind = "category", keys = ["no", "yes"] }
[[items]]
name = "n"
query = "count"
[[items]]
name = "model"
query = "program"
program = "catalogue:poisson_sgd"
columns = ["x", "z", "y"]
"""


@pytest.mark.quality
def test_a_plan_names_a_program_as_commands_do(tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text(PLAN)
    found = CliRunner().invoke(main, ["release", str(tmp_path / "plan.toml")])
    assert found.exit_code == 0, found.output
    assert "poisson_sgd" in found.output
    row = load_plan(tmp_path / "plan.toml").items[1].row()
    assert row["declaration"] == poisson_sgd.declaration.digest
