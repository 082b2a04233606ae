"""Which lines of a program ran under attack: what is hidden from made-up records is listed."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

import dpaudit as dp
from dpaudit.audit.examine import examine
from dpaudit.audit.examine.lines import Lines, constants_of, functions_of
from dpaudit.cli.terminal import verdicts
from dpaudit.errors import InvalidParameter
from dpaudit.kernels.query import Array, clip_rows
from dpaudit.report.words import UNHEARD
from tests.support.examined import OwnMean, mechanism

MAGIC = 4_294_967_291.5


class Branching:
    """A mean whose clip has an exception that no made-up record meets."""

    def __init__(self, hidden: bool = False) -> None:
        self.hidden = hidden

    def declaration(self, scope: dp.Scope) -> dp.Node:
        return dp.Gaussian("mean", noise_multiplier=3)

    def run(self, curator: dp.Curator) -> Array:
        if curator.trials > 10**9:
            raise InvalidParameter("too many trials")
        return curator.release("mean", dp.ClippedMean(self.rows, 1.0, divisor=20))

    def rows(self, values: Array) -> Array:
        if self.hidden and (np.abs(np.asarray(values) - MAGIC / 3) < 1e-3).any():
            return self.unclipped(values)
        return values[None, :, :2]

    def unclipped(self, values: Array) -> Array:
        return np.full((1, len(values), 2), np.inf)


def test_lines_that_no_attack_reached_are_listed_and_refusals_are_not() -> None:
    ran: Any = examine(mechanism("lines", Branching(hidden=True)), seed=1).ran
    places = [text.partition(":")[2].split(" in ") for text in ran.missed]
    assert [name for _, name in places] == ["rows", "unclipped"]
    assert ran.lines - ran.run == 2
    assert all(text.startswith("tests/library/unit/test_examine_lines.py:") for text in ran.missed)


@pytest.mark.quality
def test_they_stand_in_the_certificate_and_among_its_caveats() -> None:
    predicate = dp.certify(mechanism("lines", Branching(hidden=True)), seed=1, trials=200).content[
        "predicate"
    ]
    code = predicate["examination"]["code"]
    assert code["lines"] - code["run"] == len(code["missed"]) == 2
    (said,) = [text for text in predicate["caveats"] if "never ran while it was examined" in text]
    assert said.startswith(f"2 of {code['lines']} lines")
    assert all(place in said for place in code["missed"])


class Rare(Branching):
    """Releases once more where there are more records than anybody makes up."""

    def run(self, curator: dp.Curator) -> Array:
        found = super().run(curator)
        if curator.trials > 10**9:
            found = curator.release("mean", dp.ClippedMean(self.rows, 1.0, divisor=20))
        return found


@pytest.mark.quality
def test_a_release_that_no_run_asked_for_is_said_first(capsys: pytest.CaptureFixture[str]) -> None:
    certificates = [
        dp.certify(mechanism("lines", program), seed=1, trials=200).content
        for program in (Rare(), Branching())
    ]
    rare, plain = (one["predicate"]["caveats"] for one in certificates)
    assert rare[0].startswith(
        f"{UNHEARD}, and a run on the data may: tests/library/unit/test_examine_lin"
    )
    assert not any(text.startswith(UNHEARD) for text in plain)
    verdicts(certificates[:1])
    said = capsys.readouterr()
    assert f"lines: {UNHEARD}" in said.out + said.err


class Special(Branching):
    """Does not clip the records that hold a number which its code names."""

    def rows(self, values: Array) -> Array:
        clipped = np.asarray(clip_rows(values[None, :, :2], np.array([1.0])))
        return np.where((values == MAGIC).all(axis=1)[None, :, None], values[None, :, :2], clipped)

    def run(self, curator: dp.Curator) -> Array:
        return curator.release("mean", OwnMean(lambda records, _: self.rows(records.values).sum(1)))


@pytest.mark.quality
def test_numbers_that_the_code_names_are_tried() -> None:
    assert {2.0, MAGIC} <= set(constants_of(Special()))
    broken = examine(mechanism("lines", Special()), seed=1).broken
    assert any(f"all of the number {MAGIC:.6g}" in finding.detail for finding in broken)


class Whole(Branching):
    """All of it is reached."""

    def rows(self, values: Array) -> Array:
        return values[None, :, :2]


@pytest.mark.quality
def test_nothing_is_said_where_all_ran() -> None:
    examination = examine(mechanism("lines", Whole()), seed=1)
    assert examination.ran is not None
    assert examination.ran.missed == ()


def test_another_tracer_is_left_alone() -> None:
    def mine(*_: Any) -> None:
        return None

    before = sys.gettrace()
    sys.settrace(mine)
    try:
        with Lines(Branching()) as lines:
            assert sys.gettrace() is mine
        assert lines.found is None
    finally:
        sys.settrace(before)


def test_a_program_of_the_library_is_not_traced() -> None:
    """It has no lines of its own, and tracing takes as long again as what it traces."""
    before = sys.gettrace()
    with Lines(Branching()) as lines:
        assert lines.own
        assert (sys.gettrace() is not before) is (before is None)
    with Lines(dp.ClippedMean(lambda values: values[None], 1.0, divisor=1)) as lines:
        assert not lines.own
        assert sys.gettrace() is before


class Strange:
    """Its class has no text for a module, as classes of compiled libraries may."""

    __module__ = property(lambda self: "strange")  # type: ignore[assignment]


def test_an_object_whose_class_names_no_module_is_passed_over() -> None:
    program = Branching()
    program.strange = Strange()  # type: ignore[attr-defined]
    assert not isinstance(Strange.__module__, str)
    assert {function.__name__ for function in functions_of(program)} >= {"run", "rows"}
    assert not examine(mechanism("strange", program), seed=1, seconds=2).broken
