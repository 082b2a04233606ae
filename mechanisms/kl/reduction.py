"""From a solver under growth to a solver without: the reduction behind the growth lower bound.

A proof's device rather than an algorithm for data: schedule and regulariser, no program.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpaudit.errors import InvalidParameter
from dpaudit.query import Array
from mechanisms.srgd.problem import real

LARGEST_STAGES = 10_000


@dataclass(frozen=True)
class Stage:
    """One call: F + lam^tau 2^(tau - 2) ||w - w_{i-1}||^tau on a ball around w_{i-1}.

    ``share`` of epsilon and of delta.
    """

    lam: float
    radius: float
    share: float


@dataclass(frozen=True)
class GrowthReduction:
    """Stages i = 1..k, lam_i = 2^(-i (tau-1)/tau) lam, each with epsilon / k and delta / k.

    lam = 4^((tau-1)^2/tau^2) (Delta tau / (D^tau (tau-1)))^((tau-1)/tau^2), radius_i =
    (L0 / (2 tau lam_i^tau 2^(tau-2)))^(1/(tau-1)), k the least whole number above
    log2(tau^(1/(tau-1)) L0^(tau/(tau-1)) / (2^(2 tau - 3) Delta)), at least 1.
    ``error`` is Delta: to be taken as (L0 sqrt(d) / (n epsilon))^(tau/(tau-1)), which the print
    gives without the exponent; the logarithm's base, which it does not state, is read as 2.
    Errors: InvalidParameter for numbers that are not positive, tau at most 1, too many stages.
    Source: Menart et al. 2023, Theorem 6.
    """

    tau: float
    error: float
    diameter: float
    lipschitz: float

    def __post_init__(self) -> None:
        for name in ("tau", "error", "diameter", "lipschitz"):
            real(getattr(self, name), f"GrowthReduction.{name}")
        if self.tau <= 1:
            raise InvalidParameter(f"GrowthReduction.tau = {self.tau}: expected above 1")
        if self.count > LARGEST_STAGES:
            raise InvalidParameter(f"GrowthReduction.error = {self.error}: {self.count} stages")

    @property
    def count(self) -> int:
        """k."""
        exponent = self.tau / (self.tau - 1)
        top = math.log2(self.tau) / (self.tau - 1) + exponent * math.log2(self.lipschitz)
        return max(1, math.floor(top - (2 * self.tau - 3) - math.log2(self.error)) + 1)

    @property
    def lam(self) -> float:
        """lam before the first stage."""
        power = (self.tau - 1) / self.tau
        base = self.error * self.tau / (self.diameter**self.tau * (self.tau - 1))
        return float(4 ** (power**2) * base ** (power / self.tau))

    @property
    def stages(self) -> tuple[Stage, ...]:
        """All stages in order."""
        power = (self.tau - 1) / self.tau
        lams = [self.lam * 2 ** (-i * power) for i in range(1, self.count + 1)]
        return tuple(Stage(lam, self._radius(lam), 1 / self.count) for lam in lams)

    def _radius(self, lam: float) -> float:
        slope = 2 * self.tau * lam**self.tau * 2 ** (self.tau - 2)
        return float((self.lipschitz / slope) ** (1 / (self.tau - 1)))

    def regulariser(self, stage: Stage, away: Array) -> Array:
        """lam^tau 2^(tau-2) ||away||^tau at w - w_{i-1} = ``away`` (m, d)."""
        norms = np.linalg.norm(np.asarray(away, dtype=np.float64), axis=-1)
        return np.asarray(stage.lam**self.tau * 2 ** (self.tau - 2) * norms**self.tau)

    def regulariser_gradient(self, stage: Stage, away: Array) -> Array:
        """Its gradient, (m, d)."""
        rows = np.asarray(away, dtype=np.float64)
        norms = np.linalg.norm(rows, axis=-1, keepdims=True)
        slope = stage.lam**self.tau * 2 ** (self.tau - 2) * self.tau
        safe = np.where(norms > 0, norms, 1.0)
        return np.asarray(slope * np.where(norms > 0, norms ** (self.tau - 1), 0.0) * rows / safe)
