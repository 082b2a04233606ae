"""Algorithm 1: phases of grouped one-pass SGD, each released without outlier iterates.

Each user is in one phase and one group: the phases compose in parallel, and a later one starts
from what an earlier one released.
Source: Lowy, Liu, Asi 2024, Algorithm 1 and Theorem 2.1.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

import numpy as np
from numpy.typing import NDArray

from dpaudit.curator.curator import Curator
from dpaudit.errors import InvalidParameter
from dpaudit.families.composition import Parallel
from dpaudit.kernels.query import Array
from dpaudit.nodes import Node
from dpaudit.scope import Scope
from mechanisms.papers.user_level.constants import (
    DEFAULT_CORE,
    DEFAULT_SHARE,
    HALT,
    Inliers,
    ReleaseConstants,
    budget,
    calibrate_release,
    printed_release,
)
from mechanisms.papers.user_level.outliers import OutlierRemovedQuery, check_users
from mechanisms.papers.user_level.problem import Problem, check_scope, positive
from mechanisms.papers.user_level.sgd import one_pass_sgd, sgd_two_run_radius

PHASE = "phase"
MOST_PHASES = 4
TAUS = ("heuristic", "proven")


@dataclass(frozen=True)
class Solution:
    """What a run gives: the last point, (trials, d), and in which trials it halted, (trials,).

    A trial that halts gives the start, which no data decide.
    """

    output: Array
    halted: NDArray[np.bool_]


@dataclass(frozen=True)
class Phase:
    """Users of one phase, the step size of its SGD, and the radius tau of its test."""

    users: int
    step: float
    radius: float


@dataclass(frozen=True)
class UserLevelPhasedSGD:
    """Phases of ``constants.groups`` one-pass runs, their mean without outliers, and noise.

    Privacy rests on the test and the noise alone: on no property of the loss or of the data.
    Gradients are clipped to L; starts and outputs are projected, both of released values.
    Errors: InvalidParameter for a phase of fewer users than groups, before any data.
    Source: Lowy, Liu, Asi 2024, Algorithm 1.
    """

    problem: Problem
    constants: ReleaseConstants
    phases: tuple[Phase, ...]

    def __post_init__(self) -> None:
        if not self.phases or sum(p.users for p in self.phases) > self.problem.users:
            raise InvalidParameter(
                f"{len(self.phases)} phases of {sum(p.users for p in self.phases)} users in all: "
                f"expected at least one phase, and at most the {self.problem.users} users"
            )
        for i, phase in enumerate(self.phases):
            check_users(phase.users, self.constants.groups, f"UserLevelPhasedSGD, phase {i + 1}")
            positive(phase.step, "step")
            positive(phase.radius, "radius")

    @property
    def sizes(self) -> tuple[int, ...]:
        """Users of each phase, and of the rest, which is never read."""
        return with_rest([phase.users for phase in self.phases], self.problem.users)

    @property
    def gradients(self) -> int:
        """Gradients of one item that a run takes: at most n m."""
        groups = self.constants.groups
        return sum(p.users // groups * groups * self.problem.items for p in self.phases)

    def labels(self) -> tuple[str, ...]:
        """One a phase."""
        return tuple(f"{PHASE} {i + 1}" for i in range(len(self.phases)))

    def declaration(self, scope: Scope) -> Node:
        """A test with its release for each phase, on disjoint users."""
        check_scope(scope, type(self).__name__)
        return Parallel(*(self.constants.node(label) for label in self.labels()))

    def query(self, phase: Phase, start: Array) -> OutlierRemovedQuery:
        """Averages of the groups' runs from a released start."""
        points: Callable[[Array], Array] = partial(
            _runs, self.problem, start, self.constants.groups, phase.step
        )
        return OutlierRemovedQuery(points, phase.radius, self.constants, self.problem.items)

    def run(self, curator: Curator) -> Solution:
        return self.run_from(curator, self.problem.start(curator.trials))

    def run_from(self, curator: Curator, start: Array) -> Solution:
        """The phases from a released start, in the set."""
        point, on = start, np.ones(curator.trials, dtype=bool)
        for i, phase in enumerate(self.phases):
            if not on.any():
                break
            rows = curator.part(i, self.sizes)
            query = self.query(phase, point)
            moved = curator.release(self.labels()[i], query, on=on, rows=rows)
            on = on & ~np.isnan(moved).all(axis=1)
            ahead = self.problem.project(point + np.where(on[:, None], moved, 0.0))
            point = np.where(on[:, None], ahead, start)
        return Solution(point, ~on)


def _runs(problem: Problem, start: Array, groups: int, step: float, users: Array) -> Array:
    return one_pass_sgd(problem, start, users, groups, step)


def with_rest(sizes: list[int], users: int) -> tuple[int, ...]:
    """Sizes of parts, and of what they leave."""
    rest = users - sum(sizes)
    return (*sizes, *([rest] if rest else []))


def calibrated_phased_sgd(
    problem: Problem,
    epsilon: object,
    delta: object,
    inliers: str = Inliers.WEIGHTED,
    core: Fraction = DEFAULT_CORE,
    share: Fraction = DEFAULT_SHARE,
    smoothness: float = 0.0,
    radius: str = "heuristic",
) -> UserLevelPhasedSGD:
    """Calibrated constants, phases of n/2, n/4, ..., four at most, each of C users at least.

    eta_1 = min(1/beta, R / (L sqrt(d T_1))), eta_i = eta_1 / 2^(1.5 (i - 1)).  ``radius``:
    "heuristic", 2 eta L sqrt(2/3 T log(2 C^2 l / gamma)), or "proven" for i.i.d. data; neither
    matters for privacy.
    Errors: InvalidParameter for fewer than 2 C users, as :func:`calibrate_release`.
    """
    constants = calibrate_release(epsilon, delta, inliers, core, share)
    return phased_sgd_of(problem, constants, smoothness, radius)


def phased_sgd_of(
    problem: Problem, constants: ReleaseConstants, smoothness: float = 0.0, radius: str = TAUS[0]
) -> UserLevelPhasedSGD:
    """The schedule of :func:`calibrated_phased_sgd` at given constants of a phase."""
    groups, users = constants.groups, problem.users
    if users < 2 * groups:
        raise InvalidParameter(
            f"UserLevelPhasedSGD: {users} users are too few for C = {groups} groups a phase: it "
            f"needs at least 2 C = {2 * groups}"
        )
    if radius not in TAUS:
        raise InvalidParameter(f"radius = {radius!r}: expected heuristic or proven")
    count = min(MOST_PHASES, int(math.log2(users // groups)))
    sizes = [users >> i for i in range(1, count + 1)]
    steps = [size // groups * problem.items for size in sizes]
    first = problem.diameter / (problem.lipschitz * math.sqrt(problem.dimension * steps[0]))
    first = min(first, 1 / smoothness) if smoothness else first
    sized = [first / 2 ** (1.5 * i) for i in range(count)]
    chances = HALT / (groups**2 * count)
    taus = [_tau(problem, eta, t, chances, radius) for eta, t in zip(sized, steps, strict=True)]
    return UserLevelPhasedSGD(problem, constants, tuple(map(Phase, sizes, sized, taus)))


def _tau(problem: Problem, step: float, steps: int, chance: float, radius: str) -> float:
    if radius == "proven":
        return sgd_two_run_radius(step, problem.lipschitz, steps, chance)
    return 2 * step * problem.lipschitz * math.sqrt(2 / 3 * steps * math.log(2 / chance))


def printed_phased_sgd(
    problem: Problem, epsilon: object, delta: object, shrink: float = 0.07
) -> UserLevelPhasedSGD:
    """Every constant as printed; phases that would have no user in some group are left out.

    ``shrink``: q, with n_i = (1 - 2^-q) n / 2^(i q); p = J + 3/2, J = max(1, log m / log n).
    Errors: InvalidParameter for too few users, which says how many the first phase needs.
    Source: Lowy, Liu, Asi 2024, Algorithm 1 and Appendix B.
    """
    users, items = problem.users, problem.items
    constants = printed_release(users, items, epsilon, delta)
    sizes = printed_sizes(users, shrink, math.ceil(math.log2(users)) if users > 1 else 1)
    kept = [size for size in sizes if size >= constants.groups]
    if not kept:
        raise InvalidParameter(
            f"UserLevelPhasedSGD, constants as printed: {users} users are too few for C = "
            f"{constants.groups} groups in phase 1: it needs at least "
            f"{printed_users_needed(items, epsilon, delta, shrink)}"
        )
    power = max(1.0, math.log(items) / math.log(users)) + 1.5
    root = math.sqrt(problem.dimension * items * users * float(budget(epsilon, delta)[0]))
    eta = problem.diameter / (problem.lipschitz * root)
    wide = 1000 * problem.lipschitz * math.log(users * problem.dimension * items)
    phases = []
    for i, size in enumerate(kept, start=1):
        step = eta / 2 ** (power * i)
        steps = size // constants.groups * items
        phases.append(Phase(size, step, wide * step * math.sqrt(steps)))
    return UserLevelPhasedSGD(problem, constants, tuple(phases))


def printed_sizes(users: int, shrink: float, count: int) -> list[int]:
    """floor((1 - 2^-q) n / 2^(i q)), i = 1, ..., l: they leave users that no phase reads."""
    positive(shrink, "q")
    return [int((1 - 2**-shrink) * users / 2 ** (i * shrink)) for i in range(1, count + 1)]


def printed_users_needed(items: int, epsilon: object, delta: object, shrink: float = 0.07) -> int:
    """The least n at which phase 1 has a user for every group, constants as printed."""

    def enough(users: int) -> bool:
        groups = printed_release(users, items, epsilon, delta).groups
        return printed_sizes(users, shrink, 1)[0] >= groups

    high = 2
    while not enough(high):
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
