"""Outputs beside the releases: what a run prints, logs, warns of and writes into files.

Somebody may read any of these, so they are compared along one transcript like other outputs.
While a run is watched nothing of it reaches a terminal or a log, and files are restored afterwards:
a run on data never reads a file that was made from generated records.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import logging
import re
import sys
import sysconfig
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import PurePath
from types import FrameType
from typing import Any

from dpaudit.curator.locations import INSTALLED, at, is_own, program_line
from dpaudit.storage.opened import written

STANDARD = sysconfig.get_path("stdlib")
SAYS = " depends on the private records"
MOST, LONGEST = 64, 80  # texts of one way out that are kept, and letters of one that is shown
NUMBER = re.compile(r"\d+(\.\d+)?(e[-+]?\d+)?")
PRINTED, LOGGED, WARNED, WRITTEN = "prints", "logs", "warns of", "writes into files"
WAYS = frozenset({PRINTED, LOGGED, WARNED, WRITTEN})


@dataclass(eq=False)
class Said:
    """The outputs of one run beside its releases, each with the line of the program that made it.

    By way out: (text, place) in order.  Warnings of libraries by the text without its numbers, for
    each of which there is a way of its own: they count only where the numbers differ.
    """

    texts: dict[str, list[tuple[str, str]]] = field(default_factory=dict)

    def say(self, way: str, text: str, place: str = "") -> None:
        """Note a text; once there are many, a digest of all others."""
        noted = self.texts.setdefault(way, [])
        if way not in WAYS and text in self._of(way):
            return  # how often a library says the same is no matter
        if way == PRINTED and noted and not noted[-1][0].endswith("\n") and len(noted) < MOST:
            # A line may be printed in parts.
            noted[-1] = noted[-1][0] + text, noted[-1][1]
        elif len(noted) < MOST:
            noted.append((text, place or program_line()))
        else:
            digest = sha256(f"{noted.pop()[0]}{text}".encode("utf-8", "backslashreplace"))
            noted.append((digest.hexdigest(), ""))

    def differs(self, other: Said) -> list[str]:
        """The ways out by which the two runs said something else."""
        return [
            way
            for way in {**self.texts, **other.texts}
            if self._of(way) != other._of(way)
            and (way in WAYS or (way in self.texts and way in other.texts))
        ]

    def leave(self, ways: frozenset[str]) -> None:
        """Forget some ways out."""
        self.texts = {way: texts for way, texts in self.texts.items() if way not in ways}

    def _of(self, way: str) -> list[str]:
        return [text for text, _ in self.texts.get(way, [])]

    def shown(self, way: str, other: Said) -> str:
        """The finding that two runs differ by a way out, with the first text that is another."""
        both = itertools.zip_longest(self.texts.get(way, []), other.texts.get(way, []))
        text, place = next(a or b for a, b in both if a is None or b is None or a[0] != b[0])
        said = text if len(text) <= LONGEST else f"{text[:LONGEST]}..."
        return (
            f"what the program {way if way in WAYS else WARNED}{SAYS}: {said.strip()!r}{at(place)}"
        )

    def take(self, other: Said) -> list[str]:
        """Warnings of libraries that one of the two runs alone heard, which are kept here."""
        alone = {way for way in {**self.texts, **other.texts} if way not in WAYS}
        alone -= self.texts.keys() & other.texts.keys()
        for way in alone & other.texts.keys():
            self.texts[way] = other.texts[way]
        return [f"{self.texts[way][0][0]!r}{at(self.texts[way][0][1])}" for way in sorted(alone)]


class _Stream(io.TextIOBase):
    """A stream of which every line is noted, however many there are."""

    def __init__(self, said: Said) -> None:
        self.said = said

    def write(self, text: str) -> int:
        if text:
            self.said.say(PRINTED, text)
        return len(text)

    def writable(self) -> bool:
        return True


class _Handler(logging.Handler):
    """Hears what the program's own modules log, at any level."""

    def __init__(self, said: Said) -> None:
        super().__init__(level=1)
        self.said = said

    def emit(self, record: logging.LogRecord) -> None:
        if _is_own(record.pathname):
            with contextlib.suppress(Exception):
                self.said.say(LOGGED, f"{record.levelname} {record.getMessage()}")


def _is_own(name: str) -> bool:
    place = PurePath(name)
    return not INSTALLED & set(place.parts) and not place.is_relative_to(STANDARD)


@contextlib.contextmanager
def _taken(stream: _Stream) -> Iterator[None]:
    """Writes to the standard streams go to this one, also by what was handed them before."""
    before = [
        (held, vars(held).get("write"))
        for held in {sys.__stdout__, sys.__stderr__} - {None}
        if hasattr(held, "__dict__")
    ]
    for held, _ in before:
        vars(held)["write"] = stream.write
    try:
        yield
    finally:
        for held, write in before:
            vars(held).pop("write") if write is None else vars(held).update(write=write)


@contextlib.contextmanager
def heard() -> Iterator[Said]:
    """Collect what the code in this block says, and let nothing of it out."""
    collected = Said()
    stream = _Stream(collected)
    root = logging.getLogger()
    level, handlers = root.level, root.handlers[:]
    root.handlers[:] = [_Handler(collected)]
    root.setLevel(1)

    def warned(message: Any, category: type[Warning], *where: Any, **options: Any) -> None:
        """A library may name the program's line; whose call it is, the frames say."""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and frame.f_code.co_filename == warnings.__file__:
            frame = frame.f_back
        own = frame is not None and _is_own(frame.f_code.co_filename)
        # Compiled code warns, of zero divisors for one, in the name of the line that called it.
        own = own and (category is UserWarning or is_own(str(category.__module__)))
        way = WARNED if own else f"{category.__name__} {NUMBER.sub('0', str(message))}"
        collected.say(way, str(message))

    files: Mapping[str, bytes] = {}
    try:
        with (
            contextlib.redirect_stdout(stream),
            contextlib.redirect_stderr(stream),
            _taken(stream),
            warnings.catch_warnings(),
            written() as files,
        ):
            warnings.simplefilter("always")
            warnings.showwarning = warned
            yield collected
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
        for name, content in files.items():
            collected.say(WRITTEN, f"{name}: {content!r}", " ")
