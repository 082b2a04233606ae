"""Faster paths give the bits of slower ones: users in blocks, sums by a sparse row, one solve."""

from __future__ import annotations

import numpy as np
import pytest

from dpaudit.kernels.query import Array
from mechanisms.papers.stable_erm.domains import Box
from mechanisms.papers.stable_erm.sharp import Shares
from mechanisms.papers.stable_erm.solver import Pull
from mechanisms.papers.stable_erm.stable import kept_means
from mechanisms.papers.user_level import problem as problems
from mechanisms.papers.user_level.problem import Problem, SquaredDistance
from mechanisms.papers.user_level.smoothing import BallSmoothedLoss


@pytest.mark.parametrize("lipschitz", [0.7, 5.0])
@pytest.mark.parametrize("loss", [SquaredDistance(5), BallSmoothedLoss(SquaredDistance(5), 0.1)])
def test_users_in_blocks_have_the_bits_of_all_at_once(
    monkeypatch: pytest.MonkeyPatch, loss: SquaredDistance | BallSmoothedLoss, lipschitz: float
) -> None:
    """Seven users a block, the last one of three, some gradients clipped or none."""
    monkeypatch.setattr(problems, "BLOCK", 7 * 6 * 5)
    rng = np.random.default_rng(0)
    users, points = rng.uniform(-1, 1, (45, 6, 5)), rng.uniform(-1, 1, (2, 5))
    users[3, 2, 1], users[4, 0, 0] = np.nan, np.inf
    on = Problem(loss, 45, 6, 5, 1.0, lipschitz)
    found = on.user_gradients(points, users)
    np.testing.assert_array_equal(found, on.item_gradients(points, users).mean(axis=2))
    assert found.flags.c_contiguous
    assert np.isfinite(found).all()


def test_a_draw_belongs_to_its_row() -> None:
    """Drawn for other rows, a shift is another: blocks that took the wrong ones would be seen."""
    loss, points = BallSmoothedLoss(SquaredDistance(3), 0.5), np.zeros((1, 3))
    rows = np.random.default_rng(0).uniform(-1, 1, (8, 3))
    draws = loss.draws(points, 8)
    whole = loss.gradients(points, rows)
    part = loss.gradients_with(points, rows[4:], [each[4:] for each in draws])
    np.testing.assert_array_equal(part, whole[:, 4:])
    wrong = loss.gradients_with(points, rows[4:], [each[:4] for each in draws])
    assert (wrong != whole[:, 4:]).all()


def test_a_sum_of_kept_rows_is_taken_in_their_order() -> None:
    """Numbers of very different sizes: another order has other last bits."""
    rng = np.random.default_rng(0)
    vectors = rng.standard_normal((2, 300, 3)) * 10.0 ** rng.integers(-8, 8, (2, 300, 1))
    kept = rng.random((1, 300)) < 0.7
    vectors[:, ~kept[0]] = np.nan
    total = np.zeros((2, 3))
    for row in np.flatnonzero(kept[0]):
        total = total + vectors[:, row]
    found = kept_means(vectors, kept)
    np.testing.assert_array_equal(found[:, 0], total / kept.sum())
    both = np.concatenate([kept, kept])
    np.testing.assert_array_equal(found[:, 0], kept_means(vectors, both)[:, 1])


@pytest.mark.parametrize("centre", [0.0, 0.3])
def test_solved_is_the_minimiser_and_its_gradients(centre: float) -> None:
    rng = np.random.default_rng(0)
    users: Array = rng.uniform(-0.1, 1.1, (40, 1, 3))
    users[5, 0, 1] = np.nan
    loss, pull, domain = Shares(0.5), Pull(0.8, np.full((2, 3), centre)), Box(1.0, 3)
    points, gradients = loss.solved(users, pull, domain)
    everyone = np.ones((1, 40), dtype=bool)
    np.testing.assert_array_equal(points, loss.minimise(users, everyone, pull, domain)[:, 0])
    np.testing.assert_array_equal(gradients, loss.gradients(points, users, pull, domain))
