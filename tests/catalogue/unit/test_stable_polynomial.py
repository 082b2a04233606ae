"""Searches that end in polynomial time: their scores move by 1, their vectors by what is stated."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dpaudit.errors import InvalidParameter
from mechanisms.papers.stable_erm import build
from mechanisms.papers.stable_erm.domains import Ball, Lens
from mechanisms.papers.stable_erm.polynomial import GridMean, Ladder, WindowMeanScore
from mechanisms.papers.stable_erm.problem import Problem
from mechanisms.papers.stable_erm.solver import (
    Minimiser,
    Pull,
    RidgeLogistic,
)
from tests.support.stable import column, found

# --- polynomial searches --------------------------------------------------------------------------


def window(values: Any, unit: float, kappa: int, bound: float = 1.0) -> tuple[float, float]:
    result = WindowMeanScore().find(GridMean(bound), column(*values), unit, kappa)
    return float(result.scores[0]), float(result.vectors[0, 0])


def test_windows_are_not_the_exact_score() -> None:
    """Five 0, five 1, one .5: exact 1 (delete the .5), window 2; and nine, kappa = 2: 1 and 2."""
    values = [0.0] * 5 + [1.0] * 5 + [0.5]
    assert found(values, 0.12, 1)[0] == 1
    assert window(values, 0.12, 1)[0] == 2
    assert window([0.0] * 9 + [1.0] * 9 + [0.5], 0.083, 2)[0] == 2


def test_window_scores_are_at_least_exact_and_move_by_one() -> None:
    generator, seen = np.random.default_rng(12), set()
    for _ in range(120):
        kappa = 1
        count = int(generator.integers(6, 10))
        data = np.round(generator.normal(size=count) * generator.choice([0.05, 0.4], size=count), 3)
        other = data.copy()
        other[generator.integers(count)] = np.round(generator.uniform(-1, 1), 3)
        unit = float(generator.uniform(0.02, 0.3))
        one, two = window(data, unit, kappa), window(other, unit, kappa)
        assert abs(one[0] - two[0]) <= 1
        assert one[0] >= found(np.rint(data * 2**24) / 2**24, unit, kappa)[0]
        if max(one[0], two[0]) <= 2:
            assert abs(one[1] - two[1]) <= (one[0] + two[0] + 2) * unit * (1 + 1e-9)
        seen.add(one[0])
    assert len(seen) >= 3


def test_window_scores_move_by_one_at_useful_sizes() -> None:
    generator, seen = np.random.default_rng(13), set()
    for _ in range(300):
        kappa = int(generator.integers(1, 4))
        count = int(generator.integers(4 * kappa + 2, 8 * kappa + 8))
        data = generator.choice([0.0, 0.5, 1.0, -1.0, 0.1], size=count)
        other = data.copy()
        other[0] = generator.choice([0.0, 0.5, 1.0, -1.0, 0.3])
        unit = float(generator.uniform(0.5, 2.5) / count)
        one, two = window(data, unit, kappa), window(other, unit, kappa)
        assert abs(one[0] - two[0]) <= 1
        seen.add(one[0])
    assert len(seen) >= 5


def test_windows_withstand_hostile_users() -> None:
    assert window([np.nan, np.inf, -np.inf, 1e300] + [0.0] * 30, 0.5, 1)[0] <= 3
    assert np.isfinite(window([np.nan, np.inf, -np.inf, 1e300] + [0.0] * 30, 0.5, 1)[1])


LOGISTIC = Minimiser(RidgeLogistic(1.0, 1.0, 1e-9), Ball(1.0))


# As in the phases of Algorithms 3 to 6: a pull to a released point, here outside of the lens.
CENTRE = np.array([[0.6, -0.9]])
PULLED = Minimiser(
    RidgeLogistic(0.1, 1.0, 1e-9),
    Lens(Ball(1.0), Ball(np.array([0.5]), np.array([[0.2, 0.7]]))),
    Pull(np.array([0.3]), CENTRE),
)


@pytest.mark.quality
@pytest.mark.long_cases("pulled in a lens")
@pytest.mark.parametrize("minimiser", [LOGISTIC, PULLED], ids=["alone", "pulled in a lens"])
def test_ladders_move_by_one_and_two_units(minimiser: Minimiser) -> None:
    """Random neighbours with outliers; the largest distance is well inside 2 units."""
    generator, seen, ratios = np.random.default_rng(14), set(), []
    for _ in range(60):
        ladder, kappa, count = Ladder(float(generator.uniform(0.02, 0.4))), 1, 12
        unit = float(ladder.unit(minimiser, count, kappa)[0])
        data = generator.normal(size=(count, 2, 3)) * 0.2
        data[: int(generator.integers(4))] *= 20
        other = data.copy()
        far = generator.choice([5.0, 1e150, 1e308])
        other[generator.integers(count)] = generator.choice([-far, far], size=(2, 3))
        one, two = (ladder.find(minimiser, d, unit, kappa) for d in (data, other))
        assert abs(one.scores[0] - two.scores[0]) <= 1
        seen.add(float(one.scores[0]))
        if max(one.scores[0], two.scores[0]) <= 2:
            ratios.append(float(np.linalg.norm(one.vectors - two.vectors)) / (2 * unit))
    assert len(seen) >= 2
    assert 0.0 < max(ratios) <= 1


def test_a_ladder_refuses_a_unit_that_is_too_small() -> None:
    ladder = Ladder(0.1)
    unit = float(ladder.unit(LOGISTIC, 12, 1)[0])
    with pytest.raises(InvalidParameter, match=r"below Ladder.unit"):
        ladder.find(LOGISTIC, np.zeros((12, 1, 3)), unit * 0.99, 1)


STAGES = (
    build.phased_erm,
    build.phased_sco,
    build.strongly_convex_erm,
    build.strongly_convex_sco,
)


@pytest.mark.quality
@pytest.mark.first_case
@pytest.mark.parametrize("make", STAGES, ids=lambda make: make.__name__)
def test_every_release_of_a_stage_has_the_ladders_own_unit(make: Any) -> None:
    """A unit of the paper's bound is for path stability, and too small for a ladder's proof."""
    problem = Problem(RidgeLogistic(0.5, 1.0), Ball(2.0), 3_000, 2, 3, 1.0)
    ladder = Ladder(0.2)
    made = make(problem, 8, 1e-6, search=ladder)
    phases = getattr(made, "phases", made)
    query = phases.query(1, problem.start(2), 3_000, problem.domain, phases.weight)
    kappa = phases.constants.kappa
    np.testing.assert_array_equal(query.unit, ladder.unit(query.statistic, 3_000, kappa))
    assert query.statistic.pull.weight == 4 * phases.weight
    if hasattr(made, "first"):
        whole = Minimiser(problem.loss, problem.domain)
        assert made.first.unit == float(ladder.unit(whole, 3_000, made.first.constants.kappa)[0])
