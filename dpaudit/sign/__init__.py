"""Signatures: who answers for a certificate, as DSSE envelopes with Ed25519 keys."""

from __future__ import annotations

from dpaudit.sign.envelope import (
    SUFFIX,
    Signed,
    envelope_of,
    read_envelope,
    sign,
    signatures,
    write_envelope,
)
from dpaudit.sign.keys import Key, make_keys, private_key, public_key

__all__ = [
    "SUFFIX",
    "Key",
    "Signed",
    "envelope_of",
    "make_keys",
    "private_key",
    "public_key",
    "read_envelope",
    "sign",
    "signatures",
    "write_envelope",
]
