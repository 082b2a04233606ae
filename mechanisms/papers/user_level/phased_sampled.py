"""Algorithm 3 on secret batches K_i < n_i: a sound reading of the (n m)^(9/8) algorithm.

Every round draws a batch of the phase's own users without replacement, tests it by a Laplace noise
of its own, and releases its inliers' mean gradient or nothing: one mechanism, amplified whole.
Gradients are the sum of T_i K_i m, K_i = n_i / sqrt(T_i), so n m (beta / lambda)^(1/4).
Source: Lowy, Liu, Asi 2024, Algorithm 3 and Theorem 3.2; the test of each batch is dpaudit 2026,
by Balle, Barthe, Gaboardi 2018, Theorem 9.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from dpaudit.errors import InvalidParameter
from dpaudit.families.composition import Repeat
from dpaudit.families.sampling import SampledWithoutReplacement
from dpaudit.nodes import Node
from mechanisms.papers.user_level.accelerated import TestedSolver
from mechanisms.papers.user_level.acsa import Stage, restarts
from mechanisms.papers.user_level.constants import HALT, Inliers, ReleaseConstants, budget, kappa
from mechanisms.papers.user_level.phased_erm import (
    UserLevelPhasedERM,
    base_weight,
    batch_variance_bound,
    concentration_radius,
    printed_power,
    rounds_of,
)
from mechanisms.papers.user_level.points import even
from mechanisms.papers.user_level.problem import Problem, positive
from mechanisms.papers.user_level.sampled import SampledTestSolver, sampled_constants


@dataclass(frozen=True)
class SampledPhase:
    """A phase whose rounds read secret batches, each tested by a noise of its own.

    ``constants``: of one round, K groups of one user each, weighted inliers.
    Errors: InvalidParameter for random inliers, or no more users than a batch has.
    """

    users: int
    weight: float
    constants: ReleaseConstants
    stages: tuple[Stage, ...]

    def __post_init__(self) -> None:
        if self.constants.inliers != Inliers.WEIGHTED:
            raise InvalidParameter("SampledPhase: expected weighted inliers")
        if self.batch >= self.users:
            raise InvalidParameter(
                f"batch of {self.batch} from {self.users} users: it needs more users than a batch"
            )

    @property
    def rounds(self) -> int:
        """T_i."""
        return sum(stage.steps for stage in self.stages)

    @property
    def batch(self) -> int:
        """K_i."""
        return self.constants.groups

    def node(self, labels: tuple[str, str]) -> Node:
        """Test and release on a batch drawn without replacement, every round."""
        step = self.constants.node(labels[1])
        return Repeat(SampledWithoutReplacement(step, self.batch, self.users), self.rounds)

    def solver(self, problem: Problem, radius: float) -> TestedSolver:
        """The rounds of SampledTestSGD."""
        return SampledTestSolver(problem, radius, self.constants)


def with_batch(
    made: ReleaseConstants, batch: int, epsilon: Fraction, delta: Fraction
) -> ReleaseConstants:
    """The same test for a larger batch, and the release's noise at (epsilon, delta) for it."""
    if batch < made.groups:
        raise InvalidParameter(f"batch = {batch}: the test needs at least {made.groups} users")
    bar = made.threshold - made.core * made.groups
    larger = ReleaseConstants(
        batch, made.test_scale, made.core * batch + bar, made.core, Fraction(1)
    )
    noise = kappa(epsilon, delta) * larger.unit
    return ReleaseConstants(batch, made.test_scale, larger.threshold, made.core, noise)


def sampled_phased_erm(
    problem: Problem,
    test: object,
    release: object,
    delta: object,
    smoothness: float,
    most_rounds: int = 10_000,
) -> UserLevelPhasedERM:
    """Phases of n/2, n/4, ... users while a batch is fewer than they are; K_i = n_i / sqrt(T_i).

    ``test`` and ``release``: of epsilon, a round's on its batch, before amplification by K_i / n_i;
    what all rounds of a phase come to is the accountant's to say.  K_i is at least what the test
    needs.  tau by :func:`concentration_radius`, for every round of every phase.
    Errors: InvalidParameter for too few users, with how many are needed.
    """
    positive(smoothness, "smoothness")
    rest, chance = budget(release, delta)
    base, power = base_weight(problem, float(rest)), printed_power(problem, 1.0)
    made: list[tuple[int, float, int, ReleaseConstants]] = []
    for i in range(1, 1 + int(math.log2(problem.users))):
        weight, size = base * 2 ** (power * i), problem.users >> i
        rounds = min(rounds_of(problem, smoothness, weight), most_rounds)
        constants = sampled_constants(test, release, delta, rounds)
        batch = max(constants.groups, even(size / math.sqrt(rounds)))
        if batch >= size:
            break
        share = chance / (2 * rounds)
        made.append((size, weight, rounds, with_batch(constants, batch, rest, share)))
    if not made:
        raise InvalidParameter(
            f"{problem.users} users are too few: half of them go to phase 1, whose batches have "
            f"{batch}, so it needs more than {2 * batch}"
        )
    tau = concentration_radius(problem, sum(rounds for _, _, rounds, _ in made), HALT)
    phases = []
    for size, weight, rounds, constants in made:
        sigma = float(constants.noise) * tau
        variance = batch_variance_bound(problem, constants.groups, sigma)
        width = problem.diameter
        excess = problem.lipschitz * width + weight * width**2 / 2
        stages = restarts(rounds, smoothness + weight, weight, variance, excess)
        phases.append(SampledPhase(size, weight, constants, stages))
    return UserLevelPhasedERM(problem, tuple(phases), tau)
