"""Engine: the same arrays whoever runs the batches, in what order, and after whatever crash."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest
from joblib.parallel import ThreadingBackend

from dpaudit.audit.engine import Batch, generator, plan, run_batches
from dpaudit.errors import InvalidParameter, SensitivityExceeded
from dpaudit.storage.batches import Arrays, AuditStore, Key

SEED = 2**127 + 12345


def sampling(log: list[Key] | None = None) -> Callable[[Batch, np.random.Generator], Arrays]:
    """A task made here, so that workers take it by value; it can log the keys it runs."""

    def task(batch: Batch, rng: np.random.Generator) -> Arrays:
        if log is not None:
            log.append(batch.key)
        noise = rng.standard_normal((3, batch.trials)).T
        return {"scores": rng.normal(size=batch.trials), "noise": noise}

    return task


def failing(error: Exception, index: int = 2) -> Callable[[Batch, np.random.Generator], Arrays]:
    def task(batch: Batch, rng: np.random.Generator) -> Arrays:
        if batch.key[-1] == index:
            raise error
        return {"scores": rng.normal(size=batch.trials)}

    return task


def assert_same(found: dict[Key, Arrays], expected: dict[Key, Arrays]) -> None:
    assert list(found) == list(expected)
    for key, arrays in expected.items():
        assert list(found[key]) == list(arrays)
        for name, array in arrays.items():
            assert found[key][name].tobytes() == array.tobytes()
            assert found[key][name].flags.c_contiguous


BATCHES = plan(0, 1, 0, 100, 16)


@pytest.fixture(scope="module")
def expected() -> dict[Key, Arrays]:
    return run_batches(sampling(), BATCHES, root_seed=SEED)


# Plans and generators.


def test_plan_covers_all_trials_once() -> None:
    assert [batch.trials for batch in BATCHES] == [16] * 6 + [4]
    assert [batch.key for batch in BATCHES] == [(0, 1, 0, index) for index in range(7)]
    assert plan(3, 0, 2, 5, 10) == [Batch((3, 0, 2, 0), 5)]


@pytest.mark.parametrize(
    "bad",
    [
        (-1, 0, 0, 10, 5), (0, -1, 0, 10, 5), (0, 0, 2**32, 10, 5), (0, 0, 0, 0, 5),
        (0, 0, 0, 10, 0), (0, 0, 0, 10**9, 1), (0, 0.5, 0, 10, 5), (0, 0, 0, 10.0, 5),
        (0, 0, 0, True, 5),
    ],
)  # fmt: skip
def test_plan_refuses(bad: Any) -> None:
    with pytest.raises(InvalidParameter):
        plan(*bad)


def test_generator_is_pinned() -> None:
    """The stream is part of every certificate: it may not change."""
    generated = generator(1, (0, 1, 0, 2))
    assert type(generated.bit_generator) is np.random.PCG64DXSM
    assert generated.bit_generator.random_raw(2).tolist() == [
        7997279894269983070,
        315469208693695699,
    ]


def test_generators_of_different_keys_and_seeds_differ() -> None:
    keys = [(0,), (1,), (0, 0), (0, 0, 0), (0, 1), (1, 0), (2**32 - 1,)]
    seeds = [0, 1, 2**64, 2**96, 2**128 - 1]
    draws = {generator(s, k).integers(2**63) for s in seeds for k in keys}
    assert len(draws) == len(keys) * len(seeds)


@pytest.mark.parametrize(
    ("seed", "key"), [(-1, (0,)), (2**128, (0,)), (1.0, (0,)), (0, ()), (0, (-1,)), (0, (2**32,))]
)
def test_generator_refuses(seed: Any, key: Any) -> None:
    with pytest.raises(InvalidParameter):
        generator(seed, key)


# The result does not depend on who runs what, and when.


def test_order_of_batches_is_no_matter(expected: dict[Key, Arrays]) -> None:
    found = run_batches(sampling(), BATCHES[::-1], root_seed=SEED)
    assert list(found) == list(expected)[::-1]
    assert_same({key: found[key] for key in expected}, expected)


def test_worker_processes_give_the_same(expected: dict[Key, Arrays], tmp_path: Path) -> None:
    store, steps = AuditStore(tmp_path, "audit"), []
    found = run_batches(
        sampling(), BATCHES, root_seed=SEED, jobs=2, store=store,
        progress=lambda done, total: steps.append((done, total)),
    )  # fmt: skip
    assert_same(found, expected)
    assert steps == [(done, 7) for done in range(1, 8)]
    assert len(store.keys()) == 7


def test_the_callers_backend_is_used(expected: dict[Key, Arrays]) -> None:
    log: list[Key] = []
    with joblib.parallel_config(backend="threading"):
        found = run_batches(sampling(log), BATCHES, root_seed=SEED, jobs=2)
    assert_same(found, expected)
    assert sorted(log) == list(expected), "threads share the log; processes would not"


class Rounds(ThreadingBackend):  # type: ignore[misc]
    """A backend that cannot stream its results, as Ray's."""

    supports_return_generator = False


def test_a_backend_that_cannot_stream(expected: dict[Key, Arrays], tmp_path: Path) -> None:
    store = AuditStore(tmp_path, "audit")
    with joblib.parallel_config(backend=Rounds()):
        found = run_batches(sampling(), BATCHES, root_seed=SEED, jobs=2, store=store)
        assert_same(found, expected)
        with pytest.raises(SensitivityExceeded):
            run_batches(failing(SensitivityExceeded("x")), BATCHES, root_seed=SEED, jobs=2)
    assert len(store.keys()) == 7


# Resumption.


def test_finished_batches_are_not_rerun(expected: dict[Key, Arrays], tmp_path: Path) -> None:
    log: list[Key] = []
    store, steps = AuditStore(tmp_path, "audit"), []
    run_batches(sampling(), BATCHES[2:5], root_seed=SEED, store=store)
    found = run_batches(
        sampling(log), BATCHES, root_seed=SEED, store=store,
        progress=lambda done, total: steps.append((done, total)),
    )  # fmt: skip
    assert_same(found, expected)
    assert log == [BATCHES[i].key for i in (0, 1, 5, 6)]
    assert steps == [(3, 7), (4, 7), (5, 7), (6, 7), (7, 7)]


def test_damaged_and_mismatched_batches_are_rerun(
    expected: dict[Key, Arrays], tmp_path: Path
) -> None:
    log: list[Key] = []
    store = AuditStore(tmp_path, "audit")
    run_batches(sampling(), BATCHES, root_seed=SEED, store=store)
    damaged = store.place / "0-1-0-1.npz"
    damaged.write_bytes(damaged.read_bytes()[:-20])
    store.put((0, 1, 0, 3), {"scores": np.zeros(15)})
    assert_same(run_batches(sampling(log), BATCHES, root_seed=SEED, store=store), expected)
    assert log == [(0, 1, 0, 1), (0, 1, 0, 3)]


@pytest.mark.parametrize("jobs", [1, 2])
def test_an_interruption_keeps_what_was_done(
    expected: dict[Key, Arrays], tmp_path: Path, jobs: int
) -> None:
    store = AuditStore(tmp_path, "audit")

    def stop(done: int, total: int) -> None:
        if done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_batches(sampling(), BATCHES, root_seed=SEED, jobs=jobs, store=store, progress=stop)
    assert len(store.keys()) == 3
    assert_same(run_batches(sampling(), BATCHES, root_seed=SEED, store=store), expected)


SCRIPT = """
import sys, time
from dpaudit.audit.engine import plan, run_batches
from dpaudit.storage.batches import AuditStore

folder, pause, log = sys.argv[1], float(sys.argv[2]), sys.argv[3]

def task(batch, rng):
    time.sleep(pause)
    with open(log, "a") as file:
        file.write("x")
    return {"scores": rng.normal(size=(batch.trials, 50))}

found = run_batches(task, plan(0, 0, 1, 120, 10), root_seed=5, store=AuditStore(folder, "audit"))
sys.stdout.buffer.write(b"".join(arrays["scores"].tobytes() for arrays in found.values()))
"""


@pytest.mark.quality
def test_kill_minus_nine_and_resume(tmp_path: Path, checkout: Path) -> None:
    """A run killed in the middle and resumed gives the bytes of one that was never stopped."""
    script, log = tmp_path / "script.py", tmp_path / "log"
    script.write_text(SCRIPT)
    environment = os.environ | {"PYTHONPATH": str(checkout)}

    def arguments(folder: str, pause: float) -> list[str]:
        return [sys.executable, str(script), str(tmp_path / folder), str(pause), str(log)]

    whole = subprocess.run(arguments("a", 0), env=environment, capture_output=True, check=True)
    log.unlink()
    child = subprocess.Popen(arguments("b", 0.1), env=environment, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while len(list((tmp_path / "b").glob("*/*.npz"))) < 3:
        assert time.monotonic() < deadline, "the child stored nothing"
        time.sleep(0.01)
    child.send_signal(signal.SIGKILL)
    assert child.wait() == -signal.SIGKILL
    stored = len(list((tmp_path / "b").glob("*/*.npz")))
    assert 3 <= stored < 12
    log.unlink()
    resumed = subprocess.run(arguments("b", 0), env=environment, capture_output=True, check=True)
    assert resumed.stdout == whole.stdout
    assert len(log.read_text()) == 12 - stored


# Errors.


@pytest.mark.parametrize("jobs", [1, 2])
def test_our_errors_come_through_as_themselves(tmp_path: Path, jobs: int) -> None:
    store = AuditStore(tmp_path, "audit")
    task = failing(SensitivityExceeded("step[3]: moved by 2.0, states 1.0; state its sensitivity"))
    with pytest.raises(SensitivityExceeded) as caught:
        run_batches(task, BATCHES, root_seed=SEED, jobs=jobs, store=store)
    assert str(caught.value) == "step[3]: moved by 2.0, states 1.0; state its sensitivity"
    assert caught.value.__cause__ is None
    assert store.get(BATCHES[2].key) is None


@pytest.mark.long_cases("2")
@pytest.mark.parametrize("jobs", [1, 2])
def test_other_errors_come_through(jobs: int) -> None:
    with pytest.raises(ZeroDivisionError, match="by hand"):
        run_batches(failing(ZeroDivisionError("by hand")), BATCHES, root_seed=SEED, jobs=jobs)


@pytest.mark.parametrize("trials", [0, 15, 17])
def test_a_task_must_return_its_trials(tmp_path: Path, trials: int) -> None:
    store = AuditStore(tmp_path, "audit")

    def short(batch: Batch, rng: np.random.Generator) -> Arrays:
        return {"scores": rng.normal(size=trials)}

    with pytest.raises(InvalidParameter):
        run_batches(short, BATCHES, root_seed=SEED, store=store)
    assert store.keys() == ()


def test_runs_refuse() -> None:
    for batches, seed, jobs in (
        ([BATCHES[0], BATCHES[0]], SEED, 1),
        (BATCHES, -1, 1),
        (BATCHES, SEED, 0),
        (BATCHES, SEED, -2),
        (BATCHES, SEED, 1.5),
    ):
        with pytest.raises(InvalidParameter):
            run_batches(sampling(), batches, root_seed=seed, jobs=jobs)  # type: ignore[arg-type]


def test_no_batches_is_no_work() -> None:
    assert run_batches(sampling(), [], root_seed=SEED, jobs=2) == {}
