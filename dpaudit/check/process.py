"""Verification in a process of its own: of bounded time and memory, without the accountant.

A certificate comes from a stranger, who may have made it to hang or to fill the machine.  The child
reads paths from its arguments and writes one JSON row a file; who runs out of a limit is ended, and
the next file gets a new child.
"""

from __future__ import annotations

import json
import os
import resource
import select
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from dpaudit.check import MEMORY, SECONDS, check
from dpaudit.check.file import NotACertificate, NotDone, load, validate
from dpaudit.errors import CertificateRejected

BYTES, DERIVATION, LIMITS = "bytes", "derivation", "limits"
Row = dict[str, Any]
# Modules that have no place where a certificate is verified: what made it, and what ran it.
BARRED = ("accountant", "audit", "certificate", "crosscheck", "curator", "measures", "profiles")
ALONE = "in a process that imported {count} modules of dpaudit: no accountant, no rule"


def verify_files(paths: Sequence[Path], seconds: float = SECONDS) -> Iterator[Row]:
    """One row a file: whether it verifies, its verdict, and what was taken on trust.

    ``failure`` is empty, or says what kind: the bytes, the derivation, or a limit.
    """
    left = list(paths)
    while left:
        done = 0
        for row in _child(left, seconds):
            done += 1
            yield row
        if done < len(left):
            words = f"not verified within {seconds:g} s and {MEMORY // 2**20} MB"
            yield _failed(left[done], LIMITS, f"{words}; allow more time with --seconds")
            done += 1
        left = left[done:]


def _child(paths: Sequence[Path], seconds: float) -> Iterator[Row]:
    """Rows as the child writes them; it is ended where one takes longer than it may."""
    command = [sys.executable, "-m", "dpaudit.check", str(seconds), *map(str, paths)]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment
    ) as child:
        assert child.stdout is not None  # noqa: S101  (it is a pipe)
        try:
            yield from _rows(child.stdout.fileno(), seconds)
        finally:
            child.kill()


def _rows(stream: int, each: float) -> Iterator[Row]:
    """The first has to start the process in the same time."""
    pending, deadline = b"", time.monotonic() + each
    while True:
        wait = deadline - time.monotonic()
        if wait <= 0 or not select.select([stream], [], [], wait)[0]:
            return
        found = os.read(stream, 2**16)
        if not found:
            return
        pending += found
        *lines, pending = pending.split(b"\n")
        for line in lines:
            yield json.loads(line)
            deadline = time.monotonic() + each


def main(arguments: Sequence[str]) -> None:
    """The child: a limit of seconds, then paths."""
    seconds, *paths = arguments
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    for path in paths:
        used = resource.getrusage(resource.RUSAGE_SELF)
        spent = int(used.ru_utime + used.ru_stime + float(seconds)) + 1
        resource.setrlimit(resource.RLIMIT_CPU, (spent, resource.RLIM_INFINITY))
        row = verify_file(Path(path), float(seconds))
        print(json.dumps(row), flush=True)  # noqa: T201  (its protocol)


def verify_file(path: Path, seconds: float = SECONDS) -> Row:
    """One row, made in this process."""
    try:
        certificate = load(path)
        validate(certificate)
        report = check(certificate, seconds)
    except NotACertificate as error:
        return _failed(path, BYTES, str(error))
    except NotDone as error:
        return _failed(path, LIMITS, f"{error}; allow more time with --seconds")
    except CertificateRejected as error:
        return _failed(path, DERIVATION, str(error))
    except MemoryError:
        return _failed(path, LIMITS, f"needs more than {MEMORY // 2**20} MB")
    modules = sorted(name for name in sys.modules if name.partition(".")[0] == "dpaudit")
    barred = [m for m in modules if set(m.split(".")[1:2]) & set(BARRED) or m.endswith("rules")]
    alone = [] if barred else [ALONE.format(count=len(modules))]
    return {
        "file": str(path),
        "verified": True,
        "failure": "",
        "verdict": certificate["predicate"]["verdict"]["status"],
        "reason": "",
        "confirmed": [*report.confirmed, *alone],
        "on_trust": list(report.on_trust),
        "unconfirmed": list(report.unconfirmed),
        "epsilons": list(map(list, report.epsilons)),
        "powerless": list(report.powerless),
    }


def _failed(path: Path, failure: str, reason: str) -> Row:
    return {
        "file": str(path),
        "verified": False,
        "failure": failure,
        "verdict": "",
        "reason": reason,
        "confirmed": [],
        "on_trust": [],
        "unconfirmed": [],
        "epsilons": [],
        "powerless": [],
    }
