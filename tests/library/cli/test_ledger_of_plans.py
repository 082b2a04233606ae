"""What a plan says of its ledger is used, by every command, or refused with what to do."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from dpaudit.cli.main import main
from dpaudit.ledger import open_ledger
from tests.library.cli.test_release_commands import PLAN

pytest.importorskip("sqlalchemy")
pytestmark = pytest.mark.usefixtures("planned_once")
CAP = ("--budget", "epsilon=3 delta=1e-5")
LARGE = ("--budget", "epsilon=20 delta=1e-5")
BUDGETS = {
    "approx": "epsilon = 1\ndelta = 1e-6",
    "pure": "epsilon = 1",
    "zcdp": "rho = 0.1",
    "gdp": "mu = 0.5",
}
CAPS = {
    "approx": LARGE,
    "pure": ("--budget", "epsilon=9"),
    "zcdp": ("--budget", "rho=2"),
    "gdp": ("--budget", "mu=2"),
    "renyi": ("--budget", "renyi=2:9 renyi=16:50"),
    "advanced": (*LARGE, "--set", "composition=advanced"),
    "zcdp for approx": (*LARGE, "--set", "composition=zcdp"),
    "rdp for approx": (*LARGE, "--set", "composition=rdp"),
    "gdp for approx": (*LARGE, "--set", "composition=gdp"),
}
# Noise with a pure epsilon fits every account; Gaussian noise has none, and asks for a delta.
SUITS = {
    "approx": set(CAPS) - {"pure"},
    "pure": set(CAPS),
    "zcdp": set(CAPS) - {"pure", "approx", "advanced"},
    "gdp": set(CAPS) - {"pure", "approx", "advanced"},
}


def run(*arguments: Any) -> Any:
    return CliRunner().invoke(main, list(map(str, arguments)))


def planned(folder: Path, budget: str = "approx", ledger: str | None = "kept/ours.sqlite") -> Path:
    """A plan in a folder of its own."""
    text = PLAN.replace(BUDGETS["approx"], BUDGETS[budget])
    if budget == "approx":  # two counts would have Laplace noise, which fits every account
        text = text.replace('query = "count"', 'query = "count"\nnoise = "gaussian"')
    line = "" if ledger is None else f'ledger = "{ledger}"\n'
    path = folder / "plans" / "plan.toml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text.replace('ledger = "ledger.sqlite"\n', line))
    return path


@pytest.fixture(autouse=True)
def inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.first_case
@pytest.mark.parametrize("form", ["{}", "sqlite:///{}", "sqlite:///{}?timeout=30"])
def test_an_account_is_opened_where_the_plan_is_charged(form: str, tmp_path: Path) -> None:
    path = planned(tmp_path, ledger=form.format("kept/ours.sqlite"))
    made = run("ledger", "init", "people", "--plan", path, *CAP)
    assert made.exit_code == 0, made.output
    assert open_ledger(tmp_path / "plans" / "kept" / "ours.sqlite").names() == ["people"]
    assert not (tmp_path / "ledger.sqlite").exists()
    shown = run("release", path)
    assert shown.exit_code == 0, shown.output
    assert f"ledger place: {tmp_path / 'plans' / 'kept' / 'ours.sqlite'}" in shown.output


def test_a_plan_that_names_no_ledger_is_opened_where_one_is_given(tmp_path: Path) -> None:
    path = planned(tmp_path, ledger=None)
    assert (
        run("ledger", "init", "people", "--plan", path, *CAP, "--set", "ledger=a.db").exit_code == 0
    )
    assert run("release", path, "--set", "ledger=a.db").exit_code == 0
    assert run("ledger", "init", "people", "--plan", path, *CAP).exit_code == 0
    assert {path.name for path in tmp_path.iterdir()} >= {"a.db", "ledger.sqlite"}


COMMANDS = {
    "init": ("ledger", "init", "people", "--plan", "{}", *CAP),
    "plan": ("release", "{}"),
    "release": ("release", "{}", "--data", "none.csv", "--out", "out"),
}


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_another_ledger_than_the_plans_is_refused(command, tmp_path: Path) -> None:
    """Who charges another ledger evades the budget that the plan names."""
    path = planned(tmp_path)
    asked = [part.format(path) for part in command]
    found = run(*asked, "--set", "ledger=other.sqlite")
    assert found.exit_code == 2
    assert f"is charged in {tmp_path / 'plans' / 'kept' / 'ours.sqlite'}" in found.output
    assert not list(tmp_path.rglob("*.sqlite"))
    same = run(*asked, "--set", "ledger=plans/kept/ours.sqlite")
    assert "is charged in" not in same.output


def test_a_plan_s_ledger_goes_before_the_project_s(tmp_path: Path) -> None:
    path = planned(tmp_path)
    assert run("ledger", "init", "people", "--plan", path, *CAP).exit_code == 0
    Path("dpaudit.toml").write_text('[settings]\nledger = "other.sqlite"\nentity = "dog"\n')
    assert "ours.sqlite" in run("release", path).output
    assert run("ledger", "show").exit_code != 0  # of the project's, which nobody made


def test_a_plan_in_the_place_of_its_data_set_names_the_ledger(tmp_path: Path) -> None:
    path = planned(tmp_path)
    assert run("ledger", "init", "people", "--plan", path, *CAP).exit_code == 0
    assert "people" in run("ledger", "show", path).output
    assert run("ledger", "verify", path).exit_code == 0
    withdrawn = run("ledger", "withdraw", path, "People, 2026", "Wrong.")
    assert "people: no release 'People, 2026' was published" in withdrawn.output
    charged = run("ledger", "charge", path, "noisy_count", "--set", "entity=dog")
    assert "people: its unit is 'person'" in charged.output
    by_name = run("ledger", "withdraw", "people", "People, 2026", "Wrong.")
    assert "no ledger is there" in by_name.output


def test_a_plans_ledger_cannot_be_left_out(tmp_path: Path) -> None:
    path = planned(tmp_path)
    found = run("release", path, "--data", "none.csv", "--out", "out", "--no-ledger")
    assert found.exit_code == 2
    assert "--no-ledger" in found.output
    assert "leave one of the two out" in found.output


# --- no advice in circles -------------------------------------------------------------------------

EARLIER = {
    "nothing": None,
    "the plan's account": ("people", "--plan", "plans/plan.toml", *CAP),
    "another file": ("people", "--set", "entity=person", "adjacency=add_remove", *CAP),
    "another data set": (
        *("dogs", "--set", "entity=dog", "adjacency=add_remove", *CAP),
        *("--set", "ledger=plans/kept/ours.sqlite"),
    ),
    "an account without a schema": (
        *("people", "--set", "entity=person", "adjacency=add_remove", *CAP),
        *("--set", "ledger=plans/kept/ours.sqlite"),
    ),
}


@pytest.mark.first_case("name")
@pytest.mark.parametrize("name", EARLIER)
@pytest.mark.parametrize(
    "more", [(), ("--data", "none.csv", "--out", "out")], ids=["plan", "release"]
)
def test_advice_is_never_what_was_just_run_and_works(name: str, more, tmp_path: Path) -> None:
    planned(tmp_path)
    given = EARLIER[name]
    if given is not None:
        made = run("ledger", "init", *given)
        assert made.exit_code == 0, made.output
    found = run("release", "plans/plan.toml", *more)
    advised = re.search(r"dpaudit (ledger init .*)", found.output)
    if name in ("the plan's account", "an account without a schema"):
        assert advised is None, found.output
        return
    assert advised, found.output
    words = shlex.split(advised[1])
    assert tuple(words[2:]) != given
    numbers = iter(("3", "1e-5"))
    followed = [re.sub(r"\.\.\.", lambda _: next(numbers), word) for word in words]
    assert run(*followed).exit_code == 0
    again = run("release", "plans/plan.toml", *more)
    assert "ledger init" not in again.output, again.output


# --- every budget of a plan beside every account --------------------------------------------------


@pytest.mark.long_cases("approx-zcdp", *(f"{account}-gdp" for account in CAPS))
@pytest.mark.first_case("budget")
@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("account", CAPS)
def test_an_account_is_opened_only_if_it_can_take_the_plan(budget, account, tmp_path) -> None:
    path = planned(tmp_path, budget)
    made = run("ledger", "init", "people", "--plan", path, *CAPS[account])
    place = tmp_path / "plans" / "kept" / "ours.sqlite"
    if account in SUITS[budget]:
        assert made.exit_code == 0, made.output
        shown = run("release", path)
        assert shown.exit_code == 0, shown.output
        return
    assert made.exit_code == 4
    assert "cannot charge it" in made.output
    wanted = "an account that is opened with" if account == "pure" else "charge it at a delta"
    assert wanted in made.output
    assert not place.exists()
    # An account that was opened without the plan refuses the release in the same words.
    bare = ("--set", "entity=person", "adjacency=add_remove", f"ledger={place}")
    assert run("ledger", "init", "people", *CAPS[account], *bare).exit_code == 0
    for command in (("release", path), ("release", path, "--data", "none.csv", "--out", "out")):
        found = run(*command)
        assert found.exit_code == 4
        assert wanted in found.output
        assert "ledger init" not in found.output


def test_an_account_that_is_too_small_for_its_plan_is_not_opened(tmp_path: Path) -> None:
    path = planned(tmp_path)
    made = run("ledger", "init", "people", "--plan", path, "--budget", "epsilon=0.5 delta=1e-5")
    assert made.exit_code == 2
    assert "does not fit: 0 of 0.5 is spent" in made.output
    assert not (tmp_path / "plans" / "kept" / "ours.sqlite").exists()


def test_a_charge_outside_a_release_takes_no_delta_that_nothing_adds(tmp_path: Path) -> None:
    given = ("--set", "entity=person", "adjacency=add_remove", "unit=record")
    assert run("ledger", "init", "people", *given, "--budget", "rho=2").exit_code == 0
    found = run(
        "ledger", "charge", "people", "noisy_count", "--set", "entity=person", "charge_delta=1e-6"
    )
    assert found.exit_code == 2
    assert "and no delta; leave it out" in found.output
