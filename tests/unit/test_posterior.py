"""The posterior of epsilon: against Monte Carlo, mpmath quadrature and closed forms."""

from __future__ import annotations

import math
from typing import Any

import mpmath
import numpy as np
import pytest

from dpaudit.audit import verdict
from dpaudit.audit.bounds.estimators import Counts, epsilon_lower
from dpaudit.audit.bounds.posterior import CredibleInterval, EpsilonPosterior, epsilon_posterior
from dpaudit.errors import InvalidParameter

DRAWS = 200_000
CASES = [
    (Counts(0, 10, 0, 10), 0.0),
    (Counts(3, 100, 20, 100), 1e-5),
    (Counts(50, 1_000, 400, 2_000), 0.05),
    (Counts(500, 1_000, 500, 1_000), 0.0),
    (Counts(0, 100_000, 90_000, 100_000), 1e-5),
]


def sampled(counts: Counts, delta: float) -> Any:
    rng = np.random.default_rng(11)
    fired = rng.beta(
        0.5 + counts.false_positives, 0.5 + counts.trials_null - counts.false_positives, DRAWS
    )
    missed = rng.beta(
        0.5 + counts.false_negatives,
        0.5 + counts.trials_alternative - counts.false_negatives,
        DRAWS,
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        both = np.log((1 - delta - missed) / fired), np.log((1 - delta - fired) / missed)
    return np.maximum(np.fmax(*both), 0.0)


@pytest.mark.parametrize(("counts", "delta"), CASES)
def test_distribution_agrees_with_draws(counts: Counts, delta: float) -> None:
    """Seven points of five cases within five standard errors: false alarms below 1 in 50,000."""
    posterior, draws = epsilon_posterior(counts, delta), sampled(counts, delta)
    for probability in (0.01, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99):
        at = float(np.quantile(draws, probability))
        found = float(np.mean(draws <= at))
        error = 5 * math.sqrt(0.25 / DRAWS)
        assert abs(posterior.cdf(at) - found) < error
        quantile = posterior.quantile(probability)
        assert quantile == 0 or abs(posterior.cdf(quantile) - probability) < 1e-7


def test_distribution_agrees_with_quadrature_in_thirty_digits() -> None:
    counts, delta, epsilon = Counts(3, 40, 8, 30), 0.01, 1.2
    with mpmath.workdps(30):
        grow = mpmath.exp(epsilon)

        def density(x: Any) -> Any:
            norm = mpmath.beta(3.5, 37.5)
            least = max(1 - delta - grow * x, (1 - delta - x) / grow, 0)
            tail = mpmath.betainc(8.5, 22.5, least, 1, regularized=True)
            return x**2.5 * (1 - x) ** 36.5 / norm * tail

        kink = (1 - delta) * (1 - 1 / grow) / (grow - 1 / grow)
        exact = mpmath.quad(density, [0, 0.02, kink / 2, kink, 0.35, 0.6, 1])
    assert epsilon_posterior(counts, delta).cdf(epsilon) == pytest.approx(float(exact), abs=1e-8)


def test_mirrored_counts_have_the_same_posterior() -> None:
    one = epsilon_posterior(Counts(3, 40, 8, 30), 1e-3)
    other = epsilon_posterior(Counts(8, 30, 3, 40), 1e-3)
    for epsilon in (0.0, 0.5, 1.0, 2.0, 4.0):
        assert one.cdf(epsilon) == pytest.approx(other.cdf(epsilon), abs=1e-8)


def test_uniform_prior_and_no_trials_against_is_a_closed_form() -> None:
    """FNR and FPR uniform: P(epsilon <= 0) = P(FPR + FNR >= 1) = 1/2, by a prior of 1 on (0, 1)."""
    posterior = EpsilonPosterior(Counts(0, 1, 1, 1), 0.0, prior=1.0)
    # FPR ~ Beta(1, 2), FNR ~ Beta(2, 1): P(FNR >= 1 - FPR) = int 2 (1 - x) (1 - (1 - x)^2) dx.
    assert posterior.cdf(0.0) == pytest.approx(0.5, abs=1e-9)


def test_more_trials_narrow_the_interval_around_the_truth() -> None:
    wide = epsilon_posterior(Counts(27, 100, 27, 100), 0.0).interval(0.95)
    narrow = epsilon_posterior(Counts(26_894, 100_000, 26_894, 100_000), 0.0).interval(0.95)
    assert wide.lowest < narrow.lowest < 1.0 + 0.02 < narrow.highest + 0.02 < wide.highest + 0.02
    assert narrow.highest - narrow.lowest < 0.03
    truth = math.log((1 - 0.26894) / 0.26894)
    assert narrow.lowest < truth + 0.02
    assert narrow.highest > truth - 0.02


def test_estimate_is_not_a_bound_and_no_verdict_takes_it() -> None:
    counts = Counts(0, 50, 40, 50)
    interval = epsilon_posterior(counts, 0.0).interval(0.9)
    assert interval.lowest > epsilon_lower(counts, 0.0, 0.05).epsilon_lower
    assert not isinstance(interval, (verdict.Lower, float))
    for name in ("shown", "decisive", "lower", "epsilon_lower", "verdict"):
        assert not hasattr(interval, name)
    with pytest.raises(AttributeError):
        verdict.exceeds(interval, 0)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        float(interval)  # type: ignore[arg-type]


def test_values_at_the_ends() -> None:
    posterior = epsilon_posterior(Counts(0, 10, 0, 10), 0.0)
    assert posterior.cdf(-1.0) == 0
    assert posterior.cdf(math.inf) == pytest.approx(1.0, abs=1e-9)
    assert epsilon_posterior(Counts(10, 10, 10, 10), 0.0).interval(0.95) == CredibleInterval(
        0.0, 0.0, 0.95
    )


@pytest.mark.parametrize("bad", [0.0, 1.0, -0.5, math.nan])
def test_bad_probabilities_are_refused(bad: float) -> None:
    posterior = epsilon_posterior(Counts(1, 10, 1, 10), 0.0)
    for call in (posterior.quantile, posterior.interval):
        with pytest.raises(InvalidParameter):
            call(bad)


def test_bad_input_is_refused() -> None:
    counts: Any = Counts(1, 10, 1, 10)
    for delta in (-0.1, 1.0, math.nan):
        with pytest.raises(InvalidParameter):
            epsilon_posterior(counts, delta)
    for prior in (0.0, -1.0, math.inf, math.nan):
        with pytest.raises(InvalidParameter):
            EpsilonPosterior(counts, 0.0, prior)
    with pytest.raises(InvalidParameter):
        epsilon_posterior((1, 10, 1, 10), 0.0)  # type: ignore[arg-type]
    with pytest.raises(InvalidParameter):
        epsilon_posterior(counts, 0.0).cdf(math.nan)
