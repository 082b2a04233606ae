"""Certificates as files for people and programs; one that is broken does not stop the others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dpaudit.certificate.errata import errata_of
from dpaudit.certificate.previous import Opened, previous_of
from dpaudit.check import SECONDS
from dpaudit.check.file import is_empirical
from dpaudit.check.process import verify_files
from dpaudit.errors import CertificateRejected, DpauditError, InvalidParameter, described
from dpaudit.proofs import accepted, cited, coqc, library, theorem_of, written
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
from dpaudit.report.verifier import beside
from dpaudit.report.view import build
from dpaudit.sign import (
    Identity,
    Key,
    Signed,
    bundled,
    envelope_of,
    read_bundle,
    read_envelope,
    service,
    signatures,
)
from dpaudit.storage.evidence import Evidence
from dpaudit.storage.files import MADE, write_made

# One file a certificate, and one over all that are given.
EACH = {
    "html": ".html",
    "pdf": ".pdf",
    "registry": ".registry.yaml",
    "badge": ".svg",
    "sbom": ".cdx.json",
    "coq": ".v",
}
TOGETHER = {
    "project": "project.html",
    "md": "report.md",
    "csv": "report.csv",
    "junit": "report.xml",
    "sarif": "report.sarif",
}
FORMATS = (*EACH, *TOGETHER)  # formats that `report` writes

Json = dict[str, Any]
Proved = dict[str, Sequence[str]]
# The folder of the proofs that exported certificates build on.
LIBRARY = "DPAudit"
COQ_MADE = f"(* {MADE} *)\n"  # the first line of a Coq file


@dataclass(frozen=True)
class Rendered:
    """The files that were written, and a line with an exit code for what could not be shown."""

    files: tuple[Path, ...]
    faults: tuple[tuple[str, int], ...]

    @property
    def exit_code(self) -> int:
        return max((code for _, code in self.faults), default=0)


@dataclass(frozen=True)
class Signers:
    """Who may have signed: keys, accounts with the roots of trust that vouch for them, and the
    time stamping authorities of which a key's signature then has to carry a token.
    """

    keys: Sequence[Key] = ()
    identities: Sequence[Identity] = ()
    root: Path | None = None
    authorities: Sequence[Any] = ()

    @property
    def ids(self) -> dict[str, str]:
        """The names of all, by their ids."""
        return {key.id: key.name for key in self.keys} | {
            identity.id: identity.name for identity in self.identities
        }


@dataclass
class _Job:
    out: Path
    formats: Sequence[str]
    spoken: str
    signers: Signers
    files: list[Path]
    faults: list[tuple[str, int]]

    def fault(self, path: Path, error: Exception) -> None:
        text = described(error)
        code = error.exit_code if isinstance(error, DpauditError) else 70
        self.faults.append((text if str(path) in text else f"{path}: {text}", code))

    def write(self, path: Path, content: bytes) -> None:
        write_made({path: content})
        self.files.append(path)


def render_files(
    paths: Sequence[Path],
    out: Path,
    formats: Sequence[str] = ("html",),
    *,
    spoken: str = "en",
    signers: Signers | None = None,
    seconds: float = SECONDS,
) -> Rendered:
    """Show certificates in the wanted formats; each must verify first, within ``seconds``.

    A file that is no certificate, has expired, or is given twice is a fault; the others are shown.
    A page says what changed since the certificate before, among those given and in their folders.
    Errors: InvalidParameter for an unknown format or language.
    """
    unknown = [name for name in formats if name not in FORMATS]
    if unknown:
        raise InvalidParameter(f"format {unknown[0][:20]!r}: expected {', '.join(FORMATS)}")
    job = _Job(out, formats, spoken, signers or Signers(), [], [])
    with speaking(spoken):
        shown: dict[str, Json] = {}
        signed: dict[str, Sequence[Signed]] = {}
        opened = Opened()
        readable = _readable(paths, job, opened, seconds)
        given = [certificate for _, certificate in readable]
        for file, certificate in readable:
            path = file.path
            try:
                signed[path.stem] = signed_by(file, job.signers, certificate)
                build(certificate)
            except (DpauditError, ValueError) as error:
                job.fault(path, error)
                continue
            shown[path.stem] = certificate
            previous = previous_of(certificate, given, (path.parent,), opened)
            _render(path, certificate, signed[path.stem], job, previous)
        _render_together(shown, signed, job)
    return Rendered(tuple(job.files), tuple(job.faults))


def signed_by(
    file: Evidence, signers: Signers, certificate: Mapping[str, Any]
) -> tuple[Signed, ...]:
    """Who signed the certificate in a file; nobody where no signatures are beside it.

    Errors: CertificateRejected for signatures of another certificate.
    """
    signed: list[Signed] = []
    envelope = read_envelope(envelope_of(file.path))
    if envelope is not None:
        signed += signatures(certificate, envelope, signers.keys, signers.authorities)
    bundle = read_bundle(file.path) if signers.identities else None
    if bundle is not None:
        verifier = service(signers.root)
        signed += [
            bundled(file, certificate, bundle, account, verifier) for account in signers.identities
        ]
    return tuple(signed)


def expired(certificate: Mapping[str, Any]) -> str:
    """The date on which a certificate expired; empty if it has not."""
    date = "".join(certificate["predicate"].get("fields", {}).get("expires", ()))
    return date if date and date < datetime.now(UTC).date().isoformat() else ""


def _readable(
    paths: Sequence[Path], job: _Job, opened: Opened, seconds: float
) -> list[tuple[Evidence, Json]]:
    """The certificates that verify, each certificate and each name once."""
    readable: list[tuple[Evidence, Json]] = []
    digests: dict[str, Path] = {}
    stems: dict[str, Path] = {}
    for verified in verify_files(list(map(opened.read, paths)), seconds):
        opened.hold(verified.file, verified=verified.row["verified"])
        path = verified.file.path
        try:
            certificate = verified.certificate
        except CertificateRejected as error:
            job.fault(path, error)
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
        readable.append((verified.file, certificate))
    return readable


def _render(
    path: Path,
    certificate: Json,
    signed: Sequence[Signed],
    job: _Job,
    previous: Json | None,
) -> None:
    """The files of one certificate; a format that cannot be made does not stop the others."""
    proved: Proved = {}
    make: dict[str, Callable[[], bytes]] = {
        "coq": lambda: _proof(path.stem, certificate, job, proved).encode(),
        "html": lambda: _page(path, certificate, signed, job, proved, previous).encode(),
        "pdf": lambda: render_pdf(_page(path, certificate, signed, job, proved, previous)),
        "registry": lambda: render_registry(certificate).encode(),
        "badge": lambda: render_badge(certificate).encode(),
        "sbom": lambda: render_sbom(certificate).encode(),
    }
    for name in filter(make.__contains__, job.formats):
        try:
            job.write(job.out / f"{path.stem}{EACH[name]}", make[name]())
        except (DpauditError, ValueError) as error:
            job.fault(path, error)


def _proof(name: str, certificate: Json, job: _Job, proved: Proved) -> str:
    """The Coq file of a certificate that verified; the library is written beside it.

    Where Coq is installed its kernel reads the file: ``proved`` is told what each claim rests on.
    """
    proof = written(certificate)
    for file, text in library().items():
        job.write(job.out / LIBRARY / file, f"{COQ_MADE}{text}".encode())
    if coqc():
        theorems = accepted(proof.text, proof.claims).claims
        rows = certificate["predicate"]["claims"]
        texts = {theorem_of(place): row["stated_text"] for place, row in enumerate(rows)}
        sources = cited()
        for claim, names in theorems.items():
            proved[texts[claim]] = [sources[hypothesis] for hypothesis in names]
    return COQ_MADE + proof.text


def _page(
    path: Path,
    certificate: Json,
    signed: Sequence[Signed],
    job: _Job,
    proved: Mapping[str, Sequence[str]],
    previous: Json | None,
) -> str:
    """A certificate's page; a membership audit has one of its own kind, with its curves."""
    if is_empirical(certificate):
        from dpaudit.report.membership import render

        return render(certificate, spoken=job.spoken, verifier=beside(job.out))
    return render_html(
        certificate,
        signed,
        proved,
        spoken=job.spoken,
        errata=errata_of(path),
        previous=previous,
        verifier=beside(job.out),
    )


def _render_together(
    shown: dict[str, Json],
    signed: Mapping[str, Sequence[Signed]],
    job: _Job,
) -> None:
    """Formats over all certificates, those that only measure among them."""
    pages = {f"{name}.html": certificate for name, certificate in shown.items()}
    # The index lists a fault by its file.
    failed = {text.split(": ", 1)[0]: text.split(": ", 1)[-1] for text, _ in job.faults}
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
