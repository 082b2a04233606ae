"""Time stamps: an authority's statement that a signature existed no later than a given time.

A token is a time stamp response over the signature's bytes.  It is verified against certificates
that the verifier trusts, as valid at the stated time.
Source: Adams, Cain, Pinkas and Zuccherato, RFC 3161 (2001), by the library `rfc3161-client`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import UTC
from pathlib import Path
from typing import Any

from dpaudit.errors import InvalidParameter, optional
from dpaudit.storage.evidence import read_once

LARGEST_TOKEN = 2**17  # bytes


def timestamp_query(signature: bytes) -> bytes:
    """The request to an authority for a time stamp over a signature, in DER."""
    client = _client()
    builder = client.TimestampRequestBuilder().data(signature)
    request: bytes = builder.hash_algorithm(client.HashAlgorithm.SHA256).build().as_bytes()
    return request


def stamped_at(token: bytes, signature: bytes, authorities: Sequence[Any]) -> str:
    """The time (RFC 3339) of a token over this signature; empty if no given authority made it.

    ``authorities``: root certificates, from :func:`authority`.
    """
    client = _client()
    for root in authorities:
        verifier = client.VerifierBuilder(roots=[root]).build()
        try:
            response = client.decode_timestamp_response(token)
            verifier.verify_message(response, signature)
        except (ValueError, client.VerificationError):
            continue
        at = response.tst_info.gen_time
        return str(at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"))
    return ""


def authority(path: Path) -> Any:
    """The root certificate of a time stamping authority, in PEM.

    Errors: InvalidParameter for a file that holds none.
    """
    _client()
    from cryptography.x509 import load_pem_x509_certificate

    try:
        return load_pem_x509_certificate(read_once(path, LARGEST_TOKEN).content)
    except OSError as error:
        raise InvalidParameter(f"{path}: {error.strerror}; give a certificate in PEM") from None
    except ValueError:
        raise InvalidParameter(f"{path}: not a certificate in PEM") from None


def read_token(path: Path) -> bytes:
    """A time stamp response from a file.

    Errors: InvalidParameter for a file that cannot be read or holds no granted response.
    """
    try:
        content = read_once(path, LARGEST_TOKEN).content
    except OSError as error:
        raise InvalidParameter(f"{path}: {error.strerror}; give a time stamp token") from None
    client = _client()
    try:
        granted = client.decode_timestamp_response(content).status == client.PKIStatus.GRANTED
    except ValueError:
        granted = False
    if not granted:
        raise InvalidParameter(f"{path}: not a time stamp that an authority granted (RFC 3161)")
    return content


def of_signature(token: bytes, signature: bytes) -> bool:
    """Whether a token is over this signature; the token's authority is not checked."""
    try:
        imprint = _client().decode_timestamp_response(token).tst_info.message_imprint.message
    except ValueError:
        return False
    names = ("sha256", "sha384", "sha512")
    return any(imprint == hashlib.new(name, signature).digest() for name in names)


def _client() -> Any:
    """Errors: InvalidParameter if the library is not installed."""
    with optional("sign", "time stamps"):
        import rfc3161_client
    return rfc3161_client
