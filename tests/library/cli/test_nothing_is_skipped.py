"""A suite that cannot be loaded is an error of whatever would have used it, with file and line."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from copy import deepcopy
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from dpaudit.certificate.certificate import statement
from dpaudit.check import check
from dpaudit.errors import TRACEBACK, CertificateRejected
from dpaudit.project import project
from tests.library.cli.conftest import Invoke

Break = Callable[[Path], None]


def edit(old: str, new: str) -> Break:
    def write(folder: Path) -> None:
        suite = folder / "audits" / "noisy_mean.py"
        suite.write_text(suite.read_text("utf-8").replace(old, new), "utf-8")

    return write


def rename(folder: Path) -> None:
    """The mechanism has another name than its suite says."""
    program = folder / "mechanisms" / "noisy_mean.py"
    program.write_text(program.read_text("utf-8").replace('"noisy_mean"', '"noisy_average"'))
    edit("noisy_mean.name", '"noisy_mean"')(folder)


NOISY_MEAN = "mechanism=noisy_mean.name"
BREAKS: dict[str, tuple[Break, str]] = {
    "a missing module": (edit("import numpy as np", "import numppy as np"), "audits/noisy_mean.py"),
    "a syntax error": (edit("suite = Suite(", "suite = = Suite("), "audits/noisy_mean.py"),
    "an exception": (edit(NOISY_MEAN, "mechanism=1 / 0"), "ZeroDivisionError"),
    "a bad argument": (edit("trials=400", "trials=-1"), "audits/noisy_mean.py"),
    "a misspelt name": (edit("Neighbours(Records", "Neighbors(Records"), "NameError"),
    "an exit": (edit("import numpy as np", "raise SystemExit"), "audits/noisy_mean.py"),
    "a renamed mechanism": (rename, "did you mean noisy_average?"),
}


@pytest.fixture
def broken(request: pytest.FixtureRequest, scratch: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    harm, said = BREAKS[request.param]
    harm(scratch)
    monkeypatch.chdir(scratch)
    return said


@pytest.mark.parametrize("broken", BREAKS, indirect=True)
@pytest.mark.parametrize("command", ["audit", "certify", "certify --all", "check"])
def test_a_suite_that_is_not_loaded_is_an_error(
    command: str, broken: str, scratch: Path, dpaudit: Invoke
) -> None:
    name = "noisy_average" if "noisy_average" in broken else "noisy_mean"
    words = command.split() if command in ("certify --all", "check") else [command, name]
    if command == "check":
        (scratch / "reports").mkdir()
        words = ["check", "reports"]
    result = dpaudit(*words, code=1 if command == "check" else 2)
    assert broken in result.stdout + result.stderr
    shown = "".join((result.stdout + result.stderr).split())
    assert re.search(r"audits/noisy_mean\.py:\d+", shown), shown
    assert not list(scratch.rglob("reports/*.json"))


@pytest.mark.quality
@pytest.mark.parametrize("broken", ["a syntax error"], indirect=True)
def test_without_the_check_a_default_attack_stands_in_its_place(
    broken: str, dpaudit: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(project, "suite_of", lambda found, mechanism: None)
    result = dpaudit("audit", "noisy_mean", "--seed", "1", "--trials", "200", "--json")
    assert json.loads(result.stdout)[0]["name"] == "noisy_mean"


@pytest.mark.parametrize("lost", ["audits", "mechanisms"])
def test_a_project_that_lost_a_folder_is_not_the_catalogue(
    lost: str, scratch: Path, dpaudit: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.rmtree(scratch / lost)
    monkeypatch.chdir(scratch)
    assert f"and no {lost}/" in dpaudit("list", code=2).stderr


PROGRAM_BREAKS = {
    "a misspelt name": (
        "ClippedMean(",
        "__import__('dpaudit').ClipedMean(",
        "did you mean 'ClippedMean'?",
    ),
    "an exception": ("curator.release(", "[][curator] or (", "TypeError at "),
}


@pytest.mark.first_case
@pytest.mark.parametrize("name", PROGRAM_BREAKS)
@pytest.mark.parametrize("command", ["audit", "certify", "certify --all"])
def test_a_program_that_raises_is_named_by_its_own_line(
    command: str, name: str, scratch: Path, dpaudit: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new, said = PROGRAM_BREAKS[name]
    program = scratch / "mechanisms" / "noisy_mean.py"
    text = program.read_text("utf-8")
    line = text[: text.index(old)].count("\n") + 1
    program.write_text(text.replace(old, new), "utf-8")
    monkeypatch.chdir(scratch)
    words = command.split() if "--all" in command else [command, "noisy_mean"]
    result = dpaudit(*words, "--trials", 200, code=2)
    shown = "".join((result.stdout + result.stderr).split())
    assert "".join(said.split()) in shown
    assert f"noisy_mean.py:{line}" in shown
    assert not list(scratch.rglob("reports/*.json"))


def test_an_empty_project_is_an_error(
    scratch: Path, dpaudit: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in [*scratch.glob("mechanisms/*.py"), *scratch.glob("audits/*.py")]:
        path.write_text("") if path.name == "__init__.py" else path.unlink()
    monkeypatch.chdir(scratch)
    assert "holds no mechanism" in dpaudit("certify", "--all", code=2).stderr


def test_a_function_that_raises_is_named_by_its_line_and_shown_when_asked(
    scratch: Path, dpaudit: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "def broken(data, rng, size):\n    raise KeyError('a text')\n"
    (scratch / "own_function.py").write_text(text)
    monkeypatch.chdir(scratch)
    command = ("audit", "own_function:broken", "[1]", "[2]", "--claim", "1", "--trials", 200)
    said = dpaudit(*command, code=2).stderr
    assert "raised KeyError (" in said
    assert "own_function.py:2)" in said
    assert "a text" not in said
    monkeypatch.setenv(TRACEBACK, "1")
    shown: list[BaseException] = []
    monkeypatch.setattr("traceback.print_exception", shown.append)
    dpaudit(*command, code=2)
    assert "a text" in repr([one.__cause__ for one in shown])


# --- which suite attacked -----------------------------------------------------------------------


@pytest.fixture
def certified(
    scratch: Path, dpaudit: Invoke, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Path]:
    """The certificate of the scratch project, with some options."""
    monkeypatch.chdir(scratch)

    def certify(*options: object) -> Path:
        dpaudit("certify", "noisy_mean", "--seed", 1, "--out", "out", *options)
        return scratch / "out" / "noisy_mean.json"

    return certify


def audits_of(path: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(path.read_text("utf-8"))["predicate"]["audits"]
    return rows


@pytest.mark.quality
def test_a_certificate_says_which_suite_attacked_and_with_how_many_trials(
    scratch: Path, dpaudit: Invoke, certified: Callable[..., Path]
) -> None:
    """By file and digest; an audit of dpaudit's own has none.  Page and verify say so."""
    path = certified()
    digest = sha256((scratch / "audits" / "noisy_mean.py").read_bytes()).hexdigest()
    suites = {row["id"].partition(":")[0]: (row["suite"], row["trials"]) for row in audits_of(path)}
    suite, trials = suites["lens"]
    assert suite == {"file": "audits/noisy_mean.py", "sha256": digest, "trials": 400}
    assert trials == 400
    assert suites["found"][0] is None
    page = path.with_suffix(".html").read_text("utf-8")
    assert f"by audits/noisy_mean.py, SHA-256 {digest[:16]}" in page
    said = " ".join(dpaudit("verify", path).stdout.split())
    assert f"attacked by audits/noisy_mean.py (SHA-256 {digest[:16]}): 400 trials a side" in said
    assert "attacked on a pair that dpaudit found, by no suite" in said


@pytest.mark.quality
def test_fewer_trials_than_a_suite_asks_for_fail_where_an_audit_is_required(
    dpaudit: Invoke, certified: Callable[..., Path]
) -> None:
    path = certified("--trials", 300)
    dpaudit("verify", path)
    required = dpaudit("verify", path, "--set", "require_audit=true", "--json", code=14)
    (row,) = json.loads(required.stdout)
    assert "audits/noisy_mean.py asks for 400 trials a side, and 300 were run" in row["missing"]
    page = path.with_suffix(".html").read_text("utf-8")
    assert "fewer than the 400 that the suite asks for" in page


@pytest.mark.quality
def test_a_suite_that_is_no_file_of_the_implementation_is_refused(
    certified: Callable[..., Path],
) -> None:
    honest = json.loads(certified().read_text("utf-8"))["predicate"]
    check(statement(honest))
    for name, value in (("sha256", "0" * 64), ("file", "audits/other.py")):
        forged = deepcopy(honest)
        for row in forged["audits"]:
            if row["suite"]:
                row["suite"][name] = value
        with pytest.raises(CertificateRejected, match="none of the implementation's files"):
            check(statement(forged))


@pytest.mark.quality
def test_without_a_suite_dpaudits_own_search_attacks_and_is_named(
    scratch: Path, certified: Callable[..., Path]
) -> None:
    (scratch / "audits" / "noisy_mean.py").unlink()
    path = certified()
    assert [row["suite"] for row in audits_of(path)] == [None] * len(audits_of(path))
    assert "no suite attacked" in path.with_suffix(".html").read_text("utf-8")
