"""What Algorithms 1 to 3 are held against, on simulated users of RAND rows, with their claims.

Source: Lowy, Liu, Asi 2024, Figure 1 and footnote 2, and the papers each entry names.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, TypeAlias

from dpaudit.accountant.claim import Claim
from dpaudit.curator.curator import Program
from dpaudit.curator.parameters import Cost, Free
from dpaudit.exact import sqrt
from dpaudit.families.opaque import PureDP
from dpaudit.measures.convert import gaussian_mu
from mechanisms.papers.common.free import Clip, Delta, Epsilon, Phases, Rounds, StepAt
from mechanisms.papers.user_level.baselines import (
    FullBatchOutlierRemovedDPSGD,
    GroupPrivatePhasedSGD,
    UserLevelPhasedSGDBaseline,
)
from mechanisms.papers.user_level.batches import calibrate_batches
from mechanisms.papers.user_level.constants import kappa
from mechanisms.papers.user_level.descent import UserLevelDPSGD
from mechanisms.papers.user_level.entries import (
    DELTA,
    ITEMS,
    PAPER,
    PROBLEM,
    UNREACHED,
    entry,
    lipschitz_of,
    ours,
    stated,
)
from mechanisms.papers.user_level.problem import LOCAL_USERS, Problem, SquaredDistance
from mechanisms.papers.user_level.winsorized import UserLevelLDPSGD, WinsorizedMeanDPSGD

Made: TypeAlias = tuple[Program, tuple[Claim, ...]]
ONE, FOUR = Fraction(1), Fraction(4)
# kappa(1, 1e-6), rounded up, and the item-level multiplier whose groups of five have (1, 1e-6).
KAPPA = Fraction("4.224679")
GROUP = KAPPA * ITEMS
FKT = "Feldman, Koren and Talwar 2020"
RECONSTRUCTED = "the paper only cites this algorithm: its body is a reconstruction"
REGULAR = "the loss scales every row to norm L at most and cuts targets to [0, 1]"

FirstStep = Annotated[float, Free("four times the step size of the first phase", Cost.SCALE)]


def phased_users(
    problem: Problem,
    *,
    epsilon: Epsilon = ONE,
    delta: Delta = DELTA,
    phases: Phases = 4,
    step: FirstStep = 0.5,
    noise: Fraction | None = None,
) -> Made:
    """Phases of one pass each, with noise for all items of a user."""
    multiplier = kappa(epsilon, delta) if noise is None else noise
    program = UserLevelPhasedSGDBaseline(
        problem, multiplier, phases, step, problem.features / 4, REGULAR
    )
    return program, (ours(epsilon, delta),)


user_level_phased_sgd_baseline = entry(
    "user_level_phased_sgd_baseline",
    "Phased SGD with noise for all items of a user",
    f"{FKT}, Algorithm 2; noise at user level: dpaudit 2026",
    *phased_users(PROBLEM, noise=KAPPA),
    "a noisy average iterate a phase, on disjoint users",
    RECONSTRUCTED,
    columns="logistic",
    build=phased_users,
    unexamined="a pass over so many users is too slow for a search of users that drive it apart",
)
group_private_phased_sgd = entry(
    "group_private_phased_sgd",
    "Phased SGD for items, as a guarantee for the five items of a user",
    f"{FKT}, Theorem 4.4; {PAPER}, footnote 2",
    GroupPrivatePhasedSGD(ITEMS, GROUP, 4, REGULAR),
    (stated(1, DELTA, "footnote 2", "noise from the exact curve of the group"),),
    "a noisy average iterate a phase, on disjoint items",
    unexamined="group privacy of items is accounted for, and run as user_level_phased_sgd_baseline",
)
Radius = Annotated[
    float | None,
    Free(
        "tau, the test's radius, an l2 distance of gradients",
        Cost.SCALE,
        default="sqrt(features), the Lipschitz constant",
        start=lambda of: lipschitz_of(of["features"]),
    ),
]


def outliers_removed(
    problem: Problem,
    *,
    epsilon: Epsilon = FOUR,
    delta: Delta = DELTA,
    rounds: Rounds = 20,
    phases: Phases = 2,
    step: FirstStep = 1.0,
    tau: Radius = None,
) -> Made:
    """Gradient descent on all users of a phase, outlier gradients removed."""
    sizes = [problem.users >> i for i in range(1, phases + 1)]
    constants = tuple(calibrate_batches(epsilon, delta, size, rounds) for size in sizes)
    program = FullBatchOutlierRemovedDPSGD(problem, constants, tau or problem.lipschitz, step)
    return program, (ours(epsilon, delta),)


full_batch_outlier_removed_dpsgd = entry(
    "full_batch_outlier_removed_dpsgd",
    "Gradient descent on all users of a phase, outlier gradients removed",
    "Asi and Liu 2024; constants of Algorithm 2, calibrated: dpaudit 2026",
    *outliers_removed(PROBLEM),
    "answers of a test, and noisy mean gradients, in two phases on disjoint users",
    RECONSTRUCTED,
    columns="logistic",
    build=outliers_removed,
    unexamined=UNREACHED,
)


def one_pass(
    problem: Problem,
    *,
    epsilon: Epsilon = ONE,
    delta: Delta = DELTA,
    rounds: Rounds = 20,
    step_size: StepAt = 1.0,
    clip: Clip = None,
) -> Made:
    """One-pass DP-SGD on disjoint batches of users."""
    noise = 1 / gaussian_mu(epsilon, delta)
    program = UserLevelDPSGD(problem, rounds, 1, step_size, clip or problem.lipschitz, noise)
    return program, (ours(epsilon, delta),)


def full_batch(
    problem: Problem,
    *,
    epsilon: Epsilon = ONE,
    delta: Delta = DELTA,
    rounds: Rounds = 20,
    step_size: StepAt = 1.0,
    clip: Clip = None,
) -> Made:
    """DP-GD on all users."""
    noise = sqrt(Fraction(rounds)) / gaussian_mu(epsilon, delta)
    program = UserLevelDPSGD(problem, 1, rounds, step_size, clip or problem.lipschitz, noise)
    return program, (ours(epsilon, delta),)


NOISY_MEAN = "a noisy mean of users' clipped mean gradients"
user_level_dp_sgd_one_pass = entry(
    "user_level_dp_sgd_one_pass",
    "User-level DP-SGD in one pass over disjoint batches of users",
    "Bassily, Smith and Thakurta 2014, a user's mean gradient for a record's (noise: dpaudit 2026)",
    *one_pass(PROBLEM),
    f"{NOISY_MEAN}, a batch, on disjoint users",
    columns="logistic",
    build=one_pass,
)
user_level_dp_gd_full_batch = entry(
    "user_level_dp_gd_full_batch",
    "User-level DP-GD on all users in every round",
    "Bassily, Smith and Thakurta 2014, a user's mean gradient for a record's (noise: dpaudit 2026)",
    *full_batch(PROBLEM),
    f"{NOISY_MEAN}, of all users, a round",
    columns="logistic",
    build=full_batch,
)
winsorized_mean_dpsgd = entry(
    "winsorized_mean_dpsgd",
    "Steps on means of user gradients, each coordinate cut to a private range",
    "Bassily and Sun 2023; Levy et al. 2021",
    WinsorizedMeanDPSGD(PROBLEM, 320, 5, Fraction(1, 10), 0.5, 0.5),
    (ours(1),),
    "a range and a mean of every rotated coordinate, on secret batches of users",
    RECONSTRUCTED,
    columns="logistic",
    unexamined="no generated users move the range of some rotated coordinates",
)
LOCAL, LOCAL_ITEMS = 80, 200
user_level_ldp_sgd = entry(
    "user_level_ldp_sgd",
    "Steps from users' own noisy reports, in one dimension",
    "Bassily and Sun 2023, Algorithm 5",
    UserLevelLDPSGD(
        Problem(SquaredDistance(1), LOCAL, LOCAL_ITEMS, 1, 1.0, 1.0),
        2,
        40,
        Fraction(1),
        0.125,
        0.5,
    ),
    (Claim(PureDP(1), by="Bassily and Sun 2023, Algorithm 5 (a reconstruction)"),),
    "one report of every user, private before anybody sees it",
    RECONSTRUCTED,
    columns="visits",
    users=LOCAL,
    items=LOCAL_ITEMS,
    scope=LOCAL_USERS,
)
