"""SARIF and JUnit files are read by tools that pipelines use, where these are installed.

pip install sarif-tools junitparser
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from dpaudit.cli.main import main
from tests.library.unit.test_pytest_plugin import SUITE, session

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Both formats of a committed certificate."""
    folder = tmp_path_factory.mktemp("written")
    certificates = [str(path) for path in sorted((ROOT / "reports").glob("*.json"))[:1]]
    arguments = ["report", *certificates, "--format", "sarif,junit", "--out", str(folder)]
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 0, done.output
    return folder


@pytest.mark.quality
def test_sarif_tools_reads_the_findings(written: Path, tmp_path: Path) -> None:
    pytest.importorskip("sarif.loader")
    command = [sys.executable, "-m", "sarif", "csv", str(written / "report.sarif"), "-o", "out.csv"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    first, *rows = (tmp_path / "out.csv").read_text("utf-8").splitlines()
    assert first == "Tool,Severity,Code,Description,Location,Line"
    assert rows
    assert all(row.startswith("dpaudit,") for row in rows)


def suites(path: Path) -> Any:
    junitparser = pytest.importorskip("junitparser")
    return junitparser.JUnitXml.fromfile(str(path))


def test_junitparser_reads_claims_as_tests(written: Path) -> None:
    read = suites(written / "report.xml")
    assert read.tests == sum(1 for suite in read for _ in suite) > 0
    assert (read.failures, read.errors) == (0, 0)


@pytest.mark.quality
def test_junitparser_reads_bounds_of_a_session(tmp_path: Path) -> None:
    junitparser = pytest.importorskip("junitparser")
    session(tmp_path, SUITE, "-k", "wrong", "--junitxml=junit.xml")
    (suite,) = suites(tmp_path / "junit.xml")
    (case,) = suite
    shown = {one.name: one.value for one in case.child(junitparser.Properties)}
    assert shown["dp_verdict"] == "refuted"
    assert float(shown["dp_log_e_value"]) > 10


@pytest.mark.quality
def test_pre_commit_installs_and_runs_the_hook(project: Path, tmp_path: Path) -> None:
    """By its real runner, which makes an environment of its own; minutes the first time."""
    pytest.importorskip("pre_commit")
    git = ("git", "-c", "user.name=a", "-c", "user.email=a@b.example")
    for words in (("init", "-q"), ("add", "-A"), ("commit", "-qm", "begun")):
        subprocess.run([*git, *words], cwd=project, check=True)
    runner = [sys.executable, "-m", "pre_commit", "try-repo", str(ROOT), "dpaudit-check"]
    home = os.environ | {"PRE_COMMIT_HOME": str(tmp_path / "home")}
    (project / "reports").mkdir(exist_ok=True)

    def hook() -> str:
        done = subprocess.run(
            [*runner, "--all-files"], cwd=project, env=home, capture_output=True, text=True
        )
        assert (done.returncode == 0) == ("Passed" in done.stdout), done.stdout + done.stderr
        return done.stdout

    assert "missing: no certificate" in hook()
    (project / "audits" / "cases.py").write_text("import nowhere\n")
    assert "audits/cases.py" in hook()
