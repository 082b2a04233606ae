"""The search set of Remark 3.6: the nearest point of two balls, and restarts that stay in it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize

from dpaudit.errors import InvalidParameter
from mechanisms.papers.user_level.catalogue import strongly_convex_reduction
from mechanisms.papers.user_level.problem import (
    Problem,
    SquaredDistance,
    project_two_balls,
    within,
)


@pytest.mark.parametrize("reach", [0.3, 0.9, 1.7])
def test_the_nearest_point_of_two_balls(reach: float) -> None:
    rng = np.random.default_rng(3)
    for _ in range(12):
        centre, point = rng.normal(size=3), 3 * rng.normal(size=3)
        centre *= rng.random() / np.linalg.norm(centre)
        (found,) = project_two_balls(point[None], 1.0, centre[None], reach)
        assert np.linalg.norm(found) <= 1 + 1e-9
        assert np.linalg.norm(found - centre) <= reach * (1 + 1e-9)
        best = minimize(
            lambda x, to=point: np.square(x - to).sum(),
            centre,
            constraints=[
                {"type": "ineq", "fun": lambda x: 1 - x @ x},
                {"type": "ineq", "fun": lambda x, c=centre: reach**2 - np.square(x - c).sum()},
            ],
        )
        assert np.linalg.norm(found - point) <= np.sqrt(best.fun) + 1e-6


def test_the_set_itself_where_nothing_is_left_out() -> None:
    problem = Problem(SquaredDistance(2), 4, 1, 2, 1.0, 2.0)
    assert within(problem, np.zeros((1, 2)), 2.0) is problem
    far = np.array([[5.0, 0.0]])
    np.testing.assert_allclose(
        within(problem, np.array([[0.5, 0.0]]), 0.2).project(far), [[0.7, 0.0]]
    )


def test_restarts_search_within_their_radius() -> None:
    program = strongly_convex_reduction.program
    assert all(0 < base.reach < 2 * base.problem.radius for base in program.bases[1:])
    with pytest.raises(InvalidParameter, match="reach"):
        replace(program.bases[0], reach=0.0)
