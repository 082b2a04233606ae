"""Random short compositions in the corners of their parameters: nothing is silent or contradicts.

``python -m tests.support.corners`` also lists what is wide or slow.
"""

from __future__ import annotations

import pytest

from dpaudit.grids.cells import Cells, trivial
from dpaudit.grids.discrete import Discrete
from tests.support.corners import corner, findings

# What is wide or slow is listed, not wrong.
ALLOWED = ("wide", "delta is wide", "slow", "delta is slow")


@pytest.mark.parametrize("first", range(100, 124, 3))
def test_no_corner_is_silent_or_contradicts_itself(first: int) -> None:
    found = {seed: findings(corner(seed)) for seed in range(first, first + 3)}
    wrong = {
        seed: [line for line in lines if not line.startswith(ALLOWED)]
        for seed, lines in found.items()
    }
    assert not any(wrong.values()), wrong


def test_an_end_that_is_left_out_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seed 3 has a lower end without which its ends are far apart."""
    monkeypatch.setattr("dpaudit.grids.cells._rounded_down", _nothing)
    assert any(line.startswith("wide: [8.2") for line in findings(corner(3)))


def _nothing(cells: Cells) -> Discrete:
    return trivial(cells.step)
