"""The line of a program behind a fault: of the lines that ran, by what they hold and what they say.

A step is run twice under a tracer that notes, before every line of the program, the numbers in
sight.  The first line after which two runs differ is where noise enters, if they differ in their
noise; the first after which parameters have moved is the update.  Other faults are found by the
words of the lines that ran: a clip is written with a norm, a bound or a clamp.
"""

from __future__ import annotations

import ast
import hashlib
import linecache
import re
import sys
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from dpaudit.errors import is_program

_DEPTH = 4  # levels of containers and objects that a tracer looks into
_LARGEST = 100_000  # numbers of one array that a tracer reads
_SHOWN = 100  # characters of a line in a message


@dataclass(frozen=True, order=True)
class Line:
    """One statement of a program that ran."""

    file: str
    number: int

    @property
    def text(self) -> str:
        """The whole statement in one line."""
        start, end = _statement(self.file, self.number)
        lines = [linecache.getline(self.file, number) for number in range(start, end + 1)]
        return " ".join(" ".join(lines).split())

    @property
    def code(self) -> str:
        """The statement without comments, whose words say nothing of what it does."""
        start, end = _statement(self.file, self.number)
        source = [linecache.getline(self.file, number) for number in range(start, end + 1)]
        return " ".join(" ".join(map(_uncommented, source)).split())

    @property
    def start(self) -> int:
        """The number of the statement's first line."""
        return _statement(self.file, self.number)[0]

    @property
    def end(self) -> int:
        """The number of the statement's last line."""
        return _statement(self.file, self.number)[1]

    def __str__(self) -> str:
        return f"{Path(self.file).name}:{self.start}: {self.text[:_SHOWN]}"


@dataclass
class Trace:
    """Lines in the order in which they ran, each with a digest of the numbers before it."""

    events: list[tuple[Line, str]] = field(default_factory=list)

    @property
    def lines(self) -> list[Line]:
        """The lines that ran, each once."""
        return list(dict.fromkeys(line for line, _ in self.events))

    def first_apart(self, other: Trace) -> Line | None:
        """The last line that both ran before their numbers differed."""
        before: Line | None = None
        for (line, digest), (theirs, their_digest) in zip(self.events, other.events, strict=False):
            if line != theirs or digest != their_digest:
                return before
            before = line
        return None


def traced(
    run: Callable[[], Any],
    watched: Callable[[], Any] | None = None,
    shapes: Container[tuple[int, ...]] | None = None,
) -> Trace:
    """Run a function; for each line of the user's program, note a digest of its local variables.

    ``watched``: digest its result instead; ``shapes``: digest only arrays of these shapes.
    """
    trace = Trace()

    def local(frame: Any, event: str, _: Any) -> Any:
        if event in ("line", "return"):
            values = dict(frame.f_locals) if watched is None else watched()
            trace.events.append(
                (Line(frame.f_code.co_filename, frame.f_lineno), _digest(values, shapes))
            )
        return local

    def called(frame: Any, event: str, _: Any) -> Any:
        return local if is_program(frame.f_code.co_filename) else None

    previous = sys.gettrace()
    sys.settrace(called)
    try:
        run()
    finally:
        sys.settrace(previous)
    return trace


def named(lines: Sequence[Line], *patterns: str) -> Line | None:
    """The first line that holds the first pattern that any line holds, in the patterns' order."""
    for pattern in patterns:
        for line in lines:
            if re.search(pattern, line.code):
                return line
    return None


def _uncommented(line: str) -> str:
    """A line of source up to the first # that is in no string of that line."""
    parts = line.split("#")
    for count in range(1, len(parts)):
        before = "#".join(parts[:count])
        if before.count('"') % 2 == 0 and before.count("'") % 2 == 0:
            return before
    return line


def _digest(values: Any, shapes: Container[tuple[int, ...]] | None) -> str:
    sha256 = hashlib.sha256()
    for part in _numbers(values, _DEPTH):
        if shapes is None or part.shape in shapes:
            sha256.update(part.tobytes())
    return sha256.hexdigest()


def _numbers(value: Any, depth: int) -> Iterator[Any]:
    """All numbers, as arrays, in a value, its containers and its objects."""
    if depth == 0 or isinstance(value, np.random.Generator | type):
        return
    if hasattr(value, "detach") and hasattr(value, "grad"):
        yield from _numbers(value.grad if value.is_leaf else None, depth - 1)
        value = value.detach().cpu()
    if hasattr(value, "__array__") and not isinstance(value, np.generic):
        try:
            value = np.asarray(value)
        except Exception:  # noqa: BLE001 (inside of a transformation, as vmap, it has no numbers)
            return
    if isinstance(value, bool | int | float | complex | np.generic):
        yield np.asarray(value)
    elif isinstance(value, np.ndarray):
        if value.dtype != object and value.size <= _LARGEST:
            yield value
    else:
        for part in _parts(value):
            yield from _numbers(part, depth - 1)


def _parts(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return list(value.values())
    if isinstance(value, list | tuple):
        return value
    if hasattr(value, "parameters") and hasattr(value, "named_modules"):
        return list(value.parameters())
    return vars(value).values() if hasattr(value, "__dict__") and not callable(value) else ()


@cache
def _spans(file: str) -> list[tuple[int, int]]:
    """First and last lines of every simple statement, and of the heads of compound ones."""
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except SyntaxError:
        return []
    spans = []
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt):
            body = getattr(node, "body", None)
            end = node.end_lineno or node.lineno
            spans.append((node.lineno, max(node.lineno, body[0].lineno - 1) if body else end))
    return spans


def _statement(file: str, number: int) -> tuple[int, int]:
    inside = [span for span in _spans(file) if span[0] <= number <= span[1]]
    return min(inside, key=lambda span: span[1] - span[0], default=(number, number))
