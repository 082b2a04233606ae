"""The KL and growth conditions, how one gives the other, and a numerical check of either.

Neither is ever needed for privacy: they are what the schedules and the utility bounds rest on.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dpaudit.errors import InvalidParameter
from dpaudit.kernels.query import Array
from mechanisms.papers.srgd.problem import real

SLACK = 1e-9


@dataclass(frozen=True)
class KLCondition:
    """F(w) - min F <= gamma^kappa ||grad F(w)||^kappa, kappa in [1, 2] or above; PL is kappa = 2.

    Errors: InvalidParameter unless gamma > 0 and kappa >= 1 are finite.
    Source: Menart et al. 2023, Definition 1.
    """

    gamma: float
    kappa: float

    def __post_init__(self) -> None:
        real(self.gamma, "KLCondition.gamma")
        if real(self.kappa, "KLCondition.kappa") < 1:
            raise InvalidParameter(f"KLCondition.kappa = {self.kappa}: expected at least 1")

    @classmethod
    def of_pl(cls, mu: float) -> KLCondition:
        """From ||grad F||^2 / 2 >= mu (F - min F): gamma = 1 / sqrt(2 mu), kappa = 2."""
        return cls(1 / math.sqrt(2 * real(mu, "KLCondition.of_pl: mu")), 2.0)

    @property
    def growth_exponent(self) -> float:
        """tau = kappa / (kappa - 1); errors: InvalidParameter at kappa = 1, where there is none."""
        if self.kappa == 1:
            raise InvalidParameter("kappa = 1 has no growth exponent kappa / (kappa - 1)")
        return self.kappa / (self.kappa - 1)

    def excess_upper(self, gradient_norm: Array | float) -> Array:
        """(gamma g)^kappa: how far above the minimum a point with that gradient norm can be."""
        return np.asarray((self.gamma * np.asarray(gradient_norm, dtype=np.float64)) ** self.kappa)

    def starting_gap_upper(self, lipschitz: float) -> float:
        """(gamma L0)^kappa, an admissible F0 whatever the data are."""
        return float((self.gamma * real(lipschitz, "lipschitz")) ** self.kappa)

    def admitted_gap(self, starting_gap: float, lipschitz: float, place: str) -> float:
        """F0, checked against (gamma L0)^kappa, which always holds.

        Errors: InvalidParameter for one that is not positive, or above that bound.
        """
        gap, most = real(starting_gap, place), self.starting_gap_upper(lipschitz)
        if gap > most * (1 + SLACK):
            raise InvalidParameter(
                f"{place} = {starting_gap}: above (gamma L0)^kappa = {most:.6g}, which holds "
                "whatever the data are; give at most that"
            )
        return min(gap, most)

    def radius(self, starting_gap: float) -> float:
        """A ball of this radius around the start holds a minimiser: kappa > 1.

        kappa / (kappa - 1) gamma F0^((kappa - 1) / kappa).
        Source: Menart et al. 2023, Remark 1.
        """
        gap = real(starting_gap, "starting_gap")
        return float(self.growth_exponent * self.gamma * gap ** (1 / self.growth_exponent))


@dataclass(frozen=True)
class GrowthCondition:
    """F(w) - min F >= (lam dist(w, argmin F))^tau, tau > 1.

    Errors: InvalidParameter unless lam > 0 and tau > 1 are finite.
    """

    lam: float
    tau: float

    def __post_init__(self) -> None:
        real(self.lam, "GrowthCondition.lam")
        if real(self.tau, "GrowthCondition.tau") <= 1:
            raise InvalidParameter(f"GrowthCondition.tau = {self.tau}: expected above 1")

    def excess_lower(self, distance: Array | float) -> Array:
        """(lam dist)^tau."""
        return np.asarray((self.lam * np.asarray(distance, dtype=np.float64)) ** self.tau)


def kl_to_growth(condition: KLCondition) -> GrowthCondition:
    """lam = (kappa - 1) / (kappa gamma), tau = kappa / (kappa - 1): any KL function, kappa > 1.

    Errors: InvalidParameter at kappa = 1.
    Source: Menart et al. 2023, Lemma 7.
    """
    tau = condition.growth_exponent
    return GrowthCondition(1 / (tau * condition.gamma), tau)


def growth_to_kl(condition: GrowthCondition) -> KLCondition:
    """gamma = 1 / lam, kappa = tau / (tau - 1): *convex* functions only.

    Source: Menart et al. 2023, Lemma 6.
    """
    return KLCondition(1 / condition.lam, condition.tau / (condition.tau - 1))


@dataclass(frozen=True)
class Checked:
    """Whether a condition held at all points tried, and the point that came closest to break it.

    ``worst``: the largest ratio of the two sides, at most 1 where the condition holds.
    """

    held: bool
    worst: float
    point: tuple[float, ...]


def check_kl(
    condition: KLCondition,
    value: Callable[[Array], Array],
    gradient: Callable[[Array], Array],
    minimum: float,
    points: Array,
) -> Checked:
    """Try F - min F <= (gamma ||grad F||)^kappa at points (m, d): refutes it, never proves it.

    ``value(points) -> (m,)``, ``gradient(points) -> (m, d)``.
    Errors: InvalidParameter for no point, or one that is not finite.
    """
    tried = _points(points)
    excess = np.asarray(value(tried), dtype=np.float64) - minimum
    norms = np.linalg.norm(np.asarray(gradient(tried), dtype=np.float64), axis=-1)
    return _worst(excess, condition.excess_upper(norms), tried)


def check_growth(
    condition: GrowthCondition,
    value: Callable[[Array], Array],
    distance: Callable[[Array], Array],
    minimum: float,
    points: Array,
) -> Checked:
    """Try (lam dist)^tau <= F - min F at points (m, d): refutes it, never proves it.

    ``distance(points) -> (m,)``: to the set of minimisers.
    Errors: as :func:`check_kl`.
    """
    tried = _points(points)
    excess = np.asarray(value(tried), dtype=np.float64) - minimum
    return _worst(condition.excess_lower(distance(tried)), excess, tried)


def _points(points: Array) -> Array:
    tried = np.asarray(points, dtype=np.float64)
    if tried.ndim != 2 or tried.size == 0 or not np.isfinite(tried).all():
        raise InvalidParameter(f"points of shape {tried.shape}: expected finite numbers, (m, d)")
    return tried


def _worst(left: Array, right: Array, points: Array) -> Checked:
    """left <= right, up to rounding; 0 <= 0 holds."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.where(left <= 0, 0.0, left / right)
    ratios = np.where(np.isnan(ratios), np.inf, ratios)
    worst = int(np.argmax(ratios))
    found = float(ratios[worst])
    return Checked(found <= 1 + SLACK, found, tuple(map(float, points[worst])))
