"""Tables written as CSV, in which no spreadsheet finds a formula."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Sequence

# What begins a formula, also in the full width that spreadsheets fold, and what may end a cell:
# where the list separator is a semicolon, a comma's quotes are ordinary characters.
FORMULA = "=+-@＝＋－＠"
ENDS = re.compile(r"([;|\t\r\n\v\f]+)")
NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")


def csv_text(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A line of names and one a row.

    A part of a cell that a spreadsheet would compute gets an apostrophe before it, so that it stays
    text.  A number is left as it is.
    """
    target = io.StringIO(newline="")
    writer = csv.writer(target, lineterminator="\n")
    for row in (columns, *rows):
        writer.writerow([_inert(str(cell)) for cell in row])
    return target.getvalue()


def _inert(cell: str) -> str:
    return cell if NUMBER.fullmatch(cell) else "".join(map(_inert_part, ENDS.split(cell)))


def _inert_part(part: str) -> str:
    # Blanks, quotes and what does not show may stand before a formula.
    start = next((i for i, sign in enumerate(part) if sign.isprintable() and sign not in ' "'), 0)
    return f"'{part}" if part[start : start + 1] in tuple(FORMULA) else part
