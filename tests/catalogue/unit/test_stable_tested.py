"""Releases behind a test of their own: a tested median, Laplace noise at a stable subset."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import laplace

from dpaudit.accountant.account import account
from dpaudit.audit.residuals import check_residuals
from dpaudit.errors import InvalidParameter, Unsupported
from dpaudit.families.additive import Gaussian, Laplace
from dpaudit.families.discrete import TruncatedDiscreteLaplace
from dpaudit.families.events import ProposeTestRelease
from dpaudit.families.stability import StableRelease
from dpaudit.families.stability.coupled_kernel import ProposeTestReleaseKernel
from dpaudit.families.stability.kernel import StableReleaseKernel, TruncatedDiscreteLaplaceLaw
from dpaudit.kernels.base import Kernel
from dpaudit.kernels.query import Array, Records
from mechanisms.papers.stable_erm import baselines_catalogue as baselines
from mechanisms.papers.stable_erm import catalogue as stable
from mechanisms.papers.stable_erm.calibration import USERS, Constants, laplace_constants
from mechanisms.papers.stable_erm.proposed import MedianQuery, ProposedMedian
from mechanisms.papers.stable_erm.release import DeletionStableOutputPerturbation
from tests.support.stable import column, run, users

# --- a tested median ------------------------------------------------------------------------------


def moves(values: Array, bound: float) -> float:
    """The most that replacing one user moves the median: the ends are the worst replacements."""
    middle = (len(values) - 1) // 2
    own = np.sort(values)[middle]
    found = [0.0]
    for i, end in itertools.product(range(len(values)), (-bound, bound)):
        other = values.copy()
        other[i] = end
        found.append(abs(float(np.sort(other)[middle] - own)))
    return max(found)


def by_hand(values: Array, unit: float, bound: float) -> int:
    """The least number of replacements after which one more moves the median too far."""
    grid = sorted({-bound, bound, *values.tolist()})
    for k in range(len(values)):
        for who in itertools.combinations(range(len(values)), k):
            for what in itertools.product(grid, repeat=k):
                other = values.copy()
                other[list(who)] = what
                if moves(other, bound) > unit:
                    return k
    return len(values)


def test_the_distance_is_that_to_the_nearest_unstable_data_set() -> None:
    """Against all replacements of up to k users, on a grid that holds the worst ones."""
    generator, seen = np.random.default_rng(0), set()
    for _ in range(12):
        values = np.round(generator.uniform(-1, 1, size=5), 2)
        unit = float(generator.choice([0.2, 0.5, 0.9, 1.2]))
        query = MedianQuery(unit, 1.0, 1.0)
        found = query.distance(np.sort(values))
        assert found == by_hand(values, unit, 1.0)
        seen.add(found)
    assert len(seen) >= 3


def test_one_user_moves_the_distance_by_one_and_a_stable_median_by_a_unit() -> None:
    generator, seen = np.random.default_rng(1), set()
    for _ in range(300):
        values = generator.choice([0.0, 0.1, 0.25, -0.3, 1.0], size=int(generator.integers(3, 12)))
        other = values.copy()
        other[generator.integers(len(values))] = generator.uniform(-1.5, 1.5)
        query = MedianQuery(float(generator.uniform(0.02, 0.6)), 1.0, 1.0)
        one, two = (query.value(Records(column(*v)))[0] for v in (values, other))
        assert abs(one[0] - two[0]) <= 1
        if max(one[0], two[0]) > -1:
            assert abs(one[1] - two[1]) <= query.unit
        seen.add(one[0])
    assert len(seen) >= 4


def test_the_catalogue_s_median_is_released() -> None:
    mechanism = baselines.propose_test_release
    records = mechanism.records()  # type: ignore[misc]
    released = run(mechanism.program, records.values, 400)
    middle = np.median(records.values[..., 0].mean(axis=1))
    assert not np.isnan(released).any()
    # A Laplace scale of .012; false-alarm rate 1e-6.
    assert released.mean() == pytest.approx(middle, abs=4.9 * 0.012 * math.sqrt(2 / 400))
    hostile = MedianQuery(0.1, 1.0, 1.0).value(Records(column(np.nan, np.inf, -np.inf, 1e300, 0)))
    assert np.isfinite(hostile).all()


def test_the_bar_is_passed_by_chance_with_the_stated_probability() -> None:
    program = ProposedMedian(0.1, 1.0, 2, 2, Fraction(1, 1000))
    by_chance = laplace.sf(program.bar, scale=2.0)
    assert by_chance == pytest.approx(1e-3, rel=1e-9)
    assert by_chance <= 1e-3
    assert account(program.declaration(USERS), USERS).epsilon(Fraction(1, 1000)).upper <= 1


# --- Laplace noise at a stable subset -------------------------------------------------------------


@pytest.mark.quality
def test_laplace_constants_meet_their_budget() -> None:
    """(eps_bar + (4 kappa + 1) units / b, p(0)); a smaller kappa leaves too much by chance."""
    for epsilon, delta in ((1, Fraction(1, 10)), (2, Fraction(1, 1000))):
        found = laplace_constants(epsilon, delta)
        node = found.leaf("r")
        assert account(node, USERS).epsilon(delta).upper <= epsilon
        law = TruncatedDiscreteLaplaceLaw(float(found.epsilon_bar), found.kappa)
        assert math.exp(law.log_masses[0]) <= delta
        if found.kappa > 1:
            smaller = TruncatedDiscreteLaplaceLaw(float(found.epsilon_bar), found.kappa - 1)
            assert math.exp(smaller.log_masses[0]) > delta
    with pytest.raises(InvalidParameter, match="needs a kappa above"):
        laplace_constants(Fraction(1, 10**5), Fraction(1, 10**6))


@pytest.mark.quality
def test_the_catalogue_holds_the_laplace_constants() -> None:
    assert laplace_constants(1, Fraction(1, 10**6)) == stable.LAPLACE


def test_laplace_noise_takes_one_number() -> None:
    constants = Constants(2, 1, 3, noise="laplace")
    program = DeletionStableOutputPerturbation(8, 2.0, constants)
    released = run(program, users(8), 20_000)
    assert not np.isnan(released).any()
    mean = users(8).mean(axis=1).mean()
    # Scale 6: a standard deviation of 8.5; false-alarm rate 1e-6 each.
    assert released.mean() == pytest.approx(mean, abs=4.9 * 6 * math.sqrt(2 / 20_000))
    assert np.abs(released - mean).mean() == pytest.approx(6.0, abs=4.9 * 6 / math.sqrt(20_000))
    with pytest.raises(InvalidParameter, match="for one number, not 2"):
        run(program, users(8, features=2), 2)
    with pytest.raises(InvalidParameter, match="expected one of gaussian, laplace"):
        Constants(2, 1, 3, noise="uniform")


# --- the kernel -----------------------------------------------------------------------------------

STEPS = ProposeTestRelease(TruncatedDiscreteLaplace("t", 1, 2), Laplace("r", 3), Fraction(1, 10))


@pytest.mark.parametrize("level", [0, 1, 2, 4, 5])
def test_scores_pass_as_they_do_against_a_secret_threshold(level: int) -> None:
    """kappa - s + noise >= 0 where R >= s; densities of bottom and of numbers sum to 1."""
    session, law = ProposeTestReleaseKernel(STEPS, 1), TruncatedDiscreteLaplaceLaw(1.0, 2)
    value, scale = np.array([[2.0 - level, 7.0]]), np.array([3.0])
    bottom = math.exp(session.log_density(np.array([[np.nan]]), value, scale)[0])
    assert bottom == pytest.approx(math.exp(law.log_bottoms[level]))

    def passing(x: float) -> float:
        return math.exp(session.log_density(np.array([[x]]), value, scale)[0])

    assert quad(passing, -93, 107, points=[7.0])[0] + bottom == pytest.approx(1, abs=1e-7)
    many = ProposeTestReleaseKernel(STEPS, 20_000)
    drawn = many.sample(np.repeat(value, 20_000, 0), np.full(20_000, 3.0), np.random.default_rng(1))
    # False-alarm rate 1e-6.
    allowed = 4.9 * math.sqrt(max(bottom * (1 - bottom), 1e-12) / 20_000)
    assert np.isnan(drawn).mean() == pytest.approx(bottom, abs=allowed)


def test_other_tests_are_refused() -> None:
    for test in (Gaussian("t", 1), TruncatedDiscreteLaplace("t", 1, 4, 2)):
        with pytest.raises(Unsupported, match="a run needs"):
            ProposeTestReleaseKernel(ProposeTestRelease(test, Gaussian("r", 1), Fraction(1, 9)), 1)


def test_neighbours_of_which_neither_is_stable_may_be_far_apart() -> None:
    """Scores 2 kappa and 2 kappa + 1: the first passes with p(0), the false pass; else one unit."""
    leaf = Constants(1, 2, 3, noise="laplace").leaf("r")
    session, unit = ProposeTestReleaseKernel(leaf, 1), np.array([1.0])
    last, never, passing = (np.array([[2.0 - s, v]]) for s, v in ((4, 0.0), (5, 9.0), (3, 9.0)))
    assert session.apart(last, never, unit)[0] == 1.0
    assert session.apart(last, passing, unit)[0] == 9.0


# --- residuals of releases with a bottom outcome --------------------------------------------------


def session_of_a_score(trials: int) -> Kernel:
    return StableReleaseKernel(StableRelease("r", 1, 2, 3), trials)


def session_of_a_test(trials: int) -> Kernel:
    return ProposeTestReleaseKernel(
        ProposeTestRelease(Laplace("t", 1), Gaussian("r", 3), Fraction(1, 10)), trials
    )


# A session, and the scores at which bottom never, likely, almost always comes.
KINDS: list[tuple[Any, float, float, float]] = [
    (session_of_a_score, 0.0, 4.0, 5.0),
    (session_of_a_test, 50.0, -2.0, -50.0),
]


def residuals(session: Any, score: float, trials: int, seed: int) -> Array:
    value, scale = np.tile([score, 5.0], (trials, 1)), np.full(trials, 3.0)
    kernel = session(trials)
    released = kernel.sample(value, scale, np.random.default_rng(seed))
    return np.asarray(kernel.residual(released, value, scale))


@pytest.mark.parametrize(("session", "never", "likely", "always"), KINDS)
def test_an_impossible_bottom_is_seen(session: Any, never: float, likely: Any, always: Any) -> None:
    value = np.tile([never, 5.0], (20, 1))
    found = session(20).residual(np.full((20, 1), np.nan), value, np.full(20, 3.0))
    assert found[:, 0].max() < -6
    checks = check_residuals({"r": found[:, None]}, 1e-6)
    assert any(f.status == "broken" for f in checks)


@pytest.mark.parametrize(("session", "never", "likely", "always"), KINDS)
def test_batches_of_nothing_but_bottom_are_normal_too(
    session: Any, never: float, likely: float, always: float
) -> None:
    """Equal batches share no number; false-alarm rate 1e-6 each."""
    for score, trials in ((always, 50), (likely, 4)):
        found = np.concatenate([residuals(session, score, trials, k) for k in range(30)])
        assert np.isfinite(found).all()
        checks = check_residuals({"r": found[:, None]}, 1e-6)
        assert [f for f in checks if f.status == "broken"] == []


@pytest.mark.parametrize(("session", "never", "likely", "always"), KINDS)
def test_small_batches_together_are_normal(
    session: Any, never: float, likely: float, always: float
) -> None:
    """60 batches of 400 trials, most of them bottoms; false-alarm rate 1e-6."""
    found = np.concatenate([residuals(session, likely, 400, seed) for seed in range(60)])
    assert np.isfinite(found).all()
    checks = check_residuals({"r": found[:, None]}, 1e-6)
    assert [f for f in checks if f.status == "broken"] == []


def test_a_row_of_unknown_noise_is_unknown_throughout() -> None:
    """A mean over random inliers: its noise is not known, passed or not."""
    from dpaudit.families.stability import CoupledGaussian
    from dpaudit.families.stability.coupled_kernel import packed

    leaf = ProposeTestRelease(Laplace("t", 1), CoupledGaussian("m", 2, 2, 3, 1), Fraction(1, 10))
    sure, unsure = (packed(np.full((1, 2), p), np.ones((1, 2, 1))) for p in (1.0, 0.5))
    values = np.hstack([np.zeros((100, 1)), np.repeat(np.vstack([sure, unsure]), 50, axis=0)])
    session = ProposeTestReleaseKernel(leaf, 100)
    drawn = session.sample(values, np.ones(100), np.random.default_rng(0))
    found = session.residual(drawn, values, np.ones(100))
    assert np.isfinite(found[:50]).all()
    assert np.isnan(found[50:]).all()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: MedianQuery(0.0, 1.0, 1.0), "unit = 0.0"),
        (lambda: MedianQuery(1.0, math.inf, 1.0), "bound = inf"),
        (lambda: ProposedMedian(1.0, 1.0, 0, 1, Fraction(1, 9)), "test_multiplier"),
        (lambda: ProposedMedian(1.0, 1.0, 1, math.nan, Fraction(1, 9)), "noise_multiplier"),
        (lambda: ProposedMedian(1.0, 1.0, 1, 1, Fraction(1, 2)), "below 1/2"),
        (
            lambda: MedianQuery(1.0, 1.0, 1.0).sensitivity(USERS.under("zero_out").adjacency, 3),
            "expected replace_one",
        ),
        (
            lambda: MedianQuery(1.0, 1.0, 1.0).value(Records(column(1)), np.ones((1, 1), bool)),
            "no secret batch",
        ),
    ],
)
def test_refusals(make: Any, message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        make()
