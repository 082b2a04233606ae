"""Errata of the user-level paper, each in numbers."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from experiments.lab.errata import Errata, Erratum
from mechanisms.papers.user_level.constants import gaussian_delta
from mechanisms.papers.user_level.textbook import amplify_by_subsampling

EPSILON, DELTA = 10.0, 1e-6


def reached(epsilon: float, delta: float) -> float:
    """The delta of Lemma A.5's noise, of multiplier sqrt(2 log(2 / delta)) / epsilon."""
    noise = math.sqrt(2 * math.log(2 / delta)) / epsilon
    return float(gaussian_delta(epsilon, np.array([1 / noise]))[0])


def lemma_a_5() -> str:
    """The delta at epsilon = 10, and the first epsilon at which the lemma fails."""
    first = next(k / 100 for k in range(100, 2000) if reached(k / 100, DELTA) > DELTA)
    return (
        f"at epsilon = {EPSILON:g} the noise for delta = {DELTA:g} has delta = "
        f"{reached(EPSILON, DELTA):.4g}; it fails from epsilon = {first:.2f} on"
    )


def lemma_a_8() -> str:
    """The printed epsilon beside the exact one."""
    share, epsilon = Fraction(1, 10), 1.0
    exact, _ = amplify_by_subsampling(epsilon, 0.0, float(share))
    return (
        f"epsilon = 1, a tenth of the records: printed {float(share) * math.expm1(epsilon):.4g}, "
        f"exact {exact:.4g}"
    )


def lemma_d_1() -> str:
    """The mean of |u| over [-r, r] beside its value at the centre."""
    radius = 0.5
    return (
        f"f = |x| in one dimension, r = {radius}, at x = 0: f_r = {radius / 2:g} and f = 0, so "
        "that f_r <= f fails"
    )


USER_LEVEL_ERRATA = Errata(
    "user_level",
    "User-level convex optimisation (Lowy, Liu and Asi 2024)",
    (
        Erratum(
            "Lemmas A.5 and A.6",
            "noise sqrt(2 log(2 / delta)) / epsilon times the sensitivity is (epsilon, delta)-DP, "
            "for every epsilon",
            "the textbook's condition on epsilon is left out",
            lemma_a_5,
            "the exact Gaussian curve: kappa(epsilon, delta)",
            "at the epsilon of order 1 that the paper speaks of the lemma holds, with room",
            "`mechanisms/papers/user_level/textbook.py::gaussian_mechanism`, which refuses",
        ),
        Erratum(
            "Lemma A.8",
            "a batch that is a share q of the records has ((e^epsilon - 1) q, q delta)",
            "nothing is false: it is larger than the exact number",
            lemma_a_8,
            "log(1 + q (e^epsilon - 1))",
            "the printed number is an upper bound",
            "`mechanisms/papers/user_level/textbook.py::amplify_by_subsampling`",
        ),
        Erratum(
            "Lemma D.1",
            "f_r <= f <= f_r + L r",
            "the mean of a convex function over a ball is at least its value at the centre",
            lemma_d_1,
            "f <= f_r <= f + L r",
            "the distance L r is right, and so is every rate that uses it",
            "[user_level_smoothing](user_level_smoothing.md)",
        ),
    ),
)
