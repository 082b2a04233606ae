"""Estimators: exact binomial tails, 50-digit profiles, validity and power on known mechanisms."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import flint
import mpmath
import numpy as np
import pytest
from scipy.special import ndtr, ndtri
from scipy.stats import binom

from dpaudit.audit.bounds.estimators import (
    Counts,
    TestScores,
    TrainingScores,
    choose_test,
    choose_threshold,
    count_errors,
    epsilon_lower,
    epsilon_of_gaussian,
    mu_lower,
    pooled_upper,
    pools,
    proportion_upper,
    roc_points,
    strongest_epsilon,
    strongest_mu,
)
from dpaudit.errors import InvalidParameter

MU = 0.57735
DELTA = 1e-5
ERROR = 0.05
EPSILON = 2.3414258403599124


def training(alternative: Any, null: Any) -> TrainingScores:
    return TrainingScores(alternative, null)


def held_out(alternative: Any, null: Any) -> TestScores:
    return TestScores(alternative, null)


def binomial_tail(count: int, trials: int, p: Fraction) -> Fraction:
    """P(Binomial(trials, p) <= count), term by term."""
    terms = (math.comb(trials, k) * p**k * (1 - p) ** (trials - k) for k in range(count + 1))
    return sum(terms, Fraction(0))


@pytest.mark.parametrize("trials", [1, 2, 3, 7, 20])
@pytest.mark.parametrize("error", [0.5, 0.05, 1e-4, 1e-12])
def test_proportion_upper_against_exact_sums(trials: int, error: float) -> None:
    for count in range(trials):
        upper = proportion_upper(count, trials, error)
        assert binomial_tail(count, trials, Fraction(upper)) <= Fraction(error)
        below = Fraction(upper) * (1 - Fraction(1, 10**9))
        assert binomial_tail(count, trials, below) > Fraction(error)
    assert proportion_upper(trials, trials, error) == 1


def arb_tail(count: int, trials: int, p: Fraction) -> Any:
    """P(Binomial(trials, p) <= count) as a ball, by the regularised incomplete beta function."""
    shape = flint.arb(trials - count), flint.arb(count + 1)
    for precision in (160, 640, 2_560):
        with flint.ctx.workprec(precision):
            miss = 1 - flint.arb(flint.fmpq(p.numerator, p.denominator))
            tail = miss.beta_lower(*shape, regularized=True)
            if tail.rel_accuracy_bits() > 133:
                return tail
    raise AssertionError(f"no 40 digits at {count} of {trials}")


@pytest.mark.first_case("trials")
@pytest.mark.parametrize("trials", [100, 20_000, 10**6, 10**7])
@pytest.mark.parametrize("error", [0.5, 0.025, 1e-4, 1e-12])
def test_proportion_upper_against_forty_digits(trials: int, error: float) -> None:
    for count in {0, 1, 2, 17, trials // 1_000, trials // 3, trials - 1}:
        upper = proportion_upper(count, trials, error)
        below = Fraction(upper) * (1 - Fraction(1, 10**9))
        assert arb_tail(count, trials, below) > flint.arb(error)
        if upper < 1:
            assert arb_tail(count, trials, Fraction(upper)) <= flint.arb(error)


def test_proportion_upper_grows_with_the_count_and_shrinks_with_the_error() -> None:
    by_count = [proportion_upper(count, 50, 0.05) for count in range(51)]
    assert by_count == sorted(by_count)
    by_error = [proportion_upper(3, 50, error) for error in (0.5, 0.1, 1e-3, 1e-9, 1e-99)]
    assert by_error == sorted(by_error)


def test_proportion_upper_where_scipy_gives_up_is_one() -> None:
    assert proportion_upper(3, 5, 1e-100) == proportion_upper(19_995, 20_000, 1e-100) == 1


@pytest.mark.parametrize(
    ("count", "trials", "error"),
    [
        (-1, 10, 0.05), (11, 10, 0.05), (0, 0, 0.05), (0, 10**10, 0.05), (1.0, 10, 0.05),
        (1, 10, 0.0), (1, 10, 1.0), (1, 10, math.nan), (1, 10, math.inf), (1, 10, 1e-200),
    ],
)  # fmt: skip
def test_proportion_upper_refuses(count: Any, trials: int, error: float) -> None:
    with pytest.raises(InvalidParameter):
        proportion_upper(count, trials, error)


# Scores and counts.


def test_count_errors_by_hand() -> None:
    scores = held_out(alternative=[2.0, 0.0, -1.0, math.inf], null=[0.0, 0.5, -math.inf])
    assert count_errors(scores, 0.0) == Counts(1, 3, 2, 4)
    assert count_errors(scores, -math.inf) == Counts(2, 3, 0, 4)
    assert count_errors(scores, math.inf) == Counts(0, 3, 4, 4)


@pytest.mark.parametrize(
    "bad", [[], [[1.0]], [math.nan, 1.0], 3.0, ["a"], [1j], [None], [True]], ids=repr
)
def test_scores_refuse(bad: Any) -> None:
    for make, scores in itertools.product((training, held_out), ((bad, [0.0]), ([0.0], bad))):
        with pytest.raises(InvalidParameter):
            make(*scores)


def test_scores_are_copies_that_cannot_be_written() -> None:
    values = np.zeros(3)
    scores = held_out(values, values)
    values[0] = 1
    assert scores.null.tolist() == [0, 0, 0]
    with pytest.raises(ValueError, match="read-only"):
        scores.null[0] = 1


def test_training_and_test_scores_do_not_mix() -> None:
    trained, test = training([1.0], [0.0]), held_out([1.0], [0.0])
    with pytest.raises(InvalidParameter, match="TestScores"):
        count_errors(trained, 0.0)  # type: ignore[arg-type]
    with pytest.raises(InvalidParameter, match="TestScores"):
        roc_points(trained, [0.0], ERROR)  # type: ignore[arg-type]
    with pytest.raises(InvalidParameter, match="TrainingScores"):
        choose_threshold(test, DELTA, 10, ERROR)  # type: ignore[arg-type]
    with pytest.raises(InvalidParameter, match="Counts"):
        epsilon_lower(test, DELTA, ERROR)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "bad", [(-1, 5, 0, 5), (6, 5, 0, 5), (0, 0, 0, 5), (0, 5, 0, -5), (0.5, 5, 0, 5), (0, 5, 6, 5)]
)
def test_counts_refuse(bad: Any) -> None:
    with pytest.raises(InvalidParameter):
        Counts(*bad)


def test_counts_take_numpy_integers() -> None:
    counts = Counts(np.int64(1), np.int32(5), 0, 5)  # type: ignore[arg-type]
    assert type(counts.false_positives) is int
    assert type(counts.trials_null) is int


# Bounds.


@pytest.mark.parametrize("delta", [0.0, 1e-5, 0.2])
@pytest.mark.parametrize(
    "counts", [Counts(0, 100, 0, 100), Counts(3, 900, 80, 100), Counts(70, 100, 1, 5_000)]
)
def test_epsilon_lower_is_the_better_direction_rounded_down(counts: Counts, delta: float) -> None:
    bound = epsilon_lower(counts, delta, ERROR)
    positive, negative = bound.false_positive_rate_upper, bound.false_negative_rate_upper
    assert positive == proportion_upper(counts.false_positives, counts.trials_null, ERROR / 2)
    assert negative == proportion_upper(
        counts.false_negatives, counts.trials_alternative, ERROR / 2
    )
    with mpmath.workdps(40):
        slack = mpmath.mpf(str(delta))
        ratios = [
            (1 - slack - mpmath.mpf(missed)) / mpmath.mpf(fired)
            for missed, fired in ((positive, negative), (negative, positive))
        ]
        true = mpmath.log(max(*ratios, 1))
        assert bound.epsilon_lower <= true
        assert true - bound.epsilon_lower < 1e-14


def test_epsilon_lower_without_evidence_is_zero() -> None:
    for counts in (Counts(50, 100, 50, 100), Counts(100, 100, 100, 100), Counts(0, 100, 100, 100)):
        assert epsilon_lower(counts, DELTA, ERROR).epsilon_lower == 0
        assert mu_lower(counts, ERROR).mu_lower == 0
    assert epsilon_lower(Counts(0, 100, 0, 100), 0.999, ERROR).epsilon_lower == 0


@pytest.mark.parametrize(
    "counts", [Counts(0, 100, 0, 100), Counts(20, 100, 30, 100), Counts(0, 10**9, 0, 10**9)]
)
def test_mu_lower_against_forty_digits(counts: Counts) -> None:
    bound = mu_lower(counts, ERROR)
    with mpmath.workdps(40):
        rates = bound.false_positive_rate_upper, bound.false_negative_rate_upper
        true = sum(mpmath.sqrt(2) * mpmath.erfinv(1 - 2 * mpmath.mpf(rate)) for rate in rates)
        assert bound.mu_lower <= true
        assert true - bound.mu_lower < 1e-11


@pytest.mark.parametrize("delta", [-1e-9, 1.0, math.nan, math.inf])
def test_delta_is_refused(delta: float) -> None:
    counts = Counts(1, 10, 1, 10)
    scores = training([1.0], [0.0])
    for call in (
        lambda: epsilon_lower(counts, delta, ERROR),
        lambda: epsilon_of_gaussian(1.0, delta),
        lambda: choose_threshold(scores, delta, 10, ERROR),
        lambda: strongest_epsilon(10, delta, ERROR),
    ):
        with pytest.raises(InvalidParameter):
            call()


def test_strongest_bounds_are_reached_and_never_passed() -> None:
    assert strongest_epsilon(1_000, DELTA, ERROR) == pytest.approx(
        math.log((1 - DELTA - (1 - 0.025 ** (1 / 1_000))) / (1 - 0.025 ** (1 / 1_000))), abs=1e-9
    )
    for positives, negatives in itertools.product((0, 1, 400), repeat=2):
        counts = Counts(positives, 1_000, negatives, 1_000)
        bound = epsilon_lower(counts, DELTA, ERROR).epsilon_lower
        assert bound <= strongest_epsilon(1_000, DELTA, ERROR)
        assert mu_lower(counts, ERROR).mu_lower <= strongest_mu(1_000, ERROR)


# The Gaussian profile.


def gaussian_delta(mu: float, epsilon: float) -> Any:
    """The Gaussian privacy profile in 50 digits, by mpmath, at the decimals the floats print."""
    ratio, value = mpmath.mpf(str(mu)), mpmath.mpf(epsilon)
    lower, upper = value / ratio - ratio / 2, value / ratio + ratio / 2
    return mpmath.ncdf(-lower) - mpmath.exp(value) * mpmath.ncdf(-upper)


@pytest.mark.first_case("mu")
@pytest.mark.parametrize("mu", [0.01, 0.102062, 0.2, 0.57735, 0.912871, 1.581139, 5.0, 40.0])
@pytest.mark.parametrize("delta", [0.3, 1e-3, 1e-5, 1e-10, 1e-30])
def test_epsilon_of_gaussian_is_the_last_float_below(mu: float, delta: float) -> None:
    epsilon = epsilon_of_gaussian(mu, delta)
    with mpmath.workdps(50 + 800):  # the difference loses digits as epsilon grows
        if epsilon == 0:
            assert gaussian_delta(mu, 0.0) < mpmath.mpf(str(delta))
            return
        assert gaussian_delta(mu, epsilon) >= mpmath.mpf(str(delta))
        assert gaussian_delta(mu, math.nextafter(epsilon, math.inf)) < mpmath.mpf(str(delta))


@pytest.mark.parametrize(
    ("mu", "epsilon"),
    [(0.102062, 0.34833), (0.2, 0.72552), (MU, 2.34143), (0.912871, 3.94002), (1.581139, 7.51128)],
)
def test_epsilon_of_gaussian_in_the_published_table(mu: float, epsilon: float) -> None:
    assert epsilon_of_gaussian(mu, DELTA) == pytest.approx(epsilon, abs=6e-6)


def test_epsilon_of_gaussian_at_the_ends() -> None:
    assert epsilon_of_gaussian(0.0, DELTA) == 0
    assert epsilon_of_gaussian(1e-9, DELTA) == 0
    assert epsilon_of_gaussian(1e6, DELTA) == pytest.approx(5e11, rel=1e-4)
    for mu in (-1.0, math.nan, math.inf, 1e7):
        with pytest.raises(InvalidParameter):
            epsilon_of_gaussian(mu, DELTA)
    with pytest.raises(InvalidParameter, match="delta = 0"):
        epsilon_of_gaussian(1.0, 0.0)


# Thresholds.


def gaussian(rng: np.random.Generator, mu: float, size: int) -> tuple[Any, Any]:
    """Log-likelihood ratios of a Gaussian pair: N(+-mu^2/2, mu^2)."""
    return rng.normal(mu**2 / 2, mu, size), rng.normal(-(mu**2) / 2, mu, size)


def test_threshold_of_randomised_response_separates_its_two_scores() -> None:
    rng = np.random.default_rng(1)
    honest = rng.random((2, 400)) < 1 / (1 + math.exp(-1))
    scores = np.where(honest, 1.0, -1.0) * np.array([[1.0], [-1.0]])
    assert choose_threshold(training(*scores), 0.0, 400, ERROR) == 0


def test_rounding_inside_an_atom_is_no_signal() -> None:
    """|x - 1| - |x| is 1 up to rounding on half the line, rounded differently under D0 and D1."""
    rng = np.random.default_rng(2)
    scores = [abs(x - 1) - abs(x) for x in (rng.laplace(0, 1, 5_000), rng.laplace(1, 1, 5_000))]
    assert len(np.unique(scores[0][scores[0] > 0.999999])) > 4
    threshold = choose_threshold(training(*scores), DELTA, 5_000, ERROR)
    assert abs(threshold) < 0.999999


def test_threshold_with_infinite_and_equal_scores() -> None:
    infinite = training([math.inf, 5.0, 5.0], [-math.inf, -math.inf, 5.0])
    assert choose_threshold(infinite, DELTA, 100, ERROR) in (-math.inf, 5.0)
    assert choose_threshold(training([2.0, 2.0], [2.0]), DELTA, 100, ERROR) == 2.0


def test_threshold_learns_nothing_from_an_empty_tail() -> None:
    """One lucky training trial with no false positive above it does not set the threshold."""
    rng = np.random.default_rng(3)
    null, alternative = rng.normal(0, 1, 200), rng.normal(0.5, 1, 200)
    alternative[0] = 10.0
    threshold = choose_threshold(TrainingScores(alternative, null), DELTA, 100_000, ERROR)
    assert np.count_nonzero(alternative > threshold) > 1


def test_trained_threshold_has_power() -> None:
    """Raw bound of mu = .57735 at 20,000 trials: at least 1.0 (best fixed threshold 1.24)."""
    rng = np.random.default_rng(4)
    bounds = []
    for _ in range(15):
        threshold = choose_threshold(training(*gaussian(rng, MU, 20_000)), DELTA, 20_000, ERROR)
        counts = count_errors(held_out(*gaussian(rng, MU, 20_000)), threshold)
        bounds.append(epsilon_lower(counts, DELTA, ERROR).epsilon_lower)
    assert np.median(bounds) > 1.0
    assert max(bounds) < EPSILON


def test_thinned_candidates_keep_the_tails() -> None:
    """200,000 scores: the bound stays within 10% of the best fixed threshold's 5.56."""
    rng = np.random.default_rng(5)
    trained = training(*gaussian(rng, 2.0, 100_000))
    threshold = choose_threshold(trained, DELTA, 100_000, ERROR)
    counts = count_errors(held_out(*gaussian(rng, 2.0, 100_000)), threshold)
    assert epsilon_lower(counts, DELTA, ERROR).epsilon_lower > 5.0


def test_threshold_refuses() -> None:
    for trials in (0, -1, 2.5):
        with pytest.raises(InvalidParameter):
            choose_threshold(training([1.0], [0.0]), DELTA, trials, ERROR)  # type: ignore[arg-type]


def test_roc_boxes_split_the_error() -> None:
    rng = np.random.default_rng(6)
    scores = held_out(*gaussian(rng, 1.0, 500))
    points = roc_points(scores, [-0.5, 0.0, 0.5], 0.03)
    assert [point.threshold for point in points] == [-0.5, 0.0, 0.5]
    for point in points:
        counts = count_errors(scores, point.threshold)
        assert point.false_positive_rate == counts.false_positives / 500
        assert point.false_negative_rate == counts.false_negatives / 500
        upper = proportion_upper(counts.false_positives, 500, 0.005)
        assert point.false_positive_rate_upper == pytest.approx(upper, rel=1e-12)
        assert point.false_negative_rate_upper > point.false_negative_rate


def test_roc_refuses() -> None:
    scores = held_out([1.0], [0.0])
    for thresholds in ([], [0.0, math.nan]):
        with pytest.raises(InvalidParameter):
            roc_points(scores, thresholds, ERROR)


# Validity and power, quickly; tests/quality has the long version.


@pytest.mark.quality
@pytest.mark.first_case
@pytest.mark.parametrize("mu", [0.0, 0.5, 2.0])
def test_bounds_hold_on_a_gaussian(mu: float) -> None:
    """400 runs: at most 35 bounds above the truth (nominal 20; chance 6e-4 if exactly 5%)."""
    rng = np.random.default_rng(7)
    x, y = rng.normal(mu, 1, (2, 400, 200)), rng.normal(0, 1, (2, 400, 200))
    truth, raw, lens = epsilon_of_gaussian(mu, DELTA), 0, 0
    for run in range(400):
        threshold = choose_threshold(training(x[0, run], y[0, run]), DELTA, 200, ERROR)
        counts = count_errors(held_out(x[1, run], y[1, run]), threshold)
        raw += epsilon_lower(counts, DELTA, ERROR).epsilon_lower > truth
        lens += mu_lower(counts, ERROR).mu_lower > mu
    assert raw <= 35
    assert lens <= 35


@pytest.mark.quality
def test_lens_on_the_tight_audit() -> None:
    """mu = .57735, 20,000 trials a side, threshold 0, 200 seeds: close to the truth, below it.

    By the binomial law of the counts the median is 2.181, the bound is under 1.990 in 0.04% and
    above 2.34143 in 0.27% of runs: this test fails by chance with probability below 1e-6.
    """
    bounds = []
    for seed in range(200):
        scores = held_out(*gaussian(np.random.default_rng(seed), MU, 20_000))
        lens = mu_lower(count_errors(scores, 0.0), ERROR)
        bounds.append(epsilon_of_gaussian(lens.mu_lower, DELTA))
    assert np.median(bounds) == pytest.approx(2.18, abs=0.03)
    assert np.mean(np.array(bounds) >= 1.990) >= 0.95  # 85% of the truth
    assert np.mean(np.array(bounds) > EPSILON) <= 0.05


def test_lens_is_no_bound_outside_the_gaussian_family() -> None:
    """Laplace(1), true epsilon 1: the lens reads above 1.5, as its docstring warns."""
    rng = np.random.default_rng(8)
    x = rng.laplace(0, 1, 20_000), rng.laplace(1, 1, 20_000)
    scores = held_out(*(np.clip(1 - 2 * values, -1, 1) for values in x))
    counts = count_errors(scores, 0.0)
    assert epsilon_of_gaussian(mu_lower(counts, ERROR).mu_lower, DELTA) > 1.5
    assert epsilon_lower(counts, DELTA, ERROR).epsilon_lower < 1


def test_the_threshold_is_where_either_direction_is_strongest() -> None:
    """Three in ten of the null scores lie below all others: (1 - P0(above)) / P1(below) decides."""
    null = np.repeat([-5.0, 0.0, 3.0], [300, 650, 50])
    alternative = np.repeat([0.0, 3.0], [500, 500])
    assert choose_threshold(TrainingScores(null=null, alternative=alternative), 0.0, 1000, 0.05) < 0
    mirrored = TrainingScores(null=-alternative, alternative=-null)
    assert choose_threshold(mirrored, 0.0, 1000, 0.05) > 0


# --- both kinds of errors together ---------------------------------------------------------------


@pytest.mark.parametrize("mu", [0.0, 0.4, 1.5])
@pytest.mark.parametrize("error", [0.05, 0.2])
def test_pooled_errors_bound_mu_whatever_the_rates_are(mu: float, error: float) -> None:
    """Exactly: of all rates that mu-GDP allows, none shows more than mu oftener than ``error``."""
    trials = 40
    bounds = [
        mu_lower(Counts(min(s, trials), trials, max(s - trials, 0), trials), error, pooled=True)
        for s in range(2 * trials + 1)
    ]
    shows = np.array([bound.mu_lower > mu for bound in bounds])
    assert shows.any()
    assert not shows[trials:].any()
    for positive in np.linspace(0, 1, 81):
        negative = float(ndtr(ndtri(1 - positive) - mu))
        laws = [binom.pmf(np.arange(trials + 1), trials, rate) for rate in (positive, negative)]
        assert float(np.convolve(*laws)[shows].sum()) <= error + 1e-12


def test_pooled_errors_show_more_where_both_rates_are_alike() -> None:
    """The figures of the issue: 7,700 of 20,000 errors a side, at an error of 1e-4."""
    alike, apart = Counts(7_700, 20_000, 7_700, 20_000), Counts(10, 20_000, 15_000, 20_000)
    assert mu_lower(alike, 1e-4).mu_lower == pytest.approx(0.514, abs=1e-3)
    assert mu_lower(alike, 1e-4, pooled=True).mu_lower == pytest.approx(0.537, abs=1e-3)
    assert mu_lower(apart, 1e-4, pooled=True).mu_lower < mu_lower(apart, 1e-4).mu_lower


def test_which_estimator_is_settled_on_training_trials() -> None:
    draw = np.random.default_rng(5)
    near = TrainingScores(draw.normal(0.3, 1, 2_000), draw.normal(-0.3, 1, 2_000))
    assert pools(near, 0.0, 10_000, 1e-4)
    assert not pools(near, 3.0, 10_000, 1e-4)
    with pytest.raises(InvalidParameter, match="expected as many trials"):
        pooled_upper(Counts(1, 10, 1, 20), 0.05)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.5, 0.0), (1.0, 0.05)])
def test_pooled_errors_bound_epsilon_whatever_the_rates_are(epsilon: float, delta: float) -> None:
    """Exactly: at every pair of rates on the edge of what the claim allows, in 40 trials a side."""
    trials, error = 40, 0.1
    bounds = [
        epsilon_lower(
            Counts(min(s, trials), trials, max(s - trials, 0), trials), delta, error, pooled=True
        )
        for s in range(2 * trials + 1)
    ]
    shows = np.array([bound.epsilon_lower > epsilon for bound in bounds])
    assert shows.any()
    for positive in np.linspace(0, 1, 81):
        likely = 1 - delta - math.exp(epsilon) * positive
        negative = max(0.0, likely, math.exp(-epsilon) * (1 - delta - positive))
        laws = [binom.pmf(np.arange(trials + 1), trials, rate) for rate in (positive, negative)]
        assert float(np.convolve(*laws)[shows].sum()) <= error + 1e-12


def test_a_test_is_chosen_with_its_estimator() -> None:
    """Of random answers pooled errors promise more; of normal tails each rate by itself."""
    draw = np.random.default_rng(7)
    answers = [np.where(draw.random(2_000) < rate, 1.0, -1.0) for rate in (0.73, 0.27)]
    threshold, pooled = choose_test(TrainingScores(*answers), 1e-5, 2_000, 0.05)
    assert pooled
    assert -1 <= threshold < 1
    tails = TrainingScores(draw.normal(0.3, 1, 2_000), draw.normal(-0.3, 1, 2_000))
    assert choose_test(tails, 1e-5, 2_000, 0.05)[1] is False
    uneven = TrainingScores(answers[0], answers[1][:500])
    assert choose_test(uneven, 1e-5, 2_000, 0.05)[1] is False
    counts = Counts(540, 2_000, 540, 2_000)
    split, together = (epsilon_lower(counts, 1e-5, 1e-4, pooled=p) for p in (False, True))
    assert 0.75 < split.epsilon_lower < together.epsilon_lower - 0.05 < 1
