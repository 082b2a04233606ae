"""Renyi differential privacy at a symbolic order: value = a function of ``order()`` > 1."""

from __future__ import annotations

from typing import Any

from dpaudit.measures.calculus import Calculus, Laws, Measure, Source, Sums, order, register
from dpaudit.measures.convert import RENYI_TO_DP, from_rdp
from dpaudit.measures.pure import MCSHERRY
from dpaudit.measures.sides import of_renyi

__all__ = ["RENYI", "order"]

COMPOSITION = Source("Mironov", 2017, "Proposition 1 (adaptive composition)")
FILTER = Source("Feldman, Zrnic", 2021, "Renyi filter, at each order")


def _region(claim: Any) -> Any:
    """The region of a Renyi bound at one order, or of a whole curve."""
    from dpaudit.measures.region import RenyiRegion, float_upper, renyi_region

    if "curve" in claim.parameters:
        return renyi_region(claim.curve, claim.name)
    return RenyiRegion(
        (float_upper(claim.order, "order"),), (float_upper(claim.epsilon, "epsilon"),)
    )


RENYI = register(
    Calculus(
        Measure(
            name="rdp",
            meaning="epsilon of Renyi differential privacy at order alpha > 1",
            symbol="epsilon(alpha)",
            latex=r"\varepsilon(\alpha)",
            words="Rényi differential privacy",
            wire="rdp",
            parameter="epsilon",
            laws=Laws(COMPOSITION, MCSHERRY),
            sums=Sums(FILTER, ()),
            rank=5,
            reserved="alpha",
            to_approx=from_rdp,
            to_approx_cite=RENYI_TO_DP,
            delta_at=of_renyi,
            region=_region,
        )
    )
)
