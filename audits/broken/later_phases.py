"""Planted bugs of paper 1 in a later phase alone, or restart: an attack on the first sees none.

Benches: ``passes`` is phased SGD in four phases, each of 1-GDP; ``full`` AL24 in two phases and
``restarts`` the reduction in three restarts, at (4, 1e-6); ``sampled`` Algorithm 3 on secret
batches in two phases, at (4.69, 1e-2).  Where outliers are removed, gradients that nothing clips
are, too: there the removal is deleted with the clip.  Twins are correct.
Source: ours (dpaudit 2026).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from audits.broken.user_level import DELTA, bench
from audits.user_level import suite
from audits.user_level_baselines import full_batches, passes
from audits.user_level_options import across, sampled
from dpaudit.audit.suite import Suite
from dpaudit.curator.curator import Curator, Part
from dpaudit.families.additive import Gaussian
from dpaudit.families.additive.kernel import GaussianKernel
from dpaudit.families.events import ProposeTestRelease
from dpaudit.families.opaque import GDP, ApproxDP
from dpaudit.families.selection import AboveThreshold
from dpaudit.families.selection.threshold_kernel import AboveThresholdKernel
from dpaudit.families.stability.coupled_kernel import ProposeTestReleaseKernel
from dpaudit.kernels.query import Array, Records
from dpaudit.nodes import Node
from mechanisms.papers.user_level.accelerated import (
    AskedTwice,
    BatchScoreQuery,
    BatchSolver,
    InlierMeanQuery,
)
from mechanisms.papers.user_level.baselines import (
    FullBatchOutlierRemovedDPSGD,
    OnePassQuery,
    UserLevelPhasedSGDBaseline,
)
from mechanisms.papers.user_level.batches import calibrate_batches
from mechanisms.papers.user_level.phased_erm import (
    ErmPhase,
    StronglyConvexReduction,
    single_phase_erm,
)
from mechanisms.papers.user_level.phased_sampled import SampledPhase, sampled_phased_erm
from mechanisms.papers.user_level.phased_sgd import Solution
from mechanisms.papers.user_level.problem import LinearLoss, Problem, users_of
from mechanisms.papers.user_level.sampled import SampledOutlierQuery, SampledTestSolver
from mechanisms.papers.user_level.sgd import one_pass_sgd

WIDE = 1e9  # as a norm to clip to: no clip
ROUNDS, EACH = 5, 620
Flags = NDArray[np.bool_]


def on(users: int) -> Problem:
    """So many users of one item, a linear loss in two parameters, L = 1."""
    return Problem(LinearLoss(2), users, 1, 2, WIDE, 1.0)


PASSES = UserLevelPhasedSGDBaseline(on(16), Fraction(1), 4, 0.5, 1.0, "linear")
FULL = FullBatchOutlierRemovedDPSGD(
    on(4 * EACH), tuple(calibrate_batches(4, DELTA, EACH << i, ROUNDS) for i in (1, 0)), 1.0, 1.0
)
RESTARTS = StronglyConvexReduction(
    on(3 * EACH), (single_phase_erm(on(EACH), 4, DELTA, 1.0, ROUNDS, 1.0),) * 3
)
OF_SAMPLED = Fraction(1, 100)
SAMPLED = sampled_phased_erm(on(300), 2, 1, OF_SAMPLED, 1.0, most_rounds=2)

later_bench_passes = bench("later_bench_passes", PASSES, GDP(1))
later_bench_full = bench("later_bench_full", FULL, ApproxDP(4, DELTA))
later_bench_restarts = bench("later_bench_restarts", RESTARTS, ApproxDP(4, DELTA))
later_bench_sampled = bench("later_bench_sampled", SAMPLED, ApproxDP(Fraction("4.69"), OF_SAMPLED))

# --- a clip ---------------------------------------------------------------------------------------


class UnclippedPass(OnePassQuery):
    """Gradients as they are, and noise for clipped ones."""

    def value(self, records: Records, chosen: Flags | None = None) -> Array:
        users = users_of(records.values, self.problem.items)
        problem = replace(self.problem, lipschitz=WIDE)
        found = one_pass_sgd(problem, self.start, users, self.groups, self.step)
        return np.asarray(found.mean(axis=1))


@dataclass(frozen=True)
class UnclippedPasses(UserLevelPhasedSGDBaseline):
    """Phased SGD that does not clip in one phase, counted from 0."""

    wrong: int = 0

    def query(self, phase: int, start: Array) -> OnePassQuery:
        right = super().query(phase, start)
        if phase != self.wrong:
            return right
        return UnclippedPass(right.problem, right.start, right.step, right.groups)


class PlainMean(InlierMeanQuery):
    """The mean of all gradients of the batch, outliers too."""

    def value(self, records: Records, chosen: Flags | None = None) -> Array:
        users = users_of(records.values, self.items)[: self.constants.batch]
        return np.asarray(self.gradients(users).mean(axis=1))


class PlainSolver(BatchSolver):
    """Rounds that release plain means of gradients that nothing clips, behind the right test."""

    def round(
        self, curator: Curator, at: Array, on: Flags, labels: tuple[str, str], rows: Part | None
    ) -> tuple[Flags, Array]:
        with AskedTwice(self.gradients_at(at)) as gradients:
            asked = (gradients, self.radius, self.constants, self.problem.items)
            failed = curator.release(labels[0], BatchScoreQuery(*asked), rows=rows)
        passed = on & (failed[:, 0] == 0)
        if not passed.any():
            return passed, np.full(at.shape, np.nan)
        problem = replace(self.problem, lipschitz=WIDE)
        query = PlainMean(
            lambda users: problem.user_gradients(at, users),
            self.radius,
            self.constants,
            self.problem.items,
        )
        return passed, curator.release(labels[1], query, rows=rows, on=passed)


class PlainErmPhase(ErmPhase):
    """A phase of such rounds."""

    def solver(self, problem: Problem, radius: float) -> PlainSolver:
        return PlainSolver(problem, radius, self.constants)


@dataclass(frozen=True)
class PlainFullBatches(FullBatchOutlierRemovedDPSGD):
    """AL24 whose last phase releases plain means."""

    def run(self, curator: Curator) -> Solution:
        start = point = self.problem.start(curator.trials)
        on, last = np.ones(curator.trials, dtype=bool), len(self.constants) - 1
        for i, constants in enumerate(self.constants):
            kind = PlainSolver if i == last else BatchSolver
            rows, labels = curator.part(i, self.sizes), (f"score {i + 1}", f"gradient {i + 1}")
            solver = kind(self.problem, self.radius, constants)
            for _ in range(constants.rounds):
                if not on.any():
                    return Solution(start, ~on)
                on, noisy = solver.round(curator, point, on, labels, rows)
                point = point - np.where(on[:, None], noisy, 0.0)
        return Solution(np.where(on[:, None], point, start), ~on)


class PlainSampledMean(SampledOutlierQuery):
    """The mean of all gradients of the batch that nothing clips, behind the right score."""

    def value(self, records: Records, chosen: Flags | None = None) -> Array:
        found = super().value(records, chosen)
        assert chosen is not None  # noqa: S101  (the right query has refused it)
        items = users_of(records.values, self.items)[:, 0]
        return np.hstack([found[:, :1], chosen @ items / self.constants.groups])


class PlainSampledSolver(SampledTestSolver):
    """Rounds on secret batches that release plain means of what a linear loss's gradients are."""

    def round(
        self, curator: Curator, at: Array, on: Flags, labels: tuple[str, str], rows: Part | None
    ) -> tuple[Flags, Array]:
        query = PlainSampledMean(
            self.gradients_at(at), self.radius, self.constants, self.problem.items
        )
        with curator.batch(labels[1], rows) as batch:
            noisy = curator.release(labels[1], query, rows=batch, on=on)
        return on & ~np.isnan(noisy).all(axis=1), noisy


class PlainSampledPhase(SampledPhase):
    """A phase of such rounds."""

    def solver(self, problem: Problem, radius: float) -> PlainSampledSolver:
        return PlainSampledSolver(problem, radius, self.constants)


def remade(kind: type[Any], one: Any, **changes: Any) -> Any:
    """The same fields in an object of another kind."""
    return kind(**{f.name: getattr(one, f.name) for f in fields(one)}, **changes)


def at(whole: tuple[Any, ...], index: int, other: Any) -> tuple[Any, ...]:
    """With another part at this place."""
    return (*whole[:index], other, *whole[index + 1 :])


def unclipped_restart(program: Any, restart: int) -> Any:
    """The reduction, one restart of which releases plain means."""
    base = program.bases[restart]
    wrong = replace(base, phases=(remade(PlainErmPhase, base.phases[0]),))
    return replace(program, bases=at(program.bases, restart, wrong))


def unclipped_phase(program: Any, phase: int) -> Any:
    """Secret batches, one phase of which releases plain means."""
    wrong = remade(PlainSampledPhase, program.phases[phase])
    return replace(program, phases=at(program.phases, phase, wrong))


# --- noise ----------------------------------------------------------------------------------------


def half(label: str) -> Mapping[type[Node], type[Any]]:
    """Half of the noise of a Gaussian release."""

    class HalfNoise(GaussianKernel):
        def sample(self, values: Array, scale: Array, rng: np.random.Generator) -> Array:
            return super().sample(values, scale / (1 + (self.leaf.label == label)), rng)

    return {Gaussian: HalfNoise}


def half_behind_a_test(label: str) -> Mapping[type[Node], type[Any]]:
    """Half of the noise of a release that a test lets pass."""

    class HalfNoise(ProposeTestReleaseKernel):
        def sample(self, values: Array, scale: Array, rng: np.random.Generator) -> Array:
            return super().sample(values, scale / (1 + (self.leaf.release.label == label)), rng)

    return {ProposeTestRelease: HalfNoise}


def untested(label: str) -> Mapping[type[Node], type[Any]]:
    """Answers of one threshold test without any noise."""

    class NoNoise(AboveThresholdKernel):
        def thresholds(self, scale: Array, rng: np.random.Generator) -> Array:
            return np.asarray(super().thresholds(scale, rng) * (self.leaf.label != label))

        def noise(self, scale: Array, rng: np.random.Generator) -> Array:
            return np.asarray(super().noise(scale, rng) * (self.leaf.label != label))

    return {AboveThreshold: NoNoise}


# --- suites ---------------------------------------------------------------------------------------


def planted(right: Suite, bug: str, *caught_by: str, **changes: Any) -> Suite:
    """A suite of a bench, of an implementation that is wrong in the phase that it attacks."""
    return replace(right, bug=bug, caught_by=caught_by, **changes)


passes_last = passes(later_bench_passes, 3)
passes_first = passes(later_bench_passes)
passes_third = planted(
    passes(later_bench_passes, 2), "phase 3 of 4: nothing is clipped", "conformance", "refuted",
    program=remade(UnclippedPasses, passes_last.program, wrong=2),
)  # fmt: skip
passes_fourth = planted(
    passes_last,
    "phase 4 of 4: half of the noise",
    "conformance",
    "refuted",
    kernels=half("phase 4"),
)
full_first, full_second = full_batches(later_bench_full), full_batches(later_bench_full, 1)
full_plain = planted(
    full_second, "AL24, phase 2: plain means, unclipped", "conformance", "refuted",
    program=remade(PlainFullBatches, full_second.program), trials=2_000,
)  # fmt: skip
full_half = planted(
    full_second, "AL24, phase 2: half of the noise", "conformance", kernels=half("gradient 2")
)
full_untested = planted(
    full_second, "AL24, phase 2: a test without noise", "conformance", "refuted",
    kernels=untested("score 2"), trials=2_000,
)  # fmt: skip
restarts_first = suite(later_bench_restarts, 600)
restarts_second, restarts_third = (suite(later_bench_restarts, 600, k) for k in (1, 2))
restarts_plain = planted(
    restarts_second, "restart 2: plain means, unclipped", "conformance", "refuted",
    program=unclipped_restart(restarts_second.program, 1), trials=2_000,
)  # fmt: skip
restarts_half = planted(
    restarts_third,
    "restart 3: half of the noise",
    "conformance",
    kernels=half("restart 3: gradient 1"),
)
restarts_untested = planted(
    restarts_third, "restart 3: a test without noise", "conformance", "refuted",
    kernels=untested("restart 3: score 1"), trials=2_000,
)  # fmt: skip
sampled_first = sampled(later_bench_sampled)
sampled_sides, sampled_across = (
    sampled(later_bench_sampled, 1),
    across(later_bench_sampled, 1, 4, 300),
)
sampled_plain = planted(
    sampled_sides, "secret batches, phase 2: plain means, unclipped", "conformance",
    program=unclipped_phase(sampled_sides.program, 1),
)  # fmt: skip
sampled_half = planted(
    sampled_across, "secret batches, phase 2: half of the noise", "conformance",
    kernels=half_behind_a_test("gradient 2"),
)  # fmt: skip
