"""Mutants that change nothing are told by running both; fewer steps of a solver move it less."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dpaudit.audit.examine.shapes import Shape
from dpaudit.kernels.query import Array, ClippedMean
from dpaudit.mutate.same import same, trace
from dpaudit.mutate.survey import _alike
from dpaudit.scope import Adjacency
from mechanisms.papers.srgd import baselines_catalogue, catalogue
from mechanisms.papers.srgd.phases import halves, phase_moves
from mechanisms.papers.stable_erm.baselines_catalogue import LOGISTIC, USER_COUNT
from tests.examined_for_tests import Descent, Stepping, mechanism

SHAPE = Shape(40, (5,))


def traced(program: Any) -> Any:
    return trace(mechanism("case", program), SHAPE, 1)


@pytest.fixture(scope="module")
def right() -> Any:
    return traced(Descent())


@pytest.mark.parametrize(
    "bug", ["no clip", "norm of a part", "one trial", "carry", "rare round", "clip to 1.001"]
)
def test_another_program_is_seen_to_be_another(bug: str, right: Any) -> None:
    assert same(right, traced(Descent()))
    assert not same(right, traced(Descent(bug)))


def test_another_output_is_another_program() -> None:
    assert not same(traced(Stepping()), traced(Stepping("private step")))


def test_a_bug_that_never_runs_changes_nothing(right: Any) -> None:
    assert same(right, traced(Descent("many trials")))


def test_half_as_many_records_may_state_as_little() -> None:
    rows = ClippedMean(lambda values: values[None], 1.0)
    public = ClippedMean(lambda values: values[None], 1.0, divisor=40.0)
    assert not _alike(rows, Adjacency.REPLACE_ONE, 40)
    assert _alike(public, Adjacency.REPLACE_ONE, 40)


def moved(contraction: float, step: float, steps: int) -> float:
    """How far two runs from one point can be apart, if a step adds ``step`` and then contracts."""
    return float(step * np.sum(contraction ** np.arange(steps)))


def test_fewer_steps_of_a_solver_move_its_point_less() -> None:
    """What is said of half the steps in docs/mutation/equivalent.json.

    Gradient steps of a strongly convex loss contract the distance of two data sets' points, and
    one record adds the same to each; the sum grows with their number up to what is stated.
    """
    program: Any = baselines_catalogue.phased_erm.program
    adjacency = baselines_catalogue.phased_erm.scope.adjacency
    sizes = halves(program.problem.size, program.phases)
    for phase, size in enumerate(sizes[: program.phases]):
        query = program.query(program.problem.start(1), phase, size)
        length = 2 / (query.smoothness + 2 * query.ridge)
        each = length * phase_moves(adjacency) * query.problem.clip / size
        reached = [
            moved(1 - length * query.ridge, each, steps)
            for steps in (query.steps // 2, query.steps)
        ]
        assert reached[0] <= reached[1] <= float(query.sensitivity(adjacency, size))
    length = 1 / (LOGISTIC.modulus + LOGISTIC.smoothness)
    each = length * 2 * LOGISTIC.lipschitz / USER_COUNT
    stated = 2 * LOGISTIC.lipschitz / (LOGISTIC.modulus * USER_COUNT)
    assert moved(1 - length * LOGISTIC.modulus, each, 10_000) <= stated


def centred(rows: Array) -> Array:
    """The sum of rows less their mean, each clipped to 1."""
    off = rows - rows.mean(axis=0)
    return np.asarray((off / np.maximum(1, np.linalg.norm(off, axis=1, keepdims=True))).sum(axis=0))


def test_centred_rows_of_three_quarters_of_a_radius_move_less_than_it() -> None:
    """Of 2 and 1 times a gradient of sqrt(10), clipped to 4 sqrt(10): clusters, one record gone."""
    program: Any = catalogue.accelerated_dp_srgd_corollary_5_7_two_rounds.program
    point = np.zeros((1, 10))
    for t, most in ((0, 1), (1, 3)):
        query: Any = program.gradient.clip_weighted_differences(t, point, point)
        assert most * np.sqrt(10) <= 0.75 * float(np.max(query.radius)) * (1 + 1e-9)
    rng, furthest = np.random.default_rng(1), 0.0
    for trial in range(300):
        kinds = rng.standard_normal((int(rng.integers(2, 5)), int(rng.integers(1, 4))))
        kinds *= 0.75 / np.linalg.norm(kinds, axis=1, keepdims=True)
        kinds[1] = -kinds[0] if trial % 3 == 0 else kinds[1]
        which = rng.choice(len(kinds), 300, p=rng.dirichlet(np.full(len(kinds), 0.5)))
        whole = centred(kinds[which])
        for one in np.unique(which, return_index=True)[1]:
            without = centred(kinds[np.delete(which, one)])
            furthest = max(furthest, float(np.linalg.norm(without - whole)))
    assert 0.4 < furthest < 0.6
