"""Zero-concentrated differential privacy: value = rho, D_order(M(D) || M(D')) <= rho * order."""

from __future__ import annotations

from dpaudit.exact import Number
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

CONCENTRATED = register(Calculus("zcdp", "rho of zero-concentrated differential privacy"))

GAUSSIAN_NOISE = Source("Bun, Steinke", 2016, "Proposition 1.6")
COMPOSITION = Source("Bun, Steinke", 2016, "Lemma 2.3 (adaptive composition)")
FROM_PURE = Source("Bun, Steinke", 2016, "Proposition 1.4")
FROM_GDP = Source("Dong, Roth, Su", 2022, "Corollary B.6 (Renyi divergences of mu-GDP)")

add_structure(CONCENTRATED, compose=COMPOSITION, parallel=MCSHERRY)


@CONCENTRATED.rule(Gaussian, cite=GAUSSIAN_NOISE, attained=always)
def gaussian(node: Gaussian) -> Number:
    """1 / (2 z^2) for noise multiplier z: an equality when the query moves by its sensitivity."""
    return 1 / (2 * node.noise_multiplier**2)


@CONCENTRATED.rule(Laplace, cite=FROM_PURE)
def laplace(node: Laplace) -> Number:
    """epsilon^2 / 2 with epsilon = 1 / b."""
    return 1 / (2 * node.noise_multiplier**2)


@CONCENTRATED.rule(PureDP, cite=FROM_PURE)
def from_pure(node: PureDP) -> Number:
    """epsilon^2 / 2."""
    return node.epsilon**2 / 2


@CONCENTRATED.rule(GDP, cite=FROM_GDP)
def from_gdp(node: GDP) -> Number:
    """mu^2 / 2: mu-GDP dominates the Renyi divergences of N(0,1) against N(mu,1)."""
    return node.mu**2 / 2


@CONCENTRATED.rule(ZCDP, cite=DECLARED)
def opaque(node: ZCDP) -> Number:
    """What somebody else proved."""
    return node.rho


CONCENTRATED.absent(
    ApproxDP, ProfilePoints, reason="an outcome that tells all has infinite Renyi divergence"
)
CONCENTRATED.absent(
    RenyiDP, RenyiCurve, reason="Renyi bounds at other orders than all of them: use rdp or profile"
)
