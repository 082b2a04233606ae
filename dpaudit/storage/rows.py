"""Rows: results of finished tasks on disk, so that a run that was stopped resumes."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from dpaudit.storage.files import write_atomically


@dataclass(frozen=True)
class RowStore:
    """A folder with one JSON file a finished task, named by everything that its results depend on.

    A file that does not read, or is another task's, is as good as none: the task is run again.
    """

    folder: Path

    def get(self, name: str) -> dict[str, Any] | None:
        """The row of a task; None without one."""
        try:
            row = json.loads(self._path(name).read_text("utf-8"))
            values = row["values"] if row["task"] == name else None
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return values if isinstance(values, dict) else None

    def put(self, name: str, row: Mapping[str, Any]) -> None:
        """Keep a row, whole or not at all."""
        write_atomically(self._path(name), json.dumps({"task": name, "values": dict(row)}).encode())

    def remove(self) -> None:
        """Forget all rows, once they are written down elsewhere."""
        shutil.rmtree(self.folder, ignore_errors=True)
        with contextlib.suppress(OSError):
            self.folder.parent.rmdir()

    def _path(self, name: str) -> Path:
        return self.folder / f"{sha256(name.encode()).hexdigest()[:32]}.json"
