"""`dpaudit mutate`: what it prints, its exit codes, resuming, and several processes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from dpaudit.cli.main import main
from dpaudit.cli.mutate import mutate_command
from dpaudit.mutate import run as running
from tests.cli.conftest import Invoke


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    """No target of another project is kept open; the command is known."""
    known = "mutate" in main.commands
    main.add_command(mutate_command)
    running._opened.cache_clear()
    yield
    running._opened.cache_clear()
    if not known:
        del main.commands["mutate"]


def document(result: Result) -> Any:
    return json.loads(result.stdout)


def told(document: Any) -> list[tuple[str, str, str]]:
    """What does not depend on the clock."""
    return [(m["name"], m["status"], m["check"]) for m in document["mutants"]]


def test_mutants_of_a_target_as_json(dpaudit: Invoke, project: Path) -> None:
    result = dpaudit("mutate", "held", "--limit", 14, "--trials", 6000, "--json")
    ran = document(result)
    assert (ran["mechanism"], ran["run"], ran["unchanged"]) == ("held", 14, "held")
    assert ran["planted"] > 25
    assert ran["killed"] + ran["survived"] + ran["equivalent"] + ran["harmless"] == 14
    assert ran["kill_rate"] >= 0.95
    assert ran["median_seconds"] < 5
    assert set(ran["families"]) >= {"sensitivity", "scale", "clipping", "off_by_one"}
    placed = {m["where"].partition(":")[0] for m in ran["mutants"]}
    assert placed == {"mechanisms/cases.py"}
    assert "mutants of held: 14 of 14" in result.stderr
    assert not list(project.glob("reports/.mutants*"))


def test_mutants_of_a_target_as_text(dpaudit: Invoke, project: Path) -> None:
    text = dpaudit("mutate", "held", "--limit", 3, "--family", "sensitivity").stdout
    assert "held: 3 mutants, 100.0% killed" in text
    assert "clipping" not in text


def test_a_flagged_target_runs_no_mutant(dpaudit: Invoke, project: Path) -> None:
    result = dpaudit("mutate", "slack", "--limit", 3, "--json", code=5)
    ran = document(result)
    assert ran["mutants"] == []
    assert "variance" in ran["unchanged"]
    assert "no mutant was run" in dpaudit("mutate", "slack", code=5).stdout


def test_a_target_without_a_suite_is_unsupported(dpaudit: Invoke, project: Path) -> None:
    result = dpaudit("mutate", "unsupported", code=4)
    assert "no suite" in result.stderr


def test_a_rate_that_is_not_reached_exits_with_one(dpaudit: Invoke, project: Path) -> None:
    """Two trials of one release cannot tell 0.9 of the noise."""
    result = dpaudit("mutate", "held", "--family", "scale", "--trials", 2, "--json", code=1)
    ran = document(result)
    survivors = {m["name"].partition(".")[2] for m in ran["mutants"] if m["status"] == "survived"}
    assert "scale_nine_tenths" in survivors
    dpaudit("mutate", "held", "--family", "scale", "--trials", 2, "--require", 0.1)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("mutate",), 2),
        (("mutate", "nobody"), 2),
        (("mutate", "held", "slack"), 2),
        (("mutate", "held", "--limit", "0"), 2),
        (("mutate", "held", "--trials", "1"), 2),
        (("mutate", "held", "--family", "typos"), 2),
        (("mutate", "held", "--require", "1.5"), 2),
    ],
)
def test_bad_arguments_are_usage_errors(
    arguments: tuple[str, ...], code: int, dpaudit: Invoke, project: Path
) -> None:
    assert dpaudit(*arguments, code=code).stderr


def test_an_interrupted_run_resumes(
    dpaudit: Invoke, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was finished is kept, and is not run again."""
    whole = document(dpaudit("mutate", "held", "--limit", 8, "--json"))
    right, made = running._one, []

    def stopping(order: Any, name: str) -> Any:
        if len(made) == 5:
            raise KeyboardInterrupt
        made.append(name)
        return right(order, name)

    monkeypatch.setattr(running, "_one", stopping)
    dpaudit("mutate", "held", "--limit", 8, "--json", code=130)
    assert len(list(project.glob("reports/.mutants/*/*.json"))) == 5
    again: list[str] = []
    monkeypatch.setattr(running, "_one", lambda o, name: (again.append(name), right(o, name))[1])
    resumed = document(dpaudit("mutate", "held", "--limit", 8, "--json"))
    assert len(again) == 3
    assert not set(again) & set(made)
    assert told(resumed) == told(whole)
    assert not list(project.glob("reports/.mutants*"))


def test_several_processes_find_the_same(dpaudit: Invoke, project: Path) -> None:
    one = document(dpaudit("mutate", "held", "--limit", 6, "--json"))
    two = document(dpaudit("mutate", "held", "--limit", 6, "--json", "--jobs", 2))
    assert told(one) == told(two)
