"""Accelerated-DP-SRGD and DP-SRGD on the RAND data with the noise that their claims need.

What the paper prints is made in ``printed.py``, its baselines in ``baselines_catalogue.py``.
Source: Choquette-Choo, Ganesh, Thakurta 2024, Algorithm 1, Lemma 5.9 and Section 4.3.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import partial
from typing import Annotated

from dpaudit.accountant.claim import Claim
from dpaudit.curator.mechanism import Setting
from dpaudit.curator.parameters import Cost, Free
from dpaudit.exact import sqrt
from dpaudit.families.correlated.node import Factorisation
from dpaudit.families.opaque import GDP, ApproxDP
from dpaudit.measures.convert import gaussian_mu
from dpaudit.nodes import Status
from mechanisms.papers.common.free import Delta, Epsilon, Radius, at
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
    entry_of,
    gradient,
    rows_setting,
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

Rounds = Annotated[
    int | None,
    Free(
        "rounds, one batch each, T",
        Cost.NOISE,
        default="4 n^(1/4), n the number of rows",
        start=lambda of: 4 * of["count"] ** 0.25,
    ),
]
Beta = Annotated[
    float | None,
    Free(
        "inverse step size, beta",
        Cost.NOTHING,
        default="features, 4 times the smoothness",
        start=lambda of: of["features"],
    ),
]
RowClip = Annotated[
    float | None,
    Free(
        "l2 norm to which a term of one record is clipped, C",
        Cost.SCALE,
        default="4 sqrt(features), 4 times the Lipschitz constant",
        start=lambda of: 4 * math.sqrt(of["features"]),
    ),
]


def claims_of(epsilon: Fraction, delta: Fraction) -> tuple[Claim, Claim]:
    """(epsilon, delta) of the least noise, and the mu that it is."""
    return (
        Claim(ApproxDP(epsilon, delta), by="calibrated: the least noise of this strategy"),
        Claim(
            GDP(gaussian_mu(epsilon, delta)),
            by=f"the largest mu that is {at(epsilon, delta)}-DP (Balle and Wang 2018, Theorem 8)",
        ),
    )


def of_rows(
    algorithm: type[AcceleratedDPSRGD | DPSRGD],
    strategy: Factorisation,
    features: int,
    count: int,
    *,
    epsilon: Epsilon = EPSILON,
    delta: Delta = DELTA,
    rounds: Rounds = None,
    beta: Beta = None,
    clip: RowClip = None,
    radius: Radius = float(RADIUS),
) -> tuple[AcceleratedDPSRGD | DPSRGD, tuple[Claim, ...], Setting]:
    """The algorithm with the least noise; logistic loss of features in [-1, 1]."""
    constants = preset_unconstrained(
        count,
        sqrt(Fraction(features)),
        Fraction(features, 4),
        epsilon,
        delta,
        rounds=rounds,
        beta=beta,
        clip=clip,
        strategy=strategy,
    )
    estimator = gradient(constants, count, features, strategy=strategy)
    program = algorithm(estimator, radius=radius)
    return program, claims_of(epsilon, delta), rows_setting(estimator)


accelerated_dp_srgd = entry_of(
    "accelerated_dp_srgd",
    "Accelerated-DP-SRGD, logistic regression, tree, least noise",
    partial(of_rows, AcceleratedDPSRGD, Factorisation.TREE),
)
accelerated_dp_srgd_sqrt_toeplitz = entry_of(
    "accelerated_dp_srgd_sqrt_toeplitz",
    "Accelerated-DP-SRGD, logistic regression, square-root factorisation, least noise",
    partial(of_rows, AcceleratedDPSRGD, Factorisation.SQRT_TOEPLITZ),
)
dp_srgd = entry_of(
    "dp_srgd",
    "DP-SRGD (not accelerated), logistic regression, tree, least noise",
    partial(of_rows, DPSRGD, Factorisation.TREE),
    "Section 4.3",
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
