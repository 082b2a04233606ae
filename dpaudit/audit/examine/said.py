"""Outputs beside the releases: what a run prints, logs, warns of and writes into files.

Somebody may read any of these, so they are compared along one transcript like other outputs.
While a run is watched nothing of it reaches a terminal or a log, and files are restored afterwards:
a run on data never reads a file that was made from generated records.
"""

from __future__ import annotations

import contextlib
import io
import logging
import sysconfig
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import PurePath
from typing import Any

from dpaudit.curator.locations import INSTALLED
from dpaudit.storage.opened import written

STANDARD = sysconfig.get_path("stdlib")
PRINTED, LOGGED, WARNED, WRITTEN = "prints", "logs", "warns of", "writes into files"


class _Digested(io.TextIOBase):
    """A stream that keeps a digest of all that is written, however much that is."""

    def __init__(self) -> None:
        self.digest, self.empty = sha256(), True

    def write(self, text: str) -> int:
        self.digest.update(text.encode("utf-8", "backslashreplace"))
        self.empty = self.empty and not text
        return len(text)

    def writable(self) -> bool:
        return True


class _Handler(logging.Handler):
    """Hears what the program's own modules log, at any level."""

    def __init__(self) -> None:
        super().__init__(level=1)
        self.heard = _Digested()

    def emit(self, record: logging.LogRecord) -> None:
        place = PurePath(record.pathname)
        if not INSTALLED & set(place.parts) and not place.is_relative_to(STANDARD):
            with contextlib.suppress(Exception):
                self.heard.write(f"{record.levelname} {record.getMessage()}\n")


@dataclass(eq=False)
class Said:
    """The outputs of one run beside its releases: a digest for each way out that was used."""

    digests: dict[str, str] = field(default_factory=dict)

    def differs(self, other: Said) -> list[str]:
        """The ways out by which the two runs said something else."""
        ways = {**self.digests, **other.digests}
        return [way for way in ways if self.digests.get(way) != other.digests.get(way)]


@contextlib.contextmanager
def heard() -> Iterator[Said]:
    """Collect what the code in this block says, and let nothing of it out."""
    collected, stream, handler = Said(), _Digested(), _Handler()
    root = logging.getLogger()
    level, handlers = root.level, root.handlers[:]
    root.handlers[:] = [handler]
    root.setLevel(1)
    # The list of warnings keeps each of them, however often it was shown before.
    warned: list[Any] = []
    try:
        with (
            contextlib.redirect_stdout(stream),
            contextlib.redirect_stderr(stream),
            warnings.catch_warnings(record=True) as warned,
            written() as files,
        ):
            warnings.simplefilter("always")
            yield collected
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
        own = [str(warning.message) for warning in warned if warning.category is UserWarning]
        digests = {
            PRINTED: "" if stream.empty else stream.digest.hexdigest(),
            LOGGED: "" if handler.heard.empty else handler.heard.digest.hexdigest(),
            WARNED: sha256("\n".join(own).encode()).hexdigest() if own else "",
            WRITTEN: " ".join(sha256(content).hexdigest() for content in files),
        }
        collected.digests = {way: digest for way, digest in digests.items() if digest}
