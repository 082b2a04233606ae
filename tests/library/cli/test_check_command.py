"""The gate: a project against its committed certificates; the hook and the action that call it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import yaml

from dpaudit.accountant.claim import Claim
from dpaudit.certificate.certificate import save, statement
from dpaudit.check.file import load
from dpaudit.cli.gate import check_project
from dpaudit.families.opaque import GDP
from dpaudit.project.project import Project
from dpaudit.project.project import load as load_project
from dpaudit.storage import roots
from tests.library.cli.conftest import Invoke

Kinds = Callable[..., list[str]]


KEPT: dict[str, bytes] = {}  # the certificate is made once


@pytest.fixture
def committed(dpaudit: Invoke, project: Path) -> Project:
    """A project with one committed certificate."""
    path = project / "reports" / "held.json"
    if not KEPT:
        dpaudit("certify", "held", "--seed", "1", "--trials", "200")
        KEPT["held"] = path.read_bytes()
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(KEPT["held"])
    return load_project(project)


def kinds(project: Project) -> list[str]:
    found = check_project(project, Path("reports"))
    return [one.kind for one in found.problems if one.kind != "missing"]


def changed(project: Project, **changes: Any) -> Project:
    mechanism = replace(project.mechanisms["held"], **changes)
    return replace(project, mechanisms={**project.mechanisms, "held": mechanism})


def test_what_is_as_certified_passes_and_the_rest_is_missing(
    committed: Project, dpaudit: Invoke
) -> None:
    assert kinds(committed) == []
    rows = json.loads(dpaudit("check", "--json", code=1).stdout)
    assert {row["kind"] for row in rows} == {"missing"}
    assert "(allowed)" in dpaudit("check", "--allow", "missing").stdout
    dpaudit("check", "--allow", "mising", code=2)
    dpaudit("check", "nowhere", code=2)


def test_each_change_is_found(committed: Project) -> None:
    held = committed.mechanisms["held"]
    (claim,) = (one for one in held.claims if isinstance(one.guarantee, GDP))
    others = tuple(one for one in held.claims if one is not claim)
    weaker = Claim(GDP(claim.guarantee.mu * 2), by=claim.by)
    assert kinds(changed(committed, claims=(*others, weaker))) == ["stale", "weaker"]
    assert kinds(changed(committed, claims=others or (Claim(held.claims[0].guarantee, by="x"),)))
    stronger = Claim(GDP(claim.guarantee.mu * Fraction(99, 100)), by=claim.by)
    assert kinds(changed(committed, claims=(*others, stronger))) == ["stale"]
    declared = replace(held.program, node=type(held.program.node)("mean", 3))
    assert kinds(changed(committed, program=declared)) == ["stale"]
    gone = {name: one for name, one in committed.mechanisms.items() if name != "held"}
    assert kinds(replace(committed, mechanisms=gone)) == ["stale"]
    (committed.root / "audits" / "cases.py").open("a").write("# changed\n")
    roots._ran.clear()  # as a process that starts now
    found = check_project(committed, Path("reports"))
    assert "files changed: audits/cases.py" in str(found.problems[0])


def test_fields_budgets_dates_and_broken_files_are_found(committed: Project) -> None:
    toml = committed.root / "dpaudit.toml"
    toml.write_text('[fields]\npurpose = "another"\n')
    assert kinds(committed) == ["stale"]
    data = "Data not stated"
    toml.write_text(f'[budgets."{data}"]\nepsilon = "0.01"\ndelta = "1e-6"\n')
    assert kinds(committed) == ["over_budget"]
    toml.unlink()
    path = committed.root / "reports" / "held.json"
    predicate = load(path)["predicate"]
    save(statement({**predicate, "fields": {"expires": ["2020-01-01"]}}), path)
    assert kinds(committed) == ["expired", "stale"]
    path.write_text(path.read_text().replace('"epsilon":"', '"epsilon":"0', 1))
    assert kinds(committed) == ["broken"]
    (path.parent / "other.json").write_text('{"not": "ours"}')
    assert kinds(committed) == ["broken"]


@pytest.mark.quality
def test_a_refuted_certificate_never_passes(dpaudit: Invoke, project: Path) -> None:
    dpaudit("certify", "refuted", "--seed", "1", "--trials", "200", code=1)
    assert kinds(load_project(project))[0] == "refuted-claim"


def environment(folder: Path) -> dict[str, str]:
    """A shell in which ``python`` and ``dpaudit`` are this environment's."""
    binaries = folder / "bin"
    binaries.mkdir()
    for name, module in (("dpaudit", "dpaudit"), ("python", "")):
        call = f'exec {sys.executable} {f"-m {module}" if module else ""} "$@"\n'
        (binaries / name).write_text(f"#!/bin/bash\n{call}")
        (binaries / name).chmod(0o755)
    root = str(Path(__file__).parents[3])
    path = f"{binaries}:{os.environ['PATH']}"
    return os.environ | {"PATH": path, "PYTHONPATH": root, "RUNNER_TEMP": str(folder)}


@pytest.mark.quality
def test_the_action_runs_step_by_step(committed: Project, checkout: Path, tmp_path: Path) -> None:
    """Each step that runs a shell; pip is asked for what is installed, nothing is uploaded."""
    action = yaml.safe_load((checkout / "action.yml").read_text("utf-8"))
    inputs = {name: row["default"] for name, row in action["inputs"].items()}
    inputs |= {"allow": "missing", "package": "pip"}
    settings = environment(tmp_path) | {"GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md")}

    def run() -> dict[str, int]:
        codes = {}
        for step in action["runs"]["steps"]:
            if "run" not in step:
                assert step["with"]["sarif_file"] == "${{ inputs.sarif }}"
                continue
            assert "${{" not in step["run"], "an input in a script is code"
            given = {
                name: inputs[value.strip("${} ").removeprefix("inputs.")]
                for name, value in step.get("env", {}).items()
            }
            command = ["bash", "-eo", "pipefail", "-c", step["run"]]
            found = subprocess.run(command, cwd=committed.root, env=settings | given, check=False)
            codes[step["name"]] = found.returncode
        return codes

    assert run() == {"Install": 0, "Check": 0, "Summary": 0}
    assert "**Certified" in (tmp_path / "summary.md").read_text("utf-8")
    (committed.root / "mechanisms" / "cases.py").open("a").write("# changed\n")
    assert run() == {"Install": 0, "Check": 1, "Summary": 0}
    sarif = json.loads((committed.root / "dpaudit.sarif").read_text("utf-8"))
    stale = [one for one in sarif["runs"][0]["results"] if one["ruleId"] == "stale"]
    (place,) = (one["locations"][0]["physicalLocation"] for one in stale)
    assert place["artifactLocation"]["uri"] == "mechanisms/cases.py"
    assert place["region"]["startLine"] > 1


def test_the_hook_names_a_command_that_exists(checkout: Path, dpaudit: Invoke) -> None:
    (hook,) = yaml.safe_load((checkout / ".pre-commit-hooks.yaml").read_text("utf-8"))
    program, *arguments = hook["entry"].split()
    assert program == "dpaudit"
    assert "Compare the project" in dpaudit(*arguments, "--help").stdout
    assert hook["pass_filenames"] is False
    assert shutil.which("bash")
