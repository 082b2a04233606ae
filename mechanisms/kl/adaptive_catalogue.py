"""Adaptive noisy gradient descent: corrected, on the RAND data; as printed, by two readings.

The printed ones are there to be attacked: they have no data of their own.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from dpaudit.arithmetic import sqrt
from dpaudit.claim import Claim
from dpaudit.mechanism import Mechanism, Metric
from dpaudit.nodes import ApproxDP
from mechanisms.kl.adaptive import AdaptiveNoisyGD, GradientNormAtStart, PrintedAdaptiveNoisyGD
from mechanisms.kl.catalogue import MU
from mechanisms.kl.entries import (
    BETA,
    LOGISTIC,
    PAPER,
    RHO,
    SIZE,
    SMOOTHNESS,
    entry,
    stated,
)
from mechanisms.kl.select import SelectStationaryIterate

ONE = Fraction(1)
AT = Fraction(1, 1000)
# No 1-zCDP mechanism has a larger epsilon at delta = 1e-3 (Canonne, Kamath, Steinke 2020: 5.4199).
LARGEST_EPSILON = Fraction("5.42")
BENCH = replace(LOGISTIC, size=100_000)
CORRECTED = AdaptiveNoisyGD(LOGISTIC, RHO, BETA, SMOOTHNESS)
FILTERED = replace(CORRECTED, mode="filter")
SIGNED = PrintedAdaptiveNoisyGD(BENCH, ONE, BETA, SMOOTHNESS, reading="signed")
CLIPPED = replace(SIGNED, reading="clipped")
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
    (stated(RHO, THEOREM_3), MU),
    ROUNDS,
    CAP,
)
adaptive_noisy_gd_filter = entry(
    "adaptive_noisy_gd_filter",
    "Adaptive noisy gradient descent, rounds while charges fit",
    f"{PAPER}, Algorithm 3; with the filter of Whitehouse, Ramdas, Rogers, Wu 2023",
    FILTERED,
    (stated(RHO, THEOREM_3), MU),
    ROUNDS,
    CAP,
)


def _printed(
    name: str, reading: str, program: PrintedAdaptiveNoisyGD, **options: object
) -> Mechanism:
    """An entry without data: what is known to be wrong is not run on any."""
    made = entry(
        name,
        f"Adaptive noisy gradient descent, charges as printed, {reading}",
        f"{PAPER}, Algorithm 3",
        program,
        covered=ROUNDS,
        **options,  # type: ignore[arg-type]
    )
    bench = replace(
        made.setting,
        data="",
        unit_entity="record",
        unit_bound="one record",
        uncovered=(),
        notes=(f"a bench of {BENCH.size} records, to be attacked: not to be run on any data",),
    )
    title = made.title.removesuffix(", logistic regression")
    return replace(made, records=None, evaluate=None, setting=bench, title=title)


_SIGNED = "scalar noise on the norm, charge from the signed norm"
_CLAIMS = (
    stated(ONE, THEOREM_3, _SIGNED),
    Claim(ApproxDP(LARGEST_EPSILON, AT), by=f"what {THEOREM_3} implies", reading=_SIGNED),
)
adaptive_noisy_gd_paper = _printed(
    "adaptive_noisy_gd_paper", "signed norms", SIGNED, claims=_CLAIMS, expected=("refuted",) * 2
)
_CUT = "scalar noise on the norm, cut at 0; the last gradient is visible"
adaptive_noisy_gd_paper_clipped = _printed(
    "adaptive_noisy_gd_paper_clipped",
    "norms cut at 0",
    CLIPPED,
    claims=(
        stated(ONE, THEOREM_3, _CUT),
        stated(
            Fraction(3, 2) + 2 * sqrt(ONE) / BENCH.size,
            "counted here: charges are half of what a round costs, and the last one is not capped",
            _CUT,
        ),
    ),
    expected=("unproved", "proved"),
)

THEOREM_5 = f"{PAPER}, Theorem 5"
select_stationary_iterate = entry(
    "select_stationary_iterate",
    "Selection of a nearly stationary iterate by the exponential mechanism",
    f"{PAPER}, Theorem 5; after the corrected Algorithm 3",
    SELECTED,
    (
        stated(2 * RHO, THEOREM_5),
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
    "adaptive_noisy_gd_paper",
    "adaptive_noisy_gd_paper_clipped",
    "private_gradient_norm",
    "select_noisy_argmin",
    "select_stationary_iterate",
]
