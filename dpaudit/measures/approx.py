"""Approximate differential privacy: value = (epsilon, delta), by basic composition."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from dpaudit.exact import Number, infinity, maximum, total, total_over
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
from dpaudit.measures.calculus import Calculus, Source, register
from dpaudit.measures.common import add_structure
from dpaudit.measures.pure import DECLARED, DWORK, MCSHERRY

Pair = tuple[Number, Number]

APPROX = register(Calculus("approx", "(epsilon, delta) of approximate differential privacy"))
BASIC = Source("Dwork, Kenthapadi, McSherry, Mironov, Naor", 2006, "Theorem 1")


def _sum(pairs: Sequence[Pair]) -> Pair:
    return total(e for e, _ in pairs), total(d for _, d in pairs)


def _times(pair: Pair, index: object, times: Number) -> Pair:
    return total_over(pair[0], index, times), total_over(pair[1], index, times)


def _largest(pairs: Sequence[Pair]) -> Pair:
    return maximum(e for e, _ in pairs), maximum(d for _, d in pairs)


def _unbounded() -> Pair:
    return infinity(), Fraction(1)


add_structure(
    APPROX,
    compose=BASIC,
    parallel=MCSHERRY,
    combine=_sum,
    repeat=_times,
    largest=_largest,
    unbounded=_unbounded,
)


@APPROX.rule(ApproxDP, cite=DECLARED)
def opaque(node: ApproxDP) -> Pair:
    """What somebody else proved."""
    return node.epsilon, node.delta


@APPROX.rule(PureDP, cite=DECLARED)
def opaque_pure(node: PureDP) -> Pair:
    """Pure differential privacy is the case delta = 0."""
    return node.epsilon, Fraction(0)


@APPROX.rule(Laplace, cite=DWORK)
def laplace(node: Laplace) -> Pair:
    """Laplace noise of scale b times the sensitivity is (1/b, 0)-DP."""
    return 1 / node.noise_multiplier, Fraction(0)


APPROX.absent(
    Gaussian,
    GDP,
    ZCDP,
    ProfilePoints,
    RenyiDP,
    RenyiCurve,
    reason="a whole curve of (epsilon, delta), no one point of it: convert another calculus",
)
