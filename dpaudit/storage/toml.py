"""TOML files that a user writes: of a bounded size, with numbers of a bounded length."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dpaudit.errors import InvalidParameter

LARGEST_FILE = 2**20  # bytes
MOST_DIGITS = 1000
MOST_BITS = 4 * MOST_DIGITS  # no whole number of so many digits has more


def read_toml(path: Path) -> dict[str, Any]:
    """The tables of a TOML file.

    Errors: InvalidParameter, with the path, for a file that cannot be read, is no TOML, or is
    larger, or has a longer number, than anybody needs.
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
