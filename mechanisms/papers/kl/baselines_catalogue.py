"""The baselines and the parts of this paper on the RAND data, with their claims."""

from __future__ import annotations

from functools import partial

from mechanisms.papers.kl import baselines as made
from mechanisms.papers.kl import rows
from mechanisms.papers.kl.catalogue import MU
from mechanisms.papers.kl.condition import GrowthCondition, KLCondition
from mechanisms.papers.kl.entries import (
    BETA,
    LIPSCHITZ,
    LOGISTIC,
    PAPER,
    RHO,
    RIDGE,
    SMOOTHNESS,
    STARTING_GAP,
    entry,
    stated,
)
from mechanisms.papers.kl.reduction import GrowthReduction, ReducedToGrowth

MAX_STEPS = 60
PL = KLCondition(gamma=2.0, kappa=2.0)
GD_PL = made.noisy_gd_pl(RIDGE, RHO, PL, SMOOTHNESS, STARTING_GAP, MAX_STEPS)
GD_STATIONARY = made.noisy_gd_stationary(LOGISTIC, RHO, SMOOTHNESS, STARTING_GAP, MAX_STEPS)
GD_CONVEX = made.convex_noisy_gd(LOGISTIC, RHO, radius=3.0, max_steps=MAX_STEPS)
SPIDER = made.PrivateSpider(LOGISTIC, RHO, SMOOTHNESS, rounds=60, phase=10, step_length=0.05)
EPOCHS = made.EpochLocalizedERM(
    RIDGE,
    GrowthCondition(lam=0.1, tau=2.0),
    RHO,
    BETA,
    weak_convexity=0.5,
    epochs=3,
    max_steps=30,
)
ONE_PHASE = made.PrivateSpider(LOGISTIC, RHO, SMOOTHNESS, rounds=8, phase=8, step_length=0.2)
REDUCED = ReducedToGrowth(
    LOGISTIC,
    GrowthReduction(tau=2.0, error=2.0, diameter=3.0, lipschitz=LIPSCHITZ),
    RHO,
    steps=40,
)
RATE = "calibrated here: the paper states a rate, no constants"
EXACT = (stated(RHO, RATE), MU)
CITED = "reconstructed from the rate that is cited"

noisy_gd_pl = entry(
    "noisy_gd_pl",
    "Noisy gradient descent, PL case (reconstruction)",
    f"Wang, Ye, Xu 2017, {CITED}",
    GD_PL,
    EXACT,
    f"{GD_PL.steps} noisy mean gradients",
    build=partial(rows.descent_rows, RATE, "last"),
)
noisy_gd_stationary = entry(
    "noisy_gd_stationary",
    "Noisy gradient descent, a random iterate (reconstruction)",
    f"Wang, Ye, Xu 2017, {CITED}",
    GD_STATIONARY,
    EXACT,
    f"{GD_STATIONARY.steps} noisy mean gradients",
    build=partial(rows.descent_rows, RATE, "random"),
)
convex_noisy_gd = entry(
    "convex_noisy_gd",
    "Noisy projected gradient descent, averaged (reconstruction)",
    f"Bassily, Smith, Thakurta 2014, {CITED}",
    GD_CONVEX,
    EXACT,
    f"{GD_CONVEX.steps} noisy mean gradients",
    build=partial(rows.convex_rows, RATE),
)
private_spider = entry(
    "private_spider",
    "Private Spider with fixed phases (reconstruction)",
    f"Arora et al. 2023, {CITED}",
    SPIDER,
    EXACT,
    f"{SPIDER.anchors} noisy mean gradients, {SPIDER.rounds - SPIDER.anchors} differences",
    build=partial(rows.private_spider_rows, RATE),
)
epoch_localized_erm = entry(
    "epoch_localized_erm",
    "Noisy gradient descent in localising epochs (reconstruction)",
    f"Asi, Levy, Duchi 2021, {CITED}",
    EPOCHS,
    EXACT,
    f"{EPOCHS.epochs * (EPOCHS.solvers[0].steps - 1)} noisy mean gradients",
    build=partial(rows.epochs_rows, RATE),
)

spider_estimator = entry(
    "spider_estimator",
    "Spider's gradient estimates along one phase",
    f"{PAPER}, Algorithm 1, lines 8 and 13; shares and steps ours",
    ONE_PHASE,
    EXACT,
    f"one noisy mean gradient, {ONE_PHASE.rounds - 1} differences",
)
growth_reduction = entry(
    "growth_reduction",
    "Noisy gradient descent on growth-regularised stages",
    f"{PAPER}, Theorem 6, its proof's reduction; the solver of its stages is ours",
    REDUCED,
    EXACT,
    f"{REDUCED.reduction.count * REDUCED.steps} noisy mean gradients",
    "a device of a lower bound's proof: any private solver under growth can take the stages",
)

__all__ = [
    "convex_noisy_gd",
    "epoch_localized_erm",
    "growth_reduction",
    "noisy_gd_pl",
    "noisy_gd_stationary",
    "private_spider",
    "spider_estimator",
]
