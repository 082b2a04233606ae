"""Errata of Accelerated-DP-SRGD, each in numbers."""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
from scipy.special import ndtr

from dpaudit.kernels.query import Array
from experiments.lab.errata import Errata, Erratum
from mechanisms.papers.regions import theorem_5_8_cell
from mechanisms.papers.srgd.accelerated import nesterov_potential
from mechanisms.papers.srgd.bounds import Geometry, excess_risk_bound_5_13
from mechanisms.papers.srgd.constants import Reading
from mechanisms.papers.srgd.geometry import EtaSchedule, nesterov_step
from mechanisms.papers.srgd.prefix_noise import Method, prefix_noise_bound

WIDTHS = tuple(2.0 ** (-k / 2) for k in range(13))  # of the quadratic part of a Huber loss
MOST_STEPS = 64
DELTA = 1e-5


def huber_runs(schedule: EtaSchedule, width: float) -> Iterator[tuple[float, float, float]]:
    """Noise-free runs on a 1-smooth Huber loss from 1: gap and two potentials before each step."""
    x = y = z = np.ones((1, 1))
    for t in range(MOST_STEPS):
        gap = np.array([_huber(float(y[0, 0]), width)])

        def phi(weight: float, gap: Array = gap, z: Array = z, t: int = t) -> float:
            at = nesterov_potential(
                gap, z, np.zeros(1), t=t, beta=1.0, schedule=schedule, weight=weight
            )
            return float(at[0])

        yield float(gap[0]), phi(2.0), phi(0.5)
        weighted = schedule.eta(t) * np.clip(x, -width, width)
        x, y, z = nesterov_step(x, z, weighted, t, schedule, math.inf)


def _huber(x: float, width: float) -> float:
    return x**2 / 2 if abs(x) <= width else width * (abs(x) - width / 2)


def growth(schedule: EtaSchedule, weight: int) -> tuple[float, float, int]:
    """The largest growth of a potential in one step, the width and the step at which it is."""
    found = []
    for width in WIDTHS:
        values = [row[weight] for row in huber_runs(schedule, width)]
        found += [(b - a, width, t) for t, (a, b) in enumerate(itertools.pairwise(values))]
    return max(found)


def equation_1() -> str:
    """The potential grows without noise under the printed weight, and not under the mended one."""
    printed, width, step = growth(EtaSchedule.LINEAR, 1)
    mended, _, _ = growth(EtaSchedule.HALVED, 2)
    return (
        f"without noise and sampling the lemma bounds the growth by 0; on the 1-smooth Huber loss "
        f"of width {width:.3g} from x = 1, step {step} grows it by {printed:.3g}. Mended, the "
        f"largest growth of {len(WIDTHS)} such losses in {MOST_STEPS} steps is {mended:.1g}"
    )


def theorem_5_1() -> str:
    """The printed bound beside runs: no counterexample is known."""
    ratios = [
        gap * EtaSchedule.LINEAR.total(t)
        for width in WIDTHS
        for t, (gap, _, _) in enumerate(huber_runs(EtaSchedule.LINEAR, width))
        if t
    ]
    steps = 16
    now, before = EtaSchedule.LINEAR.total(steps), EtaSchedule.LINEAR.total(steps - 1)
    return (
        f"at T = {steps} the printed divisor is {now:g}, the proof's {before:g}. Without noise the "
        f"printed bound held in every run: the largest gap over it was {max(ratios):.2g}"
    )


def lemma_5_9() -> str:
    """The two sides of the proof's last line at b_max = 0 and L = M = R = 1."""
    left, right = 2 * (0 + 2 + 1), 2 * 1 + 1
    return f"at b_max = 0 and L = M = R = 1 the left side is {left}, the printed right side {right}"


def corollary_5_10() -> str:
    """The probability that noise exceeds a quarter of Lemma 5.6's bound."""
    paper = prefix_noise_bound(2, 1, DELTA, method=Method.PAPER)
    length = paper / 4 / math.sqrt(2)  # in standard deviations of the tree's nodes at T = 2
    return (
        f"at T = 2, p = 1 and delta = {DELTA:g} the noise of the first step alone exceeds a "
        f"quarter of Lemma 5.6's bound with probability {2 * ndtr(-length):.3g}, where "
        f"{DELTA:g} is paid for"
    )


def theorem_5_13() -> str:
    """The printed right-hand side beside the mended one."""
    on, noises = Geometry(32.0, 2.0, 2.0), np.full(16, 0.01)
    printed, mended = (
        float(excess_risk_bound_5_13(on, 1.0, 64, noises, kind).ravel()[0])
        for kind in ("paper", "repaired")
    )
    return (
        f"T = 16, B = 64, L = 1, beta = 32, R = 2 and ||b_t|| = .01: printed {printed:.3g}, "
        f"mended {mended:.3g}"
    )


def corollary_5_7() -> str:
    """How much too small the printed noise is beside what its own lemma needs."""
    needed, printed = (
        float(reading.multiplier(32, 1, DELTA))
        for reading in (Reading.LEMMA_5_6, Reading.AS_PRINTED)
    )
    return f"at T = 32 Lemma 5.6 asks for {needed / printed:.4g} times the printed noise"


def theorem_5_8() -> str:
    """From which n to which Lemma 5.9 proves the theorem: in tenths of a decade."""

    def proved(tenths: int) -> bool:
        return theorem_5_8_cell(1, round(10 ** (tenths / 10)), Fraction(1)) == "P"

    first = next(k for k in range(50, 100) if proved(k))
    last = first + bisect.bisect_left(range(first, 361), True, key=lambda k: not proved(k)) - 1
    return (
        f"delta = 1/n, p = 1, epsilon = 1, L = M = R = 1: below n = 10^{first / 10:g} there are "
        f"more rounds than records; worst-case sensitivity proves it to n = 10^{last / 10:g}, and "
        f"is not bounded at 10^{(last + 1) / 10:g}"
    )


SRGD_ERRATA = Errata(
    "srgd",
    "Accelerated-DP-SRGD (Choquette-Choo, Ganesh and Thakurta 2024)",
    (
        Erratum(
            "Equation 1 and Lemma 5.2",
            "the potential has weight 2 beta, and drops by the lemma's terms with "
            "eta_t^2 <= 4 eta_{0:t}",
            "the step eta_t / beta of Algorithm 1 does not close the argument for that weight",
            equation_1,
            "weight beta / 2 with eta_t = (t + 1) / 2, so that eta_t^2 <= eta_{0:t}",
            "the algorithm converges under the printed weights too; only the proof is affected",
            "`mechanisms/papers/srgd/accelerated.py::nesterov_potential`, `bounds.py`",
        ),
        Erratum(
            "Theorem 5.1",
            "the sum is divided by eta_{0:T}, and the last term is beta ||C||^2",
            "telescoping gives the divisor eta_{0:T-1} and the term 2 beta ||z_0 - x*||^2; a term "
            "L ||b_t|| / tau_t of the proof is dropped",
            theorem_5_1,
            "the pathwise bound `pathwise_excess_risk_upper`, which is proved",
            "the rate in n is not affected; no run that breaks the printed bound is known",
            "`mechanisms/papers/srgd/bounds.py`, [srgd_acceleration](srgd_acceleration.md)",
        ),
        Erratum(
            "Lemma 5.9",
            "2 (M b_max + 2 M R + L) <= 2 M b_max + (2 c_M + 1) L",
            "a factor 2 is lost: the right side is 2 M b_max + (4 c_M + 2) L; R is used as the "
            "diameter, where Algorithm 1 has it as the radius",
            lemma_5_9,
            "(L + 2 M D) / (1 - a - M kappa), which closes Corollary 5.10's circle as well",
            "Corollary 5.10 and Theorem 5.12 have constants that are large enough: their privacy "
            "is proved",
            "`mechanisms/papers/srgd/sensitivity.py::srg_sensitivity_bound`",
        ),
        Erratum(
            "Corollary 5.10",
            "its condition for ||b_t|| <= b_max is Lemma 5.6's without the factor 4",
            "Lemma 5.6 bounds the noise by 4 log2(T)^(3/2) sqrt(p log(2T / delta)) units",
            corollary_5_10,
            "p <= B^2 beta^2 mu^2 / (256 M^2 log(T)^3 log(2T / delta)), where 16 is printed; or "
            "exact tails",
            "for T of 69 and more Lemma 5.6 is so loose that the printed condition was enough in "
            "every case that was tried",
            "`mechanisms/papers/srgd/prefix_noise.py`",
        ),
        Erratum(
            "Corollary 5.7",
            "sigma = C sqrt(log(T) log(2.5 / delta)) / (epsilon B beta)",
            "the root of 2 of the Gaussian target and the 1 + ceil(log2 T) levels of Lemma 5.6 "
            "are missing",
            corollary_5_7,
            "the noise of Lemma 5.6, or the accountant's least noise",
            "for L-Lipschitz M-smooth losses Theorem 5.8 holds by another argument at the sizes "
            "that anybody runs; refuted is the clipped algorithm on arbitrary losses, as printed",
            "[certificates](../../mechanisms/papers/README.md), "
            "`accelerated_dp_srgd_corollary_5_7`",
        ),
        Erratum(
            "Theorem 5.8",
            "(epsilon, delta) for every n, by Lemma 5.5 on i.i.d. data",
            "an event of i.i.d. data bounds nothing of differential privacy, which holds for every "
            "pair of data sets",
            theorem_5_8,
            "Lemma 5.9's bound in its place, which holds for any data, while beta >= 2 M T",
            "at every n of a data set that exists the theorem holds, by that other argument",
            "[certificates](../../mechanisms/papers/README.md), "
            "`accelerated_dp_srgd_theorem_5_8`, `..._iid`",
        ),
        Erratum(
            "Theorem 5.13",
            "the sum has the term eta_{0:t} 3 beta ||b_t|| ||C||",
            "the term lacks a division by eta_{0:t}, which its proof has",
            theorem_5_13,
            "3 beta ||b_t|| ||C|| in the sum; or U1 of `bounds.py`",
            "the printed bound is larger and so still a bound where its other terms are",
            "`mechanisms/papers/srgd/bounds.py::excess_risk_bound_5_13`",
        ),
    ),
)
