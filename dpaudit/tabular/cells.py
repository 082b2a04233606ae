"""The spelling of a cell as text, the same for every format: in Python, and in SQL for DuckDB.

Blanks around a text do not count; a blank and a NaN are missing.  Programs write one value in
several ways, ``True`` and ``true``, ``1`` and ``1.0``: such spellings are one.  In a column of
units ``+1`` and ``01`` are 1 too, because a unit that is taken for two would count twice.
"""

from __future__ import annotations

import re

BLANKS = "".join(filter(str.isspace, map(chr, range(0x3001))))  # all that Python counts as one
BOOLEANS = ("true", "false")  # texts that are truth values
MISSING = ("nan", "+nan", "-nan")  # texts that stand for no number
WHOLE = r"^(-?[0-9]+)[.]0+$"
WHOLE_UNIT = r"^[+]?(-?)0*([0-9]+)([.]0*)?$"
# Spellings of one unit are equal without these characters and without case.
TAKEN_AWAY = f"[{BLANKS}0+.-]"


def spelled(text: str, *, unit: bool = False) -> str | None:
    """A text as it is compared, None where it is missing."""
    text = text.strip(BLANKS)
    lower = text.lower()
    if not text or lower in MISSING:
        return None
    if lower in BOOLEANS:
        return lower
    shortened = re.sub(WHOLE_UNIT, r"\1\2", text) if unit else re.sub(WHOLE, r"\1", text)
    return "0" if shortened == "-0" else shortened


def spelled_sql(name: str, *, unit: bool = False) -> str:
    """A column of trimmed texts as :func:`spelled` has it, as an expression of SQL."""
    text = name
    pattern, groups = (WHOLE_UNIT, r"\1\2") if unit else (WHOLE, r"\1")
    shortened = f"regexp_replace({text}, '{pattern}', '{groups}')"
    return (
        f"CASE WHEN lower({text}) IN {MISSING} THEN NULL "
        f"WHEN lower({text}) IN {BOOLEANS} THEN lower({text}) "
        f"WHEN {shortened} = '-0' THEN '0' ELSE {shortened} END"
    )


def trimmed_sql(name: str) -> str:
    """A column of texts without blanks around them, NULL where nothing is left."""
    # Most texts begin and end with a mark of ASCII; trimming others is fifteen times slower.
    return (
        f"CASE WHEN regexp_full_match({name}, '[!-~]([ -~]*[!-~])?') THEN {name} "
        f"ELSE nullif(trim({name}, '{BLANKS}'), '') END"
    )
