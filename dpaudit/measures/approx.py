"""Approximate differential privacy: value = (epsilon, delta), by basic composition."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from dpaudit.exact import Number, infinity, maximum, total, total_over
from dpaudit.measures.calculus import Calculus, Laws, Measure, Running, Source, Sums, register
from dpaudit.measures.convert import MONOTONE, from_approx
from dpaudit.measures.pure import FILTER, MCSHERRY, ODOMETER
from dpaudit.measures.sides import of_approx

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


def _region(claim: Any) -> Any:
    from dpaudit.measures.region import approx_region

    return approx_region(claim.epsilon, claim.delta)


def _running(spent: tuple[Fraction, ...], delta: Fraction) -> Number:
    """The sum of epsilon, while the deltas add up to at most delta; infinite after that."""
    return spent[0] if spent[1] <= delta else infinity()


APPROX = register(
    Calculus(
        Measure(
            name="approx",
            meaning="(epsilon, delta) of approximate differential privacy",
            symbol="(epsilon, delta)",
            latex=r"(\varepsilon, \delta)",
            words="approximate differential privacy (ε, δ)",
            wire="approx_dp",
            parameter="epsilon",
            wire_field="epsilon",
            laws=Laws(BASIC, MCSHERRY, _sum, _times, _largest, _unbounded),
            sums=Sums(FILTER, ("epsilon", "delta")),
            running=Running(ODOMETER, _running),
            rank=3,
            to_approx=from_approx,
            to_approx_cite=MONOTONE,
            delta_at=of_approx,
            with_symbols="pairs",
            region=_region,
        )
    )
)
