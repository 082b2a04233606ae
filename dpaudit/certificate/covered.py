"""Which metrics of a run are covered: those that are computed from what was released.

The program and its metrics are run once more, on the run's transcript, with the records withheld,
and with no file, process or connection to be opened.  A metric is covered if it comes out the same,
to the last bit; if the program kept nothing of its first run; and if what computes it reaches no
array and no data beside the output.  An author's statement about it can only make it uncovered.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from hashlib import sha256
from typing import Any

import numpy as np

from dpaudit.audit.examine.walks import own_copy
from dpaudit.curator.curator import Event
from dpaudit.curator.guarded import Withheld
from dpaudit.curator.mechanism import Mechanism, Metric
from dpaudit.curator.reached import reached
from dpaudit.kernels.query import Records

# Source and compiled code may be read: a function may import.
CODE = (".py", ".pyc", ".so")
BARRED = (
    "mmap.", "socket.", "sqlite3.", "subprocess.", "ctypes.", "urllib.", "ftplib.", "http.",
    "os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork", "os.startfile", "pty.spawn",
    "shutil.copyfile", "winreg.", "gc.get_objects", "gc.get_referrers", "gc.get_referents",
)  # fmt: skip
BY_AUTHOR, ANOTHER = "its author says so", "it is another number without the records"
_shut: ContextVar[bool] = ContextVar("shut", default=False)


class Shut(Exception):
    """A file, a process or a connection was asked for where none may be opened."""


@functools.cache
def _install() -> None:
    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if not _shut.get():
            return
        if event == "open" and not str(arguments[0]).endswith(CODE):
            raise Shut(f"{str(arguments[0])[:80]!r} is opened")
        if event.startswith(BARRED):
            raise Shut(f"{event} is called")

    sys.addaudithook(hook)


@contextmanager
def shut() -> Iterator[None]:
    """Refuse to open any file but code, as far as Python's audit events tell.  Errors: Shut."""
    _install()
    token = _shut.set(True)
    try:
        yield
    finally:
        _shut.reset(token)


class Before:
    """A program as it was before it saw the data: a copy, and what it shares with the original."""

    def __init__(self, mechanism: Mechanism) -> None:
        self.program = own_copy(mechanism.program)
        self._state = _state(self.program)

    def kept_by_run(self) -> bool:
        """Whether something that copy and original share is another by now."""
        return _state(self.program) != self._state


def _state(owner: Any) -> list[str]:
    """Every number and text that a program, its classes and its functions refer to."""
    texts = []
    for value in reached(owner):
        if isinstance(value, np.ndarray):
            texts.append(sha256(np.ascontiguousarray(value).tobytes()).hexdigest())
        elif isinstance(value, int | float | complex | str | bytes | np.generic):
            texts.append(repr(value))
    return sorted(texts)


class Again:
    """A run's program and metrics once more, on its transcript and without its records.

    ``shape``: of the records.
    """

    def __init__(
        self,
        mechanism: Mechanism,
        before: Before,
        shape: Sequence[int],
        transcript: Sequence[Event],
    ) -> None:
        self._output: Any = None
        self._metrics: Sequence[Metric] = ()
        self._of_output = self._of_metrics = ""
        if before.kept_by_run():
            self._of_output = "the program kept something of its run on the data"
            return
        evaluate = mechanism.evaluate
        for value in (*reached(evaluate), *reached(before.program)):
            if isinstance(value, functools._lru_cache_wrapper):  # it would answer from what it read
                value.cache_clear()
        try:
            with shut():
                curator = Withheld(mechanism.declaration, mechanism.scope, shape, transcript)
                self._output = before.program.run(curator)
        except Exception as error:  # noqa: BLE001  (without the records anything may fail)
            self._of_output = _failed(error)
            return
        if evaluate is None:
            return
        try:
            with shut():
                self._metrics = list(evaluate(self._output))
        except Exception as error:  # noqa: BLE001
            self._of_metrics = _failed(error)
        self._of_metrics = self._of_metrics or next(_beside(evaluate), "")

    def of_output(self, output: Any) -> list[str]:
        """A note where the output is not what the releases alone give."""
        if not self._of_output and _state(output) == _state(self._output):
            return []
        return [
            "the output is not known to be computed from what was released alone: "
            f"{self._of_output or 'it is another without the records'}"
        ]

    def uncovered(self, number: int, metric: Metric) -> str:
        """Why a metric of the run, by its place, is not covered; empty where it is."""
        if not metric.covered:
            return BY_AUTHOR
        why = self._of_output or self._of_metrics
        return why or _compared(metric, self._metrics, number)


def _failed(error: Exception) -> str:
    return f"without the records: {type(error).__name__}: {str(error)[:120]}"


def _compared(metric: Metric, again: Sequence[Metric], number: int) -> str:
    other = again[number] if number < len(again) else None
    if other is None or (metric.name, metric.note) != (other.name, other.note):
        return "it has other words without the records"
    return "" if repr(metric.value) == repr(other.value) else ANOTHER


# --- what a function reaches ----------------------------------------------------------------------


def _beside(function: Any) -> Iterator[str]:
    """Data that a function reaches beside its argument, in words."""
    for value in reached(function):
        if isinstance(value, Records):
            yield "what computes it reaches records"
        elif isinstance(value, np.ndarray | bytes | bytearray) and np.size(value) > 1:
            yield "what computes it reaches an array beside the output"
        elif isinstance(value, list | dict | set) and len(value) and _holds_numbers(value):
            yield "what computes it reaches a list of numbers beside the output"
        elif hasattr(value, "__array__") and not isinstance(value, np.ndarray | np.generic | type):
            yield f"what computes it reaches a {type(value).__name__} beside the output"


def _holds_numbers(value: Any) -> bool:
    inside = value.values() if isinstance(value, dict) else value
    return any(isinstance(item, int | float | np.number) for item in inside)
