"""The baselines on the RAND data, with their claims."""

from __future__ import annotations

from mechanisms.kl import baselines as made
from mechanisms.kl.catalogue import MU
from mechanisms.kl.condition import GrowthCondition, KLCondition
from mechanisms.kl.entries import (
    BETA,
    LOGISTIC,
    RHO,
    RIDGE,
    SMOOTHNESS,
    STARTING_GAP,
    entry,
    stated,
)

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
EXACT = (stated(RHO, "calibrated here: the paper states a rate, no constants"), MU)
CITED = "reconstructed from the rate that is cited"

noisy_gd_pl = entry(
    "noisy_gd_pl",
    "Noisy gradient descent, PL case (reconstruction)",
    f"Wang, Ye, Xu 2017, {CITED}",
    GD_PL,
    EXACT,
    f"{GD_PL.steps} noisy mean gradients",
)
noisy_gd_stationary = entry(
    "noisy_gd_stationary",
    "Noisy gradient descent, a random iterate (reconstruction)",
    f"Wang, Ye, Xu 2017, {CITED}",
    GD_STATIONARY,
    EXACT,
    f"{GD_STATIONARY.steps} noisy mean gradients",
)
convex_noisy_gd = entry(
    "convex_noisy_gd",
    "Noisy projected gradient descent, averaged (reconstruction)",
    f"Bassily, Smith, Thakurta 2014, {CITED}",
    GD_CONVEX,
    EXACT,
    f"{GD_CONVEX.steps} noisy mean gradients",
)
private_spider = entry(
    "private_spider",
    "Private Spider with fixed phases (reconstruction)",
    f"Arora et al. 2023, {CITED}",
    SPIDER,
    EXACT,
    f"{SPIDER.anchors} noisy mean gradients, {SPIDER.rounds - SPIDER.anchors} differences",
)
epoch_localized_erm = entry(
    "epoch_localized_erm",
    "Noisy gradient descent in localising epochs (reconstruction)",
    f"Asi, Levy, Duchi 2021, {CITED}",
    EPOCHS,
    EXACT,
    f"{EPOCHS.epochs * (EPOCHS.solvers[0].steps - 1)} noisy mean gradients",
)

__all__ = [
    "convex_noisy_gd",
    "epoch_localized_erm",
    "noisy_gd_pl",
    "noisy_gd_stationary",
    "private_spider",
]
