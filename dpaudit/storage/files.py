"""Files that are never half written."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from dpaudit.errors import OutputNotWritable


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file so that it is never half there.

    Errors: OutputNotWritable naming the file and the reason.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.write(content)
            Path(name).chmod(0o644)
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise OutputNotWritable(
            f"{path}: {error.strerror}; choose a folder that can be written"
        ) from None
