"""Algorithms 1 to 3 and their baselines on somebody's users: ``compare --paper user_level``."""

from __future__ import annotations

from dpaudit.compare import Comparison, Method
from mechanisms.papers.common.compared import FULL_BATCH, ONE_PASS
from mechanisms.papers.common.objectives import logistic
from mechanisms.papers.user_level import baselines_catalogue as baselines
from mechanisms.papers.user_level import catalogue

COMPARISON = Comparison(
    name="user_level",
    title="Algorithms 1 to 3 and their baselines, for users (Lowy, Liu and Asi 2024)",
    methods=(
        Method("Algorithm 1, weighted inliers", catalogue.user_level_phased_sgd),
        Method("Algorithm 2, all users in every round", catalogue.user_level_accelerated_sgd),
        Method("Algorithm 3", catalogue.user_level_phased_erm),
        Method(ONE_PASS, baselines.user_level_dp_sgd_one_pass),
        Method(FULL_BATCH, baselines.user_level_dp_gd_full_batch),
        Method("phased SGD (FKT20)", baselines.user_level_phased_sgd_baseline),
        Method("outliers removed, full batches (AL24)", baselines.full_batch_outlier_removed_dpsgd),
    ),
    objective=logistic,
    one_pass=ONE_PASS,
    full_batch=FULL_BATCH,
    left_out=(
        (
            ("winsorized_mean_dpsgd",),
            "an account of its secret batches takes seconds, and no noise is calibrated by it",
        ),
        (
            ("user_level_accelerated_sgd_sampled_tests", "user_level_phased_erm_sampled_tests"),
            "no noise is calibrated by the account of their tests on secret batches",
        ),
        (
            (
                "user_level_ldp_sgd",
                "above_threshold",
                "outlier_removed_mean",
                "outlier_removed_mean_random",
            ),
            "of numbers of users, and no model",
        ),
        (
            ("user_level_phased_sgd_plain", "user_level_phased_sgd_random"),
            "as user_level_phased_sgd_baseline, or user_level_phased_sgd with eight times the "
            "epsilon",
        ),
        (("user_level_phased_sgd_public_order",), "as user_level_phased_sgd, on shuffled users"),
        (
            ("smoothed_user_level_phased_erm", "strongly_convex_reduction"),
            "user_level_phased_erm on another loss, made for its own number of users",
        ),
    ),
)
