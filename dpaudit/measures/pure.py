"""Pure differential privacy: value = epsilon, the largest absolute privacy loss."""

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

PURE = register(Calculus("pure", "epsilon of pure differential privacy"))

DWORK = Source("Dwork, McSherry, Nissim, Smith", 2006, "Proposition 1")
DECLARED = Source("dpaudit", 2026, "definition of an opaque leaf")
MCSHERRY = Source("McSherry", 2009, "Theorem 4 (parallel composition)")
BASIC = Source("Dwork, Rothblum, Vadhan", 2010, "Section III.A (adaptive k-fold composition)")

add_structure(PURE, compose=BASIC, parallel=MCSHERRY)


@PURE.rule(Laplace, cite=DWORK, attained=always)
def laplace(node: Laplace) -> Number:
    """Loss of Laplace noise of scale b times the sensitivity: at most 1/b, and reached."""
    return 1 / node.noise_multiplier


@PURE.rule(PureDP, cite=DECLARED)
def opaque(node: PureDP) -> Number:
    """What somebody else proved."""
    return node.epsilon


PURE.absent(
    Gaussian,
    GDP,
    ZCDP,
    reason="an unbounded loss: no epsilon holds at delta 0",
)
PURE.absent(
    ApproxDP, ProfilePoints, RenyiDP, RenyiCurve, reason="it allows an unbounded loss: use profile"
)
