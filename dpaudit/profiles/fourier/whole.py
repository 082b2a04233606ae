"""Sampled noise on the whole numbers: one factor of a product of closed transforms, listed.

With Q(k) proportional to exp(-k^2 / (2 v)), P(k) = Q(k - m) and R = 1 - q + q P / Q,
    M(s) = sum_k Q(k) R(k)^(1 + s),    L = log R under Q R;
    M(s) = sum_k Q(k) R(k)^(-s),       L = -log R under Q (``added``).
Outcomes above ``cap`` and below ``floor``, part of both distributions, are left out, as those of
sampled normal noise are (:mod:`dpaudit.profiles.fourier.sampled`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from dpaudit.grids.discrete import Reals
from dpaudit.grids.noise import mixed_losses, theta
from dpaudit.pairs.discrete_normal import FLOAT_DEVIATIONS

NEGLIGIBLE = 1e-305  # Mass beyond ``FLOAT_DEVIATIONS`` standard deviations and two.
# Nats: largest exponent of the masses within, whose rounding errors add up.
LARGEST_EXPONENT = 750.0
# So many outcomes: more are near enough to a normal law for a grid.
MOST_OUTCOMES = 4000
LOWEST_SHARE = 1e-6  # Share of the mass left out that lies below the smallest number summed.
LEAST_SHARE = 1e-280  # Masses left out are at least this, because smaller ones underflow.


@dataclass(frozen=True)
class SampledDiscrete:
    """Mixed(DiscreteNormal(variance, shift), rate) or that swapped (``added``), ``times`` times."""

    variance: float
    shift: int
    rate: float
    added: bool
    times: float
    floor: float = -math.inf
    cap: float = math.inf

    @property
    def kinds(self) -> float:
        """How many whole numbers are listed."""
        return 2 * FLOAT_DEVIATIONS * math.sqrt(self.variance) + 5 + self.shift

    @cached_property
    def _every(self) -> tuple[Reals, Reals, Reals]:
        """The whole numbers, their masses under the first law, and log P / Q."""
        reach = math.ceil(FLOAT_DEVIATIONS * math.sqrt(self.variance)) + 2
        k = np.arange(-reach, reach + self.shift + 1.0)
        total, double = theta(self.variance), 2 * self.variance
        plain, moved = (np.exp(-((k - m) ** 2) / double) / total for m in (0, self.shift))
        mass = plain if self.added else (1 - self.rate) * plain + self.rate * moved
        return k, mass, self.shift * (2 * k - self.shift) / double

    @cached_property
    def outcomes(self) -> tuple[Reals, Reals]:
        """Masses and losses."""
        k, mass, exponents = self._every
        inside = (k >= self.floor) & (k <= self.cap) & (mass > 0)
        losses = mixed_losses(exponents[inside], self.rate)
        return mass[inside], -losses if self.added else losses

    @cached_property
    def roundings(self) -> tuple[float, float]:
        """Units that the sum of masses is off by, and losses, each relative to the largest.

        log R moves by (2 + |z|) times the part of its own size that the exponent z is off by where
        R > 1; and by that part of |1 - 1 / R| <= q / (1 - q) below, where 1 - q in floats is off by
        1 / (1 - q) units.
        """
        k, _, exponents = self._every
        inside = exponents[(k >= self.floor) & (k <= self.cap)]
        near = 1 / (1 - self.rate)
        own = 16 * (8 + 2 * LARGEST_EXPONENT) + len(inside) + 2 * near
        largest = float(np.abs(self.outcomes[1]).max())
        return own, 16 * (3 + float(np.abs(inside).max())) + 32 * self.rate * near / largest

    def kept(self, log_mass: float) -> SampledDiscrete:
        """Outcomes from a floor to a cap alone; the others have mass exp(log_mass) at most."""
        share = math.exp(log_mass) / (2 * self.times)
        if share < LEAST_SHARE:
            return self
        k, mass, _ = self._every
        above, below = np.cumsum(mass[::-1])[::-1], np.cumsum(mass)
        cap = k[max(int(np.searchsorted(-above, -share)) - 1, 0)]
        floor = k[min(int(np.searchsorted(below, share * LOWEST_SHARE)), len(k) - 1)]
        return replace(self, floor=float(floor), cap=float(cap))

    @property
    def beyond(self) -> float:
        """Mass, under the first law, of an outcome that is left out in some round, at most."""
        k, mass, _ = self._every
        own = float(mass[(k < self.floor) | (k > self.cap)].sum())
        return self.times * (own * (1 + 1e-9) + NEGLIGIBLE)
