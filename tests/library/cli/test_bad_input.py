"""Bad input: one line with the way out, the right exit code, no traceback, nothing half-written."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from dpaudit.certificate.certificate import save
from tests.library.cli.bench import held
from tests.library.cli.conftest import Invoke

USAGE, FAILED, INTERNAL = 2, 1, 70


def one_line(result: Result) -> str:
    """The error: a single line on standard error, and nothing on standard output."""
    assert result.stdout == ""
    lines = [line for line in result.stderr.splitlines() if line.startswith("dpaudit: ")]
    assert len(lines) == 1
    assert result.stderr.splitlines()[-1] == lines[0]
    return lines[0]


def files(folder: Path) -> set[str]:
    found = folder.rglob("*")
    return {p.relative_to(folder).as_posix() for p in found if "__pycache__" not in p.parts}


# --- targets -------------------------------------------------------------------------------------


@pytest.mark.long_cases(
    "certify-catalogue:diff2_dg-did you mean diff2_gd",
    "show-catalogue:diff2_dg-did you mean diff2_gd",
)
@pytest.mark.parametrize(
    ("target", "way_out"),
    [
        ("hold", "did you mean held"),
        ("nothing_like_it", "`dpaudit list` shows all"),
        ("catalogue:diff2_dg", "did you mean diff2_gd"),
        ("mechanisms/cases.py", "say which mechanism"),
        ("mechanisms/cases.py::hold", "did you mean held"),
        ("mechanisms/absent.py::held", "is not a file"),
        ("mechanisms::held", "is not a file"),
        ("", "`dpaudit list` shows all"),
        ("held\n", "did you mean held"),
    ],
)
@pytest.mark.parametrize("command", ["show", "certify"])
def test_an_unknown_target_is_answered_with_a_suggestion(
    command: str, target: str, way_out: str, dpaudit: Invoke, project: Path
) -> None:
    before = files(project)
    error = one_line(dpaudit(command, target, code=USAGE))
    assert way_out in error
    assert files(project) == before


@pytest.mark.first_case("cause", by=lambda cause: cause == "SystemExit")
@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("def broken(:\n", "SyntaxError"),
        ("import no_such_library\n", "ModuleNotFoundError"),
        ("from mechanisms.cases import absent\n", "ImportError"),
        ("raise RuntimeError('first line\\nsecond line')\n", "RuntimeError: first line"),
        ("import sys; sys.exit(3)\n", "SystemExit"),
        ("\x00", "null"),
    ],
)
def test_a_file_that_does_not_import_is_named_with_line_and_cause(
    text: str, cause: str, dpaudit: Invoke, project: Path
) -> None:
    (project / "mechanisms" / "wrong.py").write_text(text)
    for target in ("mechanisms/wrong.py::x", "no_such_name"):
        error = one_line(dpaudit("account", target, code=USAGE))
        assert "wrong" in error
        assert cause in error
        assert "mend the file" in error
    listed = dpaudit("list").stdout
    assert "mechanisms/wrong.py: " in listed
    assert cause in listed
    assert "held" in listed
    dpaudit("account", "held")


PARAMETERS = ["0", "-1", "float('nan')", "float('inf')", "'two'", "True", "None", "[2]", "1e400"]


@pytest.mark.parametrize("value", PARAMETERS)
def test_a_parameter_outside_its_domain_is_named(
    value: str, dpaudit: Invoke, project: Path
) -> None:
    path = project / "mechanisms" / "wrong.py"
    path.write_text(f"from dpaudit import Gaussian\nGaussian('mean', {value})\n")
    error = one_line(dpaudit("show", "mechanisms/wrong.py::x", code=USAGE))
    assert "noise_multiplier" in error
    assert "wrong.py:2" in error


@pytest.mark.parametrize("value", PARAMETERS)
def test_a_claim_outside_its_domain_is_named(value: str, dpaudit: Invoke, project: Path) -> None:
    if value == "0":
        value = "-0.5"  # a claim of epsilon = 0 is one
    path = project / "mechanisms" / "wrong.py"
    path.write_text(f"from dpaudit import ApproxDP\nApproxDP({value}, 1e-5)\n")
    assert "epsilon" in one_line(dpaudit("show", "mechanisms/wrong.py::x", code=USAGE))


# --- options -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "delta", ["1", "2", "-0.1", "nan", "inf", "1e-99999999", "soon", "", "0x1", "9" * 5000]
)
def test_a_delta_that_is_none_is_refused(delta: str, dpaudit: Invoke, project: Path) -> None:
    error = one_line(dpaudit("account", "held", "--delta", delta, code=USAGE))
    assert "delta" in error
    assert len(error) < 700


@pytest.mark.parametrize(
    "options",
    [
        ("--trials", "0"),
        ("--trials", "1"),
        ("--trials", "-5"),
        ("--trials", "1e3"),
        ("--trials", str(10**10)),
        ("--seed", "-1"),
        ("--seed", str(2**128)),
        ("--seed", "one"),
        ("--jobs", "0"),
        ("--jobs", "-1"),
        ("--jobs", str(10**6)),
        ("--speed", "9"),
    ],
)
@pytest.mark.parametrize("command", ["audit", "certify"])
def test_an_option_outside_its_range_is_a_usage_error(
    command: str, options: tuple[str, str], dpaudit: Invoke, project: Path
) -> None:
    result = dpaudit(command, "held", *options, code=USAGE)
    assert result.stdout == ""
    assert options[0] in result.stderr
    assert not (project / "reports").exists()


@pytest.mark.quality
def test_the_largest_seed_is_one(dpaudit: Invoke, project: Path) -> None:
    dpaudit("audit", "held", "--seed", str(2**128 - 1), "--trials", "100")


def test_a_calculus_that_is_none_is_answered_with_those_there_are(
    dpaudit: Invoke, project: Path
) -> None:
    error = one_line(dpaudit("show", "held", "--calculus", "renyi", code=USAGE))
    assert "'renyi'" in error
    for name in ("pure", "approx", "zcdp", "rdp", "gdp"):
        assert name in error


def test_two_targets_of_one_name_are_refused(dpaudit: Invoke, project: Path) -> None:
    targets = ("audits/cases.py::held", "held")
    error = one_line(dpaudit("certify", *targets, code=USAGE))
    assert "two targets name 'held'" in error
    assert not (project / "reports").exists()


@pytest.mark.parametrize("command", ["audit", "certify", "verify", "report", "show", "account"])
def test_a_command_without_its_argument_is_a_usage_error(command: str, dpaudit: Invoke) -> None:
    told = "expected a TARGET" if command == "account" else "Missing argument"
    assert told in dpaudit(command, code=USAGE).stderr


def test_a_date_that_is_none_is_refused(
    dpaudit: Invoke, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "yesterday")
    error = one_line(dpaudit("certify", "refuted", code=USAGE))
    assert "SOURCE_DATE_EPOCH" in error


# --- folders -------------------------------------------------------------------------------------


@pytest.mark.parametrize("out", ["file/below", "file/deep/er", "/dev/null/x", "/proc/x"])
def test_a_folder_that_cannot_be_written_is_refused_before_any_work(
    out: str, dpaudit: Invoke, project: Path
) -> None:
    (project / "file").write_text("mine")
    before = files(project)
    result = dpaudit("certify", "held", "--seed", "1", "--out", out, code=USAGE)
    assert "choose another" in one_line(result)
    assert "attack" not in result.stderr
    assert files(project) == before


def test_a_file_is_no_folder(dpaudit: Invoke, project: Path) -> None:
    (project / "file").write_text("mine")
    assert "is a file" in dpaudit("certify", "held", "--out", "file", code=USAGE).stderr


@pytest.mark.quality
def test_a_disk_that_fills_up_leaves_no_half_of_a_file(
    dpaudit: Invoke, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace = Path.replace

    def full(self: Path, target: Any) -> Any:
        if Path(target).suffix == ".html":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", full)
    error = one_line(dpaudit("certify", "refuted", "--seed", "1", code=USAGE))
    assert "No space left on device" in error
    made = files(project / "reports")
    assert {name for name in made if not name.startswith(".audits")} == set()  # to be resumed


@pytest.mark.parametrize("folder", ["file/new", "/proc/x"])
def test_init_where_nothing_can_be_written(folder: str, dpaudit: Invoke, project: Path) -> None:
    (project / "file").write_text("mine")
    assert "choose a folder" in one_line(dpaudit("init", folder, code=USAGE))


def test_init_over_a_project(dpaudit: Invoke, project: Path) -> None:
    (project / "mechanisms" / "noisy_mean.py").write_text("mine")
    assert "exists" in one_line(dpaudit("init", code=USAGE))
    assert "shipped are" in one_line(dpaudit("init", "new", "--with", "nothing", code=USAGE))
    assert "name of a shipped file" in one_line(
        dpaudit("init", "new", "--with", "../x", code=USAGE)
    )
    assert not (project / "new").exists()


# --- certificates --------------------------------------------------------------------------------


def junk(folder: Path, kind: str) -> Path:
    path = folder / "case.json"
    save(held(), path)
    content = path.read_bytes()
    place = content.rindex(b'"mu":"') + 8
    digit = (int(content[place : place + 1]) + 1) % 10
    changed = {
        "truncated": content[:-400],
        "one digit changed": content[:place] + str(digit).encode() + content[place + 1 :],
        "empty": b"",
        "binary": os.urandom(500),
        "other JSON": b'{"a": 1}',
        "a page": b"<html></html>",
    }
    if kind == "missing":
        path.unlink()
    elif kind == "a folder":
        return folder
    else:
        path.write_bytes(changed[kind])
    return path


JUNK = [
    "truncated", "one digit changed", "empty", "binary", "other JSON", "a page", "missing",
    "a folder",
]  # fmt: skip


@pytest.mark.parametrize("kind", JUNK)
def test_what_is_no_certificate_fails_to_verify(kind: str, dpaudit: Invoke, tmp_path: Path) -> None:
    path = junk(tmp_path, kind)
    result = dpaudit("verify", path, code=10)
    assert len(result.stdout.splitlines()) == 1
    assert result.stdout.startswith(f"{path}: FAILED (")


@pytest.mark.parametrize("kind", JUNK)
def test_what_is_no_certificate_gets_no_page(kind: str, dpaudit: Invoke, tmp_path: Path) -> None:
    path = junk(tmp_path, kind)
    one_line(dpaudit("report", path, "--out", tmp_path / "pages", code=FAILED))
    assert files(tmp_path / "pages") == set()


@pytest.mark.quality
def test_one_bad_file_among_good_ones_fails(dpaudit: Invoke, tmp_path: Path) -> None:
    good = tmp_path / "good.json"
    save(held(), good)
    bad = junk(tmp_path, "one digit changed")
    result = dpaudit("verify", good, bad, code=10)
    assert f"{good}: verified" in result.stdout
    assert f"{bad}: FAILED" in result.stdout


# --- errors nobody foresaw -----------------------------------------------------------------------


def test_an_error_in_a_program_quotes_nothing_private(dpaudit: Invoke, project: Path) -> None:
    """Its message holds a row of the data; kind and place are enough to find it."""
    result = dpaudit("certify", "failing", "--run-unproved", "--seed", "1", code=USAGE)
    error = one_line(result)
    assert "ValueError (" in error
    assert "cases.py:" in error
    assert "0.3141" not in result.stdout + result.stderr
    assert not list((project / "reports").glob("*.json"))


def test_its_traceback_can_be_asked_for(
    dpaudit: Invoke, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DPAUDIT_TRACEBACK", "1")
    with pytest.raises(AssertionError, match="a bad row"):
        dpaudit("certify", "failing", "--run-unproved", "--seed", "1", code=USAGE)


def test_an_interruption_says_how_to_go_on(
    dpaudit: Invoke, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*arguments: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("dpaudit.certificate.publish.certify_one", interrupted)
    error = one_line(dpaudit("certify", "held", "--seed", "1", code=130))
    assert "--seed resumes" in error
