"""Softmax regression: its gradient is the derivative, its bounds are bounds."""

from __future__ import annotations

import numpy as np
import pytest

from dpaudit.errors import InvalidParameter
from mechanisms.papers.common.factors import ghost_norms
from mechanisms.papers.common.softmax import Softmax

RNG = np.random.default_rng(3)


def test_the_gradient_is_the_derivative_and_within_its_bounds() -> None:
    loss = Softmax(4)
    records = np.column_stack([RNG.standard_normal((7, 3)), RNG.integers(0, 4, 7)])
    theta = RNG.standard_normal((2, loss.dimension(3)))
    gradients = loss.gradients(theta, records)
    for j in range(loss.dimension(3)):
        step = np.zeros(loss.dimension(3))
        step[j] = 1e-6
        slope = (loss.values(theta + step, records) - loss.values(theta - step, records)) / 2e-6
        np.testing.assert_allclose(gradients[..., j], slope, atol=1e-8)
    norms = np.linalg.norm(gradients, axis=-1)
    np.testing.assert_allclose(ghost_norms(loss.factors(theta, records)), norms, 1e-12)
    longest = np.hypot(1, np.linalg.norm(records[:, :-1], axis=1))
    assert (norms <= np.sqrt(2) * longest).all()
    other = theta + RNG.standard_normal(theta.shape)
    moved = np.linalg.norm(loss.gradients(other, records) - gradients, axis=-1)
    apart = np.linalg.norm(other - theta, axis=1)[:, None]
    assert (moved <= longest**2 / 2 * apart * (1 + 1e-12)).all()


def test_a_target_that_is_no_class_is_no_error() -> None:
    found = Softmax(2).gradients(np.zeros((1, 4)), [[1.0, 9.0]])
    np.testing.assert_allclose(found, [[[0.5, 0.5, 0.5, 0.5]]])
    with pytest.raises(InvalidParameter, match="expected 2 or more"):
        Softmax(1)
