"""Planted bugs in outlier removal and threshold tests: a sampler kernel, a program, a declaration.

Numbers B1 to B20 are those of the project's audit plan for this paper.  ``small`` is one mean of
800 users at (1, 1e-6).  Benches at (8, 1e-6):
``mean`` is one outlier-removed mean of 122 users, weighted inliers; ``phases`` Algorithm 1 in two
phases; ``rounds`` Algorithm 2 in ten rounds of all of 500 users.  ``slots`` is the test of
Algorithm 2 alone at 1/2, slots drawn independently.  Twins are correct.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from audits.user_level import NEAR, attacked, hub, placed, rows
from dpaudit.accountant.claim import Claim
from dpaudit.audit.neighbours import Neighbours
from dpaudit.audit.suite import Suite
from dpaudit.curator.curator import Program
from dpaudit.curator.mechanism import Mechanism, Setting
from dpaudit.families.additive import Gaussian
from dpaudit.families.additive.kernel import GaussianKernel
from dpaudit.families.events import ProposeTestRelease
from dpaudit.families.opaque import ApproxDP, PureDP
from dpaudit.families.selection import AboveThreshold
from dpaudit.families.selection.threshold_kernel import AboveThresholdKernel
from dpaudit.families.stability.coupled_kernel import ProposeTestReleaseKernel
from dpaudit.kernels.query import Array, Records
from dpaudit.nodes import Node
from dpaudit.scope import Adjacency
from mechanisms.papers.user_level.accelerated import UserLevelAcceleratedSGD
from mechanisms.papers.user_level.acsa import one_stage
from mechanisms.papers.user_level.batches import calibrate_batches
from mechanisms.papers.user_level.catalogue import WEIGHTED
from mechanisms.papers.user_level.constants import Inliers, ReleaseConstants
from mechanisms.papers.user_level.outliers import OutlierRemovedMean
from mechanisms.papers.user_level.phased_sgd import phased_sgd_of
from mechanisms.papers.user_level.problem import USERS, LinearLoss, Problem
from mechanisms.papers.user_level.readings import IndependentSlotsTest

DELTA = Fraction(1, 10**6)
TRIALS = 4_000
QUARTER = 0.25  # a radius of which multiples are exact
GROUPS = 122
# By calibrate_release(8, 1e-6).
CONSTANTS = ReleaseConstants(
    GROUPS,
    Fraction(1),
    Fraction(57861181689, 500000000),
    Fraction(4, 5),
    Fraction(835907741, 7625000000),
    Inliers.WEIGHTED,
)
SETTING = Setting("the test bench", "user", "one row", ("everything that is released",))
EPSILON = Fraction(8)


def bench(name: str, program: Program, guarantee: Node | None = None) -> Mechanism:
    """A mechanism of the bench with one claim, (8, 1e-6) unless it says otherwise."""
    claim = Claim(guarantee or ApproxDP(EPSILON, DELTA), by="dpaudit 2026, calibrated constants")
    source = "Lowy, Liu, Asi 2024, Algorithms 1 and 2; wrong on purpose unless it says correct"
    return Mechanism(name, name.replace("_", " "), source, program, USERS, (claim,), SETTING)


MEAN = OutlierRemovedMean(GROUPS, 1, NEAR, 1.0, CONSTANTS)
PHASES = phased_sgd_of(Problem(LinearLoss(2), 4 * GROUPS, 1, 2, 1.0, 1.0), CONSTANTS)
ROUNDS = UserLevelAcceleratedSGD(
    Problem(LinearLoss(2), 500, 1, 2, 1.0, 1.0),
    calibrate_batches(EPSILON, DELTA, 500, 10),
    NEAR,
    0.3,
    one_stage(10, 1.3),
)
SLOTS = IndependentSlotsTest(5_912, 6_970_096, 1, 24, Fraction(1), 0.728)

user_level_bench_mean = bench("user_level_bench_mean", MEAN)
user_level_bench_small = bench(
    "user_level_bench_small", OutlierRemovedMean(800, 1, NEAR, 1.0, WEIGHTED), ApproxDP(1, DELTA)
)
user_level_bench_phases = bench("user_level_bench_phases", PHASES)
user_level_bench_rounds = bench("user_level_bench_rounds", ROUNDS)
user_level_bench_slots = bench("user_level_bench_slots", SLOTS, PureDP(Fraction(1, 2)))


def pair(first: Array, second: Array, text: str) -> Neighbours:
    """Neighbours under replace_one."""
    return Neighbours(Records(first), Records(second), Adjacency.REPLACE_ONE, text)


def planted(
    mechanism: Mechanism,
    bug: str,
    *caught_by: str,
    program: Program | None = None,
    neighbours: Neighbours | None = None,
    kernels: Mapping[type[Node], type[Any]] | None = None,
    trials: int = TRIALS,
) -> Suite:
    """An audit of a bench with one wrong part, on the hub unless data are given."""
    text = "one user's group, or gradient, is near to all others, or to none"
    return Suite(
        mechanism=mechanism.name,
        program=program or attacked(mechanism.program),
        neighbours=neighbours or pair(*rows(attacked(mechanism.program)), text),
        trials=trials,
        kernels=kernels or {},
        caught_by=caught_by,
        bug=bug,
    )


def line(*places: tuple[int, float], first: float) -> Array:
    """So many users at each place of the first axis, in units of tau, after the first user."""
    values = np.concatenate([[first], *(np.full(n, at) for n, at in places)])
    points = np.column_stack([values, np.zeros(len(values))])
    return placed(QUARTER * points, GROUPS)


SIDES = pair(
    placed(np.array([[2 * NEAR, 0.0]]), GROUPS),
    placed(np.array([[-2 * NEAR, 0.0]]), GROUPS),
    "one user on either side of all others, an inlier on both",
)

BETWEEN, ASIDE = (placed(2 * NEAR * points, 500) for points in hub(500, 403.0))
NEAR_THRESHOLD = pair(
    BETWEEN,
    ASIDE,
    "a score that passes nine rounds in ten, on either data set",
)

twin_mean = planted(user_level_bench_mean, "none: one outlier-removed mean, correct")
twin_sides = planted(user_level_bench_mean, "none: correct, an inlier moves", neighbours=SIDES)
twin_phases = planted(user_level_bench_phases, "none: Algorithm 1, correct")
twin_rounds = planted(user_level_bench_rounds, "none: Algorithm 2, correct")
twin_near = planted(
    user_level_bench_rounds, "none: Algorithm 2, correct", neighbours=NEAR_THRESHOLD
)
twin_small = planted(user_level_bench_small, "none: correct, at (1, 1e-6)")

# --- a sampler kernel -----------------------------------------------------------------------------


class TooLittle(ProposeTestReleaseKernel):
    """Standard deviation divided by ``divisor``."""

    divisor = 1.0

    def sample(self, values: Array, scale: Array, rng: np.random.Generator) -> Array:
        return super().sample(values, scale / self.divisor, rng)


class HalfSensitivity(TooLittle):
    """Noise for a user who comes or goes (B1)."""

    divisor = 2.0


class RootTwo(TooLittle):
    """Off by sqrt(2) (B2)."""

    divisor = 2**0.5


class RootOfGroups(TooLittle):
    """Divided by the root of C (B3): about 11."""

    divisor = GROUPS**0.5


class UnnormalisedPairs(ProposeTestReleaseKernel):
    """The score's noise on the number of pairs: 1 / C of what it must be (B4)."""

    def noise(self, trials: int, rng: np.random.Generator) -> Array:
        return super().noise(trials, rng) / GROUPS


class NoTestNoise(ProposeTestReleaseKernel):
    """The score is compared without noise (B5)."""

    def noise(self, trials: int, rng: np.random.Generator) -> Array:
        return np.zeros(trials)


class NeverHalts(ProposeTestReleaseKernel):
    """Releases whatever the test says (B10)."""

    def noise(self, trials: int, rng: np.random.Generator) -> Array:
        return np.full(trials, np.inf)


class OneQueryNoise(AboveThresholdKernel):
    """One noise for all queries (B6)."""

    def noise(self, scale: Array, rng: np.random.Generator) -> Array:
        drawn: Array = self.__dict__.setdefault("drawn", super().noise(scale, rng))
        return drawn


class FreshThreshold(AboveThresholdKernel):
    """A threshold drawn anew for every query (B7)."""

    def thresholds(self, scale: Array, rng: np.random.Generator) -> Array:
        self._threshold = None
        return super().thresholds(scale, rng)


class SmallQueryNoise(AboveThresholdKernel):
    """The threshold's scale on the queries too, as Algorithm 4 prints it."""

    def noise(self, scale: Array, rng: np.random.Generator) -> Array:
        return super().noise(scale, rng) * self._ratio


class OneGradientNoise(GaussianKernel):
    """One noise for all rounds (B14)."""

    def sample(self, values: Array, scale: Array, rng: np.random.Generator) -> Array:
        drawn: Array = self.__dict__.setdefault("drawn", rng.standard_normal((self.trials, 2)))
        return values + scale[:, None] * drawn


def tested(kernel: type[ProposeTestReleaseKernel]) -> dict[type[Node], type[Any]]:
    """A kernel in place of test and release."""
    return {ProposeTestRelease: kernel}


b1_half = planted(
    user_level_bench_mean, "B1: sensitivity of a user who comes or goes", "conformance",
    neighbours=SIDES, kernels=tested(HalfSensitivity),
)  # fmt: skip
b2_root_two = planted(
    user_level_bench_mean,
    "B2: sigma / sqrt(2)",
    "conformance",
    neighbours=SIDES,
    kernels=tested(RootTwo),
)
b3_root_of_groups = planted(
    user_level_bench_mean,
    "B3: sigma / sqrt(C)",
    "conformance",
    neighbours=SIDES,
    kernels=tested(RootOfGroups),
)
b4_unnormalised = planted(
    user_level_bench_small, "B4: noise on the number of pairs", "refuted",
    kernels=tested(UnnormalisedPairs),
)  # fmt: skip
b5_no_test_noise = planted(
    user_level_bench_small, "B5: no noise on the score", "refuted",
    kernels=tested(NoTestNoise),
)  # fmt: skip
b6_one_query_noise = planted(
    user_level_bench_rounds, "B6: one noise for all scores", "conformance",
    neighbours=NEAR_THRESHOLD, kernels={AboveThreshold: OneQueryNoise},
)  # fmt: skip
b7_fresh_threshold = planted(
    user_level_bench_rounds, "B7: a threshold a round", "conformance",
    neighbours=NEAR_THRESHOLD, trials=12_000, kernels={AboveThreshold: FreshThreshold},
)  # fmt: skip
b10_never_halts = planted(
    user_level_bench_mean, "B10: releases though the test failed", "conformance",
    kernels=tested(NeverHalts),
)  # fmt: skip
b14_one_noise = planted(
    user_level_bench_rounds, "B14: one noise for all rounds", "conformance",
    kernels={Gaussian: OneGradientNoise},
)  # fmt: skip
equal_scales = planted(
    user_level_bench_rounds, "Algorithm 4: equal scales on threshold and scores", "conformance",
    neighbours=NEAR_THRESHOLD, kernels={AboveThreshold: SmallQueryNoise},
)  # fmt: skip
