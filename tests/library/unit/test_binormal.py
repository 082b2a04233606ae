"""The event chosen where scores look binormal, and where they do not."""

from __future__ import annotations

import numpy as np
import pytest

from dpaudit.audit.bounds import binormal
from dpaudit.audit.bounds.binormal import choose_smoothed
from dpaudit.audit.bounds.estimators import TrainingScores
from dpaudit.audit.bounds.extremes import kl
from dpaudit.audit.bounds.selection import Sizes, choose_trained, epsilon_needed
from dpaudit.audit.bounds.thresholds import candidates
from dpaudit.errors import InvalidParameter

NEEDED = epsilon_needed(1e-5)


@pytest.mark.quality
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


def test_rates_stand_a_tenth_of_a_unit_of_likelihood_from_the_line() -> None:
    """On the side of no finding, with samples of different sizes."""
    rng = np.random.default_rng(1)
    training = TrainingScores(rng.normal(1, 1.2, 1_500), rng.normal(0, 1, 900))
    found = choose_smoothed(training, Sizes(9_000, 9_000), 0.05, NEEDED)
    alternative, null = np.sort(training.alternative), np.sort(training.null)
    thresholds = candidates(alternative, null)
    rates = [(side[:, None] > thresholds).mean(axis=0) for side in (alternative, null)]
    p, q = (r[thresholds == found.threshold][0] for r in binormal._smoothed(*rates, 1_500, 900))
    assert found.rate < p
    assert found.other_rate > q
    assert 1_500 * kl(1 - p, 1 - found.rate) == pytest.approx(0.1, rel=1e-6)
    assert 900 * kl(q, found.other_rate) == pytest.approx(0.1, rel=1e-6)


def test_scores_that_are_not_binormal_are_taken_as_they_are() -> None:
    rng = np.random.default_rng(1)
    marked = rng.random(2_000) < 0.02
    training = TrainingScores(
        np.where(marked, 50.0, rng.normal(0, 1, 2_000)), rng.normal(0, 1, 2_000)
    )
    found = choose_smoothed(training, Sizes(18_000, 18_000), 0.05, NEEDED)
    assert found == choose_trained(training, Sizes(18_000, 18_000), 0.05, NEEDED)
    assert 2 < found.threshold < 50


def test_tails_of_few_scores_are_as_observed() -> None:
    """Half a score more in each of four cells, which all hold 100 of the 400 scores."""
    first, second = np.arange(1.0, 400, 2), np.arange(0.0, 400, 2)
    found = binormal.smoothed_tails(first, second)
    assert found.thresholds.tolist() == [99, 199, 299]
    np.testing.assert_allclose(found.rates, np.array([150 + 1.5, 100 + 1, 50 + 0.5]) / 202)
    np.testing.assert_allclose(found.other_rates, np.array([150 + 1.5, 100 + 1, 50 + 0.5]) / 202)


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
