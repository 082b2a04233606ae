"""Record what code reads from outside, and put back files it wrote, by audit events (PEP 578).

Python's ``open``, SQLite, sockets and child processes raise such events.  Libraries that read files
by code of their own (DuckDB, Polars, drivers of databases in C) raise none: they are not seen.
"""

from __future__ import annotations

import gc
import io
import itertools
import os
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path, PurePath
from typing import Any

# Ends of the names of files that are code, and not data.
CODE = (".py", ".pyc", ".pyi", ".so", ".pyd", ".dll")
# The library's own files, of which none holds a user's data.
PACKAGE = Path(__file__).resolve().parents[1]
# How the name of a source begins that is no file.
OUTSIDE = CONNECTION, OUTPUT = "connection to ", "output of "
MAX_KEPT_BYTES = 2**26  # Bytes of a file that is restored after it was written.
# Files that can be written to, in the order in which what is written passes through them.
WRITERS: list[Any] = [io.TextIOWrapper, io.BufferedRandom, io.BufferedWriter, io.FileIO]
STANDARD_ERROR = 2  # The largest descriptor of a standard stream.
_listening: list[set[str]] = []
_writing: list[dict[Path, bytes | None]] = []
# Descriptors, and files, that were open before the outermost block.  Files are looked for again
# where other ones of the first so many descriptors are open.
MOST_DESCRIPTORS = 256
_descriptors: list[int] = []
_held: list[Any] = []
_imported: set[str] = set()
_hooked = False


@contextmanager
def opened() -> Iterator[set[str]]:
    """Collect absolute paths of files opened for reading in this block; code files are left out.

    A connection is collected as "connection to HOST", a child process as "output of PROGRAM".
    An audit hook cannot be removed, so one hook is installed; outside such blocks it does nothing.
    """
    _hook()
    paths: set[str] = set()
    _listening.append(paths)
    try:
        yield paths
    finally:
        # By identity, because two sets with the same paths are equal.
        _listening[:] = [listener for listener in _listening if listener is not paths]


def of_users(paths: Iterable[str]) -> list[str]:
    """Those that are connections, child processes, or files of no installed package or system."""
    roots = {sys.prefix, sys.base_prefix, str(PACKAGE), "/proc", "/sys", "/dev", "/usr", "/etc"}
    return [
        name
        for name in paths
        if name.startswith(OUTSIDE)
        or (not any(PurePath(name).is_relative_to(root) for root in roots) and Path(name).is_file())
    ]


@contextmanager
def written() -> Iterator[dict[str, bytes]]:
    """Put files that are written to in this block back as they were before it.

    Files that the block opens, and files that were open before and grow.  Collects by name what
    they hold at its end, or what was appended, in the order in which they were opened first.  Code
    files and files above 64 MB stay as they are.
    """
    _hook()
    before: dict[Path, bytes | None] = {}
    contents: dict[str, bytes] = {}
    outermost = not _writing
    if outermost:
        _descriptors[:] = _in_use()
        _held[:] = _writable() if _descriptors else []
    _flush_new()  # What earlier runs wrote is not of this block.
    grown = _lengths()
    _writing.append(before)
    try:
        yield contents
    finally:
        _writing[:] = [held for held in _writing if held is not before]
        with _unheard():
            _flush_new()
            for path, held in before.items():
                now = path.read_bytes() if path.is_file() else None
                if now is not None:
                    appended = now.removeprefix(held or b"")
                    contents[path.name] = contents.get(path.name, b"") + appended
                if held is None:
                    path.unlink(missing_ok=True)
                elif held != now:
                    path.write_bytes(held)
            _shorten(grown, contents)
        if outermost:
            _held.clear()


def _writable() -> list[Any]:
    """The files that objects of this process hold open for writing, without standard streams."""
    found = []
    held = gc.get_objects()  # Millions, in a large process: no step of Python is made for each.
    for item in itertools.compress(held, map(frozenset(WRITERS).__contains__, map(type, held))):
        with suppress(ValueError, OSError):
            if not item.closed and item.writable() and item.fileno() > STANDARD_ERROR:
                found.append(item)
    # A text is flushed into its buffer, and that into the file.
    return sorted(found, key=lambda item: WRITERS.index(type(item)))


def _writes(descriptor: int) -> bool:
    """Whether a descriptor is open for writing; Windows does not say."""
    if sys.platform == "win32":
        return True
    import fcntl

    return bool(fcntl.fcntl(descriptor, fcntl.F_GETFL) & (os.O_WRONLY | os.O_RDWR))


def _in_use() -> list[int]:
    """The first descriptors of files that are written and that others can read: with a name."""
    found = []
    for number in range(STANDARD_ERROR + 1, MOST_DESCRIPTORS):
        with suppress(OSError):
            status = os.fstat(number)
            if stat.S_ISREG(status.st_mode) and status.st_nlink and _writes(number):
                found.append(number)
    return found


def _flush_new() -> None:
    """Flush files that were opened in the outermost block and are open still.

    A file that is kept open holds back what was written last.
    """
    if _in_use() != _descriptors:
        _flush(_writable())


def _flush(files: Iterable[Any]) -> None:
    for file in files:
        with suppress(ValueError, OSError):
            file.flush()


def _lengths() -> dict[int, tuple[Path, int, int]]:
    """Path, size and position of each regular file that was open before, by its descriptor."""
    _flush(_held)
    lengths = {}
    for file in _held:
        with suppress(ValueError, OSError, TypeError):
            number, path = file.fileno(), Path(file.name)
            status = os.fstat(number)
            if stat.S_ISREG(status.st_mode) and os.path.samestat(status, path.stat()):
                lengths[number] = path, status.st_size, os.lseek(number, 0, os.SEEK_CUR)
    return lengths


def _shorten(lengths: Mapping[int, tuple[Path, int, int]], contents: dict[str, bytes]) -> None:
    """Take away what was appended to files that were open before, and collect it."""
    _flush(_held)
    for number, (path, size, position) in lengths.items():
        with suppress(OSError):
            if os.fstat(number).st_size > size:
                contents[path.name] = contents.get(path.name, b"") + path.read_bytes()[size:]
                os.ftruncate(number, size)
                os.lseek(number, position, os.SEEK_SET)


@contextmanager
def _unheard() -> Iterator[None]:
    """Files that this module opens are not those of the code that is listened to."""
    listeners, _listening[:] = _listening[:], []
    try:
        yield
    finally:
        _listening[:] = listeners


def _hook() -> None:
    global _hooked
    if not _hooked:
        sys.addaudithook(_heard)
        _hooked = True


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
    if not (_listening or _writing):
        return
    if event in ("socket.connect", "subprocess.Popen", "sqlite3.connect"):
        for paths in _listening:
            paths.add(_source(event, arguments))
    if event != "open":
        return
    path, mode, flags = arguments
    if not isinstance(path, (str, bytes)):
        return
    name = str(Path(os.fsdecode(path)).absolute())
    if name.endswith(CODE) or "__pycache__" in name:
        return
    if (isinstance(mode, str) and set(mode) & set("wax+")) or flags & (os.O_WRONLY | os.O_RDWR):
        _keep(Path(name))
        return
    for paths in _listening:
        paths.add(name)


def _source(event: str, arguments: tuple[Any, ...]) -> str:
    """The name of a connection, of a child process, or of the file of a database."""
    if event == "sqlite3.connect":
        return str(Path(os.fsdecode(arguments[0])).absolute())
    if event == "subprocess.Popen":
        # On Windows the program may be named by the command line alone.
        return OUTPUT + PurePath(os.fsdecode(arguments[0] or str(arguments[1]).split()[0])).name
    address = arguments[1]
    return CONNECTION + str(address[0] if isinstance(address, tuple) else address)


def _keep(path: Path) -> None:
    """The content of a file before it is written to; None where there is none."""
    missing = [before for before in _writing if path not in before]
    regular = path.is_file() and path.stat().st_size <= MAX_KEPT_BYTES
    if not missing or (path.exists() and not regular):
        return
    for before in missing:
        # Reading it is an event of its own, which is heard as that of a reader.
        before[path] = None
    with _unheard():
        held = path.read_bytes() if regular else None
    for before in missing:
        before[path] = held
