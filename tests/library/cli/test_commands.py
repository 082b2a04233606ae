"""Every command: what it prints, as text and as JSON, and its exit code on a real case."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from dpaudit.check.file import load
from tests.library.cli.conftest import Invoke

EXITS = {"held": 0, "refuted": 1, "inconclusive": 3, "unsupported": 4, "slack": 5}


def document(result: Result) -> Any:
    """Standard output is JSON from its first to its last character."""
    assert result.stdout.lstrip()[0] in "[{"
    return json.loads(result.stdout)


# --- list, show, account -------------------------------------------------------------------------


def test_list_names_the_project_and_the_catalogue(dpaudit: Invoke, project: Path) -> None:
    rows = {row["target"]: row for row in document(dpaudit("list", "--json"))}
    assert {"held", "slack", "catalogue:diff2_gd", "catalogue:dp_gd"} <= set(rows)
    assert rows["held"]["root"] == "project"
    assert rows["catalogue:diff2_gd"]["root"] == "catalogue"
    text = ["GDP(mu=0.5)", "ApproxDP(epsilon=2, delta=0.00001)"]
    assert [claim["claim"] for claim in rows["held"]["claims"]] == text
    assert rows["refuted"]["claims"] == [
        {"claim": "GDP(mu=0.4)", "by": "a test", "reading": "", "expected": "refuted"}
    ]


def test_list_as_a_table_keeps_brackets(dpaudit: Invoke, project: Path) -> None:
    """Titles are text, not markup."""
    text = dpaudit("list").stdout
    assert "Case [held] of the tests" in text
    assert text.index("GDP(mu=0.5)") < text.index("catalogue:diff2_gd")
    assert "GDP(mu=0.57735)" not in text


def test_list_says_what_it_runs(dpaudit: Invoke) -> None:
    assert "imports every module of the project" in " ".join(
        dpaudit("list", "--help").stdout.split()
    )


@pytest.mark.quality
def test_list_takes_words(dpaudit: Invoke, project: Path) -> None:
    rows = document(dpaudit("list", "MURATA", "gdp", "--json"))
    assert "catalogue:diff2_gd" in {row["target"] for row in rows}
    assert all("Murata" in row["paper"] for row in rows)
    text = dpaudit("list", "diff2_gd", "Murata").stdout
    assert "GDP(mu=" in text
    assert "held" not in text


def test_show_is_the_declaration_with_sources(dpaudit: Invoke, project: Path) -> None:
    text = dpaudit("show", "held").stdout
    assert "Gaussian('mean', noise_multiplier=2)" in text
    assert "mu = 0.5" in text
    assert "Dong, Roth, Su 2022, Theorem 2.7" in text
    assert "GDP(mu=0.5): proved" in text


def test_show_as_latex(dpaudit: Invoke, project: Path) -> None:
    text = dpaudit("show", "held", "--latex", "--calculus", "zcdp").stdout
    assert text.startswith(r"\documentclass")
    assert text.endswith("\\end{document}\n")
    assert r"\frac{1}{8}" in text


def test_show_as_json(dpaudit: Invoke, project: Path) -> None:
    shown = document(dpaudit("show", "held", "--json"))
    assert set(shown["derivations"]) == {"gdp", "profile", "rdp", "zcdp"}
    only = document(dpaudit("show", "held", "--json", "--calculus", "gdp"))
    assert set(only["derivations"]) == {"gdp"}


def test_show_a_calculus_without_a_rule(dpaudit: Invoke, project: Path) -> None:
    error = dpaudit("show", "held", "--calculus", "pure", code=4).stderr
    assert "pure has no rule for Gaussian" in error
    assert "use one of:" in error


def test_account_is_rounded_outward(dpaudit: Invoke, project: Path) -> None:
    table = document(dpaudit("account", "held", "--json", "--delta", "1e-5"))
    (row,) = table["epsilon"]
    assert row["delta"] == "1e-5"
    assert 1.99309 < float(row["epsilon_upper"]) < 1.9931
    assert table["calculi"]["gdp"] == "0.5"
    text = dpaudit("account", "held").stdout
    assert row["epsilon_upper"] in text
    assert "1e-9" in text


def test_account_at_delta_zero_is_infinite_for_a_gaussian(dpaudit: Invoke, project: Path) -> None:
    table = document(dpaudit("account", "held", "--json", "--delta", "0"))
    assert table["epsilon"][0]["epsilon_upper"] == "inf"


# --- audit, certify, verify, report --------------------------------------------------------------


@pytest.mark.quality
@pytest.mark.first_case
@pytest.mark.parametrize("name", EXITS)
def test_audit_exits_by_its_verdict_and_writes_nothing(
    name: str, dpaudit: Invoke, project: Path
) -> None:
    before = sorted(project.rglob("*.json"))
    result = dpaudit("audit", name, "--seed", "1", "--json", code=EXITS[name])
    (row,) = document(result)
    verdicts = {
        "held": "certified_under_assumptions",
        "slack": "alarm",
    }
    assert row["verdict"] == verdicts.get(name, name)
    assert row["reasons"]
    assert sorted(project.rglob("*.json")) == before


@pytest.mark.quality
@pytest.mark.long_cases("held")
@pytest.mark.first_case
@pytest.mark.parametrize("name", EXITS)
def test_certify_exits_by_its_verdict_and_writes_what_verifies(
    name: str, dpaudit: Invoke, project: Path
) -> None:
    result = dpaudit("certify", name, "--seed", "1", code=EXITS[name])
    assert name in result.stdout
    path = project / "reports" / f"{name}.json"
    assert load(path)["predicate"]["reproduce"]["command"] == f"dpaudit certify {name} --seed 1"
    written = {p.name for p in (project / "reports").iterdir()}
    assert written == {"index.html", f"{name}.html", f"{name}.json"}
    verified = dpaudit("verify", path, "--require", "refuted")
    assert "verified" in verified.stdout


@pytest.mark.quality
def test_the_page_of_a_certificate_says_what_changed_since_the_one_it_replaces(
    dpaudit: Invoke, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page, compared = project / "reports" / "held.html", "Compared with the certificate of"
    dpaudit("certify", "held", "--seed", "1", "--trials", "200")
    assert compared not in page.read_text("utf-8")
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1800000000")
    dpaudit("certify", "held", "--seed", "2", "--trials", "200")
    assert compared in page.read_text("utf-8")


@pytest.mark.quality
def test_an_audit_touches_no_data(dpaudit: Invoke, project: Path) -> None:
    path = project / "mechanisms" / "cases.py"
    text = path.read_text()
    place = "def records() -> Records:\n"
    path.write_text(text.replace(place, f"{place}    raise SystemError('touched')\n"))
    dpaudit("audit", "held", "--seed", "1")
    dpaudit("certify", "held", "--seed", "1", code=2)


@pytest.mark.quality
def test_several_targets_share_a_run_and_exit_by_the_gravest(
    dpaudit: Invoke, project: Path
) -> None:
    result = dpaudit("certify", "held", "inconclusive", "--seed", "1", "--json", code=3)
    rows = document(result)
    assert [row["name"] for row in rows] == ["held", "inconclusive"]
    index = (project / "reports" / "index.html").read_text()
    assert "held.html" in index
    assert "inconclusive.html" in index


FAILS = "failing: its program fails in its run on the data (ValueError ("


@pytest.mark.first_case
@pytest.mark.parametrize("command", ["certify", "audit"])
def test_one_target_that_fails_costs_no_other_its_certificate(
    command: str, dpaudit: Invoke, project: Path
) -> None:
    named = (command, "failing", "held", "no_such_name", "--seed", "1", "--trials", "100")
    # One that runs on nothing is run on its data where that is asked for.
    more = ["--run-unproved"] if command == "certify" else []
    result = dpaudit(*named, *more, "--json", code=2)
    rows = {row["name"]: row for row in document(result)}
    assert rows["held"]["verdict"] == "certified_under_assumptions"
    assert "no_such_name" in rows["no_such_name"]["error"]
    if command == "certify":
        assert rows["failing"]["error"].startswith(FAILS)
        assert (project / "reports" / "held.html").exists()
        assert "held.html" in (project / "reports" / "index.html").read_text()
        assert "0.314" not in result.stdout + result.stderr


@pytest.mark.quality
def test_targets_that_fail_are_listed_at_the_end(dpaudit: Invoke, project: Path) -> None:
    named = ("no_such_name", "held", "neither", "--seed", "1", "--trials", "100")
    last = dpaudit("certify", *named, code=2).stdout.splitlines()[-2:]
    assert [line.partition(": ")[0] for line in last] == ["no_such_name", "neither"]
    assert all("not certified: " in line for line in last)


@pytest.mark.quality
def test_the_only_target_that_fails_keeps_its_error_and_exit_code(dpaudit: Invoke) -> None:
    result = dpaudit("certify", "no_such_name", code=2)
    assert "no_such_name" in result.stderr
    assert not result.stdout


@pytest.mark.quality
def test_progress_goes_to_standard_error(dpaudit: Invoke, project: Path) -> None:
    result = dpaudit("audit", "held", "--seed", "1", "--json")
    document(result)
    assert "attacked held: 4 batches" in result.stderr


@pytest.mark.quality
def test_the_number_of_trials_can_be_chosen(dpaudit: Invoke, project: Path) -> None:
    dpaudit("certify", "held", "--seed", "1", "--trials", "100", "--out", "few")
    certificate = load(project / "few" / "held.json")["predicate"]
    assert {audit["trials"] for audit in certificate["audits"]} == {100}
    assert certificate["reproduce"]["command"] == "dpaudit certify held --seed 1 --trials 100"


@pytest.mark.quality
def test_verify_says_what_it_confirmed_and_what_it_trusts(dpaudit: Invoke, project: Path) -> None:
    dpaudit("certify", "held", "--seed", "1")
    text = dpaudit("verify", "reports/held.json").stdout
    assert "confirmed: 2 steps of the derivation" in text
    assert "on trust: real_arithmetic (declared)" in text
    (row,) = document(dpaudit("verify", "reports/held.json", "--json"))
    assert row["verified"]


@pytest.mark.quality
def test_report_renders_what_verifies(dpaudit: Invoke, project: Path) -> None:
    dpaudit("certify", "held", "--seed", "1")
    page = (project / "reports" / "held.html").read_bytes()
    found = document(dpaudit("report", "reports/held.json", "--out", "pages", "--json"))
    assert found == {"files": ["pages/held.html"], "faults": []}
    assert (project / "pages" / "held.html").read_bytes() == page
    assert dpaudit("report", "reports/held.json").stdout.strip() == "reports/held.html"


@pytest.mark.quality
def test_a_file_and_a_suite_are_targets(dpaudit: Invoke, project: Path) -> None:
    dpaudit("account", "mechanisms/cases.py::held")
    dpaudit("audit", "audits/cases.py::slack", "--seed", "1", code=5)


@pytest.mark.quality
def test_a_planted_bug_of_the_catalogue_is_a_target(
    dpaudit: Invoke, checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(checkout)
    target = "audits/broken/diff2.py::b3_fifth"
    result = dpaudit("audit", target, "--seed", "1", "--trials", "2000", "--json", code=5)
    (row,) = document(result)
    assert "conformance broken: variance of" in row["reasons"][0]


@pytest.mark.quality
def test_what_a_project_prints_is_not_in_the_json(dpaudit: Invoke, project: Path) -> None:
    path = project / "mechanisms" / "cases.py"
    text = path.read_text().replace("time.sleep(self.seconds * curator.trials)", "print('running')")
    path.write_text(text + "\nprint('importing')\n")
    for arguments in (["list"], ["show", "held"], ["account", "held"], ["audit", "held"]):
        result = dpaudit(*arguments, "--json")
        document(result)
        assert "importing" in result.stderr or arguments != ["list"]
    assert "running" in result.stderr


# --- init ----------------------------------------------------------------------------------------


@pytest.mark.quality
def test_init_starts_a_project_that_certifies(
    dpaudit: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    said = dpaudit("init", "new").stdout
    assert said.splitlines()[-1] == "next: cd new && dpaudit list"
    monkeypatch.chdir(tmp_path / "new")
    rows = document(dpaudit("list", "--json"))
    assert "noisy_mean" in {row["target"] for row in rows}
    dpaudit("certify", "noisy_mean", "--seed", "1", "--trials", "400")
    dpaudit("verify", "reports/noisy_mean.json")


def test_init_as_json_in_this_folder(
    dpaudit: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shown = document(dpaudit("init", "--json"))
    assert set(shown["written"]) >= {"mechanisms/noisy_mean.py", "audits/__init__.py"}
    assert all((tmp_path / name).is_file() for name in shown["written"])


# --- the method of an audit ----------------------------------------------------------------------


@pytest.mark.quality
def test_an_audit_bounds_by_the_method_that_is_asked_for(dpaudit: Invoke, project: Path) -> None:
    shown = {
        method: dpaudit("audit", "held", "--seed", "1", "--trials", "200", "--method", method)
        for method in ("plain", "likelihood")
    }
    assert all(result.exit_code == EXITS["held"] for result in shown.values())
    assert "likelihoods" not in shown["plain"].stdout
    assert "likelihoods" in shown["likelihood"].stdout


def test_a_method_is_of_declared_mechanisms_alone(dpaudit: Invoke, project: Path) -> None:
    arguments = "audit", "module:function", "1", "0", "--claim", "1", "--method", "plain"
    result = dpaudit(*arguments, code=2)
    assert "--method: only for declared mechanisms" in result.stderr
