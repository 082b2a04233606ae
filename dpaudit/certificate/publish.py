"""Files: certificates and their pages, written whole or not at all, and read back to verify."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import io
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import partial
from numbers import Number
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from dpaudit.audit.workers import forks, in_forks, sendable
from dpaudit.certificate.cache import Files, files_of, holds, identity, remember
from dpaudit.certificate.certificate import Json, file_bytes, surprises
from dpaudit.certificate.certify import Certified, certify_one
from dpaudit.certificate.order import Run
from dpaudit.certificate.own_check import check_own
from dpaudit.certificate.previous import Opened, previous_of
from dpaudit.check import Confirmed, check
from dpaudit.check.file import is_empirical, load, parsed, read, validate
from dpaudit.errors import (
    TRACEBACK,
    CertificateRejected,
    OutputNotWritable,
    ReleaseInterrupted,
    described,
)
from dpaudit.report import render_html, render_index
from dpaudit.report.verifier import beside
from dpaudit.storage.evidence import Evidence
from dpaudit.storage.files import writable, write_made, write_new, write_together

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


def unused(name: str, out: Path) -> Files:
    """Where files of this name go: a release stays, and the next one is ``NAME-2``.

    A release is a run with the operating system's entropy, whose output cannot be drawn again.
    """
    files, number = files_of(name, out), 2
    while _is_release(files.certificate) or _output(files).exists():
        files, number = files_of(f"{name}-{number}", out), number + 1
    return files


def finished(name: str, out: Path) -> None:
    """Check that no run of this name was interrupted between its draw and its certificate.

    Errors: ReleaseInterrupted, for who runs it again would publish a second answer in silence.
    """
    files, number = files_of(name, out), 2
    while _output(files).exists():
        if not files.certificate.exists():
            raise ReleaseInterrupted(
                f"{_output(files)} has no certificate: a run was interrupted after it drew, or "
                "runs now. Its budget is spent; to draw anew, which spends again, move it away"
            )
        files, number = files_of(f"{name}-{number}", out), number + 1


def places_for(names: Iterable[str], out: Path) -> None:
    """Make the folder, before any work, and test that files of these names may be written there.

    Errors: OutputNotWritable, also where somebody else made a file of one of the names.
    """
    files = [path for name in names for path in vars(unused(name, out)).values()]
    writable(out, [path.name for path in files] + ["index.html"])


def _is_release(path: Path) -> bool:
    if not path.exists():
        return False
    try:
        run = load(path)["predicate"]["run"]
        return bool(run and not run["entropy"].startswith("seed "))
    except (CertificateRejected, LookupError, TypeError, AttributeError):
        return False


def _output(files: Files) -> Path:
    return files.certificate.with_suffix(".npz")


def keeper(out: Path) -> Callable[[str, Callable[[], Any]], tuple[Any, Json]]:
    """Writes the output of a release beside where its certificate will go, once it is drawn.

    Returns the output, and its file's name and digest.  An existing file is never replaced, and
    values that cannot be written there are kept elsewhere: their privacy is spent.
    """

    def keep(name: str, draw: Callable[[], Any]) -> tuple[Any, Json]:
        finished(name, out)
        output = draw()
        content = output_bytes(output)
        while True:
            path = _output(unused(name, out))
            try:
                write_new(path, content)
            except FileExistsError:
                continue  # another process took the name
            except OutputNotWritable as error:
                sys.stderr.write(f"dpaudit: {error}; {rescued({path: content})}\n")
            break
        return output, output_row(path.name, content)

    return keep


def output_bytes(output: Any) -> bytes:
    """A program's output as the bytes of an .npz file, an array or number by its place in it.

    Nothing is left out, for it cannot be drawn again: what is neither array nor number inside is
    kept as text, and named on standard error.
    """
    stream = io.BytesIO()
    np.savez(stream, **_arrays(output))
    return stream.getvalue()


def output_row(name: str, content: bytes) -> Json:
    """An output's file as certificates name it."""
    return {"name": name, "digest": {"sha256": hashlib.sha256(content).hexdigest()}}


def rescued(contents: Mapping[Path, bytes]) -> str:
    """Where files of a release went instead: a folder of their own, or else standard error."""
    try:
        folder = Path(tempfile.mkdtemp(prefix="dpaudit-release-"))
        write_together({folder / path.name: content for path, content in contents.items()})
    except (OSError, OutputNotWritable):
        for path, content in contents.items():
            text = base64.b64encode(content).decode()
            sys.stderr.write(f"{path.name}, in base64:\n{text}\n")
        return "it could be written nowhere and is on standard error in base64; keep it"
    names = ", ".join(path.name for path in contents)
    return f"{names} is in {folder} instead; keep it, for a release cannot be drawn again"


def _arrays(output: Any) -> dict[str, Any]:
    """Arrays and numbers inside an output, by their place in it; exact numbers as text.

    Everything that an object holds counts as inside.  The second place of an object that occurs
    twice, or that holds itself, refers to the first.
    """
    arrays: dict[str, Any] = {}
    first: dict[int, tuple[str, Any]] = {}  # held, so that no other object gets its id
    waiting = [("output", output)]
    while waiting:
        place, value = waiting.pop()
        while place in arrays:
            place += "_"
        inside = _inside(value)
        if inside is None:
            arrays[place] = _leaf(value, place)
        elif id(value) in first:
            arrays[place] = np.asarray(f"as {first[id(value)][0]}")
        else:
            first[id(value)] = place, value
            waiting += [(f"{place}.{_in_zip(key)}", item) for key, item in reversed(inside)]
    return arrays


def _inside(value: Any) -> list[tuple[str, Any]] | None:
    """Members of a container or object, by name; None for a value that is written as a whole."""
    if isinstance(value, Mapping):
        return [(str(key), item) for key, item in value.items()]
    if isinstance(value, (list, tuple, set, frozenset)):
        return [(str(number), item) for number, item in enumerate(value)]
    if is_dataclass(value) and not isinstance(value, type):
        return [(field.name, getattr(value, field.name)) for field in fields(value)]
    if isinstance(value, (Number, str, bytes, np.generic, type)) or hasattr(value, "__array__"):
        return None
    attributes = getattr(value, "__dict__", {})
    slots = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
    attributes = {
        **{name: getattr(value, name) for name in slots if hasattr(value, name)},
        **attributes,
    }
    return list(attributes.items()) or None


def _in_zip(key: str) -> str:
    """A key as part of a name that a zip file can hold."""
    return key.encode("utf-8", "backslashreplace").decode().replace("\0", "\\0")


def _leaf(value: Any, place: str) -> Any:
    """An array that is written without pickling; text of what is no number."""
    if isinstance(value, bytes):  # an array of texts would end at a zero byte
        return np.frombuffer(value, np.uint8)
    try:
        # Tensors that are trained give no array before they are detached.
        array = np.asarray(value.detach().cpu() if hasattr(value, "detach") else value)
        if not array.dtype.hasobject:
            return array
        if array.size and all(isinstance(item, Number) for item in array.flat):
            return np.asarray([str(item) for item in array.flat]).reshape(array.shape)
        text = np.asarray([repr(item) for item in array.flat]).reshape(array.shape)
    except Exception as error:  # noqa: BLE001  (whatever an object raises, the rest is kept)
        text = np.asarray(f"{type(value).__name__}, of which no text could be made")
        sys.stderr.write(f"dpaudit: {place}: {type(error).__name__}\n")
    sys.stderr.write(f"dpaudit: {place}: {type(value).__name__} is no number, kept as text\n")
    return text


def index_of(
    out: Path,
    checked: Mapping[Path, dict[str, Any]] | None = None,
    opened: Opened | None = None,
) -> Path:
    """Write the index over every certificate in a folder that has a page and verifies.

    ``checked``: those that this process has just checked and written, which are not checked again.
    ``opened``: those that this command has opened, which are not opened again.
    """
    opened = opened or Opened()
    certificates = {}
    for path in sorted(out.glob("*.json")):
        try:
            certificate = (checked or {}).get(path) or confirmed(opened.read(path))[0]
        except CertificateRejected:
            continue
        if path.with_suffix(".html").exists() and not is_empirical(certificate):
            certificates[f"{path.stem}.html"] = certificate
    page = out / "index.html"
    write_made({page: render_index(certificates).encode()})
    return page


def write_one(
    result: Certified,
    out: Path,
    store: Path | None = None,
    name: str | None = None,
    folders: Sequence[Path] = (),
    opened: Opened | None = None,
) -> Files:
    """A certificate and its page; beside its output, and named like it, where one was drawn.

    ``store``: where the audits' finished batches are.  ``name``: of the files, instead of these.
    ``folders``: where, besides ``out``, the certificate before this one may be.
    ``opened``: the certificates that this command has opened; this one is put among them.
    Errors: InternalError, before anything is written, where it fails our own check.
    """
    check_own(result.certificate, store)
    run = result.certificate["predicate"]["run"]
    output = run.get("output") if run else None
    if output:
        files = files_of(name or Path(output["name"]).stem, out)
    else:
        files = unused(name or result.mechanism.name, out)
    opened = opened or Opened()
    previous = previous_of(result.certificate, folders=(out, *folders), opened=opened)
    page = render_html(result.certificate, previous=previous, verifier=beside(out)).encode()
    contents = {files.page: page, files.certificate: file_bytes(result.certificate)}
    try:
        write_made(contents)
    except OutputNotWritable as error:
        if output is None:
            raise
        raise OutputNotWritable(f"{error}; {rescued(contents)}") from None
    opened.hold(Evidence(files.certificate, contents[files.certificate]), verified=True)
    return files


def with_output(result: Certified, out: Path) -> None:
    """Check that the output which a certificate names lies beside it.

    Errors: OutputNotWritable where it had to be put elsewhere.
    """
    run = result.certificate["predicate"]["run"]
    drawn = run.get("output") if run else None
    if drawn and not (out / drawn["name"]).exists():
        raise OutputNotWritable(
            f"{out / drawn['name']}: it could not be written when it was drawn; move it there from "
            "the place named above"
        )


def certify_each(
    run: Run, out: Path, *, keep: bool, opened: Opened | None = None
) -> Iterator[Finished | Failed]:
    """Certify every mechanism of a run; one that fails does not stop the others.

    Each is written as soon as it is finished, so that a run that was killed goes on where it was.
    ``keep``: certificates that an earlier run made of the same, and that verify, come first and are
    not made again.  ``opened``: the certificates that this command has opened.
    Several mechanisms with a seed are divided among processes, where these can be forked; a release
    is drawn in this one.
    Errors: OutputNotWritable.
    """
    opened = opened or Opened()
    missing = []
    for index in range(len(run.orders)):
        earlier = guarded(partial(_find, opened=opened), run, index, out) if keep else None
        if earlier is None:
            missing.append(index)
        else:
            yield earlier
    make = partial(guarded, partial(_make, keep=keep, opened=opened))
    draws = run.options.seed is None or any(order.draw for order in run.orders)
    if draws or run.options.jobs < 2 or len(missing) < 2 or not forks():
        for index in missing:
            yield make(run, index, out)
        return
    alone = replace(run, options=replace(run.options, jobs=1, progress=None))
    made = in_forks(lambda index: _sent(make(alone, index, out)), missing, run.options.jobs)
    for index, result in made:
        if isinstance(result, OutputNotWritable):
            raise result
        if isinstance(result, Exception):
            result = Failed(run.orders[index].mechanism.name, result)
        elif isinstance(result, Finished):
            # It was checked before it was written.
            opened.hold(read(result.files.certificate), verified=True)
        yield result


def guarded(
    call: Callable[[Run, int, Path], Result], run: Run, index: int, out: Path
) -> Result | Failed:
    """The call's result, or its failure; errors: OutputNotWritable, which stops the run."""
    try:
        return call(run, index, out)
    except OutputNotWritable:
        raise
    except Exception as error:
        if os.environ.get(TRACEBACK):
            raise
        return Failed(run.orders[index].mechanism.name, error)


def _sent(result: Finished | Failed) -> Finished | Failed:
    """The result for the process that asked."""
    return replace(result, error=sendable(result.error)) if isinstance(result, Failed) else result


def _find(run: Run, index: int, out: Path, *, opened: Opened) -> Finished | None:
    """The certificate of an earlier run of the same, if it is unchanged and verifies."""
    files = files_of(run.orders[index].mechanism.name, out)
    written = opened.read(files.certificate)
    if not holds(files, identity(run, index), written):
        return None
    try:
        certificate, _ = confirmed(written)
    except CertificateRejected:
        return None
    return _finished(run, index, certificate, files, kept=True)


def _make(run: Run, index: int, out: Path, *, keep: bool, opened: Opened) -> Finished:
    made_from = identity(run, index)
    if run.options.seed is None:
        finished(run.orders[index].mechanism.name, out)
    result = certify_one(run, index)
    files = write_one(result, out, run.options.store, opened=opened)
    with_output(result, out)
    if keep:
        remember(files, made_from)
    if run.options.store is not None:
        clean(result, run.options.store)
    return _finished(run, index, result.certificate, files, kept=False)


def _finished(run: Run, index: int, certificate: Json, files: Files, *, kept: bool) -> Finished:
    mechanism = run.orders[index].mechanism
    surprised = surprises(certificate, mechanism.expectations, mechanism.unexamined)
    return Finished(mechanism.name, certificate, files, kept, surprised)


def write_index(finished: Iterable[Finished | Failed], out: Path) -> Path:
    """The index of a run over a whole project: one row a claim, and what could not be certified."""
    finished = sorted(finished, key=lambda result: result.name)
    pages = {
        result.files.page.name: result.certificate
        for result in finished
        if isinstance(result, Finished)
    }
    failed = {
        result.name: described(result.error) for result in finished if isinstance(result, Failed)
    }
    page = out / "index.html"
    write_made({page: render_index(pages, failed).encode()})
    return page


def clean(result: Certified, folder: Path) -> None:
    """Remove stored batches once their certificate is written; other runs' batches stay."""
    for attacked in result.attacks:
        if attacked.stored is not None:
            shutil.rmtree(attacked.stored, ignore_errors=True)
    with contextlib.suppress(OSError):
        folder.rmdir()


def confirmed(file: Evidence) -> tuple[dict[str, Any], Confirmed]:
    """A certificate that fits the schema and follows from its witnesses.

    Errors: CertificateRejected naming what does not.
    """
    certificate = parsed(file)
    validate(certificate)
    return certificate, check(certificate)
