"""Open data files by their literal names.

Libraries interpret file names: as a pattern (``people[1].csv``), a home folder (``~``), an address
(``s3://``, ``file:``), or a partition column (``sex=f/``).  Hence no library gets the name of a
user's file; it gets the open file.
"""

from __future__ import annotations

import codecs
import gzip
import os
import stat
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from dpaudit.errors import InvalidParameter

UTF8 = "utf-8"
AT_ONCE = 2**20  # bytes that are decoded together
PACKED = ".gz"


def open_data(path: Path) -> BinaryIO:
    """Open the regular file of this name for reading bytes.

    Errors: InvalidParameter if there is none, or it cannot be read.
    """
    try:
        # Non-blocking, because opening a pipe would wait for a writer.
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    except OSError as error:
        raise InvalidParameter(f"{path}: {error.strerror}; give a file of data") from None
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise InvalidParameter(f"{path}: not a regular file; copy its rows into one")
    return os.fdopen(handle, "rb")


def decoded(stream: BinaryIO, path: Path, encoding: str = UTF8) -> Iterator[str]:
    """The text of an open file from its start, in pieces, without a byte order mark.

    Errors: InvalidParameter with the line of the first byte that the encoding does not have.
    """
    line, decoder = 1, codecs.getincrementaldecoder(encoding)()
    stream.seek(0)
    first, more = True, True
    while more:
        piece = stream.read(AT_ONCE)
        more, before = bool(piece), decoder.getstate()
        try:
            text = decoder.decode(piece, final=not more)
        except UnicodeDecodeError:
            decoder.setstate(before)
            line += _lines_before_an_error(decoder, piece)
            raise InvalidParameter(
                f"{path}: line {line} holds a byte that is no text in {encoding}; save the table "
                "as UTF-8, or name its encoding where one can be named, as in a plan's [table], or "
                'a join of it ([table.joins.NAME]): encoding = "cp1252"'
            ) from None
        yield text.removeprefix("\ufeff") if first else text
        first = first and not text
        line += text.count("\n")


def _lines_before_an_error(decoder: codecs.IncrementalDecoder, piece: bytes) -> int:
    """How many lines end before the first byte that cannot be decoded."""
    lines = 0
    try:
        for place in range(len(piece)):
            lines += decoder.decode(piece[place : place + 1]).count("\n")
    except UnicodeDecodeError:
        pass
    return lines


def readable_text(stream: BinaryIO, path: Path, encoding: str = UTF8) -> BinaryIO:
    """An open file of text in UTF-8: the file itself, or a copy if it is packed or encoded.

    ``path``: its suffix says whether gzip packed it.  The copy has no name, lies below ``TMPDIR``,
    and is gone once it is closed.
    Errors: InvalidParameter for a torn file, and as :func:`decoded`.
    """
    packed = path.suffix.lower() == PACKED
    content: Any = gzip.GzipFile(fileobj=stream) if packed else stream
    try:
        text = decoded(content, path, encoding)
        if not packed and encoding == UTF8:
            for _ in text:
                pass
            return stream
        copy: BinaryIO = tempfile.TemporaryFile()  # noqa: SIM115  (its reader closes it)
        for piece in text:
            copy.write(piece.encode())
        copy.flush()
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise InvalidParameter(f"{path}: not a whole gzip file; pack the table again") from None
    stream.close()
    return copy


def name_of(stream: BinaryIO) -> str:
    """A name, ``/dev/fd/NUMBER``, under which a library opens this open file.

    It holds no character of a pattern, and is valid while the stream is open.  Replacing the file
    on disk meanwhile has no effect.
    """
    return f"/dev/fd/{stream.fileno()}"
