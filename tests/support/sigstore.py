"""A sigstore of the tests' own: a certificate authority, its log of certificates, and a log.

What the public service does when somebody signs, with keys that are made here, so that a bundle can
be verified offline against roots of trust that are made here too.
"""

from __future__ import annotations

import base64
import hashlib
import json
import struct
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import rfc8785
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID, ObjectIdentifier

SHA256 = ec.ECDSA(hashes.SHA256())
ISSUER = ObjectIdentifier("1.3.6.1.4.1.57264.1.1")
SCT_LIST = ObjectIdentifier("1.3.6.1.4.1.11129.2.4.2")
NOW = datetime(2026, 11, 1, 12, tzinfo=UTC)
DSSE = "application/vnd.in-toto+json"


def key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def der(one: ec.EllipticCurvePrivateKey) -> bytes:
    return one.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def text(content: bytes) -> str:
    return base64.b64encode(content).decode()


def log_id(one: ec.EllipticCurvePrivateKey) -> bytes:
    return hashlib.sha256(der(one)).digest()


def named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


@dataclass
class Sigstore:
    """The service; ``at``: its clock."""

    at: datetime = NOW
    ca: ec.EllipticCurvePrivateKey = field(default_factory=key)
    certificates: ec.EllipticCurvePrivateKey = field(default_factory=key)
    log: ec.EllipticCurvePrivateKey = field(default_factory=key)

    def __post_init__(self) -> None:
        self.root = (
            x509.CertificateBuilder(issuer_name=named("CA"), subject_name=named("CA"))
            .public_key(self.ca.public_key())
            .serial_number(1)
            .not_valid_before(self.at - timedelta(days=300))
            .not_valid_after(self.at + timedelta(days=300))
            .add_extension(x509.BasicConstraints(ca=True, path_length=1), critical=True)
            .add_extension(usage(certificates=True), critical=True)
            .add_extension(
                x509.SubjectKeyIdentifier.from_public_key(self.ca.public_key()), critical=False
            )
            .sign(self.ca, hashes.SHA256())
        )

    def trusted_root(self, path: Path) -> Path:
        """The roots of trust as the client reads them."""
        period = {"start": "2026-01-01T00:00:00Z"}

        def log(one: ec.EllipticCurvePrivateKey, url: str) -> Any:
            public = {"rawBytes": text(der(one)), "keyDetails": "PKIX_ECDSA_P256_SHA_256"}
            return {
                "baseUrl": url,
                "hashAlgorithm": "SHA2_256",
                "publicKey": public | {"validFor": period},
                "logId": {"keyId": text(log_id(one))},
            }

        chain = {"certificates": [{"rawBytes": text(self.root.public_bytes(Encoding.DER))}]}
        content = {
            "mediaType": "application/vnd.dev.sigstore.trustedroot+json;version=0.1",
            "tlogs": [log(self.log, "https://log.example")],
            "ctlogs": [log(self.certificates, "https://certificates.example")],
            "timestampAuthorities": [],
            "certificateAuthorities": [
                {
                    "subject": {"organization": "tests", "commonName": "CA"},
                    "uri": "https://ca.example",
                    "certChain": chain,
                    "validFor": period,
                }
            ],
        }
        path.write_text(json.dumps(content))
        return path

    def signed(self, content: bytes, account: str, issuer: str, *, statement: bool) -> bytes:
        """A bundle over a file's bytes, or a DSSE envelope of a statement's."""
        own = key()
        leaf = self._certified(own, account, issuer)
        pem = text(leaf.public_bytes(Encoding.PEM))
        if statement:
            pae = b"DSSEv1 %d %s %d %s" % (len(DSSE), DSSE.encode(), len(content), content)
            signature = own.sign(pae, SHA256)
            kind, spec = (
                "dsse",
                {
                    "envelopeHash": {
                        "algorithm": "sha256",
                        "value": hashlib.sha256(pae).hexdigest(),
                    },
                    "payloadHash": {
                        "algorithm": "sha256",
                        "value": hashlib.sha256(content).hexdigest(),
                    },
                    "signatures": [{"signature": text(signature), "verifier": pem}],
                },
            )
            made: Any = {
                "dsseEnvelope": {
                    "payload": text(content),
                    "payloadType": DSSE,
                    "signatures": [{"sig": text(signature)}],
                }
            }
        else:
            signature = own.sign(content, SHA256)
            digest = hashlib.sha256(content).digest()
            kind, spec = (
                "hashedrekord",
                {
                    "data": {"hash": {"algorithm": "sha256", "value": digest.hex()}},
                    "signature": {"content": text(signature), "publicKey": {"content": pem}},
                },
            )
            made = {
                "messageSignature": {
                    "messageDigest": {"algorithm": "SHA2_256", "digest": text(digest)},
                    "signature": text(signature),
                }
            }
        body = rfc8785.dumps({"apiVersion": "0.0.1", "kind": kind, "spec": spec})
        material = {
            "certificate": {"rawBytes": text(leaf.public_bytes(Encoding.DER))},
            "tlogEntries": [self._entered(body, kind)],
        }
        media = "application/vnd.dev.sigstore.bundle.v0.3+json"
        return json.dumps({"mediaType": media, "verificationMaterial": material, **made}).encode()

    def _certified(
        self, own: ec.EllipticCurvePrivateKey, account: str, issuer: str
    ) -> x509.Certificate:
        """A certificate of ten minutes for an account, entered in the log of certificates."""
        builder = (
            x509.CertificateBuilder(issuer_name=named("CA"), subject_name=x509.Name([]))
            .public_key(own.public_key())
            .serial_number(2)
            .not_valid_before(self.at - timedelta(minutes=5))
            .not_valid_after(self.at + timedelta(minutes=5))
            .add_extension(usage(certificates=False), critical=True)
            .add_extension(
                x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CODE_SIGNING]), critical=False
            )
            .add_extension(x509.SubjectAlternativeName([x509.RFC822Name(account)]), critical=True)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self.ca.public_key()),
                critical=False,
            )
            .add_extension(x509.UnrecognizedExtension(ISSUER, issuer.encode()), critical=False)
        )
        before = builder.sign(self.ca, hashes.SHA256()).tbs_certificate_bytes
        at = int(self.at.timestamp() * 1000)
        entry = log_id(self.ca) + len(before).to_bytes(3, "big") + before
        said = struct.pack(f"!BBQH{len(entry)}sH", 0, 0, at, 1, entry, 0)
        signature = self.certificates.sign(said, SHA256)
        sct = struct.pack("!B32sQH", 0, log_id(self.certificates), at, 0)
        sct += struct.pack("!BBH", 4, 3, len(signature)) + signature
        listed = struct.pack("!HH", len(sct) + 2, len(sct)) + sct
        octets = b"\x04" + (
            bytes([len(listed)]) if len(listed) < 128 else bytes([0x81, len(listed)])
        )
        extension = x509.UnrecognizedExtension(SCT_LIST, octets + listed)
        return builder.add_extension(extension, critical=False).sign(self.ca, hashes.SHA256())

    def _entered(self, body: bytes, kind: str) -> Any:
        """The log's entry: its promise, and the proof that it is the second of two."""
        own, at = log_id(self.log), int(self.at.timestamp())
        first = hashlib.sha256(b"\x00somebody else's").digest()
        leaf = hashlib.sha256(b"\x00" + body).digest()
        root = hashlib.sha256(b"\x01" + first + leaf).digest()
        note = f"log.example - 1\n2\n{text(root)}\n"
        signature = own[:4] + self.log.sign(note.encode(), SHA256)
        promised = {"body": text(body), "integratedTime": at, "logID": own.hex(), "logIndex": 1}
        return {
            "logIndex": "1",
            "logId": {"keyId": text(own)},
            "kindVersion": {"kind": kind, "version": "0.0.1"},
            "integratedTime": str(at),
            "inclusionPromise": {
                "signedEntryTimestamp": text(self.log.sign(rfc8785.dumps(promised), SHA256))
            },
            "inclusionProof": {
                "logIndex": "1",
                "rootHash": text(root),
                "treeSize": "2",
                "hashes": [text(first)],
                "checkpoint": {"envelope": f"{note}\n\u2014 log.example {text(signature)}\n"},
            },
            "canonicalizedBody": text(body),
        }


def usage(*, certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=certificates,
        crl_sign=certificates,
        encipher_only=False,
        decipher_only=False,
    )
