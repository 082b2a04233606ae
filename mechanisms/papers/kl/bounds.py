"""Formulas: lower bounds for private optimisation, rates, and zCDP conversions.

Lower bounds are up to constants unless said otherwise: lines for plots, not certificates.
"""

from __future__ import annotations

import math

from dpaudit.errors import InvalidParameter
from mechanisms.papers.kl.condition import GrowthCondition, KLCondition
from mechanisms.papers.kl.problem import chance
from mechanisms.papers.srgd.problem import real, whole


def zcdp_to_dp(rho: float, delta: float) -> float:
    """epsilon = rho + 2 sqrt(rho log(1/delta)); the accountant's conversions are smaller.

    Source: Bun and Steinke 2016, Proposition 1.3.
    """
    real(rho, "rho")
    return rho + 2 * math.sqrt(rho * math.log(1 / chance(delta, "delta")))


def rho_for_dp(epsilon: float, delta: float) -> float:
    """(sqrt(log(1/delta) + epsilon) - sqrt(log(1/delta)))^2: inverts :func:`zcdp_to_dp`."""
    loss = math.log(1 / chance(delta, "delta"))
    # The difference of roots, without its cancellation.
    return float((real(epsilon, "epsilon") / (math.sqrt(loss + epsilon) + math.sqrt(loss))) ** 2)


def growth_lower(
    condition: GrowthCondition, lipschitz: float, dimension: int, size: int, epsilon: float
) -> float:
    """tau^(-1/(tau-1)) (L0 sqrt(d) / (lam n eps))^(tau/(tau-1)), up to constants.

    Source: Menart et al. 2023, Theorem 6.
    """
    scale = _noise(lipschitz, dimension, size, epsilon) / condition.lam
    exponent = 1 / (condition.tau - 1)
    return float(condition.tau**-exponent * scale ** (condition.tau * exponent))


def kl_lower(
    condition: KLCondition, lipschitz: float, dimension: int, size: int, epsilon: float
) -> float:
    """(kappa / (kappa - 1))^(1 - kappa) (gamma L0 sqrt(d) / (n eps))^kappa, up to constants.

    Errors: InvalidParameter at kappa = 1.
    Source: Menart et al. 2023, Corollary 1.
    """
    scale = condition.gamma * _noise(lipschitz, dimension, size, epsilon)
    kappa = condition.kappa
    return float(condition.growth_exponent ** (1 - kappa) * scale**kappa)


def convex_lower(
    lipschitz: float, diameter: float, dimension: int, size: int, epsilon: float
) -> float:
    """L0 D min(sqrt(d) / (n eps), 1), up to constants.

    Source: Menart et al. 2023, Theorem 7.
    """
    share = min(_noise(1.0, dimension, size, epsilon), 1.0)
    return real(lipschitz, "lipschitz") * real(diameter, "diameter") * share


def one_dimensional_lower(kappa: float, size: int, epsilon: float, delta: float) -> float:
    """(1 / (n eps))^kappa / 4 for kappa >= 2, d = 1: an explicit constant.

    Errors: InvalidParameter unless 0 < epsilon <= log 2 and delta <= (1 - e^-eps) / 16.
    Source: Menart et al. 2023, Theorem 8.
    """
    if not 0 < real(epsilon, "epsilon") <= math.log(2):
        raise InvalidParameter(f"epsilon = {epsilon}: Theorem 8 needs at most log 2")
    if not 0 <= delta <= -math.expm1(-epsilon) / 16:
        raise InvalidParameter(f"delta = {delta}: Theorem 8 needs at most (1 - e^-eps) / 16")
    if real(kappa, "kappa") < 2:
        raise InvalidParameter(f"kappa = {kappa}: Theorem 8 needs at least 2")
    return float(0.25 * (1 / (whole(size, "size") * epsilon)) ** kappa)


def kl_spider_rate(
    condition: KLCondition, lipschitz: float, dimension: int, size: int, rho: float
) -> float:
    """(gamma L0 sqrt(d) / (n sqrt(rho)))^kappa: Theorem 1 without logarithms and constants."""
    scale = condition.gamma * _noise(lipschitz, dimension, size, math.sqrt(real(rho, "rho")))
    return float(scale**condition.kappa)


def adaptive_rate(
    condition: KLCondition, lipschitz: float, dimension: int, size: int, rho: float
) -> float:
    """(gamma L0 sqrt(d) / (n sqrt(rho)))^(2 kappa / (4 - kappa)): Theorem 4's first term."""
    scale = condition.gamma * _noise(lipschitz, dimension, size, math.sqrt(real(rho, "rho")))
    return float(scale ** (2 * condition.kappa / (4 - condition.kappa)))


# Rates as the papers state them, logarithms left out; the last two are cited, not implemented.
RATES = (
    ("kl_spider", "KL, 1 <= kappa <= 2", "(gamma L0 sqrt(d K) / (n sqrt(rho)))^kappa"),
    ("proximal_point_method", "KL, kappa = 2", "(gamma L0 sqrt(d T) / (n sqrt(rho)))^2"),
    ("adaptive_noisy_gd", "KL, parameters unknown", "(sqrt(d) / (n sqrt(rho)))^(2k / (4 - k))"),
    ("noisy_gd_pl", "PL", "d / (n^2 rho)"),
    ("noisy_gd_stationary", "smooth: gradient norm", "(sqrt(d) / (n sqrt(rho)))^(1/2)"),
    ("private_spider", "smooth: gradient norm", "(sqrt(d) / (n sqrt(rho)))^(2/3)"),
    ("epoch_localized_erm", "convex growth tau", "(sqrt(d) / (n eps))^(tau / (tau - 1))"),
    ("convex_noisy_gd", "convex", "L0 D sqrt(d) / (n sqrt(rho))"),
    ("Ganesh et al. 2023", "no assumption, exponential time", "d / (n eps)"),
    ("Yang et al. 2022", "min-max PL", "d / (n^2 eps^2)"),
)


def _noise(lipschitz: float, dimension: int, size: int, epsilon: float) -> float:
    """L0 sqrt(d) / (n epsilon)."""
    root = math.sqrt(whole(dimension, "dimension"))
    return real(lipschitz, "lipschitz") * root / (whole(size, "size") * real(epsilon, "epsilon"))
