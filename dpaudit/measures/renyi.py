"""Renyi differential privacy at a symbolic order: value = a function of ``ORDER`` > 1."""

from __future__ import annotations

from functools import cache
from typing import Any

from dpaudit.measures.calculus import Calculus, Laws, Source, register
from dpaudit.measures.pure import MCSHERRY

COMPOSITION = Source("Mironov", 2017, "Proposition 1 (adaptive composition)")

RENYI = register(
    Calculus(
        "rdp",
        "epsilon of Renyi differential privacy at order alpha > 1",
        Laws(COMPOSITION, MCSHERRY),
        reserved="alpha",
    )
)


@cache
def order() -> Any:
    """The symbol ``alpha`` (positive) in which this calculus speaks; no node may use it."""
    import sympy

    return sympy.Symbol(RENYI.reserved, positive=True)
