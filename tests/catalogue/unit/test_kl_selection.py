"""Selection of a nearly stationary iterate: the exponential mechanism, and the free way."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from audits.broken.kl_bench import CHOOSER_BENCH
from dpaudit.errors import InvalidParameter
from dpaudit.families.selection import ExponentialMechanism
from dpaudit.families.selection.kernel import ExponentialMechanismKernel
from dpaudit.kernels.query import Records
from dpaudit.scope import central
from mechanisms.papers.kl import adaptive_catalogue
from mechanisms.papers.kl.select import (
    StationarityScores,
    noisy_argmin,
    noisy_argmin_error,
    selection_epsilon,
)
from tests.support.claims import number, value

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


@pytest.mark.parametrize(("rho", "worst"), [(0.05, 0.0249), (1.0, 0.474), (4.0, 1.67)])
def test_bounded_range_is_nearly_reached_by_brute_force(rho: float, worst: float) -> None:
    """D_alpha / alpha of two groups of candidates whose scores move apart: what is accounted.

    Every share of the weight in the first group, on a grid, and orders from 1 to 10.
    """
    moved = math.exp(2 * math.sqrt(rho))
    share = np.linspace(0.001, 0.999, 999)[:, None]
    raised = share * moved / (1 - share + share * moved)
    order = np.array([1.0001, 1.01, 1.1, 1.5, 2.0, 3.0, 5.0, 10.0])
    found = [
        np.log(a**order * b ** (1 - order) + (1 - a) ** order * (1 - b) ** (1 - order))
        / (order - 1)
        / order
        for a, b in ((raised, share), (share, raised))
    ]
    assert np.max(found) == pytest.approx(worst, rel=5e-3)
    node = ExponentialMechanism("select", selection_epsilon(Fraction(str(rho)), 2))
    accounted = number(value(node, "zcdp"))
    assert accounted * (1 - 1e-4) <= np.max(found) <= accounted <= rho / 2


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
