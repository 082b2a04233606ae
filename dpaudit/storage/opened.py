"""Record the files that code opens for reading, by Python's audit events (PEP 578)."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CODE = (".py", ".pyc", ".pyi", ".so", ".pyd", ".dll")
_listening: list[set[str]] = []
_imported: set[str] = set()
_hooked = False


@contextmanager
def opened() -> Iterator[set[str]]:
    """Collect absolute paths of files opened for reading in this block; code files are left out.

    An audit hook cannot be removed, so one hook is installed; outside such blocks it does nothing.
    """
    global _hooked
    if not _hooked:
        sys.addaudithook(_heard)
        _hooked = True
    paths: set[str] = set()
    _listening.append(paths)
    try:
        yield paths
    finally:
        # By identity, because two sets with the same paths are equal.
        _listening[:] = [listener for listener in _listening if listener is not paths]


@contextmanager
def importing() -> Iterator[None]:
    """Record the files that a project's modules open while they are imported."""
    with opened() as paths:
        yield
    _imported.update(paths)


def at_import() -> frozenset[str]:
    """The files that modules opened while a project was imported."""
    return frozenset(_imported)


def _heard(event: str, arguments: tuple[Any, ...]) -> None:
    if event != "open" or not _listening:
        return
    path, mode = arguments[0], arguments[1]
    if not isinstance(path, (str, bytes)) or (isinstance(mode, str) and set(mode) & set("wax+")):
        return
    name = str(Path(os.fsdecode(path)).absolute())
    if not name.endswith(CODE):
        for paths in _listening:
            paths.add(name)
