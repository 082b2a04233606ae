"""Stable releases and their baselines on somebody's users: ``compare --paper stable_erm``."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpaudit.compare import Comparison, Method
from dpaudit.kernels.query import Array
from mechanisms.papers.common.objectives import logistic
from mechanisms.papers.stable_erm import baselines_catalogue as baselines
from mechanisms.papers.stable_erm import catalogue
from mechanisms.papers.user_level import baselines_catalogue as user_level
from mechanisms.papers.user_level.compare import FULL_BATCH, ONE_PASS, of


def released(found: Any) -> Array:
    """The released model in the ball of radius 2, or the start where the outcome is bottom."""
    model = np.nan_to_num(np.asarray(found))
    lengths = np.linalg.norm(model, axis=1, keepdims=True)
    return np.asarray(model * np.minimum(1.0, 2.0 / np.maximum(lengths, 2.0)))


COMPARISON = Comparison(
    name="stable_erm",
    title="Stable releases and their baselines, for users (Ghazi et al. 2023)",
    methods=(
        Method("ladder of gradient norms", catalogue.ladder_stable_output_perturbation, released),
        Method("output perturbation (CMS11)", baselines.output_perturbation_user, released),
        of(ONE_PASS, user_level.user_level_dp_sgd_one_pass),
        of(FULL_BATCH, user_level.user_level_dp_gd_full_batch),
    ),
    objective=logistic,
    one_pass=ONE_PASS,
    full_batch=FULL_BATCH,
    left_out=(
        (
            "strongly_convex_output_perturbation",
            "its score enumerates sets of users, which ends for few users alone; the ladder has a"
            " score in polynomial time on any data",
        ),
        (
            "stable_phased_erm, stable_phased_sco, strongly_convex_erm, strongly_convex_sco",
            "the noise of a first phase exceeds the set of models, below millions of items a user:"
            " accounted for and run at their own sizes",
        ),
        (
            "deletion_stable_output_perturbation, window_mean_score, propose_test_release",
            "a release of a mean or a median, and of no model",
        ),
        ("output_perturbation_item, item_phased_erm", "their unit is a row, and not a user"),
    ),
)
