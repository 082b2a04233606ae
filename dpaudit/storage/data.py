"""Open data files by their literal names.

Libraries interpret file names: as a pattern (``people[1].csv``), a home folder (``~``), an address
(``s3://``, ``file:``), or a partition column (``sex=f/``).  Hence no library gets the name of a
user's file; it gets the open file.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import BinaryIO

from dpaudit.errors import InvalidParameter


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


def name_of(stream: BinaryIO) -> str:
    """A name, ``/dev/fd/NUMBER``, under which a library opens this open file.

    It holds no character of a pattern, and is valid while the stream is open.  Replacing the file
    on disk meanwhile has no effect.
    """
    return f"/dev/fd/{stream.fileno()}"
