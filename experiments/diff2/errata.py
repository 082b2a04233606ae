"""Errata of DIFF2: two misprints of step sizes, in numbers."""

from __future__ import annotations

import math

from experiments.lab.errata import Errata, Erratum


def proposition_d_2() -> str:
    """The printed step beside the one that its proof uses, where noise decides."""
    rounds = 64
    return f"at T = {rounds} the printed second term is {math.sqrt(rounds):g} times too long"


def proposition_f_2() -> str:
    """The printed heterogeneity term beside the recursion's."""
    steps = 10
    return (
        f"at K = {steps} local steps and zeta = 1 the recursion gives {steps * (steps + 1)}, where "
        f"K^2 eta^2 is {steps**2} eta^2 and has no zeta"
    )


DIFF2_ERRATA = Errata(
    "diff2",
    "DIFF2 (Murata and Suzuki 2023)",
    (
        Erratum(
            "Proposition D.2",
            "the step is at most 1 / (2 sqrt(d) sigma_2 C2)",
            "the root of the restart period T is missing, which its proof has",
            proposition_d_2,
            "1 / (2 sqrt(T d) sigma_2 C2)",
            "the theorem's rate is computed with the root",
            "`mechanisms/papers/diff2/theory.py::diff2_gd_step_size`",
        ),
        Erratum(
            "Proposition F.2",
            "the local step has K^2 eta^2 under its root",
            "K^2 zeta^2 is meant, the recursion gives K (K + 1) zeta^2, and the proof names C2 "
            "where C3 is the radius",
            proposition_f_2,
            "K (K + 1) zeta^2 + K L^2 / b + K C3^2 sigma_3^2 d",
            "orders in K are not affected",
            "`mechanisms/papers/diff2/theory.py`",
        ),
    ),
)
