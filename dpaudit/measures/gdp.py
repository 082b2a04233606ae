"""Gaussian differential privacy: value = mu, a trade-off curve above that of N(0,1), N(mu,1).

Under history-independent noise multipliers, adaptive composition of Gaussian leaves is exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dpaudit.exact import Number, erfinv, sqrt, tanh, total, total_over
from dpaudit.measures.calculus import Calculus, Laws, Measure, Source, Sums, register
from dpaudit.measures.convert import BALLE_WANG, from_gdp
from dpaudit.measures.pure import MCSHERRY
from dpaudit.measures.sides import of_gaussian, tradeoff_of_gaussian

COMPOSITION = Source("Dong, Roth, Su", 2022, "Corollary 3.3 (adaptive composition)")
FILTER = Source("Smith, Thakurta", 2022, "filter for Gaussian differential privacy")
CORNER = Source(
    "Dong, Roth, Su",
    2022,
    "Proposition 2.5 (f of epsilon-DP is two segments that meet at 1/(1+e^epsilon)); "
    "the convex G_mu lies below them if it does at the corner",
)


def _root_sum_square(values: Sequence[Number]) -> Number:
    return sqrt(total(v**2 for v in values))


def _repeat(value: Number, index: object, times: Number) -> Number:
    return sqrt(total_over(value**2, index, times))


def _region(claim: Any) -> Any:
    from dpaudit.measures.region import GaussianRegion, float_upper

    return GaussianRegion(float_upper(claim.mu, "mu"))


def _from_rates(false_positive_upper: float, false_negative_upper: float) -> float:
    from dpaudit.measures.region import mu_of_rates

    return mu_of_rates(false_positive_upper, false_negative_upper)


GAUSSIAN = register(
    Calculus(
        Measure(
            name="gdp",
            meaning="mu of Gaussian differential privacy",
            symbol="mu",
            latex=r"\mu",
            words="Gaussian differential privacy (μ)",
            wire="gdp",
            parameter="mu",
            wire_field="mu",
            laws=Laws(COMPOSITION, MCSHERRY, combine=_root_sum_square, repeat=_repeat),
            sums=Sums(FILTER, ("squared mu",), power=2),
            rank=1,
            to_approx=from_gdp,
            to_approx_cite=BALLE_WANG,
            delta_at=of_gaussian,
            tradeoff_at=tradeoff_of_gaussian,
            with_symbols="curve",
            region=_region,
            from_rates=_from_rates,
        )
    )
)


def corner(epsilon: Number) -> Number:
    """The smallest mu whose curve passes below the corner of the epsilon-DP curve.

    -2 Phi^{-1}(1/(1+e^epsilon)) = sqrt(8) erfinv(tanh(epsilon/2)).
    """
    return 2 * sqrt(2) * erfinv(tanh(epsilon / 2))
