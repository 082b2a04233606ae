"""Rates and gradient counts as the paper prints them, log factors and constants left out.

None of them enters a guarantee of privacy.
Source: Lowy, Liu, Asi 2024, Figure 1 and Theorems 2.1, 3.1, 3.2, 4.1.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from dpaudit.errors import InvalidParameter
from mechanisms.papers.user_level.problem import positive


@dataclass(frozen=True)
class Sizes:
    """n users of m items, d parameters, smoothness beta, L, R and epsilon."""

    users: float
    items: float
    dimension: float
    smoothness: float = 1.0
    lipschitz: float = 1.0
    diameter: float = 1.0
    epsilon: float = 1.0

    def __post_init__(self) -> None:
        for name in self.__dataclass_fields__:
            positive(getattr(self, name), name)

    @property
    def samples(self) -> float:
        """n m."""
        return self.users * self.items

    @property
    def condition(self) -> float:
        """beta R / L."""
        return self.smoothness * self.diameter / self.lipschitz


def _accelerated(s: Sizes) -> float:
    n, m, d, e = s.users, s.items, s.dimension, s.epsilon
    least = min((n * m) ** 0.125, (e**2 * n**2 * m / d) ** 0.125)
    first = n * m * (1 + e * s.condition**0.25 * least)
    small = n**0.25 * m**1.25 / e + n**0.5 * m**1.25 / (d**0.25 * e**0.5)
    return float(first + math.sqrt(s.condition) * small)


def _smoothed(s: Sizes) -> float:
    grown = 1 + s.users ** (3 / 8) * s.items**0.25 * s.epsilon**0.25
    return float(s.samples * grown)


GRADIENTS: dict[str, Callable[[Sizes], float]] = {
    "user_level_phased_sgd": lambda s: s.samples,
    "user_level_phased_erm": _accelerated,
    "smoothed_user_level_phased_erm": _smoothed,
    "full_batch_outlier_removed_dpsgd": lambda s: s.condition * s.samples**1.5,
    "full_batch_outlier_removed_dpsgd_nonsmooth": lambda s: s.samples**3,
    "winsorized_mean_dpsgd": lambda s: s.items * s.users**1.5,
    "user_level_ldp_sgd": lambda s: s.samples,
    "user_level_phased_sgd_baseline": lambda s: s.samples,
}


def _noise(sizes: Sizes, items: float) -> float:
    return math.sqrt(sizes.dimension) / (sizes.epsilon * sizes.users * math.sqrt(items))


# Algorithm 1: as its prescribed step size gives it; printed with epsilon outside of the root.
RISKS: dict[str, Callable[[Sizes], float]] = {
    "user_level_phased_sgd": lambda s: (
        1 / math.sqrt(s.samples) + math.sqrt(s.dimension / (s.samples * s.epsilon))
    ),
    "user_level_phased_erm": lambda s: 1 / math.sqrt(s.samples) + _noise(s, s.items),
    "smoothed_user_level_phased_erm": lambda s: 1 / math.sqrt(s.samples) + _noise(s, s.items),
    "user_level_phased_sgd_baseline": lambda s: 1 / math.sqrt(s.samples) + _noise(s, 1.0),
}


def gradient_complexity(method: str, sizes: Sizes) -> float:
    """Gradients of one item, as Figure 1 and Theorems 3.2 and 4.1 print them.

    Errors: InvalidParameter for a method that has no formula.
    """
    return _of(GRADIENTS, method)(sizes)


def excess_risk_bound(method: str, sizes: Sizes) -> float:
    """L R times the printed rate.  Errors: as :func:`gradient_complexity`."""
    return sizes.lipschitz * sizes.diameter * _of(RISKS, method)(sizes)


def _of(table: dict[str, Callable[[Sizes], float]], method: str) -> Callable[[Sizes], float]:
    if method not in table:
        raise InvalidParameter(f"method = {method!r}: expected one of {', '.join(sorted(table))}")
    return table[method]
