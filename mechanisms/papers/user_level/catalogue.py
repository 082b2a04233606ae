"""Outlier-removed means, Algorithms 1 to 3 and their readings, with their claims.

Programs with data run on simulated users of RAND rows: 3,230 users of 5 rows.
Source: Lowy, Liu, Asi 2024.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Annotated

from dpaudit.accountant.claim import Claim
from dpaudit.curator.parameters import Cost, Free
from dpaudit.families.opaque import PureDP
from mechanisms.papers.common.free import Delta, Epsilon, Rounds, Smoothness
from mechanisms.papers.user_level.accelerated import UserLevelAcceleratedSGD
from mechanisms.papers.user_level.acsa import one_stage
from mechanisms.papers.user_level.batches import (
    BatchConstants,
    Radii,
    calibrate_batches,
    printed_batches,
)
from mechanisms.papers.user_level.constants import Inliers, ReleaseConstants, calibrate_release
from mechanisms.papers.user_level.entries import (
    DELTA,
    HIDDEN_TEST,
    LIPSCHITZ,
    LOSS,
    OURS,
    PAPER,
    PROBLEM,
    RADIUS,
    SMOOTHNESS,
    TOO_MANY,
    UNREACHED,
    bottom_share,
    entry,
    ours,
    stated,
    stated_of,
)
from mechanisms.papers.user_level.outliers import OutlierRemovedMean
from mechanisms.papers.user_level.phased_erm import (
    UserLevelPhasedERM,
    base_weight,
    calibrated_phased_erm,
    printed_phased_erm,
    single_phase_erm,
    strongly_convex_phases,
)
from mechanisms.papers.user_level.phased_sgd import (
    UserLevelPhasedSGD,
    phased_sgd_of,
    printed_phased_sgd,
)
from mechanisms.papers.user_level.problem import Problem
from mechanisms.papers.user_level.readings import (
    IndependentSlotsTest,
    RedrawnThresholdTest,
    SecretBatchSGD,
)
from mechanisms.papers.user_level.smoothing import (
    BallSmoothedLoss,
    smoothed_smoothness,
    smoothing_radius,
)

ONE, FOUR, EIGHT, SMALL = Fraction(1), Fraction(4), Fraction(8), Fraction(1, 10**8)
# By calibrate_release(1, 1e-6) and (8, 1e-6, random), which the tests repeat.
BAR = Fraction(37498945351, 50000000)
WEIGHTED = ReleaseConstants(
    800, Fraction(8), BAR, Fraction(4, 5), Fraction("0.11039873704"), Inliers.WEIGHTED
)
RANDOM = ReleaseConstants(
    122,
    Fraction(1),
    Fraction(57861181689, 500000000),
    Fraction(4, 5),
    Fraction("0.205575925"),
    Inliers.RANDOM,
)
INERT = (
    "at these constants tau exceeds every distance of two groups' iterates: nothing is removed, "
    "and the noise is that of tau"
)
INTENDED = "xi drawn once, a batch is a set of users, K_i = n_i"

StepFactor = Annotated[
    float, Free("step sizes, as a multiple of those that the sizes of phases set", Cost.SCALE)
]
TauFactor = Annotated[
    float, Free("tau, the test's radius, as a multiple of the i.i.d. bound", Cost.SCALE)
]
Tau = Annotated[float, Free("tau, the test's radius, an l2 distance of gradients", Cost.SCALE)]
MostRounds = Annotated[int, Free("most rounds of a phase", Cost.NOISE)]

# --- one mean -------------------------------------------------------------------------------------

outlier_removed_mean = entry(
    "outlier_removed_mean",
    "A mean of user means without outliers, or bottom; weighted inliers",
    f"{PAPER}, Algorithm 1, lines 9 to 22; weights: {OURS}",
    OutlierRemovedMean(PROBLEM.users, PROBLEM.items, 0.25, 1.0, WEIGHTED),
    (ours(1),),
    "one noisy mean, or bottom",
    columns="visits",
    evaluate=bottom_share,
)
outlier_removed_mean_random = entry(
    "outlier_removed_mean_random",
    "A mean of user means without outliers, or bottom; random inliers",
    f"{PAPER}, Algorithm 1, lines 9 to 22; noise by the exact mixture: {OURS}",
    OutlierRemovedMean(PROBLEM.users, PROBLEM.items, 0.25, 1.0, RANDOM),
    (ours(8),),
    "one noisy mean, or bottom",
    columns="visits",
    evaluate=bottom_share,
    unexamined=UNREACHED,
)

# --- Algorithm 1 ----------------------------------------------------------------------------------


def of_groups(
    problem: Problem,
    *,
    epsilon: Epsilon = ONE,
    delta: Delta = DELTA,
    step_factor: StepFactor = 1.0,
    tau_factor: TauFactor = 1.0,
) -> tuple[UserLevelPhasedSGD, tuple[Claim, ...]]:
    """Algorithm 1 with calibrated constants for a problem, and its claim."""
    made = phased_sgd_of(problem, calibrate_release(epsilon, delta), problem.features / 4)
    phases = tuple(
        replace(p, step=p.step * step_factor, radius=p.radius * step_factor * tau_factor)
        for p in made.phases
    )
    return replace(made, phases=phases), (ours(epsilon, delta),)


user_level_phased_sgd = entry(
    "user_level_phased_sgd",
    "Phased SGD whose outlier iterates are removed; weighted inliers, calibrated constants",
    f"{PAPER}, Algorithm 1; calibrated: {OURS}",
    *of_groups(PROBLEM),
    "a noisy mean of iterates a phase, on disjoint users",
    INERT,
    columns="logistic",
    build=of_groups,
    unexamined=UNREACHED,
)
user_level_phased_sgd_random = entry(
    "user_level_phased_sgd_random",
    "Phased SGD whose outlier iterates are removed; random inliers, calibrated constants",
    f"{PAPER}, Algorithm 1; calibrated: {OURS}",
    phased_sgd_of(PROBLEM, RANDOM, SMOOTHNESS),
    (ours(8),),
    "a noisy mean of iterates a phase, on disjoint users",
    INERT,
    columns="logistic",
    unexamined=UNREACHED,
)
user_level_phased_sgd_paper = entry(
    "user_level_phased_sgd_paper",
    "Phased SGD whose outlier iterates are removed, constants as printed, 10^6 users of 10 items",
    f"{PAPER}, Algorithm 1",
    printed_phased_sgd(Problem(LOSS, 10**6, 10, 10, RADIUS, LIPSCHITZ), 1, DELTA),
    (
        stated(1, DELTA, "Theorem 2.1"),
        stated(Fraction("0.101"), DELTA, "exact profile", "a tenth of epsilon", OURS),
    ),
    "a noisy mean of iterates a phase, 20 phases on disjoint users",
    "the printed C is no whole number: it is rounded up to an even one",
    unexamined=TOO_MANY,
)

# --- Algorithms 2 and 3 ---------------------------------------------------------------------------

ROUNDS, PULL = 20, 0.3


def _tested(
    problem: Problem,
    *,
    epsilon: Epsilon = FOUR,
    delta: Delta = DELTA,
    rounds: Rounds = ROUNDS,
    smoothness: Smoothness = None,
    tau: Tau = 1.0,
) -> tuple[UserLevelAcceleratedSGD, tuple[Claim, ...]]:
    constants = calibrate_batches(epsilon, delta, problem.users, rounds)
    beta = (smoothness or problem.features / 4) + PULL
    program = UserLevelAcceleratedSGD(problem, constants, tau, PULL, one_stage(rounds, beta))
    return program, (ours(epsilon, delta),)


user_level_accelerated_sgd = entry(
    "user_level_accelerated_sgd",
    "Accelerated SGD with a threshold test in every round, all users in every batch",
    f"{PAPER}, Algorithm 2; calibrated, weighted inliers: {OURS}",
    *_tested(PROBLEM),
    "an answer of the test in every round, and noisy mean gradients",
    columns="logistic",
    build=_tested,
    unexamined=UNREACHED,
)

BIG = Problem(LOSS, 20_000, 10, 10, RADIUS, LIPSCHITZ)
AS_PRINTED = printed_batches(BIG.users, BIG.users, BIG.dimension, 1, SMALL, 19)
TAU = LIPSCHITZ * 14.508 / BIG.items**0.5

# n = 10^6, m = 1000, d = 10, q = 1/4: the last of 19 phases, where K_i = 1179 n_i.
SLOTS, SLOT_USERS, SLOT_ROUNDS, SLOT_RADIUS = 6_970_096, 5_912, 24, 0.728
SLOT_DELTA = Fraction(1, 10**10)
# By most_filled at a quarter of delta, which the tests repeat: no user fills more, but for MORE.
FILLED, MORE = 1_429, Fraction("1.9456e-11")
LITERAL = "the slots of a batch are drawn independently, K_i as printed: 1179 slots a user"
user_level_accelerated_sgd_independent_slots = entry(
    "user_level_accelerated_sgd_independent_slots",
    "The threshold test of accelerated SGD, a literal reading: slots drawn with replacement",
    f"{PAPER}, Algorithm 2, line 3, read literally",
    IndependentSlotsTest(SLOT_USERS, SLOTS, FILLED, SLOT_ROUNDS, ONE, SLOT_RADIUS, MORE),
    (
        stated_of(PureDP(Fraction(1, 2)), "proof of Theorem 3.1", LITERAL),
        stated(1, SLOT_DELTA, "Theorem 3.1", LITERAL),
    ),
    "whether each of 24 rounds passes",
    "against this reading: K_i <= n_i in the proof of Theorem C.3, and Lemma A.8",
    "between 665 and 666 outliers P(no halt) is .43659 and 4.72e-5: epsilon >= 9.13",
    expected=("refuted", "refuted"),
)
# By how much the score of a triangle of users exceeds 4 K / 5; the tests repeat it.
APART = Fraction("11.538")
REDRAWN = "xi is drawn in every round (line 4 stands inside the loop)"
user_level_accelerated_sgd_redrawn_threshold = entry(
    "user_level_accelerated_sgd_redrawn_threshold",
    "The threshold test of accelerated SGD, a literal reading: a threshold a round",
    f"{PAPER}, Algorithm 2, line 4, read literally",
    RedrawnThresholdTest(SLOT_USERS, 1, SLOT_ROUNDS, ONE, SLOT_RADIUS, APART),
    (
        stated_of(PureDP(Fraction(1, 2)), "proof of Theorem 3.1", REDRAWN),
        stated(1, SLOT_DELTA, "Theorem 3.1", REDRAWN),
    ),
    "whether each round passes, until one does not",
    "against this reading: xi has no index t, and Algorithm 4 draws it before the loop",
    "that no run halts is 3.215e-4 likely on 5,252 and 659 users at two corners of a triangle and "
    "one at its centre, 1.073e-4 with that one at the third: P - e P' = 2.98e-5",
    expected=("refuted", "refuted"),
)
HIDDEN = "xi drawn once, a secret set of K_i < n_i users in every round"
user_level_accelerated_sgd_secret_batches = entry(
    "user_level_accelerated_sgd_secret_batches",
    "Accelerated SGD with a threshold test, secret batches of a twentieth of the users",
    f"{PAPER}, Algorithm 2",
    SecretBatchSGD(
        (
            (
                60_000,
                BatchConstants(3_000, 400, ONE, Fraction("10.91"), Inliers.RANDOM, Radii.PRINTED),
            ),
        )
    ),
    (stated(1, SMALL, "Theorem 3.1", HIDDEN),),
    "400 answers of the test, and noisy mean gradients",
    "its proof amplifies by subsampling after conditioning on answers about the same batch",
    expected=("unproved",),
    unexamined=HIDDEN_TEST,
)


def _in_phases(
    problem: Problem,
    *,
    epsilon: Epsilon = FOUR,
    delta: Delta = DELTA,
    tau_factor: TauFactor = 1.0,
    rounds: MostRounds = 100,
) -> tuple[UserLevelPhasedERM, tuple[Claim, ...]]:
    beta = problem.features / 4
    program = calibrated_phased_erm(problem, epsilon, delta, beta, most_rounds=rounds)
    if tau_factor != 1:
        tau = program.radius * tau_factor
        program = calibrated_phased_erm(problem, epsilon, delta, beta, tau, most_rounds=rounds)
    return program, (ours(epsilon, delta),)


user_level_phased_erm = entry(
    "user_level_phased_erm",
    "Phases of accelerated SGD on disjoint users, calibrated constants",
    f"{PAPER}, Algorithm 3; calibrated, weighted inliers: {OURS}",
    *_in_phases(PROBLEM),
    "answers of a test, and noisy mean gradients, in two phases on disjoint users",
    columns="logistic",
    build=_in_phases,
    unexamined=UNREACHED,
)

SHIFT = smoothing_radius(PROBLEM.users, PROBLEM.items, PROBLEM.dimension, PROBLEM.diameter, 4.0)
SMOOTHED = Problem(
    BallSmoothedLoss(LOSS, SHIFT), PROBLEM.users, PROBLEM.items, 10, RADIUS, LIPSCHITZ
)
smoothed_user_level_phased_erm = entry(
    "smoothed_user_level_phased_erm",
    "Phases of accelerated SGD on a loss smoothed over a ball",
    f"{PAPER}, Section 4 and Appendix D; calibrated: {OURS}",
    calibrated_phased_erm(
        SMOOTHED,
        FOUR,
        DELTA,
        smoothed_smoothness(LIPSCHITZ, PROBLEM.dimension, SHIFT),
        most_rounds=40,
    ),
    (ours(4),),
    "answers of a test, and noisy mean gradients, in two phases on disjoint users",
    "at most 40 rounds a phase: the paper's would need more noise than these users can hide",
    columns="logistic",
    unexamined=UNREACHED,
)


PAIRS = Problem(LOSS, 8_075, 2, 10, RADIUS, LIPSCHITZ)
CONVEXITY = 0.25


def _base(problem: Problem) -> UserLevelPhasedERM:
    weight = base_weight(problem, 8.0)
    return single_phase_erm(problem, EIGHT, DELTA, SMOOTHNESS, 10, weight)


def _excess(users: int, width: float) -> float:
    """The rate of Theorem 3.1, constants 1, over a set of this diameter."""
    sized = Problem(LOSS, users, PAIRS.items, 10, width / 2, LIPSCHITZ)
    return base_weight(sized, 8.0) * width**2


strongly_convex_reduction = entry(
    "strongly_convex_reduction",
    "Restarts of accelerated SGD with a threshold test, for strongly convex losses",
    f"{PAPER}, Remark 3.6, a reconstruction by Feldman, Koren and Talwar 2020, Section 5.1",
    strongly_convex_phases(PAIRS, CONVEXITY, _excess, _base),
    (ours(8),),
    "answers of a test, and noisy mean gradients, in four restarts on disjoint users",
    "the logistic loss is strongly convex only where rows span all directions: utility only",
    columns="logistic",
    users=PAIRS.users,
    items=PAIRS.items,
    unexamined=UNREACHED,
)

user_level_accelerated_sgd_paper = entry(
    "user_level_accelerated_sgd_paper",
    "Accelerated SGD with a threshold test, noise as printed, 20,000 users in every batch",
    f"{PAPER}, Algorithm 2",
    UserLevelAcceleratedSGD(BIG, AS_PRINTED, TAU, 0.3, one_stage(19, SMOOTHNESS + 0.3)),
    (
        stated(1, SMALL, "Theorem 3.1", INTENDED),
        stated(Fraction("0.52"), SMALL, "exact profile", INTENDED, OURS),
    ),
    "19 answers of the test, and noisy mean gradients",
    unexamined=UNREACHED,
)
# The least users that the theorem's hypothesis allows, for q = 1/10 and m = d = 10.
HYPOTHESIS = {1: 198_325, 10: 18_259}
user_level_phased_erm_paper = entry(
    "user_level_phased_erm_paper",
    "Phases of accelerated SGD on disjoint users, noise as printed, 198,325 users, epsilon = 1",
    f"{PAPER}, Algorithm 3",
    printed_phased_erm(
        Problem(LOSS, HYPOTHESIS[1], 10, 10, RADIUS, LIPSCHITZ), 1, SMALL, SMOOTHNESS
    ),
    (stated(1, SMALL, "Theorem 3.1", INTENDED),),
    "answers of a test, and noisy mean gradients, in all 17 phases on disjoint users",
    "one instance of the theorem: q = 1/10, 10 items a user, 10 features, delta = 1e-8",
    unexamined=TOO_MANY,
)
user_level_phased_erm_paper_large_epsilon = entry(
    "user_level_phased_erm_paper_large_epsilon",
    "Phases of accelerated SGD on disjoint users, noise as printed, 18,259 users, epsilon = 10",
    f"{PAPER}, Algorithm 3",
    printed_phased_erm(
        Problem(LOSS, HYPOTHESIS[10], 10, 10, RADIUS, LIPSCHITZ), 10, SMALL, SMOOTHNESS
    ),
    (stated(10, SMALL, "Theorem 3.1", INTENDED),),
    "answers of a test, and noisy mean gradients, in all 14 phases on disjoint users",
    "one instance of the theorem: the events that its proof leaves out are likelier than delta",
    expected=("unproved",),
    unexamined=UNREACHED,
)
