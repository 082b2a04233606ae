"""The algorithms of this paper and their baselines on somebody's rows: ``compare --paper kl``."""

from __future__ import annotations

from typing import Any

from dpaudit.compare import Comparison, Method
from dpaudit.kernels.query import Array
from mechanisms.papers.common.objectives import logistic_anywhere
from mechanisms.papers.diff2.catalogue import dp_gd_tight
from mechanisms.papers.kl import adaptive_catalogue as adaptive
from mechanisms.papers.kl import baselines_catalogue as baselines
from mechanisms.papers.kl import catalogue
from mechanisms.papers.srgd.baselines_catalogue import dp_sgd_one_pass_replace_one

FULL_BATCH = "full-batch DP-GD"
ONE_PASS = "one-pass DP-SGD"  # noqa: S105  (no password)
FAR = 1e6  # the radius of a ball that no run here leaves


def _output(found: Any) -> Array:
    """The released model, (trials, d)."""
    model: Array = getattr(found, "output", found)
    return model


COMPARISON = Comparison(
    name="kl",
    title="KL-Spider, adaptive noisy gradient descent and their baselines (Menart et al. 2023)",
    methods=(
        Method("KL-Spider", catalogue.kl_spider, _output),
        Method("proximal point method", catalogue.proximal_point_method, _output),
        Method("proximal noisy GD", catalogue.regularized_noisy_gd, _output),
        Method("adaptive noisy GD", adaptive.adaptive_noisy_gd, _output),
        Method("adaptive noisy GD, filter", adaptive.adaptive_noisy_gd_filter, _output),
        Method("adaptive noisy GD, proof's noise", adaptive.adaptive_noisy_gd_proof, _output),
        Method("least noisy gradient norm", adaptive.select_noisy_argmin, _output),
        Method(FULL_BATCH, dp_gd_tight, _output),
        Method(
            ONE_PASS,
            dp_sgd_one_pass_replace_one,
            _output,
            lambda _count, _features: {"radius": FAR},
        ),
        Method("noisy GD, PL case (WYX17)", baselines.noisy_gd_pl, _output),
        Method("noisy GD, a random iterate (WYX17)", baselines.noisy_gd_stationary, _output),
        Method("averaged projected GD (BST14)", baselines.convex_noisy_gd, _output),
        Method("Private Spider", baselines.private_spider, _output),
        Method("localising epochs (ALD21)", baselines.epoch_localized_erm, _output),
    ),
    objective=logistic_anywhere,
    one_pass=ONE_PASS,
    full_batch=FULL_BATCH,
    shared=frozenset({"clients", "radius"}),
    left_out=(
        (
            "kl_spider_paper, proximal_point_method_paper, regularized_noisy_gd_paper,"
            " adaptive_noisy_gd_paper",
            "as printed: their claims are refuted or open",
        ),
        (
            "select_stationary_iterate",
            "the same iterates with a second budget of rho / 2; "
            "the noisy minimum costs nothing more",
        ),
        (
            "spider_estimator, private_gradient_norm, growth_reduction",
            "a part of an algorithm, or of a proof",
        ),
    ),
)
