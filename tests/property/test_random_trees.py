"""A thousand of the random declarations of ``make quality``."""

from __future__ import annotations

import pytest

from tests.trees import violations

TREES = 1000
PARTS = 10


@pytest.mark.parametrize("part", range(PARTS))
def test_no_upper_bound_is_below_an_independent_lower_bound(part: int) -> None:
    """Deterministic: every inequality holds or there is a bug."""
    assert violations(part, TREES // PARTS) == []
