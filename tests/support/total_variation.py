"""A measure of somebody else's, whole in one file: total variation privacy.

value = tau, the largest total variation distance between the outputs on neighbouring data sets:
P[E] - Q[E] <= tau for every event, which is (0, tau)-DP.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from dpaudit.check.measures import CheckedMeasure, Premise, Result, register_measure
from dpaudit.check.reading import Json, rounded_up
from dpaudit.check.theorem import Theorem
from dpaudit.check.theorem import always as held_throughout
from dpaudit.check.theorem import register as register_theorems
from dpaudit.exact import Number, decimal_upper, enclose, exp, infinity, smaller
from dpaudit.exact.domains import number, probability
from dpaudit.families.additive import Laplace
from dpaudit.measures.calculus import (
    Calculus,
    Converted,
    Laws,
    Measure,
    Sides,
    Source,
    Step,
    Sums,
    always,
    register,
)
from dpaudit.measures.region import Region, approx_region
from dpaudit.nodes import Leaf

SUBADDITIVE = Source("dpaudit", 2026, "distances add along hybrids; one part sees the record")
HALF_MASS = Source("dpaudit", 2026, "total variation of Laplace noise and its shift")
IS_ZERO_TAU = Source("Kairouz, Oh, Viswanath", 2015, "Definition 1 at epsilon = 0")


@dataclass(frozen=True, eq=False, repr=False)
class TotalVariation(Leaf):
    """An opaque mechanism of total variation at most ``tau``; also the claim of it."""

    tau: Number = number(probability)
    label: str = ""
    source: str = ""
    states_in: ClassVar[str] = "total_variation"


def capped(value: Number) -> Number:
    """No distance exceeds 1."""
    return smaller(value, Fraction(1))


def to_approx(step: Step, delta: Fraction, width: float) -> Converted:
    """(0, tau): nothing below tau, epsilon = 0 from there on."""
    held = bool(enclose(step.value) <= enclose(delta))
    return Converted(Fraction(0) if held else infinity(), None, {})


def delta_at(step: Step, epsilon: Fraction) -> Sides:
    """At any epsilon, at most what it is at 0."""
    return None, min(Fraction(decimal_upper(step.value)), Fraction(1))


def region(claim: TotalVariation) -> Region:
    """P[E] <= Q[E] + tau, both ways."""
    return approx_region(Fraction(0), claim.tau)


def from_rates(false_positive_upper: float, false_negative_upper: float) -> float:
    """P[E] - Q[E] >= 1 - FNR - FPR; rounded down."""
    return max(0.0, math.nextafter(1 - false_negative_upper - false_positive_upper, -np.inf))


TOTAL_VARIATION = register(
    Calculus(
        Measure(
            name="total_variation",
            meaning="tau, the largest total variation distance",
            symbol="tau",
            latex=r"\tau",
            words="total variation privacy (τ)",
            wire="total_variation",
            parameter="tau",
            top=1.0,
            laws=Laws(
                SUBADDITIVE,
                SUBADDITIVE,
                unbounded=lambda: Fraction(1),
                attained=False,
            ),
            to_approx=to_approx,
            to_approx_cite=IS_ZERO_TAU,
            delta_at=delta_at,
            region=region,
            sums=Sums(SUBADDITIVE, ("tau",)),
            from_rates=from_rates,
        )
    )
)


@TOTAL_VARIATION.rule(Laplace, "half_the_loss", cite=HALF_MASS, attained=always)
def laplace(node: Laplace) -> Number:
    """1 - exp(-1 / (2 b)) for a whole shift of Laplace noise of scale b times the sensitivity."""
    return 1 - exp(-1 / (2 * node.noise_multiplier))


@TOTAL_VARIATION.rule(TotalVariation, "stated", cite=IS_ZERO_TAU)
def stated(node: TotalVariation) -> Number:
    """What somebody else proved."""
    return node.tau


# --- stated a second time, for the checker --------------------------------------------------------


def confirmed(premise: Premise, delta: Any, text: str, witness: Json) -> Result:
    """(0, tau) from the delta that is at least tau."""
    if bool(enclose(premise.upper) <= enclose(delta)):
        return (Fraction(0), None) if rounded_up(text, Fraction(0)) else (None, None)
    return (infinity(), None) if text == "inf" else (None, None)


def _sum(values: Sequence[Any]) -> Any:
    return sum(values, Fraction(0))


register_measure(
    CheckedMeasure(
        "total_variation",
        "total_variation",
        "tau",
        "TotalVariation",
        unbounded=lambda: Fraction(1),
        attained=False,
        to_approx=confirmed,
        from_rates=lambda positive, negative: (1 - positive - negative).max(0),
    )
)
register_theorems(
    {
        ("total_variation", "Laplace"): Theorem(
            "half_the_loss",
            lambda node: 1 - exp(-1 / (2 * node.noise_multiplier)),
            attained=held_throughout,
        ),
        ("total_variation", "TotalVariation"): Theorem("stated", lambda node: node.tau),
    }
)
