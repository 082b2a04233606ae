"""Programs of stable releases: phases, batches, bottoms, projections, calibration, refusals."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from dpaudit.accounting import Account
from dpaudit.curator import Sampler, Tracer
from dpaudit.errors import InvalidParameter
from dpaudit.nodes import Gaussian, NonPrivate, Parallel, Repeat, StableRelease, postorder
from dpaudit.query import Array, Records
from dpaudit.scope import central
from mechanisms.stable_erm import catalogue as stable
from mechanisms.stable_erm.baselines import (
    ItemPhasedERM,
    MinimiserQuery,
    NoisyGradientDescent,
    OutputPerturbation,
)
from mechanisms.stable_erm.bounds import Size
from mechanisms.stable_erm.calibration import (
    USERS,
    Constants,
    calibrate_del_output_pert,
    del_output_pert_paper,
    printed_constants,
)
from mechanisms.stable_erm.certificate import Certified, GradientCertificate, Void
from mechanisms.stable_erm.domains import Ball, Box
from mechanisms.stable_erm.localised import StronglyConvexERM, StronglyConvexSCO
from mechanisms.stable_erm.phased import PhasedERM, PhasedSCO, batch_sizes
from mechanisms.stable_erm.problem import (
    DeltaRule,
    Problem,
    erm_phases,
    erm_weight,
    sampling_distance,
    sco_phases,
    sco_weight,
)
from mechanisms.stable_erm.release import (
    DeletionStableOutputPerturbation,
    StableQuery,
    StronglyConvexOutputPerturbation,
)
from mechanisms.stable_erm.solver import Absolute, Minimiser, Quadratic, RidgeLogistic
from mechanisms.stable_erm.stable import Enumeration, UserMean

SMALL = Constants(2, 1, 3)


def sampler(program: Any, data: Array, trials: int = 50, scope: Any = USERS) -> Sampler:
    return Sampler(
        program.declaration(scope),
        scope,
        Records(data),
        rng=np.random.default_rng(1),
        trials=trials,
    )


def run(program: Any, data: Array, trials: int = 50, scope: Any = USERS) -> Any:
    return program.run(sampler(program, data, trials, scope))


def users(count: int, items: int = 4, features: int = 1, seed: int = 0) -> Array:
    return np.random.default_rng(seed).uniform(-1, 1, size=(count, items, features))


# --- one release ----------------------------------------------------------------------------------


def test_a_mean_is_released_with_its_noise() -> None:
    program = DeletionStableOutputPerturbation(8, 2.0, SMALL)
    released = run(program, users(8), 20_000)
    passed = ~np.isnan(released[:, 0])
    mean = users(8).mean(axis=1).mean()
    assert released[passed].mean() == pytest.approx(mean, abs=4.9 * 6 / math.sqrt(passed.sum()))
    assert released[passed].std() == pytest.approx(6.0, rel=0.03)
    assert passed.all()


def test_an_outlier_is_left_out_or_nothing_is_released() -> None:
    data = np.zeros((8, 1, 1))
    data[3] = 1e6
    released = run(DeletionStableOutputPerturbation(8, 1.0, SMALL), data, 5_000)
    bottom = np.isnan(released[:, 0])
    lowest = math.exp(-2) / (1 + 2 * math.exp(-2))
    assert bottom.mean() == pytest.approx(lowest, abs=4.9 * math.sqrt(lowest / 5_000))
    assert np.abs(released[~bottom]).max() < 3 * 6


def test_queries_refuse_what_a_score_is_not_bounded_for() -> None:
    query = StableQuery(UserMean(), Enumeration(), 1.0, 1, 8)
    for adjacency in ("zero_out", "add_remove"):
        with pytest.raises(InvalidParameter, match="null user"):
            query.sensitivity(USERS.under(adjacency).adjacency, 8)
    with pytest.raises(InvalidParameter, match="for 8 users was given 9"):
        query.sensitivity(USERS.adjacency, 9)
    with pytest.raises(InvalidParameter, match="no secret batch"):
        query.value(Records(users(8)), np.ones((1, 8), dtype=bool))
    for unit in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(InvalidParameter, match="expected a positive number"):
            StableQuery(UserMean(), Enumeration(), unit, 1, 8)


def test_the_cap_is_met_before_data_is_touched() -> None:
    curator = sampler(stable.deletion_stable_output_perturbation.program, np.zeros((300, 1, 1)))
    with pytest.raises(InvalidParameter, match="300 users with up to 129 deleted have about 1e8"):
        stable.deletion_stable_output_perturbation.program.run(curator)
    assert curator.transcript == []
    assert curator.entitlements.counts()["release"] == (1, 0, 0)


def test_too_few_users_are_told_how_many_are_needed() -> None:
    with pytest.raises(InvalidParameter, match=r"kappa = 32: it needs at least 4 kappa \+ 2 = 130"):
        DeletionStableOutputPerturbation(129, 1.0, stable.PRINTED)
    with pytest.raises(InvalidParameter, match="batch 3: 100 users are too few"):
        PhasedSCO(replace(stable.SCO_PROBLEM, users=800), stable.PRINTED, 3, 1.0)


def test_stability_and_constants_must_agree() -> None:
    with pytest.raises(InvalidParameter, match="calibrate with distance='diameter'"):
        DeletionStableOutputPerturbation(8, 1.0, SMALL, UserMean(), Enumeration("diameter"))


@pytest.mark.parametrize("scope", [central("replace_one"), USERS.under("zero_out")])
def test_noise_is_declared_for_users_under_replace_one(scope: Any) -> None:
    for mechanism in (
        stable.deletion_stable_output_perturbation,
        stable.stable_phased_erm,
        stable.strongly_convex_sco,
    ):
        with pytest.raises(InvalidParameter, match="replace_one of a user"):
            mechanism.program.declaration(scope)


def test_a_void_fallback_has_no_guarantee() -> None:
    program = DeletionStableOutputPerturbation(
        8, 1.0, SMALL, Minimiser(Quadratic()), Certified(GradientCertificate("c1"), Void())
    )
    assert any(isinstance(node, NonPrivate) for node in postorder(program.declaration(USERS)))
    exact = replace(program, search=Certified())
    assert not any(isinstance(node, NonPrivate) for node in postorder(exact.declaration(USERS)))


# --- phases ---------------------------------------------------------------------------------------

ABSOLUTE = Problem(Absolute(), Box(1.0, 5), 60, 10, 5, 1.0, 1.0)
LOOSE = DeltaRule("c1", gamma=1.0, slack=1e-9)
QUIET = Constants(2, 1, Fraction(1, 10**6))


def test_phases_on_a_loss_that_is_not_smooth() -> None:
    """PhasedSCO, absolute loss, d = 5: certified throughout; the last point is in the box."""
    program = PhasedSCO(ABSOLUTE, SMALL, 3, 0.05, LOOSE, Certified())
    curator = sampler(replace(program, problem=replace(ABSOLUTE, users=64)), users(64, 10, 5), 200)
    done = replace(program, problem=replace(ABSOLUTE, users=64)).run(curator)
    assert np.abs(done.output).max() <= 1.0
    assert not np.isnan(done.output).any()
    assert done.failed.shape == (200, 3)
    assert not done.failed.any()
    assert [event.label for event in curator.transcript] == ["phase 1", "phase 2", "phase 3"]


def test_each_phase_has_its_own_users() -> None:
    """A user of batch 2 leaves phase 1 as it is, and moves phases 2 and 3; the tail moves none."""
    program = PhasedSCO(replace(ABSOLUTE, users=64), QUIET, 3, 0.05, LOOSE, Certified())
    assert program.sizes == (32, 16, 8, 8)
    data = users(64, 10, 5)
    other = data.copy()
    other[40] *= -1
    base, moved = (_transcript(program, d) for d in (data, other))
    assert [(a == b).all() for a, b in zip(base, moved, strict=True)] == [True, False, False]
    other = data.copy()
    other[60] *= -1
    tail = _transcript(program, other)
    assert all((a == b).all() for a, b in zip(base, tail, strict=True))


def _transcript(program: Any, data: Array) -> list[Array]:
    curator = sampler(program, data, 3)
    program.run(curator)
    return [event.released for event in curator.transcript]


def test_without_noise_phases_approach_the_minimiser() -> None:
    """PhasedERM on a quadratic loss: the bias of phase i falls as lambda_i pulls to its point."""
    problem = Problem(Quadratic(), Box(1.0, 1), 40, 10, 1, 2.0, 1.0)
    data = users(40, 10) * 0.1 + 0.5
    program = PhasedERM(problem, QUIET, 4, 0.01, DeltaRule("quadratic", gamma=1.0), Certified(
        GradientCertificate("quadratic")))  # fmt: skip
    done = run(program, data, 20)
    assert np.abs(done.output - data.mean()).max() < 0.02
    assert not done.failed.any()


def test_a_bottom_leaves_the_point_where_it_was() -> None:
    """Four outliers of eight: every phase is bottom; the output is the start."""
    problem = Problem(Quadratic(), Box(1.0, 1), 8, 1, 1, 1.0, 1.0)
    data = np.zeros((8, 1, 1))
    data[:4] = 1e9
    wide = replace(problem, domain=Box(1e12, 1))
    program = PhasedERM(wide, SMALL, 2, 1.0, DeltaRule("c1", gamma=1e-3))
    done = run(program, data, 30)
    assert done.failed.all()
    assert (done.output == 0).all()


def test_batches_partition_the_users() -> None:
    for count in range(1, 200):
        for phases in range(1, count.bit_length()):
            sizes = batch_sizes(count, phases)
            assert sum(sizes) == count
            ends = [count // 2**i for i in range(phases + 1)]
            assert list(sizes[:phases]) == [a - b for a, b in pairwise(ends)]


def test_no_phase_reads_no_user() -> None:
    problem = replace(ABSOLUTE, users=9)
    program = PhasedSCO(problem, SMALL, 0, 1.0)
    curator = sampler(program, users(9, 10, 5), 4)
    done = program.run(curator)
    assert (done.output == 0).all()
    assert curator.transcript == []
    assert Account(program.declaration(USERS), USERS).epsilon(Fraction(1, 10)).upper == 0


def test_ideal_phases_are_phases_without_a_test() -> None:
    """M' of the proofs: no bottom, whatever the data."""
    problem = Problem(Quadratic(), Box(1.0, 1), 8, 1, 1, 1.0, 1.0)
    data = np.zeros((8, 1, 1))
    data[:4] = 1e9
    program = PhasedERM(problem, SMALL, 2, 1.0, DeltaRule("c1", gamma=1.0), Void())
    assert not run(program, data, 30).failed.any()
    assert isinstance(program.declaration(USERS).children[0], NonPrivate)


def test_printed_phases_are_dominated_by_noise() -> None:
    """At the printed constants the first phase's noise is beyond the domain."""
    program: Any = stable.stable_phased_erm.program
    assert program.phases.noise_dominated(program.problem.users)
    quiet = PhasedERM(ABSOLUTE, QUIET, 2, 1.0, LOOSE, Certified())
    assert not quiet.phases.noise_dominated(60)


def test_schedules() -> None:
    """T = ceil(log2(n m)); T = floor(log2(n / (8 kappa + 2))); lambda with its second term."""
    assert erm_phases(10_000, 100) == 20
    assert (sco_phases(2 * 258, stable.PRINTED), sco_phases(257, stable.PRINTED)) == (1, 0)
    problem = replace(ABSOLUTE, users=100, items=25)
    assert erm_weight(problem) == pytest.approx(math.sqrt(5) / 500)
    assert sco_weight(problem) == pytest.approx(math.sqrt(5) / 500 + 1 / 50)


def test_ten_phases_take_the_kappa_of_a_tenth() -> None:
    assert stable.SHARE.kappa == 346
    assert float(stable.SHARE.noise_multiplier) == pytest.approx(3.315e5, rel=1e-3)
    assert stable.HALF.kappa == 64
    assert float(stable.HALF.noise_multiplier) == pytest.approx(11725.9, rel=1e-5)
    assert stable.TWENTIETH.kappa == 718


# --- localised ------------------------------------------------------------------------------------


def localised(kind: Any, phases: Any, noise: Any = QUIET) -> Any:
    problem = Problem(Quadratic(), Ball(1.0), 40, 10, 2, 2.0, 1.0)
    search = Certified(GradientCertificate("quadratic"))
    rule = DeltaRule("quadratic", gamma=2.0)
    first = StronglyConvexOutputPerturbation(problem, noise, rule, search)
    after = phases(problem, noise, 2, 0.05, rule, search)
    return kind(first, after, 1e-3, sampling_distance(problem, 1e-3) * 0.01)


@pytest.mark.parametrize(
    ("kind", "phases"), [(StronglyConvexERM, PhasedERM), (StronglyConvexSCO, PhasedSCO)]
)
def test_localised_phases_stay_in_the_ball(kind: Any, phases: Any) -> None:
    program, data = localised(kind, phases), users(40, 10, 2) * 0.2 + 0.4
    curator = sampler(program, data, 40)
    done = program.run(curator)
    centre = curator.transcript[0].released
    assert np.linalg.norm(done.output - centre, axis=1).max() <= program.radius * (1 + 1e-9)
    assert np.linalg.norm(done.output, axis=1).max() <= 1 + 1e-9
    assert done.failed.shape == (40, 3)
    node = program.declaration(USERS)
    assert isinstance(node.children[1], Repeat if phases is PhasedERM else Parallel)


def test_a_first_bottom_leaves_the_whole_ball() -> None:
    program, data = localised(StronglyConvexERM, PhasedERM, SMALL), users(40, 10, 2) * 0.2
    program = replace(program, first=replace(program.first, search=_NEVER))
    done = run(program, data, 20)
    assert done.failed[:, 0].all()
    assert np.linalg.norm(done.output, axis=1).max() <= 1 + 1e-9


class _Never(Void):
    """Never stable."""

    def find(self, statistic: Any, users: Array, unit: Any, kappa: int) -> Any:
        found = super().find(statistic, users, unit, kappa)
        return replace(found, scores=found.scores + 2 * kappa + 1)


_NEVER = _Never()


def test_a_box_has_no_ball_inside() -> None:
    problem = Problem(Quadratic(), Box(1.0, 2), 64, 10, 2, 2.0, 1.0)
    first = StronglyConvexOutputPerturbation(problem, SMALL)
    with pytest.raises(InvalidParameter, match="expected a Ball"):
        StronglyConvexERM(first, PhasedERM(problem, SMALL, 1, 1.0), 1e-3)


# --- constants ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("epsilon", "delta"), [(2, 0.1), (1, 0.6)])
def test_printed_constants_keep_to_their_theorem(epsilon: Any, delta: Any) -> None:
    with pytest.raises(InvalidParameter, match=r"Theorem 3\.3 is stated for"):
        del_output_pert_paper(epsilon, delta)


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(0, 0.1), (-1, 0.1), (1, 0), (1, 1), (math.nan, 0.1), (math.inf, 0.1)]
)
def test_budgets_outside_their_domain(epsilon: Any, delta: Any) -> None:
    for make in (del_output_pert_paper, calibrate_del_output_pert):
        with pytest.raises(InvalidParameter):
            make(epsilon, delta)


def test_both_readings_of_the_root_are_private() -> None:
    narrow, wide = (printed_constants(Fraction(1), Fraction(1, 10**6), c) for c in
                    ("sqrt2ln", "2sqrtln"))  # fmt: skip
    assert wide.noise_multiplier / narrow.noise_multiplier == pytest.approx(math.sqrt(2), rel=1e-6)
    with pytest.raises(InvalidParameter, match="expected sqrt2ln, 2sqrtln"):
        del_output_pert_paper(1, Fraction(1, 10**6), "sqrt")


def test_no_noise_suffices_where_the_lowest_threshold_is_too_likely() -> None:
    with pytest.raises(InvalidParameter, match="raise kappa"):
        calibrate_del_output_pert(1, Fraction(1, 10**6), kappa=3)


@pytest.mark.parametrize(
    ("bar", "kappa", "noise"), [(0, 1, 1), (1, 0, 1), (1, 1, 0), (1, 10**6, 1), (1, 1, math.nan)]
)
def test_constants_outside_their_domain(bar: Any, kappa: Any, noise: Any) -> None:
    with pytest.raises(InvalidParameter):
        Constants(bar, kappa, noise)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Size(0, 1, 0.1), "users = 0"),
        (lambda: Size(1, 1, 0.5), "expected in"),
        (lambda: replace(ABSOLUTE, lipschitz=math.nan), "Problem.lipschitz"),
        (lambda: StronglyConvexOutputPerturbation(ABSOLUTE, SMALL), "modulus 0"),
        (lambda: PhasedERM(ABSOLUTE, SMALL, -1, 1.0), "whole number of phases"),
        (lambda: PhasedERM(ABSOLUTE, SMALL, 1, math.inf), "weight = inf"),
        (lambda: DeltaRule("loose"), "expected one of line3"),
        (lambda: DeltaRule("paper", gamma=1.0), "expected one of c1"),
        (lambda: DeltaRule("c1", gamma=math.nan), "DeltaRule.gamma = nan"),
    ],
)
def test_refusals(make: Any, message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        make()


# --- the catalogue --------------------------------------------------------------------------------


def test_every_release_of_the_catalogue_is_a_stable_one() -> None:
    for mechanism in (
        stable.deletion_stable_output_perturbation,
        stable.deletion_stable_output_perturbation_calibrated,
        stable.strongly_convex_output_perturbation,
        stable.window_mean_score,
        stable.ladder_stable_output_perturbation,
    ):
        assert isinstance(mechanism.declaration, StableRelease)
        assert mechanism.scope == USERS


@pytest.mark.parametrize(
    "mechanism",
    [
        stable.strongly_convex_output_perturbation,
        stable.window_mean_score,
        stable.ladder_stable_output_perturbation,
    ],
    ids=lambda m: m.name,
)
def test_entries_with_data_run(mechanism: Any) -> None:
    records = mechanism.records()
    curator = Sampler(mechanism.declaration, USERS, records, rng=np.random.default_rng(3), trials=2)
    output = mechanism.program.run(curator)
    metrics = mechanism.evaluate(output)
    assert metrics[0].value == 1.0
    assert np.isfinite(output).all()


# --- baselines ------------------------------------------------------------------------------------

LOGISTIC = Problem(RidgeLogistic(0.5, 1.0, 1e-9), Ball(1.0), 40, 5, 3, 1.0, 1.0)


def test_output_perturbation_is_the_minimiser_and_noise() -> None:
    program = OutputPerturbation(LOGISTIC, Fraction(1, 10**6))
    data = users(40, 5, 3)
    released = run(program, data, 3)
    best = Minimiser(LOGISTIC.loss, LOGISTIC.domain).at(data, np.ones((1, 40), dtype=bool))[:, 0]
    assert released == pytest.approx(np.repeat(best, 3, axis=0), abs=1e-6)


def test_a_minimiser_moves_by_no_more_than_it_states() -> None:
    query = MinimiserQuery(Minimiser(LOGISTIC.loss, LOGISTIC.domain))
    bound = float(query.sensitivity(USERS.adjacency, 40))
    assert bound == pytest.approx(2 / (0.5 * 40) + 2e-9)
    data, largest = users(40, 5, 3), 0.0
    for seed in range(5):
        other = data.copy()
        other[seed] = 1e3 * users(1, 5, 3, seed + 1)[0]
        moved = query.value(Records(data)) - query.value(Records(other))
        largest = max(largest, float(np.linalg.norm(moved)))
    assert 0 < largest <= bound


def test_localisation_and_gradients_run_at_either_level() -> None:
    item = central("replace_one")
    data = users(40, 5, 3)
    for program, rows, scope in (
        (ItemPhasedERM(LOGISTIC, 1, 3, 0.1), data, USERS),
        (NoisyGradientDescent(LOGISTIC, 5, 4, 0.5, 1.0), data, USERS),
        (
            NoisyGradientDescent(replace(LOGISTIC, users=200, items=1), 5, 4, 0.5, 1.0),
            data.reshape(200, 1, 3),
            item,
        ),
    ):
        output = run(program, rows, 6, scope)
        assert output.shape == (6, 2)
        assert np.linalg.norm(output, axis=1).max() <= 1 + 1e-9
        leaves = [n for n in postorder(program.declaration(scope)) if isinstance(n, Gaussian)]
        assert leaves


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: OutputPerturbation(ABSOLUTE, 1), "use RidgeLogistic"),
        (lambda: OutputPerturbation(LOGISTIC, 0), "noise_multiplier"),
        (lambda: ItemPhasedERM(LOGISTIC, 1, 9, 1.0), "count = 9"),
        (lambda: NoisyGradientDescent(LOGISTIC, 1, 0, 1.0, 1.0), "rounds = 0"),
        (lambda: NoisyGradientDescent(LOGISTIC, 1, 2, math.nan, 1.0), "step_size = nan"),
        (lambda: OutputPerturbation(LOGISTIC, 1).declaration(USERS.under("zero_out")), "zero_out"),
    ],
)
def test_baselines_refuse(make: Any, message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        make()


def test_a_program_can_be_traced() -> None:
    program = PhasedERM(replace(ABSOLUTE, users=8), SMALL, 2, 1.0, LOOSE, Certified())
    tracer = Tracer(program.declaration(USERS), USERS, Records(np.zeros((8, 10, 5))))
    program.run(tracer)
    assert [label for label, _, _ in tracer.trace] == ["phase", "phase"]
    assert tracer.trace[0][1] == pytest.approx(4 * tracer.trace[1][1], rel=1e-6)
