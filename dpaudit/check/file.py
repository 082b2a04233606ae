"""Certificate files of strangers: read within limits, and compared with the schema."""

from __future__ import annotations

import errno
import json
import math
import re
from collections.abc import Callable, Iterator
from datetime import date, datetime
from functools import cache, partial
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpaudit.errors import CertificateRejected
from dpaudit.storage.evidence import Evidence, read_once

if TYPE_CHECKING:
    from jsonschema import Draft202012Validator, FormatChecker, ValidationError

LARGEST_FILE = 4 * 2**20  # bytes; the largest certificate of the catalogue has a tenth
# Keywords of schemas of texts, and of arrays, that are tested without the validator.
_TEXT = frozenset({"pattern", "minLength", "maxLength"})
_ARRAY = frozenset({"items", "minItems", "maxItems"})
EARLIER = "https://dpaudit.dev/certificate/v1"
CERTIFICATE = "https://dpaudit.dev/certificate/v2"
EMPIRICAL = "https://dpaudit.dev/empirical/v1"


class NotACertificate(CertificateRejected):
    """Bytes that are no certificate, before anything in them was derived again."""


class NotDone(CertificateRejected):
    """A certificate that takes more work or memory to verify than it may."""


@cache
def schema() -> dict[str, Any]:
    """The certificate's JSON schema."""
    return _schema("dpaudit", "certificate_schema.json")


@cache
def empirical_schema() -> dict[str, Any]:
    """The JSON schema of membership audits' certificates, which hold lower bounds alone."""
    return _schema("dpaudit.check", "empirical_schema.json")


def _schema(package: str, name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(resources.files(package).joinpath(name).read_text("utf-8"))
    return loaded


def is_empirical(certificate: Any) -> bool:
    """Whether it says that it is a membership audit's."""
    return isinstance(certificate, dict) and certificate.get("predicateType") == EMPIRICAL


def validate(certificate: Any) -> None:
    """Check a certificate against the schema of its kind.

    Errors: NotACertificate naming the place of the first fault.
    """
    kind = certificate.get("predicateType") if isinstance(certificate, dict) else None
    if kind == EARLIER:
        raise NotACertificate(
            "a certificate of format 1, which an earlier dpaudit made: certify again, or verify it "
            "with that version"
        )
    newer = re.fullmatch(r"https://dpaudit\.dev/(?:certificate|empirical)/v(\d{1,4})", str(kind))
    if newer is not None and kind not in (CERTIFICATE, EMPIRICAL):
        raise NotACertificate(
            f"a certificate of format {newer[1]}, which this dpaudit does not know: verify it with "
            "a newer one"
        )
    _refuse(_validator(empirical=is_empirical(certificate)), certificate)


def fits(name: str, part: Any) -> None:
    """Check one part against its definition in the schema; errors: as :func:`validate`."""
    _refuse(_validator(name), part)


@cache
def _validator(name: str = "", *, empirical: bool = False) -> Draft202012Validator:
    """The validator of a whole certificate, or of the part that ``name`` names.

    Every reference is replaced by what it names: to follow them took half of the time.
    """
    from jsonschema import Draft202012Validator
    from jsonschema.validators import extend

    form = empirical_schema() if empirical else schema()
    part = form["$defs"][name] if name else {k: v for k, v in form.items() if k != "$defs"}
    keywords = {"items": _items(Draft202012Validator)}
    quick = extend(Draft202012Validator, keywords)  # type: ignore[no-untyped-call]
    validator: Draft202012Validator = quick(
        _without_references(part, form["$defs"]), format_checker=_dates()
    )
    return validator


Test = Callable[[Any], bool]


def _items(kind: type[Draft202012Validator]) -> Callable[..., Iterator[ValidationError]]:
    """The keyword ``items``, which asks the validator of an array only where it may be wrong.

    Arrays of numbers are most of a certificate, and the validator takes ten times as long to visit
    each number as to match it.
    """
    tests: dict[int, Test | None] = {}  # by the schema's identity: schemas stay as they are

    def items(validator: Any, form: Any, array: Any, inside: Any) -> Iterator[ValidationError]:
        if id(form) not in tests:
            tests[id(form)] = _test(form)
        test = tests[id(form)]
        if test is None or not isinstance(array, list) or not all(map(test, array)):
            yield from kind.VALIDATORS["items"](validator, form, array, inside)

    return items


def _test(form: Any) -> Test | None:
    """Whether a value fits a schema of texts, or of arrays of them; None for any other schema.

    A value that passes the test fits the schema; one that fails it is left to the validator.
    """
    if not isinstance(form, dict) or not form.keys() <= {"description", "type", *_TEXT, *_ARRAY}:
        return None
    if form.get("type") == "string" and not form.keys() & _ARRAY:
        matched = re.compile(form.get("pattern", "")).search
        least, most = form.get("minLength", 0), form.get("maxLength", math.inf)
        return lambda value: (
            isinstance(value, str) and least <= len(value) <= most and matched(value) is not None
        )
    if form.get("type") == "array" and not form.keys() & _TEXT and "items" in form:
        test = _test(form["items"])
        fewest, longest = form.get("minItems", 0), form.get("maxItems", math.inf)
        return test and (
            lambda value: (
                isinstance(value, list)
                and fewest <= len(value) <= longest
                and all(map(test, value))
            )
        )
    return None


def _dates() -> FormatChecker:
    """Checks that a text in the form of a date is one: a pattern takes 2026-13-45."""
    from jsonschema import FormatChecker

    dates = FormatChecker(formats=())
    for name, read_date in (("date", date.fromisoformat), ("date-time", datetime.fromisoformat)):
        dates.checks(name, raises=ValueError)(partial(_is_read, read_date))
    return dates


def _is_read(read_date: Callable[[str], date], text: object) -> bool:
    return not isinstance(text, str) or bool(read_date(text))


def _without_references(part: Any, definitions: dict[str, Any]) -> Any:
    """The schema with each reference replaced by its definition; it must not be recursive."""
    if isinstance(part, list):
        return [_without_references(item, definitions) for item in part]
    if not isinstance(part, dict):
        return part
    others = {k: _without_references(v, definitions) for k, v in part.items() if k != "$ref"}
    if "$ref" not in part:
        return others
    named = _without_references(definitions[part["$ref"].removeprefix("#/$defs/")], definitions)
    return {"allOf": [named], **others} if others else named


def _refuse(validator: Draft202012Validator, part: Any) -> None:
    try:
        error = next(iter(validator.iter_errors(part)), None)
    except RecursionError:
        raise NotACertificate("not a certificate: nested too deeply") from None
    if error is not None:
        place = "/".join(map(str, error.absolute_path)) or "the top"
        raise NotACertificate(f"not a certificate: at {place}: {error.message[:200]}")


def read(path: Path) -> Evidence:
    """A file that may be a certificate, opened once; whether it is one, :func:`parsed` says."""
    try:
        return read_once(path, LARGEST_FILE)
    except OSError as error:
        fault = f"{path}: {error.strerror}; give a certificate's file"
        if error.errno == errno.EFBIG:
            fault = f"{path}: larger than {LARGEST_FILE} bytes, as no certificate is"
        return Evidence(path, b"", fault=fault)


def parsed(file: Evidence) -> dict[str, Any]:
    """The JSON of a certificate's file, as it was read.

    Errors: NotACertificate for a file that was missing, truncated, too large or not JSON.
    """
    if file.fault:
        raise NotACertificate(file.fault)
    try:
        content = file.json
    except ValueError as error:
        raise NotACertificate(
            f"{file.path}: not complete JSON ({str(error)[:80]}); give a certificate's .json "
            "file, whole: copy it again, or make it again with `dpaudit certify`"
        ) from None
    if not isinstance(content, dict):
        raise NotACertificate(f"{file.path}: JSON, but not a certificate")
    return content


def load(path: Path) -> dict[str, Any]:
    """Read a certificate file; errors: as :func:`parsed`."""
    return parsed(read(path))
