"""Finished batches and rows on disk, from which an interrupted run resumes."""

from __future__ import annotations

import hashlib
import hmac
import io
import json
import os
import re
import secrets
import shutil
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from dpaudit.errors import InvalidParameter, OutputNotWritable
from dpaudit.storage.files import sweep, write_atomically, write_new

Key: TypeAlias = tuple[int, ...]
Arrays: TypeAlias = dict[str, npt.NDArray[Any]]

_FILE_NAME = re.compile(r"[0-9]+(-[0-9]+)*\.npz")
_TAG_BYTES = 32  # Bytes of a key, and of a digest under it.
# The errors of zipfile, the .npy reader and json on damaged bytes.
_DAMAGE = (
    OSError, ValueError, KeyError, TypeError, EOFError, SyntaxError, NotImplementedError,
    RuntimeError, OverflowError, MemoryError, struct.error, zlib.error, zipfile.BadZipFile,
    tokenize.TokenError,
)  # fmt: skip


@dataclass(frozen=True)
class AuditStore:
    """Finished batches of one audit, one .npz file each, in a folder named by the identity.

    ``identity``: a text with everything that the arrays depend on (audit, data, seed, batch plan,
    version); another text has another folder.  Files are written atomically, record their identity,
    key and trials, and are read without pickle.  A file that is truncated, damaged or misplaced is
    discarded, and its batch runs again.  The same holds for a file that another user wrote: each
    file ends in an HMAC under the user's key (:func:`own_key`).

    Errors: OutputNotWritable if the folder cannot be made or written.
    """

    folder: Path
    identity: str

    def __post_init__(self) -> None:
        if not self.identity:
            raise InvalidParameter("identity: empty; name the audit, its data, seed and batch plan")
        object.__setattr__(self, "folder", Path(self.folder))
        write_atomically(self.place / "identity.txt", self.identity.encode())

    @property
    def digest(self) -> str:
        """SHA-256 of the identity, in hexadecimal."""
        return hashlib.sha256(self.identity.encode()).hexdigest()

    @property
    def place(self) -> Path:
        """The folder of this identity."""
        return self.folder / self.digest

    def get(self, key: Key) -> Arrays | None:
        """The arrays stored under ``key``, or None; a file that is not intact is discarded."""
        path = self._path(key)
        try:
            return _read(path, self._record(key))
        except FileNotFoundError:
            return None
        except _DAMAGE:
            with suppress(OSError):
                path.unlink()
            return None

    def put(self, key: Key, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Store a batch, replacing what its key held; all arrays share their first axis, trials.

        Errors: InvalidParameter for arrays without a common first axis or holding Python objects;
        OutputNotWritable if the file cannot be written (a full disk, a folder taken away).
        """
        record = self._record(key) | {"trials": leading(arrays), "names": list(arrays)}
        members = {str(index): array for index, array in enumerate(arrays.values())}
        buffer = io.BytesIO()
        text = np.frombuffer(json.dumps(record, sort_keys=True).encode(), dtype=np.uint8)
        np.savez(buffer, record=text, **members)  # type: ignore[arg-type]
        write_atomically(self._path(key), buffer.getvalue() + _tag(buffer.getvalue()))

    def keys(self) -> tuple[Key, ...]:
        """Keys of the files present, in order; :meth:`get` decides whether a file is intact."""
        names = (path.name for path in self.place.iterdir() if _FILE_NAME.fullmatch(path.name))
        return tuple(sorted(tuple(map(int, name[:-4].split("-"))) for name in names))

    def _path(self, key: Key) -> Path:
        if not key or any(type(part) is not int or part < 0 for part in key):
            raise InvalidParameter(f"key = {key!r}: expected a tuple of integers >= 0, not empty")
        return self.place / ("-".join(map(str, key)) + ".npz")

    def _record(self, key: Key) -> dict[str, Any]:
        return {"identity": self.digest, "key": list(key)}


def _tag(content: bytes) -> bytes:
    return hmac.digest(own_key(), content, "sha256")


@cache
def own_key() -> bytes:
    """This user's key for batches, made at its first use.

    It is kept in ``$XDG_STATE_HOME/dpaudit`` (``~/.local/state/dpaudit``), readable by the user
    alone.  If no such file can be kept, a key for this process is returned.
    """
    try:
        home = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
        path = Path(home) / "dpaudit" / "batches.key"
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        sweep(path.parent)  # a process that was killed as the key took its name left the other one
        if not path.exists():
            with suppress(FileExistsError):  # another process was first; its file is complete
                write_new(path, secrets.token_bytes(_TAG_BYTES), 0o600)
        key = path.read_bytes()
        own = path.stat().st_uid == os.getuid() and not path.stat().st_mode & 0o077
        if own and len(key) == _TAG_BYTES:
            return key
    except (OSError, OutputNotWritable, RuntimeError):
        pass
    return secrets.token_bytes(_TAG_BYTES)


def leading(arrays: Mapping[str, npt.NDArray[Any]]) -> int:
    """The length of the first axis, trials, that all the arrays share.

    Errors: InvalidParameter if there are none, they differ, or one holds Python objects.
    """
    if not all(map(_is_plain, arrays.values())):
        raise InvalidParameter("batch: expected NumPy arrays of numbers, not Python objects")
    lengths = {array.shape[:1] for array in arrays.values()}
    if len(lengths) != 1 or lengths in ({()}, {(0,)}):
        shapes = {name: array.shape for name, array in arrays.items()}
        raise InvalidParameter(f"batch: shapes {shapes}; every array must lead with the trials")
    return int(lengths.pop()[0])


def _is_plain(array: object) -> bool:
    return isinstance(array, np.ndarray) and not array.dtype.hasobject


def _read(path: Path, expected: dict[str, Any]) -> Arrays:
    """The arrays of an intact file; anything else raises one of ``_DAMAGE``."""
    stored = path.read_bytes()
    content, tag = stored[:-_TAG_BYTES], stored[-_TAG_BYTES:]
    if not hmac.compare_digest(tag, _tag(content)):
        raise ValueError("written by somebody else")
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        if archive.testzip() is not None:
            raise ValueError("a checksum differs")
    with np.load(io.BytesIO(content), allow_pickle=False) as loaded:
        record = json.loads(loaded["record"].tobytes())
        arrays = {name: loaded[str(index)] for index, name in enumerate(record["names"])}
    if record | expected != record or leading(arrays) != record["trials"]:
        raise ValueError("the record is of another batch")
    return arrays


# --- rows -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RowStore:
    """A folder with one JSON file for each finished task.

    The folder's name must contain everything that results depend on.  A file that cannot be read,
    or belongs to another task, is ignored, and the task runs again.
    """

    folder: Path

    def get(self, name: str) -> dict[str, Any] | None:
        """The row of a task; None if there is none."""
        try:
            row = json.loads(self._path(name).read_text("utf-8"))
            values = row["values"] if row["task"] == name else None
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return values if isinstance(values, dict) else None

    def put(self, name: str, row: Mapping[str, Any]) -> None:
        """Write a row atomically."""
        write_atomically(self._path(name), json.dumps({"task": name, "values": dict(row)}).encode())

    def remove(self) -> None:
        """Delete all rows, once their results are stored elsewhere."""
        shutil.rmtree(self.folder, ignore_errors=True)
        with suppress(OSError):
            self.folder.parent.rmdir()

    def _path(self, name: str) -> Path:
        return self.folder / f"{hashlib.sha256(name.encode()).hexdigest()[:32]}.json"
