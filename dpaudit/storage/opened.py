"""Which files code opens to read, by Python's audit events (PEP 578)."""

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
    """The files that are opened inside, each by its absolute path; no code, and none written to.

    A hook cannot be taken out of an interpreter: there is one, which does nothing outside.
    """
    global _hooked
    if not _hooked:
        sys.addaudithook(_heard)
        _hooked = True
    found: set[str] = set()
    _listening.append(found)
    try:
        yield found
    finally:
        # Sets are equal by what is in them, so this one is found by what it is.
        _listening[:] = [one for one in _listening if one is not found]


@contextmanager
def importing() -> Iterator[None]:
    """Note what modules of a project open while they are imported."""
    with opened() as found:
        yield
    _imported.update(found)


def at_import() -> frozenset[str]:
    """What modules opened while a project was imported."""
    return frozenset(_imported)


def _heard(event: str, arguments: tuple[Any, ...]) -> None:
    if event != "open" or not _listening:
        return
    path, mode = arguments[0], arguments[1]
    if not isinstance(path, (str, bytes)) or (isinstance(mode, str) and set(mode) & set("wax+")):
        return
    name = str(Path(os.fsdecode(path)).absolute())
    if not name.endswith(CODE):
        for found in _listening:
            found.add(name)
