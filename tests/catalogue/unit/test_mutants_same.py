"""Mutants that change nothing are told by running both; fewer steps of a solver move it less."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dpaudit.audit.examine.made import across, rows_of, worlds_of
from dpaudit.audit.examine.shapes import Shape
from dpaudit.families.distributed.totals import ClientTotals
from dpaudit.kernels.query import Array, ClippedMean, Records, clip_rows, clipped_sum
from dpaudit.mutate.same import same, trace
from dpaudit.mutate.survey import _alike, _sums
from dpaudit.mutate.wrong import kept, wrong
from dpaudit.scope import Adjacency
from mechanisms.papers.diff2 import baselines
from mechanisms.papers.srgd import baselines_catalogue, catalogue
from mechanisms.papers.srgd.phased_sgd import OnePassAverage
from mechanisms.papers.srgd.phases import halves, phase_moves
from mechanisms.papers.stable_erm import catalogue as stable
from mechanisms.papers.stable_erm import sharp
from mechanisms.papers.stable_erm.baselines import MinimiserQuery
from mechanisms.papers.stable_erm.baselines_catalogue import (
    LOGISTIC,
    USER_COUNT,
    output_perturbation_item,
    user_level_dp_gd,
)
from mechanisms.papers.stable_erm.solver import Minimiser, RidgeLogistic
from mechanisms.training.adaptive_clipping import adaptively_clipped_sgd
from mechanisms.training.layers import layered_sgd
from mechanisms.training.search import tuned_step_size
from tests.support.examined import Descent, Stepping, mechanism

SHAPE = Shape(40, (5,))
REPLACED = Adjacency.REPLACE_ONE


def traced(program: Any) -> Any:
    return trace(mechanism("case", program), SHAPE, 1)


@pytest.fixture(scope="module")
def right() -> Any:
    return traced(Descent())


@pytest.mark.quality
@pytest.mark.first_case
@pytest.mark.parametrize(
    "bug", ["no clip", "norm of a part", "one trial", "carry", "rare round", "clip to 1.001"]
)
def test_another_program_is_seen_to_be_another(bug: str, right: Any) -> None:
    assert same(right, traced(Descent()))
    assert not same(right, traced(Descent(bug)))


@pytest.mark.quality
def test_another_output_is_another_program() -> None:
    assert not same(traced(Stepping()), traced(Stepping("private step")))


def test_a_bug_that_never_runs_changes_nothing(right: Any) -> None:
    assert same(right, traced(Descent("many trials")))


def test_half_as_many_records_may_state_as_little() -> None:
    rows = ClippedMean(lambda values: values[None], 1.0)
    public = ClippedMean(lambda values: values[None], 1.0, divisor=40.0)
    assert not _alike(rows, Adjacency.REPLACE_ONE, 40)
    assert _alike(public, Adjacency.REPLACE_ONE, 40)


def test_a_sum_of_another_kind_is_no_clipped_mean() -> None:
    """Its wrong twin would be another sum, of far smaller numbers: no bug of the program's."""
    records = Records(np.random.default_rng(1).standard_normal((40, 3)))
    asked: Any = SimpleNamespace(records=records, batched=False)
    rows = ClippedMean(lambda values: values[None], 1.0)
    totals = ClientTotals(
        lambda values: values[None], 1.0, client_sizes=(20, 20), grain=2.0**-10, dimension=3
    )
    assert _sums(rows, asked)
    assert not _sums(totals, asked)


def moved(contraction: float, step: float, steps: int) -> float:
    """How far two runs from one point can be apart, if a step adds ``step`` and then contracts."""
    return float(step * np.sum(contraction ** np.arange(steps)))


def test_fewer_steps_of_a_solver_move_its_point_less() -> None:
    """What is said of half the steps in benchmarks/equivalent.json.

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
    for count in (USER_COUNT, output_perturbation_item.program.problem.users):  # type: ignore[attr-defined]
        each = length * 2 * LOGISTIC.lipschitz / count
        stated = 2 * LOGISTIC.lipschitz / (LOGISTIC.modulus * count)
        assert moved(1 - length * LOGISTIC.modulus, each, 10_000) <= stated


@dataclass(frozen=True)
class HalfSummed(RidgeLogistic):
    """Wrong: a mean over all users of the gradients of the first half of them."""

    def _kept_gradients(self, points: Array, items: Array, kept: Any) -> Array:
        half = len(items) // 2
        found = super()._kept_gradients(points, items[:half], kept[:, :half])
        return np.asarray(found * (half / len(items)))


@pytest.mark.quality
def test_half_of_a_sum_over_all_moves_a_minimiser_no_further() -> None:
    """Opposite rows, and rows that pull it apart, among equal others and others of no weight."""
    loss = HalfSummed(LOGISTIC.modulus, LOGISTIC.feature_norm, LOGISTIC.error)
    problem: Any = output_perturbation_item.program.problem  # type: ignore[attr-defined]
    worlds, furthest = worlds_of(Shape(40, (1, 12)), np.random.default_rng(1)), 0.0
    stated = MinimiserQuery(Minimiser(loss, problem.domain)).sensitivity(REPLACED, 40)
    for world in (worlds[1], worlds[2], worlds[8]):
        rows = {**across(world.values), **rows_of(Shape(40, (1, 12)), np.random.default_rng(1))}
        points = []
        for name in list(rows)[:10]:
            values = world.values.copy()
            values[0] = rows[name]
            points.append(MinimiserQuery(Minimiser(loss, problem.domain)).value(Records(values)))
        found = np.concatenate(points)
        distance = np.linalg.norm(found[:, None] - found[None], axis=-1).max()
        furthest = max(furthest, float(distance / stated))
    assert 0.3 < furthest <= 1


@dataclass(frozen=True, eq=False)
class HalfAPass(OnePassAverage):
    """Wrong: the iterates of half a pass, over the number of all rows."""

    def value(self, records: Records, chosen: Any = None) -> Array:
        return super().value(records.rows(0, len(records) // 2), chosen) / 2


@pytest.mark.quality
def test_the_mean_of_half_a_pass_moves_half_as_far() -> None:
    """A first row that turns around, among rows of one sign, of two, and of no weight."""
    program: Any = baselines_catalogue.phased_sgd.program
    problem, start = program.problem, program.problem.start(1)
    adjacency, shape = baselines_catalogue.phased_sgd.scope.adjacency, Shape(40, (11,))
    moved: dict[type, float] = {}
    for kind in (OnePassAverage, HalfAPass):
        query = kind(problem, start, program.step_size / 4)
        for world in worlds_of(shape, np.random.default_rng(1)):
            rows = {**across(world.values), **rows_of(shape, np.random.default_rng(1))}
            found = [query.value(world.with_row(0, rows[name])) for name in list(rows)[:10]]
            found.append(query.value(Records(world.values, np.arange(40) > 0)))
            apart = max(float(np.linalg.norm(one - found[-1])) for one in found)
            moved[kind] = max(moved.get(kind, 0.0), apart / float(query.sensitivity(adjacency, 40)))
    assert 0.2 < moved[OnePassAverage] <= 1
    assert moved[HalfAPass] <= 0.5


@pytest.mark.parametrize("steps", [sharp.STEPS // 2, 3])
def test_an_interior_point_method_that_is_cut_ends_as_near(
    steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The duality gap is measured after it, and what is missing is made up for."""
    loss, kept = sharp.Hinge(modulus=0.5), np.ones((1, 40), dtype=bool)
    furthest = 0.0
    for world in worlds_of(Shape(40, (1, 5)), np.random.default_rng(1)):
        minimiser, size = Minimiser(loss), float(np.abs(world.values).max())
        whole = minimiser.at(world.values, kept)
        monkeypatch.setattr(sharp, "STEPS", steps)
        cut = minimiser.at(world.values, kept)
        monkeypatch.undo()
        allowed = 2 * float(loss.lost(40, min(size, 2.0), np.array(0.5)))
        furthest = max(furthest, float(np.linalg.norm(whole - cut)) / allowed)
    assert (steps == 3) == (furthest > 0)
    assert furthest <= 1


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


def furthest_centred(after: Array, before: Array, radius: float) -> float:
    """A bound on what centred, clipped rows add up to when one changes: (k, d) each, less the mean.

    A clip is the gradient of a convex function: between two arguments it moves by B D, the others
    (whose mean moves by a share of D) by -A D together, A and B symmetric between 0 and 1.  A D is
    in the ball around D/2 of radius |D|/2, and B D is known.
    """
    moved = after - before
    own = clip_rows(after[None], np.array([radius]))[0]
    own = own - clip_rows(before[None], np.array([radius]))[0]
    length = np.linalg.norm(own - moved / 2, axis=1) + np.linalg.norm(moved, axis=1) / 2
    return float(length.max())


def logistic(point: Array, length: float, count: int, rng: np.random.Generator) -> Array:
    """Gradients of logistic losses of features of that length at a point."""
    x = rng.standard_normal((count, len(point)))
    x *= length / np.linalg.norm(x, axis=1, keepdims=True)
    return np.asarray(x / (1 + np.exp(-x @ point))[:, None])


@pytest.mark.parametrize("name", ["localized_accelerated_dp_sgd", "accelerated_dp_sgd"])
def test_rows_within_the_radius_may_be_centred_where_a_record_is_zeroed_out(name: str) -> None:
    """Their losses' gradients are never longer than their clips.

    A row less the mean is at most twice the clip, and without the record nothing stands there.
    """
    one: Any = getattr(baselines_catalogue, name)
    program: Any = one.program
    assert one.scope.adjacency is Adjacency.ZERO_OUT
    rng = np.random.default_rng(1)
    clip = program.problem.clip
    points = 100.0 ** rng.uniform(-1, 1, (20, 1)) * rng.standard_normal((20, 10))
    query: Any = program.problem.mean_gradient(points, divisor=1.0)
    values = 100.0 ** rng.uniform(-2, 2, (200, 1)) * rng.standard_normal((200, 11))
    assert np.linalg.norm(query.per_record(values), axis=-1).max() <= clip * (1 + 1e-12)
    rows = rng.standard_normal((20_000, 4))
    rows *= clip * rng.uniform(0, 2, (20_000, 1)) / np.linalg.norm(rows, axis=1, keepdims=True)
    assert 0.99 * clip < furthest_centred(rows, np.zeros_like(rows), clip) <= clip * (1 + 1e-9)
    longer = furthest_centred(1.5 * rows, np.zeros_like(rows), clip)
    assert longer > 1.4 * clip


@pytest.mark.parametrize("name", ["dp_sgd", "dp_srm"])
def test_rows_within_the_radius_may_be_centred_where_a_record_is_replaced(name: str) -> None:
    """Their own code clips the rows before they are centred: a record replaced moves 2 C at most.

    Differences of a clip are K d and J d, of symmetric matrices between 0 and 1 (it is the gradient
    of a convex function, 1-Lipschitz): what the record adds, less what the others take back, is
    (1 - 1/b) (K - J) d with J the others' mean, no longer than d itself, which is 2 C at most.
    """
    one: Any = getattr(baselines, name)
    program: Any = one.program
    assert one.scope.adjacency is Adjacency.REPLACE_ONE
    rng = np.random.default_rng(1)
    points = 100.0 ** rng.uniform(-1, 1, (20, 1)) * rng.standard_normal((20, 10))
    query: Any = program.query(points, np.roll(points, 1, axis=0), program.momentum)
    values = 100.0 ** rng.uniform(-2, 2, (200, 1)) * rng.standard_normal((200, 11))
    lengths = np.linalg.norm(query.per_record(values), axis=-1)
    assert (lengths <= query.radius[:, None] * (1 + 1e-12)).all()
    rows = rng.standard_normal((3, 20_000, 2))
    rows *= rng.uniform(0.9, 1, (3, 20_000, 1)) / np.linalg.norm(rows, axis=-1, keepdims=True)
    after, before, mean = rows
    assert 1.7 < furthest_centred(after - mean, before - mean, 1.0) <= 2 * (1 + 1e-9)
    longer = 3 * after - mean, 3 * before - mean
    assert furthest_centred(*longer, 1.0) > 3


@pytest.mark.first_case
@pytest.mark.parametrize("dimension", [2, 3, 4])
def test_centred_gradients_of_users_move_no_further_than_twice_the_radius(dimension: int) -> None:
    """user_level_dp_gd: two rows, the others' mean and the point span four dimensions at most."""
    mechanism = user_level_dp_gd
    program: Any = mechanism.program
    assert mechanism.scope.adjacency is Adjacency.REPLACE_ONE
    length, radius = program.problem.loss.feature_norm, program.radius
    assert (length, radius, program.problem.domain.radius) == (pytest.approx(10**0.5), 2.0, 2.0)
    rng, furthest = np.random.default_rng(dimension), 0.0
    for size in np.linspace(0, 2, 5):
        point = size * np.eye(dimension)[0]
        # A user's row is a mean of those of items, and so is the mean of users' rows.
        share = rng.choice([0.0, 0.0, 0.5, 1.0], (3, 20_000, 1)) * rng.random((3, 20_000, 1))
        after, before, mean = (
            (1 - s) * logistic(point, length, 20_000, rng)
            + s * logistic(point, length, 20_000, rng)
            for s in share
        )
        furthest = max(furthest, furthest_centred(after - mean, before - mean, radius))
    assert 0.9 < furthest / (2 * radius) <= 1 + 1e-9


def test_half_the_steps_still_bring_the_solver_s_error() -> None:
    """ladder_stable_output_perturbation, whose privacy rests on that error and on no count.

    Steps are counted by sqrt(1 - mu/L) each (Nesterov 2004, Theorem 2.2.8), for any smooth loss.
    Of one that is twice differentiable each contracts by 1 - mu/L: a step's map has the eigenvalues
    1 - h/L, h between mu and L, and a projection widens nothing.
    """
    program: Any = stable.ladder_stable_output_perturbation.program
    loss, domain = program.statistic.loss, program.statistic.domain
    whole = loss.steps(0.0, domain.diameter)
    half, shrink = (whole + 1) // 2, 1 - loss.modulus / (loss.modulus + loss.smoothness)
    assert domain.diameter * shrink**half <= loss.error < domain.diameter * shrink ** (whole // 4)
    rng = np.random.default_rng(1)
    items = loss.items(10.0 ** rng.uniform(-2, 2, (200, 1, 1)) * rng.standard_normal((200, 3, 6)))
    for point in rng.standard_normal((20, 1, 1, 5)):
        slope = 1 / (1 + np.exp(-(items * point[0, 0]).sum(-1, keepdims=True)))
        hessian = np.einsum("nik,nil,nia->kl", items, items, slope * (1 - slope)) / (200 * 3)
        assert np.linalg.eigvalsh(hessian).min() >= -1e-12
        assert np.linalg.eigvalsh(hessian).max() <= loss.smoothness


def test_half_of_eighteen_users_are_too_few_for_a_stable_release() -> None:
    """strongly_convex_output_perturbation: of fewer than 4 kappa + 2 users nothing is released."""
    program: Any = stable.strongly_convex_output_perturbation.program
    users, kappa = program.problem.users, program.constants.kappa
    assert users // 2 < 4 * kappa + 2 <= users
    rng, query = np.random.default_rng(1), program.query()
    sizes = 10.0 ** rng.uniform(-6, 6, 20)
    made = [Records(size * rng.standard_normal((users, program.problem.rows, 2))) for size in sizes]
    told = [query.value(one.rows(0, users // 2)) for one in made]
    assert all(np.array_equal(one, told[0]) for one in told)
    assert told[0][0, 0] == 2 * kappa + 1


def test_rows_within_the_radius_may_be_centred_where_a_record_is_added() -> None:
    """layered_sgd: both layers are clipped before the batch's mean is taken away.

    u = r - mean, |u| <= 2 R.  The record adds clip(n/(n+1) u), the others, whose mean moves by
    u/(n+1), take back n/(n+1) A u together, A symmetric between 0 and 1: at most R is left.
    """
    assert layered_sgd.scope.adjacency is Adjacency.ADD_REMOVE
    program: Any = layered_sgd.program
    rng = np.random.default_rng(1)
    weights = 10.0 ** rng.uniform(-2, 2, (20, 1)) * rng.standard_normal((20, 9))
    query: Any = program.query(weights)
    values = 10.0 ** rng.uniform(-3, 3, (200, 1)) * rng.standard_normal((200, 3))
    radius = float(np.max(query.radius))
    assert np.linalg.norm(query.per_record(values), axis=-1).max() <= radius * (1 + 1e-12)
    furthest = 0.0
    for trial in range(400):
        kinds = rng.standard_normal((int(rng.integers(2, 5)), int(rng.integers(1, 4))))
        kinds /= np.linalg.norm(kinds, axis=1, keepdims=True)
        kinds[1] = -kinds[0] if trial % 3 == 0 else kinds[1]
        which = rng.choice(len(kinds), 60, p=rng.dirichlet(np.full(len(kinds), 0.5)))
        whole = centred(kinds[which])
        for one in np.unique(which, return_index=True)[1]:
            moved_by = centred(kinds[np.delete(which, one)]) - whole
            furthest = max(furthest, float(np.linalg.norm(moved_by)))
    assert 0.8 < furthest <= 1 + 1e-9


def test_a_radius_that_follows_a_size_which_all_records_have_is_public() -> None:
    """adaptively_clipped_sgd: what is noted of its counts is 1/2, of whatever records there are."""
    program: Any = adaptively_clipped_sgd.program
    rng, kept_of = np.random.default_rng(1), set()
    for size in 10.0 ** rng.uniform(-3, 3, 20):
        curator: Any = SimpleNamespace()
        query = program.within(size * rng.standard_normal((1, 2)), np.array([size]))
        asked: Any = wrong(query, "private_radius", curator)
        values = 10.0 ** rng.uniform(-3, 3, (50, 1)) * rng.standard_normal((50, 3))
        values[0] = np.nan
        asked.value(Records(values))
        kept_of.add(kept(curator))
        again: Any = wrong(query, "private_radius", curator)
        assert np.array_equal(again.value(Records(values)), query.value(Records(values)))
    assert np.allclose(list(kept_of), 1 / 3, rtol=1e-12)


def test_centred_scores_of_0_or_1_add_up_to_nothing() -> None:
    """tuned_step_size: its second release is of rows of 0 or 1, clipped to 1."""
    program: Any = tuned_step_size.program
    rng = np.random.default_rng(1)
    for size in 10.0 ** rng.uniform(-3, 3, 20):
        one = SimpleNamespace(trials=1)
        right = partial(program.right, size * rng.standard_normal((1, 2)))
        asked: Any = wrong(clipped_sum(right, radius=1), "centre_by_the_batch", one)
        values = size * rng.standard_normal((50, 3))
        values[:, 2] = rng.integers(0, 2, 50)
        values[:2] = [[np.nan], [np.inf]]
        with np.errstate(all="ignore"):
            assert right(values).any()
        assert np.abs(asked.value(Records(values))).max() < 1e-12


@pytest.mark.quality
def test_rounding_far_below_the_noise_is_the_same_program() -> None:
    run = traced(Descent())
    other = [[[v + 1e-15 if v != 1.0 else v for v in one] for one in noted] for noted in run]
    assert same(run, other)
    assert not same(run, [[[v + 1e-6 for v in one] for one in noted] for noted in run])
