"""Sigstore bundles: a signature in the name of an account, and its entry in a public log.

A bundle ``NAME.json.sigstore.json`` beside a certificate is what ``sigstore sign NAME.json``
writes, or a DSSE envelope of the certificate's statement.  Signing needs the service, verifying
does not: it takes the roots of trust from a file, or those that `sigstore` has fetched before.
Source: Newman, Meyers and Torres-Arias 2022, by the library `sigstore`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dpaudit.errors import CertificateRejected, InvalidParameter
from dpaudit.exact.wire import canonical_bytes
from dpaudit.sign.envelope import PAYLOAD_TYPE, Signed

SUFFIX = ".sigstore.json"
LARGEST_BUNDLE = 2**24
EXTRA = "sigstore bundles need the library `sigstore`: pip install 'dpaudit[sigstore]'"


@dataclass(frozen=True)
class Identity:
    """An account that has to have signed, and who vouches for it (an OpenID Connect issuer)."""

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
            f"--identity {text[:80]}: expected ACCOUNT@ISSUER, such as "
            "ann@clinic.example@https://accounts.google.com"
        )
    return Identity(name, issuer)


def bundled(
    path: Path, certificate: Mapping[str, Any], known: Identity, root: Path | None
) -> Signed | None:
    """Whether the bundle beside a certificate's file is this account's, over just its content.

    ``root``: a file with the roots of trust; those of the public service, as they were fetched
    last, without one.  None where there is no bundle.
    Errors: CertificateRejected for a file that is no bundle; InvalidParameter without the library,
    or without roots.
    """
    place = bundle_of(path)
    if not place.exists():
        return None
    try:
        from sigstore.errors import Error, VerificationError
        from sigstore.models import Bundle, TrustedRoot
        from sigstore.verify import Verifier, policy
    except ImportError:
        raise InvalidParameter(EXTRA) from None
    try:
        if place.stat().st_size > LARGEST_BUNDLE:
            raise CertificateRejected(f"{place}: larger than {LARGEST_BUNDLE} bytes")
        raw = place.read_bytes()
        bundle, content = Bundle.from_json(raw), json.loads(raw)
    except OSError as error:
        raise CertificateRejected(f"{place}: {error.strerror}") from None
    except (Error, ValueError):
        raise CertificateRejected(f"{place}: no sigstore bundle; sign anew") from None
    try:
        verifier = (
            Verifier.production(offline=True)
            if root is None
            else Verifier(trusted_root=TrustedRoot.from_file(str(root)))
        )
    except (OSError, ValueError, Error) as error:
        where = "roots of trust" if root is None else str(root)
        raise InvalidParameter(
            f"{where}: {type(error).__name__}; give --trusted-root a file with them"
        ) from None
    expected = policy.Identity(identity=known.name, issuer=known.issuer)
    try:
        if "dsseEnvelope" not in content:
            verifier.verify_artifact(path.read_bytes(), bundle, expected)
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
