"""Wrong programs of the classes that an examiner misses: none is certified but those named here."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from dpaudit.audit.examine import examination, examine, lines, search, walks
from dpaudit.certificate.evidence import examination_row
from dpaudit.check.reach import gaps
from tests.support import blind_programs as blind

MAKE = {name: make for _, name, make in (*blind.PROGRAMS, *blind.SECOND)}
# A loader is no query: it is examined where the program is about to be run on its data.
CERTIFIED = {"standardised", "capped_by_the_data"}
UNCONFIRMED = {"refuses"}


@pytest.fixture(autouse=True)
def _files() -> None:
    blind.prepare()


def outcome(name: str, *, wrong: bool) -> str:
    made = MAKE[name](wrong)
    found = examine(made, seed=1)
    if found.broken:
        return "caught"
    return "unconfirmed" if gaps(examination_row(found), made.declaration) else "certified"


def expected(name: str) -> str:
    return "unconfirmed" if name in UNCONFIRMED else "certified"


@pytest.mark.quality
@pytest.mark.parametrize("name", MAKE)
def test_a_wrong_program_is_caught_and_its_twin_left_alone(name: str) -> None:
    assert outcome(name, wrong=False) == expected(name)
    caught = name not in CERTIFIED | UNCONFIRMED
    assert outcome(name, wrong=True) == ("caught" if caught else expected(name))


# Rows of the table in docs/audits.md, by class.
CLASSES = {
    3: "structure between records: joins, sessions, chains",
    4: "conjunctions and derived constants",
    5: "gaps in other rows",
    6: "memory",
    7: "integer types that wrap",
    8: "values that are printed, logged or written",
    9: "loaders",
    10: "programs that ran on nothing",
    11: "two phases",
}


def row(title: str, names: Sequence[str]) -> str:
    """The wrong programs of a row, and those caught, unconfirmed and certified now."""
    missed = [sum(name in names for name in kind) for kind in (UNCONFIRMED, CERTIFIED)]
    found = rf"\d+ | {len(names) - sum(missed)} | {missed[0]} | {missed[1]} |"
    return re.escape(f"| {title} | {len(names)} | ") + found.replace("|", r"\|")


def test_the_page_has_these_figures(checkout: Path) -> None:
    page = (checkout / "docs" / "audits.md").read_text("utf-8")
    for kind, title in CLASSES.items():
        assert re.search(row(title, [n for k, n, _ in blind.PROGRAMS if k == kind]), page), title
    assert re.search(row("the second round", [name for _, name, _ in blind.SECOND]), page)


def nothing(*arguments: Any) -> None:
    """Instead of a stage."""


@pytest.mark.quality
@pytest.mark.first_case
@pytest.mark.parametrize(
    ("name", "stages", "then"),
    [
        ("filled_by_the_largest", [(search.Search, "run", nothing)], "certified"),
        (
            "looked_up",
            # Keys of a table are tried, as numbers of the code are, and aimed at.
            [
                (examination, "listed_in", lambda program: []),
                (lines, "_numbers_of", lambda value: []),
                (examination, "aimed", lambda *given: {}),
            ],
            "unconfirmed",
        ),
    ],
    ids=["filled_by_the_largest", "looked_up"],
)
def test_a_bug_of_one_class_is_caught_by_these_stages(
    name: str, stages: Sequence[Any], then: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert outcome(name, wrong=True) == "caught"
    for place, stage, instead in stages:
        monkeypatch.setattr(place, stage, instead)
    assert outcome(name, wrong=True) == then


@pytest.mark.quality
def test_a_twin_that_counts_its_calls_in_a_closure_is_left_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each data set is asked of a program that counted as many calls."""

    def kept() -> Sequence[str]:
        found = examine(MAKE["clipped_at_first"](False), seed=1)
        assert not found.broken
        return found.kept

    assert not kept()
    monkeypatch.setattr(walks, "restore", nothing)
    assert kept()
