"""Zero-concentrated differential privacy: value = rho, D_order(M(D) || M(D')) <= rho * order."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from typing import Any

from dpaudit.exact import decimal_upper, enclose, working_precision
from dpaudit.measures.calculus import Calculus, Laws, Measure, Running, Source, Sums, register
from dpaudit.measures.convert import RENYI_TO_DP, from_zcdp
from dpaudit.measures.pure import MCSHERRY
from dpaudit.measures.sides import of_renyi

COMPOSITION = Source("Bun, Steinke", 2016, "Lemma 2.3 (adaptive composition)")
FILTER = Source("Whitehouse, Ramdas, Rogers, Wu", 2023, "filter for approximate zCDP, at delta = 0")
ODOMETER = Source(
    "Whitehouse, Ramdas, Rogers, Wu", 2023, "filter and stitched odometers, by lines in rho"
)
FROM_PURE = Source("Bun, Steinke", 2016, "Proposition 1.4")

BOUND_DIGITS = 30  # Significant digits to which a bound is rounded up.
# Sums of rho, 2^-20 to 2^20, at each of which one line of the odometer is the best.
ODOMETER_LEVELS = tuple(Fraction(2) ** k for k in range(-20, 21))


def _region(claim: Any) -> Any:
    from dpaudit.measures.region import float_upper, zcdp_region

    return zcdp_region(float_upper(claim.rho, "rho"))


def _from_rates(false_positive_upper: float, false_negative_upper: float) -> float:
    from dpaudit.measures.region import rho_of_rates

    return rho_of_rates(false_positive_upper, false_negative_upper)


def _running(spent: tuple[Fraction, ...], delta: Fraction) -> Fraction:
    """The smallest over j of (1 + l_j) R + log(1 / d_j) / l_j, R the sum of rho so far.

    Proof: exp(l L_n - l (1 + l) R_n) is a supermartingale of mean at most 1, because the divergence
    of order 1 + l of a release, given the past, is at most (1 + l) rho_n, and rho_n is fixed by the
    past.  Ville's inequality bounds L_n at all times for one l; the d_j of the l_j add up to delta.
    """
    slopes, cost = _lines(delta)
    lines = ((1 + slope) * spent[0] + cost / slope for slope in slopes)
    return min(Fraction(decimal_upper(line, BOUND_DIGITS)) for line in lines)


@lru_cache(maxsize=64)
def _lines(delta: Fraction) -> tuple[tuple[Fraction, ...], Fraction]:
    """The l_j, and an upper bound of log(1 / d_j) with d_j = delta / number of lines."""
    with working_precision():
        cost = Fraction(decimal_upper(enclose(len(ODOMETER_LEVELS) / delta).log(), BOUND_DIGITS))
        slopes = (float((enclose(cost) / enclose(level)).sqrt().mid()) for level in ODOMETER_LEVELS)
        return tuple(Fraction(slope).limit_denominator(10**9) for slope in slopes), cost


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
            running=Running(ODOMETER, _running),
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
