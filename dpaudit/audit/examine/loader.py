"""The loader of the private data as a function: one record follows from one row of its source.

A forked process exchanges a row of a file, or of an array that the loader holds, for another one,
and loads again; another one leaves the row out.  A loader that standardises by the data, caps at
their largest or keeps their categories changes many records both times.  Where no process can be
forked, a file is read by code that is not Python's, or the same rows give other records (by random
draws without a seed), nothing is said.
"""

from __future__ import annotations

import builtins
import contextlib
import io
import os
import select
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from inspect import unwrap
from pathlib import Path
from typing import Any

import numpy as np

from dpaudit.audit.examine.said import heard
from dpaudit.audit.residuals import Finding
from dpaudit.check.assumptions import NOISE
from dpaudit.kernels.query import Array, Records

LOADS = "records loaded row by row"
SECONDS = 5.0  # for all that is loaded again
GRACE = 1.0  # seconds more, in which an interrupted process puts files back
ROWS, COLUMNS = 12, 8  # of a source that are changed beside those with the ends of these columns
LARGEST = 2**26  # bytes of a file that is copied
# Records that follow a row of a right loader: itself, and that of another user who gets a row more.
LEFT_OUT, EXCHANGED = 1, 2

Load = Callable[[], Records]


@dataclass(frozen=True, eq=False)
class Source:
    """Rows that a loader reads; ``put(rows)`` makes it read others, in a process that then ends."""

    name: str
    rows: Sequence[Any]
    put: Callable[[Sequence[Any]], None]


def mixing(load: Load, data: Records, files: set[str], together: int = 1) -> tuple[Finding, ...]:
    """Sources of which one row changes several records; nothing private is said of them.

    ``files``: the files that the loader read.  ``together``: the number of records that the
    declaration protects together, so that a row may be in as many (the last readings of a user).
    """
    until, before = time.monotonic() + SECONDS, _kinds(data)
    if not hasattr(os, "fork"):
        return ()
    sources = [
        source.name
        for source in _sources(load, data, files)
        if _mixes(source, load, data, before, until, together)
    ]
    template = "one row of {}, changed or left out, changes several records of records()"
    return tuple(Finding(LOADS, "broken", 1.0, 0.0, template.format(n), NOISE, 1) for n in sources)


def _mixes(
    source: Source,
    load: Load,
    data: Records,
    before: Counter[bytes],
    until: float,
    together: int,
) -> bool:
    """Whether one record of a loader's source changes more records than its own when it changes."""
    rows, count = list(source.rows), len(source.rows)
    if _forked(partial(_follow, source, rows, load, before), until):
        return False  # records change by themselves: a loader that draws at random
    for place in _places(count, data.values.reshape(len(data), -1)):
        exchanged, other = [*rows], rows[place - 1]
        exchanged[place] = other
        changes = ((exchanged, EXCHANGED), ([*rows[:place], *rows[place + 1 :]], LEFT_OUT))
        for changed, most in changes:
            if time.monotonic() > until:
                return False
            if _forked(partial(_follow, source, changed, load, before), until) <= most * together:
                break
        else:
            return True
    return False


def _places(count: int, table: Array) -> list[int]:
    """Rows with the largest and the smallest numbers of columns, and some others, from the last."""
    shift = count - len(table)
    columns = np.nan_to_num(table[:, :COLUMNS])
    ends = [*columns.argmax(axis=0), *columns.argmin(axis=0)] if shift in (0, 1) else []
    spread = np.linspace(count - 1, 1, ROWS).astype(int)
    return [k for k in dict.fromkeys([*(int(k) + shift for k in ends), *spread.tolist()]) if k > 0]


def _kinds(data: Records) -> Counter[bytes]:
    return Counter(row.tobytes() for row in np.ascontiguousarray(data.values[data.present]))


def _follow(source: Source, rows: Sequence[Any], load: Load, before: Counter[bytes]) -> int:
    """How many records are no longer there once a source has these rows."""
    source.put(rows)
    return (before - _kinds(load())).total()


def _forked(task: Callable[[], int], until: float) -> int:
    """A number that a process of its own computes; 0 where it fails or takes too long.

    Its outputs go nowhere, and files that it writes are put back.
    """
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            # An interruption still lets files be put back, which a kill does not.
            signal.signal(signal.SIGALRM, signal.default_int_handler)
            signal.setitimer(signal.ITIMER_REAL, max(0.01, until - time.monotonic()))
            with heard():
                number = task()
            os.write(write, str(number).encode())
        finally:
            os._exit(0)
    os.close(write)
    try:
        ready = select.select([read], [], [], GRACE + max(0.0, until - time.monotonic()))[0]
        answer = os.read(read, 64) if ready else b""
    finally:
        os.close(read)
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    return int(answer or 0)


def _sources(load: Load, data: Records, files: set[str]) -> Iterator[Source]:
    for name in sorted(files):
        path = Path(name)
        with contextlib.suppress(OSError, UnicodeDecodeError):
            if path.stat().st_size <= LARGEST:
                lines = path.read_text("utf-8").splitlines(keepends=True)
                if len(lines) >= len(data):
                    yield Source(path.name, lines, partial(_redirect, path))
    function: Any = getattr(unwrap(load), "func", load)
    code, around = getattr(function, "__code__", None), getattr(function, "__globals__", {})
    names = code.co_names if code is not None else ()
    arrays = {name: around.get(name) for name in names}
    cells = {}
    if code is not None:
        cells = dict(zip(code.co_freevars, function.__closure__ or (), strict=True))
    arrays |= {name: cell.cell_contents for name, cell in cells.items()}
    for name, array in arrays.items():
        if isinstance(array, np.ndarray) and array.ndim and len(array) >= len(data):
            yield Source(name, list(array), partial(_hold, around, cells, name))


def _hold(around: dict[str, Any], cells: dict[str, Any], name: str, rows: Sequence[Any]) -> None:
    """The function's array of this name becomes these rows."""
    if name in cells:
        cells[name].cell_contents = np.array(rows)
    else:
        around[name] = np.array(rows)


def _redirect(path: Path, lines: Sequence[str]) -> None:
    """The file, opened in this process from now on, has these lines."""
    other = tempfile.TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115  (ends with the process)
    other.writelines(lines)
    other.flush()
    plain, wanted = builtins.open, path.resolve()

    def opening(file: Any, *arguments: Any, **options: Any) -> Any:
        if (
            isinstance(file, (str, bytes, os.PathLike))
            and Path(os.fsdecode(file)).resolve() == wanted
        ):
            os.lseek(other.fileno(), 0, os.SEEK_SET)
            return plain(os.dup(other.fileno()), *arguments, **options)
        return plain(file, *arguments, **options)

    for module in (builtins, io):
        module.open = opening  # type: ignore[attr-defined]
    # NumPy keeps the function that it opens text with.
    with contextlib.suppress(AttributeError):
        openers: Any = np.lib._datasource._file_openers  # type: ignore[attr-defined]
        openers._load()
        openers._file_openers[None] = opening
