"""Engine on real workers: loky and a local Dask cluster give the same bytes, deaths included."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from threading import Thread
from typing import Any

import joblib
import numpy as np
import pytest

from dpaudit.audit.engine import (
    Batch,
    plan,
    run_batches,
)
from dpaudit.audit.workers import WorkersLost
from dpaudit.errors import InvalidParameter, SensitivityExceeded
from dpaudit.membership import Data, Study
from dpaudit.storage.batches import Arrays, AuditStore, Key
from tests.support.membership import looked_up, numbered, remembering

SEED = 77
TRIALS = 40_000
BATCHES = [batch for side in (0, 1) for batch in plan(0, side, 1, TRIALS, 10_000)]
Task = Callable[[Batch, np.random.Generator], Arrays]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A scheduler and two worker processes on this machine; no dashboard."""
    distributed = pytest.importorskip("distributed")
    dask = pytest.importorskip("dask")
    settings = {"distributed.scheduler.allowed-failures": 0, "distributed.logging.distributed": 50}
    with (
        dask.config.set(settings),
        distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=True,
            dashboard_address=None,
            silence_logs=50,
        ) as workers,
        distributed.Client(workers) as client,
    ):
        yield client


@pytest.fixture
def unguarded() -> Iterator[None]:
    """A cluster of two worker processes on this machine that nothing starts again."""
    distributed = pytest.importorskip("distributed", reason="Dask is not installed")
    with (
        distributed.LocalCluster(
            n_workers=0, protocol="tcp://", dashboard_address=None, silence_logs=50
        ) as scheduler,
        distributed.Client(scheduler) as client,
    ):
        start = [sys.executable, "-m", "distributed.cli.dask_worker", scheduler.scheduler_address]
        options = ["--no-nanny", "--nthreads", "1", "--no-dashboard"]
        workers = [
            subprocess.Popen([*start, *options], stderr=subprocess.DEVNULL) for _ in range(2)
        ]
        try:
            client.wait_for_workers(2, timeout=60)
            yield
        finally:
            for worker in workers:
                worker.kill()
                worker.wait()


def within(seconds: float, call: Callable[[], Any]) -> Any:
    """The result of a call, or TimeoutError for one that hangs."""
    answer: Future[Any] = Future()

    def answered() -> None:
        try:
            answer.set_result(call())
        except Exception as error:  # noqa: BLE001 (raised again below)
            answer.set_exception(error)

    Thread(target=answered, daemon=True).start()
    return answer.result(timeout=seconds)


@pytest.fixture(params=["loky", "dask"])
def backend(request: pytest.FixtureRequest) -> Iterator[str]:
    patience = {}
    if request.param == "dask":
        request.getfixturevalue("cluster")
        patience = {"wait_for_workers_timeout": 60}
    with joblib.parallel_config(backend=request.param, **patience):
        yield request.param


def sampling(log: Path) -> Task:
    """A task made here, so that workers take it by value; a line in the log for every batch run."""

    def task(batch: Batch, rng: np.random.Generator) -> Arrays:
        with log.open("a") as file:
            file.write(f"{os.getpid()} {batch.key}\n")
        return {
            "scores": rng.normal(size=batch.trials),
            "pairs": rng.standard_normal((2, batch.trials)).T,
            "bits": rng.random(batch.trials) < 0.1,
            "words": np.full(batch.trials, "declared"),
        }

    return task


def dying(inner: Task, folder: Path, deaths: int, key: Key) -> Task:
    """The worker that takes this batch kills itself, the first so many times."""

    def task(batch: Batch, rng: np.random.Generator) -> Arrays:
        died = len(list(folder.glob("death-*")))
        if batch.key == key and died < deaths:
            (folder / f"death-{died}").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return inner(batch, rng)

    return task


def content(found: dict[Key, Arrays]) -> list[tuple[Key, str, str, bytes]]:
    return [
        (key, name, str(array.dtype), array.tobytes())
        for key, arrays in found.items()
        for name, array in arrays.items()
    ]


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Key, str, str, bytes]]:
    """One process, one worker."""
    log = tmp_path_factory.mktemp("calm") / "log"
    return content(run_batches(sampling(log), BATCHES, root_seed=SEED))


def pids(log: Path) -> set[int]:
    return {int(line.split()[0]) for line in log.read_text().splitlines()}


@pytest.mark.first_case
@pytest.mark.parametrize("jobs", [1, 2])
def test_the_same_from_one_or_two_workers(
    backend: str, jobs: int, expected: list[Any], tmp_path: Path
) -> None:
    store, steps = AuditStore(tmp_path, "audit"), []
    found = run_batches(
        sampling(tmp_path / "log"), BATCHES, root_seed=SEED, jobs=jobs, store=store,
        progress=lambda done, total: steps.append((done, total)),
    )  # fmt: skip
    assert content(found) == expected
    assert steps == [(done, len(BATCHES)) for done in range(1, len(BATCHES) + 1)]
    assert set(store.keys()) == {batch.key for batch in BATCHES}
    assert (os.getpid() in pids(tmp_path / "log")) == (jobs == 1), "workers are other processes"


@pytest.mark.quality
@pytest.mark.first_case
def test_a_stored_half_is_not_run_again(backend: str, expected: list[Any], tmp_path: Path) -> None:
    store, half = AuditStore(tmp_path, "audit"), BATCHES[::2]
    run_batches(sampling(tmp_path / "before"), half, root_seed=SEED, store=store)
    task = sampling(tmp_path / "after")
    found = run_batches(task, BATCHES, root_seed=SEED, jobs=2, store=store)
    assert content(found) == expected
    run = {line.split(" ", 1)[1] for line in (tmp_path / "after").read_text().splitlines()}
    assert run == {str(batch.key) for batch in BATCHES[1::2]}


@pytest.mark.first_case
def test_a_worker_that_dies_costs_nothing(
    backend: str, expected: list[Any], tmp_path: Path
) -> None:
    """Killed in the middle of a batch; the result and the store are those of a calm run."""
    store = AuditStore(tmp_path / "store", "audit")
    task = dying(sampling(tmp_path / "log"), tmp_path, 1, BATCHES[3].key)
    found = run_batches(task, BATCHES, root_seed=SEED, jobs=2, store=store)
    assert (tmp_path / "death-0").exists()
    assert content(found) == expected
    kept = {batch.key: store.get(batch.key) or {} for batch in BATCHES}
    assert content(kept) == expected


@pytest.mark.first_case
def test_errors_of_a_task_come_through_as_themselves(backend: str, tmp_path: Path) -> None:
    inner = sampling(tmp_path / "log")

    def failing(batch: Batch, rng: np.random.Generator) -> Arrays:
        if batch.key == BATCHES[2].key:
            raise SensitivityExceeded("step[3]: moved by 2.0, states 1.0")
        return inner(batch, rng)

    with pytest.raises(SensitivityExceeded) as caught:
        run_batches(failing, BATCHES, root_seed=SEED, jobs=2)
    assert str(caught.value) == "step[3]: moved by 2.0, states 1.0"
    assert caught.value.__cause__ is None


@pytest.mark.first_case
def test_copies_are_refused_on_every_backend(backend: str) -> None:
    def copying(batch: Batch, rng: np.random.Generator) -> Arrays:
        return {"scores": np.random.default_rng(0).normal(size=batch.trials)}

    with pytest.raises(InvalidParameter, match=r"batches \(0, .*\) and \(0, .*\): the same draws"):
        run_batches(copying, BATCHES, root_seed=SEED, jobs=2)


@pytest.mark.quality
@pytest.mark.first_case
def test_workers_that_always_die_end_the_run(
    backend: str, expected: list[Any], tmp_path: Path
) -> None:
    """The other batches are stored; a later run needs only what is missing."""
    store = AuditStore(tmp_path / "store", "audit")
    task = dying(sampling(tmp_path / "log"), tmp_path, 1000, BATCHES[0].key)
    with pytest.raises(WorkersLost, match="fewer jobs or smaller batches") as caught:
        run_batches(task, BATCHES, root_seed=SEED, jobs=2, store=store)
    assert caught.value.exit_code == 2
    assert BATCHES[0].key not in store.keys()  # noqa: SIM118 (a method, not a mapping's)
    calm = sampling(tmp_path / "again")
    assert content(run_batches(calm, BATCHES, root_seed=SEED, store=store)) == expected


@pytest.mark.quality
def test_a_study_of_training_outlives_a_worker_that_is_killed(backend: str, tmp_path: Path) -> None:
    """Its bounds are those of a study in this process, whose trainings nobody kills."""
    parent, died = os.getpid(), tmp_path / "died"

    def fit(records: Data, rng: np.random.Generator) -> Any:
        if os.getpid() != parent and not died.exists():
            died.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return remembering(records, rng)

    calm, killed = (
        Study((fit, looked_up), numbered(20), 6, seed=3).run(attacks="loss", jobs=jobs)
        for jobs in (1, 2)
    )
    assert died.exists()
    assert killed.bounds == calm.bounds


@pytest.mark.quality
@pytest.mark.long("workers of a cluster are processes, which import the library")
@pytest.mark.first_case
@pytest.mark.parametrize("deaths", [2, 1])
@pytest.mark.usefixtures("unguarded")
def test_an_audit_whose_cluster_loses_workers_goes_on_or_says_so_and_resumes(
    deaths: int, tmp_path: Path
) -> None:
    """Nothing starts a killed worker again: one is left to finish, or none and nobody waits."""
    parent, models, finished = os.getpid(), 8, 3
    runs, log = tmp_path / "study" / "runs", tmp_path / "log"

    def fit(records: Data, rng: np.random.Generator) -> Any:
        died = list(tmp_path.glob("death-*"))
        done = len(list(runs.glob("*/*.npz")))
        if os.getpid() != parent and len(died) < deaths and done >= finished:
            (tmp_path / f"death-{os.getpid()}").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        with log.open("a") as file:
            file.write(f"{os.getpid()}\n")
        return remembering(records, rng)

    def audit(folder: str, jobs: int) -> Any:
        study = Study((fit, looked_up), numbered(20), models, seed=3, folder=tmp_path / folder)
        with joblib.parallel_config(backend="dask", wait_for_workers_timeout=3):
            return study.run(attacks="loss", jobs=jobs).bounds

    calm = audit("calm", 1)
    log.unlink()
    if deaths == 1:
        assert within(300, lambda: audit("study", 2)) == calm
    else:
        with pytest.raises(WorkersLost, match=r"the cluster has none left.*another run resumes"):
            within(300, lambda: audit("study", 2))
        assert finished <= len(list(runs.glob("*/*.npz"))) < models
        kept = len(log.read_text().splitlines())
        assert audit("study", 1) == calm
        trainings = models + 2  # the first is repeated, with its generator and with another
        assert len(log.read_text().splitlines()) <= trainings + 2 * deaths
        assert kept < trainings
    assert len(list(tmp_path.glob("death-*"))) == deaths
