"""`dpaudit certify --all`: the whole project, one by one, kept where nothing has changed."""

from __future__ import annotations

import json
import re
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from dpaudit.check.file import load
from tests.library.cli.conftest import Invoke, call, spawn

ALL = ("certify", "--all", "--seed", "1", "--trials", "400")
SMALL = ["held", "refuted"]


def without(project: Path, names: str) -> Path:
    """The project without some of its mechanisms and suites."""
    for file in ("mechanisms/cases.py", "audits/cases.py"):
        path = project / file
        path.write_text(re.sub(rf"^({names}) = .*\n", "", path.read_text(), flags=re.M))
    return project


@pytest.fixture
def calm(project: Path) -> Path:
    """Only mechanisms whose verdicts are the expected ones."""
    return without(project, "slack|failing")


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages of this process get no figures, which take longer than all the rest."""
    monkeypatch.setattr("dpaudit.report.figures.blocks", lambda predicate: [])


@pytest.fixture
def small(project: Path, undrawn: None) -> Path:
    """One that is certified and one whose claim is refuted, as expected; pages without figures."""
    return without(project, "slack|failing|slow|inconclusive|unsupported")


def rows(result: Result) -> dict[str, Any]:
    return {row["name"]: row for row in json.loads(result.stdout)}


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def kept(result: Result) -> list[str]:
    return [name for name, row in rows(result).items() if row.get("kept")]


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


# --- what it makes -------------------------------------------------------------------------------


@pytest.mark.quality
def test_a_broken_file_is_a_failure_of_its_own(dpaudit: Invoke, small: Path) -> None:
    (small / "mechanisms" / "wrong.py").write_text("1 / 0\n")
    result = dpaudit(*ALL, "--json", code=2)
    found = rows(result)
    assert set(found) == {*SMALL, "mechanisms/wrong.py"}
    assert "ZeroDivisionError" in found["mechanisms/wrong.py"]["error"]
    assert "ZeroDivisionError" in (small / "reports" / "index.html").read_text()


def test_every_mechanism_gets_a_certificate_a_page_and_rows_of_the_index(
    dpaudit: Invoke, small: Path
) -> None:
    result = dpaudit(*ALL)
    made = {f"{name}.{kind}" for name in SMALL for kind in ("html", "json")}
    assert set(files(small / "reports")) == made | {"index.html"}
    assert not (small / "reports" / ".audits").exists()
    index = (small / "reports" / "index.html").read_text()
    assert all(f'href="./{name}.html"' in index for name in SMALL)
    assert "2 reports, 3 claims" in index
    assert result.stdout.splitlines()[-1] == "reports/index.html"
    assert len(result.stderr.splitlines()) == len(SMALL)  # a line of progress each
    for name in SMALL:
        certificate = load(small / "reports" / f"{name}.json")["predicate"]
        command = "dpaudit certify --all --seed 1 --trials 400"
        assert certificate["reproduce"]["command"] == command
    dpaudit("verify", "--require", "refuted", *(small / "reports").glob("*.json"))


@pytest.mark.usefixtures("undrawn")
@pytest.mark.quality
def test_refuted_as_expected_is_no_failure_and_alone_keeps_its_exit_code(
    dpaudit: Invoke, calm: Path
) -> None:
    found = rows(dpaudit(*ALL, "--json"))
    assert {name: row["verdict"] for name, row in found.items()} == {
        "held": "certified_under_assumptions",
        "inconclusive": "inconclusive",
        "refuted": "refuted",
        "slow": "certified_under_assumptions",
        "unsupported": "unsupported",
    }
    assert all(row["surprises"] == [] for row in found.values())
    dpaudit("certify", "refuted", "--seed", "1", code=1)


@pytest.mark.quality
@pytest.mark.first_case
@pytest.mark.parametrize(
    ("old", "new", "name", "said", "code"),
    [
        ('GDP(0.4), expected=["refuted"]', "GDP(0.4)", "refuted", "expected proved, is refuted", 1),
        ('GDP(0.4), expected=["refuted"]', "PureDP(1)", "refuted", "is unsupported", 1),
        ("GDP(0.4)", "GDP(0.6)", "refuted", "expected refuted, is proved", 1),
    ],
)
def test_a_verdict_that_nobody_expects_is_told_and_exits(
    old: str, new: str, name: str, said: str, code: int, dpaudit: Invoke, small: Path
) -> None:
    edit(small / "mechanisms" / "cases.py", old, new)
    result = dpaudit(*ALL, code=code)
    lines = [line for line in result.stdout.splitlines() if line.startswith(f"{name}: ")]
    assert any(said in line for line in lines)


@pytest.mark.usefixtures("undrawn")
@pytest.mark.quality
def test_one_that_fails_does_not_stop_the_others_and_quotes_nothing(
    dpaudit: Invoke, project: Path
) -> None:
    result = dpaudit(*ALL, "--run-unproved", "--json", code=2)
    found = rows(result)
    said = "failing: its program fails in its run on the data (ValueError ("
    assert found["failing"]["error"].startswith(said)
    assert found["slack"]["verdict"] == "alarm"
    assert found["slow"]["verdict"] == "certified_under_assumptions"
    index = (project / "reports" / "index.html").read_text()
    assert "1 not certified" in index
    assert said in index
    for text in (result.stdout, result.stderr, index):
        assert "0.314" not in text
    again = dpaudit(*ALL, "--run-unproved", "--json", code=2)
    assert kept(again) == [name for name in found if name != "failing"]


# --- what it keeps -------------------------------------------------------------------------------


@pytest.mark.quality
def test_a_second_run_keeps_everything_and_attacks_nothing(dpaudit: Invoke, small: Path) -> None:
    first = dpaudit(*ALL, "--json")
    assert kept(first) == []
    before = files(small / "reports")
    again = dpaudit(*ALL, "--json")
    assert kept(again) == SMALL
    assert "attack" not in again.stderr
    assert "2 of 2, refuted: refuted, kept" in again.stderr
    assert files(small / "reports") == before
    verdicts = [{k: v for k, v in row.items() if k != "kept"} for row in rows(again).values()]
    assert verdicts == [{k: v for k, v in r.items() if k != "kept"} for r in rows(first).values()]


@pytest.mark.quality
@pytest.mark.parametrize(
    "other", [("--seed", "2"), pytest.param(("--trials", "401"), marks=pytest.mark.quality)]
)
def test_another_seed_or_number_of_trials_is_another_run(
    other: tuple[str, ...], dpaudit: Invoke, small: Path
) -> None:
    dpaudit(*ALL)
    assert kept(dpaudit(*ALL, *other, "--json")) == []


@pytest.mark.quality
@pytest.mark.parametrize(
    ("source", "same"),
    [("mechanisms", []), ("audits", ["refuted"])],
)
def test_another_source_is_another_run(
    source: str, same: list[str], dpaudit: Invoke, small: Path
) -> None:
    """Any source that a mechanism or its suite imports; ``refuted`` has no suite."""
    dpaudit(*ALL)
    path = small / source / "cases.py"
    path.write_text(path.read_text() + "\n")
    child = call(*ALL, "--json", cwd=small)
    assert [row["name"] for row in json.loads(child.stdout) if row["kept"]] == same


@pytest.mark.quality
def test_another_dpaudit_is_another_run(
    dpaudit: Invoke, small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dpaudit(*ALL)
    monkeypatch.setattr("dpaudit.certificate.cache.code_digest", lambda: "another")
    assert kept(dpaudit(*ALL, "--json")) == []


@pytest.mark.quality
@pytest.mark.long_cases("changed", "truncated", "no page")
@pytest.mark.first_case
@pytest.mark.parametrize("harm", ["changed", "truncated", "no page", "other page", "no record"])
def test_what_is_not_as_it_was_written_is_made_again(
    harm: str, dpaudit: Invoke, small: Path
) -> None:
    dpaudit(*ALL)
    out = small / "reports"
    before = files(out)
    certificate, page = out / "refuted.json", out / "refuted.html"
    if harm == "changed":
        edit(certificate, '"verdict":"refuted"', '"verdict":"certified"')
    elif harm == "truncated":
        certificate.write_bytes(before["refuted.json"][:1000])
    elif harm == "no page":
        page.unlink()
    elif harm == "other page":
        edit(page, "refuted", "certified")
    else:
        (out / ".certified" / "refuted.json").write_text("[" * 10**5)
    assert kept(dpaudit(*ALL, "--json")) == ["held"]
    assert files(out) == before


@pytest.mark.quality
def test_a_forged_certificate_with_a_forged_record_does_not_verify(
    dpaudit: Invoke, small: Path
) -> None:
    """The record alone is not trusted: a certificate that is kept is verified."""
    from dpaudit.certificate.cache import files_of, remember

    dpaudit(*ALL)
    out = small / "reports"
    before = files(out)
    record = json.loads((out / ".certified" / "refuted.json").read_text())
    edit(out / "refuted.json", '"verdict":"refuted"', '"verdict":"certified"')
    remember(files_of("refuted", out), record["made_from"])
    assert "refuted" not in kept(dpaudit(*ALL, "--json"))
    assert files(out) == before


@pytest.mark.quality
def test_one_certified_alone_in_between_is_made_again(dpaudit: Invoke, small: Path) -> None:
    """Alone it has the whole decision error; the run over all shares it."""
    dpaudit(*ALL)
    before = files(small / "reports")
    dpaudit("certify", "held", "--seed", "1", "--trials", "400")
    assert files(small / "reports")["held.json"] != before["held.json"]
    assert kept(dpaudit(*ALL, "--json")) == ["refuted"]
    assert files(small / "reports") == before


@pytest.mark.quality
def test_without_a_seed_nothing_is_kept(dpaudit: Invoke, small: Path) -> None:
    dpaudit("certify", "--all", "--trials", "400")
    assert kept(dpaudit("certify", "--all", "--trials", "400", "--json")) == []


# --- interruptions -------------------------------------------------------------------------------


@pytest.mark.quality
def test_killed_between_and_inside_audits_it_ends_the_same(calm: Path, tmp_path: Path) -> None:
    """kill -9 inside the slow audit; byte for byte as if it had not been killed."""
    run = ("certify", "--all", "--seed", "1")
    without(calm, "held|inconclusive")
    call(*run, "--out", tmp_path / "calm", cwd=calm)
    out = calm / "reports"
    child = spawn(*run, "--jobs", "2", cwd=calm)
    wait_for_batches(child, out, 3)
    child.send_signal(signal.SIGKILL)
    child.communicate(timeout=60)
    assert {"refuted.json", "refuted.html"} <= set(files(out)), "written as soon as finished"
    assert not set(files(out)) & {"slow.json", "unsupported.json", "index.html"}
    last = call(*run, "--json", cwd=calm)
    found = {row["name"]: row["kept"] for row in json.loads(last.stdout)}
    assert found == {"refuted": True, "slow": False, "unsupported": False}
    assert files(out) == files(tmp_path / "calm")


def wait_for_batches(child: Any, out: Path, count: int) -> None:
    """Batches of the slow audit: those of the refuted one are gone when it is done."""
    deadline = time.monotonic() + 60
    seen: set[Path] = set()
    done = out / ".certified" / "refuted.json"
    while not done.exists() or len(set(out.glob(".audits/*/*.npz")) - seen) < count:
        if not done.exists():
            seen |= set(out.glob(".audits/*/*.npz"))
        assert time.monotonic() < deadline, "no batch was stored"
        assert child.poll() is None, child.communicate()
        time.sleep(0.01)


# --- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [(), ("held", "--all")])
def test_targets_or_all(arguments: tuple[str, ...], dpaudit: Invoke, project: Path) -> None:
    error = dpaudit("certify", *arguments, code=2).stderr
    assert "give either targets or --all" in error
    assert not (project / "reports").exists()


def test_a_project_without_mechanisms_says_so(dpaudit: Invoke, project: Path) -> None:
    for file in ("mechanisms/cases.py", "audits/cases.py"):
        (project / file).write_text("")
    assert "holds no mechanism" in dpaudit(*ALL, code=2).stderr


def test_a_folder_that_cannot_be_written_is_refused(dpaudit: Invoke, small: Path) -> None:
    (small / "file").write_text("")
    assert "choose another with --out" in dpaudit(*ALL, "--out", "file/deeper", code=2).stderr


@pytest.mark.quality
def test_a_file_that_cannot_be_written_stops_the_run(dpaudit: Invoke, small: Path) -> None:
    """What fails on one certificate would fail on all: the disk is full, a folder is in the way."""
    (small / "reports" / "held.json" / "full").mkdir(parents=True)
    assert "held.json: " in dpaudit(*ALL, code=2).stderr
    assert not (small / "reports" / "refuted.json").exists()
