"""Approximate differential privacy: value = (epsilon, delta), by basic composition."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from dpaudit.exact import Number, infinity, maximum, total, total_over
from dpaudit.measures.calculus import Calculus, Laws, Source, register
from dpaudit.measures.pure import MCSHERRY

Pair = tuple[Number, Number]

BASIC = Source("Dwork, Kenthapadi, McSherry, Mironov, Naor", 2006, "Theorem 1")


def _sum(pairs: Sequence[Pair]) -> Pair:
    return total(e for e, _ in pairs), total(d for _, d in pairs)


def _times(pair: Pair, index: object, times: Number) -> Pair:
    return total_over(pair[0], index, times), total_over(pair[1], index, times)


def _largest(pairs: Sequence[Pair]) -> Pair:
    return maximum(e for e, _ in pairs), maximum(d for _, d in pairs)


def _unbounded() -> Pair:
    return infinity(), Fraction(1)


APPROX = register(
    Calculus(
        "approx",
        "(epsilon, delta) of approximate differential privacy",
        Laws(BASIC, MCSHERRY, _sum, _times, _largest, _unbounded),
    )
)
