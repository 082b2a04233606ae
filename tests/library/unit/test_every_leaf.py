"""Every leaf of every committed certificate, changed alone: refused, or named as not checked."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from dpaudit.check import check, empirical
from dpaudit.check.file import is_empirical, load, validate
from dpaudit.check.rows import verify_file
from dpaudit.check.unchecked import UNCHECKED, Unchecked
from dpaudit.errors import CertificateRejected
from dpaudit.exact.wire import digest
from tests.support import forger
from tests.support.forger import DECIMAL, FRACTION, Json, copied, field, put, remembered, sealed

REPORTS = Path(__file__).parents[3] / "reports"
FILES = [
    path.relative_to(REPORTS).as_posix()
    for path in sorted(REPORTS.rglob("*.json"))
    if json.loads(path.read_bytes()).get("predicateType")
]
LEAVES = 6  # of each certificate, always
SHARES = 4  # of all leaves of one, so that workers can divide them


@cache
def committed(name: str) -> Json:
    return load(REPORTS / name)


def leaves(value: Any, path: forger.Path = ()) -> Iterator[tuple[forger.Path, Any]]:
    """Every value that holds no other, with its path."""
    inside: Any = value.items() if isinstance(value, dict) else enumerate(value)
    for key, one in inside:
        if isinstance(one, dict | list) and one:
            yield from leaves(one, (*path, key))
        else:
            yield (*path, key), one


def others(value: Any) -> list[Any]:
    """Other values of a kind: the next one, and one that is far."""
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [value + 1, 2 * value + 7]
    if isinstance(value, dict | list) or value is None:
        return [] if value is None else ["x"]
    if DECIMAL.match(value):
        number = float(value)
        near = number * (1 + 1e-9)
        return [f"{near:.17g}", f"{1.5 * number:.12g}"] if number else ["0.000001", "1"]
    if FRACTION.match(value):
        more = Fraction(value) * Fraction(3, 2)
        return [f"{more.numerator}/{more.denominator}"]
    return [value + "x"]


def statement(certificate: Json, predicate: Json) -> Json:
    """The statement of a changed predicate, its digests made right."""
    if not is_empirical(certificate):
        return sealed(predicate)
    own = [{**certificate["subject"][0], "digest": {"sha256": digest(predicate)}}]
    return {**certificate, "subject": own, "predicate": predicate}


def checked(name: str) -> list[tuple[forger.Path, Any]]:
    """The leaves of a certificate that are in no field that is named as not checked."""
    certificate = committed(name)
    known = named(empirical.UNCHECKED if is_empirical(certificate) else UNCHECKED)
    found = leaves(certificate["predicate"])
    return [(path, value) for path, value in found if not forger._within(field(path), known)]


def unnoticed(name: str, chosen: list[tuple[forger.Path, Any]]) -> set[str]:
    """The changes of these leaves that were accepted."""
    certificate, found = committed(name), set()
    with remembered(sealed=not is_empirical(certificate)):
        for path, value in chosen:
            for other in others(value):
                predicate = copied(certificate["predicate"])
                put(predicate, path, other)
                try:
                    forged = statement(certificate, predicate)
                    validate(forged)
                    check(forged)
                except CertificateRejected:
                    continue
                # A digest that was made right again is no change.
                if forged["predicate"] != certificate["predicate"]:
                    found.add(f"{field(path)}: {value!r:.60} -> {other!r:.60}")
    return found


def named(unchecked: tuple[Unchecked, ...]) -> tuple[str, ...]:
    return tuple(name for _, fields in unchecked for name in fields)


@pytest.mark.first_case
@pytest.mark.parametrize("name", FILES)
def test_a_changed_leaf_is_refused_or_named(name: str) -> None:
    assert unnoticed(name, random.Random(name).sample(checked(name), LEAVES)) == set()


@pytest.mark.quality
@pytest.mark.parametrize("part", range(SHARES))
@pytest.mark.parametrize("name", FILES)
def test_every_changed_leaf_is_refused_or_named(name: str, part: int) -> None:
    assert unnoticed(name, checked(name)[part::SHARES]) == set()


@pytest.mark.quality
def test_a_field_that_is_not_named_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A parameter of conformance rows, which is observed, once the checker says nothing of it."""
    name = "kl_spider.json"
    before = checked(name)
    monkeypatch.setitem(globals(), "UNCHECKED", UNCHECKED[:1] + UNCHECKED[2:])
    rows = committed(name)["predicate"]["conformance"]
    found = [
        (path, value)
        for path, value in checked(name)
        if (path, value) not in before
        and path[-1] == "parameter"
        and value
        and rows[path[1]]["p_value"] == "1"
    ]
    assert unnoticed(name, found[:2])


@pytest.mark.quality
def test_verify_names_the_fields(capsys: pytest.CaptureFixture[str]) -> None:
    row = verify_file(REPORTS / "kl_spider.json")
    shown = [(one["why"], tuple(one["fields"])) for one in row["unchecked"]]
    assert shown == [tuple(one) for one in UNCHECKED]
    from dpaudit.cli import terminal

    terminal.verified([{**row, "missing": []}])
    said = capsys.readouterr().out
    assert all(f"{', '.join(fields)} ({why})" in said for why, fields in UNCHECKED)
