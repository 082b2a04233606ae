"""Baselines of Accelerated-DP-SRGD: what they compute, without noise too, and how far it moves."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from dpaudit.errors import InvalidParameter, SensitivityExceeded
from dpaudit.kernels.query import Array, Records
from dpaudit.scope import Adjacency
from mechanisms.papers.common.losses import LeastSquares, Logistic, mean_value
from mechanisms.papers.srgd.baselines import (
    DPSGDPoisson,
    nesterov_agd,
)
from mechanisms.papers.srgd.geometry import EtaSchedule, project_l2_ball
from mechanisms.papers.srgd.localized import LocalizedAcceleratedDPSGD
from mechanisms.papers.srgd.online import DPFTRL, DPOnlineToBatch, online_to_batch_clip
from mechanisms.papers.srgd.phased_erm import PhasedERM, RegularisedMinimum
from mechanisms.papers.srgd.phased_sgd import OnePassAverage, PhasedSGD, clipped
from mechanisms.papers.srgd.problem import BoundedLogistic, Problem, Work
from mechanisms.papers.srgd.variance_reduced import BatchedMinimum, PhasedERMInBatches
from tests.support.kernels import replayer, sampled
from tests.support.srgd_baselines import (
    HOSTILE,
    PROGRAMS,
    REPLACE_ONE,
    TINY,
    least_squares_gradient,
    logistic_rows,
    problem,
    regression,
    run,
)


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_a_run_is_its_seed(name: str) -> None:
    program = PROGRAMS[name](size=24)
    first, again, other = (run(program, regression(), seed=s, trials=2).output for s in (1, 1, 2))
    assert first.shape == (2, 2)
    np.testing.assert_array_equal(first, again)
    assert (first != other).all()
    assert (first[0] != first[1]).all()


@pytest.mark.parametrize("schedule", list(EtaSchedule))
def test_on_equal_batches_and_without_noise_acceleration_is_nesterov_s(
    schedule: EtaSchedule,
) -> None:
    rows = regression(blocks_of_equal_rows=4)
    program = replace(PROGRAMS["accelerated"](TINY, radius=0.3), schedule=schedule)
    reference = nesterov_agd(program.problem, rows[:6], 4, 8.0, schedule)
    np.testing.assert_allclose(run(program, rows).output, reference.output, atol=1e-2)
    program = replace(program, problem=replace(program.problem, clip=20.0))
    np.testing.assert_allclose(run(program, rows).output, reference.output, atol=1e-7)


def test_nesterov_s_method_converges_at_its_rate() -> None:
    """Gap below 2 beta ||x*||^2 / (T (T + 1)), and to the minimum in the end."""
    rows = regression()
    best = np.linalg.lstsq(rows[:, :2], rows[:, 2], rcond=None)[0]
    beta = 2 * np.linalg.norm(rows[:, :2], ord=2) ** 2 / len(rows)
    for steps in (3, 10, 300):
        found = nesterov_agd(problem(), rows, steps, float(beta), EtaSchedule.HALVED).output
        gap = np.mean((rows[:, :2] @ found[0] - rows[:, 2]) ** 2) - np.mean(
            (rows[:, :2] @ best - rows[:, 2]) ** 2
        )
        assert gap <= 2 * beta * best @ best / (steps * (steps + 1))
    np.testing.assert_allclose(found[0], best, atol=1e-4)


def test_without_noise_one_pass_is_projected_sgd() -> None:
    rows, x, total = regression(), np.zeros(2), np.zeros(2)
    program = PROGRAMS["one_pass"](TINY, radius=0.05, clip=20.0)
    for t in range(4):
        x = project_l2_ball(
            (x - 0.1 * least_squares_gradient(x, rows[6 * t : 6 * t + 6]))[None], 0.05
        )[0]
        total += x
    found = run(program, rows)
    np.testing.assert_allclose(found.last[0], x, atol=1e-7)
    np.testing.assert_allclose(found.output[0], total / 4, atol=1e-7)


def test_without_noise_and_at_rate_one_poisson_batches_are_full_gradients() -> None:
    rows, x = regression(), np.zeros(2)
    program = DPSGDPoisson(problem(clip=20.0), 30, 1, 0.3, TINY)
    for _ in range(30):
        x = x - 0.3 * least_squares_gradient(x, rows)
    np.testing.assert_allclose(run(program, rows).last[0], x, atol=1e-7)


def test_without_noise_ftrl_sums_gradients_and_projects_lazily() -> None:
    rows, total, x = regression(), np.zeros(2), np.zeros(2)
    program = DPFTRL(problem(radius=0.04, clip=20.0), 4, 0.1, TINY)
    for t in range(4):
        total += least_squares_gradient(x, rows[6 * t : 6 * t + 6])
        x = project_l2_ball(-0.1 * total[None], 0.04)[0]
    np.testing.assert_allclose(run(program, rows).output[0], x, atol=1e-7)


@pytest.mark.parametrize("power", [1, 2])
def test_on_equal_batches_and_without_noise_online_to_batch_sees_weighted_gradients(
    power: int,
) -> None:
    """The prefix sum of weighted differences telescopes to w_t grad F(x_t)."""
    rows = regression(blocks_of_equal_rows=4)
    program = DPOnlineToBatch(problem(), 4, 0.02, TINY, clip=40.0, power=power)
    weights = np.arange(1, 6, dtype=float) ** power
    learners, x = [np.zeros(2)], np.zeros(2)
    for t in range(4):
        learners.append(learners[-1] - 0.02 * weights[t] * least_squares_gradient(x, rows[:6]))
        x = np.average(learners, axis=0, weights=weights[: t + 2])
    np.testing.assert_allclose(run(program, rows).output[0], x, atol=1e-7)


def test_without_noise_phased_sgd_averages_passes() -> None:
    rows, start = regression(), np.zeros(2)
    program = PhasedSGD(problem(radius=0.2, clip=20.0), 3, 0.4, 10.0, TINY)
    begin = 0
    for i, size in enumerate((12, 6, 3), 1):
        x, seen = start, []
        for row in rows[begin : begin + size]:
            x = x - 0.4 / 4**i * least_squares_gradient(x, row[None])
            x = project_l2_ball(x[None], 0.2)[0]
            seen.append(x)
        start, begin = np.mean(seen, axis=0), begin + size
    np.testing.assert_allclose(run(program, rows).output[0], start, atol=1e-7)


def test_the_solver_is_as_near_the_minimum_as_it_certifies() -> None:
    """Against many more steps, on rows so short that it goes nearly as slowly as the worst case."""
    rows = logistic_rows(20) * np.array([0.1, 0.1, 0]) + np.array([0.1, 0, 1])
    for radius, near in ((50.0, 1e-5), (0.3, 0.0)):
        at = Problem(BoundedLogistic(norm=2.0), 2, 20, radius=radius, clip=2.0)
        query = RegularisedMinimum(at, np.full((1, 2), 0.1), 0.05, 1.0, 1e-2)
        found = query.value(Records(rows))
        best = replace(query, accuracy=1e-12).value(Records(rows))
        assert near <= np.linalg.norm(found - best) <= 1e-2
        assert np.linalg.norm(found) <= radius * (1 + 1e-12)
        assert np.linalg.norm(found) > 0.299


class InBatches(BatchedMinimum):
    """Epochs alone, also where descent takes fewer gradients."""

    def work(self, size: int) -> Work:
        return self.in_batches(size)


class CountingLogistic(BoundedLogistic):
    """Counts gradients of records."""

    def gradients(self, parameters: Any, records: Any) -> Array:
        counter[0] += len(records)
        return super().gradients(parameters, records)


counter = [0]


@pytest.mark.quality
@pytest.mark.first_case
@pytest.mark.parametrize("radius", [50.0, 0.3])
def test_epochs_in_batches_certify_the_same_accuracy(radius: float) -> None:
    rows = logistic_rows(20) * np.array([0.1, 0.1, 0]) + np.array([0.1, 0, 1])
    at = Problem(BoundedLogistic(norm=2.0), 2, 20, radius=radius, clip=2.0)
    query = InBatches(at, np.full((1, 2), 0.1), 0.05, 1.0, 1e-2)
    best = RegularisedMinimum(at, query.centre, 0.05, 1.0, 1e-12).value(Records(rows))
    assert np.linalg.norm(query.value(Records(rows)) - best) <= 1e-2
    assert query.shrink < 0.5
    # Where the certificate fails, here for want of epochs, descent is run instead.
    object.__setattr__(query, "epochs", 0)
    descent = RegularisedMinimum(at, query.centre, 0.05, 1.0, 1e-2).value(Records(rows))
    np.testing.assert_array_equal(query.value(Records(rows)), descent)


def test_a_failed_certificate_is_seen() -> None:
    """Without it, a solver that stands still would be released as if it were accurate."""
    rows = Records(logistic_rows(20))
    at = Problem(BoundedLogistic(norm=2.0), 2, 20, radius=50.0, clip=2.0)
    query = InBatches(at, np.full((1, 2), 0.1), 0.05, 1.0, 1e-2)
    best = RegularisedMinimum(at, query.centre, 0.05, 1.0, 1e-12).value(rows)
    object.__setattr__(query, "epochs", 0)
    assert np.linalg.norm(query.value(rows) - best) <= 1e-2
    object.__setattr__(query, "accuracy", 1e3)  # so that anything is certified
    assert np.linalg.norm(query.value(rows) - best) > 1e-2


@pytest.mark.quality
def test_phases_in_batches_take_fewer_gradients_where_there_are_many_rows() -> None:
    at = Problem(BoundedLogistic(), 2, 2**14, radius=2.0, clip=1.0)
    program = PhasedERMInBatches(at, 1, 0.1, 0.25, TINY)
    plain = PhasedERM(at, 1, 0.1, 0.25, TINY)
    assert program.work.gradients < 0.6 * plain.work.gradients
    rows = logistic_rows(2**14)
    found = run(program, rows).output
    assert 0 < np.abs(found - run(plain, rows).output).max() <= 0.01 * 0.1 / 4
    small = replace(at, size=64)
    few = PhasedERMInBatches(small, 1, 0.1, 0.25, TINY)
    assert few.work == PhasedERM(small, 1, 0.1, 0.25, TINY).work


def test_epochs_take_the_gradients_that_they_declare() -> None:
    rows = logistic_rows(64)
    at = Problem(CountingLogistic(norm=2.0), 2, 64, radius=50.0, clip=2.0)
    query = InBatches(at, np.full((1, 2), 0.1), 0.5, 1.0, 1e-2)
    counter[0] = 0
    query.value(Records(rows))
    work = query.in_batches(64)
    # A row that is drawn twice into a batch is evaluated once.
    assert 0.75 * work.gradients < counter[0] <= work.gradients
    assert work.batch_steps == query.epochs * query.inner + 1


def test_without_noise_phased_erm_minimises_phase_by_phase() -> None:
    """Phase i is within its accuracy of the ridge solution, in closed form, around the last."""
    rows, centre, begin = regression(), np.zeros(2), 0
    program = PhasedERM(problem(clip=20.0), 3, 0.5, 4.0, TINY)
    for i, size in enumerate((12, 6, 3), 1):
        block, ridge = rows[begin : begin + size], 4**i / (0.5 * size)
        x, y = block[:, :2], block[:, 2]
        matrix = 2 * x.T @ x / size + ridge * np.eye(2)
        centre = np.linalg.solve(matrix, 2 * x.T @ y / size + ridge * centre)
        begin += size
    np.testing.assert_allclose(run(program, rows).output[0], centre, atol=0.01 * 20 * 0.5 / 4)


@pytest.mark.quality
def test_without_noise_localised_descent_minimises_phase_by_phase() -> None:
    rows, centre, begin = regression(), np.zeros(2), 0
    program = LocalizedAcceleratedDPSGD(problem(clip=20.0), 2, 400, 1, 0.5, 4.0, TINY)
    for i, size in enumerate((12, 6)):
        block, ridge = rows[begin : begin + size], 0.5 * 4**i
        x, y = block[:, :2], block[:, 2]
        matrix = 2 * x.T @ x / size + ridge * np.eye(2)
        centre = np.linalg.solve(matrix, 2 * x.T @ y / size + ridge * centre)
        begin += size
    np.testing.assert_allclose(run(program, rows).output[0], centre, atol=1e-4)


@dataclass(frozen=True)
class Counting(LeastSquares):
    """Counts gradients of rows that are not zero, a trial."""

    def gradients(self, parameters: Any, records: Any) -> Array:
        counter[0] += int((np.asarray(records) != 0).any(axis=1).sum())
        return super().gradients(parameters, records)


@pytest.mark.parametrize("name", ["accelerated", "one_pass", "ftrl", "online", "phased_sgd"])
def test_work_is_what_a_run_takes(name: str) -> None:
    program = PROGRAMS[name](size=26, loss=Counting())
    counter[0] = 0
    run(program, regression(rows=26))
    assert program.work.gradients == counter[0]
    assert program.work.batch_steps == (22 if name == "phased_sgd" else 4)


def test_work_of_the_others() -> None:
    """Solvers' steps times rows; a rate times rows and rounds."""
    program = PROGRAMS["phased_erm"](size=26, loss=Counting())
    counter[0] = 0
    run(program, regression(rows=26))
    assert program.work.gradients == counter[0]
    assert PROGRAMS["poisson"]().work.gradients == 48
    assert PROGRAMS["localized"]().work == replace(program.work, gradients=27, batch_steps=6)


# --- sensitivities --------------------------------------------------------------------------------


def pairs(rows: Array, rng: np.random.Generator) -> list[tuple[Adjacency, Records, Records]]:
    """Neighbours of ``rows``: one row zeroed out, and one replaced, also by hostile values."""
    found = []
    for k in range(8):
        position = int(rng.integers(len(rows)))
        present = np.arange(len(rows)) != position
        found.append((Adjacency.ZERO_OUT, Records(rows), Records(rows, present)))
        other = rows.copy()
        other[position] = 5 * rng.standard_normal(rows.shape[1])
        if k < len(HOSTILE):
            other[position, k % 2] = HOSTILE[k]
        found.append((Adjacency.REPLACE_ONE, Records(rows), Records(other)))
    return found


QUERIES = {
    "pass": lambda at: OnePassAverage(at, np.full((1, 2), 0.2), min(2.0, at.radius / 4)),
    "minimum": lambda at: RegularisedMinimum(at, np.full((1, 2), 0.2), 0.2, 1.0, 1e-4),
    "in batches": lambda at: InBatches(at, np.full((1, 2), 0.2), 1.0, 1.0, 1e-3),
}


@pytest.mark.quality
@pytest.mark.first_case
@pytest.mark.parametrize("radius", [0.3, 1e3])
@pytest.mark.parametrize(
    "kind", ["minimum", "pass", pytest.param("in batches", marks=pytest.mark.quality)]
)
def test_convex_phases_move_by_no_more_than_they_state(kind: str, radius: float) -> None:
    """Logistic loss of bounded rows, whatever they hold; at the largest step 2/M for the pass."""
    query = QUERIES[kind](Problem(BoundedLogistic(norm=2.0), 2, 16, radius, clip=2.0))
    rng, ratios = np.random.default_rng(4), []
    for seed in range(4):
        for adjacency, first, second in pairs(logistic_rows(16, seed), rng):
            moved = np.linalg.norm(query.value(first) - query.value(second))
            assert np.isfinite(moved)
            ratios.append(moved / query.sensitivity(adjacency, 16))
    assert 0.05 < max(ratios) <= 1 + 1e-9


def test_a_pass_of_a_loss_that_is_not_convex_moves_by_more() -> None:
    """So convexity is an assumption, and the replayer sees it broken where the data show it."""

    @dataclass(frozen=True)
    class Concave(Logistic):
        def gradients(self, parameters: Any, records: Any) -> Array:
            return -super().gradients(parameters, records)

    # The first row decides the side of 0, from which the others drive away.
    at = Problem(Concave(), 1, 16, radius=1e3, clip=1.0)
    rows = np.column_stack([np.ones(16), np.arange(16) % 2])
    rows[0, 1] = 0.0
    other = rows.copy()
    other[0, 1] = 1.0
    program = PhasedSGD(at, 1, 16.0, 0.25, 1)
    pair = Records(np.vstack([rows, rows])), Records(np.vstack([other, rows]))
    program = replace(program, problem=replace(at, size=32))
    transcript = sampled(program, pair[0], REPLACE_ONE, seed=0).transcript
    with pytest.raises(SensitivityExceeded, match="phase 0"):
        replayer(program, pair, REPLACE_ONE).scores(transcript)


def test_rows_that_are_not_finite_take_no_step_and_raise_nothing() -> None:
    rows = regression()
    rows[::3] = np.nan
    rows[1::3] = np.inf
    for name in sorted(PROGRAMS):
        assert np.isfinite(run(PROGRAMS[name](), rows).output).all()
    rows = np.array([[np.nan, 1.0], [1e200, 0.0], [3.0, 4.0], [0.3, 0.4]])
    expected = [[0, 0], [0, 0], [0.6, 0.8], [0.3, 0.4]]
    np.testing.assert_allclose(clipped(rows, 1.0), expected, rtol=1e-15)


def test_no_difference_of_a_smooth_loss_is_longer_than_the_online_clip() -> None:
    """2 M D T/(T + 1) + L for power 1; runs on logistic loss with much noise stay below."""
    assert online_to_batch_clip(9, 2.0, 1.0, 0.5) == pytest.approx(2 * 0.5 * 0.9 + 2)
    assert online_to_batch_clip(1, 2.0, 1.0, 0.5) == 2.0
    cubes = [0.5 * t**4 / sum(k**2 for k in range(1, t + 1)) + 2 * (2 * t - 1) for t in range(2, 6)]
    assert online_to_batch_clip(5, 2.0, 1.0, 0.5, power=2) == pytest.approx(max(cubes))
    at = Problem(BoundedLogistic(norm=2.0), 2, 24, radius=0.5, clip=2.0)
    bound = online_to_batch_clip(24, 2.0, 1.0, 1.0)
    seen: list[float] = []

    @dataclass(frozen=True)
    class Watched(DPOnlineToBatch):
        def _rows(self, *arguments: Any) -> Array:
            rows = super()._rows(*arguments)
            seen.append(float(np.linalg.norm(rows, axis=-1).max()))
            return rows

    run(Watched(at, 24, 5.0, 3, clip=bound), logistic_rows(24), trials=50)
    assert 1.0 < max(seen) <= bound


def test_bounded_logistic_is_as_steep_as_it_says_for_any_row() -> None:
    rng = np.random.default_rng(0)
    loss, rows = BoundedLogistic(norm=1.5), 10 * rng.standard_normal((50, 4))
    theta = rng.standard_normal((20, 3))
    gradients = loss.gradients(theta, rows)
    assert np.linalg.norm(gradients, axis=-1).max() <= 1.5 * (1 + 1e-12)
    inside = np.column_stack([np.full((5, 3), 0.1), np.arange(5) % 2])
    np.testing.assert_array_equal(
        loss.gradients(theta, inside), Logistic().gradients(theta, inside)
    )
    np.testing.assert_array_equal(loss.values(theta, inside), Logistic().values(theta, inside))
    assert np.isfinite(mean_value(loss, theta, rows)).all()
    with pytest.raises(InvalidParameter, match="ridge"):
        BoundedLogistic(l2=0.1, norm=1.0)
