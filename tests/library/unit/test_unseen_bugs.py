"""Wrong programs of shapes that no suite knows, certified with no suite: how many are let through.

At least 28 of 32 must not be certified, and no right twin flagged; here are more of either, most of
them under ``quality``.
"""

from __future__ import annotations

from typing import Any

import pytest

import dpaudit as dp
from tests.support.unseen_bugs import SHAPES, mechanism

CERTIFIED = "certified under assumptions"
QUICK = ("Users", "Sketch", "Rated")


def cases(*, twins: bool) -> list[Any]:
    """Twins, or bugs; those of a few shapes are quick, and all others of quality."""
    found = []
    for kind, adjacency, bugs in SHAPES:
        for number, bug in enumerate(("",) if twins else bugs):
            quick = kind.__name__ in QUICK and number == 0
            marks = () if quick else (pytest.mark.quality,)
            name = f"{kind.__name__}-{bug}".removesuffix("-")
            found.append(pytest.param(kind, adjacency, bug, marks=marks, id=name))
    return found


def verdict(kind: type[Any], adjacency: str, bug: str) -> str:
    return dp.certify(mechanism(kind, adjacency, bug), seed=1, trials=400).verdict


def test_there_are_enough() -> None:
    assert sum(len(bugs) for _, _, bugs in SHAPES) >= 32
    assert len(SHAPES) >= 15


@pytest.mark.quality
@pytest.mark.first_case
@pytest.mark.parametrize(("kind", "adjacency", "bug"), cases(twins=True))
def test_no_right_twin_is_flagged(kind: type[Any], adjacency: str, bug: str) -> None:
    assert verdict(kind, adjacency, bug) == CERTIFIED


@pytest.mark.first_case
@pytest.mark.parametrize(("kind", "adjacency", "bug"), cases(twins=False))
def test_no_bug_is_certified(kind: type[Any], adjacency: str, bug: str) -> None:
    assert verdict(kind, adjacency, bug) != CERTIFIED
