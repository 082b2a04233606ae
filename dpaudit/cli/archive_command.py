"""`dpaudit archive`: one file that a certificate can be read and checked from in ten years."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import click

from dpaudit.cli.commands import as_json_option, echo_json
from dpaudit.cli.compliance_commands import known_signers, signers_options
from dpaudit.errors import CertificateRejected, InvalidParameter, described

NOT_NAMED = ": not named by the certificate"  # how a difference ends that an archive leaves out


@click.command("archive")
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--out", type=click.Path(dir_okay=False, path_type=Path), help="By default FILE's name, .zip."
)
@click.option(
    "--published",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="The folder of the published files; by default that of the certificate, or the one above.",
)
@click.option(
    "--plan",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The plan of the release.",
)
@signers_options
@as_json_option
def archive(
    file: Path,
    *,
    out: Path | None,
    published: Path | None,
    plan: Path | None,
    as_json: bool,
    **given: Any,
) -> None:
    """Put the certificate FILE and all that belongs to it into one ZIP file, to be kept.

    It holds pages in every language (HTML and PDF/A), the certificate, signatures and time stamps,
    the published files, the plan, versions, and a README.  The certificate must verify, and the
    published files must be those that it names.  `dpaudit verify ARCHIVE.zip` checks all of it,
    without a network.
    """
    from dpaudit.certificate.archive import archive_of, pdf_pages
    from dpaudit.certificate.rendering import signed_by
    from dpaudit.check.file import read
    from dpaudit.check.process import verify_files
    from dpaudit.storage.files import write_new

    if out is not None and out.suffix.lower() != ".zip":
        raise InvalidParameter(f"--out {out}: expected a name that ends in .zip")
    (one,) = verify_files([read(file)])
    certificate = one.certificate
    signed = signed_by(one.file, known_signers(**given), certificate)
    outputs = _outputs(file, certificate, published)
    planned = None if plan is None else (plan.name, _plan(plan, certificate))
    target = out or file.with_suffix(".zip")
    try:
        pdfs = pdf_pages(file, certificate, signed)
    except InvalidParameter as error:
        click.echo(f"dpaudit: the archive's pages are HTML alone: {described(error)}", err=True)
        pdfs = {}
    content = archive_of(one.file, certificate, signed, outputs, planned, pdfs)
    try:
        write_new(target, content)
    except FileExistsError:
        if not target.is_file() or target.read_bytes() != content:
            raise InvalidParameter(
                f"{target}: there is another file of this name; give another with --out"
            ) from None
    digest = sha256(content).hexdigest()
    if as_json:
        echo_json({"file": str(target), "sha256": digest, "published": sorted(outputs)})
    else:
        click.echo(f"{target}\nSHA-256 {digest}: note it where nobody changes it")


def _outputs(file: Path, certificate: Mapping[str, Any], folder: Path | None) -> dict[str, bytes]:
    """The published files that the certificate names, by name.

    Errors: CertificateRejected for files that are missing, or not those; InvalidParameter for a
    folder although the certificate names none.
    """
    run = certificate["predicate"].get("run")
    output = None if run is None else run["output"]
    if output is None:
        if folder is not None:
            raise InvalidParameter(f"--published {folder}: the certificate names no output")
        return {}
    from dpaudit.releases.published import differences, names_of

    places = [file.parent, file.parent.parent] if folder is None else [folder]
    place = next((one for one in places if (one / output["name"]).is_file()), None)
    if place is None:
        raise CertificateRejected(
            f"{file}: its output {output['name']} lies neither beside it nor above; name its "
            "folder with --published"
        )
    found = differences(certificate, file, place)
    wrong = [text for text in found if not text.endswith(NOT_NAMED)]
    if wrong:
        raise CertificateRejected(f"{place}: {wrong[0]}; archive what was published")
    return {name: (place / name).read_bytes() for name in names_of(certificate, place)}


def _plan(path: Path, certificate: Mapping[str, Any]) -> bytes:
    """The plan's text; errors: InvalidParameter for another plan than the certificate's."""
    from dpaudit.releases.plan import load_plan

    files = certificate["predicate"]["mechanism"]["implementation"]
    digests = [one["digest"]["sha256"] for one in files if one["name"] == "plan"]
    if load_plan(path).digest not in digests:
        raise InvalidParameter(f"--plan {path}: another plan than the certificate's")
    return path.read_bytes()
