"""Kernels of threshold tests, random inliers and tested releases: laws, densities, refusals."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import laplace, norm

from dpaudit.curator.curator import Sampler
from dpaudit.curator.uses import label_of, runs
from dpaudit.errors import InvalidParameter, Undeclared, Unsupported
from dpaudit.families.additive import Gaussian, Laplace
from dpaudit.families.composition import Compose, Parallel
from dpaudit.families.events import ProposeTestRelease
from dpaudit.families.selection import AboveThreshold
from dpaudit.families.selection.random_query_kernel import RandomQueryKernel, query_law
from dpaudit.families.selection.threshold_kernel import AboveThresholdKernel
from dpaudit.families.stability import CoupledGaussian
from dpaudit.families.stability.coupled_kernel import (
    CoupledGaussianKernel,
    ProposeTestReleaseKernel,
    packed,
    unpacked,
)
from dpaudit.kernels.query import Array, ClippedMean, Records
from dpaudit.scope import Adjacency
from mechanisms.papers.user_level.problem import USERS

LEAF = AboveThreshold("bit", Fraction(1, 2), Fraction(1, 2))


def exact_answers(answers: tuple[int, ...], queries: tuple[float, ...]) -> float:
    """P(these answers) of Laplace(2) on the threshold, Laplace(4) on queries, by quadrature."""

    def integrand(xi: float) -> float:
        found = laplace.pdf(xi, scale=2.0)
        for said, query in zip(answers, queries, strict=True):
            no = laplace.cdf(xi - query, scale=4.0)
            found *= 1 - no if said else no
        return float(found)

    pieces = [-80.0, -2.0, *sorted(queries), 0.0, 3.0, 80.0]
    return sum(quad(integrand, a, b, limit=200)[0] for a, b in itertools.pairwise(sorted(pieces)))


def replayed(answers: tuple[int, ...], queries: tuple[float, ...], trials: int = 1) -> float:
    session, scale, total = AboveThresholdKernel(LEAF, trials), np.full(trials, 4.0), 0.0
    for said, query in zip(answers, queries, strict=True):
        released, values = np.full((trials, 1), float(said)), np.full((trials, 1), query)
        total += float(session.log_density(released, values, scale)[0])
    return math.exp(total)


@pytest.mark.first_case
@pytest.mark.parametrize("queries", [(0.0, 1.0, -3.0), (5.0, 5.0, 5.0), (-20.0, 2.0, 0.5)])
def test_answers_have_the_density_of_one_secret_threshold(queries: tuple[float, ...]) -> None:
    total = 0.0
    for answers in ((1,), (0, 1), (0, 0, 1), (0, 0, 0)):
        asked = queries[: len(answers)]
        found = replayed(answers, asked)
        assert found == pytest.approx(exact_answers(answers, asked), rel=1e-7)
        total += found
    assert total == pytest.approx(1.0, abs=1e-12)


def test_trials_with_different_pasts_have_their_own_weights() -> None:
    session, scale = AboveThresholdKernel(LEAF, 2), np.full(2, 4.0)
    values = [np.array([[0.0], [3.0]]), np.array([[1.0], [-2.0]])]
    total: Any = sum(session.log_density(np.zeros((2, 1)), value, scale) for value in values)
    assert np.exp(total[0]) == pytest.approx(replayed((0, 0), (0.0, 1.0)), rel=1e-9)
    assert np.exp(total[1]) == pytest.approx(replayed((0, 0), (3.0, -2.0)), rel=1e-9)


def test_draws_have_the_law() -> None:
    """P(three noes), 20,000 draws: false alarm below 1e-6."""
    trials, queries = 20_000, (0.0, 1.0, -1.0)
    session, rng = AboveThresholdKernel(LEAF, trials), np.random.default_rng(7)
    values = [np.full((trials, 1), q) for q in queries]
    drawn = [session.sample(value, np.full(trials, 4.0), rng) for value in values]
    share = float((np.hstack(drawn) == 0).all(axis=1).mean())
    expected = exact_answers((0, 0, 0), queries)
    assert abs(share - expected) < 5 * math.sqrt(expected * (1 - expected) / trials)
    # After a yes nothing more is said.
    assert ((np.diff(np.hstack(drawn), axis=1)) >= 0).all()


def test_two_answers_are_two() -> None:
    session = AboveThresholdKernel(AboveThreshold("bit", 1, 1, answers=2), 1)
    scale, values = np.array([4.0]), np.array([[1e6]])
    rng = np.random.default_rng(0)
    found = [session.sample(v, scale, rng)[0, 0] for v in (values, -values, values, -values)]
    assert found == [1.0, 0.0, 1.0, 1.0]


def test_an_impossible_answer_has_no_density() -> None:
    session, scale = AboveThresholdKernel(LEAF, 2), np.full(2, 4.0)
    said, values = np.array([[0.5], [1.0]]), np.zeros((2, 1))
    assert session.log_density(said, values, scale)[0] == -np.inf
    assert session.log_density(np.zeros((2, 1)), values, scale)[1] == -np.inf
    assert np.isnan(session.residual(np.ones((2, 1)), values, scale)[1])


@pytest.mark.parametrize(
    ("scale", "dimension", "words"),
    [(4.0, 2, "one number"), (0.0, 1, "sensitivity 0")],
)
def test_threshold_kernels_refuse(scale: float, dimension: int, words: str) -> None:
    with pytest.raises(InvalidParameter, match=words):
        AboveThresholdKernel(LEAF, 1).admit(np.array([scale]), dimension)


def test_queries_share_one_sensitivity() -> None:
    session = AboveThresholdKernel(LEAF, 1)
    session.sample(np.zeros((1, 1)), np.array([4.0]), np.random.default_rng(0))
    with pytest.raises(InvalidParameter, match="one sensitivity"):
        session.admit(np.array([5.0]), 1)


# --- queries that are random ----------------------------------------------------------------------


def test_a_random_query_has_the_density_of_its_mixture() -> None:
    """Levels -3 and 2, a fresh one each time: P(no, yes), by the two-fold sum of exact laws."""
    levels, masses = np.array([-3.0, 2.0]), np.array([0.25, 0.75])
    law, scale = np.broadcast_to(query_law(levels, masses), (2, 5)), np.full(2, 4.0)
    session = RandomQueryKernel(LEAF, 2)
    total = session.log_density(np.zeros((2, 1)), law, scale)
    total += session.log_density(np.ones((2, 1)), law, scale)
    expected = sum(
        p * q * exact_answers((0, 1), (a, b))
        for a, p in zip(levels, masses, strict=True)
        for b, q in zip(levels, masses, strict=True)
    )
    assert np.exp(total) == pytest.approx([expected] * 2, rel=1e-7)


def test_random_queries_are_drawn_from_their_laws() -> None:
    """20,000 draws of levels far on either side of any threshold: false alarm below 1e-6."""
    law, trials = query_law(np.array([-1e6, 1e6]), np.array([0.25, 0.75])), 20_000
    values = np.broadcast_to(law, (trials, 5))
    session = RandomQueryKernel(LEAF, trials)
    drawn = session.sample(values, np.full(trials, 4.0), np.random.default_rng(5))
    assert drawn.shape == (trials, 1)
    assert abs(float(drawn.mean()) - 0.75) < 0.016


def test_two_laws_are_as_far_apart_as_their_quantiles() -> None:
    one = query_law(np.array([5.0, 0.0]), np.array([0.5, 0.5]))
    two = query_law(np.array([1.0, 7.0]), np.array([0.4, 0.6]))
    session = RandomQueryKernel(LEAF, 1)
    # Quantiles of orders .4 to .5 are 0 and 7.
    assert session.apart(one, two, np.ones(1))[0] == 7.0
    assert session.apart(one, one, np.ones(1))[0] == 0.0


def test_random_queries_are_refused_where_they_have_no_density() -> None:
    session = RandomQueryKernel(LEAF, 2)
    with pytest.raises(InvalidParameter, match="or its law"):
        session.centre(np.zeros((2, 5)))
    both = np.vstack([query_law(np.arange(2.0), np.array([p, 1 - p])) for p in (0.2, 0.3)])
    with pytest.raises(Unsupported, match="one law"):
        session.centre(both)
    with pytest.raises(Unsupported, match="one answer only"):
        RandomQueryKernel(AboveThreshold("bit", 1, 1, answers=2), 1).admit(np.ones(1), 5)


# --- random inliers -------------------------------------------------------------------------------

COINS = CoupledGaussian("mean", 2, 2, 3, Fraction(1, 2))


def cloud(probabilities: list[float], places: list[float]) -> Array:
    return packed(np.array([probabilities]), np.array(places)[None, :, None])


def test_packing_is_undone() -> None:
    p, x = np.random.default_rng(0).random((2, 5)), np.random.default_rng(1).random((2, 5, 3))
    found = unpacked(packed(p, x))
    assert (found[0] == p).all()
    assert (found[1] == x).all()


def test_sure_coins_have_an_exact_density() -> None:
    session = CoupledGaussianKernel(COINS, 1)
    values = cloud([1, 1, 0], [1.0, 3.0, 99.0])
    found = session.log_density(np.array([[2.5]]), values, np.array([0.7]))
    assert found[0] == pytest.approx(norm.logpdf(2.5, 2.0, 0.7))
    assert not session.averaged


def test_random_coins_are_averaged_and_said_to_be() -> None:
    session = CoupledGaussianKernel(COINS, 1)
    session.draws = 4000  # type: ignore[misc]
    values = cloud([1, 0.5, 0], [0.0, 2.0, 9.0])
    found = np.exp(session.log_density(np.array([[0.3]]), values, np.array([1.0])))
    expected = (norm.pdf(0.3, 0.0) + norm.pdf(0.3, 1.0)) / 2
    assert found[0] == pytest.approx(expected, rel=0.05)
    assert session.averaged
    assert np.isnan(session.residual(np.array([[0.3]]), values, np.array([1.0]))).all()


def test_random_inliers_are_drawn_with_their_probabilities() -> None:
    """The mean of a coin of 1/4, 40,000 draws without noise: false alarm below 1e-6."""
    values = np.repeat(cloud([1, 0.25], [0.0, 2.0]), 40_000, axis=0)
    session = CoupledGaussianKernel(COINS, 40_000)
    drawn = session.sample(values, np.zeros(40_000), np.random.default_rng(3))
    assert set(np.unique(drawn)) == {0.0, 1.0}
    assert abs(drawn.mean() - 0.25) < 0.011


def test_nobody_chosen_gives_zero() -> None:
    values = cloud([0, 0], [5.0, 7.0])
    session = CoupledGaussianKernel(COINS, 1)
    assert session.centre(values)[0, 0] == 0.0


@pytest.mark.parametrize(
    ("one", "two", "within"),
    [
        (cloud([1, 1, 1], [0, 0, 0]), cloud([1, 1, 1], [6, 0, 0]), True),
        (cloud([1, 1, 1], [0, 0, 0]), cloud([1, 1, 1], [6.1, 0, 0]), False),
        (cloud([1, 1, 1], [0, 0, 0]), cloud([1, 1, 1], [0.1, 0.1, 0]), False),
        (cloud([1, 1, 1], [0, 0, 0]), cloud([1, 0.4, 1], [0, 0, 0]), False),
        (cloud([1, 1, 1], [0, 0, 0]), cloud([1, 0.6, 1], [0, 0, 0]), True),
    ],
)
def test_moves_are_held_against_the_leaf(one: Array, two: Array, within: bool) -> None:
    found = CoupledGaussianKernel(COINS, 1).apart(one, two, np.array([1.0]))
    assert (found[0] <= 1 + 1e-12) == within


# --- tested releases ------------------------------------------------------------------------------

TESTED = ProposeTestRelease(Laplace("t", 2), Gaussian("mean", 3), Fraction(1, 1000))


def test_a_tested_release_has_the_label_of_the_release() -> None:
    (run,) = runs(TESTED)
    assert label_of(run.leaf) == "mean"
    assert run.times == 1
    nested = list(runs(Parallel(TESTED, Compose(TESTED.test, Gaussian("other", 1)))))
    assert [label_of(r.leaf) for r in nested] == ["mean", "t", "other"]


def test_bottom_and_vector_share_one_law() -> None:
    session, scale = ProposeTestReleaseKernel(TESTED, 1), np.array([1.5])
    values = np.array([[-1.0, 4.0]])
    failing = float(session.log_density(np.array([[np.nan]]), values, scale)[0])
    passing = float(session.log_density(np.array([[4.2]]), values, scale)[0])
    assert math.exp(failing) == pytest.approx(laplace.cdf(1.0, scale=2.0))
    assert passing == pytest.approx(laplace.logsf(1.0, scale=2.0) + norm.logpdf(4.2, 4.0, 1.5))


def test_how_often_it_passes() -> None:
    """20,000 draws: false alarm below 1e-6; residuals of them are standard normal."""
    trials = 20_000
    values = np.tile([[0.5, 1.0]], (trials, 1))
    session = ProposeTestReleaseKernel(TESTED, trials)
    drawn = session.sample(values, np.full(trials, 2.0), np.random.default_rng(5))
    expected = 1 - 0.5 * math.exp(-0.25)
    assert abs(float((~np.isnan(drawn)).mean()) - expected) < 0.018
    residual = session.residual(drawn, values, np.full(trials, 2.0))
    assert residual.shape == (trials, 2)
    assert abs(residual.mean()) < 0.026
    assert abs(residual.var() - 1) < 0.037


def test_equal_batches_of_bottom_have_residuals_of_their_own() -> None:
    session = ProposeTestReleaseKernel(TESTED, 3)
    bottom = np.full((3, 1), np.nan), np.full((3, 2), -50.0), np.ones(3)
    found = [session.residual(*bottom) for _ in range(2)]
    assert np.isfinite(found).all()
    assert not np.equal(*found).any()


def test_only_stable_neighbours_bound_the_vector() -> None:
    """Scores of -2 log(500) pass with probability 1/1000: below, nothing is said."""
    session, stated = ProposeTestReleaseKernel(TESTED, 1), np.array([1.0])
    bar = -2 * math.log(500)
    far = [np.array([[bar + shift, 0.0]]) for shift in (0.01, -0.01)]
    other = [np.array([[value[0, 0] - 0.5, 7.0]]) for value in far]
    assert session.apart(far[0], other[0], stated)[0] == pytest.approx(7.0)
    assert session.apart(far[1], other[1], stated)[0] == pytest.approx(0.5)


def test_a_test_must_be_a_laplace_leaf() -> None:
    with pytest.raises(Unsupported, match="Laplace"):
        ProposeTestReleaseKernel(
            ProposeTestRelease(Gaussian("t", 1), Gaussian("a", 1), Fraction(1, 9)), 1
        )


def test_a_value_without_a_vector_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="a score"):
        ProposeTestReleaseKernel(TESTED, 1).admit(np.ones(1), 1)
    with pytest.raises(InvalidParameter, match="packed"):
        CoupledGaussianKernel(COINS, 1).admit(np.ones(1), 2)


def test_a_curator_releases_a_tested_mean_once() -> None:
    def rows(values: Array) -> Any:
        return np.hstack([np.full((len(values), 1), 9.0), values])[None]

    sampler = Sampler(TESTED, USERS, Records(np.ones((4, 1))), rng=np.random.default_rng(0))
    query = ClippedMean(rows, 100.0)
    assert sampler.release("mean", query).shape == (1, 1)
    with pytest.raises(Undeclared, match="spent"):
        sampler.release("mean", query)
    assert USERS.adjacency is Adjacency.REPLACE_ONE
