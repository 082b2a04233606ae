"""A SQLite ledger is one file: every acknowledged charge is in it, under its only name.

SQLite keeps a rollback journal beside the file while a transaction runs, and deletes it to commit.
A journal that a killed writer left holds the pages from before its transaction, and SQLite puts
them back when the file is opened next.  That is right for the file in the state in which the
transaction found it; a file that was moved away, charged there, and moved back would lose the
charges.  So a journal or log beside a file is compared with the file before SQLite reads either.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path

from dpaudit.errors import DpauditError

# Sources: sqlite.org/fileformat2.html, 1.3 (database header) and 3 (rollback journal).
JOURNAL_MAGIC = bytes.fromhex("d9d505f920a163d7")
ROLLBACK_VERSION = 1  # Byte 18 of a SQLite database without a write-ahead log.
CHANGE_COUNTER = slice(24, 28)  # Bytes of page 1 that count the transactions that changed the file.
# The fields of a journal's header: magic, records, nonce, pages, sector size, page size.
JOURNAL_HEADER = struct.Struct(">8sI4sIII")

# Closing any handle of a file drops the locks that SQLite holds on it in this process
# (sqlite.org/howtocorrupt.html, 2.2), so that the one handle of each file is never closed.
_HANDLES: dict[tuple[int, int], int] = {}


class SplitLedger(DpauditError):
    """A ledger whose charges may lie in another file than the one that was named."""


def refuse_split(path: Path) -> None:
    """Refuse a file with a second name, and one beside a journal or log of another state.

    Errors: SplitLedger naming the files, and what to do; OSError.
    """
    names = path.stat().st_nlink
    if names > 1:
        raise SplitLedger(
            f"{path}: this file has {names} names (hard links), and a charge that was interrupted "
            "under another one cannot be seen here; keep one name, and use symbolic links"
        )
    log, journal = Path(f"{path}-wal"), Path(f"{path}-journal")
    if _size(log) and _page(path)[18] == ROLLBACK_VERSION:
        raise SplitLedger(_foreign(path, log))
    # A writer at work changes both meanwhile: only a journal that stayed the same is judged.
    before = _journalled(journal)
    if before is None:
        return
    counter = _counter(_page(path))
    nonce, stored = before
    if (stored < 0 or counter not in (stored, (stored + 1) % 2**32)) and _journalled(journal) == (
        nonce,
        stored,
    ):
        raise SplitLedger(_foreign(path, journal))


def _foreign(path: Path, beside: Path) -> str:
    return (
        f"{beside}: it is of another state of the ledger than {path}, and would undo charges: one "
        "of the two was moved or replaced. Put the files back that were there together, or move "
        f"{beside.name} away and compare the ledger with a head that you kept (`dpaudit ledger "
        "verify --head`)"
    )


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _page(path: Path) -> bytes:
    """The header of a database."""
    status = path.stat()
    key = status.st_dev, status.st_ino
    if key not in _HANDLES:
        _HANDLES[key] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    return os.pread(_HANDLES[key], 100, 0).ljust(100, b"\0")


def _counter(page: bytes) -> int:
    return int.from_bytes(page[CHANGE_COUNTER], "big")


def _journalled(journal: Path) -> tuple[bytes, int] | None:
    """A journal's nonce, and the counter on the first page that it holds.

    None where there is no journal, or one that SQLite does not follow: not synchronised yet.  -1
    where the first page is missing, which every transaction of a ledger changes.
    """
    try:
        content = journal.read_bytes()
    except FileNotFoundError:
        return None
    if not content.startswith(JOURNAL_MAGIC) or len(content) < JOURNAL_HEADER.size:
        return None
    _, records, nonce, _, sector, page = JOURNAL_HEADER.unpack_from(content)
    if not records:
        return None
    for at in range(sector, len(content) - page - 7, page + 8)[:records]:
        if content[at : at + 4] == b"\0\0\0\1":
            return nonce, _counter(content[at + 4 : at + 4 + page])
    return nonce, -1
