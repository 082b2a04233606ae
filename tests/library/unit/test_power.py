"""Power: the information limit, trials needed, the smallest epsilon in reach; bad input."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.special import ndtri
from scipy.stats import binom

from dpaudit.audit.bounds.estimators import Counts, epsilon_lower
from dpaudit.audit.bounds.joint import region_p_value
from dpaudit.audit.bounds.power import (
    Power,
    _edge,
    _rates,
    information_limit,
    limit_of_scores,
    smallest_epsilon,
    trials_needed,
)
from dpaudit.audit.bounds.selection import (
    Sizes,
    Tails,
    choose_declared,
    epsilon_needed,
    gaussian_tails,
    mu_needed,
)
from dpaudit.errors import InvalidParameter
from dpaudit.measures.region import ApproxRegion, GaussianRegion

ERROR = 0.05
DELTA = 1e-5
MU = 0.2680511232112941  # the Gaussian that is exactly (1, 1e-5)-DP
GAUSSIAN = gaussian_tails(MU)


def laplace_tails() -> Tails:
    """Scale 1, shift 1: events x > t."""
    points = np.linspace(-8.0, 9.0, 1_001)
    rates = [np.where(u > 0, np.exp(-abs(u)) / 2, 1 - np.exp(-abs(u)) / 2)
             for u in (points - 1, points)]  # fmt: skip
    return Tails(points, *rates)


@pytest.mark.parametrize(("trials", "limit"), [(10**4, 0.507), (10**5, 0.695), (10**6, 0.840)])
def test_limits_on_the_gaussian(trials: int, limit: float) -> None:
    """Within 1% of the limits published with the task: the best weights beat the best event."""
    power = information_limit(GAUSSIAN, Sizes(trials, trials), DELTA, ERROR)
    assert power.limit == pytest.approx(limit, rel=0.01)
    assert 0.94 * power.limit < power.event < power.limit < 1


def test_limits_of_atoms_are_those_of_their_event() -> None:
    """Two outcomes: a weight is an event, and the limit a ratio of two rates with their errors."""
    tails = Tails(np.array([-1.0, 0.0]), np.array([1.0, 0.75]), np.array([1.0, 0.25]))
    power = information_limit(tails, Sizes(10**5, 10**5), 0.0, ERROR)
    spread = math.sqrt((0.25 / 0.75 + 0.75 / 0.25) / 10**5)
    assert power.limit == pytest.approx(math.log(3) + float(ndtri(ERROR)) * spread, abs=2e-3)
    assert power.event == pytest.approx(power.limit, abs=2e-3)


def test_limits_grow_with_trials_and_stay_below_the_truth() -> None:
    limits = [
        information_limit(GAUSSIAN, Sizes(trials, 3 * trials), DELTA, ERROR).limit
        for trials in (10, 1_000, 10**5, 10**8)
    ]
    assert limits == sorted(limits)
    assert limits[-1] < 1
    useless = Tails(np.array([0.0]), np.array([0.3]), np.array([0.3]))
    assert information_limit(useless, Sizes(10**4, 10**4), DELTA, ERROR).limit < 1e-6


def test_shares_of_the_limit() -> None:
    assert Power(limit=0.5, event=0.4).achieved(0.455) == pytest.approx(0.91)
    assert Power(limit=0.0, event=0.0).achieved(0.0) == 1


@pytest.mark.quality
def test_trials_needed_are_where_the_prediction_reaches_what_is_wanted() -> None:
    for needed, wanted in ((epsilon_needed(DELTA), 0.6), (mu_needed, 0.2)):
        trials = trials_needed(GAUSSIAN, wanted, ERROR, needed)
        assert trials is not None
        for factor, reached in ((0.99, False), (1.01, True)):
            sizes = Sizes(trials * factor, trials * factor)
            assert (choose_declared(GAUSSIAN, sizes, ERROR, needed).predicted >= wanted) == reached
    assert trials_needed(GAUSSIAN, 1.01, ERROR, epsilon_needed(DELTA)) is None


@pytest.mark.quality
def test_laplace_needs_fewer_than_900_draws() -> None:
    """To show 0.8 of epsilon 1 with chance 75%, against the exact power of the joint test.

    Summed over the binomial law of the other hits (every fifth), at the event of the prediction.
    """
    trials = trials_needed(laplace_tails(), 0.8, ERROR, epsilon_needed(0.0), power=0.75)
    assert trials is not None
    assert 600 < trials < 900
    p, q = 1 - math.exp(0.93 - 1) / 2, math.exp(-0.93) / 2
    spread, power, first = math.sqrt(trials * q * (1 - q)), 0.0, 0
    for y in range(int(trials * q - 3 * spread), int(trials * q + 3 * spread), 5):
        first = smallest_refuting(y, trials, first)
        law = binom.pmf(np.arange(y - 2, y + 3), trials, q).sum()
        power += law * binom.sf(first - 1, trials, p)
    assert 0.72 < power < 0.79


def smallest_refuting(other_hits: int, trials: int, start: int) -> int:
    """The fewest hits at which epsilon 0.8 is refuted, by bisection."""
    low, high = start, trials if start == 0 else min(start + 60, trials)
    while low < high:
        middle = (low + high) // 2
        value = region_p_value(middle, trials, other_hits, trials, ApproxRegion(0.8), trim=2.5e-4)
        low, high = (low, middle) if value <= ERROR else (middle + 1, high)
    return low


def test_smallest_epsilon_refutes_and_a_smaller_one_does_not() -> None:
    n, q, claim = 20_000, 0.1, ApproxRegion(0.5, DELTA)
    found = smallest_epsilon(Sizes(n, n), claim, DELTA, ERROR, other_rates=np.array([q]))
    for epsilon, refuted in ((found * 1.01, True), (found * 0.99, False)):
        p = float(ApproxRegion(epsilon, DELTA).largest(np.array([q]))[0])
        value = region_p_value(round(n * p), n, round(n * q), n, claim)
        assert (value <= ERROR) == refuted


@pytest.mark.quality
def test_smallest_epsilon_falls_with_trials_and_grows_with_power() -> None:
    claim = ApproxRegion(1.0, DELTA)
    found = [smallest_epsilon(Sizes(n, n), claim, DELTA, ERROR) for n in (100, 1_000, 10**4, 10**6)]
    assert found == sorted(found, reverse=True)
    assert 1 < found[-1] < 1.01
    assert found[0] > 1.2
    sure = smallest_epsilon(Sizes(1_000, 1_000), claim, DELTA, ERROR, power=0.95)
    strict = smallest_epsilon(Sizes(1_000, 1_000), claim, DELTA, 1e-6)
    assert min(sure, strict) > found[1]
    assert smallest_epsilon(Sizes(1, 1), claim, DELTA, 1e-4) == math.inf
    assert smallest_epsilon(Sizes(10**4, 10**4), GaussianRegion(0.5), 0.0, ERROR) > 0


def test_one_count_against_a_rare_event() -> None:
    """An event of probability 1e-6 under Q shows little in 1,000 trials, however large p is."""
    rare = np.array([1e-6])
    sizes = Sizes(1_000, 1_000)
    found = smallest_epsilon(sizes, ApproxRegion(0.1), 0.0, ERROR, other_rates=rare)
    p = math.exp(found) * 1e-6
    assert 0.5 / 1_000 < p < 20 / 1_000


@pytest.mark.parametrize(
    "make",
    [
        lambda: trials_needed(GAUSSIAN, 0.0, ERROR, mu_needed),
        lambda: trials_needed(GAUSSIAN, math.nan, ERROR, mu_needed),
        lambda: trials_needed(GAUSSIAN, 0.1, 0.6, mu_needed),
        lambda: trials_needed(GAUSSIAN, 0.1, ERROR, mu_needed, power=0.4),
        lambda: trials_needed(GAUSSIAN, 0.1, ERROR, mu_needed, power=1.0),
        lambda: information_limit(GAUSSIAN, Sizes(10, 10), 1.0, ERROR),
        lambda: information_limit(GAUSSIAN, Sizes(10, 10), DELTA, 0.0),
        lambda: smallest_epsilon(Sizes(10, 10), ApproxRegion(1.0), -0.1, ERROR),
        lambda: smallest_epsilon(Sizes(10, 10), ApproxRegion(1.0), 0.0, math.nan),
    ],
)
def test_bad_input_is_refused(make: Any) -> None:
    with pytest.raises(InvalidParameter):
        make()


def test_the_edge_of_a_region_is_no_more_than_one() -> None:
    epsilon, q = np.array([0.0, 1.0, 5.0]), np.array([0.69, 0.9, 1.0])
    assert _edge(epsilon, 0.3, q) == pytest.approx([0.99, 1.0, 1.0])
    assert (_edge(epsilon, 0.3, q) <= 1).all()


@pytest.mark.parametrize("rates", [[], [1.5], [math.nan], [[0.5]], [-0.1]])
def test_bad_rates_are_refused(rates: Any) -> None:
    with pytest.raises(InvalidParameter, match="other_rates"):
        smallest_epsilon(Sizes(10, 10), ApproxRegion(1.0), 0.0, ERROR, other_rates=np.array(rates))


@pytest.mark.first_case
@pytest.mark.parametrize(("mu", "trials"), [(0.268, 100_000), (1.0, 20_000), (1.0, 500_000)])
def test_the_limit_of_scores_is_near_that_of_their_laws(mu: float, trials: int) -> None:
    """To 20%: the tails are those of a line fitted to the scores."""
    rng = np.random.default_rng(5)
    sides = rng.normal(mu, 1, trials), rng.normal(0, 1, trials)
    truth = information_limit(gaussian_tails(mu), Sizes(trials, trials), DELTA, ERROR).limit
    assert limit_of_scores(*sides, DELTA, ERROR) == pytest.approx(truth, rel=0.2)
    scaled = limit_of_scores(7 * sides[0] + 3, 7 * sides[1] + 3, DELTA, ERROR)
    assert scaled == pytest.approx(limit_of_scores(*sides, DELTA, ERROR))


def test_rates_go_from_a_hundredth_of_a_count_to_all_but_that() -> None:
    found = _rates(Sizes(10, 20))
    assert (np.diff(found) > 0).all()
    assert found[0] == pytest.approx(0.01 / 20)
    np.testing.assert_allclose(found + found[::-1], 1)


def test_no_more_is_in_reach_than_two_samples_far_apart_show() -> None:
    found = limit_of_scores(np.full(300, 9.0), np.zeros(200), DELTA, ERROR)
    clearest = epsilon_lower(Counts(0, 200, 0, 300), DELTA, ERROR).epsilon_lower
    assert found == clearest


def test_the_limit_of_scores_of_two_values() -> None:
    """Randomised response at epsilon 1: the event is one value, and the limit is its prediction."""
    first, second = np.ones(10_000), np.ones(10_000)
    first[: round(10_000 / (1 + math.e))], second[: round(10_000 * math.e / (1 + math.e))] = -1, -1
    assert 0.95 < limit_of_scores(first, second, 0.0, ERROR) < 1
    assert limit_of_scores(first, first, 0.0, ERROR) == 0
    assert limit_of_scores(np.ones(3), np.ones(5), 0.0, ERROR) == 0
    apart = limit_of_scores(np.full(100, np.inf), np.full(100, -np.inf), 0.0, ERROR)
    assert apart <= epsilon_lower(Counts(0, 100, 0, 100), 0.0, ERROR).epsilon_lower
