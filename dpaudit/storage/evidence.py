"""Files of evidence, opened once: the bytes that were checked are the bytes that are used.

A file that is replaced between its check and its use changes nothing, for it is not opened again.
"""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
import stat
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Evidence:
    """A file as it was read.

    ``path``: for messages, and for the names of files beside it; nothing opens it again.
    ``mode``: the permissions of the file that was read.  ``fault``: why it could not be read; its
    content is empty then.
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
        """The content by :func:`strict_json`, parsed once."""
        return strict_json(self.content)


def read_once(path: Path, largest: int, *, pipes: bool = False) -> Evidence:
    """Open a file once, and read it whole.

    ``largest``: the most bytes that it may have.  ``pipes``: whether a pipe will do.
    Errors: OSError, also for what is no regular file, or is larger.
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
    """JSON in UTF-8 that every program reads alike: no key twice, and no number without a value.

    ``infinite``: whether Python's own Infinity is a number, as other libraries write it.  ``nan``:
    whether NaN is one too, and what overflows a float, as cells that a table's reader names.
    Errors: ValueError.
    """
    text = content if isinstance(content, str) else content.decode("utf-8")
    try:
        return json.loads(
            text,
            object_pairs_hook=_each_once,
            parse_constant=float if nan else _infinite if infinite else _refused,
            parse_float=float if nan else _finite,
        )
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object whose keys differ: of two equal ones, programs may read either."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key occurs twice")
    return found


def _refused(name: str) -> Any:
    raise ValueError(f"{name} is not a number")


def _infinite(name: str) -> float:
    return math.inf if name == "Infinity" else _refused(name)


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError("a number is too large")
    return number
