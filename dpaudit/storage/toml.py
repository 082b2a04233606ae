"""Read TOML files of users, with limits on their size and on the length of numbers."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dpaudit.errors import InvalidParameter

LARGEST_FILE = 2**20  # bytes
MOST_DIGITS = 1000  # of a whole number; longer ones take long to convert
MOST_BITS = 4 * MOST_DIGITS  # an upper bound on the bits of such a number


def read_toml(path: Path) -> dict[str, Any]:
    """The tables of a TOML file.

    Errors: InvalidParameter, with the path, for a file that cannot be read, is not TOML, is larger
    than LARGEST_FILE, or has a whole number of more than about MOST_DIGITS digits.
    """
    try:
        if path.stat().st_size > LARGEST_FILE:
            raise InvalidParameter(f"{path}: larger than {LARGEST_FILE} bytes")
        content = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise InvalidParameter(f"{path}: {error.strerror}") from None
    except InvalidParameter:
        raise
    except (ValueError, RecursionError) as error:
        raise InvalidParameter(f"{path}: not TOML ({str(error)[:120]})") from None
    for number in _whole_numbers(content):
        if number.bit_length() > MOST_BITS:
            raise InvalidParameter(f"{path}: a number of over {MOST_DIGITS} digits")
    return content


def _whole_numbers(value: Any) -> Iterator[int]:
    if isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _whole_numbers(part)
    elif isinstance(value, int):
        yield value
