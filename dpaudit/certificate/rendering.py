"""Certificates as files for people and programs; one that is broken does not stop the others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dpaudit.certificate.publish import of_strangers
from dpaudit.check.file import is_empirical, load
from dpaudit.errors import CertificateRejected, DpauditError, InvalidParameter, described
from dpaudit.report import (
    render_badge,
    render_csv,
    render_html,
    render_index,
    render_junit,
    render_markdown,
    render_pdf,
    render_project,
    render_registry,
    render_sarif,
    render_sbom,
)
from dpaudit.report.say import speaking
from dpaudit.sign import Key, Signed, envelope_of, read_envelope, signatures
from dpaudit.storage.files import write_atomically

# One file a certificate, and one over all that are given.
EACH = {
    "html": ".html",
    "pdf": ".pdf",
    "registry": ".registry.yaml",
    "badge": ".svg",
    "sbom": ".cdx.json",
}
TOGETHER = {
    "project": "project.html",
    "md": "report.md",
    "csv": "report.csv",
    "junit": "report.xml",
    "sarif": "report.sarif",
}
FORMATS = (*EACH, *TOGETHER)

Json = dict[str, Any]


@dataclass(frozen=True)
class Rendered:
    """The files that were written, and a line with an exit code for what could not be shown."""

    files: tuple[Path, ...]
    faults: tuple[tuple[str, int], ...]

    @property
    def exit_code(self) -> int:
        return max((code for _, code in self.faults), default=0)


@dataclass
class _Job:
    out: Path
    formats: Sequence[str]
    spoken: str
    keys: Sequence[Key]
    files: list[Path]
    faults: list[tuple[str, int]]

    def fault(self, path: Path, error: Exception) -> None:
        text = described(error)
        code = error.exit_code if isinstance(error, DpauditError) else 70
        self.faults.append((text if str(path) in text else f"{path}: {text}", code))

    def write(self, path: Path, content: bytes) -> None:
        write_atomically(path, content)
        self.files.append(path)


def render_files(
    paths: Sequence[Path],
    out: Path,
    formats: Sequence[str] = ("html",),
    *,
    spoken: str = "en",
    keys: Sequence[Key] = (),
) -> Rendered:
    """Show certificates in the wanted formats; each must verify first.

    A file that is no certificate, has expired, or is given twice is a fault; the others are shown.
    Errors: InvalidParameter for an unknown format or language.
    """
    unknown = [name for name in formats if name not in FORMATS]
    if unknown:
        raise InvalidParameter(f"format {unknown[0][:20]!r}: expected {', '.join(FORMATS)}")
    job = _Job(out, formats, spoken, keys, [], [])
    with speaking(spoken):
        shown: dict[str, Json] = {}
        measured: dict[str, Json] = {}
        signed: dict[str, Sequence[Signed]] = {}
        for path, certificate in _readable(paths, job):
            if is_empirical(certificate):
                _render_empirical(path, certificate, job)
                measured[path.stem] = certificate
                continue
            try:
                signed[path.stem] = signed_by(path, keys, certificate)
                _render(path, certificate, signed[path.stem], job)
                shown[path.stem] = certificate
            except (DpauditError, ValueError) as error:
                job.fault(path, error)
        _render_together(shown, measured, signed, job)
    return Rendered(tuple(job.files), tuple(job.faults))


def signed_by(
    path: Path, keys: Sequence[Key], certificate: Mapping[str, Any] | None = None
) -> tuple[Signed, ...]:
    """Who signed the certificate in a file; nobody where no signatures are beside it.

    Errors: CertificateRejected for signatures of another certificate.
    """
    envelope = envelope_of(path)
    if not envelope.exists():
        return ()
    return signatures(certificate or load(path), read_envelope(envelope), keys)


def expired(certificate: Mapping[str, Any]) -> str:
    """The date on which a certificate expired; empty if it has not."""
    date = "".join(certificate["predicate"].get("fields", {}).get("expires", ()))
    return date if date and date < datetime.now(UTC).date().isoformat() else ""


def _readable(paths: Sequence[Path], job: _Job) -> list[tuple[Path, Json]]:
    """What verifies, each certificate and each name once."""
    found: list[tuple[Path, Json]] = []
    digests: dict[str, Path] = {}
    stems: dict[str, Path] = {}
    for path, certificate in of_strangers(paths):
        if isinstance(certificate, CertificateRejected):
            job.fault(path, certificate)
            continue
        digest = certificate["subject"][0]["digest"]["sha256"]
        other = digests.get(digest) or stems.get(path.stem)
        if other is not None:
            same = "the same certificate" if digest in digests else "the same name"
            text = f"{path}: {same} as {other}; give each once, under its own name"
            job.faults.append((text, CertificateRejected.exit_code))
            continue
        digests[digest], stems[path.stem] = path, path
        date = expired(certificate)
        if date:
            text = f"{path}: expired on {date}; certify again"
            job.faults.append((text, CertificateRejected.exit_code))
        found.append((path, certificate))
    return found


def _render_empirical(path: Path, certificate: Json, job: _Job) -> None:
    """A membership audit's page; it has no other form."""
    from dpaudit.membership.page import render

    if "html" in job.formats:
        job.write(job.out / f"{path.stem}.html", render(certificate).encode())


def _render(path: Path, certificate: Json, signed: Sequence[Signed], job: _Job) -> None:
    wanted = {name: job.out / f"{path.stem}{EACH[name]}" for name in job.formats if name in EACH}
    if "html" in wanted or "pdf" in wanted:
        page = render_html(certificate, signed, spoken=job.spoken)
        if "html" in wanted:
            job.write(wanted["html"], page.encode())
        if "pdf" in wanted:
            job.write(wanted["pdf"], render_pdf(page))
    if "registry" in wanted:
        job.write(wanted["registry"], render_registry(certificate).encode())
    if "sbom" in wanted:
        job.write(wanted["sbom"], render_sbom(certificate).encode())
    if "badge" in wanted:
        job.write(wanted["badge"], render_badge(certificate).encode())


def _render_together(
    shown: dict[str, Json],
    measured: dict[str, Json],
    signed: Mapping[str, Sequence[Signed]],
    job: _Job,
) -> None:
    """Formats over all; certificates that only measure are in indexes alone."""
    pages = {f"{name}.html": certificate for name, certificate in (shown | measured).items()}
    failed = dict(_by_file(job.faults))
    if "html" in job.formats and len(pages) > 1:
        index = render_index(pages, failed, spoken=job.spoken)
        job.write(job.out / "index.html", index.encode())
    texts: dict[str, Callable[[], str]] = {
        "project": lambda: render_project(
            pages, {f"{name}.html": s for name, s in signed.items()}, failed, spoken=job.spoken
        ),
        "md": lambda: render_markdown(shown, signed, spoken=job.spoken),
        "csv": lambda: render_csv(shown),
        "junit": lambda: render_junit(shown),
        "sarif": lambda: render_sarif(shown),
    }
    for name, make in texts.items():
        if name in job.formats:
            job.write(job.out / TOGETHER[name], make().encode())


def _by_file(faults: Sequence[tuple[str, int]]) -> list[tuple[str, str]]:
    """The faults as the index lists them: file and reason."""
    return [(text.split(": ", 1)[0], text.split(": ", 1)[-1]) for text, _ in faults]
