"""Mutation testing of this repository changes what runs, and picks the tests that run it."""

from __future__ import annotations

import ast
import functools
import json
import sys
from inspect import CO_OPTIMIZED
from pathlib import Path
from types import CodeType
from typing import Any

import pytest

from tests.support import mutants

RIGHT = """\
STEP = 1

def stepped(function):
    def call(x):
        return function(x) + STEP
    return call

@stepped
def doubled(x):
    if x < 0:
        raise ValueError
    return [2 * y
            for y in (x,)][0]

class Held:
    size = 3

    @property
    def twice(self):
        return 2 * self.size
"""


def compiled(old: str, new: str) -> tuple[CodeType, CodeType]:
    """The module and a mutant of it."""
    assert old in RIGHT
    wrong = RIGHT.replace(old, new, 1)
    return compile(RIGHT, "mutated_here.py", "exec"), compile(wrong, "mutated_here.py", "exec")


@pytest.mark.parametrize(
    ("old", "new", "doubled", "twice"),
    [
        ("2 * y", "3 * y", 16, 6),  # in a comprehension of a function that a decorator holds
        ("function(x) + STEP", "function(x) - STEP", 9, 6),  # in a closure that exists
        ("2 * self", "5 * self", 11, 15),  # behind a property
        ("x < 0", "not x < 0", None, 6),
    ],
)
def test_functions_in_memory_get_the_mutants_code(
    old: str, new: str, doubled: int | None, twice: int
) -> None:
    right, wrong = compiled(old, new)
    module: dict[str, Any] = {}
    exec(right, module)  # noqa: S102
    assert (module["doubled"](5), module["Held"]().twice) == (11, 6)
    pairs = mutants.changed(right, wrong)
    assert all(pair[0].co_flags & CO_OPTIMIZED for pair in pairs)
    mutants.patch(pairs, [*module.values(), vars(module["Held"])["twice"].fget, *closures(module)])
    if doubled is None:
        with pytest.raises(ValueError, match=r"^$"):
            module["doubled"](5)
    else:
        assert module["doubled"](5) == doubled
    assert module["Held"]().twice == twice


def closures(module: dict[str, Any]) -> list[Any]:
    """What the decorated function holds."""
    return [cell.cell_contents for cell in module["doubled"].__closure__]


@pytest.mark.parametrize(
    ("old", "new"),
    [("STEP = 1", "STEP = 2"), ("size = 3", "size = 4"), ("@stepped\n", "")],
)
def test_what_runs_at_import_is_not_patched(old: str, new: str) -> None:
    pairs = mutants.changed(*compiled(old, new))
    assert any(not pair[0].co_flags & CO_OPTIMIZED for pair in pairs)


def test_a_patch_forgets_what_the_right_code_had_computed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    @functools.lru_cache
    def held() -> list[int]:
        return []

    held()
    monkeypatch.setattr(mutants, "CACHED", (held.__module__,))
    mutants.patch([], [held])
    assert held.cache_info().currsize == 0


@pytest.mark.parametrize(
    ("line", "column", "lines"),
    [(1, 7, (1, 1)), (10, 7, (10, 10)), (13, 18, (12, 13)), (20, 19, (20, 20)), (8, 4, (8, 8))],
)
def test_a_place_belongs_to_its_statement_or_the_head_of_its_block(
    line: int, column: int, lines: tuple[int, int]
) -> None:
    assert mutants.statement(ast.parse(RIGHT), line, column) == lines


def test_tests_that_run_the_statement_come_first_and_only_they_see_it_run() -> None:
    module: dict[str, Any] = {}
    exec(compile(RIGHT, "mutated_here.py", "exec"), module)  # noqa: S102
    watch = mutants.Watch({"mutated_here.py": {11, 12, 20}})
    before = sys.gettrace()
    sys.settrace(watch)
    module["doubled"](1)
    sys.settrace(before)
    assert watch.entered == {"mutated_here.py"}
    assert watch.seen == {"mutated_here.py": {12}}

    place = "dpaudit/curator/uses.py"
    item = {"module": place, "lines": [11, 12]}
    known: dict[str, dict[str, Any]] = {
        "a::beside": {"seconds": 0.1, "ran": {place: []}},
        "a::slow": {"seconds": 2.0, "ran": {place: [11]}},
        "a::quick": {"seconds": 0.2, "ran": {place: [12]}},
        "a::fails": {"seconds": None, "ran": {place: [11]}},
        "b::elsewhere": {"seconds": 0.1, "ran": {place: [10]}},
        "c::never": {"seconds": 0.1, "ran": {}},
    }
    assert mutants.chosen(item, known, 9)[0] == ["a::quick", "a::slow", "a::beside"]
    assert mutants.chosen(item, known, 1)[0] == ["a::quick", "a::beside"]
    at_import = {"module": place, "lines": [1, 1]}
    assert mutants.chosen(at_import, known, 1)[0] == [
        "a::beside",
        "b::elsewhere",
        "a::quick",
        "c::never",
    ]


def test_killed_at_first_is_by_a_test_as_old_as_the_session(tmp_path: Path) -> None:
    (tmp_path / "tests" / "unit").mkdir(parents=True)
    (tmp_path / "tests" / "unit" / "test_a.py").write_text("def test_old(): pass\ndef other(): 1\n")
    old = mutants.tests_in(tmp_path)
    assert old == {"tests/unit/test_a.py::test_old"}
    for first, by, expected in (
        ("killed", "FAILED tests/unit/test_a.py::test_old[1-x]", True),
        ("killed", "FAILED tests/unit/test_a.py::test_old - assert", True),
        ("killed", "FAILED tests/unit/test_a.py::test_new[1-x]", False),
        ("killed", "exit status -24", True),
        ("survived", "FAILED tests/unit/test_a.py::test_old", False),
    ):
        assert mutants.at_first({"first": first, "by": by}, old) == expected


def test_whoever_is_named_equivalent_is_not_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [
        {"module": "m.py", "change": [f"-  {n}", f"+  {n} + 1"], "status": status}
        for n, status in enumerate(("survived", "survived", "killed", None))
    ]
    named = tmp_path / "equivalent.json"
    named.write_text(json.dumps({"m.py: - 1 + 1 + 1": "a reason"}))
    monkeypatch.setattr(mutants, "EQUIVALENT", named)
    assert mutants.waiting({"mutants": rows}, again=True) == rows[:1]
    assert mutants.waiting({"mutants": rows}, again=False) == rows[3:]


def test_every_equivalent_mutant_has_a_reason() -> None:
    named = json.loads(mutants.EQUIVALENT.read_text("utf-8"))
    assert all(len(reason.split()) > 4 for reason in named.values())


def test_every_equivalent_mutant_changes_a_line_that_exists() -> None:
    gone = []
    for key in json.loads(mutants.EQUIVALENT.read_text("utf-8")):
        module, change = key.split(": ", 1)
        source = " ".join((mutants.ROOT / module).read_text("utf-8").split())
        parts = change.removeprefix("-").split(" +")  # a line may hold " +" itself
        before = [" +".join(parts[:end]).strip() for end in range(1, len(parts))]
        if not any(line in source for line in before):
            gone.append(key)
    assert not gone, "lines that were renamed or removed: mend their keys or drop them"


def test_the_summary_says_the_share_and_each_survivor() -> None:
    count = {"killed": 9, "survived": 1, "equivalent": 2}
    found = {
        "groups": {"rules": count},
        "operators": {"NumberReplacer": count},
        "survivors": {"m.py:7": [7, "- a", "+ b"]},
        "run": 12,
        "drawn": 15,
        "seconds": 2.5,
        "killed_at_first": 8,
        "code": "abc",
    }
    lines = list(mutants.summary(found))
    assert lines[0].endswith("9 of 10 killed (90.0%), 2 equivalent")
    assert "SURVIVED m.py:7 (line 7): - a + b" in lines
    assert lines[-1] == "all: 9 of 10 killed (90.0%), 2 equivalent"
