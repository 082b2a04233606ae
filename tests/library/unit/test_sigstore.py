"""Sigstore bundles, verified offline against a service of the tests' own."""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from dpaudit.certificate.certificate import save
from dpaudit.check.file import read
from dpaudit.cli.main import main
from dpaudit.errors import CertificateRejected, InvalidParameter
from dpaudit.exact.wire import canonical_bytes
from dpaudit.sign import bundled, identity, read_bundle, service
from dpaudit.sign.bundle import bundle_of
from tests.library.cli.bench import pure

pytest.importorskip("sigstore", reason="sigstore bundles need the library sigstore")

from tests.support.sigstore import NOW, Sigstore

ISSUER = "https://accounts.example"
ANN = identity(f"ann@clinic.example@{ISSUER}")
STATEMENT = {"_type": "x", "predicate": {"n": 1}}


class Signed:
    """A certificate's file, its bundle of either kind, and the roots of trust."""

    def __init__(self, folder: Path, *, statement: bool, service: Sigstore | None = None) -> None:
        self.path = folder / "a.json"
        self.path.write_bytes(canonical_bytes(STATEMENT) + b"\n")
        self.service = service or Sigstore()
        self.root = self.service.trusted_root(folder / "root.json")
        content = canonical_bytes(STATEMENT) if statement else self.path.read_bytes()
        self.bundle = json.loads(
            self.service.signed(content, ANN.name, ISSUER, statement=statement)
        )
        self.write()

    def write(self) -> None:
        bundle_of(self.path).write_text(json.dumps(self.bundle))

    def state(self, who: Any = ANN, root: Path | None = None) -> str:
        found = self.found(STATEMENT, who, root)
        return "" if found is None else found.state

    def found(self, certificate: Any, who: Any = ANN, root: Path | None = None) -> Any:
        """What the bundle beside the file says; None where there is none."""
        place = read_bundle(self.path)
        if place is None:
            return None
        return bundled(read(self.path), certificate, place, who, service(root or self.root))


@pytest.mark.parametrize("statement", [False, True], ids=["file", "statement"])
def test_a_bundle_is_its_accounts_over_just_this_certificate(
    tmp_path: Path, statement: bool
) -> None:
    one = Signed(tmp_path, statement=statement)
    found = one.found(STATEMENT)
    assert found is not None
    assert (found.name, found.state) == ("ann@clinic.example", "valid")
    assert found.timestamp == NOW.strftime("%Y-%m-%dT%H:%M:%SZ")
    assert one.state(identity(f"bob@clinic.example@{ISSUER}")) == "wrong"
    assert one.state(identity("ann@clinic.example@https://other.example")) == "wrong"
    assert one.state(root=Sigstore().trusted_root(tmp_path / "other.json")) == "wrong"
    changed = {**STATEMENT, "predicate": {"n": 2}}
    one.path.write_bytes(canonical_bytes(changed) + b"\n")
    assert one.found(changed).state == "wrong"
    bundle_of(one.path).unlink()
    assert one.state() == ""


def entry(bundle: Any) -> Any:
    return bundle["verificationMaterial"]["tlogEntries"][0]


def flipped(text: str) -> str:
    raw = bytearray(base64.b64decode(text))
    raw[-1] ^= 1
    return base64.b64encode(raw).decode()


def promise(bundle: Any) -> None:
    row = entry(bundle)["inclusionPromise"]
    row["signedEntryTimestamp"] = flipped(row["signedEntryTimestamp"])


def proof(bundle: Any) -> None:
    row = entry(bundle)["inclusionProof"]
    row["hashes"] = [flipped(row["hashes"][0])]


def body(bundle: Any) -> None:
    entry(bundle)["canonicalizedBody"] = flipped(entry(bundle)["canonicalizedBody"])


def later(bundle: Any) -> None:
    row = entry(bundle)
    row["integratedTime"] = str(int(row["integratedTime"]) + 3600)


def signature(bundle: Any) -> None:
    row = bundle["messageSignature"]
    row["signature"] = flipped(row["signature"])


@pytest.mark.parametrize("change", [promise, proof, body, later, signature])
def test_each_part_of_a_bundle_is_checked(tmp_path: Path, change: Callable[[Any], None]) -> None:
    one = Signed(tmp_path, statement=False)
    assert one.state() == "valid"
    change(one.bundle)
    one.write()
    assert one.state() == "wrong"


def test_a_certificate_that_no_log_entered_or_had_expired_does_not_count(tmp_path: Path) -> None:
    """As a service that enters what it signs an hour after its certificate ended."""
    service = Sigstore()
    unlogged = Sigstore(ca=service.ca, log=service.log)
    one = Signed(tmp_path, statement=False, service=unlogged)
    assert one.state(root=service.trusted_root(tmp_path / "root2.json")) == "wrong"

    class Late(Sigstore):
        def _entered(self, body: bytes, kind: str) -> Any:
            self.at += timedelta(hours=1)
            return super()._entered(body, kind)

    assert Signed(tmp_path, statement=False, service=Late()).state() == "wrong"


def test_what_is_no_bundle_no_account_and_no_root_is_named(tmp_path: Path) -> None:
    one = Signed(tmp_path, statement=False)
    for text in ("ann", "ann@clinic.example", "@https://x.example"):
        with pytest.raises(InvalidParameter, match="expected ACCOUNT@ISSUER"):
            identity(text)
    with pytest.raises(InvalidParameter, match="trusted_root="):
        one.state(root=tmp_path / "none.json")
    for content in ("", "{}", "[" * 10_000, '{"mediaType": "x"}'):
        bundle_of(one.path).write_text(content)
        with pytest.raises(CertificateRejected, match="no sigstore bundle"):
            one.state()


def test_without_the_library_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = Signed(tmp_path, statement=False)
    monkeypatch.setitem(sys.modules, "sigstore.errors", None)
    with pytest.raises(InvalidParameter, match="pip install"):
        one.state()


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, list(map(str, arguments)))


@pytest.mark.quality
def test_verify_asks_for_an_account(tmp_path: Path) -> None:
    certificate = tmp_path / "pure.json"
    save(pure(), certificate)
    service = Sigstore()
    root = service.trusted_root(tmp_path / "r.json")
    asked = ("--set", f"identity={ANN.id}", f"trusted_root={root}")
    assert run("verify", certificate, *asked).exit_code == 13
    made = service.signed(certificate.read_bytes(), ANN.name, ISSUER, statement=False)
    bundle_of(certificate).write_bytes(made)
    found = run("verify", certificate, *asked, "--json")
    assert found.exit_code == 0, found.output
    assert json.loads(found.stdout)[0]["signatures"][0]["state"] == "valid"
