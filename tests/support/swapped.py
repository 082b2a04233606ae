"""Files that are replaced while a command runs, at the k-th time that somebody opens them."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_watching: list[Swap] = []
_hooked = False


@dataclass
class Swap:
    """Replaces a file before its ``at``-th opening (from 1), or at the next one of any other file.

    ``at`` 0 replaces nothing.  ``opened``: how often the file was opened for reading.
    """

    path: Path
    content: bytes = b""
    at: int = 0
    after: int = 0
    opened: int = field(default=0, init=False)
    swapped: bool = field(default=False, init=False)

    def heard(self, name: Path) -> None:
        if name == self.path.absolute():
            self.opened += 1
            if self.opened == self.at:
                self.swap()
        elif self.after and self.opened >= self.after:
            self.swap()

    def swap(self) -> None:
        if not self.swapped:
            self.swapped = True  # before the writing, which is heard too
            aside = self.path.with_name(".aside")
            aside.write_bytes(self.content)
            aside.chmod(self.path.stat().st_mode)
            aside.replace(self.path)


@contextmanager
def swapping(*swaps: Swap) -> Iterator[None]:
    """Watch some files; an audit hook stays for good, and does nothing outside."""
    global _hooked
    if not _hooked:
        sys.addaudithook(_heard)
        _hooked = True
    _watching.extend(swaps)
    try:
        yield
    finally:
        _watching.clear()


def _heard(event: str, arguments: tuple[Any, ...]) -> None:
    if event != "open" or not _watching:
        return
    path, _, flags = arguments
    if isinstance(path, str | bytes) and not flags & (os.O_WRONLY | os.O_RDWR):
        for one in list(_watching):
            one.heard(Path(os.fsdecode(path)).absolute())
