"""Sigstore bundles: a signature by an account, and its entry in a public log.

A bundle ``NAME.json.sigstore.json`` lies beside its certificate.  It is the output of
``sigstore sign NAME.json``, or a DSSE envelope of the certificate's statement.  Signing needs the
service.  Verifying works offline, with roots of trust from a file or from sigstore's last fetch.
Source: Newman, Meyers and Torres-Arias 2022, by the library `sigstore`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from dpaudit.errors import CertificateRejected, InvalidParameter, optional
from dpaudit.exact.wire import canonical_bytes
from dpaudit.sign.envelope import PAYLOAD_TYPE, Signed
from dpaudit.storage.evidence import Evidence, read_once

SUFFIX = ".sigstore.json"
LARGEST_BUNDLE = 2**24  # bytes
SUBJECT = "sigstore bundles"


@dataclass(frozen=True)
class Identity:
    """An account that must have signed, and the OpenID Connect issuer that vouches for it."""

    name: str
    issuer: str

    @property
    def id(self) -> str:
        return f"{self.name}@{self.issuer}"


def bundle_of(certificate: Path) -> Path:
    """Where the bundle of a certificate's file is: ``NAME.json.sigstore.json``."""
    return certificate.with_name(certificate.name + SUFFIX)


def identity(text: str) -> Identity:
    """``ACCOUNT@ISSUER-URL``, split at the last @.  Errors: InvalidParameter for another form."""
    name, _, issuer = text.rpartition("@")
    if not name or not issuer.startswith("https://"):
        raise InvalidParameter(
            f"identity = {text[:80]}: expected ACCOUNT@ISSUER, such as "
            "ann@clinic.example@https://accounts.google.com"
        )
    return Identity(name, issuer)


def read_bundle(certificate: Path) -> Evidence | None:
    """The bundle beside a certificate's file, opened once; None where there is none.

    Errors: CertificateRejected for a file that cannot be read.
    """
    place = bundle_of(certificate)
    try:
        return read_once(place, LARGEST_BUNDLE)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise CertificateRejected(f"{place}: {error.strerror}") from None


@cache
def service(root: Path | None = None) -> Any:
    """A sigstore verifier with the roots of trust in a file, or those fetched last.

    Errors: InvalidParameter if the library or the roots are missing.
    """
    with optional("sigstore", SUBJECT):
        from sigstore.errors import Error
        from sigstore.models import TrustedRoot
        from sigstore.verify import Verifier
    try:
        if root is None:
            return Verifier.production(offline=True)
        return Verifier(trusted_root=TrustedRoot.from_file(str(root)))
    except (OSError, ValueError, Error) as error:
        where = "roots of trust" if root is None else str(root)
        raise InvalidParameter(
            f"{where}: {type(error).__name__}; give trusted_root= a file with them"
        ) from None


def bundled(
    file: Evidence, certificate: Mapping[str, Any], place: Evidence, known: Identity, verifier: Any
) -> Signed:
    """Whether a bundle is this account's signature over the bytes of a certificate's file.

    ``file``: the certificate as it was read; ``place``: the bundle as it was read; ``verifier``:
    from :func:`service`.
    Errors: CertificateRejected for a file that is not a bundle; InvalidParameter if the library is
    missing.
    """
    with optional("sigstore", SUBJECT):
        from sigstore.errors import Error, VerificationError
        from sigstore.models import Bundle
        from sigstore.verify import policy
    try:
        content = place.json
        bundle = Bundle.from_json(place.content)
    except (Error, ValueError):
        raise CertificateRejected(f"{place.path}: no sigstore bundle; sign anew") from None
    expected = policy.Identity(identity=known.name, issuer=known.issuer)
    try:
        if "dsseEnvelope" not in content:
            verifier.verify_artifact(file.content, bundle, expected)
        elif verifier.verify_dsse(bundle, expected) != (PAYLOAD_TYPE, canonical_bytes(certificate)):
            return Signed(known.id, known.name, "wrong", "")
    except (VerificationError, ValueError):
        return Signed(known.id, known.name, "wrong", "")
    (entry,) = content["verificationMaterial"]["tlogEntries"]
    at = datetime.fromtimestamp(int(entry.get("integratedTime", 0)), UTC)
    promised = "inclusionPromise" in entry
    return Signed(
        known.id, known.name, "valid", at.strftime("%Y-%m-%dT%H:%M:%SZ") if promised else ""
    )
