"""Signatures: whose they are, over which certificate, and what makes one fail."""

from __future__ import annotations

import base64
import json
import stat
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from dpaudit.certificate.certificate import save
from dpaudit.cli.main import main
from dpaudit.errors import CertificateRejected, InvalidParameter, OutputNotWritable
from dpaudit.sign import (
    envelope_of,
    make_keys,
    private_key,
    public_key,
    read_envelope,
    sign,
    signatures,
    write_envelope,
)
from tests.library.cli.bench import pure

STATEMENT = {"_type": "x", "predicate": {"n": 1}}


@pytest.fixture
def engineer(tmp_path: Path) -> Path:
    return make_keys(tmp_path / "engineer.pem")[0]


@pytest.fixture
def officer(tmp_path: Path) -> Path:
    return make_keys(tmp_path / "officer.pem")[0]


def public(path: Path) -> Any:
    return public_key(path.with_suffix(".pub"))


def test_the_encoding_is_the_one_of_the_dsse_protocol() -> None:
    """The example of the protocol's text, with our payload type."""
    from dpaudit.sign.envelope import message

    assert message(b"hello world") == b"DSSEv1 28 application/vnd.in-toto+json 11 hello world"


def test_two_keys_sign_one_certificate(engineer: Path, officer: Path) -> None:
    envelope = sign(STATEMENT, private_key(engineer))
    envelope = sign(STATEMENT, private_key(officer), envelope)
    envelope = sign(STATEMENT, private_key(officer), envelope)
    with pytest.raises(InvalidParameter, match=r"something else|rfc3161-client"):
        sign(STATEMENT, private_key(officer), envelope, b"token")
    found = signatures(STATEMENT, envelope, [public(engineer), public(officer)])
    assert [(one.name, one.state) for one in found] == [
        ("engineer", "valid"),
        ("officer", "valid"),
    ]
    assert [one.state for one in signatures(STATEMENT, envelope, [public(officer)])] == [
        "unknown",
        "valid",
    ]


def test_a_signature_twice_counts_once_and_a_wrong_id_hides_nothing(engineer: Path) -> None:
    envelope = sign(STATEMENT, private_key(engineer))
    row = envelope["signatures"][0]
    forged = {**envelope, "signatures": [row, {**row, "keyid": "other"}]}
    assert len(signatures(STATEMENT, forged, [public(engineer)])) == 1


def test_a_changed_digit_a_changed_payload_and_a_changed_signature_fail(engineer: Path) -> None:
    envelope = sign(STATEMENT, private_key(engineer))
    key = public(engineer)
    with pytest.raises(CertificateRejected, match="another certificate"):
        signatures({**STATEMENT, "predicate": {"n": 2}}, envelope, [key])
    other = {**STATEMENT, "predicate": {"n": 2}}
    moved = {**sign(other, private_key(engineer)), "signatures": envelope["signatures"]}
    assert [one.state for one in signatures(other, moved, [key])] == ["wrong"]
    raw = bytearray(base64.b64decode(envelope["signatures"][0]["sig"]))
    raw[3] ^= 1
    flipped = {**envelope["signatures"][0], "sig": base64.b64encode(raw).decode()}
    broken = {**envelope, "signatures": [flipped]}
    assert [one.state for one in signatures(STATEMENT, broken, [key])] == ["wrong"]


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"signatures": [{}]},
        {"signatures": [{"keyid": "a", "sig": 3}]},
        {"signatures": [], "payloadType": "text/plain", "payload": ""},
        {"signatures": [], "payloadType": "application/vnd.in-toto+json", "payload": "%"},
    ],
)
def test_what_is_no_envelope_is_refused(wrong: Any) -> None:
    with pytest.raises(CertificateRejected, match=r"sign"):
        signatures(STATEMENT, wrong, [])


def test_private_keys_are_private(engineer: Path, tmp_path: Path) -> None:
    assert stat.S_IMODE(engineer.stat().st_mode) == 0o600
    engineer.chmod(0o640)
    with pytest.raises(InvalidParameter, match="others may read this key"):
        private_key(engineer)
    with pytest.raises(OutputNotWritable, match="never overwritten"):
        make_keys(engineer)
    (tmp_path / "text").write_text("x")
    (tmp_path / "text").chmod(0o600)
    with pytest.raises(InvalidParameter, match="not a private key"):
        private_key(tmp_path / "text")
    with pytest.raises(InvalidParameter, match="not a public key"):
        public_key(tmp_path / "text")
    with pytest.raises(InvalidParameter, match=r"give the public one"):
        public_key(engineer)


def test_an_envelope_that_programs_may_read_differently_is_none(tmp_path: Path) -> None:
    """Of two equal keys one program takes the first, and another the last."""
    path = tmp_path / "a.json.dsse"
    assert read_envelope(path) is None
    texts = ['{"payload": "", "payload": "x"}', '{"signatures": [{"sig": "", "sig": "x"}]}']
    for text in (*texts, '{"a": NaN}'):
        path.write_text(text)
        with pytest.raises(CertificateRejected, match=r"occurs twice|not a number"):
            read_envelope(path)


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, list(map(str, arguments)))


@pytest.mark.quality
def test_the_commands_sign_and_verify(engineer: Path, officer: Path, tmp_path: Path) -> None:
    certificate = tmp_path / "pure.json"
    save(pure(), certificate)
    signed = run("sign", certificate, "--key", engineer)
    assert signed.exit_code == 0, signed.output
    assert "PRIVATE" not in signed.output
    keys = ("--key", engineer.with_suffix(".pub"), "--key", f"boss={officer.with_suffix('.pub')}")
    both = run("verify", certificate, *keys)
    assert both.exit_code == 13
    assert "1 of 2 wanted signatures: none valid of boss" in both.output
    assert run("sign", certificate, "--key", officer).exit_code == 0
    all_signed = run("verify", certificate, *keys, "--json")
    assert all_signed.exit_code == 0
    (verified,) = json.loads(all_signed.stdout)
    assert "environment, revision and dates: on the word of engineer, boss" in verified["on_trust"]
    rows = verified["signatures"]
    assert [(row["name"], row["state"]) for row in rows] == [
        ("engineer", "valid"),
        ("boss", "valid"),
    ]
    envelope = read_envelope(envelope_of(certificate))
    write_envelope({**envelope, "payload": ""}, envelope_of(certificate))
    assert run("verify", certificate, *keys).exit_code == 13
    assert run("verify", certificate, *keys, "--set", "threshold=3").exit_code == 2
