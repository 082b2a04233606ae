"""Selection of a nearly stationary iterate: the exponential mechanism, and the free way."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from audits.broken.kl_bench import CHOOSER_BENCH
from dpaudit.errors import InvalidParameter
from dpaudit.nodes import ExponentialMechanism
from dpaudit.noise import ExponentialMechanismKernel
from dpaudit.query import Records
from dpaudit.scope import central
from mechanisms.kl import adaptive_catalogue
from mechanisms.kl.select import (
    StationarityScores,
    noisy_argmin,
    noisy_argmin_error,
    selection_epsilon,
)
from tests.claims_for_tests import value

REPLACE_ONE = central("replace_one")


def test_the_exponential_mechanism_draws_as_declared() -> None:
    """Frequencies of 40,000 draws within five standard errors of softmax(values / scale)."""
    leaf = ExponentialMechanism("select", 2)
    kernel = ExponentialMechanismKernel(leaf, 40_000)
    values = np.tile([0.0, 1.0, -math.inf, 0.5], (40_000, 1))
    scale = np.full(40_000, 0.7)
    drawn = kernel.sample(values, scale, np.random.default_rng(0))
    assert (drawn.sum(axis=1) == 1).all()
    weights = np.exp(values[0] / 0.7)
    expected = weights / weights.sum()
    spread = np.sqrt(expected * (1 - expected) / 40_000)
    assert (np.abs(drawn.mean(axis=0) - expected) <= 5 * spread).all()
    logs = kernel.log_density(drawn, values, scale)
    assert np.exp(logs) == pytest.approx(expected[drawn.argmax(axis=1)])
    assert ExponentialMechanismKernel.multiplier(leaf) == 1.0


def test_without_sensitivity_the_best_is_chosen_with_certainty() -> None:
    kernel = ExponentialMechanismKernel(ExponentialMechanism("select", 1), 1)
    values, scale = np.array([[1.0, 3.0, 2.0]]), np.zeros(1)
    drawn = kernel.sample(values, scale, np.random.default_rng(0))
    assert drawn.tolist() == [[0.0, 1.0, 0.0]]
    assert kernel.log_density(drawn, values, scale).tolist() == [0.0]
    assert kernel.log_density(np.eye(3)[:1], values, scale).tolist() == [-math.inf]
    assert kernel.apart(values, values + np.array([0.5, -0.25, 0.0]), scale).tolist() == [0.5]


def test_scores_of_missing_candidates_are_never_chosen() -> None:
    points = [np.array([[0.0], [1.0]]), np.array([[math.nan], [2.0]])]
    scores = StationarityScores(CHOOSER_BENCH.problem, points)
    found = scores.value(Records(np.zeros((50, 1))))
    assert found[0, 1] == -math.inf
    assert [found[0, 0], *found[1]] == pytest.approx([-0.5] * 3)
    assert scores.sensitivity(REPLACE_ONE.adjacency, 50) == pytest.approx(2 / 50)


def test_the_selection_costs_half_of_rho_by_bounded_range() -> None:
    node = ExponentialMechanism("select", selection_epsilon(Fraction(1, 4), 2))
    assert value(node, "pure") == 1
    assert float(value(node, "zcdp")) <= 1 / 8


def test_noisy_argmin_takes_raw_norms() -> None:
    """Cut at 0 the first two would tie; a missing candidate is never taken."""
    points = [np.full((2, 1), float(k)) for k in range(3)]
    points[2][1] = math.nan
    norms = [np.array([-1.0, 0.5]), np.array([-2.0, 0.25]), np.array([3.0, -9.0])]
    assert noisy_argmin(points, norms).tolist() == [[1.0], [1.0]]
    with pytest.raises(InvalidParameter, match="no released point"):
        noisy_argmin([np.array([[math.nan]])], [np.zeros(1)])
    with pytest.raises(InvalidParameter, match="no released point"):
        noisy_argmin([], [])
    assert noisy_argmin_error(adaptive_catalogue.CORRECTED) > 0
