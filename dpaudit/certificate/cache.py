"""Certificates of an earlier run that need not be made again.

Beside its certificates a run over a whole project keeps one small record each: from what it was
made, and which bytes were written.  A certificate is kept while both still hold; the data that a
mechanism reads from elsewhere than its project's modules is not looked at.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpaudit.accountant.claim import Claim
from dpaudit.audit.attack import program_text
from dpaudit.audit.suite import Suite
from dpaudit.certificate.order import Run
from dpaudit.certificate.predicate import environment
from dpaudit.check.file import read
from dpaudit.exact.wire import digest, encode_number
from dpaudit.storage.evidence import Evidence, strict_json
from dpaudit.storage.files import write_atomically
from dpaudit.storage.roots import code_digest

FOLDER = ".certified"


@dataclass(frozen=True)
class Files:
    """The two files of one certificate."""

    certificate: Path
    page: Path


def files_of(name: str, out: Path) -> Files:
    """Where the certificate and the page of a mechanism go."""
    return Files(out / f"{name}.json", out / f"{name}.html")


def identity(run: Run, index: int) -> str:
    """A digest of everything that decides what the certificate at a place of a run says.

    Program, declaration, scope, claims, suite, trials and seed; the run's shares of the decision
    error; the sources of the project and of dpaudit, and the versions of what they import.
    """
    order = run.orders[index]
    mechanism = order.mechanism
    return digest(
        {
            "name": [mechanism.name, mechanism.title, mechanism.source],
            "program": program_text(mechanism.program),
            "declaration": mechanism.declaration.digest,
            "scope": str(mechanism.scope),
            "claims": [_claim(claim) for claim in mechanism.claims],
            "suite": None if order.suite is None else list(map(_suite, order.suite.all)),
            "implementation": [order.root, dict(order.implementation)],
            "fields": dict(order.fields),
            "place": order.place,
            "dpaudit": code_digest(),
            "environment": environment(),
            "epoch": os.environ.get("SOURCE_DATE_EPOCH", ""),
            "run": [f"{run.seed:032x}", run.command, index, run.budget.bounds, run.budget.audits],
            "uncovered": run.options.uncovered,
        }
    )


def _claim(claim: Claim) -> list[Any]:
    ranges = sorted(f"{symbol} in {ends}" for symbol, ends in claim.ranges.items())
    return [claim.text, encode_number(claim.value), claim.by, claim.reading, ranges, claim.states]


def _suite(suite: Suite) -> list[Any]:
    kernels = sorted(
        f"{node.__name__}:{kernel.__qualname__}" for node, kernel in suite.kernels.items()
    )
    attacked = [program_text(suite.program), *suite.neighbours.digests, suite.neighbours.text]
    return [*attacked, suite.trials, suite.threat_model, repr(suite.threshold), kernels]


def remember(files: Files, made_from: str) -> None:
    """Record from what both files were made; call it when they have been written."""
    record = {"made_from": made_from, "files": _digests(files, read(files.certificate))}
    write_atomically(_record(files), json.dumps(record).encode() + b"\n")


def holds(files: Files, made_from: str, certificate: Evidence) -> bool:
    """Whether both files are those that were made from just this; the first is given as read."""
    try:
        record = strict_json(_record(files).read_bytes())
        return bool(record == {"made_from": made_from, "files": _digests(files, certificate)})
    except (OSError, ValueError):
        return False


def _record(files: Files) -> Path:
    return files.certificate.parent / FOLDER / files.certificate.name


def _digests(files: Files, certificate: Evidence) -> list[str]:
    return [certificate.sha256, hashlib.sha256(files.page.read_bytes()).hexdigest()]
