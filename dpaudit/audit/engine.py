"""Engine: batches of independent trials, on one process or many, stored as they finish."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from dpaudit.audit.streams import Streams
from dpaudit.audit.workers import finished, resumed
from dpaudit.errors import DpauditError, InvalidParameter
from dpaudit.storage.batches import Arrays, AuditStore, Key, leading

MAXIMUM_BATCHES = 10**6  # keys of batches are kept in memory
_KEY_LIMIT = 2**32  # Parts of a random stream's key are 32-bit words.
_SEED_BITS = 128  # bits of a root seed


@dataclass(frozen=True)
class Batch:
    """Trials that one task runs at once; ``key`` names them and seeds their generator.

    Errors: InvalidParameter for an empty key, parts outside [0, 2^32), or trials < 1.
    """

    key: Key
    trials: int

    def __post_init__(self) -> None:
        _check_key(self.key)
        _check_integer(self.trials, "trials", 1)


Task: TypeAlias = Callable[[Batch, np.random.Generator], Arrays]
"""Runs a batch; every array it returns leads with an axis of ``batch.trials``."""

Progress: TypeAlias = Callable[[int, int], None]
"""Called with (batches done, batches in all) whenever the first grows."""


def plan(audit_index: int, side: int, part: int, trials: int, batch_trials: int) -> list[Batch]:
    """Batches of at most ``batch_trials``, ``trials`` in all; keys (audit, side, part, batch).

    ``side`` is the data set (0 or 1), ``part`` what the trials are for (training, test, ...):
    different keys mean independent trials.

    Errors: InvalidParameter for negative integers, trials < 1, or more than 10^6 batches.
    """
    _check_integer(trials, "trials", 1)
    _check_integer(batch_trials, "batch_trials", 1)
    if trials > MAXIMUM_BATCHES * batch_trials:
        raise InvalidParameter(
            f"batch_trials = {batch_trials} for {trials} trials: more than {MAXIMUM_BATCHES} "
            "batches; make the batches larger"
        )
    starts = range(0, trials, batch_trials)
    return [
        Batch((audit_index, side, part, index), min(batch_trials, trials - start))
        for index, start in enumerate(starts)
    ]


def generator(root_seed: int, key: Key) -> np.random.Generator:
    """The generator of a batch: PCG64DXSM seeded by SeedSequence(root_seed, spawn_key=key).

    ``root_seed`` has at most 128 bits; streams of different (root_seed, key) are independent.
    Errors: InvalidParameter for a seed outside [0, 2^128) or parts of the key outside [0, 2^32).
    Source: O'Neill (2015), hash of seed_seq; NumPy, NEP 19.
    """
    _check_integer(root_seed, "root_seed", 0, 2**_SEED_BITS)
    _check_key(key)
    return np.random.Generator(
        np.random.PCG64DXSM(np.random.SeedSequence(root_seed, spawn_key=key))
    )


def run_batches(
    task: Task,
    batches: Sequence[Batch],
    *,
    root_seed: int,
    jobs: int = 1,
    store: AuditStore | None = None,
    progress: Progress | None = None,
) -> dict[Key, Arrays]:
    """Arrays of every batch, in the order of ``batches``, independent of ``jobs``.

    Batches found in ``store`` with the right number of trials are taken from it; the others are
    run and stored one by one as they finish, so that an interrupted run resumes.  ``jobs`` = 1
    runs in this process; more use joblib's active backend: loky unless the caller configured
    another (``joblib.parallel_config(backend="dask")``, where the cluster decides how many); -1
    means all cores.  Batches that a dying worker process took along are run again.  The task must
    be picklable and must not change itself.  Batches with the same draws are refused: they would
    count one trial twice (see :class:`~dpaudit.audit.streams.Streams`).

    Errors: InvalidParameter for repeated keys, repeated draws, or arrays of another length than
    the batch's; WorkersLost; whatever the task raises, a DpauditError as itself, without a
    worker's traceback.
    """
    _check_integer(root_seed, "root_seed", 0, 2**_SEED_BITS)
    if jobs != -1:
        _check_integer(jobs, "jobs", 1)
    if len({batch.key for batch in batches}) != len(batches):
        raise InvalidParameter("batches: a key occurs twice; trials must be independent")
    streams, work = Streams(len(batches)), _Work(task, root_seed)

    def report(done: Mapping[Key, Arrays]) -> None:
        if done and progress is not None:
            progress(len(done), len(batches))

    try:
        return resumed(
            {batch.key: batch for batch in batches},
            lambda missing: finished(work, missing, jobs),
            kept=None if store is None else _Whole(store, {b.key: b.trials for b in batches}),
            take=streams.add,
            report=report,
        )
    except DpauditError as error:
        raise error from None


@dataclass(frozen=True)
class _Work:
    """A worker's job on a batch: seed the generator, run the task, check the arrays."""

    task: Task
    root_seed: int

    def __call__(self, batch: Batch) -> Arrays:
        arrays = self.task(batch, generator(self.root_seed, batch.key))
        if leading(arrays) != batch.trials:
            raise InvalidParameter(
                f"batch {batch.key}: the task returned {leading(arrays)} trials, not {batch.trials}"
            )
        # C order, as a stored batch is read back: sums must not depend on the memory layout.
        return {name: np.ascontiguousarray(array) for name, array in arrays.items()}


class _Whole:
    """A store's batches that have as many trials as are asked for."""

    def __init__(self, store: AuditStore, trials: Mapping[Key, int]) -> None:
        self.store, self.trials = store, trials
        self.present = set(store.keys())

    def get(self, key: Key) -> Arrays | None:
        arrays = self.store.get(key) if key in self.present else None
        return arrays if arrays is not None and leading(arrays) == self.trials[key] else None

    def put(self, key: Key, arrays: Arrays) -> None:
        self.store.put(key, arrays)


def _check_key(key: Any) -> None:
    if not isinstance(key, tuple) or not key:
        raise InvalidParameter(f"key = {key!r}: expected a tuple of integers, not empty")
    for part in key:
        _check_integer(part, "key", 0, _KEY_LIMIT)


def _check_integer(value: Any, place: str, least: int, beyond: int | None = None) -> None:
    inside = type(value) is int and value >= least and (beyond is None or value < beyond)
    if not inside:
        limit = "" if beyond is None else f" and < 2^{beyond.bit_length() - 1}"
        raise InvalidParameter(f"{place} = {value!r}: expected an integer >= {least}{limit}")
