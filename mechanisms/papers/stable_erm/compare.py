"""Stable releases and their baselines on somebody's users: ``compare --paper stable_erm``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from dpaudit.compare import Comparison, Method
from dpaudit.curator.curator import Program
from dpaudit.curator.mechanism import Mechanism
from dpaudit.curator.rehearsal import released
from dpaudit.kernels.query import Array
from mechanisms.papers.common.compared import FULL_BATCH, ONE_PASS
from mechanisms.papers.common.objectives import logistic
from mechanisms.papers.stable_erm import baselines_catalogue as baselines
from mechanisms.papers.stable_erm import build, catalogue
from mechanisms.papers.stable_erm.shaped import on_users, phased, staged
from mechanisms.papers.user_level import baselines_catalogue as user_level


def inside(found: Any) -> Array:
    """The released model in the ball of radius 2, or the start where the outcome is bottom."""
    model = np.nan_to_num(released(found))
    lengths = np.linalg.norm(model, axis=1, keepdims=True)
    return np.asarray(model * np.minimum(1.0, 2.0 / np.maximum(lengths, 2.0)))


def on_ladder(name: str, entry: Mechanism, make: Callable[..., Program]) -> Method:
    """An algorithm with phases on other users, each release at a ladder of gradient norms.

    The entry itself has the printed constants, and a score that enumerates sets of users.
    """
    title = f"{entry.title.partition(',')[0]}, each release at a ladder of gradient norms"
    source = f"{entry.source}; the score, its proof and its constants: dpaudit 2026"
    covered = "noisy minimisers, each of them or bottom"
    hook = on_users(make, entry.name, title, source, catalogue.least, covered)
    return Method(name, replace(entry, for_shape=hook), inside)


COMPARISON = Comparison(
    name="stable_erm",
    title="Stable releases and their baselines, for users (Ghazi et al. 2023)",
    methods=(
        Method("Algorithm 2", catalogue.ladder_stable_output_perturbation, inside),
        on_ladder(
            "Algorithm 3, phases on all users",
            catalogue.stable_phased_erm,
            partial(phased, build.phased_erm),
        ),
        on_ladder(
            "Algorithm 4, phases on disjoint users",
            catalogue.stable_phased_sco,
            partial(staged, build.phased_sco),
        ),
        on_ladder(
            "Algorithm 5, localised",
            catalogue.strongly_convex_erm,
            partial(phased, build.strongly_convex_erm),
        ),
        on_ladder(
            "Algorithm 6, localised",
            catalogue.strongly_convex_sco,
            partial(staged, build.strongly_convex_sco),
        ),
        Method("output perturbation (CMS11)", baselines.output_perturbation_user, inside),
        Method(ONE_PASS, user_level.user_level_dp_sgd_one_pass),
        Method(FULL_BATCH, user_level.user_level_dp_gd_full_batch),
    ),
    objective=logistic,
    one_pass=ONE_PASS,
    full_batch=FULL_BATCH,
    left_out=(
        (
            (
                "strongly_convex_output_perturbation",
                "stable_phased_erm_rows",
                "stable_phased_sco_rows",
                "strongly_convex_erm_rows",
                "strongly_convex_sco_rows",
            ),
            "its score enumerates sets of users, which ends for few users alone: the same with a "
            "score in polynomial time, a ladder of gradient norms, is compared",
        ),
        (
            (
                "deletion_stable_output_perturbation_laplace",
                "window_mean_score",
                "propose_test_release",
            ),
            "a release of a mean or a median, and of no model",
        ),
        (
            ("output_perturbation_item", "item_phased_erm", "noisy_gradient_descent"),
            "their unit is a row, and not a user: phased_erm and dp_gd_projected take any rows",
        ),
        (("user_level_dp_gd",), "as user_level_dp_gd_full_batch, which takes any users"),
    ),
)
