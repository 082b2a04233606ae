"""The kernel of a stable release: a score against a secret threshold, then Gaussian noise.

A query's value is (score, vector), shape (trials, 1 + d); what is released is the vector with
noise where the threshold is at least the score, and bottom (NaN in every place) elsewhere.
Source: Ghazi, Kamath, Kumar, Manurangsi, Meka, Zhang 2023, Definition 3.4 and Algorithm 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dpaudit.errors import InvalidParameter
from dpaudit.exact import enclose, is_symbolic, unknowns
from dpaudit.families.additive.kernel import GaussianKernel, GridGaussianKernel
from dpaudit.families.stability import Distance, StableRelease
from dpaudit.kernels.base import Generator, Kernel, exact_kernel, kernel, normal_scores
from dpaudit.kernels.digests import is_bottom, tested_residual
from dpaudit.kernels.query import Array
from dpaudit.kernels.random_bits import bits_of
from dpaudit.kernels.samplers import LARGEST_NUMERATOR, laplace_units

Whole = NDArray[np.int64]
LARGEST_KAPPA = 10**6  # levels of a threshold's law, whose masses are listed


@dataclass(frozen=True)
class TruncatedDiscreteLaplaceLaw:
    """R in 0..2 kappa with P(R = r) proportional to exp(-epsilon |r - kappa|).

    Errors: InvalidParameter for an epsilon that is not positive and finite, a kappa that is no
    whole number from 1 to 10^6.
    Source: Ghazi et al. 2023, Definition 3.4.
    """

    epsilon: float
    kappa: int

    def __post_init__(self) -> None:
        if not (math.isfinite(self.epsilon) and self.epsilon > 0):
            raise InvalidParameter(f"threshold: epsilon = {self.epsilon}: expected positive")
        if not (hasattr(self.kappa, "__index__") and 1 <= self.kappa <= LARGEST_KAPPA):
            raise InvalidParameter(f"threshold: kappa = {self.kappa}: expected from 1 to 10^6")

    @cached_property
    def log_masses(self) -> Array:
        """log P(R = r) for r = 0, ..., 2 kappa."""
        shape = -self.epsilon * np.abs(np.arange(2 * self.kappa + 1) - self.kappa)
        return np.asarray(shape - np.logaddexp.reduce(shape))

    @cached_property
    def log_bottoms(self) -> Array:
        """log P(R < s) for s = 0, ..., 2 kappa + 1; the first is -infinity, the last 0."""
        summed = np.logaddexp.accumulate(self.log_masses)
        return np.concatenate([[-np.inf], summed[:-1], [0.0]])

    @cached_property
    def log_passes(self) -> Array:
        """log P(R >= s) for s = 0, ..., 2 kappa + 1; the law is symmetric around kappa."""
        return np.asarray(self.log_bottoms[::-1])

    def sample(self, count: int, rng: Generator) -> Whole:
        """Draws, shape (count,), by inversion in floating point."""
        levels = np.exp(self.log_bottoms[1:-1])
        return np.searchsorted(levels, rng.random(count), side="right").astype(np.int64)

    def levels(self, scores: Array) -> Whole:
        """Scores as places in the tables; what is no whole number, or above, never passes."""
        never = 2 * self.kappa + 1
        valid = (scores >= 0) & (scores == np.floor(scores)) & (scores <= never)
        return np.where(valid, scores, never).astype(np.int64)


@kernel(StableRelease)
class StableReleaseKernel(Kernel):
    """vector + N(0, scale^2 I) with probability P(R >= score), else bottom; exact densities.

    A residual has one column more than the vector, for the outcome of the test.
    """

    law_type: ClassVar[type[TruncatedDiscreteLaplaceLaw]] = TruncatedDiscreteLaplaceLaw

    def __init__(self, leaf: Any, trials: int) -> None:
        super().__init__(leaf, trials)
        if unknowns(leaf.epsilon) or is_symbolic(leaf.kappa):
            raise InvalidParameter(f"{leaf.head}: bind its symbols to numbers before a run")
        self._law = self.law_type(float(enclose(leaf.epsilon).mid()), int(leaf.kappa))
        self._noise = GaussianKernel(leaf, trials)

    def admit(self, scale: Array, dimension: int) -> None:
        """Errors: InvalidParameter for a value without a score or without a vector."""
        if dimension < 2:
            raise InvalidParameter(
                f"release {self.leaf.label!r}: expected (score, vector), one score and at least "
                f"one coordinate, not {dimension} in all"
            )

    def centre(self, values: Array) -> Array:
        """The vector."""
        return values[:, 1:]

    def thresholds(self, rng: Generator) -> Whole:
        """The secret thresholds, shape (trials,)."""
        return self._law.sample(self.trials, rng)

    def sample(self, values: Array, scale: Array, rng: Generator) -> Array:
        passed = self.thresholds(rng) >= self._law.levels(values[:, 0])
        noisy = self._noise.sample(values[:, 1:], scale, rng)
        return np.where(passed[:, None], noisy, np.nan)

    def log_density(self, released: Array, values: Array, scale: Array) -> Array:
        levels, bottom = self._law.levels(values[:, 0]), is_bottom(released)
        shown = np.where(bottom[:, None], values[:, 1:], released)
        density = self._noise.log_density(shown, values[:, 1:], scale)
        passing = self._law.log_passes[levels] + density
        return np.where(bottom, self._law.log_bottoms[levels], passing)

    def away(self, values: Array, others: Array, shift: Array) -> Array:
        """The score moves to a whole number that the law knows, the vector as of Gaussian noise."""
        moved = super().away(values, others, shift)
        moved[:, 0] = np.clip(np.rint(moved[:, 0]), 0, 2 * self._law.kappa + 1)
        return moved

    def residual(self, released: Array, values: Array, scale: Array) -> Array:
        """A column for the threshold, then the vector's noise: see :func:`tested_residual`."""
        shown = np.where(is_bottom(released)[:, None], values[:, 1:], released)
        noise = normal_scores(shown, values[:, 1:], scale, self.uniforms)
        failing = self._law.log_bottoms[self._law.levels(values[:, 0])]
        return tested_residual(released, failing, noise, self.uniforms)

    def apart(self, values: Array, others: Array, stated: Array) -> Array:
        """The score moves by at most 1; the vector by so many ``stated`` units, if it may pass.

        Scores s and t: s + t + 2 units (path) or 2 (diameter).
        """
        scores, last = np.stack([values[:, 0], others[:, 0]]), 2 * self._law.kappa
        moved = np.abs(scores[0] - scores[1]) * stated
        units = scores.sum(axis=0) + 2 if self.leaf.distance == Distance.PATH else 2.0
        distance = np.linalg.norm(values[:, 1:] - others[:, 1:], axis=-1) / units
        return np.asarray(np.where((scores > last).any(axis=0), moved, np.maximum(moved, distance)))


@exact_kernel(StableRelease)
class GridStableReleaseKernel(StableReleaseKernel):
    """Thresholds drawn exactly, noise on a grid: no outcome leaks low bits.

    Errors: InvalidParameter for an epsilon that is no fraction of whole numbers up to 2^52.
    Source: Canonne, Kamath and Steinke 2020, Algorithm 2, within 0..2 kappa by rejection.
    """

    arithmetic: ClassVar[str] = "exact"

    def __init__(self, leaf: Any, trials: int) -> None:
        super().__init__(leaf, trials)
        self._noise = GridGaussianKernel(leaf, trials)
        epsilon = leaf.epsilon
        if not isinstance(epsilon, Fraction) or max(epsilon.as_integer_ratio()) > LARGEST_NUMERATOR:
            raise InvalidParameter(
                f"{leaf.head}: an exact draw needs an epsilon of fewer digits, a fraction"
            )
        self._scale = 1 / epsilon

    def admit(self, scale: Array, dimension: int) -> None:
        super().admit(scale, dimension)
        self._noise.admit(scale, dimension - 1)

    def thresholds(self, rng: Generator) -> Whole:
        drawn_thresholds = np.zeros(self.trials, dtype=np.int64)
        undrawn = np.arange(self.trials)
        while undrawn.size:
            scales = np.full(undrawn.size, self._scale.numerator, dtype=np.int64)
            drawn = laplace_units(scales, self._scale.denominator, bits_of(rng))
            drawn_thresholds[undrawn] = drawn + self._law.kappa
            undrawn = undrawn[np.abs(drawn) > self._law.kappa]
        return drawn_thresholds
