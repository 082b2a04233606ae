"""Ed25519 key files in PEM: written with mode 600, refused if others may read them, never printed.

Source: Josefsson and Liusvaara, RFC 8032 (2017), by the library `cryptography`.
"""

from __future__ import annotations

import hashlib
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpaudit.errors import InvalidParameter, OutputNotWritable, optional
from dpaudit.storage.evidence import Evidence, read_once
from dpaudit.storage.files import write_new

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

LARGEST_KEY = 2**16  # bytes of a key file
OTHERS = stat.S_IRWXG | stat.S_IRWXO  # rights of others than a key's owner


@dataclass(frozen=True)
class Key:
    """A public key and the verifier's name for it; ``id`` is its SHA-256."""

    name: str
    raw: bytes

    @property
    def id(self) -> str:
        return key_id(self.raw)

    def verifies(self, signature: bytes, message: bytes) -> bool:
        """Whether the signature is this key's signature of these bytes."""
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

        try:
            Ed25519PublicKey.from_public_bytes(self.raw).verify(signature, message)
        except InvalidSignature:
            return False
        return True


def key_id(raw: bytes) -> str:
    """SHA-256 of a public key's 32 bytes, as hex."""
    return hashlib.sha256(raw).hexdigest()


def make_keys(path: Path) -> tuple[Path, Path]:
    """Write a new private key to ``path``, for its owner only, and its public key beside it.

    Errors: OutputNotWritable if either file exists or cannot be written.
    """
    library()
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
        PublicFormat,
    )

    made, public = Ed25519PrivateKey.generate(), path.with_suffix(".pub")
    secret = made.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    shared = made.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    if public == path:
        raise InvalidParameter(f"{path}: .pub is the public key's suffix; name it otherwise")
    if public.exists():
        raise OutputNotWritable(f"{public} exists; a key is never overwritten, choose another name")
    try:
        write_new(path, secret, 0o600)
    except FileExistsError:
        raise OutputNotWritable(
            f"{path} exists; a key is never overwritten, choose another name, or make its public "
            f"key with `openssl pkey -in {path} -pubout -out {public}`"
        ) from None
    try:
        write_new(public, shared)
    except (FileExistsError, OutputNotWritable) as error:
        with suppress(OSError):  # a disk that has become read-only keeps the file
            path.unlink()  # nobody has used this key yet
        cause = str(error) if isinstance(error, OutputNotWritable) else f"{public} exists"
        remedy = f"remove {path}, which has no public key" if path.exists() else "no key was made"
        raise OutputNotWritable(f"{cause}; {remedy}") from None
    return path, public


def private_key(path: Path, password: bytes | None = None) -> Ed25519PrivateKey:
    """The private key of a PEM file.

    Errors: InvalidParameter for a file that others may read or that holds no Ed25519 private key.
    """
    library()
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    file = _file(path)
    if file.mode & OTHERS:
        raise InvalidParameter(
            f"{path}: others may read this key (mode {stat.S_IMODE(file.mode):03o}); chmod 600 it, "
            "or make a new one if they may have read it"
        )
    key = _parsed(path, lambda: load_pem_private_key(file.content, password), "private")
    if not isinstance(key, Ed25519PrivateKey):
        raise InvalidParameter(f"{path}: not an Ed25519 private key")
    return key


def public_key(path: Path, name: str = "") -> Key:
    """The public key of a PEM file; without a ``name`` it is called like the file.

    Errors: InvalidParameter for a file that holds no Ed25519 public key.
    """
    library()
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    content = _file(path).content
    if b"PRIVATE KEY" in content:
        raise InvalidParameter(f"{path}: a private key; give the public one, the file with .pub")
    key = _parsed(path, lambda: load_pem_public_key(content), "public")
    if not isinstance(key, Ed25519PublicKey):
        raise InvalidParameter(f"{path}: not an Ed25519 public key")
    return Key(name or path.stem, key.public_bytes_raw())


def library() -> None:
    """Errors: InvalidParameter if the library is not installed."""
    with optional("sign", "signatures"):
        import cryptography  # noqa: F401


def _file(path: Path) -> Evidence:
    try:
        return read_once(path, LARGEST_KEY, pipes=True)
    except OSError as error:
        raise InvalidParameter(f"{path}: {error.strerror}; give a key file") from None


def _parsed(path: Path, load: Any, kind: str) -> Any:
    """The result of a loader; its error messages are dropped, because they may quote the key."""
    from cryptography.exceptions import UnsupportedAlgorithm

    try:
        return load()
    except (ValueError, UnsupportedAlgorithm):
        raise InvalidParameter(f"{path}: not a {kind} key in PEM") from None
    except TypeError:
        raise InvalidParameter(
            f"{path}: protected by a password, or given one that it does not need; see --password"
        ) from None
