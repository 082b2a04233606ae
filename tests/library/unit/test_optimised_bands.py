"""Banded strategies found by descent: their error, the least of any, and their certificates."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import sympy

import dpaudit as dp
from dpaudit.check.theorem import bound
from dpaudit.errors import InvalidParameter
from dpaudit.exact import enclose
from dpaudit.families.banded import CyclicPoisson
from dpaudit.families.correlated import CorrelatedGaussian, Factorisation, Participation
from dpaudit.families.correlated.optimised import (
    _loss,
    least_error,
    optimised_bands,
    optimised_buffers,
)
from dpaudit.families.correlated.strategies import prefix_squares, strategy_matrix


def error_of(matrix: np.ndarray) -> float:
    """By matrices: |A C^-1|_F times the largest column of C, over sqrt(T)."""
    size = len(matrix)
    left = np.linalg.solve(matrix.T, np.tril(np.ones((size, size))).T).T
    return float(np.linalg.norm(left) * np.linalg.norm(matrix, axis=0).max() / np.sqrt(size))


@pytest.mark.parametrize(("rounds", "bands"), [(1, 1), (10, 1), (10, 10), (64, 4), (128, 32)])
def test_the_error_is_that_of_the_matrices_and_above_the_least(rounds: int, bands: int) -> None:
    found = optimised_bands(rounds, bands)
    matrix = strategy_matrix(found.strategy, rounds)
    assert found.error == pytest.approx(error_of(matrix), rel=1e-9)
    singular = np.linalg.svd(np.tril(np.ones((rounds, rounds))), compute_uv=False)
    assert found.least == pytest.approx(singular.sum() / rounds, rel=1e-9)
    assert found.least <= found.error * (1 + 1e-12)


def test_two_bands_are_the_best_two_bands() -> None:
    """Against a grid of step 0.001."""
    found = optimised_bands(40, 2)
    grid = [_loss(np.array([c]), 40)[0] for c in np.arange(-0.9, 1.9, 0.001)]
    assert 2 * np.log(found.error) <= min(grid) + 1e-9


def test_the_gradient_is_that_of_differences() -> None:
    rng = np.random.default_rng(1)
    at = 0.3 * rng.random(5)
    _, slope = _loss(at, 30)
    for j in range(5):
        step = np.zeros(5)
        step[j] = 1e-6
        rise = (_loss(at + step, 30)[0] - _loss(at - step, 30)[0]) / 2e-6
        assert slope[j] == pytest.approx(rise, rel=1e-5)


def test_more_bands_are_better_and_near_the_least_than_the_square_root() -> None:
    errors = [optimised_bands(128, bands).error for bands in (1, 2, 8, 32, 128)]
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 1.07 * least_error(128)
    root = error_of(strategy_matrix(Factorisation.SQRT_TOEPLITZ, 128))
    assert errors[-1] < root


def test_what_is_found_is_accounted_for_by_its_own_norm() -> None:
    found = optimised_bands(64, 8)
    node = CorrelatedGaussian("prefix", 2, 64, found.strategy, Participation(4, 16))
    squares = float(sum(c * c for c in found.strategy.entries))
    bound = dp.account(node, dp.central("add_remove")).step("gdp")
    assert float(bound.value) == pytest.approx(np.sqrt(4 * squares) / 2, rel=1e-12)
    assert bound.attained


def test_bands_longer_than_the_run_are_refused() -> None:
    with pytest.raises(InvalidParameter, match="bands = 9: expected 1 to the 8 rounds"):
        optimised_bands(8, 9)
    with pytest.raises(InvalidParameter, match="rounds = 0"):
        optimised_bands(0, 1)
    with pytest.raises(InvalidParameter, match="bands = 600: expected 1 to 512"):
        optimised_bands(1000, 600)


@pytest.mark.parametrize("made", [optimised_bands, optimised_buffers])
def test_numbers_that_are_not_whole_are_refused(made: Any) -> None:
    T = sympy.Symbol("T", positive=True, integer=True)
    for rounds, few, said in (
        (T, 2, "rounds = T: expected .*, not a symbol"),
        (64.5, 2, r"rounds = 64\.5: expected .*, and whole"),
        (64, T, "= T: expected .*, not a symbol"),
        (64, 2.5, r"= 2\.5: expected .*whole"),
        (64, [2], "expected an int"),
    ):
        with pytest.raises(InvalidParameter, match=said):
            made(rounds, few)
    assert made("64", "2") == made(64, 2)


def test_an_optimised_strategy_is_not_itself_one() -> None:
    found = optimised_buffers(16, 2)
    with pytest.raises(InvalidParameter, match=r"give the Buffered's \.strategy"):
        dp.dp_ftrl(steps=16, sigma=1, strategy=found)
    assert dp.dp_ftrl(steps=16, sigma=1, strategy=found.strategy).strategy is found.strategy


# --- buffered linear Toeplitz strategies ---------------------------------------------------------


def test_few_buffers_come_within_a_hundredth_of_all_bands() -> None:
    """Dvijotham and others 2024: 2 to 4 buffers do what T coefficients do."""
    best = optimised_bands(256, 256)
    found = [optimised_buffers(256, buffers).error / best.error for buffers in (1, 2, 3)]
    assert found[0] > found[1] > found[2] >= 1 - 1e-6
    assert found[2] < 1.01


def test_running_sums_make_the_noise_of_the_strategy() -> None:
    """z = fresh - sum w s, s <- l s + z: C z is what was fresh; rounded to 1e-9."""
    found = optimised_buffers(64, 3)
    fresh = np.random.default_rng(1).standard_normal(64)
    weights, decays, sums = np.array(found.weights), np.array(found.decays), np.zeros(3)
    noise = np.zeros(64)
    for t in range(64):
        noise[t] = fresh[t] - weights @ sums
        sums = decays * sums + noise[t]
    whole = strategy_matrix(found.strategy, 64) @ noise
    np.testing.assert_allclose(whole, fresh, atol=1e-6)


def test_a_buffered_strategy_is_certified_by_its_own_norm() -> None:
    """The accountant's and the checker's largest move are |c|, and the error is that of B."""
    found = optimised_buffers(64, 2)
    column = found.strategy.entries
    node = CorrelatedGaussian("sums", 2, 64, found.strategy)
    step = dp.account(node, dp.central("add_remove")).step("gdp")
    norm = math.sqrt(float(sum(c * c for c in column)))
    assert float(enclose(step.value).mid()) == pytest.approx(norm / 2, rel=1e-12)
    assert bound("gdp", node, []) == step.value
    squares = prefix_squares(found.strategy, 64)
    assert found.error == pytest.approx(norm * math.sqrt(squares.mean()), rel=1e-9)
    assert found.least < found.error


def test_a_buffered_strategy_over_secret_batches_of_one_turn() -> None:
    """Sampled at 1/10 it is a sampled Gaussian release of noise 2 over |c|."""
    strategy = optimised_buffers(32, 2).strategy
    rows = CorrelatedGaussian("sums", 2, 32, strategy)
    scope = dp.central("add_remove")
    sampled = dp.account(CyclicPoisson(rows, 32, Fraction(1, 10)), scope).epsilon("1e-5")
    assert sampled.upper < dp.account(rows, scope).epsilon("1e-5").lower
    norm = Fraction(math.sqrt(float(sum(c * c for c in strategy.entries))))
    alone = dp.PoissonSampled(dp.Gaussian("one", 2 / norm), Fraction(1, 10))
    expected = float(dp.account(alone, scope).epsilon("1e-5").upper)
    assert float(sampled.upper) == pytest.approx(expected, rel=1e-3)


def test_buffers_that_cannot_be_are_refused() -> None:
    with pytest.raises(InvalidParameter, match="rounds = 513: expected 2 to 512"):
        optimised_buffers(513, 2)
    with pytest.raises(InvalidParameter, match="buffers = 0: expected 1 to 16"):
        optimised_buffers(64, 0)
