"""Tables as CSV whose cells no spreadsheet takes for formulas."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Sequence

# Characters that begin a formula, also as full-width forms, which spreadsheets convert.
FORMULA = "=+-@＝＋－＠"
# Characters that end a cell for some spreadsheet.  If its list separator is a semicolon, the quotes
# of this file are ordinary characters to it, so that a semicolon inside a cell begins a new one.
ENDS = re.compile(r"([;|\t\r\n\v\f]+)")
NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")


def csv_text(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """CSV text with one line of column names and one line for each row.

    A part of a cell that a spreadsheet would compute gets an apostrophe before it, so that it stays
    text.  Numbers are unchanged.
    """
    target = io.StringIO(newline="")
    writer = csv.writer(target, lineterminator="\n")
    for row in (columns, *rows):
        writer.writerow([_inert(str(cell)) for cell in row])
    return target.getvalue()


def _inert(cell: str) -> str:
    return cell if NUMBER.fullmatch(cell) else "".join(map(_inert_part, ENDS.split(cell)))


def _inert_part(part: str) -> str:
    # Spreadsheets skip blanks, quotes and invisible characters before a formula.
    start = next((i for i, sign in enumerate(part) if sign.isprintable() and sign not in ' "'), 0)
    return f"'{part}" if part[start : start + 1] in tuple(FORMULA) else part
