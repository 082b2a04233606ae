"""Errata of the paper on the KL condition, each in numbers."""

from __future__ import annotations

import math
from fractions import Fraction

from dpaudit.accountant.account import Account
from experiments.kl.problem import SCOPE
from experiments.kl.spider import BETA, DIMENSION, landscape
from experiments.lab.errata import Errata, Erratum
from mechanisms.papers.common.losses import Logistic
from mechanisms.papers.kl.adaptive import GradientNormAtStart
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
