"""The share of its work that an examination does in a test."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis.strategies import integers

from dpaudit.audit.examine import examination, steep
from dpaudit.audit.examine.meter import LIMIT
from tests.support.work import ALL, EXAMPLES, SEARCHED, SHARE, WALKED, chosen, share_of


def shares() -> set[float]:
    """Each of the limits, as it is now."""
    return {
        examination.Meter(1.0).limit / LIMIT,
        examination.WORK / WALKED,
        examination.WORK_OF_A_SEARCH / SEARCHED,
        steep.WORK_OF_A_SEARCH / SEARCHED,
    }


def test_it_is_a_share(request: pytest.FixtureRequest) -> None:
    assert shares() == {share_of(request.node)}


def test_it_is_all_in_tests_of_other_things(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(ALL, raising=False)
    monkeypatch.setattr(request.node, "path", request.node.path.with_name("test_nodes.py"))
    assert share_of(request.node) == 1.0


@pytest.mark.whole_work
def test_it_is_all_where_a_marker_says_so() -> None:
    assert shares() == {1.0}


def test_it_is_all_where_the_environment_says_so(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(ALL, raising=False)
    other = copy(request.node)
    other.path = Path("test_nodes.py")
    both = [request.node, other]
    assert share_of(request.node) == SHARE < 1
    assert chosen(both) == both
    monkeypatch.setenv(ALL, "1")
    assert share_of(request.node) == 1.0
    assert chosen(both) == both[:1]


def counted() -> tuple[Callable[[], None], list[int]]:
    """A property with 40 examples, and those it was tried with."""
    tried: list[int] = []

    @settings(max_examples=40, database=None)
    @given(number=integers())
    def holds(number: int) -> None:
        tried.append(number)

    return holds, tried


def test_a_property_draws_a_share_of_its_examples(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(ALL, raising=False)
    for marks, drawn in (((), 40 // EXAMPLES), ((pytest.mark.quality,), 40)):
        holds, tried = counted()
        item = pytest.Function.from_parent(request.node.parent, name="holds", callobj=holds)
        for mark in marks:
            item.add_marker(mark)
        assert chosen([item]) == [item]
        holds()
        assert len(tried) == drawn


def test_a_limit_that_is_given_stays() -> None:
    assert examination.Meter(1.0, limit=5.0).limit == 5.0
