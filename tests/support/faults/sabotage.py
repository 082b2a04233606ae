"""Guards that are taken away from a command, so that faults have to show it."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Any

from dpaudit.storage import files


def files_in_place() -> None:
    """Files are written under their own names from the first byte on."""

    def write(path: Path, content: bytes, mode: int = 0o600) -> None:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT, mode), "wb") as file:
            file.write(content)

    def together(contents: dict[Path, bytes]) -> None:
        for path, content in contents.items():
            write(path, content, 0o644)

    from dpaudit.sign import keys

    keys.write_new = write
    files.write_together = together


def unsynchronised() -> None:
    """No folder is synchronised."""
    files._synchronise = lambda folder: None


def errors_unheard() -> None:
    """Errors of the disk end a command as if all was well."""
    replaced: Any = files

    class Silent(Exception):
        pass

    def quiet(path: Path, content: bytes, mode: int | None = None) -> None:
        try:
            path.write_bytes(content)
            path.chmod(0o600)
        except OSError:
            pass

    from dpaudit.sign import keys

    keys.write_new = quiet
    replaced.write_together = lambda contents: [quiet(p, c) for p, c in contents.items()]


def charges_unsynchronised() -> None:
    """A charge is on the disk some time after the command goes on: SQLite does not wait for it."""
    import sqlite3

    class Unsynchronised(sqlite3.Connection):
        def execute(self, sql: str, *given: Any) -> sqlite3.Cursor:
            waits = sql.startswith("PRAGMA synchronous")
            return super().execute("PRAGMA synchronous = OFF" if waits else sql, *given)

    sqlite3.connect = partial(sqlite3.connect, factory=Unsynchronised)
