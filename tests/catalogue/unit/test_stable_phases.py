"""Phases of stable releases: batches, bottoms, projections, balls around a first release."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from dpaudit.accountant.account import Account
from dpaudit.curator.curator import Tracer
from dpaudit.errors import InvalidParameter
from dpaudit.families.composition import Parallel, Repeat
from dpaudit.families.opaque import NonPrivate
from dpaudit.kernels.query import Array, Records
from mechanisms.papers.stable_erm import catalogue as stable
from mechanisms.papers.stable_erm.calibration import (
    USERS,
    Constants,
)
from mechanisms.papers.stable_erm.certificate import Certified, GradientCertificate, Void
from mechanisms.papers.stable_erm.domains import Ball, Box
from mechanisms.papers.stable_erm.localised import StronglyConvexERM, StronglyConvexSCO
from mechanisms.papers.stable_erm.phased import PhasedERM, PhasedSCO, batch_sizes
from mechanisms.papers.stable_erm.problem import (
    DeltaRule,
    Problem,
    erm_phases,
    erm_weight,
    sampling_distance,
    sco_phases,
    sco_weight,
)
from mechanisms.papers.stable_erm.release import (
    StronglyConvexOutputPerturbation,
)
from mechanisms.papers.stable_erm.solver import Quadratic
from tests.support.stable import ABSOLUTE, SMALL, run, sampler, users

# --- phases ---------------------------------------------------------------------------------------

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
    problem = Problem(Quadratic(), Box(1.0, 1), 40, 10, 1, 2.0)
    data = users(40, 10) * 0.1 + 0.5
    program = PhasedERM(problem, QUIET, 4, 0.01, DeltaRule("quadratic", gamma=1.0), Certified(
        GradientCertificate("quadratic")))  # fmt: skip
    done = run(program, data, 20)
    assert np.abs(done.output - data.mean()).max() < 0.02
    assert not done.failed.any()


def test_a_bottom_leaves_the_point_where_it_was() -> None:
    """Four outliers of eight: every phase is bottom; the output is the start."""
    problem = Problem(Quadratic(), Box(1.0, 1), 8, 1, 1, 1.0)
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
    problem = Problem(Quadratic(), Box(1.0, 1), 8, 1, 1, 1.0)
    data = np.zeros((8, 1, 1))
    data[:4] = 1e9
    program = PhasedERM(problem, SMALL, 2, 1.0, DeltaRule("c1", gamma=1.0), Void())
    assert not run(program, data, 30).failed.any()
    assert isinstance(program.declaration(USERS).children[0], NonPrivate)


def test_printed_phases_are_dominated_by_noise() -> None:
    """At the printed constants the first phase's noise is beyond the domain."""
    program: Any = stable.stable_phased_erm.program
    assert program.noise_dominated(program.problem.users)
    assert stable.DOMINATED in stable.stable_phased_erm.setting.notes
    assert stable.DOMINATED in stable.stable_phased_sco.setting.notes
    quiet = PhasedERM(ABSOLUTE, QUIET, 2, 1.0, LOOSE, Certified())
    assert not quiet.noise_dominated(60)
    assert stable.warned(quiet, 60) == ()


def test_schedules() -> None:
    """T = ceil(log2(n m)); T = floor(log2(n / (8 kappa + 2))); lambda with its second term."""
    assert erm_phases(10_000, 100) == 20
    assert (sco_phases(2 * 258, stable.PRINTED), sco_phases(257, stable.PRINTED)) == (1, 0)
    problem = replace(ABSOLUTE, users=100, items=25)
    assert erm_weight(problem, 1.0) == pytest.approx(math.sqrt(5) / 500)
    assert sco_weight(problem, 0.5) == pytest.approx(2 * (math.sqrt(5) / 500 + 1 / 50))


def test_ten_phases_take_the_kappa_of_a_tenth() -> None:
    assert stable.SHARE.kappa == 346
    assert float(stable.SHARE.noise_multiplier) == pytest.approx(3.315e5, rel=1e-3)
    assert stable.HALF.kappa == 64
    assert float(stable.HALF.noise_multiplier) == pytest.approx(11725.9, rel=1e-5)
    assert stable.TWENTIETH.kappa == 718


# --- localised ------------------------------------------------------------------------------------


def localised(kind: Any, phases: Any, noise: Any = QUIET) -> Any:
    problem = Problem(Quadratic(), Ball(1.0), 40, 10, 2, 2.0)
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
    assert isinstance(node.children[1].children[0], Repeat if phases is PhasedERM else Parallel)


@pytest.mark.parametrize(
    ("kind", "phases", "reach"),
    [(StronglyConvexERM, PhasedERM, 1), (StronglyConvexSCO, PhasedSCO, 2)],
)
def test_a_first_bottom_leaves_the_whole_ball(kind: Any, phases: Any, reach: int) -> None:
    """The phases then run on K, with lambda for R = min(diameter, 2 G/mu) in place of R', 2 R'."""
    program, data = localised(kind, phases, SMALL), users(40, 10, 2) * 0.2
    program = replace(program, first=replace(program.first, search=_NEVER))
    done = run(program, data, 20)
    assert done.failed[:, 0].all()
    assert np.linalg.norm(done.output, axis=1).max() <= 1 + 1e-9
    seen: list[Any] = []

    def noted(minimiser: Any) -> Any:
        seen.append(minimiser)
        return minimiser

    run(replace(program, phases=replace(program.phases, make=noted)), data, 3)
    assert program.widest == 2.0
    expected = 4 * program.phases.weight * reach * program.radius / 2.0
    assert seen[0].pull.weight == pytest.approx(np.full(3, expected))
    ball = seen[0].domain.project(np.array([[[5.0, 0.0]]] * 3))
    assert ball == pytest.approx(np.array([[[1.0, 0.0]]] * 3))


class _Never(Void):
    """Never stable."""

    def find(self, statistic: Any, users: Array, unit: Any, kappa: int) -> Any:
        found = super().find(statistic, users, unit, kappa)
        return replace(found, scores=found.scores + 2 * kappa + 1)


_NEVER = _Never()


def test_a_box_has_no_ball_inside() -> None:
    problem = Problem(Quadratic(), Box(1.0, 2), 64, 10, 2, 2.0)
    first = StronglyConvexOutputPerturbation(problem, SMALL)
    with pytest.raises(InvalidParameter, match="expects a Ball"):
        StronglyConvexERM(first, PhasedERM(problem, SMALL, 1, 1.0), 1e-3)


def test_a_program_can_be_traced() -> None:
    program = PhasedERM(replace(ABSOLUTE, users=8), SMALL, 2, 1.0, LOOSE, Certified())
    tracer = Tracer(program.declaration(USERS), USERS, Records(np.zeros((8, 10, 5))))
    program.run(tracer)
    assert [label for label, _, _ in tracer.trace] == ["phase", "phase"]
    assert tracer.trace[0][1] == pytest.approx(4 * tracer.trace[1][1], rel=1e-6)
