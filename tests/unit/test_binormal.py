"""The event chosen where scores look binormal, and where they do not."""

from __future__ import annotations

import numpy as np
import pytest

from dpaudit.audit.bounds.binormal import choose_smoothed
from dpaudit.audit.bounds.estimators import TrainingScores
from dpaudit.audit.bounds.selection import Sizes, choose_trained, epsilon_needed
from dpaudit.errors import InvalidParameter

NEEDED = epsilon_needed(1e-5)


def test_rates_of_normal_scores_are_learned_better_than_by_counting() -> None:
    """Mean squared error of log FPR at the event chosen, over 40 training sets of 1,000 a side."""
    from scipy.special import ndtr

    errors = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        training = TrainingScores(rng.normal(1, 1, 1_000), rng.normal(0, 1, 1_000))
        found = choose_smoothed(training, Sizes(9_000, 9_000), 0.05, NEEDED)
        errors.append(np.log(found.other_rate / ndtr(-found.threshold)))
    assert np.sqrt(np.mean(np.square(errors))) < 0.25


def test_scores_that_are_not_binormal_are_taken_as_they_are() -> None:
    rng = np.random.default_rng(1)
    marked = rng.random(2_000) < 0.02
    training = TrainingScores(
        np.where(marked, 50.0, rng.normal(0, 1, 2_000)), rng.normal(0, 1, 2_000)
    )
    found = choose_smoothed(training, Sizes(18_000, 18_000), 0.05, NEEDED)
    assert found == choose_trained(training, Sizes(18_000, 18_000), 0.05, NEEDED)
    assert 2 < found.threshold < 50


@pytest.mark.parametrize("values", [[1.0], [1.0, 2.0], [0.0] * 50, list(range(12))])
def test_few_thresholds_are_left_to_counting(values: list[float]) -> None:
    training = TrainingScores(np.array(values, dtype=float), np.array(values, dtype=float))
    sizes = Sizes(100, 100)
    assert choose_smoothed(training, sizes, 0.05, NEEDED) == choose_trained(
        training, sizes, 0.05, NEEDED
    )


def test_bad_error_rates_are_refused() -> None:
    training = TrainingScores(np.arange(50.0), np.arange(50.0))
    for error in (0.0, 0.5, float("nan")):
        with pytest.raises(InvalidParameter):
            choose_smoothed(training, Sizes(10, 10), error, NEEDED)
