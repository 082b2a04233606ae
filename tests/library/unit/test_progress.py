"""Progress: on standard error, with the time left; bars on a terminal, plain lines elsewhere."""

from __future__ import annotations

import io
import re
import time

import numpy as np
import pytest

from dpaudit.audit.engine import Batch, plan, run_batches
from dpaudit.cli import terminal
from dpaudit.cli.terminal import Pace, progress
from dpaudit.storage.batches import Arrays


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Screen(io.StringIO):
    """A standard error that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def pace(*steps: tuple[float, int], total: int) -> list[str]:
    clock, words = Clock(), []
    measured = Pace(clock)
    for second, done in steps:
        clock.now = 1000.0 + second
        words.append(measured.left(done, total))
    return words


@pytest.mark.parametrize(
    ("second", "done", "total", "expected"),
    [
        (10.0, 10, 20, ", 10 s left"),
        (10.0, 10, 99, ", 89 s left"),
        (10.0, 10, 130, ", 2 min left"),
        (10.0, 1, 361, ", 60 min left"),
        (10.0, 1, 1081, ", 3.0 h left"),
        (0.001, 5, 10, ", 1 s left"),
        (10.0, 20, 20, ""),
        (10.0, 0, 20, ""),
    ],
)
def test_time_left(second: float, done: int, total: int, expected: str) -> None:
    assert pace((0.0, 0), (second, done), total=total) == ["", expected]


def test_batches_of_an_earlier_run_do_not_count_as_speed() -> None:
    """90 of 100 were stored; one more took 10 s: the nine left take 90."""
    assert pace((0.0, 90), (10.0, 91), total=100) == ["", ", 2 min left"]


def test_plain_lines_on_standard_error(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(terminal, "PLAIN_SECONDS", -1.0)

    def task(batch: Batch, rng: np.random.Generator) -> Arrays:
        time.sleep(0.01)
        return {"scores": rng.normal(size=batch.trials)}

    with progress() as report:
        run_batches(
            task, plan(0, 0, 0, 40, 10), root_seed=1,
            progress=lambda done, total: report("laplace[i]", done, total),
        )  # fmt: skip
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "\x1b" not in printed.err
    lines = printed.err.splitlines()
    assert lines[0] == "attacking laplace[i]: 1 of 4 batches"
    assert re.fullmatch(r"attacking laplace\[i\]: 2 of 4 batches, 1 s left", lines[1])
    assert lines[3] == "attacked laplace[i]: 4 batches in 1 s"


def test_a_mechanism_has_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with progress() as report:
        for name in ("x", "y"):
            for total in (1000, 4):
                for done in range(1, total + 1):
                    report(name, done, total)
    lines = capsys.readouterr().err.splitlines()
    assert lines == [f"attacked {name}: 1004 batches in 1 s" for name in ("x", "y")]


def test_bars_on_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    screen = Screen()
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr("sys.stderr", screen)
    with progress() as report:
        for done in (3, 4, 5, 6):
            report("gaussian", done, 6)
            time.sleep(0.02)
    assert capsys.readouterr().out == ""
    shown = screen.getvalue()
    assert "attacking gaussian" in shown
    assert "100%" in shown
    assert re.search(r"\d:\d\d:\d\d", shown), "no time left"
