"""Readings of one printed claim stand side by side; what is not proved says why."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from dpaudit.accountant.claim import Claim, Outcome
from dpaudit.certificate.certificate import surprises
from dpaudit.certificate.publish import surprises as published
from dpaudit.families.additive import Gaussian
from dpaudit.families.opaque import GDP, ZCDP, ApproxDP, PureDP
from dpaudit.report import render_html, render_index, summary_rows
from tests.library.cli.bench import NoNoise, accept, certified, mechanism, suite, unattacked
from tests.library.unit.test_report import Outline

PAPER = "A. Author 2024, Corollary 5.7"
CLAIMS = (
    Claim(GDP(0.5), by=PAPER, reading="log is the natural logarithm"),
    Claim(GDP(0.4), by=PAPER, reading="log is binary"),
    Claim(PureDP(1), by=PAPER, reading="delta is left out"),
    Claim(ZCDP(0.2), by=PAPER, reading="log is decimal"),
)
UNKNOWN = replace(CLAIMS[3], guarantee=ZCDP(0.1))
VERDICTS = ("proved", "refuted", "unsupported", "proved")


@cache
def certificate() -> dict[str, Any]:
    """One mechanism, claims of one corollary in several readings."""
    case = mechanism("case", Gaussian("a", 2), GDP(1), labels=("a",))
    found = unattacked(replace(case, claims=CLAIMS)).certificate
    accept(found)
    return found


@cache
def unproved() -> dict[str, Any]:
    """A pure bound of 1 proves rho <= 1/2, and says nothing about the claim of 0.1."""
    case = mechanism("opaque", PureDP(1, source="somebody"), ZCDP(1))
    return certified(replace(case, claims=(UNKNOWN,))).certificate


def cells(page: str, caption: str) -> list[str]:
    """The rows of a table as text."""
    table = next(part for part in page.split("<table")[1:] if f"<caption>{caption}" in part)
    rows = table.split("</table>")[0].split('<tr role="row">')[2:]
    return [Outline(f"<div>{row.split('</tr>')[0]}</div>").text for row in rows]


def test_a_page_shows_all_readings_of_a_claim() -> None:
    rows = cells(render_html(certificate()), "Claims, accounted upper bounds")
    assert len(rows) == len(CLAIMS)
    for claim, row in zip(CLAIMS, rows, strict=True):
        assert claim.reading in row
        assert PAPER in row
    words = ("Certified under", "Refuted", "Unsupported", "Certified under")
    assert all(word in row for word, row in zip(words, rows, strict=True))


def test_the_reasons_of_a_verdict_name_the_reading() -> None:
    reasons = certificate()["predicate"]["verdict"]["reasons"]
    assert reasons[1].startswith("GDP(mu=0.4) (log is binary) is refuted: ")
    text = Outline(render_html(certificate())).text
    assert all(reason in text for reason in reasons)


def test_a_claim_that_is_not_proved_says_why() -> None:
    rows = cells(render_html(certificate()), "Claims, accounted upper bounds")
    assert "0.5 > 0.4, and the bound is attained" in rows[1]
    assert "no upper bound was derived" in rows[2]
    assert "pure has no rule for Gaussian under replace_one" in rows[2]
    (row,) = cells(render_html(unproved()), "Claims, accounted upper bounds")
    assert "an upper bound above a claim refutes nothing" in row


def test_the_index_has_one_row_a_reading_with_theorem_and_reason() -> None:
    page = render_index({"case.html": certificate(), "opaque.html": unproved()})
    assert Outline(page).mismatched == []
    rows = cells(page, "Claims by date")
    header = "Algorithm Issued Claim Accounted (at most) Attacked (at least) Verdict Stated by"
    assert header in Outline(page).text
    assert len(rows) == len(CLAIMS) + 1
    readings = [claim.reading for claim in (*CLAIMS, UNKNOWN)]
    for row, reading in zip(rows, readings, strict=True):
        assert reading in row
        assert PAPER in row
        assert "dpaudit's tests" in row
    assert "0.5 > 0.4, and the bound is attained" in rows[1]
    assert "pure has no rule" in rows[2]
    assert "refutes nothing" in rows[-1]
    assert "<= 1/5" not in rows[3], "what is certified needs no reason here"


def test_what_could_not_be_certified_is_on_the_index() -> None:
    hostile = "ValueError: <b>\ud800\u202e & more"
    outline = Outline(render_index({"case.html": certificate()}, {"other": hostile}))
    assert outline.mismatched == []
    assert "1 reports, 4 claims, 1 not certified" in outline.text
    assert "other: ValueError: <b>" in outline.text
    assert "b" not in outline.names
    render_index({}, {"other": hostile}).encode()


def test_rows_of_a_summary_name_the_theorem_and_the_reading() -> None:
    rows = summary_rows([certificate()])
    assert {row.by for row in rows} == {PAPER}
    assert [row.reading for row in rows] == [claim.reading for claim in CLAIMS]


# --- expectations --------------------------------------------------------------------------------


def expect(*wanted: str) -> tuple[str, ...]:
    return surprises(certificate(), [Outcome(one) for one in wanted])


def test_verdicts_as_expected_are_no_surprise() -> None:
    assert published is surprises
    assert expect(*VERDICTS) == ()
    assert surprises(unproved(), [Outcome.UNPROVED]) == ()


@pytest.mark.first_case("wanted")
@pytest.mark.parametrize("place", range(4))
@pytest.mark.parametrize("wanted", list(Outcome))
def test_any_other_verdict_is_one(place: int, wanted: Outcome) -> None:
    if wanted == VERDICTS[place]:
        return
    found = list(VERDICTS)
    found[place] = str(wanted)
    (line,) = expect(*found)
    assert line.startswith(f"{CLAIMS[place].text} ({CLAIMS[place].reading}): expected {wanted}, is")


def test_neither_an_alarm_nor_an_attack_on_what_is_proved_is_expected() -> None:
    """Both say that the implementation is not the declared one."""
    case = mechanism("case", Gaussian("a", 2), ApproxDP(50, 1e-5), GDP(0.6), labels=("a",))
    found = certified(case, suite(case, kernels={Gaussian: NoNoise})).certificate
    rows = found["predicate"]["claims"]
    assert [(row["check"], row["verdict"]) for row in rows] == [
        ("proved", "alarm"),
        ("proved", "refuted"),
    ]
    for wanted in Outcome:
        assert len(surprises(found, [wanted, wanted])) == 2


def test_an_attack_may_refute_what_no_bound_decides() -> None:
    """Expected to be refuted, unproved by the account, refuted by the attack: as expected."""
    row = {
        "check": "unproved",
        "verdict": "refuted",
        "stated_text": "",
        "reading": "",
        "reason": "",
    }
    found = {"predicate": {"claims": [row], "caveats": []}}
    assert surprises(found, [Outcome.REFUTED]) == ()
    assert len(surprises(found, [Outcome.UNPROVED])) == 1


def test_a_program_that_no_examination_reaches_is_expected_only_with_a_reason() -> None:
    row = {
        "check": "proved",
        "verdict": "unconfirmed",
        "stated_text": "",
        "reading": "",
        "reason": "",
    }
    unreached = {"predicate": {"claims": [row], "caveats": ["not examined: it never ran"]}}
    assert len(surprises(unreached, [Outcome.PROVED])) == 1
    assert surprises(unreached, [Outcome.PROVED], "a run would take a year") == ()
    assert len(surprises(unreached, [Outcome.REFUTED], "a run would take a year")) == 1
    reached = {"predicate": {"claims": [{**row, "verdict": "certified"}], "caveats": []}}
    (line,) = surprises(reached, [Outcome.PROVED], "a run would take a year")
    assert line == (
        "expected not to be examined (a run would take a year), but its examination reached it"
    )
