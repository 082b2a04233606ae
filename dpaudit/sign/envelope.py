"""DSSE envelopes over a certificate's canonical bytes, one file beside each certificate.

A signature is over PAE(type, payload) = "DSSEv1" SP len(type) SP type SP len(payload) SP payload.
Source: secure-systems-lab, Dead Simple Signing Envelope, protocol v1.0.2.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpaudit.errors import CertificateRejected, InvalidParameter
from dpaudit.exact.wire import canonical_bytes
from dpaudit.sign.keys import Key, key_id
from dpaudit.sign.timestamp import of_signature, stamped_at
from dpaudit.storage.evidence import read_once
from dpaudit.storage.files import write_atomically

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

PAYLOAD_TYPE = "application/vnd.in-toto+json"
SUFFIX = ".dsse"
LARGEST_ENVELOPE = 2**27  # bytes
MOST_SIGNATURES = 64  # in one envelope; bounds the time of a verification

Json = dict[str, Any]


@dataclass(frozen=True)
class Signed:
    """The state of one signature.

    ``name``: the verifier's name for the key; empty for an unknown key.
    ``state``: "valid", "unknown" (the key was not given), "wrong" (not over this certificate), or
    "unstamped" (valid, but without the required time stamp).
    ``timestamp``: the time (RFC 3339) stated by an authority; "unchecked" if a token is attached
    and no authority was given; "wrong" if no given authority made the token; empty without a token.
    """

    key_id: str
    name: str
    state: str
    timestamp: str


def envelope_of(certificate: Path) -> Path:
    """Where the signatures of a certificate's file are: ``NAME.json.dsse``."""
    return certificate.with_name(certificate.name + SUFFIX)


def message(payload: bytes) -> bytes:
    """The signed bytes: DSSE's pre-authentication encoding of a payload."""
    kind = PAYLOAD_TYPE.encode()
    return b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)


def sign(
    certificate: Mapping[str, Any],
    key: Ed25519PrivateKey,
    envelope: Mapping[str, Any] | None = None,
    timestamp: bytes = b"",
) -> Json:
    """The certificate's envelope with this key's signature added; an older one is replaced.

    ``timestamp``: an authority's token over this signature, to be attached.
    Errors: CertificateRejected for an envelope of another certificate; InvalidParameter for a token
    over another signature.
    """
    payload = canonical_bytes(certificate)
    rows = [] if envelope is None else _rows(envelope, payload)
    own_id = key_id(key.public_key().public_bytes_raw())
    signature = key.sign(message(payload))
    row: Json = {"keyid": own_id, "sig": base64.b64encode(signature).decode()}
    if timestamp:
        if not of_signature(timestamp, signature):
            raise InvalidParameter(
                "timestamp: a token of something else than this key's signature of this "
                "certificate; have the file of --timestamp-query stamped"
            )
        row["timestamp"] = base64.b64encode(timestamp).decode()
    return {
        "payloadType": PAYLOAD_TYPE,
        "payload": base64.b64encode(payload).decode(),
        "signatures": [*(other for other in rows if other["keyid"] != own_id), row],
    }


def signatures(
    certificate: Mapping[str, Any],
    envelope: Mapping[str, Any],
    keys: Sequence[Key],
    authorities: Sequence[Any] = (),
) -> tuple[Signed, ...]:
    """The signatures of an envelope, checked with the given keys against this certificate.

    ``authorities``: certificates of time stamping authorities; if any are given, a signature
    without a token of one of them is "unstamped".

    Each key counts once.  The key id in an envelope is only a hint: each signature is tried with
    every key, and the returned id is that of the key that verifies it.
    Errors: CertificateRejected for an envelope of another certificate.
    """
    payload = canonical_bytes(certificate)
    signed = message(payload)
    by_key: dict[str, Signed] = {}
    for row in _rows(envelope, payload):
        judged = _judged(row, signed, keys, authorities)
        if judged.key_id not in by_key or judged.state == "valid":
            by_key[judged.key_id] = judged
    return tuple(by_key.values())


def _judged(row: Json, signed: bytes, keys: Sequence[Key], authorities: Sequence[Any]) -> Signed:
    signature = _decoded(row["sig"])
    stamped = _stamped(row, signature, authorities)
    for key in keys:
        if key.verifies(signature, signed):
            lacks = authorities and stamped in ("", "wrong")
            return Signed(key.id, key.name, "unstamped" if lacks else "valid", stamped)
    named = next((key.name for key in keys if key.id == row["keyid"]), "")
    return Signed(row["keyid"], named, "wrong" if named else "unknown", stamped)


def _stamped(row: Json, signature: bytes, authorities: Sequence[Any]) -> str:
    token = _decoded(row.get("timestamp", ""))
    if not token or not authorities:
        return "unchecked" if token else ""
    return stamped_at(token, signature, authorities) or "wrong"


def signature_of(certificate: Mapping[str, Any], key: Ed25519PrivateKey) -> bytes:
    """A key's signature of a certificate, 64 bytes; it is deterministic (RFC 8032)."""
    return bytes(key.sign(message(canonical_bytes(certificate))))


def read_envelope(path: Path) -> Json | None:
    """The envelope in a file, opened once; None where there is none.

    Errors: CertificateRejected for a file that cannot be read, or is not an envelope.
    """
    try:
        content = read_once(path, LARGEST_ENVELOPE).json
    except FileNotFoundError:
        return None
    except OSError as error:
        raise CertificateRejected(f"{path}: {error.strerror}; sign with `dpaudit sign`") from None
    except ValueError as error:
        raise CertificateRejected(
            f"{path}: not complete JSON ({str(error)[:80]}); sign anew"
        ) from None
    if not isinstance(content, dict):
        raise CertificateRejected(f"{path}: JSON, but not a DSSE envelope")
    return content


def write_envelope(envelope: Mapping[str, Any], path: Path) -> None:
    """Write an envelope, all or nothing."""
    write_atomically(path, canonical_bytes(envelope) + b"\n")


def _rows(envelope: Mapping[str, Any], payload: bytes) -> list[Json]:
    rows = envelope.get("signatures")
    if not isinstance(rows, list) or len(rows) > MOST_SIGNATURES or not all(map(_is_row, rows)):
        raise CertificateRejected("signatures: not those of a DSSE envelope; sign anew")
    if envelope.get("payloadType") != PAYLOAD_TYPE:
        raise CertificateRejected(f"signatures: payloadType is not {PAYLOAD_TYPE}; sign anew")
    if _decoded(envelope.get("payload")) != payload:
        raise CertificateRejected(
            "signatures: made over another certificate than this one, which was changed or "
            "replaced since; have it signed anew"
        )
    return rows


def _is_row(row: Any) -> bool:
    if not isinstance(row, dict):
        return False
    timestamp = row.get("timestamp", "")
    return all(isinstance(value, str) for value in (row.get("keyid"), row.get("sig"), timestamp))


def _decoded(text: Any) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, TypeError, ValueError):
        raise CertificateRejected("signatures: not base64; sign anew") from None
