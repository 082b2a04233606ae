"""How often a bound exceeds the truth, measured: mechanisms x sizes x estimators, 2,000 runs each.

A bound at error rate 0.05 may exceed the truth in at most 5% of runs; two standard errors of the
measured rate (0.97%) are allowed, which a bound with an error of exactly 5% exceeds in 2% of seeds.
Clopper-Pearson bounds of discrete counts, and a union over two of them, err far less often.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from scipy.special import gammaln, xlog1py, xlogy

from dpaudit.audit.bounds.estimators import (
    Counts,
    TestScores,
    TrainingScores,
    choose_threshold,
    count_errors,
    epsilon_lower,
    epsilon_of_gaussian,
    mu_lower,
    proportion_upper,
    roc_points,
)

ERROR = 0.05
RUNS = 2_000
LIMIT = ERROR + 2 * math.sqrt(ERROR * (1 - ERROR) / RUNS)
SIZES = (100, 500, 2_000)
DELTAS = (1e-5, 0.05)
GAUSSIANS = (0.0, 0.5, 2.0)

Scores = Any


@dataclass(frozen=True)
class Null:
    """A mechanism whose claim is true: scores of both sides, its epsilon, and its mu if it has one.

    Scores increase with the log-likelihood ratio, which is all that a threshold asks of them.
    """

    sample: Callable[[np.random.Generator, tuple[int, int]], tuple[Scores, Scores]]
    epsilon: Callable[[float], float]
    mu: float | None = None


def gaussian(mu: float) -> Null:
    def sample(rng: np.random.Generator, shape: tuple[int, int]) -> tuple[Scores, Scores]:
        return rng.normal(mu, 1, shape), rng.normal(0, 1, shape)

    return Null(sample, lambda delta: epsilon_of_gaussian(mu, delta), mu)


def laplace() -> Null:
    """Scale 1, shift 1: delta(epsilon) = 1 - exp((epsilon - 1) / 2); atoms at both ends."""

    def sample(rng: np.random.Generator, shape: tuple[int, int]) -> tuple[Scores, Scores]:
        first, second = rng.laplace(0, 1, shape), rng.laplace(1, 1, shape)
        return np.clip(1 - 2 * first, -1, 1), np.clip(1 - 2 * second, -1, 1)

    return Null(sample, lambda delta: max(0.0, 1 + 2 * math.log1p(-delta)))


def randomised_response() -> Null:
    """Epsilon 1: delta(epsilon) = (e - exp(epsilon)) / (1 + e); all scores are ties."""
    lie = 1 / (1 + math.e)

    def sample(rng: np.random.Generator, shape: tuple[int, int]) -> tuple[Scores, Scores]:
        first, second = rng.random(shape) < lie, rng.random(shape) < lie
        return np.where(first, -1.0, 1.0), np.where(second, 1.0, -1.0)

    return Null(sample, lambda delta: math.log(math.e - delta * (1 + math.e)))


NULLS = {f"gaussian({mu})": gaussian(mu) for mu in GAUSSIANS} | {
    "laplace": laplace(),
    "randomised_response": randomised_response(),
}


def seeded(*words: object) -> np.random.Generator:
    return np.random.default_rng(list("".join(map(str, words)).encode()))


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", NULLS)
def test_bounds_at_a_trained_threshold(name: str, size: int, delta: float) -> None:
    rng, null = seeded(name, size, delta), NULLS[name]
    trained, tested = null.sample(rng, (RUNS, size)), null.sample(rng, (RUNS, size))
    truth, raw, lens = null.epsilon(delta), 0, 0
    for run in range(RUNS):
        training = TrainingScores(trained[0][run], trained[1][run])
        threshold = choose_threshold(training, delta, size, ERROR)
        counts = count_errors(TestScores(tested[0][run], tested[1][run]), threshold)
        raw += epsilon_lower(counts, delta, ERROR).epsilon_lower > truth
        lens += null.mu is not None and mu_lower(counts, ERROR).mu_lower > null.mu
    assert raw / RUNS <= LIMIT
    assert lens / RUNS <= LIMIT


def test_the_best_threshold_on_the_same_trials_is_no_bound() -> None:
    """What the two score types prevent does exceed the limit: the measurement can fail."""
    size, rng, above = 2_000, seeded("same trials"), 0
    alternative, null = gaussian(0.0).sample(rng, (RUNS, size))
    uppers = np.array([proportion_upper(count, size, ERROR / 2) for count in range(size + 1)])
    for run in range(RUNS):
        scores = np.sort(np.concatenate([alternative[run], null[run]]))
        positive = uppers[size - np.searchsorted(np.sort(null[run]), scores, "right")]
        negative = uppers[np.searchsorted(np.sort(alternative[run]), scores, "right")]
        above += np.max(1 - DELTAS[0] - negative - positive) > 0
    assert above / RUNS > LIMIT


@pytest.mark.parametrize("quantile", [-1.0, 0.0, 0.5])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("mu", GAUSSIANS)
def test_lens_at_a_fixed_threshold(mu: float, size: int, quantile: float) -> None:
    rng = seeded(mu, size, quantile)
    alternative, null = gaussian(mu).sample(rng, (RUNS, size))
    threshold = mu / 2 + quantile
    positives = np.count_nonzero(null > threshold, axis=1)
    negatives = np.count_nonzero(alternative <= threshold, axis=1)
    above = sum(
        mu_lower(Counts(p, size, n, size), ERROR).mu_lower > mu
        for p, n in zip(positives, negatives, strict=True)
    )
    assert above / RUNS <= LIMIT


def test_boxes_of_a_trade_off_plot_hold_together() -> None:
    thresholds = [-1.0, 0.0, 0.5, 1.0, 2.0]
    rng, outside = seeded("boxes"), 0
    alternative, null = gaussian(1.0).sample(rng, (RUNS, 500))
    for run in range(RUNS):
        points = roc_points(TestScores(alternative[run], null[run]), thresholds, ERROR)
        outside += any(
            point.false_positive_rate_upper < normal_tail(point.threshold)
            or point.false_negative_rate_upper < normal_tail(1 - point.threshold)
            for point in points
        )
    assert outside / RUNS <= LIMIT


@pytest.mark.parametrize("trials", [10, 100, 1_000])
def test_proportions_cover_exactly(trials: int) -> None:
    """Not sampled: P(upper bound < p) summed over the binomial law is at most the error."""
    uppers = np.array([proportion_upper(count, trials, ERROR) for count in range(trials + 1)])
    counts = np.arange(trials + 1)
    for p in np.linspace(0.001, 0.999, 499):
        law = np.exp(xlog1py(trials - counts, -p) + xlogy(counts, p) - log_counts(trials))
        assert law.sum() == pytest.approx(1, abs=1e-9)
        assert law[uppers < p].sum() <= ERROR + 1e-12


def normal_tail(threshold: float) -> float:
    """P(N(0, 1) > threshold)."""
    return math.erfc(threshold / math.sqrt(2)) / 2


def log_counts(trials: int) -> Any:
    """-log of the binomial coefficients."""
    counts = np.arange(trials + 1)
    return gammaln(counts + 1) + gammaln(trials - counts + 1) - gammaln(trials + 1)
