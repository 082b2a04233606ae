"""Independent factors on one grid, and their exponentially tilted sums.

For a factor with masses p_n at losses n h:  M(t) = sum p_n exp(t n h), and over all factors, each
``times`` often, K(t) = sum times * log M(t), so that  P(loss >= y) <= exp(K(t) - t y)  for t >= 0
(finite losses only), and likewise below for t <= 0 (Chernoff).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dpaudit.curves.cells import UNIT
from dpaudit.curves.discrete import Discrete, Floats, Side

Integers = NDArray[np.int64]
LARGEST_EXPONENT = 600.0


@dataclass(frozen=True)
class Tilted:
    """Each factor's masses times exp(tilt * loss), divided by M(tilt); log M(tilt) per factor."""

    tilt: float
    masses: Floats
    logs: Floats
    relative: float


@dataclass(frozen=True)
class Stack:
    """Factors of one side on one grid, each with how often it occurs."""

    factors: tuple[tuple[Discrete, int], ...]
    side: Side

    @property
    def step(self) -> Fraction:
        return self.factors[0][0].step

    @cached_property
    def width(self) -> float:
        return float(self.step)

    @cached_property
    def times(self) -> Floats:
        return np.array([float(times) for _, times in self.factors])

    @cached_property
    def total(self) -> float:
        """Number of factors, repeats counted."""
        return float(np.sum(self.times))

    @cached_property
    def starts(self) -> Integers:
        sizes = [len(d.masses) for d, _ in self.factors]
        return np.concatenate(([0], np.cumsum(sizes[:-1]))).astype(np.int64)

    @cached_property
    def sizes(self) -> Integers:
        return np.array([len(d.masses) for d, _ in self.factors], dtype=np.int64)

    @cached_property
    def masses(self) -> Floats:
        return np.concatenate([d.masses for d, _ in self.factors])

    @cached_property
    def indices(self) -> Integers:
        return np.concatenate([d.first + np.arange(len(d.masses)) for d, _ in self.factors])

    @cached_property
    def losses(self) -> Floats:
        return self.indices * self.width

    @cached_property
    def _log_masses(self) -> Floats:
        with np.errstate(divide="ignore"):
            return np.log(self.masses)

    @cached_property
    def infinite(self) -> float:
        """P mass of the composition at infinite loss: some factor's loss is infinite."""
        logs = math.fsum(
            times * _log_total(d.masses.sum() + d.infinite) for d, times in self.factors
        )
        finite = math.fsum(times * _log1p(d) for d, times in self.factors if d.infinite)
        return -math.expm1(finite) * math.exp(min(logs, LARGEST_EXPONENT))

    @cached_property
    def relative(self) -> float:
        """Relative error that the factors state, over the whole composition."""
        return math.expm1(
            min(math.fsum(2 * d.relative * times for d, times in self.factors), LARGEST_EXPONENT)
        )

    @cached_property
    def slack(self) -> float:
        """What rounding may change in K(t): sums of n terms err by n roundings at most."""
        return self.total * UNIT * (4.0 * float(np.max(self.sizes)) + 2000)

    def _exponents(self, tilt: float) -> tuple[Floats, Floats]:
        """Terms p exp(tilt * loss) scaled by exp(-peak) per factor, and the peaks."""
        reach = abs(tilt) * float(np.max(np.abs(self.losses)))
        if reach < LARGEST_EXPONENT:
            return self.masses * np.exp(tilt * self.losses), np.zeros(len(self.factors))
        logs = self._log_masses + tilt * self.losses
        peaks = np.maximum.reduceat(logs, self.starts)
        peaks = np.where(np.isfinite(peaks), peaks, 0.0)
        return np.exp(logs - np.repeat(peaks, self.sizes)), peaks

    def cumulant(self, tilt: float) -> float:
        """K(tilt)."""
        terms, peaks = self._exponents(tilt)
        with np.errstate(divide="ignore"):
            logs = np.log(np.add.reduceat(terms, self.starts)) + peaks
        return float(np.sum(self.times * logs))

    def tilted(self, tilt: float) -> Tilted:
        """Masses tilted and normalised, each within the stated relative error."""
        terms, peaks = self._exponents(tilt)
        sums = np.add.reduceat(terms, self.starts)
        reach = abs(tilt) * float(np.max(np.abs(self.losses)))
        error = 2 * UNIT * (8 + reach + (800 if reach >= LARGEST_EXPONENT else 0))
        masses = terms / np.repeat(sums, self.sizes)
        return Tilted(tilt, masses, np.log(sums) + peaks, error)

    def moments(self, tilted: Tilted) -> tuple[Floats, Floats]:
        """Mean and variance of the loss of every factor under the tilted masses."""
        mean = np.add.reduceat(tilted.masses * self.losses, self.starts)
        centred = self.losses - np.repeat(mean, self.sizes)
        return mean, np.add.reduceat(tilted.masses * centred**2, self.starts)


def _log_total(total: float) -> float:
    return math.log(total) if total > 0 else -math.inf


def _log1p(discrete: Discrete) -> float:
    finite = float(discrete.masses.sum())
    whole = finite + discrete.infinite
    return math.log1p(-discrete.infinite / whole) if finite > 0 else -math.inf
