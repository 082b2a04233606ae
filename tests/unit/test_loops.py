"""Kernels beside loops in C: what is above the limit is told, and other results are refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.loops import SAME, TARGET, Loop, Row, page, report, timed

FAST, SLOW = Row("fast", "`e`", 1.0, 1.0), Row("slow", "`e`", 2.5, 1.0)


def loop(ours: list[float], theirs: list[float]) -> Loop:
    return Loop("sums", "`e`", lambda: np.array(ours), lambda: np.array(theirs))


def test_a_ratio_above_the_limit_is_told_and_fails(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    written = tmp_path / "loops.md"
    assert report([FAST, SLOW], written, "a machine") == 1
    said = capsys.readouterr()
    assert [json.loads(line)["ratio"] for line in said.out.splitlines()] == [1.0, 2.5]
    assert said.err == "slow: 2.50 times the loop in C, above 2\n"
    assert "Above it: slow." in written.read_text("utf-8")


def test_at_the_limit_nothing_fails(capsys: pytest.CaptureFixture[str]) -> None:
    assert report([FAST, Row("limit", "`e`", TARGET, 1.0)]) == 0
    assert capsys.readouterr().err == ""


def test_a_ratio_that_is_no_number_fails(capsys: pytest.CaptureFixture[str]) -> None:
    assert report([Row("none", "`e`", np.nan, 1.0)]) == 1
    assert "none: nan" in capsys.readouterr().err


def test_the_page_has_a_row_a_kernel() -> None:
    lines = page([FAST], "m").splitlines()
    assert lines[-1] == "| fast | `e` | 1000.00 | 1000.00 | 1.00 |"
    assert "None is above it." in page([FAST], "m")


@pytest.mark.parametrize("theirs", [[1.0, 2.0 + 3 * SAME], [1.0, np.nan], [1.0], [1.0, 2.0, 3.0]])
def test_a_loop_in_c_with_other_results_is_refused(theirs: list[float]) -> None:
    with pytest.raises(RuntimeError, match="sums: the loop in C gives other results"):
        timed(loop([1.0, 2.0], theirs))


def test_rounding_is_no_other_result() -> None:
    row = timed(loop([1.0, 2.0], [1.0, 2.0 + SAME]), repeats=1)
    assert row.name == "sums"


def test_the_command_of_make_bench_may_fail(checkout: Path) -> None:
    """No leading ``-`` hides its status."""
    (line,) = [
        line
        for line in (checkout / "Makefile").read_text("utf-8").splitlines()
        if "benchmarks.loops" in line
    ]
    assert line == "\t$(BIN)/python -m benchmarks.loops --page docs/loops.md"


def test_the_committed_page_names_what_is_above_the_limit(checkout: Path) -> None:
    text = (checkout / "docs" / "loops.md").read_text("utf-8")
    rows = [line.split(" | ") for line in text.splitlines() if line.startswith("| ")][1:]
    assert len(rows) == 8
    said = text.split("Each kernel")[0]
    for name, *_, ratio in rows:
        shown = float(ratio.rstrip(" |"))
        if shown != TARGET:  # rounded, it may be on either side
            assert (name.removeprefix("| ") in said) == (shown > TARGET), name
