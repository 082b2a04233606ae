"""Errata of the paper on the KL condition, each in numbers."""

from __future__ import annotations

import math
from fractions import Fraction

from dpaudit.accountant.account import Account
from dpaudit.scope import Scope, central
from experiments.kl.problem import SCOPE
from experiments.kl.spider import BETA, DIMENSION, landscape
from experiments.lab.errata import Errata, Erratum
from mechanisms.papers.common.losses import Logistic
from mechanisms.papers.kl import adaptive_catalogue, adaptive_readings
from mechanisms.papers.kl.adaptive import GradientNormAtStart
from mechanisms.papers.kl.adaptive_printed import PrintedAdaptiveNoisyGD
from mechanisms.papers.kl.entries import RHO as RHO_OF_DATA
from mechanisms.papers.kl.problem import KLProblem
from mechanisms.papers.kl.schedule import KLSpiderSchedule

SIZE, RHO = 1_000, Fraction(1)


def line_6() -> str:
    """The zCDP of one noisy norm beside its printed charge."""
    program = GradientNormAtStart(KLProblem(Logistic(), 2, SIZE, 1.0), RHO)
    spent = float(Account(program.declaration(SCOPE), SCOPE).step("zcdp").value)
    charge = float(RHO) ** 0.5 / SIZE
    return (
        f"n = {SIZE:,}, rho = 1, one record replaced: the norm costs {spent:.4g}, charged is "
        f"{charge:.4g}, {spent / charge:.3g} times less"
    )


def line_10() -> str:
    """How many differences a phase of the printed loop releases, and for how many its noise is."""
    at = landscape(2.0)
    made = KLSpiderSchedule(
        at.kl, DIMENSION, 1_000_000, RHO, BETA, at.starting_gap, at.lipschitz, at.smoothness
    )
    length = made.printed_levels[-1].length
    return (
        f"at kappa = 2 and n = 1,000,000 T_k is {length:g}: up to {math.floor(length) + 1} "
        f"differences are released with noise for {length:g}"
    )


def spent(program: PrintedAdaptiveNoisyGD, scope: Scope) -> float:
    """The zCDP of all that the program releases, as the accountant proves it."""
    return float(Account(program.declaration(scope), scope).step("zcdp").value)


def theorem_3() -> str:
    """By reading and by what is seen of a run, the rho that is proved for the printed charges."""
    n, rho = adaptive_readings.BENCH.size, float(adaptive_readings.ONE)
    seen = {
        "norms cut at 0, w_0..w_T alone": (adaptive_readings.ITERATES, SCOPE),
        "with the gradient at w_T": (adaptive_readings.CLIPPED, SCOPE),
        "the same under zero_out": (adaptive_readings.CLIPPED, central("zero_out")),
    }
    proved = ", ".join(f"{words} {spent(*of):.6f}" for words, of in seen.items())
    rounds = math.ceil(adaptive_readings.SIGNED.scale / 2)
    return (
        f"n = {n:,}, rho = {rho:g}: proved are {proved}. With signed norms up to {rounds:,} rounds "
        f"may be charged next to nothing: nothing below "
        f"{spent(adaptive_readings.SIGNED, SCOPE):,.0f} is proved"
    )


def theorem_5() -> str:
    """The selection's zCDP, by its printed pure epsilon, by the true one, and by its range."""
    rho = float(RHO_OF_DATA)
    both = Account(adaptive_catalogue.SELECTED.declaration(SCOPE), SCOPE).step("zcdp")
    selection = float(both.value) - rho
    return (
        f"rho = {rho:g}, one record replaced: pure epsilon is 2 sqrt(rho) = {2 * rho**0.5:g}, "
        f"printed {rho**0.5:g}; epsilon^2 / 2 is {2 * rho:g}, printed {rho / 2:g}; the range of "
        f"the mechanism gives {selection:g}"
    )


KL_ERRATA = Errata(
    "kl",
    "Minimisation under the KL condition (Menart et al. 2023)",
    (
        Erratum(
            "Algorithm 3, line 6",
            "a round is charged sqrt(rho) / n for its norm",
            "the noise is calibrated to L0 / n, and replacing a record moves the mean gradient by "
            "2 L0 / n",
            line_6,
            "2 sqrt(rho) / n, and twice the charge of the gradient",
            "a charge of half is right for neighbours that move the mean by sqrt(2) L0 / n at most",
            "[certificates](../../mechanisms/papers/README.md), `private_gradient_norm`",
        ),
        Erratum(
            "Theorem 3",
            "Algorithm 3 is rho-zCDP; it outputs w_0, ..., w_T",
            "charges are half of what a round costs (line 6), nothing caps the last round's, and a "
            "noisy norm that comes out negative makes a round next to free",
            theorem_3,
            "charges made of the noise that is drawn, under a filter: `adaptive_noisy_gd`",
            "under zero_out with norms that are not negative it is proved, with room. Of w_0..w_T "
            "alone, which do not hold the gradient at w_T, nothing above rho + 2 sqrt(rho) / n is "
            "lost where norms are cut at 0: that reading is open, and refuted by nothing. With "
            "signed norms w_0..w_T alone are attacked in [kl_reading](kl_reading.md); the two "
            "refuted rows of README are of signed norms with the gradient at w_T visible",
            "[certificates](../../mechanisms/papers/README.md), `adaptive_noisy_gd_paper` and its "
            "seven readings; [kl_reading](kl_reading.md)",
        ),
        Erratum(
            "Theorem 5",
            "the selection by the exponential mechanism is sqrt(rho)-DP, so rho / 2-zCDP",
            "its score moves by 2 L0 / n where a record is replaced, so that it is 2 sqrt(rho)-DP",
            theorem_5,
            "the mechanism's range is 2 sqrt(rho), and epsilon^2 / 8 = rho / 2",
            "the printed total of 2 rho holds, and less: 3 rho / 2",
            "[certificates](../../mechanisms/papers/README.md), `select_stationary_iterate`",
        ),
        Erratum(
            "Algorithm 1, line 10",
            "a phase runs while t <= T_k; the next starts at the iterate before the last update",
            "floor(T_k) + 1 differences are released with noise for T_k, and that iterate is not "
            "the one that the stopping rule certifies",
            line_10,
            "the repaired loop: as many differences as the noise is for, and the last iterate",
            "the repaired loop keeps Theorem 1's bound and rate",
            "[kl_loop](kl_loop.md), `mechanisms/papers/kl/spider.py::PrintedKLSpider`",
        ),
    ),
)
