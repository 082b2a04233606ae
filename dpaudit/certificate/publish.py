"""Files: certificates and their pages, written whole or not at all, and read back to verify."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from dpaudit.certificate.cache import Files, files_of, holds, identity, remember
from dpaudit.certificate.certificate import Json, load, save, surprises, validate
from dpaudit.certificate.certify import Certified, Run
from dpaudit.check import Confirmed, check
from dpaudit.check.empirical import EMPIRICAL, ConfirmedEmpirical, check_empirical
from dpaudit.errors import TRACEBACK, CertificateRejected, OutputNotWritable, described
from dpaudit.report import render_html, render_index
from dpaudit.storage.files import write_atomically

Result = TypeVar("Result")


@dataclass(frozen=True)
class Finished:
    """A certificate of a run over a whole project, made now or ``kept`` from an earlier run.

    ``surprises``: where a verdict is not the one that the mechanism expects, one line a claim.
    """

    name: str
    certificate: Json
    files: Files
    kept: bool
    surprises: tuple[str, ...]


@dataclass(frozen=True)
class Failed:
    """A mechanism of such a run that could not be certified."""

    name: str
    error: Exception


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


def write(results: Sequence[Certified], out: Path) -> list[Files]:
    """Certificate, page, and an index over every certificate in the folder.

    Errors: CertificateRejected, before anything is written, where one does not verify.
    """
    for result in results:
        check(result.certificate)
    written = [_write(result, out) for result in results]
    write_atomically(out / "index.html", _index(out).encode())
    return written


def _write(result: Certified, out: Path) -> Files:
    files = files_of(result.mechanism.name, out)
    page = render_html(result.certificate)
    save(result.certificate, files.certificate)
    write_atomically(files.page, page.encode())
    return files


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


def certify_each(run: Run, out: Path) -> Iterator[Finished | Failed]:
    """Every mechanism of a run: first what an earlier run made and still verifies, then the rest.

    Each is written as soon as it is finished, so that a run that was killed goes on where it was;
    one that fails does not stop the others.
    Errors: OutputNotWritable.
    """
    missing = []
    for index in range(len(run.orders)):
        found = _guarded(_find, run, index, out)
        if found is None:
            missing.append(index)
        else:
            yield found
    for index in missing:
        yield _guarded(_make, run, index, out)


def _guarded(
    call: Callable[[Run, int, Path], Result], run: Run, index: int, out: Path
) -> Result | Failed:
    """What the call returns, or that it failed; errors: OutputNotWritable, which stops the run."""
    try:
        return call(run, index, out)
    except OutputNotWritable:
        raise
    except Exception as error:
        if os.environ.get(TRACEBACK):
            raise
        return Failed(run.orders[index].mechanism.name, error)


def _find(run: Run, index: int, out: Path) -> Finished | None:
    """What an earlier run made of the same, if it is as it was written and verifies."""
    files = files_of(run.orders[index].mechanism.name, out)
    if not holds(files, identity(run, index)):
        return None
    try:
        certificate, _ = verified(files.certificate)
    except CertificateRejected:
        return None
    return _finished(run, index, certificate, out, kept=True)


def _make(run: Run, index: int, out: Path) -> Finished:
    made_from = identity(run, index)
    result = run.certify(index)
    check(result.certificate)
    remember(_write(result, out), made_from)
    if run.options.store is not None:
        clean([result], run.options.store)
    return _finished(run, index, result.certificate, out, kept=False)


def _finished(run: Run, index: int, certificate: Json, out: Path, *, kept: bool) -> Finished:
    mechanism = run.orders[index].mechanism
    surprised = surprises(certificate, mechanism.expectations)
    return Finished(mechanism.name, certificate, files_of(mechanism.name, out), kept, surprised)


def write_index(finished: Iterable[Finished | Failed], out: Path) -> Path:
    """The index of a run over a whole project: one row a claim, and what could not be certified."""
    finished = sorted(finished, key=lambda one: one.name)
    made = {one.files.page.name: one.certificate for one in finished if isinstance(one, Finished)}
    failed = {one.name: described(one.error) for one in finished if isinstance(one, Failed)}
    page = out / "index.html"
    write_atomically(page, render_index(made, failed).encode())
    return page


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


def verified_empirical(path: Path) -> tuple[dict[str, Any], ConfirmedEmpirical]:
    """A membership audit's certificate that fits its schema and follows from its counts.

    Errors: CertificateRejected naming what does not.
    """
    from dpaudit.membership import certificate as empirical

    content = load(path)
    empirical.validate(content)
    return content, check_empirical(content)


def is_empirical(path: Path) -> bool:
    """Whether a file holds a membership audit's certificate; errors: CertificateRejected."""
    return bool(load(path).get("predicateType") == EMPIRICAL)


def verify_file(path: Path) -> dict[str, Any]:
    """One row of `dpaudit verify`."""
    certificate: dict[str, Any]
    report: Confirmed | ConfirmedEmpirical
    try:
        if is_empirical(path):
            certificate, report = verified_empirical(path)
        else:
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
