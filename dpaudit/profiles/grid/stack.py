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

from dpaudit.grids.cells import UNIT
from dpaudit.grids.discrete import Discrete, Reals, Side

Integers = NDArray[np.int64]
LARGEST_EXPONENT = 600.0  # exponents stay within those of floats
OUTLINE_BLOCKS = 1024  # Blocks of cells in the coarse outline of a factor.


@dataclass(frozen=True)
class Tilted:
    """Each factor's masses times exp(tilt * loss), divided by M(tilt); log M(tilt) per factor."""

    tilt: float
    masses: Reals
    logs: Reals
    relative: float


@dataclass(frozen=True)
class Sums:
    """Masses and losses of several factors in one array; where each begins, how often it occurs."""

    masses: Reals
    losses: Reals
    starts: Integers
    sizes: Integers
    times: Reals

    @cached_property
    def _log_masses(self) -> Reals:
        with np.errstate(divide="ignore"):
            return np.log(self.masses)

    @cached_property
    def farthest(self) -> float:
        return float(np.max(np.abs(self.losses)))

    def terms(self, tilt: float) -> tuple[Reals, Reals]:
        """Terms p exp(tilt * loss) scaled by exp(-peak) per factor, and the peaks."""
        if abs(tilt) * self.farthest < LARGEST_EXPONENT:
            # In place: each of these arrays is as long as all factors together.
            terms = tilt * self.losses
            np.exp(terms, out=terms)
            terms *= self.masses
            return terms, np.zeros(len(self.times))
        logs = self._log_masses + tilt * self.losses
        peaks = np.maximum.reduceat(logs, self.starts)
        peaks = np.where(np.isfinite(peaks), peaks, 0.0)
        return np.exp(logs - np.repeat(peaks, self.sizes)), peaks

    def cumulant(self, tilt: float) -> float:
        """K(tilt)."""
        terms, peaks = self.terms(tilt)
        with np.errstate(divide="ignore"):
            logs = np.log(np.add.reduceat(terms, self.starts)) + peaks
        return float(np.sum(self.times * logs))

    def blocked(self, block: int) -> Sums:
        """Neighbours put together at their mean loss: about the same, and shorter."""
        counts = -(-self.sizes // block)
        starts = np.concatenate(([0], np.cumsum(counts)[:-1])).astype(np.int64)
        within = np.arange(int(counts.sum())) - np.repeat(starts, counts)
        at = np.repeat(self.starts, counts) + within * block
        masses = np.add.reduceat(self.masses, at)
        first = np.add.reduceat(self.masses * self.losses, at)
        losses = np.where(masses > 0, first / np.where(masses > 0, masses, 1.0), self.losses[at])
        return Sums(masses, losses, starts, counts, self.times)


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
    def times(self) -> Reals:
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
    def masses(self) -> Reals:
        return np.concatenate([d.masses for d, _ in self.factors])

    @property
    def indices(self) -> Integers:
        return np.concatenate([d.first + np.arange(len(d.masses)) for d, _ in self.factors])

    @cached_property
    def losses(self) -> Reals:
        return self.indices * self.width

    @cached_property
    def sums(self) -> Sums:
        return Sums(self.masses, self.losses, self.starts, self.sizes, self.times)

    @cached_property
    def outline(self) -> Sums:
        """About the same sums from fewer terms: good enough to choose a tilt."""
        return self.sums.blocked(max(int(self.sizes.max()) // OUTLINE_BLOCKS, 1))

    def release(self) -> None:
        """Forget arrays as long as all factors together; they are made again where asked for."""
        for name in ("masses", "losses", "sums", "outline"):
            self.__dict__.pop(name, None)

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
        """The rounding error of K(t): sums of n terms err by n roundings at most."""
        return self.total * UNIT * (4.0 * float(np.max(self.sizes)) + 2000)

    def cumulant(self, tilt: float) -> float:
        """K(tilt)."""
        return self.sums.cumulant(tilt)

    def tilted(self, tilt: float) -> Tilted:
        """Masses tilted and normalised, each within the stated relative error."""
        terms, peaks = self.sums.terms(tilt)
        sums = np.add.reduceat(terms, self.starts)
        reach = abs(tilt) * self.sums.farthest
        error = 2 * UNIT * (8 + reach + (800 if reach >= LARGEST_EXPONENT else 0))
        terms /= np.repeat(sums, self.sizes)
        return Tilted(tilt, terms, np.log(sums) + peaks, error)

    def moments(self, tilted: Tilted) -> tuple[Reals, Reals]:
        """Mean and variance of the loss of every factor under the tilted masses."""
        mean = np.add.reduceat(tilted.masses * self.losses, self.starts)
        squares = self.losses - np.repeat(mean, self.sizes)
        squares *= squares
        squares *= tilted.masses
        return mean, np.add.reduceat(squares, self.starts)


def _log_total(total: float) -> float:
    return math.log(total) if total > 0 else -math.inf


def _log1p(discrete: Discrete) -> float:
    """log of the part of the mass that is at a finite loss."""
    total = float(discrete.masses.sum()) + discrete.infinite
    return math.log1p(-discrete.infinite / total) if discrete.infinite < total else -math.inf
