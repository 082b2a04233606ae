"""Instants at which a calendar does something else, as numbers that records may hold.

Clocks turn, years leap, and weeks, months and years end: code that is right on all other days is
wrong there, by no condition of its own.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, timedelta, tzinfo
from itertools import pairwise
from types import FunctionType
from typing import Any
from zoneinfo import ZoneInfo

from dpaudit.audit.examine.lines import codes_of

# Names by which code that computes with dates is known.
NAMES = frozenset({"datetime", "date", "timedelta", "fromtimestamp", "to_datetime", "strptime"})
# A leap day, the ends of a short month, of a year and of one with 53 weeks, and the days after.
DAYS = tuple(
    date.fromisoformat(text) + timedelta(later)
    for text in ("2024-02-29", "2023-02-28", "2024-04-30", "2024-12-31", "2020-12-31")
    for later in (0, 1)
)
YEAR = 2024  # in which clocks turn
SPANS = (60, 300, 900, 1_800, 3_600, 43_200)  # seconds before and after an instant, of two columns
HOUR = 3_600


def instants_of(reached: Sequence[Any]) -> Iterator[tuple[float, ...]]:
    """Numbers of one column, or of two around an instant, for code that computes with dates.

    Seconds and milliseconds since 1970, days since then or since the year 1, and yyyymmdd.
    ``reached``: the objects that a program refers to.
    """
    functions = (item.__code__ for item in reached if isinstance(item, FunctionType))
    codes = [code for function in functions for code in codes_of(function)]
    if not any(NAMES & {*code.co_names} for code in codes):
        return
    for day in DAYS:
        second = int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp())
        for number in (second, second // 86_400, day.toordinal(), int(day.strftime("%Y%m%d"))):
            yield (number,)
    zones = {item: None for item in reached if isinstance(item, tzinfo)}
    for text in (constant for code in codes for constant in code.co_consts):
        # Only a text that looks like one is asked for: files are opened by it.
        if isinstance(text, str) and "/" in text[1:-1] and text.replace("/", "").isidentifier():
            with contextlib.suppress(Exception):
                zones[ZoneInfo(text)] = None
    for zone in zones:
        for turn in _turns(zone):
            yield from ((float(turn * unit),) for unit in (1, 1_000))
            yield from ((turn - span, turn + span) for span in SPANS)


def _turns(zone: tzinfo) -> list[int]:
    """The hours, in seconds since 1970, at which a zone's clocks turn in a year."""
    first = int(datetime(YEAR, 1, 1, tzinfo=UTC).timestamp())
    hours = range(first, first + 366 * 24 * HOUR, HOUR)
    offsets = [datetime.fromtimestamp(hour, zone).utcoffset() for hour in hours]
    return [hour for hour, (a, b) in zip(hours[1:], pairwise(offsets), strict=True) if a != b]
