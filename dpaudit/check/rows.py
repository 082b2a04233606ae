"""Verification of a file in this process: one JSON row, which says what the checker found.

Nothing here needs a process, a limit of the system or NumPy, so that it runs in a browser too.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from dpaudit.check import MEMORY, SECONDS, check
from dpaudit.check.file import NotACertificate, NotDone, parsed, read, validate
from dpaudit.errors import CertificateRejected
from dpaudit.storage.evidence import Evidence

BYTES, DERIVATION, LIMITS = "bytes", "derivation", "limits"
MORE_TIME = "; allow more time with --set seconds="  # for the reader of a command's answer
Row = dict[str, Any]
# Modules that have no place where a certificate is verified: what made it, and what ran it.
BARRED = ("accountant", "audit", "certificate", "crosscheck", "curator", "measures", "profiles")
ALONE = "in a process that imported {count} modules of dpaudit: no accountant, no rule"


def verify_file(path: Path, seconds: float = SECONDS) -> Row:
    """One row of a file, made in this process."""
    return row_of(read(path), seconds)


def row_of(
    file: Evidence,
    seconds: float = SECONDS,
    *,
    clock: float | None = None,
    advice: str = MORE_TIME,
) -> Row:
    """The checker's row of a file as it was read; ``clock``, ``advice``: as of :func:`check`."""
    try:
        certificate = parsed(file)
        validate(certificate)
        report = check(certificate, seconds, clock=clock, advice=advice)
    except NotACertificate as error:
        return failed(file, BYTES, str(error))
    except NotDone as error:
        return failed(file, LIMITS, str(error))
    except CertificateRejected as error:
        return failed(file, DERIVATION, str(error))
    except MemoryError:
        return failed(file, LIMITS, f"needs more than {MEMORY // 2**20} MB")
    modules = sorted(name for name in sys.modules if name.partition(".")[0] == "dpaudit")
    barred = [m for m in modules if set(m.split(".")[1:2]) & set(BARRED) or m.endswith("rules")]
    alone = [] if barred else [ALONE.format(count=len(modules))]
    return {
        "file": str(file.path),
        "sha256": file.sha256,
        "verified": True,
        "failure": "",
        "verdict": certificate["predicate"]["verdict"]["status"],
        "reason": "",
        "confirmed": [*report.confirmed, *alone],
        "on_trust": list(report.on_trust),
        "unconfirmed": list(report.unconfirmed),
        "epsilons": list(map(list, report.epsilons)),
        "powerless": list(report.powerless),
        "unchecked": [field._asdict() for field in report.unchecked],
    }


def failed(file: Evidence, failure: str, reason: str) -> Row:
    """The row of a file that does not verify: the kind of failure, and the reason."""
    return {
        "file": str(file.path),
        "sha256": "" if file.fault else file.sha256,
        "verified": False,
        "failure": failure,
        "verdict": "",
        "reason": reason,
        "confirmed": [],
        "on_trust": [],
        "unconfirmed": [],
        "epsilons": [],
        "powerless": [],
        "unchecked": [],
    }
