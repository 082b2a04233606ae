"""`dpaudit report --format archive`: all of a certificate in one file, for ten years."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dpaudit.errors import CertificateRejected, InvalidParameter, described

if TYPE_CHECKING:
    from dpaudit.certificate.rendering import Signers

NOT_NAMED = ": not named by the certificate"  # how a difference ends that an archive leaves out


@dataclass(frozen=True)
class Made:
    """An archive: its file, SHA-256, and the names of the published files in it."""

    file: str
    sha256: str
    published: list[str]

    def __str__(self) -> str:
        return f"{self.file}\nSHA-256 {self.sha256}: note it where nobody changes it"


def archived(
    file: Path,
    out: Path,
    signers: Signers,
    plan: Path | None,
    published: Path | None,
    seconds: float,
) -> Made:
    """Put a certificate and all that belongs to it into one ZIP file of a folder, to be kept.

    It holds pages in every language (HTML and PDF/A), the certificate, signatures and time stamps,
    the published files, the plan, versions, and a README.
    Errors: CertificateRejected if the certificate does not verify, or published files are not those
    that it names; InvalidParameter for another plan, or another file of the archive's name.
    """
    from dpaudit.certificate.archive import archive_of, pdf_pages
    from dpaudit.certificate.rendering import signed_by
    from dpaudit.check.file import read
    from dpaudit.check.process import verify_files
    from dpaudit.storage.files import write_new

    (verified,) = verify_files([read(file)], seconds)
    certificate = verified.certificate
    signed = signed_by(verified.file, signers, certificate)
    outputs = _outputs(file, certificate, published)
    planned = None if plan is None else (plan.name, _plan(plan, certificate))
    target = out / f"{file.stem}.zip"
    try:
        pdfs = pdf_pages(file, certificate, signed)
    except InvalidParameter as error:
        click.echo(f"dpaudit: the archive's pages are HTML alone: {described(error)}", err=True)
        pdfs = {}
    content = archive_of(verified.file, certificate, signed, outputs, planned, pdfs)
    try:
        write_new(target, content)
    except FileExistsError:
        if not target.is_file() or target.read_bytes() != content:
            raise InvalidParameter(
                f"{target}: there is another file of this name; give another folder with --out"
            ) from None
    return Made(str(target), sha256(content).hexdigest(), sorted(outputs))


def _outputs(file: Path, certificate: Mapping[str, Any], folder: Path | None) -> dict[str, bytes]:
    """The published files that the certificate names, by name.

    Errors: CertificateRejected for files that are missing, or not those; InvalidParameter for a
    folder although the certificate names none.
    """
    run = certificate["predicate"].get("run")
    output = None if run is None else run["output"]
    if output is None:
        if folder is not None:
            raise InvalidParameter(f"published = {folder}: the certificate names no output")
        return {}
    from dpaudit.releases.published import differences, names_of

    places = [file.parent, file.parent.parent] if folder is None else [folder]
    place = next((place for place in places if (place / output["name"]).is_file()), None)
    if place is None:
        raise CertificateRejected(
            f"{file}: its output {output['name']} lies neither beside it nor above; name its "
            "folder with published="
        )
    differing = differences(certificate, file, place)
    wrong = [text for text in differing if not text.endswith(NOT_NAMED)]
    if wrong:
        raise CertificateRejected(f"{place}: {wrong[0]}; archive what was published")
    return {name: (place / name).read_bytes() for name in names_of(certificate, place)}


def _plan(path: Path, certificate: Mapping[str, Any]) -> bytes:
    """The plan's text; errors: InvalidParameter for another plan than the certificate's."""
    from dpaudit.releases.plan import load_plan

    files = certificate["predicate"]["mechanism"]["implementation"]
    digests = [file["digest"]["sha256"] for file in files if file["name"] == "plan"]
    if load_plan(path).digest not in digests:
        raise InvalidParameter(f"plan = {path}: another plan than the certificate's")
    return path.read_bytes()
