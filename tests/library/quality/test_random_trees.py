"""No upper bound is below an independent lower bound, on random declarations."""

from __future__ import annotations

import pytest

from tests.support.trees import violations

# Some 40 ms a tree; `make quality-trees` runs 10^5, by the block.
TREES = 10_000
PARTS = 20


@pytest.mark.parametrize("part", range(PARTS))
def test_no_upper_bound_is_below_an_independent_lower_bound(part: int) -> None:
    """Deterministic: every inequality holds or there is a bug."""
    assert violations(1000 + part, TREES // PARTS) == []
