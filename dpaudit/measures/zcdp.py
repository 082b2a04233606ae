"""Zero-concentrated differential privacy: value = rho, D_order(M(D) || M(D')) <= rho * order."""

from __future__ import annotations

from typing import Any

from dpaudit.measures.calculus import Calculus, Laws, Measure, Source, Sums, register
from dpaudit.measures.convert import RENYI_TO_DP, from_zcdp
from dpaudit.measures.pure import MCSHERRY
from dpaudit.measures.sides import of_renyi

COMPOSITION = Source("Bun, Steinke", 2016, "Lemma 2.3 (adaptive composition)")
FILTER = Source("Whitehouse, Ramdas, Rogers, Wu", 2023, "filter for approximate zCDP, at delta = 0")
FROM_PURE = Source("Bun, Steinke", 2016, "Proposition 1.4")


def _region(claim: Any) -> Any:
    from dpaudit.measures.region import float_upper, zcdp_region

    return zcdp_region(float_upper(claim.rho, "rho"))


def _from_rates(false_positive_upper: float, false_negative_upper: float) -> float:
    from dpaudit.measures.region import rho_of_rates

    return rho_of_rates(false_positive_upper, false_negative_upper)


CONCENTRATED = register(
    Calculus(
        Measure(
            name="zcdp",
            meaning="rho of zero-concentrated differential privacy",
            symbol="rho",
            latex=r"\rho_{\mathrm{zCDP}}",
            words="zero-concentrated differential privacy (ρ)",
            wire="zcdp",
            parameter="rho",
            wire_field="rho",
            laws=Laws(COMPOSITION, MCSHERRY),
            sums=Sums(FILTER, ("rho",)),
            rank=6,
            to_approx=from_zcdp,
            to_approx_cite=RENYI_TO_DP,
            delta_at=of_renyi,
            with_symbols="moments",
            region=_region,
            from_rates=_from_rates,
        )
    )
)
