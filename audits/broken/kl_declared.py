"""Planted bugs under the KL condition in declarations and claims: less is stated than is done."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

from audits.broken.kl_bench import (
    ADAPTIVE_BENCH,
    CHOOSER_BENCH,
    LINEAR,
    RHO,
    SELECTION,
    SOLVER_BENCH,
    SPIDER_BENCH,
    mechanism,
    parts_of,
    planted,
)
from audits.kl_adaptive import pulled
from dpaudit.accountant.claim import Claim
from dpaudit.exact import Number, sqrt
from dpaudit.families.opaque import GDP, ZCDP
from mechanisms.papers.kl.condition import KLCondition
from mechanisms.papers.kl.proximal import ProximalPointMethod, RegularizedNoisyGD
from mechanisms.papers.kl.schedule import KLSpiderSchedule
from mechanisms.papers.kl.spider import PrintedNoise


@dataclass(frozen=True)
class _NoRoot(PrintedNoise):
    """The corrected anchor; a difference's noise without sqrt(m_k) (B5)."""

    def anchor(self, schedule: KLSpiderSchedule, differences: int) -> Number:
        return sqrt(2 * schedule.count / (Fraction(4, 5) * schedule.rho))

    def difference(self, schedule: KLSpiderSchedule, length: Number) -> Number:
        return sqrt(2 * schedule.count / (Fraction(1, 20) * schedule.rho) / 8)


@dataclass(frozen=True)
class _Unsplit(ProximalPointMethod):
    """Gives every call all of rho (B10)."""

    @property
    def solver(self) -> RegularizedNoisyGD:
        return replace(super().solver, rho=self.rho)


_CALLS = _Unsplit(
    LINEAR,
    KLCondition(gamma=1.0, kappa=2.0),
    RHO,
    0.05,
    0.5,
    weak_convexity=1.0,
    max_steps=5,
    calls_at_most=3,
)
_RAISED = replace(SOLVER_BENCH, max_steps=20)


@dataclass(frozen=True)
class _Uncalibrated(RegularizedNoisyGD):
    """Twice the steps with the noise of the steps before (B12)."""

    @property
    def noise(self) -> Number:
        return SOLVER_BENCH.noise


# What a run of the adaptive bench spends where the first noisy norm comes out below its floor.
ONE_RUN = Fraction(502, 1000)
FILLED = replace(ADAPTIVE_BENCH, mode="filter", problem=pulled(ADAPTIVE_BENCH.problem, 5, 0.08))
REALISED = (
    Claim(ZCDP(ONE_RUN), by="the sum of one run's charges"),
    Claim(GDP(sqrt(2 * ONE_RUN)), by="the sum of one run's charges"),
)

adaptive_b16 = mechanism("adaptive_b16", FILLED, REALISED)
kl_spider_b3 = mechanism("kl_spider_b3", replace(SPIDER_BENCH, noise=PrintedNoise()))
kl_spider_b5 = mechanism("kl_spider_b5", replace(SPIDER_BENCH, noise=_NoRoot()))
proximal_b10 = mechanism("proximal_b10", _CALLS)
solver_b12 = mechanism("solver_b12", _Uncalibrated(**parts_of(_RAISED)))
selection_b13 = mechanism("selection_b13", replace(CHOOSER_BENCH, factor=Fraction(2)), SELECTION)
b16_realised_sum = planted("B16: one run's sum for the cap", adaptive_b16, "refuted", trials=1_000)
b3_half_sensitivity = planted("B3: anchors' noise for L0/n", kl_spider_b3, "refuted", "accountant")
b5_no_root = planted("B5: no sqrt(T_k)", kl_spider_b5, "accountant")
b10_unsplit = planted("B10: rho for every call", proximal_b10, "refuted", "accountant")
b12_more_steps = planted(
    "B12: twice the steps, noise unchanged", solver_b12, "refuted", "accountant"
)
b13_coefficient = planted("B13: twice the coefficient", selection_b13, "accountant")
