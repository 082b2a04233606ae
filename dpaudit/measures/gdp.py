"""Gaussian differential privacy: value = mu, a trade-off curve above that of N(0,1), N(mu,1).

Under history-independent noise multipliers, adaptive composition of Gaussian leaves is exact.
"""

from __future__ import annotations

from collections.abc import Sequence

from dpaudit.exact import Number, erfinv, sqrt, tanh, total, total_over
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

GAUSSIAN = register(Calculus("gdp", "mu of Gaussian differential privacy"))

NOISE = Source("Dong, Roth, Su", 2022, "Theorem 2.7")
COMPOSITION = Source("Dong, Roth, Su", 2022, "Corollary 3.3 (adaptive composition)")
FROM_PURE = Source(
    "Dong, Roth, Su",
    2022,
    "Proposition 2.5 (f of epsilon-DP is two segments that meet at 1/(1+e^epsilon)); "
    "the convex G_mu lies below them if it does at the corner",
)


def _root_sum_square(values: Sequence[Number]) -> Number:
    return sqrt(total(v**2 for v in values))


def _repeat(value: Number, index: object, times: Number) -> Number:
    return sqrt(total_over(value**2, index, times))


add_structure(
    GAUSSIAN, compose=COMPOSITION, parallel=MCSHERRY, combine=_root_sum_square, repeat=_repeat
)


@GAUSSIAN.rule(Gaussian, cite=NOISE, attained=always)
def gaussian(node: Gaussian) -> Number:
    """1 / z for noise multiplier z: an equality when the query moves by its sensitivity."""
    return 1 / node.noise_multiplier


@GAUSSIAN.rule(PureDP, cite=FROM_PURE)
def from_pure(node: PureDP) -> Number:
    """-2 Phi^{-1}(1/(1+e^epsilon)) = sqrt(8) erfinv(tanh(epsilon/2))."""
    return corner(node.epsilon)


@GAUSSIAN.rule(Laplace, cite=FROM_PURE)
def laplace(node: Laplace) -> Number:
    """As pure differential privacy with epsilon = 1 / b."""
    return corner(1 / node.noise_multiplier)


@GAUSSIAN.rule(GDP, cite=DECLARED)
def opaque(node: GDP) -> Number:
    """What somebody else proved."""
    return node.mu


def corner(epsilon: Number) -> Number:
    """The smallest mu whose curve passes below the corner of the epsilon-DP curve."""
    return 2 * sqrt(2) * erfinv(tanh(epsilon / 2))


GAUSSIAN.absent(
    ApproxDP, ProfilePoints, reason="a delta at infinite loss is above every Gaussian profile"
)
GAUSSIAN.absent(
    ZCDP, RenyiDP, RenyiCurve, reason="Renyi bounds imply no Gaussian trade-off curve: use profile"
)
