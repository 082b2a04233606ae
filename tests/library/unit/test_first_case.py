"""One case of each kind stays in ``make test``."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.first_case import cases_of_quality


class Case:
    """What the markers read of a collected case of the test ``a.py::test``."""

    def __init__(self, id: str, *markers: Any, **params: Any) -> None:
        self.callspec = SimpleNamespace(id=id, params=params)
        self.nodeid = f"a.py::test[{id}]"
        self.marks = [marker.mark for marker in markers]

    def get_closest_marker(self, name: str) -> Any:
        return next(self.iter_markers(name), None)

    def iter_markers(self, name: str) -> Any:
        return (mark for mark in self.marks if mark.name == name)


def moved(*cases: Any) -> list[str]:
    return [item.callspec.id for item in cases_of_quality(cases)]  # type: ignore[attr-defined]


def test_the_first_case_stays() -> None:
    first = pytest.mark.first_case
    assert moved(*(Case(id, first) for id in "abc")) == ["b", "c"]
    assert moved(*(Case(id) for id in "abc")) == []


def test_the_first_case_of_each_value_stays() -> None:
    marker = pytest.mark.first_case("rule")
    rules = {"a": "sum", "b": "sum", "c": "maximum", "d": "sum"}
    assert moved(*(Case(id, marker, rule=rule) for id, rule in rules.items())) == ["b", "d"]


def test_the_first_case_of_each_result_of_a_function_stays() -> None:
    marker = pytest.mark.first_case("value", by=type)
    assert moved(*(Case(str(v), marker, value=v) for v in (1, 2, "3", 4))) == ["2", "4"]


def test_the_first_case_is_none_that_is_long() -> None:
    """Neither by the test's list of ids nor by a marker of the case alone."""
    both = (pytest.mark.first_case, pytest.mark.long_cases("a"))
    assert moved(*(Case(id, *both) for id in "abc")) == ["a", "c"]
    assert moved(Case("a", pytest.mark.quality, *both[:1]), Case("b", both[0])) == []
    assert moved(*(Case(id, both[1]) for id in "abc")) == ["a"]


def test_an_unknown_parameter_is_named() -> None:
    with pytest.raises(pytest.UsageError, match=r"a\.py::test: first_case\('rule'\)"):
        moved(Case("a", pytest.mark.first_case("rule"), node=1))


@pytest.mark.first_case
@pytest.mark.parametrize("case", ["first", pytest.param("further", id="further")])
def test_this_selection_is_made_by_the_markers(case: str, request: pytest.FixtureRequest) -> None:
    marked = request.node.get_closest_marker("quality") is not None
    assert marked == (case == "further")
