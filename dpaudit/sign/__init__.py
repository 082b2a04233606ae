"""Signatures of certificates: the signer, and the time by which it was signed.

DSSE envelopes with Ed25519 keys, time stamps of an authority over them, and sigstore bundles.
"""

from __future__ import annotations

from dpaudit.sign.bundle import Identity, bundled, identity, read_bundle, service
from dpaudit.sign.envelope import (
    SUFFIX,
    Signed,
    envelope_of,
    read_envelope,
    sign,
    signature_of,
    signatures,
    write_envelope,
)
from dpaudit.sign.keys import Key, make_keys, private_key, public_key
from dpaudit.sign.timestamp import authority, read_token, timestamp_query

__all__ = [
    "SUFFIX",
    "Identity",
    "Key",
    "Signed",
    "authority",
    "bundled",
    "envelope_of",
    "identity",
    "make_keys",
    "private_key",
    "public_key",
    "read_bundle",
    "read_envelope",
    "read_token",
    "service",
    "sign",
    "signature_of",
    "signatures",
    "timestamp_query",
    "write_envelope",
]
