"""Atomic file writes: a file is complete or absent, even after a crash or a loss of power.

Content is written to a temporary file and synchronised to disk.  Then the file is renamed, and its
folder is synchronised.  A killed process leaves at most a temporary file, which the next writer
into the folder removes.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path

from dpaudit.errors import OutputNotWritable

PROBE_BYTES = 2**16  # Bytes that a folder must have room for before work begins.
_TEMPORARY = ".dpaudit.tmp"
MADE = "<!-- made by dpaudit -->"  # a line of every Markdown and SVG file of ours
# Each kind of file that is written for people and programs holds one of these, and no other file.
MARKS = (
    MADE.encode(),
    b"""content="default-src 'none'; style-src 'unsafe-inline'">\n<meta name="viewport\"""",
    b"<title>Verify a certificate of dpaudit</title>",
    b'"predicateType":"https://dpaudit.dev/',
    b'<testsuites name="dpaudit">',
    b'"name": "dpaudit",\n',
    b"certificate,layer,statement,status,evidence",
    b'"status": "Draft",\n  "tier": ',
    # A request for a time stamp (RFC 3161): version 1, and a SHA-256 digest.
    bytes.fromhex("0201013031300d0609608648016503040201"),
)
# Errors of file systems that lack an operation (hard links, fsync of folders).  A failing disk
# gives other errors.
_UNABLE = frozenset({errno.EINVAL, errno.EPERM, errno.EACCES, errno.ENOTSUP, errno.EMLINK})


def write_atomically(path: Path, content: bytes) -> None:
    """Write or replace a file atomically.

    Errors: OutputNotWritable naming the file and the reason.
    """
    write_together({path: content})


def write_made(contents: Mapping[Path, bytes]) -> None:
    """Write files for people and programs, in the place of none or of earlier ones of dpaudit.

    An existing file is replaced only if it and the new one hold the same mark (``MARKS``).
    Errors: OutputNotWritable naming a file that somebody else made, before anything is written.
    """
    for path, content in contents.items():
        own_or_absent(path, content)
    write_together(contents)


def own_or_absent(path: Path, content: bytes | None = None) -> None:
    """Check that no file of another program lies at ``path``.

    ``content``: the bytes that will be written there, if they are known; a file that holds them, or
    the same mark, may stay or be replaced.
    Errors: OutputNotWritable naming the file, or a device, which could be read without an end.
    """
    try:
        if path.exists() and not (path.is_file() or path.is_dir()):
            raise OutputNotWritable(f"{path}: no file, but a pipe or a device; choose another name")
        existing = path.read_bytes()
    except OSError:  # none, or one that cannot be read, which the writer says
        return
    made = any(mark in existing and (content is None or mark in content) for mark in MARKS)
    if not made and existing != content:
        raise OutputNotWritable(
            f"{path}: there is a file of this name that dpaudit did not make; move it, or choose "
            "another name"
        )


def writable(folder: Path, names: Iterable[str] = ()) -> None:
    """Make the folder and test that it can be written, before any work is done.

    ``names``: the files that will be written there.
    Errors: OutputNotWritable, with the reason, if it cannot be written, the disk is full, or
    somebody else made a file of one of the names.
    """
    for name in names:
        own_or_absent(folder / name)
    with _reasoned(folder, "choose another with --out"):
        _make(folder)
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(bytes(PROBE_BYTES))


def write_new(path: Path, content: bytes, mode: int | None = None) -> None:
    """Write a new file; if two processes try at once, one gets FileExistsError.

    Errors: FileExistsError; OutputNotWritable naming the file and the reason.
    """
    with _reasoned(path), _staged(path, content, mode) as staged:
        taken = not _linked(staged, path)
        try:
            _synchronise(path.parent)
        except OSError:
            if not taken:  # the caller gets an error, so the file must not stay
                with suppress(OSError):
                    path.unlink()
            raise
    if taken:
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))


def _linked(staged: Path, path: Path) -> bool:
    """Give the staged file its final name; False if that name exists."""
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
    """Write files that belong together: all are on disk before the first is put in place.

    They are put in place, durably, in the given order.  If the disk is full, all old files stay.
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
    """Turn an OSError into OutputNotWritable with the path and a way out."""
    try:
        yield
    except OSError as error:
        raise OutputNotWritable(f"{path}: {error.strerror}; {way_out}") from None


@contextmanager
def _staged(path: Path, content: bytes, mode: int | None = None) -> Iterator[Path]:
    """A temporary file beside ``path`` with the content, synchronised; removed at the end."""
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
        with suppress(OSError):  # already renamed, or the next writer removes it
            name.unlink()


def _temporary(path: Path) -> tuple[int, Path]:
    """Open a new temporary file and lock it; an unlocked one counts as left behind."""
    while True:
        handle, name = tempfile.mkstemp(_TEMPORARY, f".{path.name[:128]}.", path.parent)
        with suppress(OSError):  # a file system without locks
            fcntl.flock(handle, fcntl.LOCK_EX)
        if os.fstat(handle).st_nlink:
            return handle, Path(name)
        os.close(handle)  # another process removed it before it was locked


@cache
def sweep(folder: Path) -> None:
    """Remove the temporary files that killed processes left in a folder."""
    for path in folder.glob(f".*{_TEMPORARY}"):
        with suppress(OSError):
            handle = os.open(path, os.O_RDONLY)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                path.unlink()
            finally:
                os.close(handle)


def _make(folder: Path) -> None:
    """Make a folder and its parents durably."""
    missing = [parent for parent in (folder, *folder.parents) if not parent.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for parent in missing:
        _synchronise(parent.parent)


def _mode(path: Path) -> int:
    """The permissions of a file: those of an existing one, else by the umask."""
    with suppress(FileNotFoundError):
        return stat.S_IMODE(path.stat().st_mode)
    # The umask can only be read by setting it; 077 makes files of other threads more private.
    mask = os.umask(0o077)
    os.umask(mask)
    return 0o666 & ~mask


def _synchronise(folder: Path) -> None:
    """Synchronise a folder's names to disk, if its file system can."""
    try:
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
    except OSError as error:
        if error.errno not in _UNABLE:
            raise
