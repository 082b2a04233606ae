"""The table of messages: whatever a report says is in it, in every language."""

from __future__ import annotations

import ast
import html
import json
import re
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from dpaudit.audit.examine import Examination
from dpaudit.certificate.evidence import LEFT_OUT, evidence_caveats
from dpaudit.certificate.on_data import DISCARDED
from dpaudit.check import assumptions
from dpaudit.check.conformance import EXAMINED, LABEL_CHECKS
from dpaudit.errors import InvalidParameter
from dpaudit.ledger.book import Publication
from dpaudit.membership.targets import Released
from dpaudit.releases.items.item import Row
from dpaudit.report import render_html, render_index, words
from dpaudit.report.exports import render_csv
from dpaudit.report.markdown import render_markdown
from dpaudit.report.membership import render as render_measured
from dpaudit.report.say import LANGUAGES, catalogue, language, say, speaking, translated
from dpaudit.scope import NOT_STATED

Json = dict[str, Any]
ROOT = Path(__file__).parents[3]
MEASURED = ROOT / "reports" / "membership" / "digits_network.json"
EXAMPLE = ROOT / "tests" / "data" / "example_certificate.json"
REPORT, MEMBERSHIP = ROOT / "dpaudit" / "report", ROOT / "dpaudit" / "membership"


# The functions that say a message, and how many of their arguments are forms of it.
SAYING = {"say": 1, "message": 1, "counted": 2}


def table() -> list[dict[str, str]]:
    """Every form of every message, a column for each language."""
    translated = {spoken: catalogue(spoken) for spoken in LANGUAGES if spoken != "en"}
    return [
        {"en": form, **{spoken: rows[key][i] for spoken, rows in translated.items()}}
        for key in translated["de"]
        for i, form in enumerate(key)
    ]


def said() -> Iterator[str]:
    """Every literal given to ``say`` or ``message``, in Python and in templates."""
    for file in [*REPORT.glob("*.py"), *MEMBERSHIP.glob("*.py")]:
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            called = getattr(node.func, "id", "") if isinstance(node, ast.Call) else ""
            if isinstance(node, ast.Call) and called in SAYING:
                for part in node.args[: SAYING[called]]:
                    if isinstance(part, ast.Constant):
                        yield str(part.value)
                    elif isinstance(part, ast.JoinedStr | ast.BinOp):
                        raise AssertionError(f"{file.name}:{node.lineno}: not one literal")
    for file in [*REPORT.glob("templates/*.j2"), *MEMBERSHIP.glob("templates/*.j2")]:
        yield from re.findall(r'say\("((?:[^"\\]|\\.)*)"', file.read_text("utf-8"))


def missing(table: set[str]) -> set[str]:
    return set(said()) - table


def test_every_message_is_in_the_table_once() -> None:
    known = {row["en"] for row in table()}
    assert len(known) > 400
    assert all(set(catalogue(spoken)) == set(catalogue("de")) for spoken in LANGUAGES[1:])
    assert missing(known) == set()
    assert missing(known - {"Certified"}) == {"Certified"}


def names(text: str) -> list[str]:
    return sorted(re.findall(r"\{\w+\}", text))


def test_every_language_says_it_with_the_same_parts() -> None:
    for row in table():
        assert set(row) == set(LANGUAGES)
        assert all(row.values()), row
        assert names(row["en"]) == names(row["de"]) == names(row["fr"]), row
        for spoken in ("de", "fr"):
            assert row[spoken] != row["en"] or len(row["en"]) <= 24, row


@pytest.mark.first_case
@pytest.mark.parametrize("spoken", ["de", "fr"])
def test_a_page_speaks_one_language(spoken: str) -> None:
    """No English message of the table is left on the page, but for short words."""
    example = json.loads(EXAMPLE.read_text("utf-8"))
    measured = json.loads(MEASURED.read_text("utf-8"))
    page = render_html(example, spoken=spoken) + render_index({"a.html": example}, spoken=spoken)
    page += render_measured(measured, spoken=spoken)
    assert f'<html lang="{spoken}">' in page
    text = re.sub(r"<[^>]+>", "\n", page)
    left = [
        row["en"]
        for row in table()
        if len(row["en"]) > 24 and "{" not in row["en"] and row["en"] in text
    ]
    assert left == []


def test_a_language_ends_with_its_block() -> None:
    with speaking("de"):
        assert (language(), say("Refuted")) == ("de", "Widerlegt")
    assert (language(), say("Refuted")) == ("en", "Refuted")
    assert say("braces {stay}") == "braces {stay}"
    with pytest.raises(InvalidParameter, match="expected one of en, de, fr"), speaking("it"):
        pass


def test_what_every_certificate_assumes_is_said_in_each_language() -> None:
    """The standing assumptions are dpaudit's own words; what an author wrote stays as it is."""
    known = {row["en"] for row in table()}
    fixed = [*assumptions.BOUNDED_EVIDENCE.values(), *assumptions.NOISE_EVIDENCE.values()]
    fixed += assumptions.BITS_EVIDENCE.values()
    fixed += [
        text for one in assumptions.standing(unit="user") for text in (one.statement, one.evidence)
    ]
    gathered = assumptions.GATHERED_UNITS
    fixed += [gathered.statement, gathered.evidence, assumptions.READY_MADE]
    fixed += [one.words for one in Released]
    assert set(fixed) <= known


def unstated() -> Json:
    """A certificate whose author says nothing that a certificate can do without."""
    certificate: Json = json.loads(EXAMPLE.read_text("utf-8"))
    predicate = certificate["predicate"]
    scope = predicate["scope"]
    scope |= {"controller": NOT_STATED, "invariants": []}
    scope["data_accesses"] = {"covered": [], "uncovered": []}
    scope["unit"] |= {"entity": NOT_STATED, "bound": NOT_STATED, "period": None}
    predicate |= {"fields": {}, "caveats": [], "run": None}
    for claim in predicate["claims"]:
        claim |= {"by": "", "source": "", "reading": ""}
    return certificate


def pages(spoken: str) -> dict[str, str]:
    """It in every format that has languages."""
    certificate = unstated()
    with speaking(spoken):
        table = render_csv({"a": certificate})
    return {
        "html": render_html(certificate, spoken=spoken),
        "index": render_index({"a.html": certificate}, spoken=spoken),
        "md": render_markdown({"a": certificate}, spoken=spoken),
        "csv": table,
    }


def english(page: str, spoken: str) -> set[str]:
    """The cells of a page, of whatever length, that are English messages."""
    known = {row["en"] for row in table() if row[spoken] != row["en"]}
    cells = re.split(r"<[^>]+>|\n|\||,", page)
    return {html.unescape(cell).strip() for cell in cells} & known


@pytest.mark.first_case
@pytest.mark.parametrize("spoken", LANGUAGES)
def test_what_is_not_stated_is_said_in_each_language(spoken: str) -> None:
    for name, page in pages(spoken).items():
        if spoken == "en":
            assert "one not stated" not in page, name
        else:
            assert NOT_STATED not in page.casefold(), name
            assert english(page, spoken) == set(), name


def test_a_placeholder_beside_the_table_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a certificate's own placeholder is shown as it is, the test above is red."""
    monkeypatch.setattr(words, "NOT_STATED", "another")
    with pytest.raises(AssertionError):
        test_what_is_not_stated_is_said_in_each_language("de")
    with pytest.raises(AssertionError):
        test_what_is_not_stated_is_said_in_each_language("en")


def test_a_unit_that_nobody_names_is_the_kind_that_the_scope_says() -> None:
    assert "which of two versions of one record the data hold" in pages("en")["html"]
    assert "record (who that is, is not stated)" in pages("en")["html"]


@pytest.mark.parametrize("spoken", ["de", "fr"])
def test_checks_and_caveats_of_an_examination_are_said_in_each_language(spoken: str) -> None:
    """As the examiner and the certificate write them, with whatever stands in their places."""
    texts = [*EXAMINED, *LEFT_OUT.values(), words.UNCOMPARED, DISCARDED, *MARGINS]
    texts += [f"{words.UNHEARD}, and a run on the data may: release 'x'"]
    texts += [f"{kind} of gradient" for kind in LABEL_CHECKS]
    read = frozenset({__file__})
    examination = Examination(
        kept=("module x: CACHE",), warned=("'odd'",), opened=read, stopped=True, walked=3
    )
    caveats = evidence_caveats(examination, (), "both")
    assert len(caveats) >= 4
    texts += caveats
    with speaking(spoken):
        assert [text for text in texts if translated(text) == text] == []
        assert translated("what an author wrote") == "what an author wrote"


# The texts of `Row.covers`, with and without processing, and with more that is not covered.
MARGINS = tuple(
    Row("n", (), "count", None, error, not_covered=more, processed=processed).covers
    for error in (None, Fraction(1))
    for more in ((), ("rows that were cut",))
    for processed in (False, True)
)


@pytest.mark.parametrize(
    ("spoken", "corrected", "withdrawn"),
    [
        (
            "de",
            "Berichtigt: An seine Stelle tritt &#39;People, again&#39;.",
            "Zurückgezogen: wrong",
        ),
        ("fr", "utiliser &#39;People, again&#39; à la place.", "Retiré : wrong"),
    ],
)
def test_errata_are_said_in_each_language(spoken: str, corrected: str, withdrawn: str) -> None:
    """As the ledger writes them; titles and reasons are their authors' own words."""
    release = Publication("People", "1f", "2026", corrected="People, again", withdrawn="wrong keys")
    page = render_html(json.loads(EXAMPLE.read_text("utf-8")), spoken=spoken, errata=release.errata)
    assert corrected in page
    assert f"{withdrawn} keys" in page
    assert "Corrected: use" not in page
