"""Errata: that a release was corrected or withdrawn; its certificate itself never changes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from dpaudit.check.file import load, read
from dpaudit.report import render_html
from dpaudit.storage.files import write_together

LONGEST = 500  # characters of one erratum that are shown
MOST = 20  # errata that are shown


def errata_file(certificate: Path) -> Path:
    """Where the errata of a certificate are: text, one erratum a line."""
    return certificate.with_suffix(".errata.txt")


def errata_of(certificate: Path) -> tuple[str, ...]:
    """The errata beside a certificate; none where there is no such file."""
    try:
        lines = errata_file(certificate).read_text("utf-8", "replace").splitlines()
    except FileNotFoundError:
        return ()
    return tuple(line.strip()[:LONGEST] for line in lines if line.strip())[:MOST]


def write_errata(certificate: Path, errata: Sequence[str]) -> tuple[Path, ...]:
    """Write the errata of a certificate, and its page anew with them; the files.

    Errors: CertificateRejected for what is no certificate; OutputNotWritable.
    """
    from dpaudit.certificate.rendering import Signers, signed_by

    statement = load(certificate)
    signed = signed_by(read(certificate), Signers(), statement)
    page = certificate.with_suffix(".html")
    lines = [" ".join(line.split()) for line in errata]
    contents = {
        errata_file(certificate): "".join(f"{line}\n" for line in lines).encode(),
        page: render_html(statement, signed, errata=lines).encode(),
    }
    write_together(contents)
    return tuple(contents)
