"""Accelerated-DP-SRGD and its baselines on somebody's rows: ``dpaudit compare --paper srgd``."""

from __future__ import annotations

from dpaudit.compare import Comparison, Method
from mechanisms.papers.common.compared import FULL_BATCH, ONE_PASS
from mechanisms.papers.common.objectives import logistic
from mechanisms.papers.srgd import baselines_catalogue as baselines
from mechanisms.papers.srgd.catalogue import (
    accelerated_dp_srgd,
    accelerated_dp_srgd_sqrt_toeplitz,
    dp_srgd,
)

COMPARISON = Comparison(
    name="srgd",
    title="Accelerated-DP-SRGD and its baselines (Choquette-Choo, Ganesh and Thakurta 2024)",
    methods=(
        Method("Accelerated-DP-SRGD, tree", accelerated_dp_srgd),
        Method("Accelerated-DP-SRGD, square root", accelerated_dp_srgd_sqrt_toeplitz),
        Method("DP-SRGD, tree", dp_srgd),
        Method(ONE_PASS, baselines.dp_sgd_one_pass),
        Method(FULL_BATCH, baselines.dp_gd_projected),
        Method("accelerated DP-SGD, fresh noise", baselines.accelerated_dp_sgd),
        Method(
            "DP-SGD, Poisson batches",
            baselines.dp_sgd_poisson,
            fixed=lambda count, _features: {"expected_records": count},
        ),
        Method("DP-FTRL", baselines.dp_ftrl),
        Method("online to batch (ZTC22)", baselines.dp_online_to_batch),
        Method("phased SGD (FKT20)", baselines.phased_sgd),
        Method("phased ERM (ZTOH22)", baselines.phased_erm),
        Method("localised accelerated DP-SGD (GLZW24)", baselines.localized_accelerated_dp_sgd),
    ),
    objective=logistic,
    one_pass=ONE_PASS,
    full_batch=FULL_BATCH,
    shared=frozenset({"radius"}),
    left_out=(
        (
            ("phased_erm_in_batches",),
            "phased ERM (ZTOH22) stands for it: the same minima to the same accuracy with the same "
            "noise, by a solver that takes longer here",
        ),
        (
            (
                "accelerated_dp_srgd_corollary_5_7",
                "accelerated_dp_srgd_theorem_5_12",
                "accelerated_dp_srgd_theorem_5_12_unclipped",
                "accelerated_dp_srgd_unclipped",
            ),
            "constants as printed, for one n, or for a loss whose Lipschitz and smoothness "
            "constants hold for every record: accounted for at their own n",
        ),
    ),
)
