"""Renyi differential privacy at a symbolic order: value = a function of ``ORDER`` > 1."""

from __future__ import annotations

from functools import cache
from typing import Any

from dpaudit.exact import Number, exp, log
from dpaudit.families.additive import Gaussian, Laplace
from dpaudit.families.opaque import (
    GDP,
    ZCDP,
    ApproxDP,
    ProfilePoints,
    PureDP,
    RenyiCurve,
    RenyiDP,
)
from dpaudit.measures.calculus import Calculus, Source, always, register
from dpaudit.measures.common import add_structure
from dpaudit.measures.pure import DECLARED, MCSHERRY
from dpaudit.measures.zcdp import FROM_GDP, FROM_PURE

RENYI = register(
    Calculus("rdp", "epsilon of Renyi differential privacy at order alpha > 1", reserved="alpha")
)

TABLE = Source("Mironov", 2017, "Table II")
COMPOSITION = Source("Mironov", 2017, "Proposition 1 (adaptive composition)")

add_structure(RENYI, compose=COMPOSITION, parallel=MCSHERRY)


@cache
def order() -> Any:
    """The symbol ``alpha`` (positive) in which this calculus speaks; no node may use it."""
    import sympy

    return sympy.Symbol(RENYI.reserved, positive=True)


@RENYI.rule(Gaussian, cite=TABLE, attained=always)
def gaussian(node: Gaussian) -> Number:
    """alpha / (2 z^2): an equality when the query moves by its sensitivity."""
    return order() / (2 * node.noise_multiplier**2)


@RENYI.rule(Laplace, cite=TABLE, attained=always)
def laplace(node: Laplace) -> Number:
    """log(a e^((alpha-1)/b) + (1-a) e^(-alpha/b)) / (alpha-1), a = alpha / (2 alpha - 1)."""
    alpha, epsilon = order(), 1 / node.noise_multiplier
    share = alpha / (2 * alpha - 1)
    moments = share * exp((alpha - 1) * epsilon) + (1 - share) * exp(-alpha * epsilon)
    return log(moments) / (alpha - 1)


@RENYI.rule(PureDP, cite=FROM_PURE)
def from_pure(node: PureDP) -> Number:
    """alpha epsilon^2 / 2."""
    return order() * node.epsilon**2 / 2


@RENYI.rule(GDP, cite=FROM_GDP)
def from_gdp(node: GDP) -> Number:
    """alpha mu^2 / 2."""
    return order() * node.mu**2 / 2


@RENYI.rule(RenyiCurve, cite=DECLARED)
def opaque_curve(node: RenyiCurve) -> Number:
    """What somebody else proved."""
    return node.curve


@RENYI.rule(ZCDP, cite=DECLARED)
def opaque(node: ZCDP) -> Number:
    """alpha rho: what somebody else proved."""
    return order() * node.rho


RENYI.absent(
    ApproxDP, ProfilePoints, reason="an outcome that tells all has infinite Renyi divergence"
)
RENYI.absent(RenyiDP, reason="known up to one order, no curve over all of them: use profile")
