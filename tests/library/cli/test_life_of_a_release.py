"""Two years of releases: a correction, a withdrawal, next year's plan, and who did it."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from dpaudit.certificate.errata import errata_file
from dpaudit.cli.main import main
from dpaudit.errors import InvalidParameter
from dpaudit.families.opaque import ZCDP, ApproxDP
from dpaudit.ledger import open_ledger
from dpaudit.releases import publish as publishing
from dpaudit.releases.plan import load_plan
from tests.library.cli.test_release_commands import PLAN

pytest.importorskip("sqlalchemy")
pytestmark = pytest.mark.usefixtures("planned_once")
NEXT = """
like = "plan.toml"
title = "People, 2027"
table.name = "people of 2027"

[[items]]
name = "by sex"
query = "count"
by = "sex"
groups = 1
weight = 2
"""


def run(*arguments: Any) -> Any:
    return CliRunner().invoke(main, list(map(str, arguments)))


def done(*arguments: Any) -> str:
    found = run(*arguments)
    assert found.exit_code == 0, found.output
    return str(found.output)


@pytest.fixture
def office(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An office's folder: data of two years, plans, one population of persons."""
    monkeypatch.chdir(tmp_path)
    Path("plan.toml").write_text(PLAN)
    Path("next.toml").write_text(NEXT)
    for name, shift in (("people.csv", 0), ("mended.csv", 1), ("people-2027.csv", 2)):
        rows = [[i // 2, 20 + i % 60, "fm"[(i + shift) % 2]] for i in range(300)]
        with Path(name).open("w", newline="") as stream:
            csv.writer(stream).writerows([["person", "age", "sex"], *rows])
    given = ("--set", "entity=person", "adjacency=add_remove")
    done("ledger", "init", "residents", *given, "--budget", "rho=0.75")
    for plan, name in (("plan.toml", "people"), ("next.toml", "people of 2027")):
        cap = ("--budget", "epsilon=4 delta=1e-5", "--set", "populations=residents")
        done("ledger", "init", name, "--plan", plan, *cap)
    return tmp_path


def unattacked(monkeypatch: pytest.MonkeyPatch) -> None:
    real = publishing.publish
    monkeypatch.setattr(publishing, "publish", lambda *a, **k: real(*a, **k | {"trials": 0}))


@pytest.mark.quality
def test_the_life_of_a_release_over_two_years(office: Path, monkeypatch) -> None:
    """Published, corrected on mended data, withdrawn, and followed by next year's release."""
    few = ("--trials", "200")
    done("release", "plan.toml", "--data", "people.csv", "--out", "first", *few)
    page = office / "first" / "certificate" / "people_2026.html"
    certificate = page.with_suffix(".json")
    before = page.read_text()
    corrected = ("--corrects", "People, 2026")
    said = done("release", "plan.toml", "--data", "mended.csv", "--out", "second", *few, *corrected)
    assert f"erratum: {page}" in said
    assert "use 'People, 2026 (corrected)' in its place" not in before
    assert "use &#39;People, 2026 (corrected)&#39; in its place" in page.read_text()
    verified = run("verify", certificate, "--published", "first")
    assert verified.exit_code == 14
    assert "erratum stands beside it: Corrected" in verified.output
    own = office / "second" / "certificate" / "people_2026_corrected.json"
    done("verify", own, "--published", "second")
    assert "Corrects &#39;People, 2026&#39;" in own.with_suffix(".html").read_text()
    assert json.loads((office / "second" / "release.json").read_text())["corrects"]

    done("ledger", "withdraw", "people", "People, 2026 (corrected)", "The mended data were wrong.")
    assert "Withdrawn: The mended data were wrong." in own.with_suffix(".html").read_text()
    assert errata_file(own).read_text() == "Withdrawn: The mended data were wrong.\n"
    neither = "Use neither it nor its correction 'People, 2026 (corrected)', which was withdrawn"
    assert errata_file(certificate).read_text().startswith(neither)
    assert "in its place" not in page.read_text()
    done("report", own, "--format", "archive", "--out", ".")
    verified = run("verify", f"{own.stem}.zip")
    assert "erratum stands beside it: Withdrawn: The mended data were wrong." in verified.output

    done("release", "next.toml", "--data", "people-2027.csv", "--out", "third", *few)
    following = (office / "third" / "certificate" / "people_2027.html").read_text()
    assert "Compared with the certificate of" in following  # of a year ago, by the ledger
    shown = json.loads(done("ledger", "show", "--json"))
    lives = {row["dataset"]: row["releases"] for row in shown}
    assert [line.split(":")[0] for line in lives["people"]] == [
        "People, 2026",
        "People, 2026 (corrected)",
    ]
    assert len(lives["residents"]) == 3
    assert "for people of 2027" in lives["residents"][-1]
    assert "Withdrawn" in lives["people"][1]


def test_next_years_plan_continues_last_years(office: Path) -> None:
    last, following = load_plan(office / "plan.toml"), load_plan(office / "next.toml")
    assert following.title == "People, 2027"
    assert following.schema.columns == last.schema.columns
    assert following.schema.name == "people of 2027"
    assert [item.name for item in following.items] == [item.name for item in last.items]
    assert following.items[1].weight == 2 != last.items[1].weight
    assert (following.ledger, following.budget) == (last.ledger, last.budget)


@pytest.mark.parametrize(
    ("stated", "expected"),
    [
        ("budget.epsilon = 0.5", ApproxDP("1/2", "1e-6")),
        ("budget.rho = 0.5", ZCDP("1/2")),
        ("budget = { epsilon = 2, delta = 1e-7 }", ApproxDP(2, "1e-7")),
    ],
)
def test_a_budget_is_continued_key_by_key_and_in_another_measure_as_a_whole(
    office: Path, stated: str, expected: Any
) -> None:
    (office / "child.toml").write_text(f'like = "plan.toml"\ntitle = "a"\n{stated}')
    assert load_plan(office / "child.toml").budget == expected


def test_a_column_is_continued_key_by_key(office: Path) -> None:
    (office / "child.toml").write_text(
        'like = "plan.toml"\ntitle = "a"\ntable.columns.age.upper = 90'
    )
    last, child = (load_plan(office / name).schema for name in ("plan.toml", "child.toml"))
    assert child.columns["age"] == replace(last.columns["age"], upper=90)


TWICE = '\n[[items]]\nname = "twice"\nquery = "count"'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('like = "plan.toml"', "plan.title: missing"),
        ('like = "../plan.toml"', "beside this plan"),
        ('like = "loop.toml"\ntitle = "x"', "continues itself"),
        ('like = "plan.toml"\ntitle = "a"\ncorrects = "a"', "cannot correct itself"),
        ('like = "plan.toml"\ntitle = "a"\ncorrects = 3', "the title of a published release"),
        ('like = "plan.toml"\ntitle = "a"\nitems = [3]', "items"),
        ('like = "plan.toml"\ntitle = "a"\nbudget = 3', "plan.budget: expected a table"),
        ('like = "plan.toml"\ntitle = "a"\ntable.columns = 3', "columns"),
        ('like = "plan.toml"\ntitle = "a"\n[[items]]\nquery = "count"', "name"),
        ('like = "plan.toml"\ntitle = "a"' + 2 * TWICE, "two items of one name"),
    ],
)
def test_plans_that_continue_nothing_are_refused(office: Path, text: str, said: str) -> None:
    (office / "loop.toml").write_text(text)
    with pytest.raises(InvalidParameter, match=said):
        load_plan(office / "loop.toml")


def test_only_a_published_release_is_corrected_or_withdrawn(office: Path, monkeypatch) -> None:
    unattacked(monkeypatch)
    asked = ("release", "plan.toml", "--data", "people.csv")
    found = run(*asked, "--out", "a", "--corrects", "Nothing")
    assert found.exit_code == 2
    assert "no release 'Nothing' was published; there are: none" in found.output
    assert open_ledger(office / "ledger.sqlite").state("people").count == 0
    done(*asked, "--out", "a")
    found = run("ledger", "withdraw", "people", "People, 2026", " ")
    assert found.exit_code == 2
    assert "expected a reason" in found.output
    done("ledger", "withdraw", "people", "People, 2026", "Wrong year.")
    found = run("ledger", "withdraw", "people", "People, 2026", "Wrong year.")
    assert "withdrawn already" in found.output


def test_a_withdrawn_correction_is_no_longer_recommended(office: Path, monkeypatch) -> None:
    """Its release says so, until another correction takes its place."""
    unattacked(monkeypatch)
    asked = ("release", "plan.toml", "--data", "people.csv")
    done(*asked, "--out", "a")
    again = run(*asked, "--out", "b")
    assert again.exit_code != 0
    assert "--corrects 'People, 2026'" in again.output
    assert "charged again" in again.output
    done(*asked, "--out", "b", "--corrects", "People, 2026")
    said = done("ledger", "withdraw", "people", "People, 2026 (corrected)", "Wrong year.")
    neither = "neither it nor its correction 'People, 2026 (corrected)', which was withdrawn: Wrong"
    assert neither in said
    ledger = open_ledger(office / "ledger.sqlite")
    first = ledger.state("people").releases[0]
    assert "in its place" not in first.text
    (office / "third.toml").write_text(PLAN.replace("People, 2026", "Third"))
    third = ("release", "third.toml", "--data", "people.csv", "--corrects", "People, 2026")
    ledger_cap = ledger.state("people").remaining
    assert ledger_cap
    done(*third, "--out", "c")
    assert ledger.state("people").releases[0].errata == ("Corrected: use 'Third' in its place.",)


@pytest.mark.quality
def test_errata_of_a_release_that_was_moved_are_told(office: Path, monkeypatch) -> None:
    unattacked(monkeypatch)
    done("release", "plan.toml", "--data", "people.csv", "--out", "a")
    (office / "a").rename(office / "moved")
    said = done("ledger", "withdraw", "people", "People, 2026", "Wrong year.")
    assert "put into people_2026.errata.txt, beside its certificate: Withdrawn" in said


@pytest.mark.quality
@pytest.mark.long("a life of several releases")
def test_the_cap_of_a_population_holds_over_its_data_sets(office: Path, monkeypatch) -> None:
    """Each data set has budget left; the persons, who are in both, have none."""
    unattacked(monkeypatch)
    ledger = open_ledger(office / "ledger.sqlite")
    shown = done("release", "plan.toml")
    assert "ledger population residents: " in shown
    done("release", "plan.toml", "--data", "people.csv", "--out", "a")
    spent = ledger.state("residents").spent[0]
    assert spent > 0
    while ledger.state("residents").remaining[0] > spent:
        title = f"more {ledger.state('residents').count}"
        text = PLAN.replace("People, 2026", title)
        (office / "more.toml").write_text(text)
        done("release", "more.toml", "--data", "people.csv", "--out", title)
    found = run("release", "next.toml", "--data", "people-2027.csv", "--out", "b")
    assert found.exit_code != 0
    assert "residents: People, 2027" in found.output
    assert ledger.state("people of 2027").count == 0
    assert not list((office / "b").glob("release.*"))
