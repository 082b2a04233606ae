"""The page of examinations: made of what was measured, every entry in it, in well-formed tables."""

from __future__ import annotations

import json

from benchmarks import examination


def rows(text: str, title: str) -> list[list[str]]:
    """The cells of the table below a title."""
    lines = text.partition(f"## {title}")[2].partition("\n## ")[0].splitlines()
    table = [line.replace("\\|", "/") for line in lines if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table]


def entry(**changes: object) -> examination.Json:
    plain = {"not_examined": "", "lines": 10, "run": 9, "clip": 0.5, "broken": [], "suite": True}
    return {**plain, "stand_in": [], "seconds": 1.0, "stopped": False, **changes}


def test_the_page_says_what_was_measured() -> None:
    catalogue = {
        "a": entry(),
        "b": entry(not_examined="no shape", suite=False),
        "c": entry(clip=None, stand_in=["loss is A | B"], broken=["too far"], seconds=30.0),
    }
    bugs = {
        "X: ": {"shape": "X", "bug": "", "verdict": examination.CERTIFIED, "check": ""},
        "X: bug": {"shape": "X", "bug": "bug", "verdict": "alarm", "check": "moved"},
        "X: worse": {"shape": "X", "bug": "worse", "verdict": examination.CERTIFIED, "check": ""},
    }
    said = {
        "a": {
            "claims": [["P", "proved"], ["P", "refuted"], ["Q", "proved"]],
            "verdict": "certified_under_assumptions",
            "revision": "def",
            "surprises": [],
        },
        "c": {
            "claims": [["R", "proved"]],
            "verdict": "alarm",
            "revision": "def",
            "surprises": ["R: is alarm"],
        },
    }
    before = {"a": [["P", "proved"], ["P", "proved"], ["Q", "proved"]], "old": [["S", "proved"]]}
    text = examination.page(catalogue, bugs, said, {"revision": "abc", "claims": before})
    assert "certified 2 mechanisms (revision def): 1 certified under assumptions, 1 alarm." in text
    assert "1 of them differ from what the catalogue expects" in text
    assert "1 claims have the outcome that they had, and 1 have another" in text
    assert "1 mechanisms are new, 1 are gone: old." in text
    changed = rows(text, "Every verdict, and which changed")
    assert changed[2:] == [["a", "P", "proved, proved", "proved, refuted"]]
    assert "Of 3 mechanisms of the catalogue 2 could be run" in text
    assert "1 took 2 s or less, 1 more than 20 s" in text
    assert "1 of 2 suites attack a stand-in" in text
    assert "Of 2 other bugs, in programs of 1 shapes" in text
    assert "1 came out certified; 0 of 1 right twins were flagged" in text
    first, _, *table = rows(text, "The catalogue")
    assert {len(row) for row in (first, *table)} == {6}
    assert table[0] == ["a", "9 of 10", "50%", "the program", "1.0", ""]
    assert table[1][1] == "not examined"
    assert table[2][2:4] == ["—", "stand-in: loss is A / B"]
    assert [len(row) for row in rows(text, "Planted bugs, with no suite")] == [4] * 5


def test_the_committed_page_is_made_of_the_committed_files() -> None:
    paths = (examination.CATALOGUE, examination.BUGS, examination.VERDICTS, examination.EARLIER)
    found = [json.loads(p.read_text("utf-8")) for p in paths]
    assert examination.PAGE.read_text("utf-8") == examination.page(*found)
