"""Files: certificates and their pages, written whole or not at all, and read back to verify."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpaudit.certificate import load, save, validate
from dpaudit.certify import Certified
from dpaudit.check import Confirmed, check
from dpaudit.errors import CertificateRejected, OutputNotWritable
from dpaudit.files import write_atomically
from dpaudit.report import render_html, render_index


@dataclass(frozen=True)
class Written:
    """The two files of one certificate."""

    certificate: Path
    page: Path


def writable(folder: Path) -> None:
    """Make the folder, and find out before any work whether files can be written there.

    Errors: OutputNotWritable.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputNotWritable(f"{folder}: {error.strerror}; choose another with --out") from None
    if not os.access(folder, os.W_OK | os.X_OK):
        raise OutputNotWritable(f"{folder}: cannot be written; choose another with --out")


def write(results: Sequence[Certified], out: Path) -> list[Written]:
    """Certificate, page, and an index over every certificate in the folder.

    Errors: CertificateRejected, before anything is written, where one does not verify.
    """
    for result in results:
        check(result.certificate)
    written = []
    for result in results:
        name = result.mechanism.name
        files = Written(out / f"{name}.json", out / f"{name}.html")
        page = render_html(result.certificate)
        save(result.certificate, files.certificate)
        write_atomically(files.page, page.encode())
        written.append(files)
    write_atomically(out / "index.html", _index(out).encode())
    return written


def _index(out: Path) -> str:
    certificates = {}
    for path in sorted(out.glob("*.json")):
        try:
            certificate, _ = verified(path)
        except CertificateRejected:
            continue
        if path.with_suffix(".html").exists():
            certificates[f"{path.stem}.html"] = certificate
    return render_index(certificates)


def clean(results: Sequence[Certified], folder: Path) -> None:
    """Remove stored batches once their certificates are written; other runs' batches stay."""
    for result in results:
        if result.attacked is not None and result.attacked.stored is not None:
            shutil.rmtree(result.attacked.stored, ignore_errors=True)
    with contextlib.suppress(OSError):
        folder.rmdir()


def verified(path: Path) -> tuple[dict[str, Any], Confirmed]:
    """A certificate that fits the schema and follows from its witnesses.

    Errors: CertificateRejected naming what does not.
    """
    certificate = load(path)
    validate(certificate)
    return certificate, check(certificate)


def verify_file(path: Path) -> dict[str, Any]:
    """One row of `dpaudit verify`."""
    try:
        certificate, report = verified(path)
    except CertificateRejected as error:
        return {
            "file": str(path),
            "verified": False,
            "verdict": "",
            "reason": str(error),
            "confirmed": [],
            "on_trust": [],
        }
    return {
        "file": str(path),
        "verified": True,
        "verdict": certificate["predicate"]["verdict"]["status"],
        "reason": "",
        "confirmed": list(report.confirmed),
        "on_trust": list(report.on_trust),
    }


def render(path: Path, out: Path) -> Path:
    """The page of a certificate file, which must verify first."""
    certificate, _ = verified(path)
    page = out / f"{path.stem}.html"
    write_atomically(page, render_html(certificate).encode())
    return page
