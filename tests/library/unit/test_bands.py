"""Bands: the exact crossing probability by enumeration, 50 digits, tails, every bound of a band."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from scipy.special import bdtr, ndtr, ndtri
from scipy.stats import poisson

from dpaudit.audit.bounds import bands
from dpaudit.audit.bounds.bands import Band, rates_upper, score_band
from dpaudit.audit.bounds.estimators import TestScores, TrainingScores, epsilon_of_gaussian
from dpaudit.errors import InvalidParameter

ERROR = 0.05


def gaussian(mu: float, size: int, seed: int) -> TestScores:
    rng = np.random.default_rng(seed)
    return TestScores(rng.normal(mu, 1, size), rng.normal(0, 1, size))


def crossing(uppers: Any) -> Any:
    """P(some order statistic of n uniforms has U_(k+1) > uppers[k]), by binomial steps, exactly.

    The state is the number of points below uppers[k]; it must exceed k.  50 digits.
    """
    trials, at = len(uppers), mpmath.mpf(0)
    alive = [mpmath.mpf(1)] + [mpmath.mpf(0)] * trials
    for count, upper in enumerate(uppers):
        step = (mpmath.mpf(upper) - at) / (1 - at) if at < 1 else mpmath.mpf(0)
        moved = [mpmath.mpf(0)] * (trials + 1)
        for before, mass in enumerate(alive):
            for more in range(trials - before + 1) if mass else ():
                ways = mpmath.binomial(trials - before, more)
                moved[before + more] += (
                    mass * ways * step**more * (1 - step) ** (trials - before - more)
                )
        alive = [mpmath.mpf(0)] * (count + 1) + moved[count + 1 :]
        at = mpmath.mpf(upper)
    return 1 - sum(alive)


@pytest.mark.first_case
@pytest.mark.parametrize("trials", [1, 2, 10, 25])
@pytest.mark.parametrize("error", [0.3, 0.025, 1e-6])
def test_the_error_is_met_exactly(trials: int, error: float) -> None:
    """Not sampled: all order statistics at once, against a recursion that knows no martingale."""
    with mpmath.workdps(50):
        wrong = crossing(rates_upper(np.arange(trials), trials, error).tolist())
        assert wrong <= error
        assert wrong >= (1 - 1e-5) * error


@pytest.mark.parametrize("trials", [400, 1_500])
def test_the_error_is_met_exactly_by_many_trials(trials: int) -> None:
    """The same for a Poisson number of points, given that there were as many as trials."""
    alive, at = np.zeros(trials + 1), 0.0
    alive[0] = 1.0
    for count, upper in enumerate(rates_upper(np.arange(trials), trials, 0.025).tolist()):
        mean, at = trials * (upper - at), upper
        steps = poisson.pmf(np.arange(mean + 12 * math.sqrt(mean + 1) + 20), mean)
        alive = np.convolve(alive, steps)[: trials + 1]
        alive[: count + 1] = 0
    left = poisson.pmf(trials - np.arange(trials + 1), trials * (1 - at))
    wrong = 1 - float(alive @ left) / poisson.pmf(trials, trials)
    assert wrong == pytest.approx(0.025, rel=1e-6)


@pytest.mark.parametrize("mu", [0.5, 3.0])
def test_rho_is_shown_by_orders_of_one_and_more_alone(mu: float) -> None:
    band = score_band(gaussian(mu, 2_000, 3), ERROR)
    most = max(band.renyi_lower(a) / a for a in [1.0, *(1 + np.geomspace(0.02, 200, 200))])
    assert 0.98 * most <= band.rho_lower() <= most * 1.01


def test_martingales_are_of_the_ranks_told() -> None:
    """theta u = k / n where n KL(k/n, u) = log(martingales / error), in closed form for u."""
    ranks = np.array([0.25, 0.5, 1, 2, 4, 5, 6, 8, 9])
    tilts = bands._tilts(10, ERROR)
    assert tilts.shape == ranks.shape
    shares, u = ranks / 10, ranks / 10 / (1 - tilts)
    divergence = shares * np.log(shares / u) + (1 - shares) * np.log((1 - shares) / (1 - u))
    np.testing.assert_allclose(divergence, math.log(9 / ERROR) / 10, rtol=1e-9)


@pytest.mark.first_case
@pytest.mark.parametrize("trials", [3, 1_000, 10**6, 10**9])
@pytest.mark.parametrize("error", [0.5, 0.025, 1e-12, 1e-100])
def test_the_martingale_at_the_bound_in_fifty_digits(trials: int, error: float) -> None:
    tilts = bands._tilts(trials, error).tolist()
    counts = sorted({0, 1, trials // 1_000, trials // 2, trials - 1})
    for count, upper in zip(counts, rates_upper(counts, trials, error), strict=True):
        assert average(count, trials, tilts, upper) >= level(trials, tilts, error)
        below = 1 - (1 - mpmath.mpf(upper)) * (1 + mpmath.mpf("1e-6"))
        lower = min(below, mpmath.mpf(upper) * (1 - mpmath.mpf("1e-6")))
        assert average(count, trials, tilts, lower) < level(trials, tilts, error)


def level(trials: int, tilts: list[float], error: float) -> Any:
    with mpmath.workdps(50):
        end = sum((1 - mpmath.mpf(tilt)) ** trials for tilt in tilts) / len(tilts)
        return end + (1 - end) / mpmath.mpf(error)


def average(count: int, trials: int, tilts: list[float], u: Any) -> Any:
    with mpmath.workdps(50):
        u = mpmath.mpf(u)
        if u >= 1:
            return mpmath.inf
        terms = (
            (1 - mpmath.mpf(tilt)) ** count * (1 + tilt * u / (1 - u)) ** (trials - count)
            for tilt in tilts
        )
        return sum(terms) / len(tilts)


@pytest.mark.parametrize("trials", [10_000, 100_000, 1_000_000])
def test_tails_are_tight_where_the_dvoretzky_kiefer_wolfowitz_band_is_useless(trials: int) -> None:
    uniform = math.sqrt(math.log(1 / ERROR) / (2 * trials))
    counts = np.unique(np.geomspace(1, trials // 1_000, 20).astype(int))
    excess = rates_upper(counts, trials, ERROR) - counts / trials
    assert np.all(excess < 0.35 * uniform)
    assert rates_upper([0], trials, ERROR)[0] < 8.5 / trials
    highest = 1 - rates_upper(trials - counts, trials, ERROR)
    many = counts >= 16
    assert np.all(highest[many] > 0.25 * counts[many] / trials)
    assert np.all(counts[many] / trials - uniform < highest[many])
    middle = rates_upper([trials // 2], trials, ERROR)[0] - 0.5
    assert middle < 1.6 * uniform


def test_local_levels_are_those_of_a_union_over_ranks_of_a_logarithmic_number() -> None:
    for trials in (1_000, 1_000_000):
        counts = np.unique(np.geomspace(1, trials - 1, 200).astype(int))
        uppers = rates_upper(counts, trials, ERROR)
        levels = bdtr(counts.astype(float), trials, uppers)
        assert np.all(levels < ERROR)
        assert np.all(levels > ERROR / (40 * math.log(trials)))


def test_bounds_increase_with_the_count_and_with_care() -> None:
    counts = np.arange(501)
    loose, strict = rates_upper(counts, 500, 0.05), rates_upper(counts, 500, 1e-4)
    assert np.all(np.diff(loose) > 0)
    assert np.all(loose[:-1] < strict[:-1])
    assert np.all(loose[:-1] > counts[:-1] / 500)
    assert loose[-1] == strict[-1] == 1


def test_shape_is_kept_and_an_empty_array_is_fine() -> None:
    assert rates_upper(np.array([[0, 5], [5, 10]]), 10, ERROR).shape == (2, 2)
    assert rates_upper(np.array([], dtype=int), 10, ERROR).shape == (0,)


@pytest.mark.quality
def test_all_bounds_of_all_thresholds_hold_together() -> None:
    """300 runs: more than 29 false ones happen with probability 2e-4 if the rate is 5%."""
    mu, size, wrong = 1.0, 400, 0
    profile = {delta: epsilon_of_gaussian(mu, delta) for delta in (1e-5, 0.01, 0.2)}
    for seed in range(300):
        band = score_band(gaussian(mu, size, seed), ERROR)
        rates = ndtr(-band.thresholds), ndtr(band.thresholds - mu)
        held = np.all(rates[0] <= band.false_positive_upper)
        held &= bool(np.all(rates[1] <= band.false_negative_upper))
        false = [band.epsilon_lower(delta) > truth for delta, truth in profile.items()]
        false += [band.mu_lower() > mu, band.rho_lower() > mu**2 / 2]
        false += [band.renyi_lower(order) > order * mu**2 / 2 for order in (1, 2, 8)]
        assert not (held and any(false))
        wrong += not held
    assert wrong <= 29


def test_bounds_come_near_the_truth() -> None:
    band = score_band(gaussian(1.0, 200_000, 7), ERROR)
    assert 0.97 < band.mu_lower() < 1
    assert 0.93 * 0.5 < band.rho_lower() < 0.5
    for order in (1.0, 1.5, 2.0, 4.0):
        assert 0.75 * order / 2 < band.renyi_lower(order) < order / 2
    for delta in (1e-3, 0.05):
        truth = epsilon_of_gaussian(1.0, delta)
        assert 0.8 * truth < band.epsilon_lower(delta) < truth


def test_trade_off_curve_lies_above_the_true_one_and_near_it() -> None:
    band = score_band(gaussian(1.0, 100_000, 3), ERROR)
    alpha = np.linspace(0, 1, 101)
    truth = ndtr(ndtri(1 - alpha) - 1)
    upper = band.tradeoff_upper(alpha)
    assert np.all(upper >= truth - 1e-12)
    assert np.max(upper - truth) < 0.02
    assert np.all(np.diff(upper, 2) > -1e-12)
    assert band.tradeoff_upper(0.0) == 1


def test_epsilon_and_delta_are_two_readings_of_one_curve() -> None:
    band = score_band(gaussian(1.5, 50_000, 1), ERROR)
    for delta in (0.0, 1e-3, 0.1):
        epsilon = band.epsilon_lower(delta)
        assert band.delta_lower(epsilon) >= delta - 1e-12
        assert band.delta_lower(epsilon * 1.0001) <= delta
    assert band.delta_lower(50.0) == 0


def test_both_directions_count() -> None:
    """A rare sure sign of D1 shows as much as a rare sure sign of D0."""
    rng = np.random.default_rng(5)
    leak = np.where(rng.random(20_000) < 0.01, 9.0, 0.0)
    forward = score_band(TestScores(leak, np.zeros(20_000)), ERROR)
    backward = score_band(TestScores(np.zeros(20_000), -leak), ERROR)
    assert forward.epsilon_lower(1e-5) == pytest.approx(backward.epsilon_lower(1e-5), rel=1e-9)
    assert forward.epsilon_lower(1e-5) > 2.5
    assert forward.rho_lower() == pytest.approx(backward.rho_lower(), rel=1e-9)


def test_renyi_of_known_corners_in_fifty_digits() -> None:
    corners = np.array([[0.0, 1.0], [0.01, 0.5], [0.2, 0.1], [1.0, 0.0]])
    band = Band(np.zeros(2), corners[1:-1, 0], corners[1:-1, 1], corners, ERROR)
    with mpmath.workdps(50):
        steps = [tuple(map(mpmath.mpf, step)) for step in np.diff(corners, axis=0).tolist()]
        laws = [[-fall for _, fall in steps], [rise for rise, _ in steps]]
        for order in (1.5, 2.0, 30.0):
            truth = max(
                mpmath.log(sum(p**order * q ** (1 - order) for p, q in zip(*pair, strict=True)))
                / (order - 1)
                for pair in (laws, laws[::-1])
            )
            assert truth - mpmath.mpf("1e-9") * order <= band.renyi_lower(order) <= truth
        kullback = max(
            sum(p * mpmath.log(p / q) for p, q in zip(*pair, strict=True))
            for pair in (laws, laws[::-1])
        )
        assert kullback - mpmath.mpf("1e-9") <= band.renyi_lower(1) <= kullback
    assert band.renyi_lower(1 + 1e-7) == pytest.approx(float(kullback), rel=1e-3)


def test_hull_is_convex_and_below_every_point() -> None:
    rng = np.random.default_rng(2)
    for _ in range(20):
        x, y = rng.random(50), rng.random(50)
        corners = bands._hull(x, y)
        assert np.all(np.diff(corners[:, 0]) > 0)
        assert np.all(np.diff(corners[:, 1]) < 0)
        slopes = np.diff(corners[:, 1]) / np.diff(corners[:, 0])
        assert np.all(np.diff(slopes) > 0)
        assert np.all(np.interp(x, corners[:, 0], corners[:, 1]) <= np.maximum(y, 1 - x) + 1e-12)


@pytest.mark.parametrize("size", [1, 2, 5])
def test_few_trials_show_nothing(size: int) -> None:
    band = score_band(TestScores(np.ones(size), np.zeros(size)), ERROR)
    assert (band.epsilon_lower(0.0), band.mu_lower(), band.rho_lower()) == (0, 0, 0)
    assert band.renyi_lower(2) == band.delta_lower(0.0) == 0
    assert band.tradeoff_upper(0.25) == pytest.approx(0.75)


def test_constant_and_infinite_scores() -> None:
    same = score_band(TestScores(np.zeros(100), np.zeros(100)), ERROR)
    assert same.epsilon_lower(1e-5) == 0
    apart = score_band(TestScores(np.full(1_000, np.inf), np.full(1_000, -np.inf)), ERROR)
    assert apart.epsilon_lower(1e-5) > 4
    assert math.isfinite(apart.mu_lower())


def test_ties_are_kept_together() -> None:
    """Randomised response: two atoms, so only one threshold tells anything."""
    rng, size = np.random.default_rng(4), 50_000
    truth = math.e / (1 + math.e)
    first, second = (np.where(rng.random(size) < p, 1.0, -1.0) for p in (truth, 1 - truth))
    band = score_band(TestScores(first, second), ERROR)
    assert 0.9 < band.epsilon_lower(0.0) < 1


def test_a_million_trials_a_side() -> None:
    band = score_band(gaussian(0.268, 10**6, 0), ERROR)
    assert band.thresholds.size < 4_000
    assert 0.255 < band.mu_lower() < 0.268


def test_bad_input() -> None:
    good = gaussian(1.0, 50, 0)
    with pytest.raises(InvalidParameter, match="expected TestScores"):
        score_band(TrainingScores(good.alternative, good.null), ERROR)  # type: ignore[arg-type]
    for error in (0.0, 1.0, -1.0, math.nan):
        with pytest.raises(InvalidParameter, match="error"):
            score_band(good, error)
    band = score_band(good, ERROR)
    for order in (0.5, math.nan, math.inf, 1e5):
        with pytest.raises(InvalidParameter, match="order"):
            band.renyi_lower(order)
    for epsilon in (-1.0, math.nan, math.inf):
        with pytest.raises(InvalidParameter, match="epsilon"):
            band.delta_lower(epsilon)
    for delta in (-0.1, 1.0, math.nan):
        with pytest.raises(InvalidParameter, match="delta"):
            band.epsilon_lower(delta)
    for alpha in (-0.1, 1.1, math.nan):
        with pytest.raises(InvalidParameter, match="alpha"):
            band.tradeoff_upper(alpha)


@pytest.mark.parametrize(
    ("counts", "trials"), [([-1], 5), ([6], 5), ([0.5], 5), ([0], 0), ([0], 10**10), ([True], 5)]
)
def test_bad_counts(counts: Any, trials: int) -> None:
    with pytest.raises(InvalidParameter):
        rates_upper(counts, trials, ERROR)


def test_corners_turn_as_exact_fractions_say() -> None:
    """Near-collinear points, far from the axes too: rounding never decides which is a corner."""
    rng = np.random.default_rng(5)
    turned = 0
    for _ in range(4_000):
        start, step = rng.random(2), rng.random(2) - 0.5
        share = rng.random()
        middle = start + share * step
        middle[1] = np.nextafter(middle[1], rng.choice([-1.0, middle[1], 2.0]))
        points = [tuple(map(float, p)) for p in (start, middle, start + step)]
        (x0, y0), (x1, y1), (x2, y2) = [tuple(map(Fraction, p)) for p in points]
        exact = (x1 - x0) * (y2 - y0) > (y1 - y0) * (x2 - x0)
        assert bands._turns_left(*points) is exact
        turned += exact
    assert 500 < turned < 3_500
    assert not bands._turns_left((0.0, 1.0), (0.5, 0.5), (1.0, 0.0))
