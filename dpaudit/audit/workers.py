"""Workers: calls on this process, on joblib's workers or on a Dask cluster, as they finish."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Generator, Hashable, Mapping, Sequence
from concurrent.futures import BrokenExecutor, ThreadPoolExecutor, as_completed
from contextlib import closing, suppress
from importlib import import_module
from itertools import islice
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, Protocol, TypeVar

from dpaudit.errors import DpauditError, described

Item = TypeVar("Item", bound=Hashable)
Result = TypeVar("Result")
Key = TypeVar("Key", bound=Hashable)
Named = TypeVar("Named", bound=Hashable, contravariant=True)
Kind = TypeVar("Kind")
MAX_LOSSES_IN_A_ROW = 3  # Workers lost one after another before an audit stops.
QUEUED_PER_WORKER = 2  # calls that wait for each worker, so that none is idle
WATCH_SECONDS = 1.0  # between looks at the parent process


class WorkersLost(DpauditError):
    """Worker processes died again and again, without finishing a call in between."""


def finished(
    call: Callable[[Item], Result], items: Sequence[Item], jobs: int
) -> Generator[tuple[Item, Result], None, None]:
    """Each item with its result, in any order; what a dying worker took along is called again.

    ``jobs`` = 1 calls here, one after the other; more use joblib's active backend.
    Errors: WorkersLost after three deaths in a row, and for a cluster that has no workers left;
    whatever a call raises.
    """
    if jobs == 1 or len(items) <= 1:
        yield from ((item, call(item)) for item in items)
        return
    missing, losses = dict.fromkeys(items), 0

    def lost(why: str) -> WorkersLost:
        return WorkersLost(
            f"workers: {why}; {len(items) - len(missing)} of {len(items)} batches are done, and "
            "with a store another run resumes"
        )

    while missing:
        try:
            for item, result in _attempt(_Paired(call), list(missing), jobs):
                del missing[item]
                losses = 0
                yield item, result
        except _deaths():
            losses += 1
            if losses == MAX_LOSSES_IN_A_ROW:
                raise lost(
                    f"killed or out of memory {MAX_LOSSES_IN_A_ROW} times in a row; use fewer "
                    "jobs or smaller batches"
                ) from None
        except _NoWorkers:
            raise lost("the cluster has none left, or its scheduler has ended") from None


class Kept(Protocol[Named, Kind]):
    """Where finished tasks' results are kept, by key."""

    def get(self, key: Named) -> Kind | None:
        """The stored result, if it is whole."""

    def put(self, key: Named, result: Kind) -> None:
        """Keep a result."""


def resumed(
    tasks: Mapping[Key, Item],
    results: Callable[[list[Item]], Generator[tuple[Item, Kind], None, None]],
    *,
    kept: Kept[Key, Kind] | None = None,
    take: Callable[[Key, Kind], None] | None = None,
    report: Callable[[Mapping[Key, Kind]], None] | None = None,
) -> dict[Key, Kind]:
    """Every task's result, in the order of ``tasks``: what is kept is taken, the others are run.

    ``results``: runs tasks and yields each with its result when it finishes, as :func:`finished`.
    ``take``: is called with every result, stored or new, and may refuse it before it is stored.
    ``report``: is called with all finished tasks, at the start and after every task.
    """
    done: dict[Key, Kind] = {}

    def add(key: Key, result: Kind) -> None:
        if take is not None:
            take(key, result)
        done[key] = result

    if kept is not None:
        for key in tasks:
            if (stored := kept.get(key)) is not None:
                add(key, stored)
    if report is not None:
        report(done)
    keys = {task: key for key, task in tasks.items()}
    with closing(results([task for key, task in tasks.items() if key not in done])) as finishing:
        for task, result in finishing:
            add(keys[task], result)
            if kept is not None:
                kept.put(keys[task], result)
            if report is not None:
                report(done)
    return {key: done[key] for key in tasks}


def in_threads(
    call: Callable[[Item], Result], items: Sequence[Item], jobs: int
) -> Generator[tuple[Item, Result], None, None]:
    """As :func:`finished`, in threads: for calls that start a process of their own."""
    with ThreadPoolExecutor(jobs) as pool:
        futures = {pool.submit(call, item): item for item in items}
        for future in as_completed(futures):
            yield futures[future], future.result()


def forks() -> bool:
    """Whether this process can be copied with all that it holds, safely.

    On Linux, while no thread runs but Python's own and OpenBLAS', which stops its threads for a
    copy: a copy has none of the threads that another library started, and may crash without them.
    """
    if sys.platform != "linux":
        return False
    known = threading.active_count()
    if native_threads() > known:
        with suppress(ImportError):  # OpenBLAS has threads that nobody can count, or one alone
            pools = import_module("threadpoolctl").threadpool_info()
            known += sum(p["num_threads"] - 1 for p in pools if p["internal_api"] == "openblas")
    return native_threads() <= known


def native_threads() -> int:
    """The threads of this process, those of compiled libraries among them."""
    return len(list(Path("/proc/self/task").iterdir()))


def in_forks(
    call: Callable[[Item], Result], items: Sequence[Item], jobs: int
) -> Generator[tuple[Item, Result | Exception], None, None]:
    """Each item with its result, or the exception it ended by, in any order.

    Every call has a copy of this process of its own: nothing is pickled but results, and no call
    finds what another one left.  A process that dies is WorkersLost, and is not called again.
    """
    context, waiting = multiprocessing.get_context("fork"), iter(items)
    running: dict[Connection, tuple[Item, multiprocessing.Process]] = {}
    try:
        while True:
            for item in islice(waiting, jobs - len(running)):
                receiver, sender = context.Pipe(duplex=False)
                # Such a process has no type of its own in the standard library's stubs.
                process: Any = context.Process(target=_answer, args=(call, item, sender))
                process.start()
                sender.close()
                running[receiver] = item, process
            if not running:
                return
            ready = wait(list(running))
            for receiver in [one for one in running if one in ready]:
                item, process = running.pop(receiver)
                with receiver:
                    try:
                        answer = receiver.recv()
                    except EOFError:
                        answer = WorkersLost("workers: killed or out of memory; use fewer jobs")
                process.join()
                yield item, answer
    finally:
        for _, process in running.values():
            process.kill()


def _answer(call: Callable[[Any], Any], item: Any, sender: Connection) -> None:
    _watch(os.getppid())
    # An interruption of the process that asked ends this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # A progress bar's thread, which is not copied, may hold what it writes by.
    sys.stdout = sys.stderr = sys.__stderr__
    try:
        answer = call(item)
    except Exception as error:  # noqa: BLE001  (for the process that asked)
        answer = sendable(error)
    sender.send(answer)


def sendable(error: Exception) -> Exception:
    """The error as another process can have it: with its words, as no traceback travels.

    An error that cannot be pickled and read again, as of a class with arguments of its own, is told
    by these words alone.
    """
    error.add_note(described(error))
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301  (of this process itself)
    except Exception:  # noqa: BLE001  (a class may raise anything here)
        return DpauditError(described(error))
    return error


class _Paired:
    """A call that returns its item with the result."""

    def __init__(self, call: Callable[[Any], Any]) -> None:
        self.call = call

    def __call__(self, item: Any) -> tuple[Any, Any]:
        return item, self.call(item)


class _NoWorkers(Exception):
    """A cluster without workers, or without its scheduler."""


Pairs = Generator[tuple[Any, Any], None, None]


def _attempt(call: _Paired, items: list[Any], jobs: int) -> Pairs:
    import joblib

    backend, _ = joblib.parallel.get_active_backend()
    if type(backend).__name__ == "DaskDistributedBackend":
        yield from _dask(backend, call, items)
        return
    workers = joblib.effective_n_jobs(jobs)
    calls = (joblib.delayed(call)(item) for item in items)
    if backend.supports_return_generator:
        # An orphan of loky would wait for minutes, holding the data.
        watched = {"initializer": _watch, "initargs": (os.getpid(),)}
        settings = watched if type(backend).__name__ == "LokyBackend" else {}
        parallel = joblib.Parallel(n_jobs=jobs, return_as="generator_unordered", **settings)
        yield from _streamed(parallel(calls))
        return
    # Backends that cannot stream (multiprocessing, Ray): a round at a time, so that all is stored.
    with joblib.Parallel(n_jobs=jobs) as parallel:
        while chunk := list(islice(calls, QUEUED_PER_WORKER * workers)):
            yield from parallel(chunk)


def _streamed(results: Pairs) -> Pairs:
    """Pass results on; on an interruption stop the workers without a warning."""
    try:
        for result in results:  # noqa: UP028 (delegating would close them before the filter)
            yield result
    finally:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # joblib counts results nobody took
            results.close()


def _dask(backend: Any, call: _Paired, items: list[Any]) -> Pairs:
    """By the client of joblib's Dask backend; joblib itself waits for ever on a killed worker.

    Errors: _NoWorkers where there is no worker for the backend's ``wait_for_workers_timeout``.
    """
    distributed: Any = import_module("distributed")
    client, patience = backend.client, backend.wait_for_workers_timeout or None
    try:
        workers = backend.effective_n_jobs(-1)
    except distributed.TimeoutError:
        raise _NoWorkers from None
    waiting = iter(items)
    submit = (client.submit(call, item, pure=False) for item in waiting)
    running = set(islice(submit, QUEUED_PER_WORKER * workers))

    def completed() -> Any:
        return distributed.as_completed(
            running, client.loop, with_results=True, raise_errors=False, timeout=patience
        )

    results = completed()
    try:
        while running:
            try:
                future, result = next(results)
            except distributed.TimeoutError:  # of the wait, which says nothing of the calls
                _wait_for_worker(client, patience)
                results = completed()
                continue
            if future.cancelled():
                raise _NoWorkers
            if future.status == "error":
                raise result[1].with_traceback(result[2])
            running.discard(future)
            for another in islice(submit, 1):
                running.add(another)
                results.add(another)
            yield result
    finally:
        with suppress(Exception):  # the cluster may be gone
            client.cancel(list(running))


def _wait_for_worker(client: Any, patience: float | None) -> None:
    """Return as soon as there is a worker.  Errors: _NoWorkers after ``patience`` seconds."""
    distributed: Any = import_module("distributed")
    try:
        client.wait_for_workers(1, timeout=patience)
    except distributed.TimeoutError:
        raise _NoWorkers from None


def _watch(parent: int) -> None:
    """End this worker soon after the process that started it."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(WATCH_SECONDS)
        os._exit(1)

    threading.Thread(target=watch, daemon=True, name="dpaudit-parent").start()


def _deaths() -> tuple[type[Exception], ...]:
    """Exceptions of a backend that gives up on a worker: loky at once, Dask after some retries."""
    distributed = sys.modules.get("distributed")
    return (BrokenExecutor, *((distributed.KilledWorker,) if distributed else ()))
