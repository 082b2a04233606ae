"""The share of its work that an examination does in a test."""

from __future__ import annotations

from copy import copy
from pathlib import Path

import pytest

from dpaudit.audit.examine import examination, steep
from dpaudit.audit.examine.meter import LIMIT
from tests.support.work import ALL, SEARCHED, SHARE, WALKED, chosen, share_of


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


def test_a_limit_that_is_given_stays() -> None:
    assert examination.Meter(1.0, limit=5.0).limit == 5.0
