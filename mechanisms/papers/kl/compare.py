"""The algorithms of this paper and their baselines on somebody's rows: ``compare --paper kl``."""

from __future__ import annotations

from dpaudit.compare import Comparison, Method
from mechanisms.papers.common.compared import FULL_BATCH, ONE_PASS, UNPROJECTED
from mechanisms.papers.common.objectives import logistic_anywhere
from mechanisms.papers.diff2.catalogue import dp_gd_tight
from mechanisms.papers.kl import adaptive_catalogue as adaptive
from mechanisms.papers.kl import baselines_catalogue as baselines
from mechanisms.papers.kl import catalogue

COMPARISON = Comparison(
    name="kl",
    title="KL-Spider, adaptive noisy gradient descent and their baselines (Menart et al. 2023)",
    methods=(
        Method("KL-Spider", catalogue.kl_spider),
        Method("proximal point method", catalogue.proximal_point_method),
        Method("proximal noisy GD", catalogue.regularized_noisy_gd),
        Method("adaptive noisy GD", adaptive.adaptive_noisy_gd),
        Method("adaptive noisy GD, filter", adaptive.adaptive_noisy_gd_filter),
        Method("adaptive noisy GD, proof's noise", adaptive.adaptive_noisy_gd_proof),
        Method("least noisy gradient norm", adaptive.select_noisy_argmin),
        Method(FULL_BATCH, dp_gd_tight),
        UNPROJECTED,
        Method("noisy GD, PL case (WYX17)", baselines.noisy_gd_pl),
        Method("noisy GD, a random iterate (WYX17)", baselines.noisy_gd_stationary),
        Method("averaged projected GD (BST14)", baselines.convex_noisy_gd),
        Method("Private Spider", baselines.private_spider),
        Method("localising epochs (ALD21)", baselines.epoch_localized_erm),
    ),
    objective=logistic_anywhere,
    one_pass=ONE_PASS,
    full_batch=FULL_BATCH,
    shared=frozenset({"clients", "radius"}),
    left_out=(
        (
            (
                "kl_spider_paper_replace_one",
                "kl_spider_paper_zero_out",
                "kl_spider_vacuous",
                "proximal_point_method_paper",
                "regularized_noisy_gd_paper",
            ),
            "as printed, or with more noise than signal: kl_spider, proximal_point_method and "
            "regularized_noisy_gd are these for any rows",
        ),
        (
            ("select_stationary_iterate",),
            "the same iterates with a second budget of rho / 2; "
            "the noisy minimum costs nothing more",
        ),
        (
            ("spider_estimator", "private_gradient_norm", "growth_reduction"),
            "a part of an algorithm, or of a proof",
        ),
    ),
)
