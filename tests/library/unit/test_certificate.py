"""Certificate files: canonical, whole or not at all, and read back with suspicion."""

from __future__ import annotations

import hashlib
import json
import os
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import rfc8785
import sympy

from dpaudit.accountant.account import Account
from dpaudit.accountant.claim import Claim
from dpaudit.certificate.certificate import conclusion, guarantee, save, stated, statement
from dpaudit.check.file import LARGEST_FILE, load, schema, validate
from dpaudit.errors import CertificateRejected, OutputNotWritable
from dpaudit.families.additive import Gaussian
from dpaudit.families.composition import Repeat
from dpaudit.families.opaque import GDP, ApproxDP, NonPrivate, PureDP
from dpaudit.nodes import Node
from dpaudit.storage.files import write_atomically
from tests.library.cli.bench import accept, held, scope

K = sympy.Symbol("k", integer=True, positive=True)


# --- the statement -------------------------------------------------------------------------------


def test_the_first_subject_is_the_predicate_and_the_rest_its_files() -> None:
    predicate = held()["predicate"]
    made = statement(predicate)
    content = rfc8785.dumps(predicate)
    first, *files = made["subject"]
    assert first == {"name": "predicate", "digest": {"sha256": hashlib.sha256(content).hexdigest()}}
    assert files == predicate["mechanism"]["implementation"] != []
    assert made["_type"] == "https://in-toto.io/Statement/v1"


def test_a_saved_certificate_is_canonical_and_reads_back(tmp_path: Path) -> None:
    path = tmp_path / "case.json"
    save(held(), path)
    assert path.read_bytes() == rfc8785.dumps(held()) + b"\n"
    assert load(path) == held()
    assert oct(path.stat().st_mode & 0o777) == "0o644"
    validate(load(path))


def test_the_schema_names_the_place_of_a_fault() -> None:
    changed = json.loads(json.dumps(held()))
    changed["predicate"]["claims"][0]["stated"]["epsilon"] = 4.0
    with pytest.raises(CertificateRejected, match="at predicate/claims/0/stated/epsilon"):
        validate(changed)
    assert schema()["$id"].endswith("certificate/v2.json")


def test_nesting_without_end_is_no_certificate() -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    changed = json.loads(json.dumps(held()))
    changed["predicate"]["claims"][0]["exact"] = deep
    with pytest.raises(CertificateRejected, match="canonical JSON"):
        accept(changed)


# --- files ---------------------------------------------------------------------------------------

WRONG_FILES = {
    "empty": (b"", "not complete JSON"),
    "binary": (bytes(range(256)), "not complete JSON"),
    "text": (b"certified", "not complete JSON"),
    "a list": (b"[1, 2]", "not a certificate"),
    "a number": (b"7", "not a certificate"),
    "nested": (b"[" * 200_000, "not complete JSON"),
    "twice": (b'{"predicate": {"a": 1, "a": 2}}', "a key occurs twice"),
    "huge number": (b'{"a": ' + b"9" * 10_000 + b"}", "not complete JSON"),
}


@pytest.mark.parametrize("kind", WRONG_FILES)
def test_a_file_that_is_no_certificate_is_named(kind: str, tmp_path: Path) -> None:
    content, message = WRONG_FILES[kind]
    path = tmp_path / "case.json"
    path.write_bytes(content)
    with pytest.raises(CertificateRejected, match=message) as found:
        load(path)
    assert str(path) in str(found.value)
    assert "\n" not in str(found.value)


@pytest.mark.first_case
@pytest.mark.parametrize("share", [0.01, 0.5, 0.99])
def test_a_truncated_certificate_is_named(share: float, tmp_path: Path) -> None:
    path = tmp_path / "case.json"
    save(held(), path)
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * share)])
    with pytest.raises(CertificateRejected, match="make it again with `dpaudit certify`"):
        load(path)


def test_no_file_a_folder_and_a_device_are_no_certificates(tmp_path: Path) -> None:
    for path in (tmp_path / "missing.json", tmp_path, Path("/dev/null"), Path("/dev/zero")):
        with pytest.raises(CertificateRejected, match=str(path)):
            load(path)


def test_a_huge_file_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "case.json"
    with path.open("wb") as file:
        file.truncate(LARGEST_FILE + 1)
    with pytest.raises(CertificateRejected, match="larger than"):
        load(path)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_writing_replaces_all_or_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "page.html"
    write_atomically(path, b"old")

    def full(*arguments: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", full)
        with pytest.raises(OutputNotWritable, match="No space left on device"):
            write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["page.html"]
    write_atomically(path, b"new")
    assert path.read_bytes() == b"new"
    assert names(tmp_path) == ["page.html"]


@pytest.mark.parametrize(("module", "call"), [(os, "fchmod"), (os, "fsync"), (Path, "replace")])
def test_an_interruption_while_writing_leaves_nothing(
    module: Any, call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*arguments: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(module, call, interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_atomically(tmp_path / "page.html", b"new")
    assert names(tmp_path) == []


def test_a_path_below_a_file_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputNotWritable, match="choose a folder"):
        write_atomically(tmp_path / "file" / "below" / "page.html", b"new")


# --- rows ----------------------------------------------------------------------------------------


def fold(node: Node, calculus: str) -> Any:
    return Account(node, scope()).step(calculus)


def test_conclusions_are_rounded_up() -> None:
    third = Gaussian("a", 3)
    assert conclusion(fold(third, "gdp")) == {"measure": "gdp", "mu": "0.333333333334"}
    assert conclusion(fold(third, "zcdp")) == {"measure": "zcdp", "rho": "0.0555555555556"}
    pure = conclusion(fold(PureDP(sympy.sqrt(2), source="x"), "pure"))
    assert pure == {"measure": "pure_dp", "epsilon": "1.41421356238"}
    approx = conclusion(fold(ApproxDP(1, Fraction(1, 3), source="x"), "approx"))
    assert approx == {"measure": "approx_dp", "epsilon": "1", "delta": "0.333333333334"}
    renyi = conclusion(fold(third, "rdp"))["curve"]
    assert renyi[0] == ["2", "0.111111111112"]
    assert [order for order, _ in renyi] == ["2", "4", "8", "16", "32", "64"]


def test_no_guarantee_is_infinite() -> None:
    assert conclusion(fold(NonPrivate("looked"), "gdp"))["mu"] == "inf"
    inside = fold(Repeat(Gaussian("a", K), 3, K), "gdp").premises[0]
    assert conclusion(inside)["mu"] == "inf"


@pytest.mark.parametrize(
    ("claim", "shown"),
    [
        (GDP(Fraction(1, 3)), {"measure": "gdp", "mu": "0.333333333334"}),
        (ApproxDP(3, 1e-5), {"measure": "approx_dp", "epsilon": "3", "delta": "0.00001"}),
        (PureDP(sympy.sqrt(2)), {"measure": "pure_dp", "epsilon": "1.41421356238"}),
    ],
)
def test_stated_numbers(claim: Node, shown: Any) -> None:
    assert stated(Claim(claim, by="a test")) == shown


def test_lower_bounds_are_rounded_down() -> None:
    assert guarantee("gdp", 1 / 3) == {"measure": "gdp", "mu": "0.333333333333"}
    assert guarantee("zcdp", 2 / 3) == {"measure": "zcdp", "rho": "0.666666666666"}
    row = guarantee("approx_dp", 2 / 3, "0.00001")
    assert row == {"measure": "approx_dp", "epsilon": "0.666666666666", "delta": "0.00001"}
