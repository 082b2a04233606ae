"""Coverage of the bounds of audits: 1,000 audits of each program, at deltas from 1e-2 to 1e-15.

Each number may be above the truth in 5% and two standard errors of the audits: a bound whose error
is exactly 5% raises a false alarm in one of 44.  `docs/evidence.md` shows the table.
"""

from __future__ import annotations

import pytest

from tests.support.likelihood import (
    PROGRAMS,
    allowed,
    likely_above,
    plain_above,
    refuted_truths,
    whole_above,
)

AUDITS = 1000
PLAIN = 400  # whole attacks


@pytest.mark.parametrize("name", PROGRAMS)
def test_at_most_five_percent_of_bounds_from_likelihoods_are_above_the_truth(name: str) -> None:
    found = likely_above(name, AUDITS)
    assert {number: n for number, n in found.items() if n > allowed(AUDITS)} == {}


@pytest.mark.parametrize("name", PROGRAMS)
def test_at_most_five_percent_of_counted_bounds_are_above_the_truth(name: str) -> None:
    found = plain_above(name, PLAIN)
    assert {number: n for number, n in found.items() if n > allowed(PLAIN)} == {}


@pytest.mark.parametrize("name", ["gaussian", "adaptive", "correlated"])
def test_audits_that_choose_their_proposals_keep_their_error(name: str) -> None:
    """The search is part of each audit: what it chose by must not be counted."""
    assert whole_above(name, PLAIN) <= allowed(PLAIN)


def test_weights_that_are_wrong_by_a_hundredth_break_the_coverage() -> None:
    assert refuted_truths(1.0, 100) <= allowed(100)
    assert refuted_truths(1.01, 100) > 90
