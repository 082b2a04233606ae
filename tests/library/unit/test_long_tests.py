"""Long tests that no marker names are listed at the end of a run."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.long_tests import MOST_SECONDS, lines, noted


class Ran:
    """The marker of a test, if it has one, and its properties: all that the plugin reads of it."""

    def __init__(self, marker: str = "") -> None:
        self.marker, self.user_properties = marker, list[Any]()

    def get_closest_marker(self, name: str) -> bool:
        return name == self.marker


def reported(seconds: float, marker: str = "") -> list[str]:
    item: Any = Ran(marker)
    noted(item, seconds)
    report = SimpleNamespace(when="call", nodeid="a.py::test", user_properties=item.user_properties)
    return list(lines([report, SimpleNamespace(when="setup", user_properties=[])]))


def test_a_long_test_is_listed_by_its_name() -> None:
    (line,) = reported(MOST_SECONDS + 1)
    assert line.startswith("4.0 processor seconds: a.py::test ")


@pytest.mark.parametrize(
    ("seconds", "marker"),
    [(2.9, ""), (9, "long"), (9, "quality")],
    ids=["short", "long", "quality"],
)
def test_a_short_one_and_one_that_is_named_are_not(seconds: float, marker: str) -> None:
    assert reported(seconds, marker) == []


def test_the_longest_comes_first() -> None:
    rows = []
    for name, seconds in (("a", 4.0), ("b", 9.0)):
        item: Any = Ran()
        noted(item, seconds)
        rows.append(SimpleNamespace(when="call", nodeid=name, user_properties=item.user_properties))
    assert [line.split(": ")[1][0] for line in lines(rows)] == ["b", "a"]
