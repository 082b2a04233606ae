"""`dpaudit mutate`: it counts what `certify` says, of a project's own mechanism without a suite."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dpaudit.certificate import certify, on_data
from dpaudit.mutate import run as running
from dpaudit.mutate.operators import Planted
from dpaudit.mutate.plant import file_of, import_planted, separately
from tests.library.cli.conftest import Invoke

ONE = ("--set", "operator=clip_after_averaging", "--json")


@pytest.mark.quality
def test_a_mutant_is_not_certified_and_its_right_twin_is(dpaudit: Invoke, project: Path) -> None:
    result = dpaudit("mutate", "held", *ONE)
    ran = json.loads(result.stdout)
    assert (ran["mechanism"], ran["right_program"]) == ("held", "certified_under_assumptions")
    (mutant,) = ran["mutants"]
    assert (mutant["status"], mutant["twin"]) == ("not_certified", "left alone")
    assert mutant["check"] == "displacement of every query, maximised"
    assert mutant["where"].startswith("mechanisms.cases:")
    assert "mutants of held: 1 of 1" in result.stderr


def test_a_bug_that_certify_does_not_see_is_counted_as_certified(
    dpaudit: Invoke, project: Path
) -> None:
    """With the examination of both blinded, the same mutant is certified."""
    judged = separately(judged_blindly, project, seconds=60)
    assert set(judged.get("verdicts", judged)) == {"certified_under_assumptions"}, judged


def judged_blindly(project: Path) -> Any:
    """The judgement of the mutant in a process in which the examination finds nothing."""
    right = certify.examine

    def blind(*arguments: Any, **options: Any) -> Any:
        examined = right(*arguments, **options)
        calm = tuple({f.check: _calm(f) for f in examined.findings}.values())
        return replace(examined, findings=calm, pair=None)

    certify.examine = on_data.examine = blind
    module = "mechanisms.cases"
    lines = file_of(project, module).read_text("utf-8").splitlines()
    line = next(k for k, text in enumerate(lines, 1) if "curator.release(" in text)
    planted = Planted("clip_after_averaging", module, line, "")
    return running._judged(import_planted(project, module, planted).held, 1)


def _calm(finding: Any) -> Any:
    if finding.status != "broken":
        return finding
    return replace(finding, status="held", statistic=0.0)
