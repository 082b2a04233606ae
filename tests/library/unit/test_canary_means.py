"""Means of canaries' scores: shown for claims on divergences, where they promise more."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

from dpaudit.audit.bounds.estimators import TestScores, TrainingScores
from dpaudit.audit.canaries.means import choose_means
from dpaudit.audit.canaries.scores import audit_scores
from dpaudit.audit.verdict import Verdict
from dpaudit.errors import InvalidParameter
from dpaudit.families.opaque import GDP, ZCDP, ApproxDP, PureDP, RenyiDP

independent_runs = partial(audit_scores, origin="independent_runs")


def samples(mu: float, trials: int, seed: int, scale: float = 1.0) -> tuple[Any, Any]:
    """Scores of any scale: their likelihood ratio is fitted, not taken for granted."""
    rng = np.random.default_rng(seed)
    return scale * rng.normal(mu, 1, trials), scale * rng.normal(0, 1, trials)


@pytest.mark.quality
@pytest.mark.long_cases("40.0")
@pytest.mark.parametrize("scale", [1.0, 40.0])
def test_means_show_what_no_threshold_can(scale: float) -> None:
    """rho = 1/2, claimed 0.4: the best event shows 0.33 or less, 2 / pi of it."""
    found = independent_runs(*samples(1.0, 40_000, 0, scale), claim=ZCDP(0.4), refute_at=0.01)
    assert found.verdict is Verdict.REFUTED
    assert 0.4 < found.lower < 0.5
    assert found.means == "the log density ratio of the score"
    assert "means of the log density ratio of the score, over 36,000" in found.counted
    assert not found.underpowered
    assert found.achievable > found.lower


def test_a_renyi_claim_is_tested_at_its_order() -> None:
    """D_1.25 = 0.625 for mu = 1; a bound above it has probability 1e-3."""
    found = independent_runs(*samples(1.0, 40_000, 1), claim=RenyiDP(1.25, 0.45), confidence=0.999)
    assert 0.48 < found.lower < 0.625
    assert found.verdict is Verdict.REFUTED
    assert "density ratio" in found.counted


@pytest.mark.quality
@pytest.mark.first_case
@pytest.mark.parametrize("claim", [PureDP(1), ApproxDP(1, 1e-5), GDP(1)], ids=lambda c: c.name)
def test_other_claims_bound_no_mean(claim: Any) -> None:
    found = independent_runs(*samples(0.5, 10_000, 2), claim=claim)
    assert found.means == ""
    assert 0.3 < found.achieved == found.epsilon_lower / found.limit < 1
    share = f"{found.achieved:.0%} of the bound on epsilon that these scores could show"
    assert (share in found.details) is (found.measure == "epsilon")
    assert found.counted.startswith("scores above ")


def test_few_scores_are_counted_at_a_threshold() -> None:
    found = independent_runs(*samples(1.0, 2_000, 3), claim=ZCDP(0.5))
    assert found.means == ""
    assert 0.1 < found.lower < 0.5


def test_true_claims_are_refuted_no_more_often_than_stated() -> None:
    """200 samples at error 0.1, with nothing to spare: 39 or more have chance below 5e-5."""
    means = choose_means(TrainingScores(*samples(1.0, 2_000, 4)), ZCDP(0.5), 1_000, 0.1)
    assert means is not None
    tests = [TestScores(*samples(1.0, 1_000, 100 + seed)) for seed in range(200)]
    p_values = np.array([means.p_value(test, 0.5) for test in tests])
    bounds = np.array([means.lower(test, 0.1) for test in tests[:40]])
    assert np.count_nonzero(p_values <= 0.1) < 39
    assert np.array_equal(bounds > 0.5, p_values[:40] <= 0.1)


def test_a_bet_is_chosen_on_training_scores_alone() -> None:
    training = TrainingScores(*samples(1.0, 2_000, 4))
    means = choose_means(training, ZCDP(0.5), 10_000, 0.05)
    assert means is not None
    assert 0.2 < means.promised < 0.5
    assert means.strongest(500, 500, 0.05) < means.strongest(5_000, 5_000, 0.05)
    wrong: Any = training
    with pytest.raises(InvalidParameter, match="expected TestScores"):
        means.question.lower(wrong, 0.05)
    assert choose_means(None, ZCDP(0.5), 10_000, 0.05) is None
