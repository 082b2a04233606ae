"""Files that are never half written."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from collections.abc import Mapping
from pathlib import Path

from dpaudit.errors import OutputNotWritable


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file so that it is never half there.

    Errors: OutputNotWritable naming the file and the reason.
    """
    write_together({path: content})


def writable(folder: Path) -> None:
    """Make the folder, before there is anything to lose.

    Errors: OutputNotWritable, naming the reason, where it cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise OutputNotWritable(
            f"{folder}: {error.strerror}; choose a folder that can be written"
        ) from None


def write_new(path: Path, content: bytes) -> None:
    """Write a file that must not be there yet, so that of two processes one is told.

    Errors: FileExistsError; OutputNotWritable naming the file and the reason.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.open("xb").close()
    except OSError as error:
        if isinstance(error, FileExistsError) and path.exists():
            raise
        raise OutputNotWritable(
            f"{path}: {error.strerror}; choose a folder that can be written"
        ) from None
    try:
        write_atomically(path, content)
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def write_together(contents: Mapping[Path, bytes]) -> None:
    """Write files that belong together: all reach the disk before the first is put in place.

    A full disk leaves all as they were.
    Errors: OutputNotWritable naming the file and the reason.
    """
    staged: list[tuple[Path, Path]] = []
    path = Path()
    try:
        for path, content in contents.items():
            staged.append((_staged(path, content), path))
        while staged:
            name, path = staged[0]
            name.replace(path)
            del staged[0]
        for folder in {path.parent for path in contents}:
            _synchronise(folder)
    except OSError as error:
        raise OutputNotWritable(
            f"{path}: {error.strerror}; choose a folder that can be written"
        ) from None
    finally:
        for name, _ in staged:
            name.unlink(missing_ok=True)


def _staged(path: Path, content: bytes) -> Path:
    """A new file beside ``path`` that holds the content, on the disk."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        Path(name).chmod(_mode(path))
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    return Path(name)


def _mode(path: Path) -> int:
    """Who may read and write a file: as before where it is there, else as the umask says."""
    with contextlib.suppress(FileNotFoundError):
        return stat.S_IMODE(path.stat().st_mode)
    # Read by setting it: while it is set, files of other threads are at most more private.
    mask = os.umask(0o077)
    os.umask(mask)
    return 0o666 & ~mask


def _synchronise(folder: Path) -> None:
    """Make the names in a folder last through a loss of power, where the system can."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
