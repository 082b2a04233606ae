"""What Algorithms 1 to 3 are held against, on simulated users of RAND rows, with their claims.

Source: Lowy, Liu, Asi 2024, Figure 1 and footnote 2, and the papers each entry names.
"""

from __future__ import annotations

from fractions import Fraction

from dpaudit.accountant.claim import Claim
from dpaudit.families.opaque import PureDP
from mechanisms.papers.user_level.baselines import (
    FullBatchOutlierRemovedDPSGD,
    GroupPrivatePhasedSGD,
    UserLevelPhasedSGDBaseline,
)
from mechanisms.papers.user_level.batches import calibrate_batches
from mechanisms.papers.user_level.entries import (
    DELTA,
    ITEMS,
    LIPSCHITZ,
    PAPER,
    PROBLEM,
    SMOOTHNESS,
    UNREACHED,
    entry,
    ours,
    stated,
)
from mechanisms.papers.user_level.problem import LOCAL_USERS, Problem, SquaredDistance
from mechanisms.papers.user_level.winsorized import UserLevelLDPSGD, WinsorizedMeanDPSGD

# kappa(1, 1e-6), rounded up, and the item-level multiplier whose groups of five have (1, 1e-6).
KAPPA = Fraction("4.224679")
GROUP = KAPPA * ITEMS
FKT = "Feldman, Koren and Talwar 2020"
RECONSTRUCTED = "the paper only cites this algorithm: its body is a reconstruction"
REGULAR = "the loss scales every row to norm L at most and cuts targets to [0, 1]"

user_level_phased_sgd_baseline = entry(
    "user_level_phased_sgd_baseline",
    "Phased SGD with noise for all items of a user",
    f"{FKT}, Algorithm 2; noise at user level: dpaudit 2026",
    UserLevelPhasedSGDBaseline(PROBLEM, KAPPA, 4, 0.5, SMOOTHNESS, REGULAR),
    (ours(1),),
    "a noisy average iterate a phase, on disjoint users",
    RECONSTRUCTED,
    columns="logistic",
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
full_batch_outlier_removed_dpsgd = entry(
    "full_batch_outlier_removed_dpsgd",
    "Gradient descent on all users of a phase, outlier gradients removed",
    "Asi and Liu 2024; constants of Algorithm 2, calibrated: dpaudit 2026",
    FullBatchOutlierRemovedDPSGD(
        PROBLEM,
        tuple(calibrate_batches(4, DELTA, PROBLEM.users >> i, 20) for i in (1, 2)),
        LIPSCHITZ,
        1.0,
    ),
    (ours(4),),
    "answers of a test, and noisy mean gradients, in two phases on disjoint users",
    RECONSTRUCTED,
    columns="logistic",
    unexamined=UNREACHED,
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
