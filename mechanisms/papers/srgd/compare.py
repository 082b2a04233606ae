"""Accelerated-DP-SRGD and its baselines on somebody's rows: ``dpaudit compare --paper srgd``."""

from __future__ import annotations

from typing import Any

from dpaudit.compare import Comparison, Method
from dpaudit.curator.mechanism import Mechanism
from dpaudit.kernels.query import Array
from mechanisms.papers.common.objectives import logistic
from mechanisms.papers.srgd import baselines_catalogue as baselines
from mechanisms.papers.srgd.batches_catalogue import phased_erm_in_batches
from mechanisms.papers.srgd.catalogue import (
    accelerated_dp_srgd,
    accelerated_dp_srgd_sqrt_toeplitz,
    dp_srgd,
)

ONE_PASS, FULL_BATCH = "one-pass DP-SGD", "full-batch DP-GD"


def output(found: Any) -> Array:
    """The released model, (trials, d)."""
    model: Array = found.output
    return model


def of(name: str, mechanism: Mechanism) -> Method:
    """A method whose output holds its model as ``output``."""
    return Method(name, mechanism, output)


COMPARISON = Comparison(
    name="srgd",
    title="Accelerated-DP-SRGD and its baselines (Choquette-Choo, Ganesh and Thakurta 2024)",
    methods=(
        of("Accelerated-DP-SRGD, tree", accelerated_dp_srgd),
        of("Accelerated-DP-SRGD, square root", accelerated_dp_srgd_sqrt_toeplitz),
        of("DP-SRGD, tree", dp_srgd),
        of(ONE_PASS, baselines.dp_sgd_one_pass),
        of(FULL_BATCH, baselines.dp_gd_projected),
        of("accelerated DP-SGD, fresh noise", baselines.accelerated_dp_sgd),
        Method(
            "DP-SGD, Poisson batches",
            baselines.dp_sgd_poisson,
            output,
            lambda count, _features: {"expected_records": count},
        ),
        of("DP-FTRL", baselines.dp_ftrl),
        of("online to batch (ZTC22)", baselines.dp_online_to_batch),
        of("phased SGD (FKT20)", baselines.phased_sgd),
        of("phased ERM (ZTOH22)", baselines.phased_erm),
        of("phased ERM in batches (ZTOH22)", phased_erm_in_batches),
        of("localised accelerated DP-SGD (GLZW24)", baselines.localized_accelerated_dp_sgd),
    ),
    objective=logistic,
    one_pass=ONE_PASS,
    full_batch=FULL_BATCH,
    shared=frozenset({"radius"}),
    left_out=(
        (
            "accelerated_dp_srgd_unclipped, _theorem_5_8, _theorem_5_12, _corollary_5_7",
            "constants as printed, for n of 10^10 or more, or for a loss whose Lipschitz and "
            "smoothness constants hold for every record: accounted for at their own n",
        ),
    ),
)
