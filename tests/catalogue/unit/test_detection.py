"""Detection on the set: counted by family, kept as cases finish, and never audited twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from audits.blackbox import catalogue
from benchmarks import detection
from benchmarks.detection import ENTRIES, Audited

CASES = [case for case in catalogue() if case.family in ("local", "rare events")]


@pytest.fixture
def audited(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names in the order of their audits; wrong ones are found but for those of rare events."""
    names: list[str] = []

    def found(case: Any, trials: int, seed: int) -> str:
        names.append(case.name)
        return "refuted" if not case.correct and case.family == "local" else "inconclusive"

    monkeypatch.setitem(ENTRIES, "pair", found)
    return names


def test_what_is_found_is_counted_by_family(audited: list[str]) -> None:
    found = detection.detection(Audited("pair", 1_000, 1), 1, cases=CASES)
    wrong = [case for case in CASES if not case.correct]
    rare = [case.name for case in wrong if case.family == "rare events"]
    assert (found["bugs"], found["found"]) == (len(wrong), len(wrong) - len(rare))
    assert found["missed"] == rare
    assert found["flagged"] == []
    assert found["families"]["rare events"] == f"0 of {len(rare)}"
    assert audited == [case.name for case in CASES]


@pytest.mark.quality
def test_a_killed_run_goes_on_where_it_stopped(audited: list[str], tmp_path: Path) -> None:
    """A line cut short is audited again; another seed, and changed sources, are another run."""
    kept = tmp_path / "new" / "detection.jsonl"
    first = detection.detection(Audited("pair", 1_000, 1), 1, kept, CASES)
    text = kept.read_text()
    kept.write_text(text[: len(text) // 2])
    whole = text[: len(text) // 2].count("\n")
    audited.clear()
    again = detection.detection(Audited("pair", 1_000, 1), 1, kept, CASES)
    assert audited == [case.name for case in CASES[whole:]]
    assert {k: again[k] for k in again if k != "seconds"} == {
        k: first[k] for k in first if k != "seconds"
    }
    audited.clear()
    detection.detection(Audited("pair", 1_000, 2), 1, kept, CASES)
    assert len(audited) == len(CASES)


@pytest.mark.quality
def test_both_entry_points_audit_a_case() -> None:
    case = next(case for case in catalogue() if case.name == "response_lies_one_way")
    assert [entry(case, 2_000, 1) for entry in (detection.with_pair, detection.with_domain)] == [
        "refuted",
        "refuted",
    ]
