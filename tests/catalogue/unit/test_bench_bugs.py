"""The benchmark of wrong and right mechanisms: what a tool is asked, and what the page says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from audits.blackbox import catalogue, recorded
from benchmarks import bugs
from benchmarks.bugs import Question


def far_apart(question: Question) -> bool:
    """A tool of one line: the medians are apart by more than five."""
    medians = [np.median(question.outputs(side)) for side in (0, 1)]
    return bool(abs(medians[0] - medians[1]) > 5)


def breaks(question: Question) -> bool:
    raise RuntimeError("no licence")


def test_a_tool_is_one_function_and_an_error_of_it_is_no_flag(tmp_path: Path) -> None:
    few = list(catalogue()[:4])
    kept = tmp_path / "kept.jsonl"
    tools = {"mine": far_apart, "broken": breaks}
    answers = bugs.run(tools, few, 200, 1, kept)
    assert [answer.tool for answer in answers] == ["mine"] * 4 + ["broken"] * 4
    assert {answer.failed for answer in answers if answer.tool == "broken"} == {
        "RuntimeError: no licence"
    }
    page = bugs.page(answers, few, 200, 1)
    assert "| mine | 0 of " in page
    assert "| broken | 0 of " in page
    assert "python -m benchmarks.bugs --tool mytool:flags" in page


def test_what_is_kept_is_not_asked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    few, kept = list(catalogue()[:3]), tmp_path / "kept.jsonl"
    first = bugs.run({"mine": far_apart}, few, 200, 1, kept)
    with kept.open("a") as stream:
        stream.write('{"place": ["mine", 2')  # a killed run
    asked: list[Any] = []
    real = bugs.ask

    def counted(*given: Any) -> Any:
        asked.append(given)
        return real(*given)

    monkeypatch.setattr(bugs, "ask", counted)
    assert bugs.run({"mine": far_apart}, few, 200, 1, kept) == first
    assert asked == []
    assert len(bugs.run({"mine": far_apart}, few, 300, 1, kept)) == 3
    assert len(asked) == 3
    assert [json.loads(row)["case"] for row in kept.read_text().splitlines()[:3]]


@pytest.mark.parametrize("tool", [bugs.histogram, bugs.classifier, bugs.dpaudit])
def test_tools_flag_a_gross_bug_and_no_right_twin(tool: bugs.Tool) -> None:
    """Noise of a fifth; false-alarm rate 0.01 a tool."""

    def question(scale: float) -> Question:
        def noisy(data: Any, rng: np.random.Generator, size: int) -> Any:
            return data + rng.laplace(0, scale, size)

        import dpaudit as dp

        return Question(noisy, 0.0, 1.0, dp.PureDP(1), 1.0, 0.0, 2_000, 0.01, 1)

    assert tool(question(0.2))
    assert not tool(question(1.0))


def test_claims_of_other_kinds_are_told_as_what_follows_from_them() -> None:
    case = next(case for case in catalogue() if type(case.claim).__name__ == "GDP")
    question = bugs.question_of(case, 100, 1)
    assert question.delta == 1e-3
    assert 3 < question.epsilon < 4  # mu = 1
    assert question.outputs(0).shape[0] == 100
    assert np.array_equal(question.outputs(1), question.outputs(1), equal_nan=True)


def test_the_page_is_that_of_all_tools_and_cases(checkout: Path) -> None:
    text = (checkout / "docs" / "bugs.md").read_text("utf-8")
    wrong = sum(not case.correct for case in catalogue())
    for tool in bugs.TOOLS:
        assert f"| {tool} | " in text
    assert f"of {wrong} | 0 of {len(catalogue()) - wrong} |" in text


def test_violations_of_libraries_are_on_the_page_with_their_sources(checkout: Path) -> None:
    """Each wrong one has a right twin of the same source, and exact chances; dpaudit finds all."""
    text = (checkout / "docs" / "bugs.md").read_text("utf-8")
    cases = recorded.FAMILY.cases
    for case in cases:
        if not case.correct:
            assert case.chances is not None
            assert "arXiv 2602.17454" in case.source or "github.com/" in case.source
            (row,) = (line for line in text.splitlines() if line.startswith(f"| `{case.name}`:"))
            assert f"| {case.source} | " in row
            assert row.endswith("| all |") or "| dpaudit; " in row
    mended = {case.source for case in cases if case.correct}
    assert {case.source for case in cases if not case.correct} - mended == {recorded.LARGEST}
