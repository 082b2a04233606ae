"""The real command on files that fail: every system call that changes a file, one after another.

``Bench`` runs ``python -m dpaudit ...`` under a library (``shim.c``, compiled by gcc, loaded by
LD_PRELOAD) that counts the calls which change files below one folder: open for writing, write,
fsync, ftruncate, rename, link, unlink, mkdir, chmod; by Python, by SQLite's C code, by whatever
process the command starts.  At the k-th call the disk

- ``ONCE``: fails this call (EIO), and works again;
- ``FULL``: has room for half of this write, then for nothing (ENOSPC); names can be removed;
- ``READ_ONLY``: takes no change from here on (EROFS), as a kernel does after errors of a disk;
- ``KILL``: lives on, but the command and all that it started are killed (SIGKILL) before the call;
- ``TORN``: takes half of this write, and then all are killed.

``power_losses`` builds, from the calls of one whole run, the disk after a loss of power before
each call: names that no fsync of their folder, and bytes that no fsync of their file made last, are
lost.

Run: ``make test ARGS=tests/library/cli/test_faults.py`` for a sample, and for every call of every
command ``make quality ARGS=tests/library/cli/test_faults.py``.
"""

from __future__ import annotations

import errno
import json
import mmap
import os
import shutil
import struct
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
NOTHING, ONCE, FULL, READ_ONLY, KILL, TORN = range(6)
NAMES = ("nothing", "once", "full", "read-only", "kill", "torn")
ERRORS = {ONCE: errno.EIO, FULL: errno.ENOSPC, READ_ONLY: errno.EROFS}
SECONDS = 120.0
_STATE = struct.Struct("6q")


@dataclass(frozen=True)
class Call:
    """One call that changed a file: which, its path, the second path of a rename, and its bytes."""

    kind: str
    path: str
    other: str
    offset: int
    content: bytes

    def __str__(self) -> str:
        return f"{self.kind} {Path(self.path).name} {Path(self.other).name if self.other else ''}"


@dataclass(frozen=True)
class Outcome:
    """How a run ended: exit code (negative: the signal), what it said, the calls that it made.

    ``hits``: how many calls went wrong; 0 where the run made fewer calls than k.
    """

    code: int
    out: str
    err: str
    count: int
    hits: int
    calls: tuple[Call, ...] = field(repr=False)


def compiled(folder: Path) -> Path:
    """The library, made by the compiler."""
    made = folder / "shim.so"
    compiler = shutil.which("gcc")
    assert compiler is not None, "no gcc"
    options = ("-O1", "-shared", "-fPIC", "-o", str(made), str(HERE / "shim.c"), "-ldl")
    subprocess.run([compiler, *options], check=True)
    return made


def watched(place: Path, folder: Path) -> dict[str, str]:
    """Variables under which what a program changes below ``folder`` is counted, in ``place``."""
    (place / "state").write_bytes(bytes(_STATE.size))
    (place / "log").touch()
    return {
        "LD_PRELOAD": str(compiled(place)),
        "FAULTS_FOLDER": str(folder),
        "FAULTS_STATE": str(place / "state"),
        "FAULTS_LOG": str(place / "log"),
    }


def calls_in(place: Path) -> tuple[Call, ...]:
    """The calls that were counted there."""
    return tuple(_calls((place / "log").read_bytes()))


class Bench:
    """A warm interpreter under the library; runs of the command in ``folder``, its working folder.

    Everything that the command writes is below it: HOME and XDG_STATE_HOME too.  ``sabotage``: a
    function of ``tests/support/faults/sabotage.py`` that takes a guard away from the command.
    """

    def __init__(self, place: Path, sabotage: str = "") -> None:
        self.place, self.folder = place, place / "work"
        self.folder.mkdir(parents=True)
        counted_by = watched(place, self.folder)
        with (place / "state").open("r+b") as file:
            self._state = mmap.mmap(file.fileno(), _STATE.size)
        (place / "tmp").mkdir()
        checkout = HERE.parents[2]
        under = {
            "HOME": str(self.folder / "home"),
            "XDG_STATE_HOME": str(self.folder / "home" / "state"),
            "TMPDIR": str(place / "tmp"),
            "NO_COLOR": "1",
            "SOURCE_DATE_EPOCH": "1700000000",
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONPATH": str(checkout),
            "FAULTS_SABOTAGE": sabotage,
        }
        self._server = subprocess.Popen(
            [sys.executable, str(HERE / "server.py")],
            env=os.environ | counted_by | under,
            cwd=place,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def close(self) -> None:
        """End the warm interpreter."""
        assert self._server.stdin is not None
        self._server.stdin.close()
        self._server.wait(10)
        self._state.close()

    def rehearse(self, *arguments: object) -> None:
        """Run a command, and keep in the warm interpreter what it imported and examined."""
        self._ask(arguments, str(self.place / "rehearsal"))

    def run(self, *arguments: object, at: int = 0, how: int = NOTHING) -> Outcome:
        """The command, its ``at``-th call going wrong in the way ``how``."""
        (self.place / "log").write_bytes(b"")
        self._state[:] = _STATE.pack(0, at, how, ERRORS.get(how, 0), 0, 0)
        status = self._ask(arguments)["status"]
        count, _, _, _, hits, _ = _STATE.unpack(self._state[:])
        calls = calls_in(self.place)
        out, err = ((self.place / name).read_text() for name in ("out", "err"))
        return Outcome(status, out, err, count, hits, calls)

    def put(self, content: Mapping[str, bytes]) -> None:
        """Make the working folder hold just this; a name that ends in / is a folder."""
        shutil.rmtree(self.folder)
        self.folder.mkdir()
        for name, data in content.items():
            path = self.folder / name
            if name.endswith("/"):
                path.mkdir(parents=True, exist_ok=True)
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
            if name.endswith(".key"):
                path.chmod(0o600)

    def taken(self) -> dict[str, bytes]:
        """What the working folder holds."""
        return content_of(self.folder)

    def _ask(self, arguments: Sequence[object], rehearsal: str = "") -> dict[str, Any]:
        asked = {
            "rehearsal": rehearsal,
            "arguments": list(map(str, arguments)),
            "cwd": str(self.folder),
            "out": str(self.place / "out"),
            "err": str(self.place / "err"),
            "seconds": SECONDS,
        }
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.write(json.dumps(asked) + "\n")
        self._server.stdin.flush()
        answer: dict[str, Any] = json.loads(self._server.stdout.readline())
        return answer


def content_of(folder: Path) -> dict[str, bytes]:
    """Every file below a folder by its relative name, and every folder, with / at its end."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_dir():
            found[f"{name}/"] = b""
        else:
            found[name] = path.read_bytes()
    return found


def _calls(log: bytes) -> Iterator[Call]:
    place = 0
    while place < len(log):
        end = log.index(b"\n", place)
        kind, path, other, offset, size = log[place:end].decode().split("\t")
        place = end + 1 + int(size)
        yield Call(kind, path, other, int(offset), log[end + 1 : place])


# --- a loss of power ------------------------------------------------------------------------------


class _File:
    """A file's bytes as programs see them, and as the disk has them."""

    def __init__(self, content: bytes = b"") -> None:
        self.seen, self.kept = bytearray(content), bytes(content)

    def change(self, call: Call) -> None:
        """A call that changes the bytes."""
        if call.kind == "empty":
            self.seen.clear()
        elif call.kind == "ftruncate":
            self.seen[:] = bytes(self.seen[: call.offset]).ljust(call.offset, b"\0")
        elif call.kind in ("write", "half write"):
            end = call.offset + len(call.content)
            self.seen.extend(bytes(max(0, end - len(self.seen))))
            self.seen[call.offset : end] = call.content


class Disk:
    """Files by name, as programs see them, and as they are after a loss of power.

    A file's bytes last once it was synchronised, its name once its folder was.
    """

    def __init__(self, folder: Path, content: Mapping[str, bytes]) -> None:
        self.folder = folder
        files = {f"{folder}/{name}": _File(data) for name, data in content.items()}
        self.names, self.kept = dict(files), dict(files)

    def take(self, call: Call) -> None:
        """One call of a run."""
        kind, path = call.kind, call.path
        if kind == "create":
            self.names[path] = _File()
        elif kind == "mkdir":
            self.names[f"{path}/"] = _File()
        elif kind == "rename":
            self.names[call.other] = self.names.pop(path)
        elif kind == "link":
            self.names[call.other] = self.names[path]
        elif kind in ("unlink", "rmdir"):
            self.names.pop(path if kind == "unlink" else f"{path}/", None)
        elif kind == "fsync":
            self._synchronise(path)
        elif path in self.names:
            self.names[path].change(call)

    def _synchronise(self, path: str) -> None:
        if path in self.names:
            self.names[path].kept = bytes(self.names[path].seen)
            return
        inside = {name for name in (*self.names, *self.kept) if _folder(name) == path}
        for name in inside:
            if name in self.names:
                self.kept[name] = self.names[name]
            else:
                self.kept.pop(name)

    def after(self, *, names: bool, content: bool) -> dict[str, bytes]:
        """The disk after power is lost; whether unsynchronised names, and bytes, made it."""
        files = self.names if names else self.kept
        return {
            name.removeprefix(f"{self.folder}/"): bytes(file.seen) if content else file.kept
            for name, file in files.items()
            if self._reached(name, files)
        }

    def _reached(self, name: str, files: Mapping[str, _File]) -> bool:
        above = _folder(name)
        return above == str(self.folder) or (f"{above}/" in files and self._reached(above, files))


def _folder(name: str) -> str:
    return name.rstrip("/").rpartition("/")[0]


def power_losses(
    folder: Path, before: Mapping[str, bytes], calls: Sequence[Call]
) -> Iterator[tuple[int, dict[str, bytes]]]:
    """The disk after a loss of power before each call of a run, and after its last, three ways."""
    disk = Disk(folder, before)
    seen: set[int] = set()
    for number in range(len(calls) + 1):
        for names, content in ((False, False), (False, True), (True, False)):
            state = disk.after(names=names, content=content)
            mark = hash(tuple(sorted(state.items())))
            if mark not in seen or number == len(calls):
                seen.add(mark)
                yield number, state
        if number < len(calls):
            disk.take(calls[number])


def counted(calls: Sequence[Call]) -> Counter[str]:
    """How many calls of each kind."""
    return Counter(call.kind for call in calls)
