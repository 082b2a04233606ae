"""Files that are never half written, whatever fails and whenever the process is killed.

Content is written under a temporary name and synchronised; then the file takes its name, and the
folder is synchronised, so that both last through a loss of power.  A process that is killed leaves
at most a temporary file behind: the next one that writes into the folder removes it.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path

from dpaudit.errors import OutputNotWritable

PROBE = 2**16  # bytes that a folder must have room for before there is anything to lose
_TEMPORARY = ".dpaudit.tmp"
# What file systems say that cannot do what was asked; a disk that fails says something else.
_UNABLE = frozenset({errno.EINVAL, errno.EPERM, errno.EACCES, errno.ENOTSUP, errno.EMLINK})


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file so that it is never half there.

    Errors: OutputNotWritable naming the file and the reason.
    """
    write_together({path: content})


def writable(folder: Path) -> None:
    """Make the folder, and write to it, before there is anything to lose.

    Errors: OutputNotWritable, naming the reason, where it cannot be written or is full.
    """
    with _reasoned(folder, "choose another with --out"):
        _make(folder)
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(bytes(PROBE))


def write_new(path: Path, content: bytes, mode: int | None = None) -> None:
    """Write a file that must not be there yet, so that of two processes one is told.

    Errors: FileExistsError; OutputNotWritable naming the file and the reason.
    """
    with _reasoned(path), _staged(path, content, mode) as staged:
        taken = not _linked(staged, path)
        try:
            _synchronise(path.parent)
        except OSError:
            if not taken:  # what may not last is not there for whoever is told so
                with suppress(OSError):
                    path.unlink()
            raise
    if taken:
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))


def _linked(staged: Path, path: Path) -> bool:
    """Give a file its name; False where the name is taken."""
    try:
        try:
            os.link(staged, path)
        except OSError as error:
            if error.errno not in _UNABLE:
                raise
            path.open("xb").close()  # a file system without hard links
            staged.replace(path)
    except FileExistsError:
        return False
    return True


def write_together(contents: Mapping[Path, bytes]) -> None:
    """Write files that belong together: all reach the disk before the first is put in place.

    They are put in place in the order in which they are given, also on the disk.  A full disk
    leaves all as they were.
    Errors: OutputNotWritable naming the file and the reason.
    """
    with ExitStack() as stack:
        staged = []
        for path, content in contents.items():
            with _reasoned(path):
                staged.append((stack.enter_context(_staged(path, content)), path))
        for name, path in staged:
            with _reasoned(path):
                name.replace(path)
                _synchronise(path.parent)


@contextmanager
def _reasoned(path: Path, way_out: str = "choose a folder that can be written") -> Iterator[None]:
    """Errors of the system as OutputNotWritable."""
    try:
        yield
    except OSError as error:
        raise OutputNotWritable(f"{path}: {error.strerror}; {way_out}") from None


@contextmanager
def _staged(path: Path, content: bytes, mode: int | None = None) -> Iterator[Path]:
    """A file beside ``path`` that holds the content, on the disk; it is gone at the end."""
    _make(path.parent)
    sweep(path.parent)
    handle, name = _temporary(path)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fchmod(stream.fileno(), _mode(path) if mode is None else mode)
            os.fsync(stream.fileno())
            yield name
    finally:
        with suppress(OSError):  # it has taken its name, or the next writer removes it
            name.unlink()


def _temporary(path: Path) -> tuple[int, Path]:
    """A new temporary file, locked: one that nobody holds a lock of was left behind."""
    while True:
        handle, name = tempfile.mkstemp(_TEMPORARY, f".{path.name[:128]}.", path.parent)
        with suppress(OSError):  # a file system without locks
            fcntl.flock(handle, fcntl.LOCK_EX)
        if os.fstat(handle).st_nlink:
            return handle, Path(name)
        os.close(handle)  # another process took it for left behind


@cache
def sweep(folder: Path) -> None:
    """Remove the temporary files that processes left in a folder when they were killed."""
    for path in folder.glob(f".*{_TEMPORARY}"):
        with suppress(OSError):
            handle = os.open(path, os.O_RDONLY)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                path.unlink()
            finally:
                os.close(handle)


def _make(folder: Path) -> None:
    """A folder and those above it; their names last through a loss of power."""
    missing = [one for one in (folder, *folder.parents) if not one.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for one in missing:
        _synchronise(one.parent)


def _mode(path: Path) -> int:
    """Who may read and write a file: as before where it is there, else as the umask says."""
    with suppress(FileNotFoundError):
        return stat.S_IMODE(path.stat().st_mode)
    # Read by setting it: while it is set, files of other threads are at most more private.
    mask = os.umask(0o077)
    os.umask(mask)
    return 0o666 & ~mask


def _synchronise(folder: Path) -> None:
    """Make the names in a folder last through a loss of power, where its file system can."""
    try:
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
    except OSError as error:
        if error.errno not in _UNABLE:
            raise
