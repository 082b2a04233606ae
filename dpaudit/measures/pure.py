"""Pure differential privacy: value = epsilon, the largest absolute privacy loss."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from dpaudit.measures.calculus import Calculus, Laws, Measure, Running, Source, Sums, register
from dpaudit.measures.convert import MONOTONE, from_pure
from dpaudit.measures.sides import of_pure, tradeoff_of_pure

MCSHERRY = Source("McSherry", 2009, "Theorem 4 (parallel composition)")
FILTER = Source("Rogers, Roth, Ullman, Vadhan", 2016, "filter by basic composition")
ODOMETER = Source("Rogers, Roth, Ullman, Vadhan", 2016, "odometer by basic composition")
BASIC = Source("Dwork, Rothblum, Vadhan", 2010, "Section III.A (adaptive k-fold composition)")


def _region(claim: Any) -> Any:
    from dpaudit.measures.region import approx_region

    return approx_region(claim.epsilon, Fraction(0))


def _running(spent: tuple[Fraction, ...], delta: Fraction) -> Fraction:
    """The sum of epsilon, surely."""
    return spent[0]


PURE = register(
    Calculus(
        Measure(
            name="pure",
            meaning="epsilon of pure differential privacy",
            symbol="epsilon",
            latex=r"\varepsilon",
            words="pure differential privacy (ε)",
            wire="pure_dp",
            parameter="epsilon",
            wire_field="epsilon",
            laws=Laws(BASIC, MCSHERRY),
            sums=Sums(FILTER, ("epsilon",)),
            running=Running(ODOMETER, _running, surely=True),
            rank=2,
            to_approx=from_pure,
            to_approx_cite=MONOTONE,
            delta_at=of_pure,
            tradeoff_at=tradeoff_of_pure,
            with_symbols="pairs",
            region=_region,
        )
    )
)
