"""Wrong programs of shapes that no suite knows, certified with no suite: how many are let through.

At least 28 of 32 must not be certified, and no right twin flagged; here are more of either.  Every
shape has its twin and its first bug examined here, and all of its bugs under ``quality``.
"""

from __future__ import annotations

from typing import Any

import pytest

import dpaudit as dp
from tests.unseen_bugs import SHAPES, mechanism

CERTIFIED = "certified under assumptions"
FIRST = [(kind, adjacency, bugs[0]) for kind, adjacency, bugs in SHAPES]
MORE = [(kind, adjacency, bug) for kind, adjacency, bugs in SHAPES for bug in bugs[1:]]


def verdict(kind: type[Any], adjacency: str, bug: str = "") -> str:
    return dp.certify(mechanism(kind, adjacency, bug), seed=1, trials=400).verdict


def test_there_are_enough() -> None:
    assert len(FIRST) + len(MORE) >= 32
    assert len(SHAPES) >= 15


@pytest.mark.parametrize(
    ("kind", "adjacency"),
    [(kind, adjacency) for kind, adjacency, _ in SHAPES],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_no_right_twin_is_flagged(kind: type[Any], adjacency: str) -> None:
    assert verdict(kind, adjacency) == CERTIFIED


@pytest.mark.parametrize(
    ("kind", "adjacency", "bug"), FIRST, ids=lambda value: getattr(value, "__name__", value)
)
def test_a_bug_is_not_certified(kind: type[Any], adjacency: str, bug: str) -> None:
    assert verdict(kind, adjacency, bug) != CERTIFIED


@pytest.mark.quality
@pytest.mark.parametrize(
    ("kind", "adjacency", "bug"), MORE, ids=lambda value: getattr(value, "__name__", value)
)
def test_no_other_bug_is_certified(kind: type[Any], adjacency: str, bug: str) -> None:
    assert verdict(kind, adjacency, bug) != CERTIFIED
