"""Verification in a process of its own: of bounded time and memory, without the accountant.

A certificate comes from a stranger, who may have made it to hang or to fill the machine.  The child
is given the bytes that its parent read, opens no certificate, and writes one JSON row a file; one
that runs out of a limit is ended, and the next file gets a new child.  Theorems that were added in
the parent are loaded in the child as well, each from its module's file, which has to stand alone.
"""

from __future__ import annotations

import json
import os
import resource
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import IO, Any

from dpaudit.check import MEMORY, SECONDS
from dpaudit.check.file import parsed
from dpaudit.check.rows import DERIVATION, LIMITS, MORE_TIME, Row, failed, row_of
from dpaudit.check.theorem import added
from dpaudit.errors import CertificateRejected, described
from dpaudit.storage.evidence import Evidence


@dataclass(frozen=True)
class Verified:
    """A file as it was read, and what the checker says of just these bytes."""

    file: Evidence
    row: Row

    @property
    def certificate(self) -> dict[str, Any]:
        """The certificate in these bytes.

        Errors: CertificateRejected for bytes that do not verify.
        """
        if not self.row["verified"]:
            raise CertificateRejected(self.row["reason"])
        return parsed(self.file)


def verify_files(files: Sequence[Evidence], seconds: float = SECONDS) -> Iterator[Verified]:
    """Each file with a row: whether it verifies, its verdict, and what was taken on trust.

    ``failure`` is empty, or says what kind: the bytes, the derivation, or a limit.
    """
    with tempfile.TemporaryFile() as handed:
        starts = [_handed(file, handed) for file in files]
        done = 0
        while done < len(files):
            handed.seek(starts[done])
            for row in _child(handed, seconds):
                yield Verified(files[done], row)
                done += 1
            if done < len(files):
                words = f"not verified within {seconds:g} s and {MEMORY // 2**20} MB"
                row = failed(files[done], LIMITS, f"{words}{MORE_TIME}")
                yield Verified(files[done], row)
                done += 1


def _handed(file: Evidence, stream: IO[bytes]) -> int:
    """Append a file for the child, below a line that names it; where that line starts."""
    start = stream.tell()
    head = {"path": str(file.path), "size": len(file.content), "fault": file.fault}
    stream.write(json.dumps(head).encode() + b"\n" + file.content)
    stream.flush()
    return start


def _taken(stream: IO[bytes]) -> Iterator[Evidence]:
    """The files that the parent handed over."""
    while line := stream.readline():
        head = json.loads(line)
        yield Evidence(Path(head["path"]), stream.read(head["size"]), fault=head["fault"])


def _child(handed: IO[bytes], seconds: float) -> Iterator[Row]:
    """Rows as the child writes them; it is ended where one takes longer than it may."""
    # With -P no module of the folder where the command runs stands in for one of the library.
    theorems = [part for pair in sorted(set(added().values())) for part in pair]
    command = [sys.executable, "-P", "-m", "dpaudit.check", str(seconds), *theorems]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        command,
        stdin=handed,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment,
    ) as child:
        assert child.stdout is not None  # noqa: S101  (it is a pipe)
        try:
            yield from _rows(child.stdout.fileno(), seconds)
        finally:
            child.kill()


def _rows(stream: int, each: float) -> Iterator[Row]:
    """Rows as they arrive; ends where one takes longer than ``each`` seconds.

    The first also has to wait for the process to start.
    """
    pending, deadline = b"", time.monotonic() + each
    while True:
        wait = deadline - time.monotonic()
        if wait <= 0 or not select.select([stream], [], [], wait)[0]:
            return
        received = os.read(stream, 2**16)
        if not received:
            return
        pending += received
        *lines, pending = pending.split(b"\n")
        for line in lines:
            yield json.loads(line)
            deadline = time.monotonic() + each


def _load(module: str, file: str) -> None:
    spec = spec_from_file_location(module, file)
    if spec is None or spec.loader is None:
        raise ImportError("no module of Python")
    sys.modules[module] = loaded = module_from_spec(spec)
    spec.loader.exec_module(loaded)


def main(arguments: Sequence[str]) -> None:
    """The child: a limit of seconds, modules of theorems with their files; the rest is on stdin."""
    seconds, *theorems = arguments
    fault = ""
    for module, place in zip(theorems[::2], theorems[1::2], strict=True):
        try:
            _load(module, place)
        except Exception as error:  # noqa: BLE001  (whatever a module raises is why it has no place)
            fault = f"{place}, a module of theorems, has to stand alone: {described(error)}"
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    for file in _taken(sys.stdin.buffer):
        used = resource.getrusage(resource.RUSAGE_SELF)
        spent = int(used.ru_utime + used.ru_stime + float(seconds)) + 1
        resource.setrlimit(resource.RLIMIT_CPU, (spent, resource.RLIM_INFINITY))
        row = row_of(file, float(seconds))
        if fault and row["failure"] == DERIVATION:
            row = failed(file, DERIVATION, f"{row['reason']}; {fault}")
        print(json.dumps(row), flush=True)  # noqa: T201  (its protocol)
