"""Accelerated-DP-SRGD and DP-SRGD on the RAND data with the noise that their claims need.

What the paper prints is made in ``printed.py``, its baselines in ``baselines_catalogue.py``.
Source: Choquette-Choo, Ganesh, Thakurta 2024, Algorithm 1, Lemma 5.9 and Section 4.3.
"""

from __future__ import annotations

from fractions import Fraction

from dpaudit.accountant.claim import Claim
from dpaudit.exact import sqrt
from dpaudit.families.correlated.node import Factorisation
from dpaudit.families.opaque import GDP, ApproxDP
from dpaudit.measures.convert import gaussian_mu
from dpaudit.nodes import Status
from mechanisms.papers.srgd.accelerated import DPSRGD, AcceleratedDPSRGD
from mechanisms.papers.srgd.constants import Constants, preset_constrained, preset_unconstrained
from mechanisms.papers.srgd.entries import (
    DELTA,
    EPSILON,
    FEATURES,
    LIPSCHITZ,
    RADIUS,
    REGULAR,
    SIZE,
    SMOOTHNESS,
    accelerated,
    entry,
    gradient,
)
from mechanisms.papers.srgd.printed import (
    accelerated_dp_srgd_corollary_5_7,
    accelerated_dp_srgd_corollary_5_7_equation_19,
    accelerated_dp_srgd_corollary_5_7_large_epsilon,
    accelerated_dp_srgd_corollary_5_7_small_epsilon,
    accelerated_dp_srgd_corollary_5_7_two_rounds,
    accelerated_dp_srgd_theorem_5_8,
    accelerated_dp_srgd_theorem_5_8_iid,
    accelerated_dp_srgd_theorem_5_12,
    accelerated_dp_srgd_theorem_5_12_unclipped,
)
from mechanisms.papers.srgd.rows import WorstCase
from mechanisms.papers.srgd.sensitivity import Conditions, srg_sensitivity_bound

CALIBRATED = (
    Claim(ApproxDP(EPSILON, DELTA), by="calibrated: the least noise of this strategy"),
    Claim(
        GDP(gaussian_mu(EPSILON, DELTA)),
        by="the largest mu that is (1, 1e-6)-DP (Balle and Wang 2018, Theorem 8)",
    ),
)


def _preset(strategy: Factorisation, size: int = SIZE, features: int = FEATURES) -> Constants:
    """T, B, beta and the least noise; logistic loss of features in [-1, 1]."""
    constants = sqrt(Fraction(features)), Fraction(features, 4)
    return preset_unconstrained(size, *constants, EPSILON, DELTA, strategy=strategy)


def _tree(size: int = SIZE, features: int = FEATURES) -> AcceleratedDPSRGD:
    estimator = gradient(_preset(Factorisation.TREE, size, features), size, features)
    return AcceleratedDPSRGD(estimator, radius=float(RADIUS))


def _root(size: int = SIZE, features: int = FEATURES) -> AcceleratedDPSRGD:
    strategy = Factorisation.SQRT_TOEPLITZ
    made = gradient(_preset(strategy, size, features), size, features, strategy=strategy)
    return AcceleratedDPSRGD(made, radius=float(RADIUS))


def _plain(size: int = SIZE, features: int = FEATURES) -> DPSRGD:
    estimator = gradient(_preset(Factorisation.TREE, size, features), size, features)
    return DPSRGD(estimator, radius=float(RADIUS))


accelerated_dp_srgd = entry(
    "accelerated_dp_srgd",
    "Accelerated-DP-SRGD, logistic regression, tree, least noise",
    _tree(),
    CALIBRATED,
    build=_tree,
)
accelerated_dp_srgd_sqrt_toeplitz = entry(
    "accelerated_dp_srgd_sqrt_toeplitz",
    "Accelerated-DP-SRGD, logistic regression, square-root factorisation, least noise",
    _root(),
    CALIBRATED,
    build=_root,
)
dp_srgd = entry(
    "dp_srgd",
    "DP-SRGD (not accelerated), logistic regression, tree, least noise",
    _plain(),
    CALIBRATED,
    "Section 4.3",
    build=_plain,
)

# --- without clipping -----------------------------------------------------------------------------

# What of (1, 1e-6) is left for the noise event, and for the profile's width.
TAIL = DELTA / 10**4
INNER = gaussian_mu(Fraction(999, 1000), DELTA * Fraction(9, 10))


def _worst_case() -> AcceleratedDPSRGD:
    """beta = 2 M T, so that C* exists; sigma is made for C*."""
    shape = preset_constrained(SIZE, LIPSCHITZ, SMOOTHNESS, EPSILON, DELTA)
    conditions = Conditions(
        lipschitz=LIPSCHITZ,
        smoothness=SMOOTHNESS,
        diameter=Fraction(2 * RADIUS),
        beta=shape.beta,
        rounds=shape.rounds,
        dimension=FEATURES,
    )
    bound = srg_sensitivity_bound(conditions, batch=shape.batch, mu=INNER, tail=TAIL)
    constants = Constants(shape.rounds, shape.batch, shape.beta, bound.norm, bound.sigma)
    rows = WorstCase.of(bound, status=Status.ENFORCED, evidence=REGULAR)
    return accelerated(constants, rows=rows)


accelerated_dp_srgd_unclipped = entry(
    "accelerated_dp_srgd_unclipped",
    "Accelerated-DP-SRGD, nothing is clipped: worst-case sensitivity outside a noise event",
    _worst_case(),
    (Claim(ApproxDP(EPSILON, DELTA), by="worst-case sensitivity of Lemma 5.9, repaired"),),
    "Lemma 5.9 and Corollary 5.10, repaired",
)

__all__ = [
    "LIPSCHITZ",
    "accelerated_dp_srgd",
    "accelerated_dp_srgd_corollary_5_7",
    "accelerated_dp_srgd_corollary_5_7_equation_19",
    "accelerated_dp_srgd_corollary_5_7_large_epsilon",
    "accelerated_dp_srgd_corollary_5_7_small_epsilon",
    "accelerated_dp_srgd_corollary_5_7_two_rounds",
    "accelerated_dp_srgd_sqrt_toeplitz",
    "accelerated_dp_srgd_theorem_5_8",
    "accelerated_dp_srgd_theorem_5_8_iid",
    "accelerated_dp_srgd_theorem_5_12",
    "accelerated_dp_srgd_theorem_5_12_unclipped",
    "accelerated_dp_srgd_unclipped",
    "dp_srgd",
]
