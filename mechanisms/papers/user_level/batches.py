"""Constants of Algorithm 2: a threshold test over rounds, outliers removed from every batch.

The noisy score is at least 4 K / 5 + xi, xi drawn once, or the run halts.  A round whose score is
below ``core`` K passes with small probability (an event of the noise); otherwise the mean over
inliers is stable.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

from dpaudit.errors import InvalidParameter
from dpaudit.families.additive import Gaussian
from dpaudit.families.composition import Compose, Repeat
from dpaudit.families.events import EventSlack
from dpaudit.families.selection import AboveThreshold
from dpaudit.families.stability import CoupledGaussian
from dpaudit.nodes import Leaf, Node
from dpaudit.scope import choose
from mechanisms.papers.user_level.constants import ROOM, Inliers, budget, kappa, rounded_up
from mechanisms.papers.user_level.problem import whole

EVENT = "a round whose gradients are not concentrated passes the test, or keeps too few of them"
LEAST_BATCH = 20
SHARE = Fraction(4, 5)


class Radii(StrEnum):
    """Radii of score and of neighbours: 2 tau and 2 tau as printed, or 2 tau and 4 tau."""

    PRINTED = "printed"
    CORE = "core"


@dataclass(frozen=True)
class BatchConstants:
    """One run of ``rounds`` on batches of ``batch`` users, K, each user in one slot at most.

    ``epsilon``: the budget the test's noises are made of, 8 / epsilon on the threshold and
    16 / epsilon on every score; ``noise``: standard deviation over tau.
    Errors: InvalidParameter for an odd K or K < 20 (30 with core radii); no positive noise.
    """

    batch: int
    rounds: int
    epsilon: Fraction
    noise: Fraction
    inliers: str = Inliers.WEIGHTED
    radii: str = Radii.CORE

    def __post_init__(self) -> None:
        object.__setattr__(self, "inliers", choose(Inliers, self.inliers, "inliers"))
        object.__setattr__(self, "radii", choose(Radii, self.radii, "radii"))
        whole(self.batch, "batch")
        whole(self.rounds, "rounds")
        least = LEAST_BATCH if self.radii == Radii.PRINTED else 30
        if self.batch % 2 or self.batch < least:
            raise InvalidParameter(f"batch = {self.batch}: expected an even number from {least} on")
        if not (self.noise > 0 and self.epsilon > 0):
            raise InvalidParameter("noise, epsilon: expected positive numbers")

    @property
    def score_sensitivity(self) -> Fraction:
        """2 (K - 1) / K, a user being in one slot."""
        return Fraction(2 * (self.batch - 1), self.batch)

    @property
    def stable(self) -> Fraction:
        """The score from which on the mean is stable: 0.7 K, or 2 K / 3 + 1 with core radii."""
        core = Fraction(7, 10) * self.batch, Fraction(2 * self.batch, 3) + 1
        return core[0] if self.radii == Radii.PRINTED else core[1]

    @property
    def unit(self) -> Fraction:
        """One unit of the release, over tau.

        Weighted: all that the mean moves, 80 / K, or 48 / K with core radii.  Random: 16 / K or
        12 / K, of which it moves 2 + B.
        """
        printed, core = (16, 12) if self.inliers == Inliers.RANDOM else (80, 48)
        return Fraction(printed if self.radii == Radii.PRINTED else core, self.batch)

    @property
    def movable(self) -> int:
        """Slots other than the replaced one whose probability may change."""
        return self.batch - 1 if self.radii == Radii.PRINTED else self.batch // 3

    @property
    def slack(self) -> Fraction:
        """The probability of the event: T (P[Lap(16/eps) + Lap(8/eps) >= margin] + few inliers).

        Fewer than K / 4 of the inliers are kept with probability e^(-.045 K) at most (random
        inliers, radii as printed).
        """
        margin = float(SHARE * self.batch - self.stable) * float(self.epsilon)
        if margin <= 0:
            return Fraction(1, 2)
        tail = (4 * math.exp(-margin / 16) - math.exp(-margin / 8)) / 6
        few = self.inliers == Inliers.RANDOM and self.radii == Radii.PRINTED
        tail += math.exp(-0.045 * self.batch) if few else 0.0
        return min(Fraction(f"{max(self.rounds * tail * ROOM, 1e-300):.12e}"), Fraction(1, 2))

    def leaf(self, label: str) -> Leaf:
        """The noise on one mean of gradients."""
        multiplier = self.noise / self.unit
        if self.inliers == Inliers.WEIGHTED:
            return Gaussian(label, multiplier)
        return CoupledGaussian(label, multiplier, 2, self.movable, Fraction(6, self.batch))

    def threshold_test(self, label: str) -> AboveThreshold:
        """Below a threshold: negated, above one."""
        share = self.score_sensitivity * self.epsilon / 8
        return AboveThreshold(label, share, share)

    def node(self, score: str, gradient: str) -> Node:
        """The test over all rounds, the rounds, and the event."""
        rounds = Repeat(self.leaf(gradient), self.rounds)
        return EventSlack(Compose(self.threshold_test(score), rounds), self.slack, EVENT)


def users_needed(epsilon: object, delta: object, rounds: int, radii: str = Radii.CORE) -> int:
    """The least even K whose event costs at most delta / 2: (1 + e^epsilon) p <= delta / 2."""
    epsilon, delta = budget(epsilon, delta)
    room = float(delta) / 2 / (1 + math.exp(float(epsilon)))
    batch = LEAST_BATCH + 10
    while BatchConstants(batch, rounds, epsilon, Fraction(1), radii=radii).slack > room:
        batch = 2 * math.ceil(batch * 1.01 / 2 + 0.5)
    return batch


def calibrate_batches(
    epsilon: object, delta: object, users: int, rounds: int, radii: str = Radii.CORE
) -> BatchConstants:
    """All users in every round, weighted inliers: half of epsilon to the test, half to the noise.

    sigma = sqrt(T) unit kappa(epsilon / 2, delta / 2) tau.
    Errors: InvalidParameter for too few users, with how many are needed.
    """
    epsilon, delta = budget(epsilon, delta)
    needed = users_needed(epsilon, delta, rounds, radii)
    batch = users - users % 2
    if batch < needed:
        raise InvalidParameter(
            f"UserLevelAcceleratedSGD: {users} users are too few for {rounds} rounds at epsilon = "
            f"{float(epsilon):g}, delta = {float(delta):g}: it needs at least {needed}"
        )
    made = BatchConstants(batch, rounds, epsilon, Fraction(1), Inliers.WEIGHTED, radii)
    spread = kappa(epsilon / 2, delta / 2) * rounded_up(math.sqrt(rounds))
    return BatchConstants(batch, rounds, epsilon, spread * made.unit, made.inliers, made.radii)


def printed_batches(
    users: int, phase_users: int, dimension: int, epsilon: object, delta: object, rounds: int,
    batch: int = 0,
) -> BatchConstants:  # fmt: skip
    """Noise and radii as printed, random inliers; ``batch`` users a round, or all: K = n_i.

    sigma = 1000 tau sqrt(T) log(n d e^eps / delta) / (eps n_i).
    Source: Lowy, Liu, Asi 2024, Algorithm 2; K capped at n_i (its printed K exceeds n_i).
    """
    epsilon, delta = budget(epsilon, delta)
    logarithm = math.log(users * dimension / float(delta)) + float(epsilon)
    noise = 1000 * math.sqrt(rounds) * logarithm / (float(epsilon) * phase_users)
    size = min(batch or phase_users, phase_users)
    return BatchConstants(
        size - size % 2, rounds, epsilon, rounded_up(noise), Inliers.RANDOM, Radii.PRINTED
    )


def appendix_d_batch(
    samples: int, phase_users: int, dimension: int, epsilon: float, delta: float, rounds: int
) -> float:
    """K_i = n_i eps / sqrt(T) + log(n m d e^eps / delta) / eps, uncapped; ``samples``: n m.

    Errors: InvalidParameter for K_i T_i < n_i, where its bound of utility says nothing.
    Source: Lowy, Liu, Asi 2024, Appendix D.
    """
    logarithm = math.log(samples * dimension / delta) + epsilon
    found = phase_users * epsilon / math.sqrt(rounds) + logarithm / epsilon
    if found * rounds < phase_users:
        raise InvalidParameter(
            f"batch = {found:g} in {rounds} rounds: Theorem D.3 needs K T >= n_i = {phase_users}"
        )
    return found


def printed_batch(phase_users: int, items: int, epsilon: float, delta: float, rounds: int) -> float:
    """K_i = 500 log(n_i^2 m^2 e^eps / delta) (1/eps + n_i eps / sqrt(T log(1/delta))), uncapped."""
    logarithm = 2 * math.log(phase_users * items) + epsilon - math.log(delta)
    shrunk = phase_users * epsilon / math.sqrt(rounds * math.log(1 / delta))
    return 500 * logarithm * (1 / epsilon + shrunk)
