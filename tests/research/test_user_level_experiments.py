"""The user-level experiments: data, programs and readings, each against an independent value."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpaudit.kernels.query import Array, Records
from experiments.lab.model import Cell, Experiment, Result, Results, Size, Status
from experiments.lab.papers import agreement, read_file
from experiments.user_level import (
    costs,
    data,
    noise,
    outliers,
    phased,
    problem,
    risk,
    smoothing,
    stability,
)
from experiments.user_level.statements import USER_LEVEL
from mechanisms.papers.common.losses import LeastSquares, Logistic
from mechanisms.papers.srgd.problem import BoundedLogistic
from mechanisms.papers.user_level import accelerated, sampled
from mechanisms.papers.user_level.baselines import regularity
from mechanisms.papers.user_level.phased_erm import UserLevelPhasedERM
from mechanisms.papers.user_level.points import counts_within
from mechanisms.papers.user_level.problem import Problem, SquaredDistance
from mechanisms.papers.user_level.sgd import one_pass_sgd
from mechanisms.papers.user_level.smoothing import BallSmoothedLoss

ALL = (
    risk.user_level_risk,
    noise.user_level_noise,
    outliers.user_level_outliers,
    stability.user_level_stability,
    smoothing.user_level_smoothing,
    costs.user_level_costs,
    data.user_level_data,
)
RNG = np.random.default_rng


def results(*rows: tuple[dict[str, Any], dict[str, Any]]) -> Results:
    return Results(tuple(Result(Cell.of(**cell), values) for cell, values in rows))


@pytest.mark.parametrize("experiment", ALL, ids=lambda e: e.name)
def test_grids_are_distinct_and_small_ones_are_smaller(experiment: Experiment) -> None:
    small, full = (list(experiment.cells(size)) for size in (Size.QUICK, Size.FULL))
    assert len({cell.name for cell in full}) == len(full) >= len(small) > 0


# --- the problem ----------------------------------------------------------------------------------


def test_items_are_signs_with_the_stated_mean() -> None:
    found = problem.sample(400, 50, RNG(0))
    assert np.allclose(np.linalg.norm(found, axis=2), 1)
    error = 5 * math.sqrt((1 - 0.09) / 5 / found[..., 0].size)
    assert np.abs(found.mean(axis=(0, 1)) - problem.MEAN).max() < error  # five deviations


def test_excess_is_the_difference_of_the_risks() -> None:
    points = RNG(1).uniform(-0.4, 0.4, size=(3, 5))
    corners = np.stack(np.meshgrid(*[[-1, 1]] * 5), axis=-1).reshape(-1, 5)
    chances = np.prod((1 + 0.3 * corners) / 2, axis=1)
    items = corners / math.sqrt(5)

    def loss(x: np.ndarray) -> float:
        return float(chances @ np.square(x - items).sum(axis=1) / 2)

    expected = [loss(x) - loss(problem.MEAN) for x in points]
    assert problem.excess(points) == pytest.approx(expected)


def test_the_bounded_distance_is_as_regular_as_it_says() -> None:
    loss = problem.BoundedDistance(5, 4.0)
    points = RNG(2).normal(size=(50, 5))
    points *= 4 / np.linalg.norm(points, axis=1, keepdims=True)
    records = 100 * RNG(3).normal(size=(30, 5))
    lipschitz, smoothness = regularity(loss)
    assert np.linalg.norm(loss.gradients(points, records), axis=2).max() <= lipschitz + 1e-12
    near = loss.gradients(points + 1e-3, records) - loss.gradients(points, records)
    assert np.linalg.norm(near, axis=2).max() <= smoothness * 1e-3 * math.sqrt(5) * (1 + 1e-9)
    paired = loss.gradients(points[:30], records[:, None, :])
    assert paired[:, 0] == pytest.approx(loss.gradients(points[:30], records)[range(30), range(30)])


def test_a_run_without_noise_is_the_groups_mean() -> None:
    program = problem.algorithm_1(1600, 2)
    users = problem.sample(1600, 2, RNG(4))
    (phase,) = program.phases
    x = np.zeros((800, 5))
    total = np.zeros_like(x)
    for t in range(2):  # one user a group, of two items; no point leaves the ball
        x = x - phase.step * (x - users[:800, t])
        total += x
    assert problem.without_noise(program, users) == pytest.approx((total / 2).mean(axis=0)[None])


# --- the passes -----------------------------------------------------------------------------------

LOSSES = [Logistic(), Logistic(l2=0.1), LeastSquares(), BoundedLogistic(norm=1.0)]


def labelled(groups: int, steps: int, scale: float) -> np.ndarray:
    found = scale * RNG(13).normal(size=(groups, steps, 6))
    found[..., 5] = found[..., 5] > 0
    return found


def by_hand(on: Problem, start: np.ndarray, users: np.ndarray, step: float) -> np.ndarray:
    """One group's pass by the loss's own gradients, clipped and projected row by row."""
    x, total = start, np.zeros(5)
    for row in users.reshape(-1, 6):
        slope = on.loss.gradients(x[None], row[None])[0, 0]
        slope = slope if np.isfinite(slope).all() else np.zeros(5)
        x = x - step * slope * np.minimum(1, on.lipschitz / (np.linalg.norm(slope) + 1e-300))
        x = x * np.minimum(1, on.radius / np.linalg.norm(x))
        total = total + x - start
    return total / users[..., 0].size


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize(("radius", "lipschitz", "scale"), [(9, 9, 1), (0.3, 0.5, 2), (0.5, 9, 1)])
def test_passes_are_those_by_hand(loss: Any, radius: float, lipschitz: float, scale: float) -> None:
    on, users = Problem(loss, 6, 7, 5, radius, lipschitz), labelled(6, 7, scale)
    users[1, 2], users[3, 4, 0], users[5] = np.nan, np.inf, users[4]
    starts = on.project(RNG(14).normal(size=(2, 5)))
    with np.errstate(all="ignore"):
        found = one_pass_sgd(on, starts, users, 6, 0.1)
        for k, start in enumerate(starts):
            for group in range(6):
                expected = by_hand(on, start, users[group], 0.1)
                assert found[k, group] == pytest.approx(expected, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_a_group_depends_on_no_other_bit_by_bit(loss: Any) -> None:
    """Not on how many groups differ, nor on whether some of them are clipped or projected."""
    on, users = Problem(loss, 8, 9, 5, 0.5, 0.8), labelled(8, 9, 0.7)
    start = np.full((1, 5), 0.2)
    (first,) = one_pass_sgd(on, start, users, 8, 0.3)[:, 0]
    for others in (users[:1], users[1:2], 5 * users[2:3], 0 * users[:1]):
        changed = np.concatenate([users[:1], np.repeat(others, 7, axis=0)])
        assert (one_pass_sgd(on, start, changed, 8, 0.3)[0, 0] == first).all()


def test_counts_by_a_core_are_those_of_all_pairs() -> None:
    rng = RNG(15)
    for trial in range(200):
        points = rng.choice([0.1, 0.4, 1.0]) * rng.normal(size=(1, 30, 2))
        points[0, :10] = np.round(points[0, :10] * 4) / 4 + (trial % 3) * 2
        points[0, trial % 30, 0] = (np.nan, np.inf, 1e300, 0.0)[trial % 4]
        with np.errstate(all="ignore"):
            apart = points[0][:, None] - points[0]
            found = counts_within(points, 1.0, (1.0, 2.0))
            squares = np.square(apart[..., 0]) + np.square(apart[..., 1])
        for radius, counts in zip((1.0, 2.0), found, strict=True):
            expected = (squares <= radius**2).sum(axis=1)  # of NaN nothing: it counts itself
            assert (counts[0] == np.maximum(expected, 1)).all()


# --- readings -------------------------------------------------------------------------------------


def test_slopes_of_the_risk_are_judged() -> None:
    rows = []
    for method in risk.NAMES:
        for n, m in {(8192, 4), (8192, 16), (8192, 256), (2048, 16)}:
            level = 2 * (m * n) ** -0.5 * (1 if method == "private" else 0.1)
            values = {"risk": [0.98 * level, 1.02 * level], "halted": 0, "phases": 3}
            rows.append(({"method": method, "users": n, "items": m, "draws": 2}, values))
    found = risk.read(results(*rows))
    assert {check.status for check in found.checks} == {Status.HELD}
    assert found.checks[0].value == pytest.approx(-0.5)
    assert found.checks[1].value == pytest.approx(-0.5)
    assert found.checks[2].value == pytest.approx(0.5)
    assert found.checks[2].margin == pytest.approx(2 * 0.5 * math.sqrt(2) * 0.02)


def test_a_risk_of_another_rate_in_users_is_missed() -> None:
    rows = []
    for method in risk.NAMES:
        for n, m in {(8192, 4), (8192, 16), (8192, 256), (2048, 16)}:
            level = m**-0.5 * n**-1.0
            values = {"risk": [0.99 * level, 1.01 * level], "halted": 0, "phases": 3}
            rows.append(({"method": method, "users": n, "items": m, "draws": 2}, values))
    found = {check.name: check.status for check in risk.read(results(*rows)).checks}
    assert found["Algorithm 1: slope in items a user"] is Status.HELD
    assert found["Algorithm 1: slope in users"] is Status.MISSED


def noises(own: float, group: float) -> dict[str, Status]:
    """Checks where Algorithm 3's noise is half FKT20's at m = 4, and these are powers of m."""
    rows = [
        ({"method": method, "items": m, "users": noise.COUNT},
         {"spread": level * (m / 4) ** power, "halted": 0.0, "runs": 2_000})
        for method, level, power in (("same", 1, -0.5), ("own", 0.5, own), ("group", 1, group))
        for m in (4, 12, 36)
    ] + [({"schedule": name}, {"gap": 0.0}) for name in noise.LADDERS]  # fmt: skip
    return {check.name: check.status for check in noise.read(results(*rows)).checks}


def test_noise_beside_group_privacy_is_judged_by_its_slope() -> None:
    slope = f"{noise.RATIO}: slope in m"
    assert set(noises(-0.5, 0.0).values()) == {Status.HELD}
    assert noises(-0.1, 0.0)[slope] is Status.MISSED
    assert noises(0.0, 0.5)[slope] is Status.HELD  # the ratio alone counts
    assert noises(0.5, 0.0)[slope] is Status.MISSED


def test_the_spread_of_outputs() -> None:
    outputs = RNG(5).normal(size=(20_000, 5))
    assert noise.spread(outputs) == pytest.approx(math.sqrt(5), rel=0.02)


@pytest.mark.parametrize("name", noise.LADDERS)
def test_ladders_are_told_from_others(name: str) -> None:
    program, power = noise.LADDER[name]()
    assert noise.ladder_gap(program, power) < 1e-12
    assert noise.ladder_gap(program, power - 0.5) == pytest.approx(1 - 0.5**0.5)
    phases = (*program.phases[:-1], replace(program.phases[-1], radius=1.0))
    assert noise.ladder_gap(replace(program, phases=phases), power) > 1e-3


def test_the_noise_of_one_schedule_falls_as_tau() -> None:
    few, many = (noise.same_schedule(5_000, m) for m in (4, 36))
    assert few.radius / many.radius == pytest.approx(3)
    assert few.phases == many.phases


def test_outliers_stand_in_the_last_groups_of_every_phase() -> None:
    program = problem.algorithm_1(3300, 4)
    found = outliers.mixed(program, 0.1, RNG(6))
    sizes = [phase.users for phase in program.phases]
    wrong = (found == -1 / math.sqrt(5)).all(axis=(1, 2))
    assert sizes == [1650, 825]
    assert wrong[:1600].sum() == pytest.approx(160, abs=20)  # a user at random has this by chance
    assert wrong[1440:1600].all()
    assert wrong[1650 + 720 : 1650 + 800].all()


def test_a_first_phase_halts_as_its_score_says() -> None:
    """Two clusters of 80% and 20%: s = (.8^2 + .2^2) C, far below the threshold."""
    program = problem.algorithm_1(1600, 64, outliers.CLOSER)
    users = outliers.mixed(program, 0.2, RNG(7))
    found = outliers.first_phase(program, users, 0.2, 20, RNG(8))
    assert found["score"] == pytest.approx(0.68, abs=0.05)
    assert found["halted"] == 20
    assert found["expected"] == pytest.approx(1, abs=1e-6)


def test_no_group_of_i_i_d_users_is_removed() -> None:
    program = problem.algorithm_1(1600, 4)
    assert outliers.removed(program, problem.sample(1600, 4, RNG(9)), RNG(10)) == [0.0]


def test_distances_of_a_linear_loss() -> None:
    """E ||difference||^2 = 2 d step^2 var sum_k (k/T)^2 of the T items of a group."""
    loss, radius = stability.LOSSES["linear"]
    on = Problem(loss, 2_000, 32, 5, radius, 2.0)
    found = stability.distances(on, RNG(11))
    weights = np.arange(1, 33) / 32
    variance = 2 * stability.STEP**2 * (1 - 0.09) * np.square(weights).sum()
    assert np.square(found).mean() == pytest.approx(variance, rel=0.1)


@pytest.mark.parametrize("place", [0.0, 0.1, 0.3, 0.5, 0.8, 2.0])
def test_the_exact_smoothed_distance(place: float) -> None:
    """Against a sum over shells and directions, and its own difference quotient."""
    r = (np.arange(400) + 0.5) / 400 * smoothing.RADIUS
    u = (np.arange(400) + 0.5) / 200 - 1
    lengths = np.sqrt(place**2 + r[:, None] ** 2 + 2 * place * r[:, None] * u)
    mean = (lengths.mean(axis=1) * 3 * r**2 / smoothing.RADIUS**3).mean() * smoothing.RADIUS
    assert smoothing.exact(place) == pytest.approx(mean, rel=1e-4)
    slope = (smoothing.exact(place + 1e-6) - smoothing.exact(abs(place - 1e-6))) / 2e-6
    assert smoothing.exact_slope(place) == pytest.approx(slope, abs=1e-5)


def test_biased_gradients_are_noticed() -> None:
    cell = {"place": 1.0, "draws": 100}
    good = {"value": smoothing.exact(0.5), "value_error": 1e-3,
            "slope": smoothing.exact_slope(0.5), "slope_error": 1e-3}  # fmt: skip
    held, missed = (
        smoothing.read(results((cell, {**good, "slope": good["slope"] + shift}))).checks[0].status
        for shift in (0.0, 0.01)
    )
    assert (held, missed) == (Status.HELD, Status.MISSED)


@pytest.mark.parametrize(("sign", "printed"), [(1, Status.MISSED), (-1, Status.HELD)])
def test_lemma_d_1_as_printed_is_judged_by_the_sign(sign: int, printed: Status) -> None:
    """A smoothed value above f misses what is printed; one below it, what is corrected."""
    values = {"value": 0.5 + sign * 0.1, "value_error": 1e-4, "slope": 1.0, "slope_error": 1.0}
    read = smoothing.read(results(({"place": 1.0, "draws": 100}, values)))
    found = {check.name: check.status for check in read.checks}
    largest, least = (f"{word} (f_r - f) / (L r), measured" for word in ("largest", "least"))
    assert found[f"as printed: {largest}"] is printed
    assert found[f"as printed: {least}"] is found[largest] is Status.HELD
    assert found[least] is (Status.HELD if sign > 0 else Status.MISSED)


# --- gradients ------------------------------------------------------------------------------------


def counted(power: float, times: float = 1.0) -> dict[str, Status]:
    """Checks of costs where all runs take (n m)^power gradients, times what they declare."""
    rows = []
    for cell in costs.cells(Size.FULL):
        at = dict(cell.parameters)
        if at["kind"] == "run":
            declared = (cell.number("users") * cell.number("items")) ** power
            values = {"taken": times * declared, "evaluations": declared, "declared": declared,
                      "first": declared, "halted": 0}  # fmt: skip
            if cell.text("method") == "sgd":
                values["evaluations"] = cell.number("users")
            rows.append((at, values))
    found = results(*rows)
    slopes = {method: costs._slopes(found, method) for method in costs.RUNS}
    checks = [*costs._counts(found), *costs._judged(slopes)]
    return {check.name: check.status for check in checks}


def test_counts_are_judged_by_figure_1s_exponents() -> None:
    """Those of Algorithm 3 at 9/8, and smoothed at 11/8 and 5/4; at 1 none is."""
    judged = "exponent of {} in the counted gradients"
    names = ("Algorithm 3", "Algorithm 3 on secret batches")
    good, other = counted(9 / 8), counted(1.0)
    for axis in ("users", "items"):
        for name in names:
            assert good[f"{name}: {judged.format(axis)}"] is Status.HELD
            assert other[f"{name}: {judged.format(axis)}"] is Status.MISSED
        assert good[f"Algorithm 3, smoothed: {judged.format(axis)}"] is Status.MISSED
    assert counted(11 / 8)[f"Algorithm 3, smoothed: {judged.format('users')}"] is Status.HELD
    assert counted(5 / 4)[f"Algorithm 3, smoothed: {judged.format('items')}"] is Status.HELD


def test_a_run_that_takes_more_than_it_declares_is_missed() -> None:
    name = "Algorithm 3 on secret batches: counted minus declared gradients"
    assert (counted(9 / 8)[name], counted(9 / 8, 2.0)[name]) == (Status.HELD, Status.MISSED)


def test_secret_batches_take_the_gradients_of_their_own_users(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The sum of T_i K_i m, as declared; of all users of a phase it would be that of T_i n_i m."""
    on = problem.problem(1_000, 1)
    made, declared, first = costs._secret(on)
    assert isinstance(made, UserLevelPhasedERM)
    cell = Cell.of(kind="run", method="secret", users=1_000, items=1)
    found = costs.run(cell, RNG(12))
    assert found["halted"] == 0
    assert found["taken"] == found["evaluations"] == declared
    assert declared == sum(p.rounds * p.batch for p in made.phases)
    assert found["first"] == first == made.phases[0].rounds * made.phases[0].batch

    def of_all(at: Problem, points: Array, users: Array, asked: Array) -> Array:
        return at.user_gradients(points, users)[:, asked]

    monkeypatch.setattr(sampled, "gradients_of", of_all)
    wasteful = costs.run(cell, RNG(12))
    assert wasteful["taken"] == sum(phase.rounds * phase.users for phase in made.phases)


@pytest.mark.parametrize("loss", [SquaredDistance(3), BallSmoothedLoss(SquaredDistance(3), 0.1)])
def test_gradients_of_some_users_are_those_among_all(loss: Any) -> None:
    """To the last bit, public shifts included, which belong to places."""
    on = Problem(loss, 40, 4, 3, 1.0, 1.0)
    users, points = RNG(3).normal(size=(40, 4, 3)), RNG(4).normal(size=(2, 3))
    asked = np.array([0, 7, 8, 31, 39])
    every = on.user_gradients(points, users)
    found = sampled.gradients_of(on, points, users, asked)
    np.testing.assert_array_equal(found, every[:, asked])


def test_the_formulas_have_the_ratios_of_section_1() -> None:
    ratio, smooth, wrong = (float(row[1]) for row in costs._ratios().rows)
    assert (ratio, smooth) == pytest.approx((1, 1), abs=0.05)
    assert wrong == 0


@pytest.mark.parametrize("method", ["sgd", "erm", "full"])
def test_counted_gradients_are_the_declared_ones(method: str) -> None:
    cell = Cell.of(kind="run", method=method, users=900, items=1)
    found = costs.run(cell, RNG(12))
    assert found["taken"] == found["declared"]
    assert found["evaluations"] == found["taken"]


def test_a_round_that_forgets_takes_its_gradients_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accelerated, "_same_memory", lambda first, second: False)
    found = costs.run(Cell.of(kind="run", method="erm", users=900, items=1), RNG(12))
    assert found["evaluations"] == np.multiply(2, found["taken"])


def test_a_round_keeps_gradients_of_the_same_users_alone_and_no_longer_than_it_lasts() -> None:
    """Of other records, or of memory that may change, gradients are taken anew."""
    calls = []

    def gradients(users: Array) -> Array:
        calls.append(users)
        return users.sum(axis=1)[None]

    first, second = (Records(RNG(k).normal(size=(6, 2, 3))).values for k in (1, 2))
    with accelerated.AskedTwice(gradients) as kept:
        assert kept(first[:4]) is kept(first[:4])
        assert len(calls) == 1
        np.testing.assert_array_equal(kept(second[:4]), second[:4].sum(axis=1)[None])
        assert kept(first[:5]).shape != kept(first[:4]).shape
        changing = np.ones((4, 2, 3))
        kept(changing)
        changing += 1.0
        np.testing.assert_array_equal(kept(changing), changing.sum(axis=1)[None])
    count = len(calls)
    kept(first[:4]), kept(first[:4])
    assert len(calls) == count + 2


def test_a_counting_loss_counts() -> None:
    loss = costs.Counted(5)
    points = np.ones((2, 5))
    for rows in (np.zeros((7, 5)), np.ones((7, 5)), np.ones((7, 5))):
        assert (loss.gradients(points, rows) == SquaredDistance(5).gradients(points, rows)).all()
    assert (loss.taken, loss.evaluations) == (14, 28)


@pytest.mark.parametrize("method", costs.FIGURE_1)
def test_formulas_have_figure_1s_exponents(method: str) -> None:
    _, users, items = costs.FIGURE_1[method]
    found = costs.exponents(method)
    assert (found["users"], found["items"]) == pytest.approx((users, items), abs=0.02)


# --- real data ------------------------------------------------------------------------------------


def test_simulated_users_are_the_same_rows_in_either_order() -> None:
    random, planned = (data.people(order) for order in ("random", "by plan"))
    assert random.shape == planned.shape == (3230, 5, 11)
    assert np.isclose(random.sum(), planned.sum())
    plan = planned[..., data.COLUMN]
    assert (np.diff(plan.reshape(-1)) >= 0).all()
    assert (plan == plan[:, :1]).all(axis=1).mean() > 0.99 > (random[..., 0] == plan).mean()


def test_no_model_has_the_loss_of_a_coin() -> None:
    found = data.holdout(np.zeros((1, 10)))
    assert found["loss"] == [pytest.approx(math.log(2))]


def test_countries_are_the_complete_ones() -> None:
    found = data.countries()
    assert found.shape == (192, 52, 1)
    assert np.abs(found).max() <= 1
    program = data.fertility_program(1.0)
    assert [phase.users for phase in program.phases] == [96]
    assert program.constants.groups == 88
    (points,) = program.query(program.phases[0], np.zeros((1, 1))).points(found[:96])
    (near,) = counts_within(points[None], program.phases[0].radius, (1.0,))
    assert (near == 88).all()


# --- the page -------------------------------------------------------------------------------------


@pytest.mark.quality
@pytest.mark.parametrize("experiment", [*ALL, phased.user_level_phased], ids=lambda e: e.name)
def test_what_does_not_hold_is_read_by_a_statement(experiment: Experiment, checkout: Path) -> None:
    """Every check of a committed result that is not held decides a row of the paper's page."""
    read = read_file(experiment, checkout / "experiments" / "results")
    assert read.findings is not None, read.why
    decided = [
        check.name
        for statement in USER_LEVEL.statements
        if statement.experiment == experiment.name
        for check in agreement(statement, read)[1]
    ]
    open_ones = [c.name for c in read.findings.checks if c.status is not Status.HELD]
    assert set(open_ones) <= set(decided)
