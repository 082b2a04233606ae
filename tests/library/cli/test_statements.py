"""Statements on a certificate are those of whoever runs it, from one source with the same names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from dpaudit.cli import audit_commands
from dpaudit.cli.main import main
from dpaudit.errors import InvalidParameter
from dpaudit.releases.attacked import order_of
from dpaudit.releases.plan import load_plan
from dpaudit.storage import fields as fields_module
from dpaudit.storage.fields import FIELDS, read_fields, stated_above
from dpaudit.storage.roots import catalogue_root
from tests.library.cli.conftest import Invoke

PLAN = """{top}
title = "{title}"
adjacency = "add_remove"
[budget]
epsilon = 1
[table]
name = "visits"
unit = "patient"
entity = "patient"
rows = 1
[table.columns.sex]
kind = "category"
keys = ["f", "m"]
[[items]]
query = "count"
name = "patients"
"""


def plan(folder: Path, title: str = "Visits 2025", *, top: str = "", fields: str = "") -> Path:
    path = folder / f"{title[:20]}.toml"
    path.write_text(PLAN.format(title=title, top=top) + fields, "utf-8")
    return path


def run_on_own_rows(dpaudit: Invoke, folder: Path, *more: str) -> dict[str, Any]:
    rows = "".join(f"{k / 10},{k % 2}\n" for k in range(8))
    (folder / "own.csv").write_text("x,label\n" + rows)
    given = ("run", "catalogue:diff2_gd", "--data", "own.csv", "--set", "label_column=label")
    dpaudit(*given, "--out", "own.npz", "--trials", 100, *more)
    certificate: dict[str, Any] = json.loads((folder / "own.json").read_text())
    return certificate["predicate"]  # type: ignore[no-any-return]


@pytest.mark.quality
def test_a_run_of_a_catalogue_mechanism_states_nothing_of_its_authors(
    dpaudit: Invoke, project: Path
) -> None:
    (project / "dpaudit.toml").write_text('[fields]\ncontroller = "The clinic"\n')
    predicate = run_on_own_rows(dpaudit, project, "--field", "purpose=Planning of beds")
    assert predicate["fields"] == {"purpose": ["Planning of beds"], "controller": ["The clinic"]}
    assert predicate["scope"]["controller"] == "The clinic"
    assert not predicate["scope"]["data_accesses"]["uncovered"]
    page = (project / "own.html").read_text()
    assert "nothing is published from these runs" not in page


@pytest.mark.quality
def test_orders_of_the_catalogue_hold_the_statements_of_whoever_asks(
    dpaudit: Invoke, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the rule, the authors' purpose is stated as the runner's."""
    target, authors = "catalogue:diff2_gd", read_fields(catalogue_root()).of("diff2_gd")
    assert authors["purpose"]
    monkeypatch.setattr(audit_commands, "resolve_target", _resolved(project))
    assert audit_commands.order_of(target).fields == {}
    (project / "dpaudit.toml").write_text('[fields]\ncontroller = "The clinic"\n')
    for own_data in (False, True):
        order = audit_commands.order_of(target, {"tuning": ["None"]}, own_data=own_data)
        assert order.fields == {"controller": ["The clinic"], "tuning": ["None"]}
    monkeypatch.setattr(fields_module, "root_above", lambda start: catalogue_root())
    assert audit_commands.order_of(target).fields == authors


def _resolved(folder: Path) -> Any:
    """Resolves names of the catalogue in a process that serves the catalogue."""
    from dpaudit.project.project import resolve

    return lambda target: resolve(target, folder)


def test_the_catalogues_own_file_speaks_for_nobody_else() -> None:
    assert stated_above(catalogue_root() / "docs").of("") == {}


def test_a_plan_states_the_fields_of_its_file_its_own_and_those_of_options(tmp_path: Path) -> None:
    stated = '[fields]\npurpose = "file"\ncontact = "file"\ncontroller = "file"\n'
    (tmp_path / "dpaudit.toml").write_text(stated)
    path = plan(tmp_path, fields='[fields]\ncontact = "plan"\ncontroller = "plan"\n')
    release = load_plan(path, {"controller": ["option"]})
    expected = {"purpose": ["file"], "controller": ["option"], "contact": ["plan"]}
    assert release.fields == expected
    assert order_of(release.plan()).fields == expected
    assert release.digest == load_plan(plan(tmp_path)).digest


def test_a_plan_that_states_its_controller_twice_is_refused(tmp_path: Path) -> None:
    path = plan(tmp_path, top='controller = "a"', fields='[fields]\ncontroller = "b"\n')
    with pytest.raises(InvalidParameter, match="leave one of them out"):
        load_plan(path)


@pytest.mark.parametrize(
    ("given", "said"),
    [("purpose", "expected NAME=TEXT"), ("purpos=x", "did you mean 'purpose'"),
     ("expires=soon", "YYYY-MM-DD"), ("purpose=", "expected a text")],
)  # fmt: skip
def test_an_option_that_states_no_field_is_refused(
    given: str, said: str, dpaudit: Invoke, project: Path
) -> None:
    assert said in dpaudit("certify", "held", "--field", given, code=2).stderr


def test_releases_of_two_years_have_two_names(tmp_path: Path) -> None:
    titles = ("Visits 2024", "Visits 2025", "Besuche für 2025", "2025", "就诊", "x" * 200)
    names = [load_plan(plan(tmp_path, title)).name for title in titles]
    assert names[:2] == ["visits_2024", "visits_2025"]
    assert names[3] == "release_2025"
    assert len(set(names)) == len(titles)
    assert all(name.isascii() and name.isidentifier() and name == name.lower() for name in names)


@pytest.mark.quality
def test_a_committed_release_is_not_stale(dpaudit: Invoke, project: Path) -> None:
    for title in ("Visits 2024", "Visits 2025"):
        dpaudit("certify", plan(project, title), "--trials", 200, "--out", "releases", "--seed", 1)
    made = sorted(path.name for path in (project / "releases").glob("v*.html"))
    assert made == ["visits_2024.html", "visits_2025.html"]
    problems = json.loads(dpaudit("check", "releases", "--json", code=1).stdout)
    assert {one["kind"] for one in problems} == {"missing"}


def test_the_form_asks_for_what_is_missing_and_writes_it(tmp_path: Path) -> None:
    path = tmp_path / "dpaudit.toml"
    path.write_text('[fields] # ours\npurpose = "beds"\n\n[budgets."a"]\nepsilon = "1"\n')
    answers = ["", "registry", *[""] * (len(FIELDS) - 3)]
    done = CliRunner().invoke(main, ["fields", str(tmp_path)], input="\n".join(answers) + "\n")
    assert done.exit_code == 0, done.output
    stated = read_fields(tmp_path)
    assert stated.of("") == {"purpose": ["beds"], "data_source": ["registry"]}
    assert stated.budgets["a"] == {"epsilon": "1"}
    rows = json.loads(CliRunner().invoke(main, ["fields", str(tmp_path), "--json"]).stdout)
    assert [row["name"] for row in rows] == list(FIELDS)
    assert [row["name"] for row in rows if row["stated"]] == ["purpose", "data_source"]


@pytest.mark.parametrize(
    ("before", "answer", "said"),
    [("", "2027", "YYYY-MM-DD"), ("fields = {}\n", "2027-01-31", "add to it")],
)
def test_an_answer_that_cannot_be_written_leaves_the_file(
    before: str, answer: str, said: str, tmp_path: Path
) -> None:
    (tmp_path / "dpaudit.toml").write_text(before)
    place = FIELDS.index("publication_date")
    answers = [*[""] * place, answer, *[""] * (len(FIELDS) - place - 1)]
    done = CliRunner().invoke(main, ["fields", str(tmp_path)], input="\n".join(answers) + "\n")
    assert done.exit_code == 2
    assert said in done.output
    assert (tmp_path / "dpaudit.toml").read_text() == before
