"""Errata: that a release was corrected or withdrawn; its certificate itself never changes."""

from __future__ import annotations

from pathlib import Path

MAX_ERRATUM = 500  # Characters of one erratum that are shown.
MAX_ERRATA = 20  # Errata that are shown.


def errata_file(certificate: Path) -> Path:
    """Where the errata of a certificate are: text, one erratum a line."""
    return certificate.with_suffix(".errata.txt")


def errata_of(certificate: Path) -> tuple[str, ...]:
    """The errata beside a certificate; none where there is no such file."""
    try:
        lines = errata_file(certificate).read_text("utf-8", "replace").splitlines()
    except FileNotFoundError:
        return ()
    return tuple(line.strip()[:MAX_ERRATUM] for line in lines if line.strip())[:MAX_ERRATA]
