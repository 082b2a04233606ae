"""Files of data, opened by exactly their names.

Libraries read more than a name out of a text: a pattern (``people[1].csv``), a home folder (``~``),
an address (``s3://``, ``file:``), a column of a folder's name (``sex=f/``).  So no library is given
the name of a user's file: it gets the open file.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import BinaryIO

from dpaudit.errors import InvalidParameter


def open_data(path: Path) -> BinaryIO:
    """The regular file of this name, open for reading bytes.

    Errors: InvalidParameter where there is none, or it cannot be read.
    """
    try:
        # Without waiting for somebody who writes into a pipe.
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    except OSError as error:
        raise InvalidParameter(f"{path}: {error.strerror}; give a file of data") from None
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise InvalidParameter(f"{path}: not a regular file; copy its rows into one")
    return os.fdopen(handle, "rb")


def name_of(stream: BinaryIO) -> str:
    """A name by which a library opens this very file: digits, without any character of a pattern.

    It is good as long as the stream is open.  Whatever takes the place of the file's own name
    meanwhile is not read.
    """
    return f"/dev/fd/{stream.fileno()}"
