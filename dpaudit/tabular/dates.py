"""Dates and periods as whole numbers: how a cell is read, the same in Python and in SQL.

A day is counted from 1970-01-01; a month, quarter or year from the year 0.  A cell is a date
(``2026-03-05``, also with a time, which is ignored), or names its period (``2026-03``, ``2026-Q1``,
``2026``), or has the column's own ``format`` of ``%d``, ``%m`` and ``%Y``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cached_property
from itertools import pairwise

from dpaudit.errors import InvalidParameter

DAY, MONTH, QUARTER, YEAR = "day", "month", "quarter", "year"
EVERY = (DAY, MONTH, QUARTER, YEAR)  # lengths of a period
EPOCH = date(1970, 1, 1)
ISO = "%Y-%m-%d"
YEARS = "([1-9][0-9]{3})"
TIME = "(?:[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:[.][0-9]+)?)?)?"
DIRECTIVES = {"%d": "([0-9]{1,2})", "%m": "([0-9]{1,2})", "%Y": YEARS}
NEEDED = {DAY: ("%d", "%m", "%Y"), MONTH: ("%m", "%Y"), QUARTER: ("%m", "%Y"), YEAR: ("%Y",)}
MARKS = set("./-_ ")
# Patterns of whole cells that name a period, and its first day.
NAMED = {
    DAY: (),
    MONTH: ((f"{YEARS}-([0-9]{{2}})", r"\1-\2-01"),),
    QUARTER: tuple((f"{YEARS}-?Q{q}", rf"\1-{3 * q - 2:02}-01") for q in (1, 2, 3, 4)),
    YEAR: ((YEARS, r"\1-01-01"),),
}
CODES = {
    DAY: f"({{day}} - DATE '{EPOCH}')",
    MONTH: "(12 * year({day}) + month({day}) - 1)",
    QUARTER: "(4 * year({day}) + quarter({day}) - 1)",
    YEAR: "year({day})",
}


@dataclass(frozen=True)
class Calendar:
    """The numbers of days, months, quarters or years.

    ``format``: of the cells that are text; "" for ISO 8601.
    Errors: InvalidParameter for another ``every``, or a format that does not say the period.
    """

    every: str
    format: str = ""

    def __post_init__(self) -> None:
        if self.every not in EVERY:
            raise InvalidParameter(f"every = {self.every!r}: expected one of {', '.join(EVERY)}")
        given: object = self.format
        if not isinstance(given, str) or (given and not self._own):
            raise InvalidParameter(
                f"format = {str(given)[:40]!r}: expected {', '.join(NEEDED[self.every])} once "
                f"each, between marks such as a point; for example %d.%m.%Y"
            )

    @cached_property
    def _own(self) -> tuple[tuple[str, str], ...]:
        """The pattern of the format, and the day it means; empty where the format is none."""
        parts = [part for part in re.split("(%.)", self.format) if part]
        named = [part for part in parts if part in DIRECTIVES]
        others = set("".join(part for part in parts if part not in DIRECTIVES))
        needed = NEEDED[self.every]
        # Two numbers without a mark between them could be split in several ways.
        touching = any(a in DIRECTIVES and b in DIRECTIVES for a, b in pairwise(parts))
        if len(set(named)) < len(named) or not set(needed) <= set(named) or not others <= MARKS:
            return ()
        if touching:
            return ()
        pattern = "".join(
            DIRECTIVES.get(part) or "".join(f"[{mark}]" for mark in part) for part in parts
        )
        places = {part: rf"\{place}" for place, part in enumerate(named, start=1)}
        return ((pattern, f"{places['%Y']}-{places.get('%m', '01')}-{places.get('%d', '01')}"),)

    @cached_property
    def _readings(self) -> tuple[tuple[str, str], ...]:
        if self.format:
            return self._own
        return ((f"{YEARS}-([0-9]{{2}})-([0-9]{{2}}){TIME}", r"\1-\2-\3"), *NAMED[self.every])

    def code(self, text: str) -> int | None:
        """The number of the period that a cell names, None where it names none."""
        for pattern, day in self._readings:
            if match := re.fullmatch(pattern, text):
                try:
                    return self.of(date(*map(int, match.expand(day).split("-"))))
                except ValueError:
                    return None
        return None

    def of(self, day: date) -> int:
        """The number of the period of a day."""
        if self.every == DAY:
            return (day - EPOCH).days
        if self.every == YEAR:
            return day.year
        months = 12 * day.year + day.month - 1
        return months if self.every == MONTH else months // 3

    def first_day(self, code: int) -> date:
        """The first day of a period."""
        if self.every == DAY:
            return EPOCH + timedelta(days=code)
        months = code * {MONTH: 1, QUARTER: 3, YEAR: 12}[self.every]
        return date(months // 12, months % 12 + 1, 1)

    def text(self, code: int) -> str:
        """A period in ISO 8601, and a quarter as ``2026-Q1``."""
        day = self.first_day(code)
        return {
            DAY: f"{day}",
            MONTH: f"{day.year}-{day.month:02}",
            QUARTER: f"{day.year}-Q{(day.month + 2) // 3}",
            YEAR: f"{day.year}",
        }[self.every]

    def code_sql(self, text: str) -> str:
        """A text as :meth:`code` reads it, as an expression of SQL."""
        cases = " ".join(
            f"WHEN regexp_full_match({text}, '{pattern}') "
            f"THEN TRY_CAST(regexp_replace({text}, '^{pattern}$', '{day}') AS DATE)"
            for pattern, day in self._readings
        )
        return CODES[self.every].format(day=f"(CASE {cases} ELSE NULL END)")

    def spelled_sql(self, value: str) -> str:
        """A typed date or time as a text that :meth:`code_sql` reads."""
        return f"strftime(CAST({value} AS DATE), '{self.format or ISO}')"
