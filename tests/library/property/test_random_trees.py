"""Forty random declarations; 960 more by ``make quality``, beside its own."""

from __future__ import annotations

import pytest

from tests.support.trees import violations

TREES = 1000
PARTS = 25
ALWAYS = 1


@pytest.mark.parametrize(
    "part",
    [*range(ALWAYS), *(pytest.param(n, marks=pytest.mark.quality) for n in range(ALWAYS, PARTS))],
)
def test_no_upper_bound_is_below_an_independent_lower_bound(part: int) -> None:
    """Deterministic: every inequality holds or there is a bug."""
    assert violations(part, TREES // PARTS) == []
