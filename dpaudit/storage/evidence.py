"""Read files of evidence once, so that the checked bytes are the used bytes.

Replacing a file between its check and its use has no effect, because it is not opened again.
"""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
import re
import stat
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Any

MAX_LEVELS = 400  # Nested arrays and objects; deeper ones overflow the stack of some parsers.
_TEXT, _BRACKET = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL), re.compile(r"[\[\]{}]")


@dataclass(frozen=True)
class Evidence:
    """A file as it was read.

    ``path``: for messages and for the names of files beside it; it is never opened again.
    ``mode``: the permissions of the file.  ``fault``: the reason if it could not be read; then the
    content is empty.
    """

    path: Path
    content: bytes
    mode: int = 0
    fault: str = ""

    @cached_property
    def sha256(self) -> str:
        """SHA-256 of the content, as hex."""
        return hashlib.sha256(self.content).hexdigest()

    @cached_property
    def json(self) -> Any:
        """The content parsed by :func:`strict_json`, once."""
        return strict_json(self.content)


def read_once(path: Path, largest: int, *, pipes: bool = False) -> Evidence:
    """Open a file once, and read it whole.

    ``largest``: the allowed size in bytes.  ``pipes``: whether a pipe is allowed.
    Errors: OSError, also for a file that is not regular, or is larger.
    """
    # Without O_NONBLOCK, opening a pipe that nobody writes to would wait for ever.
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    with os.fdopen(handle, "rb") as stream:
        mode = os.fstat(handle).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not (stat.S_ISREG(mode) or (pipes and stat.S_ISFIFO(mode))):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        os.set_blocking(handle, True)
        content = stream.read(largest + 1)
    if len(content) > largest:
        raise OSError(errno.EFBIG, f"larger than {largest} bytes", str(path))
    return Evidence(path, content, mode)


def strict_json(content: bytes | str, *, infinite: bool = False, nan: bool = False) -> Any:
    """Parse JSON that every program reads in the same way: no duplicate keys, finite numbers only,
    and no more than ``MAX_LEVELS`` levels.

    ``infinite``: allow Infinity, which other libraries write.  ``nan``: allow also NaN, -Infinity
    and numbers that overflow a float; the reader of a table then names such cells itself.
    Errors: ValueError for anything else.
    """
    text = content if isinstance(content, str) else content.decode("utf-8")
    if _levels(text) > MAX_LEVELS:
        raise ValueError("nested too deeply")
    return json.loads(
        text,
        object_pairs_hook=_each_once,
        parse_constant=float if nan else _infinite if infinite else _refused,
        parse_float=float if nan else _finite,
    )


def _levels(text: str) -> int:
    """How many arrays and objects are open at once, at most."""
    brackets = _BRACKET.findall(_TEXT.sub("", text))
    return max(accumulate(1 if bracket in "[{" else -1 for bracket in brackets), default=0)


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object without duplicate keys; programs differ in which duplicate they read."""
    by_key = dict(pairs)
    if len(by_key) != len(pairs):
        raise ValueError("a key occurs twice")
    return by_key


def _refused(name: str) -> Any:
    raise ValueError(f"{name} is not a number")


def _infinite(name: str) -> float:
    return math.inf if name == "Infinity" else _refused(name)


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError("a number is too large")
    return number
