"""Programs that never end, wait, exit, fork or change the world: an examination ends, and is right.

Times are of a processor, so that a busy machine changes nothing.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import socket
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dpaudit as dp
from dpaudit.audit.examine import examination, examine, running
from dpaudit.audit.examine.running import Exited, TooLong, ending_after, run
from dpaudit.audit.examine.search import Point, Search
from dpaudit.kernels.query import Array, Records
from dpaudit.scope import Adjacency
from tests.support.examined import OwnVector, mechanism


def nothing() -> None:
    """What a right program does beside its query."""


def total(rows: Array) -> Array:
    return np.clip(np.nan_to_num(rows[:, :1]), 0, 1).sum(axis=0)


@dataclass(frozen=True)
class Does:
    """A noisy sum of a hundred numbers in [0, 1]; ``inside`` runs whenever its query is asked."""

    inside: Callable[[], Any]
    size: int = 20

    def declaration(self, scope: dp.Scope) -> dp.Node:
        return dp.Gaussian("sum", 2)

    def run(self, curator: dp.Curator) -> Array:
        def compute(rows: Array) -> Array:
            self.inside()
            return total(rows)

        return curator.release("sum", OwnVector(compute, 1.0))


def examined(inside: Callable[[], Any], seconds: float = 5.0) -> Any:
    return examine(mechanism("does", Does(inside)), seed=1, seconds=seconds)


def for_ever() -> None:
    while True:
        pass


def handled() -> None:
    while True:
        with contextlib.suppress(Exception):
            for_ever()


def printing() -> None:
    while True:
        sys.stdout.write("row 7 is Ann")


@pytest.mark.first_case
@pytest.mark.parametrize("inside", [for_ever, handled, printing])
def test_a_program_that_never_ends_is_ended_and_said_not_examined(
    inside: Callable[[], Any], capfd: pytest.CaptureFixture[str]
) -> None:
    began = time.process_time()
    found = examined(inside, seconds=0.3)
    assert time.process_time() - began < 0.3 * 1.1 + 2 * running.EVERY
    assert found.not_examined.startswith("no run of the program ended within 0.3 s")
    assert found.stopped
    assert capfd.readouterr() == ("", "")


def test_a_program_that_ends_its_process_at_once_ends_itself() -> None:
    assert "Exited" in examined(lambda: os._exit(7), seconds=0.3).not_examined


@pytest.mark.quality
def test_a_program_that_only_waits_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "IDLE", 2.0)
    began = time.monotonic()
    assert examined(lambda: time.sleep(60), seconds=0.2).not_examined
    assert time.monotonic() - began < 20


@pytest.mark.quality
def test_without_the_alarm_it_would_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running.signal, "setitimer", lambda *given: (0.0, 0.0))
    seen: list[float] = []

    def inside() -> None:
        began = time.process_time()
        while time.process_time() - began < 0.5:
            pass
        seen.append(time.process_time())
        raise TooLong

    assert examined(inside, seconds=0.1).not_examined
    assert len(seen) == 1


@pytest.mark.quality
def test_a_deadline_is_kept_within_a_tenth() -> None:
    """A query of 20 ms leaves hundreds of things to try; a look at the time takes no longer."""

    def busy() -> None:
        end = time.process_time() + 0.02
        while time.process_time() < end:
            pass

    began = time.process_time()
    found = examined(busy, seconds=2.0)
    assert time.process_time() - began < 2.2 + running.EVERY
    assert found.stopped
    assert not found.broken
    assert not found.not_examined


@pytest.mark.quality
def test_what_is_under_way_at_the_end_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """Records of another shape are tried last, and may be what takes too long."""

    def late(*given: Any) -> Any:
        raise TooLong

    monkeypatch.setattr(examination, "_of_another_rank", late)
    assert not examined(nothing).not_examined
    monkeypatch.setattr(examination._Examiner, "_walks", late)
    assert not examined(nothing).broken


# --- what it leaves behind -----------------------------------------------------------------------


def elsewhere() -> None:
    os.chdir(Path(__file__).parent)
    os.environ["DPAUDIT_TEST"] = "changed"
    np.random.seed(3)  # noqa: NPY002
    random.seed(3)


@pytest.mark.quality
def test_the_folder_the_environment_and_generators_are_put_back() -> None:
    folder, plain, drawn = Path.cwd(), random.getstate(), np.random.get_state()[1]  # noqa: NPY002
    assert not examined(elsewhere).broken
    assert Path.cwd() == folder
    assert "DPAUDIT_TEST" not in os.environ
    assert random.getstate() == plain
    assert np.array_equal(np.random.get_state()[1], drawn)  # noqa: NPY002


@pytest.mark.quality
def test_a_process_that_a_program_forks_ends_with_its_run() -> None:
    process, times = os.getpid(), itertools.count()

    def forks() -> None:
        if next(times) == 9 and (child := os.fork()):
            os.waitpid(child, 0)  # a child of a process with threads may not survive its start

    assert not examined(forks).broken
    assert os.getpid() == process
    assert next(times) > 10


@pytest.mark.quality
def test_threads_and_sockets_are_left_alone() -> None:
    def opens() -> None:
        thread = threading.Thread(target=nothing)
        thread.start()
        thread.join()
        socket.socket().close()

    assert not examined(opens).broken


@pytest.mark.parametrize(
    ("inside", "said"),
    [
        (lambda: sys.exit(3), "Exited"),
        (lambda: np.ones(2**58), "MemoryError"),
        (lambda: [][1], "IndexError"),
    ],
)
def test_what_no_run_survives_is_said_not_examined(inside: Callable[[], Any], said: str) -> None:
    assert said in examined(inside).not_examined


def test_a_program_that_exits_on_some_records_is_flagged() -> None:
    """Whether a process ends is an output."""

    @dataclass(frozen=True)
    class Exits(Does):
        def run(self, curator: dp.Curator) -> Array:
            def compute(rows: Array) -> Array:
                if np.nan_to_num(rows).max() > 1e5:
                    raise SystemExit(3)
                return total(rows)

            return curator.release("sum", OwnVector(compute, 1.0))

    found = examine(mechanism("exits", Exits(nothing)), seed=1)
    assert any("fail" in finding.detail for finding in found.broken)


@pytest.mark.first_case
@pytest.mark.parametrize("adjacency", [Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE])
@pytest.mark.parametrize("again", [1, examination.DRAWN_AGAIN])
def test_hooks_that_make_other_shapes_each_time_are_no_error(
    monkeypatch: pytest.MonkeyPatch, adjacency: Adjacency, again: int
) -> None:
    """Rows of two shapes cannot be exchanged: rows keep the first one, and their number varies."""

    def hook(rng: np.random.Generator) -> Records:
        return Records(rng.standard_normal((int(rng.integers(5, 30)), int(rng.integers(1, 6)))))

    monkeypatch.setattr(examination, "DRAWN_AGAIN", again)
    made = mechanism("does", Does(nothing))
    made = replace(made, records_like=hook, scope=replace(made.scope, adjacency=adjacency))
    assert not examine(made, seed=1, seconds=5.0).broken


@pytest.mark.quality
def test_a_run_of_another_thread_hears_no_signal() -> None:
    found: list[str] = []

    def examining() -> None:
        found.append(examined(nothing).not_examined)

    thread = threading.Thread(target=examining)
    thread.start()
    thread.join()
    assert found == [""]


@pytest.mark.quality
def test_only_programs_are_interrupted() -> None:
    with ending_after(0.0):
        end = time.process_time() + 3 * running.EVERY
        while time.process_time() < end:
            pass
        program = Does(nothing)
        object.__setattr__(program, "run", lambda curator: for_ever())
        with pytest.raises(TooLong):
            run(program, None)
        object.__setattr__(program, "run", lambda curator: sys.exit())
        with pytest.raises(Exited):
            run(program, None)


# --- the search is the same as far as it goes ----------------------------------------------------


def test_a_search_of_fewer_steps_is_the_beginning_of_a_longer_one() -> None:
    def tried(steps: int) -> list[bytes]:
        seen: list[bytes] = []

        class Sum:
            adjacency = Adjacency.REPLACE_ONE

            def __call__(self, point: Point) -> float:
                seen.append(point.others.tobytes() + point.one.tobytes() + point.two.tobytes())
                return float(np.nan_to_num(point.one - point.two).sum())

            def over(self) -> bool:
                return False

            def lead(self) -> Point | None:
                return None

        world = np.random.default_rng(1).standard_normal((6, 3))
        rows = {"one": world[0], "two": world[1]}
        search = Search(Sum(), world, rows, np.random.default_rng(2))
        search.run([Point(world, world[0], world[1], 0, "a start")], steps)
        return seen

    short, long = tried(60), tried(150)
    assert long[: len(short)] == short
    assert len(long) > len(short) > 60
