"""No upper bound is below an independent lower bound, on random declarations."""

from __future__ import annotations

import os
import random

import pytest

from tests.trees import violations

# About a tenth of a second a tree; `make quality-trees` asks for 10^5.
TREES = int(os.environ.get("DPAUDIT_TREES", "10000"))
PARTS = 20


@pytest.mark.quality
@pytest.mark.parametrize("part", range(PARTS))
def test_no_upper_bound_is_below_an_independent_lower_bound(part: int) -> None:
    """Deterministic: every inequality holds or there is a bug."""
    assert violations(random.Random(1000 + part), TREES // PARTS) == []
