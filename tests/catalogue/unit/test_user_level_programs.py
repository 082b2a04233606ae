"""Programs of paper 1: geometry, refusals before data, runs, and what halts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from audits.user_level import attacked, rows
from dpaudit.curator.curator import Sampler, Tracer
from dpaudit.curator.mechanism import Mechanism
from dpaudit.errors import DpauditError, InvalidParameter, Unsupported
from dpaudit.kernels.query import Array, Records
from dpaudit.scope import Adjacency, Scope, Trust, Unit, central
from mechanisms.papers.common.losses import LeastSquares, Logistic
from mechanisms.papers.user_level import baselines_catalogue, catalogue, options_catalogue
from mechanisms.papers.user_level.acsa import ac_sa, one_stage, restarts
from mechanisms.papers.user_level.batches import (
    BatchConstants,
    calibrate_batches,
    printed_batch,
    users_needed,
)
from mechanisms.papers.user_level.constants import ReleaseConstants, calibrate_release
from mechanisms.papers.user_level.entries import LOSS, PROBLEM
from mechanisms.papers.user_level.formulas import (
    Sizes,
    excess_risk_bound,
    gradient_complexity,
)
from mechanisms.papers.user_level.outliers import OutlierRemovedMean, OutlierRemovedQuery
from mechanisms.papers.user_level.phased_sgd import phased_sgd_of, printed_phased_sgd
from mechanisms.papers.user_level.points import (
    concentration_score,
    counts_within,
    inlier_probabilities,
)
from mechanisms.papers.user_level.problem import USERS, LinearLoss, Problem, SquaredDistance
from mechanisms.papers.user_level.readings import SlotScoreQuery, most_filled, slot_counts
from mechanisms.papers.user_level.sgd import one_pass_sgd, sgd_two_run_radius
from mechanisms.papers.user_level.smoothing import BallSmoothedLoss, ball_shifts
from mechanisms.papers.user_level.textbook import advanced_composition, amplify_by_subsampling

FOUND = {**vars(catalogue), **vars(baselines_catalogue), **vars(options_catalogue)}
MECHANISMS = [m for m in FOUND.values() if isinstance(m, Mechanism)]
SMALL = ReleaseConstants(
    122, Fraction(1), Fraction(115), Fraction(4, 5), Fraction("0.1097"), "weighted"
)
DELTA = Fraction(1, 10**6)


def scores_by_hand(points: Array, radius: float) -> float:
    distance = np.linalg.norm(points[:, None] - points[None], axis=-1)
    return float((distance <= radius).sum() / len(points))


def test_counts_are_those_of_all_pairs() -> None:
    rng = np.random.default_rng(0)
    points = rng.normal(size=(3, 40, 2)) * np.array([1.0, 1e-8, 1e8])[:, None, None]
    units = np.array([0.7, 0.7e-8, 0.7e8])
    points[0, 5:20] = points[0, 4]
    (found,) = counts_within(points, units, (1.0,))
    for trial in range(3):
        distance = np.linalg.norm(points[trial][:, None] - points[trial][None], axis=-1)
        assert (found[trial] == (distance <= units[trial]).sum(axis=1)).all()
    assert concentration_score(points[:1], 0.7)[0] == scores_by_hand(points[0], 0.7)


def test_a_point_that_is_not_a_number_is_near_to_itself_alone() -> None:
    points = np.array([0.0, 0.1, np.nan, np.nan, np.inf, 0.2])[None, :, None]
    assert counts_within(points, 1.0, (1.0,))[0][0].tolist() == [3, 3, 1, 1, 1, 3]
    moved = np.where(np.arange(6)[None, :, None] == 2, 0.0, points)
    change = concentration_score(moved, 1.0)[0] - concentration_score(points, 1.0)[0]
    assert change == pytest.approx(2 * 3 / 6)


@pytest.mark.parametrize("unit", [0.0, -1.0, np.nan, np.inf])
def test_counts_refuse_a_radius(unit: float) -> None:
    with pytest.raises(InvalidParameter, match="positive, finite"):
        counts_within(np.zeros((1, 4, 1)), unit, (1.0,))


def test_one_point_moves_score_and_probabilities_as_stated() -> None:
    """400 random clouds on a line, the first point moved: the bounds of a replaced user."""
    rng = np.random.default_rng(1)
    worst = 0.0
    for _ in range(400):
        count = int(rng.choice([6, 8, 12, 20]))
        points = rng.normal(size=(1, count, 1)) * rng.choice([0.5, 1.0, 2.0])
        other = points.copy()
        other[0, 0] = rng.normal() * 3
        one, two = (concentration_score(p, 1.0)[0] for p in (points, other))
        worst = max(worst, abs(one - two) / (2 * (count - 1) / count))
        counts = [counts_within(p, 1.0, (2.0,))[0] for p in (points, other)]
        p, q = (inlier_probabilities(c)[0, 1:] for c in counts)
        assert np.abs(p - q).max() <= 6 / count + 1e-12
    assert 0.5 < worst <= 1 + 1e-12


def fixed(points: Array) -> Callable[[Array], Array]:
    return lambda users: points


def test_a_weighted_mean_moves_by_less_than_its_unit() -> None:
    """Stable clouds of 30 points, one moved within the ramp: within 4 tau (6 (1 - rho) + 2)/rho C.

    rho = 2/3; the first 23 points are in a core.
    """
    made = ReleaseConstants(30, Fraction(1), Fraction(25), Fraction(2, 3), Fraction(1), "weighted")
    rng, unit, seen = np.random.default_rng(2), float(made.unit), 0
    for _ in range(300):
        points = np.concatenate([np.zeros(23), rng.uniform(0, 3.5, size=7)])[None, :, None]
        other = points.copy()
        other[0, rng.integers(30)] = rng.uniform(-3, 3.5)
        queries = [OutlierRemovedQuery(fixed(p), 1.0, made, 1) for p in (points, other)]
        a, b = (query.value(Records(np.zeros((30, 1))))[0] for query in queries)
        stable = max(a[0], b[0]) * float(made.score_sensitivity) + 25 >= 2 / 3 * 30 + 1
        seen += stable
        assert not stable or abs(a[1] - b[1]) <= unit
    assert seen > 150


def test_groups_run_their_own_pass() -> None:
    problem = Problem(LinearLoss(2), 6, 2, 2, 1e3, 1.0)
    users = np.random.default_rng(3).normal(size=(6, 2, 2)) / 4
    start = np.array([[1.0, 2.0], [1.0, 2.0], [-5.0, 0.0]])
    found = one_pass_sgd(problem, start, users, 3, 0.1)
    assert found.shape == (3, 3, 2)
    rows_of = users.reshape(3, 4, 2)
    expected = -0.1 * np.cumsum(rows_of, axis=1).mean(axis=1)
    assert np.allclose(found[2], expected)
    constant = np.tile(np.array([0.3, 0.0]), (6, 2, 1))
    moved = one_pass_sgd(problem, start[:1], constant, 3, 0.1)
    assert np.allclose(moved[0, :, 0], -0.1 * 0.3 * 5 / 2)


def test_a_group_is_the_same_bit_by_bit_whatever_the_others_hold() -> None:
    """A tie of distances must not be broken by another user: 40 sets of users, others replaced."""
    rng = np.random.default_rng(11)
    for trial in range(40):
        groups, loss = int(rng.integers(6, 40)), (LOSS, LeastSquares(), Logistic())[trial % 3]
        made = Problem(loss, 2 * groups, 3, 10, float(rng.choice([0.05, 2.0])), 3.2)
        users = rng.normal(size=(2 * groups, 3, 11))
        start = made.project(rng.normal(size=(2, 10)))
        mine, kept = int(rng.integers(groups)), one_pass_sgd(made, start, users, groups, 0.1)
        for others in (np.zeros_like(users), 1e3 * users, np.tile(users[:1], (2 * groups, 1, 1))):
            others[2 * mine : 2 * mine + 2] = users[2 * mine : 2 * mine + 2]
            found = one_pass_sgd(made, start, others, groups, 0.1)
            assert np.array_equal(found[:, mine], kept[:, mine])


def test_tiny_steps_keep_their_digits() -> None:
    problem = Problem(LinearLoss(1), 2, 1, 1, 1e9, 1.0)
    found = one_pass_sgd(problem, np.array([[123.0]]), np.array([[[0.3]], [[0.7]]]), 2, 1e-15)
    assert np.allclose(found[0, :, 0] / 1e-15, [-0.3, -0.7])


def test_data_that_are_not_finite_are_nobodys_business() -> None:
    program = attacked(catalogue.outlier_removed_mean.program)
    first, _ = rows(program)
    first[3] = np.nan
    first[4] = np.inf
    first[5] = 1e300
    sampler = Sampler(
        program.declaration(USERS), USERS, Records(first), rng=np.random.default_rng(0), trials=50
    )
    released: Any = program.run(sampler)
    assert np.abs(released[~np.isnan(released)]).max() < 2


@pytest.mark.first_case("mechanism", by=lambda mechanism: type(mechanism.program))
@pytest.mark.parametrize("mechanism", [m for m in MECHANISMS if m.records], ids=lambda m: m.name)
def test_declarations_trace_on_placeholders(mechanism: Mechanism) -> None:
    assert mechanism.records is not None
    records = mechanism.records()
    tracer = Tracer(mechanism.declaration, mechanism.scope, records.placeholder())
    mechanism.program.run(tracer)
    assert tracer.trace


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda m: m.name)
def test_only_replacing_a_user_is_declared(mechanism: Mechanism) -> None:
    per_record = central("replace_one")
    none_added = Scope(Adjacency.ADD_REMOVE, Unit.USER, Trust.CENTRAL, USERS.released)
    for scope in (per_record, none_added):
        with pytest.raises(InvalidParameter, match="replace_one of a user"):
            mechanism.program.declaration(scope)


def test_a_run_that_halts_gives_the_start() -> None:
    program = attacked(catalogue.user_level_phased_sgd_random.program)
    spread = np.zeros((3230, 1, 2))
    spread[:, 0, 0] = np.linspace(-1, 1, 3230)
    sampler = Sampler(
        program.declaration(USERS), USERS, Records(spread), rng=np.random.default_rng(0), trials=4
    )
    found: Any = program.run(sampler)
    assert found.halted.all()
    assert (found.output == 0).all()


# --- refusals before data -------------------------------------------------------------------------


def problem(users: int, items: int = 5) -> Problem:
    return replace(PROBLEM, users=users, items=items)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: phased_sgd_of(problem(243), SMALL), "at least 2 C = 244"),
        (lambda: printed_phased_sgd(problem(1000, 10), 1, DELTA), "it needs at least 69329"),
        (lambda: calibrate_batches(1, DELTA, 500, 50), "it needs at least"),
        (lambda: OutlierRemovedMean(100, 1, 1.0, 1.0, SMALL), "it needs 122 users"),
        (lambda: calibrate_release(11, DELTA), "Theorems 2.1 and 3.1 are for 0 < epsilon <= 10"),
        (lambda: calibrate_release(1, 0), "0 < delta < 1"),
        (lambda: calibrate_release(1, DELTA, share=Fraction(1)), "share"),
        (lambda: replace(SMALL, groups=121), "even number"),
        (lambda: replace(SMALL, core=Fraction(1, 2)), "2/3 <= rho < 1"),
        (lambda: replace(SMALL, threshold=Fraction(98)), "more than rho C"),
        (lambda: replace(SMALL, noise=Fraction(0)), "positive"),
        (lambda: BatchConstants(21, 5, Fraction(1), Fraction(1)), "even number"),
        (lambda: problem(0), "whole number"),
        (lambda: replace(PROBLEM, radius=float("nan")), "positive, finite"),
        (lambda: BallSmoothedLoss(LOSS, 0.0), "positive, finite"),
        (lambda: restarts(5, 1.0, 1.0, float("nan"), 1.0), "variance"),
        (lambda: gradient_complexity("none", Sizes(10, 10, 10)), "expected one of"),
        (lambda: sgd_two_run_radius(0.1, 1.0, 1, 1.0), "expected >= 2"),
    ],
)
def test_what_does_not_fit_is_refused(make: Any, words: str) -> None:
    with pytest.raises(DpauditError, match=words):
        make()


def test_unequal_items_are_refused_by_name() -> None:
    program = attacked(catalogue.outlier_removed_mean.program)
    sampler = Sampler(
        program.declaration(USERS), USERS, Records(np.zeros((800, 3, 2))),
        rng=np.random.default_rng(0),
    )  # fmt: skip
    with pytest.raises(InvalidParameter, match="equally many"):
        program.run(sampler)


def test_secret_batches_cannot_be_run() -> None:
    with pytest.raises(Unsupported, match="use K = n"):
        catalogue.user_level_accelerated_sgd_secret_batches.program.run(None)  # type: ignore[arg-type]


def test_the_printed_batch_exceeds_the_users() -> None:
    assert printed_batch(5912, 1000, 1.0, 1e-10, 24) == pytest.approx(6_970_096, rel=1e-3)
    assert users_needed(8, DELTA, 5) == 368


# --- optimisers, losses, formulas -----------------------------------------------------------------


def quadratic() -> tuple[Array, Array]:
    return np.linspace(0.01, 1, 20), np.random.default_rng(0).normal(size=20)


@pytest.mark.parametrize(
    ("steps", "printed"), [(20, 2.1e-4), (80, 6.3e-6), (320, 1.1e-7), (1280, 1.1e-9)]
)
def test_one_stage_of_ac_sa_on_a_quadratic(steps: int, printed: float) -> None:
    """Excess on the reference problem, below 2 phi |x|^2 / (T (T + 1))."""
    curvature, optimum = quadratic()
    start = np.zeros((1, 20))
    last = ac_sa(
        start, lambda x: curvature * (x - optimum), one_stage(steps, 1.0), 0.01, lambda x: x
    )
    excess = float((curvature * (last[0] - optimum) ** 2).sum() / 2)
    bound = 4 * float(optimum @ optimum) / (steps * (steps + 1))
    assert excess <= bound
    assert excess == pytest.approx(printed, rel=1.0)


def test_restarts_without_noise() -> None:
    curvature, optimum = quadratic()
    stages = restarts(171, 1.0, 0.01, 0.0, 1.0)
    assert [stage.steps for stage in stages] == [57, 57, 57]
    last = ac_sa(np.zeros((1, 20)), lambda x: curvature * (x - optimum), stages, 0.01, lambda x: x)
    assert float((curvature * (last[0] - optimum) ** 2).sum() / 2) < 1e-5
    assert sum(stage.steps for stage in restarts(100, 1.0, 0.01, 4.0, 1.0)) == 100


def test_a_smoothed_loss_is_close_and_its_gradients_unbiased() -> None:
    """4,000 shifts of ||x - z||^2 / 2 in three dimensions: within six standard errors."""
    base, radius = SquaredDistance(3), 0.5
    smoothed = BallSmoothedLoss(base, radius)
    x, z = np.array([[0.3, -0.2, 0.1]]), np.zeros((4_000, 3))
    gradients = smoothed.gradients(x, z)
    assert gradients.shape == (1, 4_000, 3)
    assert np.abs(gradients[0].mean(axis=0) - x[0]).max() < 6 * radius / np.sqrt(4_000)
    raised = smoothed.values(x, z).mean() - base.values(x, z[:1])[0, 0]
    assert raised == pytest.approx(radius**2 * 3 / 5 / 2, rel=0.2)
    assert (smoothed.gradients(x, z) == gradients).all()
    shifts = ball_shifts(5_000, 2, 2.0, np.random.default_rng(0))
    inside = float((np.linalg.norm(shifts, axis=1) < 1.0).mean())
    assert abs(inside - 0.25) < 0.04
    assert LeastSquares().dimension(3) == 3


def test_shifts_of_a_point_depend_on_no_other_point() -> None:
    smoothed = BallSmoothedLoss(LinearLoss(2), 0.5)
    first, second = np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([[1.0, 2.0], [9.0, 4.0]])
    z = np.ones((5, 2))
    assert (smoothed.values(first, z)[0] == smoothed.values(second, z)[0]).all()
    assert (smoothed.values(first, z)[1] != smoothed.values(second, z)[1]).all()


def test_slots_of_two_kinds_have_their_exact_law() -> None:
    """Means and variances of a binomial; all slots are filled by the only kind."""
    counts, masses = slot_counts(np.array([10, 90]), 1_000)
    assert (counts.sum(axis=1) == 1_000).all()
    assert masses.sum() == pytest.approx(1, abs=1e-12)
    mean = float(masses @ counts[:, 0])
    assert mean == pytest.approx(100, abs=1e-9)
    assert masses @ counts[:, 0] ** 2 - mean**2 == pytest.approx(90, abs=1e-6)
    alone, weights = slot_counts(np.array([7]), 50)
    assert (alone[weights > 0] == 50).all()


def test_slots_of_three_kinds_have_the_moments_of_a_multinomial() -> None:
    """The second kind is near to both others: 20,000 draws, six standard errors."""
    rows = np.repeat([0.0, 1.0, 2.0], [10, 30, 60])[:, None, None]
    query = SlotScoreQuery(100_000, 1, 0.5)
    law = query.value(Records(rows))[0]
    levels, masses = np.split(law[1:], 2)
    drawn = np.random.default_rng(0).multinomial(100_000, [0.1, 0.3, 0.6], size=20_000)
    near = np.array([[1, 1, 0], [1, 1, 1], [0, 1, 1]])
    scores = 80_000 - np.einsum("tk,kl,tl->t", drawn, near, drawn) / 100_000
    mean, error = float(masses @ levels), scores.std() / np.sqrt(len(scores))
    assert abs(mean - scores.mean()) < 6 * error
    spread = float(np.sqrt(masses @ (levels - mean) ** 2))
    assert spread == pytest.approx(scores.std(), rel=0.03)


def test_how_many_slots_one_user_fills() -> None:
    made = catalogue.user_level_accelerated_sgd_independent_slots.program
    quarter = float(catalogue.SLOT_DELTA) / 4
    assert made.filled == most_filled(made.users, made.slots, made.rounds, quarter)  # type: ignore[attr-defined]
    more = 24 * binom.sf(catalogue.FILLED, catalogue.SLOTS, 1 / catalogue.SLOT_USERS)
    assert more <= float(catalogue.MORE) <= quarter


def test_the_ratios_of_figure_1() -> None:
    """L = R = epsilon = 1, n = d: the ratios the paper speaks of."""
    for n, m in ((1e4, 10.0), (1e6, 100.0)):
        s = Sizes(n, m, n)
        smoothed = gradient_complexity("smoothed_user_level_phased_erm", s)
        full = gradient_complexity("full_batch_outlier_removed_dpsgd_nonsmooth", s)
        assert full / smoothed == pytest.approx(n ** (13 / 8) * m ** (7 / 4), rel=0.05)
        erm = gradient_complexity("user_level_phased_erm", s)
        assert (n * m) ** (9 / 8) <= erm <= 3 * (n * m) ** (9 / 8)
        assert gradient_complexity("user_level_phased_sgd", s) == n * m
        assert excess_risk_bound("user_level_phased_erm", s) < excess_risk_bound(
            "user_level_phased_sgd_baseline", s
        )


def test_gradient_counts_of_runs() -> None:
    program: Any = catalogue.user_level_phased_sgd.program
    assert program.gradients == (1600 + 800) * 5 <= 3230 * 5
    erm: Any = catalogue.user_level_phased_erm.program
    each = [p.constants.rounds * p.constants.batch * 5 for p in erm.phases]
    assert erm.gradients == sum(each)


def test_textbook_accounting() -> None:
    assert amplify_by_subsampling(1.0, 1e-6, 1.0) == pytest.approx((1.0, 1e-6))
    assert amplify_by_subsampling(1.0, 1e-6, 0.1)[0] < 0.1 * (np.e - 1)
    epsilon, delta = advanced_composition(0.01, 0.0, 400, 1e-6)
    assert delta == 1e-6
    assert epsilon < 4.0
    with pytest.raises(InvalidParameter, match="share"):
        amplify_by_subsampling(1.0, 0.0, 0.0)


@pytest.mark.parametrize("loss", [Logistic(), LeastSquares()])
def test_steps_that_need_no_check_of_the_set_change_nothing(loss: Any) -> None:
    """Against a plain loop, with long steps into the boundary and gradients that are cut."""
    rng = np.random.default_rng(5)
    users = rng.standard_normal((12, 5, 3))
    users[..., -1] = users[..., -1] > 0
    users[3, 2], users[4, 1, :2] = np.nan, 1e200
    problem = Problem(loss, 12, 5, 2, 0.6, 1.0)
    for step in (0.01, 0.4):
        found = one_pass_sgd(problem, np.array([[0.3, -0.4]]), users, 4, step)[0]
        for group, own in enumerate(users.reshape(4, 15, 3)):
            here, total = np.array([0.3, -0.4]), np.zeros(2)
            for item in own:
                gradient = problem.paired_gradients(here[None], item[None])[0]
                here = problem.project((here - step * gradient)[None])[0]
                total += here - np.array([0.3, -0.4])
            np.testing.assert_allclose(found[group], total / 15, rtol=1e-9, atol=1e-12)


def test_a_label_that_is_none_is_cut_where_features_are_short() -> None:
    """Features of norm .5 need no cut at labels 0 and 1; a label of 7 has slopes up to 13."""
    rng = np.random.default_rng(6)
    users = rng.standard_normal((6, 4, 3))
    users[..., :2] *= 0.5 / np.linalg.norm(users[..., :2], axis=-1, keepdims=True)
    users[..., -1] = users[..., -1] > 0
    for label in (1.0, 7.0, np.nan):
        users[2, 1, -1] = label
        problem = Problem(Logistic(), 6, 4, 2, 5.0, 1.0)
        found = one_pass_sgd(problem, np.zeros((1, 2)), users, 3, 0.1)[0]
        for group, own in enumerate(users.reshape(3, 8, 3)):
            here, total = np.zeros(2), np.zeros(2)
            for item in own:
                here = here - 0.1 * problem.paired_gradients(here[None], item[None])[0]
                total += here
            np.testing.assert_allclose(found[group], total / 8, rtol=1e-9, atol=1e-12)
