"""Adaptive noisy gradient descent, corrected, and the selection after it, on the RAND data."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import partial

from dpaudit.curator.mechanism import Metric
from dpaudit.exact import sqrt
from mechanisms.papers.kl import rows
from mechanisms.papers.kl.adaptive import AdaptiveNoisyGD, GradientNormAtStart
from mechanisms.papers.kl.catalogue import MU
from mechanisms.papers.kl.entries import (
    BETA,
    LOGISTIC,
    PAPER,
    RHO,
    SIZE,
    SMOOTHNESS,
    corrected,
    entry,
    stated,
)
from mechanisms.papers.kl.select import SelectStationaryIterate

CORRECTED = AdaptiveNoisyGD(LOGISTIC, RHO, BETA, SMOOTHNESS)
FILTERED = replace(CORRECTED, mode="filter")
PROVED = replace(CORRECTED, mode="proof")
SELECTED = SelectStationaryIterate(CORRECTED)
FREE = SelectStationaryIterate(CORRECTED, method="noisy_argmin")
NORM = GradientNormAtStart(LOGISTIC, RHO)
THEOREM_3 = f"{PAPER}, Theorem 3"
ROUNDS = "noisy gradient norms and noisy gradients, as many as fit under the cap"
CAP = "the guarantee is the cap; what a run happened to spend is no guarantee"

adaptive_noisy_gd = entry(
    "adaptive_noisy_gd",
    "Adaptive noisy gradient descent, corrected charges",
    f"{PAPER}, Algorithm 3; charges made of the noise that is drawn",
    CORRECTED,
    (stated(RHO, corrected(THEOREM_3)), MU),
    ROUNDS,
    CAP,
    build=partial(rows.adaptive_rows, corrected(THEOREM_3), "paper_corrected"),
)
adaptive_noisy_gd_filter = entry(
    "adaptive_noisy_gd_filter",
    "Adaptive noisy gradient descent, rounds while charges fit",
    f"{PAPER}, Algorithm 3; with the filter of Whitehouse, Ramdas, Rogers, Wu 2023",
    FILTERED,
    (stated(RHO, corrected(THEOREM_3)), MU),
    ROUNDS,
    CAP,
    build=partial(rows.adaptive_rows, corrected(THEOREM_3), "filter"),
)

adaptive_noisy_gd_proof = entry(
    "adaptive_noisy_gd_proof",
    "Adaptive noisy gradient descent, corrected charges, the noise that its proof needs",
    f"{PAPER}, Algorithm 3 and Lemma 10; charges made of the noise that is drawn",
    PROVED,
    (stated(RHO, corrected(THEOREM_3)), MU),
    ROUNDS,
    CAP,
    build=partial(rows.adaptive_rows, corrected(THEOREM_3), "proof"),
)

THEOREM_5 = f"{PAPER}, Theorem 5"
select_stationary_iterate = entry(
    "select_stationary_iterate",
    "Selection of a nearly stationary iterate by the exponential mechanism",
    f"{PAPER}, Theorem 5; after the corrected Algorithm 3",
    SELECTED,
    (
        stated(2 * RHO, corrected(THEOREM_5)),
        stated(Fraction(3, 2) * RHO, "rho of the descent, rho/2 of the selection (bounded range)"),
    ),
    f"{ROUNDS}; the name of one iterate",
    CAP,
)
select_noisy_argmin = entry(
    "select_noisy_argmin",
    "Selection of the iterate with the least noisy gradient norm",
    f"{PAPER}, Theorem 5; the selection made of norms that are released anyway",
    FREE,
    (stated(RHO, "post-processing of the corrected Algorithm 3"), MU),
    ROUNDS,
    CAP,
    build=partial(rows.argmin_rows, "post-processing of the corrected Algorithm 3"),
)
_COST = 2 * sqrt(RHO) / SIZE
private_gradient_norm = entry(
    "private_gradient_norm",
    "One noisy gradient norm",
    f"{PAPER}, Algorithm 3, line 3",
    NORM,
    (
        stated(_COST, "counted here: sensitivity 2 L0/n, Delta^2 / (2 sigma^2)"),
        stated(_COST / 2, f"{PAPER}, Algorithm 3, line 6", "the norm's part of a round's charge"),
    ),
    "one noisy gradient norm",
    expected=("proved", "refuted"),
    evaluated=lambda found: (Metric("noisy gradient norm at the start", float(found[0, 0]), True),),
)

__all__ = [
    "adaptive_noisy_gd",
    "adaptive_noisy_gd_filter",
    "adaptive_noisy_gd_proof",
    "private_gradient_norm",
    "select_noisy_argmin",
    "select_stationary_iterate",
]
