"""Planted bugs in stable releases: in a sampler kernel, a program, a declaration.

Numbers B1 to B18 are those of the project's audit plan for this paper.  Benches: ``printed`` is
Algorithm 1 at (1, 1e-6) with constants as printed, on the adversarial function; ``one`` and
``two`` are enumerated, (4, 0.2) at kappa = 1 and (4, 0.05) at kappa = 2; ``phases`` is PhasedERM,
two phases of (1/2, 1e-6 / 2); ``batches`` is PhasedSCO, two batches.  Twins are correct.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from audits.stable_erm import attacked, in_batch, whole
from dpaudit.accountant.claim import Claim
from dpaudit.audit.neighbours import Neighbours
from dpaudit.audit.suite import Suite
from dpaudit.curator.curator import Curator, Program
from dpaudit.curator.mechanism import Mechanism, Setting
from dpaudit.families.composition import Repeat
from dpaudit.families.opaque import ApproxDP
from dpaudit.families.stability import Distance, StableRelease
from dpaudit.families.stability.kernel import StableReleaseKernel
from dpaudit.kernels.query import Array
from dpaudit.nodes import Node
from dpaudit.scope import Scope
from mechanisms.papers.stable_erm.adversarial import Adversarial, Oracle
from mechanisms.papers.stable_erm.calibration import (
    USERS,
    Constants,
    del_output_pert_paper,
    printed_constants,
)
from mechanisms.papers.stable_erm.domains import Box
from mechanisms.papers.stable_erm.phased import Optimised, PhasedERM, PhasedSCO
from mechanisms.papers.stable_erm.problem import Problem
from mechanisms.papers.stable_erm.release import (
    RELEASE,
    DeletionStableOutputPerturbation,
    StableQuery,
    check_scope,
    stable_release,
)
from mechanisms.papers.stable_erm.solver import Minimiser, Quadratic
from mechanisms.papers.stable_erm.stable import (
    Found,
    Statistic,
)

DELTA, SEEN = Fraction(1, 10**6), Fraction(1, 1000)
PRINTED = del_output_pert_paper(1, DELTA)
ONE = Constants(2, 1, Fraction("2.991106"))
TWO = Constants(Fraction(7, 5), 2, Fraction("4.907907"))
HALF = del_output_pert_paper(Fraction(1, 2), DELTA / 2)
SETTING = Setting("the test bench", "user", "one row", ("stable releases",))


def bench(name: str, program: Program, epsilon: object, delta: object) -> Mechanism:
    """A mechanism of the bench with one claim."""
    claim = Claim(ApproxDP(epsilon, delta), by="Ghazi et al. 2023, or the exact profile")
    source = "Ghazi et al. 2023, Algorithms 1, 3 and 4; wrong on purpose unless it says correct"
    return Mechanism(name, name.replace("_", " "), source, program, USERS, (claim,), SETTING)


PROBLEM = Problem(Quadratic(), Box(1.0, 1), 8 * HALF.kappa + 2, 1, 1, 1.0)
BATCHED = replace(PROBLEM, users=4 * (4 * PRINTED.kappa + 2))

stable_bench_printed = bench(
    "stable_bench_printed", DeletionStableOutputPerturbation(300, 1.0, PRINTED), 1, DELTA
)
stable_bench_one = bench(
    "stable_bench_one", DeletionStableOutputPerturbation(7, 1.0, ONE), 4, Fraction(1, 5)
)
stable_bench_two = bench(
    "stable_bench_two", DeletionStableOutputPerturbation(10, 1.0, TWO), 4, Fraction(1, 20)
)
stable_bench_phases = bench("stable_bench_phases", PhasedERM(PROBLEM, HALF, 2, 1.0), 1, DELTA)
stable_bench_batches = bench("stable_bench_batches", PhasedSCO(BATCHED, PRINTED, 2, 1.0), 1, DELTA)


def planted(
    mechanism: Mechanism,
    bug: str,
    *caught_by: str,
    program: Program | None = None,
    neighbours: Neighbours | None = None,
    kernel: type[StableReleaseKernel] | None = None,
) -> Suite:
    """An audit of a bench with one wrong part; the adversarial function unless data are given."""
    right = whole(mechanism, _users(mechanism.program))
    return Suite(
        mechanism=mechanism.name,
        program=program or right.program,
        neighbours=neighbours or right.neighbours,
        kernels={} if kernel is None else {StableRelease: kernel},
        caught_by=caught_by,
        bug=bug,
    )


def told(mechanism: Mechanism) -> Suite:
    """The adversary at scores 2 kappa, which passes with p(0), and 2 kappa + 1, which never does.

    What passes tells all: where kappa is too small, p(0) alone is above delta (B5).
    """
    program: Any = mechanism.program
    last = 2 * program.constants.kappa
    found = planted(
        mechanism, "B5: kappa from (epsilon, delta), attacked where it shows", "refuted"
    )
    return replace(found, program=replace(program, search=Oracle(last, last + 1)))


def _users(program: Any) -> int:
    return int(program.users if hasattr(program, "users") else program.problem.users)


twin_printed = planted(stable_bench_printed, "none: Algorithm 1, correct")
twin_phases = planted(stable_bench_phases, "none: PhasedERM, correct")
twin_batches = replace(
    in_batch(stable_bench_batches), bug="none: PhasedSCO, correct, a user on a border"
)

# --- a sampler kernel -----------------------------------------------------------------------------


class FixedThreshold(StableReleaseKernel):
    """The threshold is kappa, always (B3)."""

    def thresholds(self, rng: np.random.Generator) -> Any:
        return np.full(self.trials, self._law.kappa)


class UnshiftedThreshold(StableReleaseKernel):
    """A discrete Laplace threshold around 0 (B15)."""

    def thresholds(self, rng: np.random.Generator) -> Any:
        drawn = super().thresholds(rng)
        return drawn - self._law.kappa


class UntruncatedThreshold(StableReleaseKernel):
    """A threshold with tails beyond 2 kappa: twice as wide (B15)."""

    def thresholds(self, rng: np.random.Generator) -> Any:
        around = super().thresholds(rng) - self._law.kappa
        return self._law.kappa + 2 * around


class TooLittle(StableReleaseKernel):
    """Standard deviation divided by ``divisor``."""

    divisor = 1.0

    def sample(self, values: Array, scale: Array, rng: np.random.Generator) -> Array:
        return super().sample(values, scale / self.divisor, rng)


class RootTwo(TooLittle):
    """Hidden by the slack of the printed constants: exact epsilon .617 of a claim of 1."""

    divisor = 2**0.5


class Eighth(TooLittle):
    """Exact epsilon 1.255 of a claim of 1."""

    divisor = 8.0


class Squared(StableReleaseKernel):
    """The variance passed for a standard deviation (B16): too much noise."""

    def sample(self, values: Array, scale: Array, rng: np.random.Generator) -> Array:
        return super().sample(values, scale**2, rng)


class Reused(StableReleaseKernel):
    """One draw of noise for all phases (B12)."""

    def sample(self, values: Array, scale: Array, rng: np.random.Generator) -> Array:
        seed = self.__dict__.setdefault("seed", int(rng.integers(2**63)))
        return super().sample(values, scale, np.random.default_rng(seed))


b3_fixed_threshold = planted(
    stable_bench_printed,
    "B3: a deterministic threshold",
    "refuted",
    kernel=FixedThreshold,
)
b12_reused_noise = planted(
    stable_bench_phases, "B12: one draw of noise for all phases", "conformance", kernel=Reused
)
b15_unshifted = planted(
    stable_bench_printed, "B15: a threshold around 0", "conformance", kernel=UnshiftedThreshold
)
beyond: Any = attacked(stable_bench_printed.program)
b15_untruncated = planted(
    stable_bench_printed,
    "B15: a threshold twice as wide",
    "conformance",
    program=replace(beyond, search=Oracle(36, 37)),
    kernel=UntruncatedThreshold,
)
b16_squared = planted(
    stable_bench_printed, "B16: variance as standard deviation", "conformance", kernel=Squared
)
eighth = planted(stable_bench_printed, "sigma / 8", "conformance", kernel=Eighth)
root_two = planted(
    stable_bench_printed, "sigma / sqrt(2), which slack hides", "conformance", kernel=RootTwo
)

# --- a program ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _UnitFromData(PhasedERM):
    """Takes the unit of a phase from what an earlier one saw of the data (B9)."""

    def run(self, curator: Curator) -> Optimised:
        seen = [1.0]
        point = self.problem.start(curator.trials)
        failed = []
        for _ in range(self.count):
            search = Oracle(self.constants.kappa, self.constants.kappa + 1)
            statistic = Adversarial(search.score, search.other)
            watching, kappa = _Seeing(search, seen), self.constants.kappa
            query = StableQuery(statistic, watching, seen[-1], kappa, self.problem.users)
            _, bottom = stable_release(curator, "phase", query)
            failed.append(bottom)
        return Optimised(point, np.stack(failed, axis=1))


@dataclass(frozen=True)
class _Seeing:
    """Notes the largest user, for the next unit."""

    inner: Oracle
    seen: list[float]

    @property
    def distance(self) -> Distance:
        return Distance.PATH

    def check(self, users: int, kappa: int) -> None:
        """As the oracle."""

    def find(self, statistic: Statistic, users: Array, unit: Array | float, kappa: int) -> Found:
        self.seen.append(1.0 + float(users.max()))
        return self.inner.find(statistic, users, unit, kappa)


@dataclass(frozen=True)
class _AllUsersEachPhase(PhasedSCO):
    """Runs every phase on all users, not on its batch (B11)."""

    def run(self, curator: Curator) -> Optimised:
        start = self.problem.start(curator.trials)
        made: Callable[[Minimiser], Statistic] = self.make or _itself
        for label in self.labels():
            statistic = made(Minimiser(self.problem.loss, self.problem.domain))
            users, kappa = self.problem.users, self.constants.kappa
            query = StableQuery(statistic, self.search, 1.0, kappa, users)
            curator.release(label, query)
        return Optimised(start, np.zeros((curator.trials, self.count), dtype=bool))


def _itself(minimiser: Minimiser) -> Statistic:
    return minimiser


def _as(kind: type[Any], program: Any) -> Any:
    """The same fields in another class."""
    return kind(**program.__dict__)


b9_unit_from_data = planted(
    stable_bench_phases,
    "B9: a unit made of private records",
    "conformance",
    program=_as(_UnitFromData, attacked(stable_bench_phases.program)),
)
b11_all_users_each_phase = planted(
    stable_bench_batches,
    "B11: every phase on all users",
    "conformance",
    program=_as(_AllUsersEachPhase, attacked(stable_bench_batches.program)),
)

# --- a declaration --------------------------------------------------------------------------------


def _declared(
    name: str,
    bug: str,
    program: Program,
    *caught_by: str,
    claim: tuple[object, object] = (1, DELTA),
) -> tuple[Mechanism, Suite]:
    """A mechanism whose own declaration is wrong, under the paper's claim, and its audit."""
    mechanism = bench(name, program, *claim)
    return mechanism, planted(mechanism, bug, *caught_by)


def _with_noise(divisor: int) -> DeletionStableOutputPerturbation:
    noise = PRINTED.noise_multiplier / divisor
    return DeletionStableOutputPerturbation(300, 1.0, replace(PRINTED, noise_multiplier=noise))


@dataclass(frozen=True)
class ClosedRanges(DeletionStableOutputPerturbation):
    """What a user on the border of two closed ranges takes part in: two releases (B11)."""

    def declaration(self, scope: Scope) -> Node:
        check_scope(scope, type(self).__name__)
        return Repeat(self.constants.leaf(RELEASE), 2)

    def run(self, curator: Curator) -> Array:
        curator.release(RELEASE, self.query())
        return curator.release(RELEASE, self.query())


stable_b1, b1_sigma_of_one_unit = _declared(
    "stable_b1", "B1: sigma for Delta, not 8 kappa Delta", _with_noise(8 * 32),
    "accountant", "refuted",
)  # fmt: skip
stable_b2, b2_sigma_of_two_units = _declared(
    "stable_b2", "B2: sigma for 2 Delta", _with_noise(4 * 32), "accountant", "refuted"
)
SHORT = Constants(Fraction(1, 2), 15, printed_constants(Fraction(1), DELTA).noise_multiplier)
stable_b5, b5_kappa_of_the_whole_budget = _declared(
    "stable_b5", "B5: kappa from (epsilon, delta)",
    DeletionStableOutputPerturbation(300, 1.0, SHORT), "accountant",
)  # fmt: skip
# The same at a delta at which some 10^4 trials see it: p(0) = .0045 of 1e-3.
stable_b5_seen = bench(
    "stable_b5_seen",
    DeletionStableOutputPerturbation(
        40, 1.0, Constants(Fraction(1, 2), 8, del_output_pert_paper(1, SEEN).noise_multiplier)
    ),
    1,
    SEEN,
)
stable_b10, b10_whole_budget_each_phase = _declared(
    "stable_b10", "B10: (epsilon, delta) in each of 10 phases",
    PhasedERM(replace(PROBLEM, users=8 * PRINTED.kappa + 2), PRINTED, 10, 1.0),
    "accountant", "refuted", claim=(1, 10 * DELTA),
)  # fmt: skip
stable_b11, b11_closed_ranges = _declared(
    "stable_b11", "B11: closed ranges, a user in two batches",
    ClosedRanges(10, 1.0, TWO), "refuted", claim=(4, Fraction(1, 20)),
)  # fmt: skip
