"""The page of evidence is made of its file, and a measurement resumes."""

from __future__ import annotations

import itertools
import json
import math
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import dpaudit as dp
from benchmarks import (
    account,
    browser,
    evidence,
    likelihoods,
    nine,
    planted,
    release,
    settings,
    training_bugs,
    wide,
)
from benchmarks.evidence import SECTIONS, Results, Section
from dpaudit.audit.examine import Examination
from dpaudit.audit.likelihood import Likely
from dpaudit.mutate.run import CAUGHT, CERTIFIED, LEFT_ALONE, SAME, Result
from dpaudit.report.verifier import SECONDS
from tests.support.examined import mechanism
from tests.support.kernels import Written

LARGEST = 150_000  # bytes of the file of results
LEAST_ENTRIES = 130  # of the catalogue, whose certificates a browser's engine judged
OF_CATALOGUE = ("planted", "likelihoods")

pytest.importorskip("duckdb")
pytest.importorskip("sqlalchemy")


def test_the_committed_page_is_made_of_the_committed_results() -> None:
    assert evidence.PAGE.read_text("utf-8") == evidence.page(Results())
    assert evidence.KEPT.stat().st_size <= LARGEST


def test_words_about_trainings_hold_no_result() -> None:
    """Counts, bounds and days come from the results; a sentence that repeats them grows old."""
    results = re.compile(r"\d{4}-\d\d|\d\.\d|refuted|\bof (five|nine|ten)\b|seconds", re.IGNORECASE)
    assert set(training_bugs.WORDS) == set(training_bugs.MODULES)
    for words in training_bugs.WORDS.values():
        assert not results.search(words), words


@pytest.mark.parametrize(
    "name",
    [  # the catalogue takes ten seconds to import
        pytest.param(name, marks=pytest.mark.quality if name in OF_CATALOGUE else ())
        for name in SECTIONS
    ],
)
def test_no_result_is_of_a_part_that_does_not_exist(name: str) -> None:
    """Catalogue and questions change: results of what is gone are removed, or measured anew."""
    assert Results().of(name).keys() <= set(SECTIONS[name].parts())


def test_no_result_is_of_a_section_that_does_not_exist() -> None:
    assert Results().held.keys() <= SECTIONS.keys()


def test_the_browsers_engine_judged_every_file_as_natively() -> None:
    """Reports, catalogue, 500 altered and the hostile files, in Node or in Chromium's page."""
    held = Results().of("browser")
    assert held[browser.COLD][0] < browser.LONGEST_COLD
    least = {
        browser.REPORT: len(browser.reports()),
        browser.ENTRY: LEAST_ENTRIES,
        browser.SHARD: browser.ALTERED,
        browser.IN_PAGE: browser.ALTERED,
        browser.HOSTILE: 1,
    }
    for kind, files in least.items():
        rows = [browser.Judged(*row) for name, row in held.items() if name.startswith(kind)]
        assert sum(row.files for row in rows) >= files
        assert all(row.same == row.files for row in rows)
        assert all(
            row.browser <= SECONDS for row in rows if kind in (browser.REPORT, browser.ENTRY)
        )


def test_no_item_of_a_release_has_larger_errors_than_by_the_best_honest_tool() -> None:
    """Errors of 20 draws by two standard errors; deviations of noise as they are."""
    held = Results().of("nine")
    assert nine._worse(held).endswith("standard errors: none.")
    version, draws, seconds, lines, *errors = held["dpaudit"]
    doubled = [version, draws, seconds, lines, *(2 * error for error in errors)]
    assert "by region (" in nine._worse({**held, "dpaudit": doubled})
    tables = Results().of("releases")
    own = tables["doctors, dpaudit"]
    more = {**own, "deviations": [2 * deviation for deviation in own["deviations"]]}
    for parts, said in ((tables, "none"), ({**tables, "doctors, dpaudit": more}, "6")):
        (line,) = (x for x in release.compared_lines(parts) if "larger than theirs" in x)
        assert f"larger than theirs in {said} of them" in line


def test_plain_items_have_no_more_noise_than_zero_concentrated_privacy_in_equal_parts() -> None:
    """The deviations of three of the nine items, beside that of OpenDP's law: nothing is drawn."""
    plan, theirs = nine.own().plan(), math.sqrt(8 / (2 * release.largest_rho()))
    for name, sensitivity in (("count", 1), ("by both", 1), ("sum", 100_000)):
        assert plan.margins.deviation(name) <= nine.WORSE * theirs * sensitivity


def test_the_largest_share_of_a_claim_counts_and_no_stand_ins() -> None:
    """Shares of stand-ins and of claims without a bound are shown, and not counted."""
    cases = (
        ("a", "found", "0.9", True), ("b", "found", "0.5", False), ("b", "suite", "0.7", False),
        ("a", "suite", "0.1", True), ("a", "stand-in", "1.0", True), ("c", "found", "", True),
    )  # fmt: skip
    rows = [
        [name, kind, "GDP(mu=1)", "1" + likelihoods.ATTAINED * attained, "", "", part, *[""] * 4]
        for name, kind, part, attained in cases
    ]
    found = likelihoods.lines(rows)
    assert "the median share of 2 accounted bounds is 0.800; 1 shares are above" in found[0]
    assert "the median share of 1 attained bounds is 0.900" in found[1]
    assert "tool found, the median share of 2 accounted bounds is 0.700" in found[2]
    assert [line for line in found if line.startswith("- ")] == ["- b, GDP(mu=1): 0.7; "]


def test_all_pairs_of_the_program_itself_share_the_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """That of a suite's further pairs too, none twice; a stand-in's bound stands alone."""
    node = dp.Gaussian("a", noise_multiplier=1)
    program = Written(node, lambda curator: None)
    pairs = [
        dp.Neighbours(dp.Records([[x], [0.0]]), dp.Records([[0.0], [0.0]]), "replace_one", str(x))
        for x in (1.0, 0.5, 0.25)
    ]
    case = mechanism("one", program)
    errors: list[float] = []

    def audit(*_: Any, shown_error: float, **__: Any) -> Likely:
        errors.append(shown_error)
        return Likely(pairs[0], program, 1)

    monkeypatch.setattr(likelihoods, "likelihood_audit", audit)
    monkeypatch.setattr(likelihoods, "examine", lambda *_, **__: Examination(pair=pairs[1]))
    monkeypatch.setattr(likelihoods, "plain", lambda *_: ([None], 0.0))
    also = tuple(dp.Suite("one", program, pair) for pair in pairs[1:])
    rows = [*likelihoods.rows_of(case, dp.Suite("one", program, pairs[0], also=also), 0)]
    assert [row[1] for row in rows] == ["suite", "found", "suite"]
    assert errors == [likelihoods.SHOWN_ERROR / 3] * 3
    errors.clear()
    other = dp.Suite("one", Written(node, lambda curator: 1), pairs[0])
    rows = [*likelihoods.rows_of(case, other, 0)]
    assert [row[1] for row in rows] == ["found", "stand-in"]
    assert errors == [likelihoods.SHOWN_ERROR] * 2


def test_claims_in_one_measure_that_share_an_accounted_bound_are_one_row() -> None:
    nodes = [dp.ApproxDP(1, "1e-5"), dp.ApproxDP(2, "1e-5"), dp.GDP(1), dp.ApproxDP(1, "1e-6")]
    claims = [dp.Claim(node, by="a test") for node in (*nodes, dp.ApproxDP(3, "1e-5"))]
    uppers = [(1.0, True), (1.0, True), (1.0, True), (1.0, True), (0.9, True)]
    rows = likelihoods.alike(claims, uppers)
    assert rows == [[0, 1], [2], [3], [4]]
    assert likelihoods.text_of([claims[k] for k in rows[0]]).endswith(" and 1 more")


def test_all_small_shares_say_why_the_smallest_first() -> None:
    rows = [
        [f"{k}", "found", "GDP(mu=1)", "1", "", "", f"0.{k:02}", "", "", "", f"reason {k}"]
        for k in (50, 10, 90, *range(60, 75))
    ]
    listed = [line for line in likelihoods.lines(rows) if line.startswith("- ")]
    reasons = [f"reason {k}" for k in (10, 50, *range(60, 75))]
    assert [line.partition("; ")[2] for line in listed] == reasons


def test_a_stand_in_is_kept_for_a_reason() -> None:
    def row(name: str, kind: str, bound: str, why: str = "") -> list[str]:
        return [name, kind, "GDP(mu=1)", "9", bound, "", "", "", "", "", why]

    rows = [
        row("a", "found", "0.91"), row("a", "stand-in", "0.99"),
        row("b", "found", "0.45", "few runs"), row("b", "stand-in", "0.9"),
        row("c", "", "", "it took too long; more"), row("d", "found", "0.0004"),
        row("d", "stand-in", "0.0009"),
    ]  # fmt: skip
    assert [likelihoods.why_kept(name, rows) for name in "abcd"] == [
        "",
        "its own bound is 50%; few runs",
        "the two bounds are not both known: it took too long",
        "its own bound is 44%; its pair shows less",
    ]
    assert "- b: its own bound is 50%; few runs" in likelihoods.lines(rows, ["b"])


def test_every_stand_in_of_the_catalogue_has_a_reason() -> None:
    rows = evidence.likelihood_rows(Results().of("likelihoods"))
    kept = likelihoods.stand_ins()
    assert [name for name in kept if not likelihoods.why_kept(name, rows)] == []
    assert sorted(kept) == sorted(itertools.chain(*likelihoods.NOT_FOUND.values()))


def test_an_entry_that_takes_its_time_is_left() -> None:
    def endless() -> None:
        while True:
            sum(range(1000))

    with likelihoods.at_most(0.02), pytest.raises(likelihoods.Late):
        endless()


def test_an_audit_that_errs_too_often_shows_in_the_largest_share() -> None:
    rows = {"gaussian, plain": {"mu": 48}, "laplace, plain": {"mu": 1, "pure epsilon": 71}}
    text = "\n".join(evidence.audited_lines(rows))
    assert "The largest is 7.1%" in text
    assert "| gaussian, plain |  | 4.8% |" in text
    assert "heavy" not in text
    heavier = {evidence.HEAVIER: {"1.0": 5, "1.01": 99}}
    assert "5 exceed the truth" in "\n".join(evidence.audited_lines({**rows, **heavier}))


@pytest.fixture
def counting(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A section of two parts, one of which has no result at first."""
    measured: list[str] = []

    def measure(part: str) -> Any:
        measured.append(part)
        return "not installed" if part == "b" and len(measured) < 3 else [1, 2]

    section = Section("Two parts", lambda: ("a", "b"), measure, lambda parts: list(parts))
    monkeypatch.setattr(evidence, "SECTIONS", {"two": section})
    return measured


def test_only_parts_without_a_result_are_measured_again(
    counting: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "evidence.json"
    evidence.measure(Results(path), ["two"], minutes=1)
    assert "two, b: no result: not installed" in capsys.readouterr().err
    assert json.loads(path.read_text("utf-8"))["two"].keys() == {"a"}
    evidence.measure(Results(path), ["two"], minutes=1)
    assert counting == ["a", "b", "b"]
    assert Results(path).of("two") == {"a": [1, 2], "b": [1, 2]}
    evidence.measure(Results(path), ["two"], minutes=1)
    assert counting == ["a", "b", "b"]
    text = evidence.page(Results(path))
    assert "## Two parts\n\na\nb\n\n*Measured" in text


def test_a_section_is_measured_anew_when_it_is_forgotten(
    counting: list[str], tmp_path: Path
) -> None:
    results = Results(tmp_path / "evidence.json")
    evidence.measure(results, ["two"], minutes=1)
    results.forget("two")
    evidence.measure(results, ["two"], minutes=1)
    assert counting == ["a", "b", "a", "b"]


def test_no_part_begins_after_the_time_is_up(counting: list[str], tmp_path: Path) -> None:
    evidence.measure(Results(tmp_path / "evidence.json"), ["two"], minutes=-1)
    assert counting == []


def result(**changes: Any) -> Result:
    plain = Result("private_step@m:1.0", "private_step", "what", "m:1", CAUGHT, "", "", "", 1.0)
    return replace(plain, **changes)


def test_a_certified_mutant_is_named_unless_a_proof_says_that_it_breaks_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    proofs = tmp_path / "equivalent.json"
    proofs.write_text(json.dumps({"one:proved@m:2.0": "it only copies"}))
    monkeypatch.setattr(planted, "EQUIVALENT", proofs)
    results = [
        result(twin=LEFT_ALONE),
        result(status=CERTIFIED, name="bad@m:3.0", where="m:3", twin="alarm"),
        result(status=CERTIFIED, name="proved@m:2.0"),
        result(status=SAME),
    ]
    part = planted.counted("one", results)
    assert part["operators"] == {"private_step": [1, 1, 2, 1, 1]}
    assert part["certified"] == ["private_step at m:3"]
    text = "\n".join(planted.mutant_lines({"one": part, "two": {"operators": {}, "certified": []}}))
    assert "of 1 of the catalogue's 2 mechanisms" in text
    assert "reported 1 of the 2 mutants" in text
    assert "| 1 | 1 | 1 of 2 |" in text
    assert "`private_step at m:3 in one`" in text


def test_every_proof_that_a_mutant_breaks_nothing_is_in_words() -> None:
    proofs = json.loads(planted.EQUIVALENT.read_text("utf-8"))
    assert all(len(proof.split()) > 4 for proof in proofs.values())


def test_an_unsound_bound_of_another_tool_is_counted() -> None:
    rows: dict[str, dict[str, object]] = {
        "sound": {"ours": [1.0, 1.001], "theirs": 1.1, "seconds": [0.1, 0.2]},
        "unsound": {"ours": [1.0, 1.0001], "theirs": 0.9, "seconds": [0.3, 0.2]},
        "looser": {"ours": [1.0, 1.002], "theirs": 1.001, "seconds": [0.1, 0.2]},
        "none": {"ours": [1.0, 1.0001], "theirs": None, "seconds": [0.1, 5.0]},
        "nothing": {"ours": [0.0, 0.0], "theirs": 0.0, "seconds": [0.1, 0.2]},
    }
    (text,) = settings.lines(rows)
    assert "answered 4 settings" in text
    assert "below dpaudit's certified lower bound in 1" in text
    assert "upper bound is above dp-accounting's in 1, by at most 1.0e-03. " in text
    assert "the quicker one in 3." in text


def test_an_accountant_answers_once_in_a_process_of_its_own(
    capsys: pytest.CaptureFixture[str],
) -> None:
    place = [task.name for task in account.TASKS].index("100 Laplace(10), delta=0")
    account.once(place, "dpaudit")
    assert json.loads(capsys.readouterr().out)["text"].startswith("[10, 10]")
    text, seconds = account.ask([sys.executable, "-c", "raise ValueError('no such noise')"])
    assert text == "no answer: ValueError: no such noise"
    shown = evidence.answer_lines({"q": {"dpaudit": ["[1, 2]", 0.5], "other": [text, None]}})
    assert math.isnan(seconds)
    assert shown[-1] == f"| q | [1, 2] | 0.5 | other {text} |"


def test_dp_accounting_is_given_up_beyond_its_time_and_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def endless() -> float:
        while True:
            pass

    monkeypatch.setattr(settings, "PATIENCE", 0.1)
    assert settings.patient(endless) is None
    assert settings.patient(lambda: float(len(bytearray(2 * settings.MEMORY)))) is None
    assert settings.patient(lambda: 1.5) == 1.5


def test_every_wide_question_is_asked_once_and_links_to_a_section(checkout: Path) -> None:
    names = [question.name for question in wide.QUESTIONS]
    assert len(set(names)) == len(names)
    answer = wide.asked(next(q for q in wide.QUESTIONS if q.name.startswith("filter")))
    lower, upper = map(float, answer["interval"])
    assert 0 < lower < upper
    text = evidence.wide_lines({"filter of Laplace noise, rho = .5": answer})[-1]
    assert f"[{answer['interval'][0]}, {answer['interval'][1]}]" in text
