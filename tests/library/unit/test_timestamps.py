"""Time stamps: made by an authority of the tests' own (openssl), verified against its root."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from dpaudit.certificate.certificate import save
from dpaudit.cli.main import main
from dpaudit.errors import InvalidParameter
from dpaudit.sign import make_keys, private_key, public_key, sign, signature_of, signatures
from dpaudit.sign.timestamp import authority, read_token, stamped_at, timestamp_query
from tests.library.cli.bench import pure

pytest.importorskip("rfc3161_client", reason="time stamps need rfc3161-client")
pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl to stamp with")

STATEMENT = {"_type": "x", "predicate": {"n": 1}}
CONFIG = """
[tsa]
default_tsa = own
[own]
dir = {folder}
serial = {folder}/serial
signer_digest = sha256
default_policy = 1.2.3.4.1
digests = sha256, sha384, sha512
accuracy = secs:1
ess_cert_id_alg = sha256
"""
PURPOSE = "critical,timeStamping"


class Authority:
    """A time stamping authority: a root, a certificate of the given purpose, and its key."""

    def __init__(self, folder: Path, purpose: str = PURPOSE) -> None:
        self.folder, self.root = folder, folder / "root.pem"
        folder.mkdir()
        (folder / "serial").write_text("01\n")
        (folder / "tsa.cnf").write_text(CONFIG.format(folder=folder))
        ec = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-noenc", "-days", "2")
        ca = ("-addext", "basicConstraints=critical,CA:TRUE", "-addext", "keyUsage=keyCertSign")
        self.openssl("req", "-x509", *ec, "-subj", "/CN=Root", "-keyout", "root.key", *ca, root=1)
        leaf = ("-addext", "basicConstraints=critical,CA:FALSE", "-addext")
        usage = ("keyUsage=critical,digitalSignature", "-addext", f"extendedKeyUsage={purpose}")
        signer = ("-CA", "root.pem", "-CAkey", "root.key", "-keyout", "tsa.key", "-out", "tsa.pem")
        self.openssl("req", "-x509", *ec, "-subj", "/CN=Clock", *signer, *leaf, *usage)

    def openssl(self, *arguments: str, root: int = 0) -> None:
        out = ("-out", "root.pem") if root else ()
        command = ["openssl", *arguments, *out]
        subprocess.run(command, cwd=self.folder, check=True, capture_output=True, timeout=60)

    def stamp(self, query: bytes) -> bytes:
        (self.folder / "query.tsq").write_bytes(query)
        key = ("-signer", "tsa.pem", "-inkey", "tsa.key", "-config", "tsa.cnf")
        self.openssl("ts", "-reply", "-queryfile", "query.tsq", "-out", "reply.tsr", *key)
        return (self.folder / "reply.tsr").read_bytes()


@pytest.fixture(scope="module")
def clock(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authorities") / "own")


@pytest.fixture
def key(tmp_path: Path) -> Path:
    return make_keys(tmp_path / "officer.pem")[0]


def states(envelope: Any, key: Path, *roots: Any) -> list[tuple[str, bool]]:
    found = signatures(STATEMENT, envelope, [public_key(key.with_suffix(".pub"))], roots)
    return [(one.state, one.timestamp.startswith("20")) for one in found]


def test_a_token_counts_for_its_signature_and_its_authority_alone(
    clock: Authority, key: Path, tmp_path: Path
) -> None:
    own = private_key(key)
    token = clock.stamp(timestamp_query(signature_of(STATEMENT, own)))
    root = authority(clock.root)
    stranger = authority(Authority(tmp_path / "stranger").root)
    stamped = sign(STATEMENT, own, timestamp=token)
    assert states(stamped, key, root) == [("valid", True)]
    assert states(stamped, key, stranger, root) == [("valid", True)]
    assert states(stamped, key, stranger) == [("unstamped", False)]
    assert states(sign(STATEMENT, own), key, root) == [("unstamped", False)]
    (unasked,) = signatures(STATEMENT, stamped, [public_key(key.with_suffix(".pub"))])
    assert (unasked.state, unasked.timestamp) == ("valid", "unchecked")
    other = clock.stamp(timestamp_query(b"something else"))
    with pytest.raises(InvalidParameter, match="something else than this key's signature"):
        sign(STATEMENT, own, timestamp=other)
    moved = {**stamped["signatures"][0], "timestamp": sign_text(other)}
    assert states({**stamped, "signatures": [moved]}, key, root) == [("unstamped", False)]


def sign_text(token: bytes) -> str:
    import base64

    return base64.b64encode(token).decode()


def test_a_changed_token_is_none_or_says_the_same(clock: Authority) -> None:
    """Of a token's bits those that are not signed are few, and none of them tells the time."""
    root = authority(clock.root)
    token = clock.stamp(timestamp_query(b"signature"))
    at = stamped_at(token, b"signature", [root])
    assert at
    assert stamped_at(token, b"signaturf", [root]) == ""
    told = []
    for place in range(0, len(token), 7):
        changed = bytearray(token)
        changed[place] ^= 1
        told.append(stamped_at(bytes(changed), b"signature", [root]))
    assert set(told) <= {"", at}
    assert told.count("") > 0.9 * len(told)


def test_what_is_no_token_and_no_certificate_is_named(clock: Authority, tmp_path: Path) -> None:
    path = tmp_path / "token.tsr"
    path.write_bytes(b"no token")
    with pytest.raises(InvalidParameter, match=r"token.tsr: not a time stamp"):
        read_token(path)
    with pytest.raises(InvalidParameter, match="No such file"):
        read_token(tmp_path / "none")
    with pytest.raises(InvalidParameter, match="not a certificate"):
        authority(path)
    refused = clock.stamp(timestamp_query(b"signature"))
    path.write_bytes(refused[: len(refused) // 2])
    with pytest.raises(InvalidParameter, match="not a time stamp"):
        read_token(path)


def test_without_the_library_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rfc3161_client", None)
    with pytest.raises(InvalidParameter, match="pip install"):
        timestamp_query(b"signature")


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, list(map(str, arguments)))


@pytest.mark.quality
def test_the_commands_ask_attach_and_verify(clock: Authority, key: Path, tmp_path: Path) -> None:
    certificate, query, reply = (tmp_path / name for name in ("pure.json", "q.tsq", "r.tsr"))
    save(pure(), certificate)
    asked = run("sign", certificate, "--key", key, "--timestamp-query", query)
    assert asked.exit_code == 0, asked.output
    reply.write_bytes(clock.stamp(query.read_bytes()))
    required = ("--key", key.with_suffix(".pub"), "--set", f"authority={clock.root}")
    assert run("verify", certificate, *required).exit_code == 13
    assert run("sign", certificate, "--key", key, "--timestamp", reply).exit_code == 0
    found = run("verify", certificate, *required, "--json")
    assert found.exit_code == 0, found.output
    (row,) = json.loads(found.stdout)
    assert row["signatures"][0]["timestamp"].endswith("Z")
    assert run("report", certificate, *required, "--out", tmp_path / "out").exit_code == 0
    page = (tmp_path / "out" / "pure.html").read_text("utf-8")
    assert "by a time stamp" in page
    assert "it is not verified here" not in page
