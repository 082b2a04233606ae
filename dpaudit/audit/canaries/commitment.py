"""Labels of canaries: drawn here, committed to before a run, opened and checked after it.

The commitment is SHA-256 over a salt of 32 random bytes, the number of canaries and the labels,
eight to a byte.  It hides the labels (the salt is drawn anew) and binds them (SHA-256 resists
collisions), so that whoever holds the file knows that the labels were fixed before the run.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dpaudit.audit.bounds.one_run import MAXIMUM_CANARIES
from dpaudit.errors import DpauditError, InvalidParameter, OutputNotWritable
from dpaudit.storage.evidence import read_once
from dpaudit.storage.files import write_atomically, write_new

BoolArray = npt.NDArray[np.bool_]

FORMAT = "dpaudit one-run labels, version 1"
SALT_BYTES = 32  # of a commitment: 256 bits cannot be guessed
COIN_STREAM = 0x436F696E  # key of the coins' stream of random numbers ("Coin")
_LARGEST_FILE = 8 * MAXIMUM_CANARIES  # bytes of a file of labels: eight a canary


class CommitmentMismatch(DpauditError):
    """Labels that are not the ones committed to before the run: no bound is made of them."""

    exit_code = 1


@dataclass(frozen=True, eq=False)
class Labels:
    """Which canaries to include: ``included`` has shape (canaries,), True with probability 1/2.

    ``commitment`` is the hexadecimal digest in the file ``path``.  Keep the labels from whoever
    scores the canaries until the scores are fixed.
    """

    included: BoolArray = field(repr=False)
    salt: bytes = field(repr=False)
    commitment: str
    path: Path

    @property
    def canaries(self) -> int:
        return int(self.included.size)

    def save(self, path: str | Path) -> None:
        """Write labels and salt to a file of their own, to be opened after the run.

        Errors: OutputNotWritable.
        """
        content = {
            "format": FORMAT,
            "canaries": self.canaries,
            "labels": np.packbits(self.included).tobytes().hex(),
            "salt": self.salt.hex(),
        }
        write_atomically(Path(path), _lines(content))

    def check(self) -> None:
        """Compare the labels with the commitment on file.

        Errors: CommitmentMismatch if they differ; InvalidParameter for a file that is missing, not
        whole, or not a commitment.
        """
        content = _read(self.path)
        on_file = {"canaries": content.get("canaries"), "sha256": content.get("sha256")}
        expected = {"canaries": self.canaries, "sha256": _digest(self.salt, self.included)}
        if on_file != expected or self.commitment != expected["sha256"]:
            raise CommitmentMismatch(
                f"{self.path}: the labels are not those committed to; give the ones that commit() "
                "returned, unchanged"
            )


def commit(path: str | Path, canaries: int, *, seed: int | None = None) -> Labels:
    """Draw labels and write the commitment to them; do so before the run.

    Labels are independent fair bits from the operating system, or, with ``seed``, from a generator
    that whoever knows the seed can repeat: for tests.  An existing file is never replaced, so that
    labels cannot be drawn again until they please.
    Errors: InvalidParameter unless 1 <= canaries <= 1e7 and seed >= 0; OutputNotWritable.
    """
    size = _size(canaries)
    place = Path(path)
    bits = np.frombuffer(_bytes(-(-size // 8), seed), dtype=np.uint8)
    included = np.unpackbits(bits)[:size].astype(np.bool_)
    included.setflags(write=False)
    salt = secrets.token_bytes(SALT_BYTES)
    digest = _digest(salt, included)
    content = {"format": FORMAT, "canaries": size, "sha256": digest}
    try:
        write_new(place, _lines(content))
    except FileExistsError:
        raise OutputNotWritable(
            f"{place}: exists; a commitment is made once, choose a new name"
        ) from None
    return Labels(included, salt, digest, place)


def load_labels(path: str | Path, commitment: str | Path) -> Labels:
    """Labels that :meth:`Labels.save` wrote, checked against the commitment made before the run.

    Errors: CommitmentMismatch if they differ; InvalidParameter for files that are missing, not
    whole, or of another kind.
    """
    place = Path(path)
    content = _read(place)
    try:
        size = _size(content["canaries"])
        bits = np.frombuffer(bytes.fromhex(content["labels"]), dtype=np.uint8)
        salt = bytes.fromhex(content["salt"])
    except (KeyError, TypeError, ValueError):
        raise InvalidParameter(f"{place}: expected labels that save() wrote") from None
    if bits.size != -(-size // 8):
        raise InvalidParameter(f"{place}: {bits.size} bytes of labels for {size} canaries")
    included = np.unpackbits(bits)[:size].astype(np.bool_)
    included.setflags(write=False)
    labels = Labels(included, salt, _digest(salt, included), Path(commitment))
    labels.check()
    return labels


def _digest(salt: bytes, included: BoolArray) -> str:
    packed = np.packbits(included).tobytes()
    return hashlib.sha256(salt + int(included.size).to_bytes(8, "big") + packed).hexdigest()


def _bytes(count: int, seed: int | None) -> bytes:
    if seed is None:
        return secrets.token_bytes(count)
    if type(seed) is not int or seed < 0:
        raise InvalidParameter(f"seed = {seed!r}: expected an integer >= 0, or None")
    # A stream for the coins alone: data shuffled by the same seed must not know them.
    words = np.random.SeedSequence([seed, COIN_STREAM]).generate_state(4)
    return np.random.default_rng(int.from_bytes(words.tobytes(), "big")).bytes(count)


def _size(canaries: Any) -> int:
    if type(canaries) is not int or not 1 <= canaries <= MAXIMUM_CANARIES:
        limit = f"{MAXIMUM_CANARIES:,}"
        raise InvalidParameter(f"canaries = {canaries!r}: expected an integer from 1 to {limit}")
    return canaries


def _lines(content: dict[str, Any]) -> bytes:
    return (json.dumps(content, indent=1, sort_keys=True) + "\n").encode()


def _read(path: Path) -> dict[str, Any]:
    try:
        content = read_once(path, _LARGEST_FILE).json
    except OSError as error:
        raise InvalidParameter(f"{path}: {error.strerror or 'not readable'}") from None
    except ValueError:
        raise InvalidParameter(f"{path}: not a whole file of JSON; was it changed?") from None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise InvalidParameter(f"{path}: expected a file that begins with {FORMAT!r}")
    return content
