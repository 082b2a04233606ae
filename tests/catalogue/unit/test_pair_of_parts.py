"""Programs that read records part by part: others turn, so that an iterate moves when it counts."""

from __future__ import annotations

from typing import Any

import pytest

from dpaudit.audit.examine import examine, losses
from dpaudit.audit.likelihood import likelihood_audit
from mechanisms.papers.srgd.catalogue import accelerated_dp_srgd

ACCOUNTED = 1.0


def shown() -> float:
    """The lower bound of epsilon at 95% on the pair that the examination finds."""
    mechanism = accelerated_dp_srgd
    pair = examine(mechanism, seed=1).pair
    assert pair is not None
    found = likelihood_audit(
        mechanism.program, mechanism.declaration, mechanism.scope, pair, mechanism.claims,
        seed=1, runs=200, shown_error=0.05, decisive_error=1e-6,
    )  # fmt: skip
    assert found.bounds[0].decisive <= ACCOUNTED
    return found.bounds[0].shown


@pytest.mark.quality
def test_others_that_turn_let_a_record_reach_its_clip() -> None:
    """One seed; the decisive bound is above the truth with probability 1e-6."""
    assert shown() > 0.5 * ACCOUNTED


@pytest.mark.quality
def test_without_others_that_turn_the_share_falls(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = losses._among

    def without(*given: Any) -> Any:
        return (point for point in kept(*given) if "turned after" not in point.text)

    monkeypatch.setattr(losses, "_among", without)
    assert shown() < 0.4 * ACCOUNTED
