"""Adaptive noisy gradient descent as printed: every reading of its listing is an entry of its own.

They are there to be attacked, and have no data.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from dpaudit.accountant.claim import Claim
from dpaudit.curator.mechanism import Mechanism, Setting
from dpaudit.exact import Number, sqrt
from dpaudit.families.opaque import ApproxDP
from dpaudit.scope import Scope
from mechanisms.papers.kl.adaptive_catalogue import THEOREM_3
from mechanisms.papers.kl.adaptive_printed import PrintedAdaptiveNoisyGD
from mechanisms.papers.kl.entries import (
    BETA,
    LOGISTIC,
    PAPER,
    REPLACE_ONE,
    SMOOTHNESS,
    ZERO_OUT,
    stated,
)

ONE = Fraction(1)
AT = Fraction(1, 1000)
# No 1-zCDP mechanism has a larger epsilon at delta = 1e-3 (Canonne, Kamath, Steinke 2020: 5.4199).
LARGEST_EPSILON = Fraction("5.42")
BENCH = replace(LOGISTIC, size=100_000)
SIGNED = PrintedAdaptiveNoisyGD(BENCH, ONE, BETA, SMOOTHNESS, reading="signed")
CLIPPED = replace(SIGNED, reading="clipped")
ABSOLUTE = replace(SIGNED, reading="absolute")
VECTOR = replace(SIGNED, reading="vector")
FROM_THE_NOISE = replace(SIGNED, reading="from_the_noise")
ITERATES = replace(CLIPPED, last="hidden")
# What is seen of a run, by what becomes of the gradient of its last round.
LAST = {
    "released": "its noisy gradient, the last round's too: so w_0 to w_T and the noisy gradient at "
    "w_T, which these do not hold",
    "hidden": "its noisy gradient, but for the last round: so w_0 to w_T, and of the gradient at "
    "w_T its noisy norm alone",
}


def released(program: PrintedAdaptiveNoisyGD) -> str:
    """All that a run of a reading shows."""
    vector = "a noisy gradient of every round, of which the norm is taken, and then"
    scalar = "the noisy norm of every round, as it is drawn, and"
    return f"{vector if program.reading == 'vector' else scalar} {LAST[program.last]}"


BENCH_SETTING = Setting(
    controller="the person who runs this command",
    unit_entity="record",
    unit_bound="one record",
    covered=(released(SIGNED),),
    invariants=("the number of records",),
    notes=(f"a bench of {BENCH.size} records, to be attacked: not to be run on any data",),
)


def _printed(
    name: str,
    reading: str,
    program: PrintedAdaptiveNoisyGD,
    claims: tuple[Claim, ...],
    expected: tuple[str, ...],
    scope: Scope = REPLACE_ONE,
) -> Mechanism:
    """An entry without data: what is known to be wrong is not run on any."""
    return Mechanism(
        name=name,
        title=f"Adaptive noisy gradient descent, charges as printed, {reading}",
        source=f"{PAPER}, Algorithm 3",
        program=program,
        scope=scope,
        claims=claims,
        setting=replace(BENCH_SETTING, covered=(released(program),)),
        expected=expected,
    )


VISIBLE = "the last gradient is visible"
_SIGNED = f"scalar noise on the norm, charge from the signed norm; {VISIBLE}"
adaptive_noisy_gd_paper = _printed(
    "adaptive_noisy_gd_paper",
    "signed norms",
    SIGNED,
    (
        stated(ONE, THEOREM_3, _SIGNED),
        Claim(ApproxDP(LARGEST_EPSILON, AT), by=f"what {THEOREM_3} implies", reading=_SIGNED),
    ),
    ("refuted", "refuted"),
)
adaptive_noisy_gd_paper_signed_zero_out = _printed(
    "adaptive_noisy_gd_paper_signed_zero_out",
    "signed norms, under zero_out",
    SIGNED,
    (stated(ONE, THEOREM_3, f"zero_out; {_SIGNED}"),),
    ("refuted",),
    ZERO_OUT,
)


def _counted(
    name: str, title: str, program: PrintedAdaptiveNoisyGD, reading: str, most: Number
) -> Mechanism:
    """A reading in which norms are not negative: Theorem 3 is open, and ``most`` is proved."""
    claims = stated(ONE, THEOREM_3, reading), stated(most, COUNTED, reading)
    return _printed(name, title, program, claims, ("unproved", "proved"))


COUNTED = "counted here: charges are half of what a round costs, and the last one is not capped"
_NORM = 2 * sqrt(ONE) / BENCH.size
adaptive_noisy_gd_paper_clipped = _counted(
    "adaptive_noisy_gd_paper_clipped",
    "norms cut at 0",
    CLIPPED,
    f"scalar noise on the norm, cut at 0; {VISIBLE}",
    Fraction(3, 2) + _NORM,
)
adaptive_noisy_gd_paper_absolute = _counted(
    "adaptive_noisy_gd_paper_absolute",
    "absolute values of noisy norms",
    ABSOLUTE,
    f"scalar noise on the norm, absolute value; {VISIBLE}",
    Fraction(3, 2) + _NORM,
)
adaptive_noisy_gd_paper_vector = _counted(
    "adaptive_noisy_gd_paper_vector",
    "norms of noisy gradients",
    VECTOR,
    f"noise on every coordinate, then the norm; {VISIBLE}",
    Fraction(3, 2) + _NORM,
)
adaptive_noisy_gd_paper_from_the_noise = _counted(
    "adaptive_noisy_gd_paper_from_the_noise",
    "charges made of the noise",
    FROM_THE_NOISE,
    f"charge L0^2 / (n sigma_t)^2 as in the proof; {VISIBLE}",
    Fraction(3, 2) + _NORM,
)
adaptive_noisy_gd_paper_iterates = _counted(
    "adaptive_noisy_gd_paper_iterates",
    "norms cut at 0, the last gradient hidden",
    ITERATES,
    "scalar noise on the norm, cut at 0; w_0..w_T, which do not hold the last gradient",
    ONE + _NORM,
)
adaptive_noisy_gd_paper_zero_out = _printed(
    "adaptive_noisy_gd_paper_zero_out",
    "norms cut at 0, under zero_out",
    CLIPPED,
    (
        stated(ONE, THEOREM_3, f"zero_out; scalar noise on the norm, cut at 0; {VISIBLE}"),
        stated(Fraction(3, 8) + _NORM / 4, "counted here: 3 rho/8 + sqrt(rho)/(2 n)"),
    ),
    ("proved", "proved"),
    ZERO_OUT,
)

__all__ = [
    "adaptive_noisy_gd_paper",
    "adaptive_noisy_gd_paper_absolute",
    "adaptive_noisy_gd_paper_clipped",
    "adaptive_noisy_gd_paper_from_the_noise",
    "adaptive_noisy_gd_paper_iterates",
    "adaptive_noisy_gd_paper_signed_zero_out",
    "adaptive_noisy_gd_paper_vector",
    "adaptive_noisy_gd_paper_zero_out",
]
