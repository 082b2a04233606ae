"""Archives: all that a certificate needs to be read and checked in ten years, in one ZIP file.

``SHA256SUMS`` lists every other file with its digest, in the format of ``sha256sum``, and
``README.txt`` says what each file is, and how to check it with and without dpaudit.  Nothing in an
archive is run, and nothing is fetched.
"""

from __future__ import annotations

import io
import re
import stat
import tempfile
import unicodedata
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import Any

from dpaudit.certificate.errata import errata_file, errata_of
from dpaudit.certificate.predicate import environment
from dpaudit.errors import CertificateRejected
from dpaudit.report import render_html
from dpaudit.report.pdf import archival_pdf
from dpaudit.report.say import LANGUAGES
from dpaudit.sign import Signed, envelope_of
from dpaudit.sign.bundle import bundle_of
from dpaudit.storage.evidence import Evidence

SUMS, README, SCHEMA = "SHA256SUMS", "README.txt", "certificate_schema.json"
CERTIFICATE, PUBLISHED, PLAN, PAGES = "certificate", "published", "plan", "pages"  # folders
MOST_FILES = 1_000  # files of an archive that is opened
MAX_UNPACKED_BYTES = 2 * 2**30  # Bytes of all files of an archive together, unpacked.
# The earliest time that a ZIP file can hold: archives do not depend on the clock.
_ZIP_EPOCH = (1980, 1, 1, 0, 0, 0)
_LINE = re.compile(r"([0-9a-f]{64})  ([^\n\\]+)")

Json = Mapping[str, Any]


@dataclass(frozen=True)
class Archive:
    """An archive that was opened: its certificate's file, and what is wrong with its files.

    ``published``: the folder of the output's files; None where it has none.
    """

    folder: Path
    certificate: Path
    published: Path | None
    faults: tuple[str, ...]

    def compared(
        self, certificate: Json, signed: tuple[Signed, ...]
    ) -> tuple[list[str], list[str]]:
        """The names of the files that follow from the certificate, and of those that do not.

        ``signed``: the signatures, which pages show.  Pages of another version do not follow.
        """
        rendered = _rendered(self.certificate, certificate, signed)
        same: list[str] = []
        other: list[str] = []
        for path in _files(self.folder):
            name = path.relative_to(self.folder).as_posix()
            if name.startswith((f"{CERTIFICATE}/", f"{PUBLISHED}/")) or name == SUMS:
                continue
            (same if rendered.get(name) == path.read_bytes() else other).append(name)
        return same, other


def is_archive(path: Path) -> bool:
    """Whether a path is that of a ZIP file, by its name, or of an unpacked archive.

    The file is not opened: what is checked is read once, by whoever reads it.
    """
    return (path / SUMS).is_file() if path.is_dir() else path.suffix.lower() == ".zip"


def archive_of(
    file: Evidence,
    certificate: Json,
    signed: tuple[Signed, ...],
    published: Mapping[str, bytes],
    plan: tuple[str, bytes] | None,
    pdfs: Mapping[str, bytes] | None = None,
) -> bytes:
    """The archive of a certificate that verifies, with its pages in every language.

    ``file``: as it was verified; its signatures, time stamps and sigstore's bundle lie beside it.
    ``signed``: the signatures, for the pages.  ``published``: the output's files, by name.
    ``pdfs``: the pages as PDF/A, from :func:`pdf_pages`.
    The same files give the same bytes.
    """
    contents = {f"{CERTIFICATE}/{file.path.name}": file.content}
    for beside in (envelope_of(file.path), bundle_of(file.path), errata_file(file.path)):
        if beside.is_file():
            contents[f"{CERTIFICATE}/{beside.name}"] = beside.read_bytes()
    contents |= _rendered(file.path, certificate, signed)
    contents |= {f"{PAGES}/{name}": content for name, content in (pdfs or {}).items()}
    contents |= {f"{PUBLISHED}/{name}": content for name, content in published.items()}
    if plan is not None:
        contents[f"{PLAN}/{plan[0]}"] = plan[1]
    contents[README] = _readme(file.path, certificate, sorted(contents)).encode()
    sums = "".join(f"{sha256(contents[name]).hexdigest()}  {name}\n" for name in sorted(contents))
    return _zipped({**contents, SUMS: sums.encode()})


def pdf_pages(path: Path, certificate: Json, signed: tuple[Signed, ...]) -> dict[str, bytes]:
    """The pages of an archive as PDF/A, one a language; errata beside ``path`` come first.

    Errors: InvalidParameter if the library of the extra ``pdf`` is missing.
    """
    errata = errata_of(path)
    return {
        f"{path.stem}.{spoken}.pdf": archival_pdf(
            render_html(certificate, signed, spoken=spoken, errata=errata)
        )
        for spoken in LANGUAGES
    }


def _rendered(path: Path, certificate: Json, signed: tuple[Signed, ...]) -> dict[str, bytes]:
    """The files of an archive that follow from its certificate: the pages, and the schema."""
    errata = errata_of(path)
    pages = {
        f"{PAGES}/{path.stem}.{spoken}.html": render_html(
            certificate, signed, spoken=spoken, errata=errata
        ).encode()
        for spoken in LANGUAGES
    }
    return {**pages, SCHEMA: (Path(__file__).parents[1] / SCHEMA).read_bytes()}


@contextmanager
def opened(path: Path) -> Iterator[Archive]:
    """An archive's files, unpacked into a folder of their own that is removed afterwards.

    Errors: CertificateRejected for a ZIP file with paths that lead out of it, links, too many files
    or bytes, or none or several certificates.
    """
    if path.is_dir():
        yield _archive(path, path)
        return
    with tempfile.TemporaryDirectory(prefix="dpaudit-") as folder:
        _unpack(path, Path(folder))
        yield _archive(path, Path(folder))


def _unpack(path: Path, folder: Path) -> None:
    """Write an archive's files into a folder.

    Errors: CertificateRejected for too many or too large files, and for names that leave the folder
    or that some file systems take for one.
    """
    try:
        with zipfile.ZipFile(path) as source:
            entries = source.infolist()
            names_taken: set[str] = set()
            if (
                len(entries) > MOST_FILES
                or sum(entry.file_size for entry in entries) > MAX_UNPACKED_BYTES
            ):
                raise CertificateRejected(
                    f"{path}: more than {MOST_FILES} files or {MAX_UNPACKED_BYTES} bytes"
                )
            for entry in entries:
                # Some file systems and programs take names for one that differ in case alone.
                name = unicodedata.normalize("NFKC", entry.filename).casefold()
                if not _is_plain(entry) or name in names_taken:
                    raise CertificateRejected(
                        f"{path}: {entry.filename[:80]!r} is no plain file of a name of its own"
                    )
                names_taken.add(name)
                target = folder / entry.filename
                target.parent.mkdir(parents=True, exist_ok=True)
                with source.open(entry) as stream:
                    content = stream.read(entry.file_size + 1)
                if len(content) > entry.file_size:
                    raise CertificateRejected(
                        f"{path}: {entry.filename[:80]!r} is larger than said"
                    )
                target.write_bytes(content)
    except CertificateRejected:
        raise
    except Exception as error:  # noqa: BLE001  (each method of compression has errors of its own)
        raise CertificateRejected(
            f"{path}: not read as an archive ({type(error).__name__}); ask for it again"
        ) from None


def _is_plain(entry: zipfile.ZipInfo) -> bool:
    place = PurePosixPath(entry.filename)
    kind = stat.S_IFMT(entry.external_attr >> 16)
    inside = not place.is_absolute() and ".." not in place.parts and "\\" not in entry.filename
    # "a//b" and "a/./b" are names of the file a/b too.
    spelled = str(place) == entry.filename and entry.filename.isprintable()
    return inside and spelled and not entry.is_dir() and kind in (0, stat.S_IFREG)


def _archive(path: Path, folder: Path) -> Archive:
    paths = sorted((folder / CERTIFICATE).glob("*.json"))
    paths = [file for file in paths if not file.name.endswith(".sigstore.json")]
    if len(paths) != 1:
        raise CertificateRejected(
            f"{path}: {len(paths)} certificates in {CERTIFICATE}/; expected an archive of one, "
            "which `dpaudit report --format archive` makes"
        )
    published = folder / PUBLISHED
    return Archive(
        folder, paths[0], published if published.is_dir() else None, tuple(_faults(folder))
    )


def _faults(folder: Path) -> Iterator[str]:
    """The files that are not as ``SHA256SUMS`` says, one line each."""
    try:
        lines = (folder / SUMS).read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        yield f"{SUMS}: missing, or no text"
        return
    listed = {}
    for line in lines:
        match = _LINE.fullmatch(line)
        if match is None:
            yield f"{SUMS}: no line of a digest and a name: {line[:80]!r}"
        else:
            listed[match[2]] = match[1]
    present = {path.relative_to(folder).as_posix(): path for path in _files(folder)}
    for name, digest in listed.items():
        if name not in present:
            yield f"{name}: missing from the archive"
        elif sha256(present[name].read_bytes()).hexdigest() != digest:
            yield f"{name}: altered since the archive was made (another SHA-256)"
    for name in present.keys() - listed.keys() - {SUMS}:
        yield f"{name}: not of this archive"


def _files(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.rglob("*")) if not path.is_dir()]


def _zipped(contents: Mapping[str, bytes]) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(contents):
            entry = zipfile.ZipInfo(name, _ZIP_EPOCH)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (stat.S_IFREG | 0o644) << 16
            archive.writestr(entry, contents[name])
    return target.getvalue()


def _readme(file: Path, certificate: Json, names: list[str]) -> str:
    """The archive's README: what each folder holds, and how to verify it."""
    predicate, now = certificate["predicate"], environment()
    output = (predicate["run"] or {}).get("output")
    folders = {name.partition("/")[0] for name in names}
    contents = {
        PAGES: "pages in three languages: what was published, who is protected, how well",
        CERTIFICATE: "the certificate (.json), which is decisive; signatures, time stamps (.dsse)",
        PUBLISHED: "the files that were published",
        PLAN: "the plan of the release: the table's schema, the budget and the items",
    }
    return _README.format(
        title=predicate["scope"]["title"],
        begin=_PDF if any(name.endswith(".pdf") for name in names) else _PRINT,
        folders="\n".join(
            f"  {name + '/':<14}{text}" for name, text in contents.items() if name in folders
        ),
        output=f"\n{_OUTPUT.format(name=output['name'])}" if output else "",
        dpaudit=now["dpaudit"],
        python=now["python"],
        platform=now["platform"],
        packages=", ".join(f"{name} {version}" for name, version in now["packages"].items()),
        name=file.name,
        maker=predicate["environment"]["dpaudit"],
        issued=predicate["issued"],
        digest=certificate["subject"][0]["digest"]["sha256"],
        files="\n".join(f"  {name}" for name in [*names, README, SUMS]),
    )


_PRINT = "open it in any browser. For paper or PDF, print it from there."
_PDF = "the .html in any browser, or the .pdf (PDF/A-1b, ISO 19005-1) in any reader of PDF."
_OUTPUT = """\
  3. predicate.run.output in the certificate has the SHA-256 of published/{name}."""
_README = """\
{title}

This archive holds what somebody needs to read and to check the certificate of a differentially
private release, without any other file and without a network.

WHAT IS IN IT
{folders}
  certificate_schema.json   the form of a certificate, as JSON Schema
  SHA256SUMS    the SHA-256 of every file here but of itself

Begin with a page: {begin}

HOW TO CHECK IT WITHOUT DPAUDIT
  1. Unpack it and run `sha256sum -c SHA256SUMS` (macOS: `shasum -a 256 -c SHA256SUMS`). Every
     file must be OK. Whoever can write an archive can also write its sums: compare the SHA-256
     of the archive itself with one that was noted elsewhere, such as in a register.
  2. In the certificate, subject[0].digest.sha256 is the SHA-256 of the value of `predicate`,
     written as canonical JSON (RFC 8785).{output}

HOW TO CHECK IT WITH DPAUDIT
  pip install dpaudit=={dpaudit}   (or later)
  dpaudit verify THIS-ARCHIVE.zip

  It compares every file with its digest, derives every number of the certificate again from the
  theorems that it names, and compares the published tables cell by cell. Nothing in the archive
  is run. `--key NAME=FILE` asks for a signature, `--set authority=FILE` for a time stamp. Fields
  that nobody can derive from the files are listed as "not checked". Files that it cannot make again
  from the certificate, such as pages of another version, are listed as "on trust".

WITH WHAT IT WAS MADE
  The archive and its pages: dpaudit {dpaudit}, Python {python}, {platform},
  {packages}
  The certificate {name}: dpaudit {maker}, issued {issued}, digest
  {digest}

FILES
{files}
"""
