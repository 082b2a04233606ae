"""Nothing in ``make test`` takes more than 3 processor seconds but by name: the marker ``long``.

``@pytest.mark.long("why")`` names a test that takes more and is the only one of its kind.  Tests
that take more without it are listed at the end of a run.  They do not fail: on a machine that does
other work too, the same test takes up to twice the time.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

MOST_SECONDS = 3.0  # processor seconds of a test without the marker, its processes included
PROPERTY = "processor seconds of an unnamed long test"


def processor_seconds() -> float:
    """Processor seconds that this process and the processes that it waited for have used."""
    return sum(os.times()[:4])


def noted(item: pytest.Item, seconds: float) -> None:
    """Keep a test's seconds for the end of the run, if it takes too long and is not named."""
    if seconds > MOST_SECONDS and not any(map(item.get_closest_marker, ("long", "quality"))):
        item.user_properties.append((PROPERTY, round(seconds, 1)))


def lines(reports: Iterable[Any]) -> Iterator[str]:
    """One line for each test that was noted, the longest first."""
    found = [(dict(r.user_properties).get(PROPERTY), r.nodeid) for r in reports if r.when == "call"]
    for seconds, name in sorted((row for row in found if row[0]), reverse=True):
        yield f"{seconds} processor seconds: {name} (mark it quality, or long and say why)"
