"""Algorithm 3: phases of Algorithm 2 on disjoint users, each pulled to what the last one released.

Source: Lowy, Liu, Asi 2024, Algorithm 3 and Theorem 3.1; strongly convex losses: Remark 3.6, a
reconstruction by Feldman, Koren, Talwar 2020, Section 5.1.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dpaudit.curator.curator import Curator, Part
from dpaudit.errors import InvalidParameter
from dpaudit.families.composition import Parallel
from dpaudit.kernels.query import Array
from dpaudit.nodes import Node
from dpaudit.scope import Scope
from mechanisms.papers.user_level.accelerated import BatchSolver, TestedSolver, check_batch
from mechanisms.papers.user_level.acsa import Stage, restarts
from mechanisms.papers.user_level.batches import (
    BatchConstants,
    Radii,
    calibrate_batches,
    printed_batches,
    users_needed,
)
from mechanisms.papers.user_level.constants import HALT, budget
from mechanisms.papers.user_level.phased_sgd import Solution, printed_sizes, with_rest
from mechanisms.papers.user_level.problem import Problem, check_scope, positive, within

Flags = NDArray[np.bool_]


class Phase(Protocol):
    """One phase: its users, its weight lambda_i, its stages, and how a round reads its users."""

    @property
    def users(self) -> int:
        """Users of the phase, its own."""

    @property
    def weight(self) -> float:
        """lambda_i, of the distance to where the phase starts."""

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The stages of its accelerated steps."""

    @property
    def constants(self) -> Any:
        """Of its batches: :class:`BatchConstants`, or ``ReleaseConstants`` of a round."""

    @property
    def rounds(self) -> int:
        """T_i."""

    @property
    def batch(self) -> int:
        """K_i: users that a round reads."""

    def node(self, labels: tuple[str, str]) -> Node:
        """What the phase releases."""

    def solver(self, problem: Problem, radius: float) -> TestedSolver:
        """Its rounds."""


@dataclass(frozen=True)
class ErmPhase:
    """A phase whose rounds read the same users, tested by one threshold over all rounds."""

    users: int
    weight: float
    constants: BatchConstants
    stages: tuple[Stage, ...]

    @property
    def rounds(self) -> int:
        """T_i."""
        return self.constants.rounds

    @property
    def batch(self) -> int:
        """K_i: all users of the phase but for an odd one."""
        return self.constants.batch

    def node(self, labels: tuple[str, str]) -> Node:
        """The test over all rounds, and the rounds."""
        return self.constants.node(*labels)

    def solver(self, problem: Problem, radius: float) -> TestedSolver:
        """The rounds of Algorithm 2."""
        return BatchSolver(problem, radius, self.constants)


@dataclass(frozen=True)
class UserLevelPhasedERM:
    """Phases of AC-SA on disjoint users; the first failed test ends a run, whose output is x_0.

    ``radius``: tau, public, the same in all phases; ``prefix`` names the releases; ``reach``: how
    far from where it starts a run searches.
    Errors: InvalidParameter for no phase, or more users than there are, or than a batch.
    Source: Lowy, Liu, Asi 2024, Algorithm 3, K_i capped at n_i.
    """

    problem: Problem
    phases: tuple[Phase, ...]
    radius: float
    prefix: str = ""
    reach: float = math.inf

    def __post_init__(self) -> None:
        positive(self.radius, "radius")
        if not self.reach > 0:
            raise InvalidParameter(f"reach = {self.reach}: expected a positive number")
        used = sum(phase.users for phase in self.phases)
        if not self.phases or used > self.problem.users:
            raise InvalidParameter(
                f"{len(self.phases)} phases of {used} users in all: expected at least one phase, "
                f"and at most the {self.problem.users} users"
            )
        for phase in self.phases:
            check_batch(phase.batch, phase.users)
            if sum(stage.steps for stage in phase.stages) != phase.rounds:
                raise InvalidParameter("stages: expected as many steps as rounds, in every phase")

    @property
    def sizes(self) -> tuple[int, ...]:
        """Users of each phase, and of the rest, which is never read."""
        return with_rest([phase.users for phase in self.phases], self.problem.users)

    @property
    def gradients(self) -> int:
        """Gradients of one item that a run takes: the sum of T_i K_i m."""
        each = (phase.rounds * phase.batch for phase in self.phases)
        return sum(each) * self.problem.items

    def labels(self, phase: int) -> tuple[str, str]:
        """Of the test and of the gradients."""
        return f"{self.prefix}score {phase + 1}", f"{self.prefix}gradient {phase + 1}"

    def nodes(self) -> list[Node]:
        """One a phase."""
        return [phase.node(self.labels(i)) for i, phase in enumerate(self.phases)]

    def declaration(self, scope: Scope) -> Node:
        """A threshold test with its rounds for each phase, on disjoint users."""
        check_scope(scope, type(self).__name__)
        return Parallel(*self.nodes())

    def run(self, curator: Curator) -> Solution:
        start, on = self.problem.start(curator.trials), np.ones(curator.trials, dtype=bool)
        return self.run_in(curator, start, on, lambda i: curator.part(i, self.sizes))

    def run_in(
        self, curator: Curator, start: Array, on: Flags, rows: Callable[[int], Part]
    ) -> Solution:
        """The phases on given parts, from a released start, in the trials that are on."""
        point, searched = start, within(self.problem, start, self.reach)
        for i, phase in enumerate(self.phases):
            if not on.any():
                break
            solver = phase.solver(searched, self.radius)
            found = solver.solve(
                curator, point, phase.weight, phase.stages, on, self.labels(i), rows(i)
            )
            on, point = ~found.halted, found.output
        return Solution(np.where(on[:, None], searched.project(point), start), ~on)


def concentration_radius(problem: Problem, rounds: int, chance: float = HALT) -> float:
    """tau = 2 L sqrt(2 log(2 n T / gamma) / m): every user mean is within it of its expectation.

    Source: Pinelis 1994, for i.i.d. items; "paper" leaves the constant open.
    """
    logarithm = math.log(2 * problem.users * rounds / chance)
    return 2 * problem.lipschitz * math.sqrt(2 * logarithm / problem.least_items)


def base_weight(problem: Problem, epsilon: float) -> float:
    """lambda = (L/R) (1/sqrt(nm) + sqrt(d) / (eps n sqrt(m))).  Source: Theorem C.3."""
    users, items = problem.users, problem.items
    noise = math.sqrt(problem.dimension) / (epsilon * users * math.sqrt(items))
    return problem.lipschitz / problem.diameter * (1 / math.sqrt(users * items) + noise)


def rounds_of(problem: Problem, smoothness: float, weight: float) -> int:
    """T_i = ceil((1 + sqrt(beta / lambda_i)) log(n d m)).  Source: Lemma D.2."""
    logarithm = math.log(problem.users * problem.dimension * problem.items)
    return math.ceil((1 + math.sqrt(smoothness / weight)) * logarithm)


def batch_variance_bound(problem: Problem, batch: int, sigma: float) -> float:
    """V^2 = d sigma^2 + L^2 log(n d m) / (K m).  Source: Lowy, Liu, Asi 2024, Lemma 3.5."""
    logarithm = math.log(problem.users * problem.dimension * problem.items)
    sampled = problem.lipschitz**2 * logarithm / (batch * problem.items)
    return problem.dimension * sigma**2 + sampled


def calibrated_phased_erm(
    problem: Problem,
    epsilon: object,
    delta: object,
    smoothness: float,
    radius: float = 0.0,
    radii: str = Radii.CORE,
    most_rounds: int = 10_000,
) -> UserLevelPhasedERM:
    """Phases of n/2, n/4, ... while users suffice; q = 1, lambda_i = lambda 2^(p i), p = 5.5 + J/2.

    ``radius``: tau, or else :func:`concentration_radius`; ``most_rounds`` caps T_i.
    Errors: InvalidParameter for too few users, with how many are needed.
    """
    positive(smoothness, "smoothness")
    budgeted = budget(epsilon, delta)
    base, power = base_weight(problem, float(budgeted[0])), printed_power(problem, 1.0)
    made: list[tuple[int, float, int]] = []
    for i in range(1, 1 + int(math.log2(problem.users))):
        weight = base * 2 ** (power * i)
        rounds = min(rounds_of(problem, smoothness, weight), most_rounds)
        size = problem.users >> i
        needed = users_needed(*budgeted, rounds, radii)
        if size - size % 2 < needed:
            break
        made.append((size, weight, rounds))
    if not made:
        raise InvalidParameter(
            f"UserLevelPhasedERM: {problem.users} users are too few at epsilon = "
            f"{float(budgeted[0]):g}, delta = {float(budgeted[1]):g}: half of them go to phase 1 "
            f"of {rounds} rounds, so it needs at least {2 * needed}"
        )
    tau = radius or concentration_radius(problem, sum(rounds for _, _, rounds in made))
    phases = []
    for size, weight, rounds in made:
        constants = calibrate_batches(*budgeted, size, rounds, radii)
        phases.append(phase_of(problem, size, weight, constants, smoothness, tau))
    return UserLevelPhasedERM(problem, tuple(phases), tau)


def single_phase_erm(
    problem: Problem, epsilon: object, delta: object, smoothness: float, rounds: int, weight: float
) -> UserLevelPhasedERM:
    """One phase on all users: a base for restarts.  Errors: as :func:`calibrate_batches`."""
    tau = concentration_radius(problem, rounds)
    constants = calibrate_batches(epsilon, delta, problem.users, rounds)
    phase = phase_of(problem, problem.users, weight, constants, smoothness, tau)
    return UserLevelPhasedERM(problem, (phase,), tau)


def phase_of(
    problem: Problem,
    users: int,
    weight: float,
    constants: BatchConstants,
    smoothness: float,
    radius: float,
) -> ErmPhase:
    """One phase, with the restarts that its noise asks for."""
    variance = batch_variance_bound(problem, constants.batch, float(constants.noise) * radius)
    width = problem.diameter
    excess = problem.lipschitz * width + weight * width**2 / 2
    stages = restarts(constants.rounds, smoothness + weight, weight, variance, excess)
    return ErmPhase(users, weight, constants, stages)


def printed_power(problem: Problem, shrink: float) -> float:
    """p = 3 q + 2.5 + log_n sqrt(m).  Source: Theorem C.3."""
    return 3 * shrink + 2.5 + math.log(problem.items) / 2 / math.log(max(2, problem.users))


def printed_phased_erm(
    problem: Problem,
    epsilon: object,
    delta: object,
    smoothness: float,
    shrink: float = 0.1,
    count: int = 0,
) -> UserLevelPhasedERM:
    """Constants as printed, with K_i = n_i; tau = L log(n d m) / sqrt(m), its constant being 1.

    ``count``: phases, or else floor(log2 n).
    """
    users, items = problem.users, problem.items
    base = base_weight(problem, float(budget(epsilon, delta)[0]))
    power = printed_power(problem, shrink)
    tau = problem.lipschitz * math.log(users * problem.dimension * items) / math.sqrt(items)
    phases = []
    for i, size in enumerate(printed_sizes(users, shrink, count or int(math.log2(users))), 1):
        weight = base * 2 ** (power * i)
        rounds = rounds_of(problem, smoothness, weight)
        constants = printed_batches(users, size, problem.dimension, epsilon, delta, rounds)
        phases.append(phase_of(problem, size, weight, constants, smoothness, tau))
    return UserLevelPhasedERM(problem, tuple(phases), tau)


@dataclass(frozen=True)
class StronglyConvexReduction:
    """Restarts of a base algorithm on disjoint users, from the point that the last one released.

    ``bases``: one phased program a phase, over a problem of its own users; ``problem``: all users.
    Each has the whole budget, since its users are its own.
    Errors: InvalidParameter for no base, or more users than there are.
    Source: Feldman, Koren, Talwar 2020, Section 5.1 (a reconstruction); Lowy, Liu, Asi 2024,
    Remark 3.6.
    """

    problem: Problem
    bases: tuple[UserLevelPhasedERM, ...]

    def __post_init__(self) -> None:
        if not self.bases or sum(sum(base.sizes) for base in self.bases) > self.problem.users:
            raise InvalidParameter("StronglyConvexReduction: no base, or more users than there are")

    @property
    def sizes(self) -> tuple[int, ...]:
        """Users of every phase of every base, and of the rests, which are never read."""
        read = [size for base in self.bases for size in base.sizes]
        return with_rest(read, self.problem.users)

    @property
    def named(self) -> tuple[UserLevelPhasedERM, ...]:
        """The bases with names of their own."""
        return tuple(replace(b, prefix=f"restart {k + 1}: ") for k, b in enumerate(self.bases))

    def declaration(self, scope: Scope) -> Node:
        """All phases of all bases on disjoint users; a part that no base reads releases nothing."""
        check_scope(scope, type(self).__name__)
        nodes: list[Node] = []
        for base in self.named:
            unread = len(base.sizes) - len(base.phases)
            nodes += [*base.nodes(), *([nothing()] * unread)]
        return Parallel(*nodes)

    def run(self, curator: Curator) -> Solution:
        start = point = self.problem.start(curator.trials)
        on, first = np.ones(curator.trials, dtype=bool), 0
        for base in self.named:
            found = base.run_in(curator, point, on, self._rows(curator, first))
            on, first = ~found.halted, first + len(base.sizes)
            point = found.output
            if not on.any():
                break
        return Solution(np.where(on[:, None], point, start), ~on)

    def _rows(self, curator: Curator, first: int) -> Callable[[int], Part]:
        return lambda i: curator.part(first + i, self.sizes)


def nothing() -> Node:
    """The declaration of a part that is never read."""
    from dpaudit.families.additive import Gaussian
    from dpaudit.families.composition import Repeat

    return Repeat(Gaussian("unread", 1), 0)


def strongly_convex_phases(
    problem: Problem,
    convexity: float,
    excess: Callable[[int, float], float],
    base: Callable[[Problem], UserLevelPhasedERM],
) -> StronglyConvexReduction:
    """k = ceil(log2 log2 n) restarts of 2^(i-2) n / log2 n users, rescaled to all users.

    Restart i searches the part of the set within R_i of the last point: R_0 = min(R, 2 L / mu),
    R_i^2 = 2 ``excess(users, R_(i-1))`` / mu.  ``base`` makes a program for a problem of those
    users and that radius, which sets its steps and weights.
    """
    positive(convexity, "convexity")
    count = max(1, math.ceil(math.log2(max(2.0, math.log2(problem.users)))))
    shares = [2.0**i for i in range(count)]
    sizes = [int(problem.users * share / sum(shares)) for share in shares]
    width, bases = min(problem.diameter, 2 * problem.lipschitz / convexity), []
    for size in sizes:
        made = base(replace(problem, users=size, radius=width / 2))
        on = replace(made.problem, radius=problem.radius)
        bases.append(replace(made, problem=on, reach=width))
        width = min(width, math.sqrt(2 * excess(size, width) / convexity))
    return StronglyConvexReduction(problem, tuple(bases))
