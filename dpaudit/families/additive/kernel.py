"""Kernels of added noise: in floating point; and exact, discrete or on a grid for real queries.

Gaussian and Laplace noise in floating point is fast, good for audits, and leaks low bits (Mironov
2012); the exact kernels are for a sampler that releases.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from scipy.special import ndtri

from dpaudit.errors import InvalidParameter
from dpaudit.exact import enclose, upper_fraction
from dpaudit.families.additive import Gaussian, Laplace
from dpaudit.families.discrete import DiscreteGaussian, DiscreteLaplace
from dpaudit.kernels.base import (
    SCALE_ROUNDING,
    Generator,
    Kernel,
    exact_kernel,
    exact_match,
    kernel,
    laplace_below,
    normal_scores,
)
from dpaudit.kernels.query import Array, Norm
from dpaudit.kernels.random_bits import Bits, Whole, bits_of
from dpaudit.kernels.samplers import (
    LARGEST_NUMERATOR,
    gaussian_log_mass,
    gaussian_tail,
    gaussian_units,
    laplace_log_mass,
    laplace_tail,
    laplace_units,
)

LARGEST_VALUE = 2.0**52  # whole numbers up to 2^52, and their halves, are floats
GRID_BITS = 32  # bits of a noise's scale that lie on the grid
LARGEST_WHOLE = 2**53  # whole numbers below it are floats


def arithmetic_of(kernel: Any) -> str:
    """How a kernel's draws are made: "exact", or "float64" for one that leaks low bits."""
    return str(getattr(kernel, "arithmetic", "float64"))


@kernel(Gaussian)
class GaussianKernel(Kernel):
    """values + N(0, scale^2 I)."""

    def sample(self, values: Array, scale: Array, rng: Generator) -> Array:
        return values + scale[:, None] * rng.standard_normal(values.shape)

    def log_density(self, released: Array, values: Array, scale: Array) -> Array:
        safe = np.where(scale > 0, scale, 1.0)
        squares = np.square((released - values) / safe[:, None]).sum(-1)
        normaliser = values.shape[-1] * (np.log(safe) + 0.5 * math.log(2 * math.pi))
        return np.where(scale > 0, -0.5 * squares - normaliser, exact_match(released, values))

    def compared(
        self, other: Any, released: Array, values: Array, others: Array, scale: Array
    ) -> tuple[Array, Array]:
        """By sum_i (d_i / 2 - z_i) d_i, z the noise and d the distance, both over the scale."""
        first = self.log_density(released, values, scale)
        safe = np.where(scale > 0, scale, 1.0)[:, None]
        noise, moved = (released - values) / safe, (others - values) / safe
        loss = ((moved / 2 - noise) * moved).sum(-1)
        exact = exact_match(released, values) - exact_match(released, others)
        return first, np.where(scale > 0, loss, exact)

    def residual(self, released: Array, values: Array, scale: Array) -> Array:
        return normal_scores(released, values, scale, self.uniforms)


@kernel(Laplace)
class LaplaceKernel(Kernel):
    """values + i.i.d. Laplace(scale)."""

    norm = "l1"

    def sample(self, values: Array, scale: Array, rng: Generator) -> Array:
        return values + scale[:, None] * rng.laplace(size=values.shape)

    def log_density(self, released: Array, values: Array, scale: Array) -> Array:
        safe = np.where(scale > 0, scale, 1.0)
        distance = np.abs((released - values) / safe[:, None]).sum(-1)
        normaliser = values.shape[-1] * np.log(2 * safe)
        return np.where(scale > 0, -distance - normaliser, exact_match(released, values))

    def sample_away(
        self, values: Array, others: Array, shift: Array, scale: Array, rng: Generator
    ) -> Array:
        safe = np.where(scale > 0, scale, 1.0)[:, None]
        moved = (others - values) / safe
        drawn = TiltedLaplace(np.abs(moved), shift[:, None]).sample(rng)
        return np.where(scale[:, None] > 0, values + safe * np.copysign(1, moved) * drawn, values)

    def log_density_away(
        self, released: Array, values: Array, others: Array, shift: Array, scale: Array
    ) -> Array:
        safe = np.where(scale > 0, scale, 1.0)[:, None]
        moved = (others - values) / safe
        noise = np.copysign(1, moved) * (released - values) / safe
        leaned = TiltedLaplace(np.abs(moved), shift[:, None]).log_ratio(noise).sum(-1)
        density = LaplaceKernel.log_density(self, released, values, scale)
        return np.where(scale > 0, density + leaned, density)

    def residual(self, released: Array, values: Array, scale: Array) -> Array:
        return normal_scores(released, values, scale, self.uniforms, laplace_below)


class TiltedLaplace:
    """Laplace noise p of scale 1, tilted by its privacy loss: p(z) (p(z) / p(z - d))^s, normalised.

    It has three exponential pieces, below 0, in [0, d] and above d.  ``step`` > 0: of whole
    numbers k = z / step instead.  ``distance`` d >= 0 and ``shift`` s >= 0 are arrays.
    """

    def __init__(self, distance: Array, shift: Array, step: float = 0.0) -> None:
        self._distance, self._shift, self._step = distance, shift, step
        self._masses = self._pieces(shift)
        with np.errstate(divide="ignore"):
            self._log_total = np.log(sum(self._masses)) - np.log(sum(self._pieces(0 * shift)))

    def _pieces(self, shift: Array) -> list[Array]:
        """Masses of the pieces, over that of the lowest."""
        rate, distance, step = 1 + 2 * shift, self._distance, self._step
        reached = -np.expm1(-rate * distance)
        if step:
            unit = -math.expm1(-step)
            middle = np.exp(-rate * step) * reached / -np.expm1(-rate * step) * unit
            above = np.exp(-2 * shift * distance - distance - step)
        else:
            middle, above = reached / rate, np.exp(-rate * distance)
        return [np.ones_like(middle), middle, np.broadcast_to(above, middle.shape)]

    def sample(self, rng: Generator) -> Array:
        """Noise over its scale; whole numbers where there is a step."""
        rate, distance = 1 + 2 * self._shift, self._distance
        first, second, _ = self._masses
        piece = rng.random(first.shape) * sum(self._masses)
        outer = rng.standard_exponential(first.shape)
        share = rng.random(first.shape)
        inner = np.minimum(-np.log1p(share * np.expm1(-rate * distance)) / rate, distance)
        if self._step:
            outer = np.floor(outer / self._step)
            last = np.maximum(np.rint(distance / self._step) - 1, 0)
            inner = np.minimum(np.floor(inner / self._step), last) + 1
            distance = np.rint(distance / self._step) + 1
        inside, below = piece < first + second, piece < first
        return np.where(below, -outer, np.where(inside, inner, distance + outer))

    def log_ratio(self, noise: Array) -> Array:
        """Log density over that of Laplace noise, at noise over its scale (no whole numbers)."""
        loss = np.clip(noise, 0.0, self._distance)
        return np.asarray(-2 * self._shift * loss - self._log_total)


class DiscreteKernel(Kernel):
    """Whole-numbered noise of the leaf's own scale, however small the query's sensitivity.

    One whole number a trial, or a vector where the noise is declared for one; other numbers are
    rounded half up.  One number then moves by no more than a whole sensitivity.  A vector may move
    further than before, so that distances are taken after rounding.  Values are cut to +-2^52, NaN
    counts as 0.
    """

    continuous = False
    rounds = True
    vectors: ClassVar[bool] = False
    arithmetic: ClassVar[str] = "exact"

    @abstractmethod
    def draw(self, count: int, bits: Bits) -> Whole:
        """Noise, shape (count,)."""

    @abstractmethod
    def log_mass(self, k: Array) -> Array:
        """Log mass of the noise."""

    @abstractmethod
    def tail(self, k: Array) -> Array:
        """P[noise >= k], k >= 1."""

    def admit(self, scale: Array, dimension: int) -> None:
        """Errors: InvalidParameter for a vector, or a sensitivity above the leaf's."""
        name = type(self.leaf).__name__
        if dimension != 1 and not self.vectors:
            raise InvalidParameter(
                f"{name}: noise for one whole number, not for a vector of {dimension}; release "
                "them one by one"
            )
        if (scale > self.own_scale(self.leaf) * SCALE_ROUNDING).any():
            raise InvalidParameter(f"{name}: the query's sensitivity is above the leaf's")

    def apart(self, values: Array, others: Array, stated: Array) -> Array:
        """As of other noise, between the whole numbers that the noise is added to.

        Rounding is no contraction: of a vector each entry can cross a half at once.
        """
        return super().apart(rounded(values), rounded(others), stated)

    def sample(self, values: Array, scale: Array, rng: Generator) -> Array:
        integers = _whole(self._checked(values, scale)).astype(np.int64)
        noise = self.draw(integers.size, bits_of(rng)).reshape(integers.shape)
        return (integers + np.where(scale[:, None] > 0, noise, 0)).astype(np.float64)

    def log_density(self, released: Array, values: Array, scale: Array) -> Array:
        moved = self._moved(released, values, scale)
        integer_moves = np.where(np.isfinite(moved) & (moved == np.rint(moved)), moved, 0.0)
        at_zero = np.where(integer_moves == 0, 0.0, -np.inf)
        mass = np.where(scale[:, None] > 0, self.log_mass(integer_moves), at_zero)
        return np.asarray(np.where(integer_moves == moved, mass, -np.inf).sum(axis=-1))

    def away(self, values: Array, others: Array, shift: Array) -> Array:
        """As of other noise, by a whole number."""
        first = _whole(values)
        return np.asarray(first - np.rint(shift[:, None] * (_whole(others) - first)))

    def residual(self, released: Array, values: Array, scale: Array) -> Array:
        moved = self._moved(released, values, scale)
        size = np.abs(np.where(np.isfinite(moved), moved, 0.0))
        share = self.uniforms(*released.shape)
        mass = np.exp(self.log_mass(size))
        outer = np.where(size > 0, self.tail(np.maximum(size, 1)) - share * mass, share * mass)
        outer = np.where(size > 0, outer, self.tail(np.ones_like(size)) + outer)
        sided = np.where(moved < 0, 1.0, -1.0) * ndtri(np.clip(outer, 1e-300, 1.0))
        return np.where(scale[:, None] > 0, sided, np.nan)

    def _moved(self, released: Array, values: Array, scale: Array) -> Array:
        difference: Array = released - _whole(self._checked(values, scale))
        return difference

    def _checked(self, values: Array, scale: Array) -> Array:
        self.admit(scale, values.shape[-1])
        return values

    @classmethod
    def multiplier(cls, leaf: Any) -> float:
        return cls.own_scale(leaf) / float(enclose(leaf.sensitivity).mid())

    @staticmethod
    @abstractmethod
    def own_scale(leaf: Any) -> float:
        """Scale of the noise, as a float."""


def _whole(values: Array) -> Array:
    """Rounded half up, within +-2^52."""
    clipped = np.clip(np.nan_to_num(values, nan=0.0), -LARGEST_VALUE, LARGEST_VALUE)
    below = np.floor(clipped)
    return below + (clipped - below >= 0.5)


def rounded(values: Array) -> Array:
    """The whole numbers that discrete noise is added to; what is not finite stays as it is."""
    return np.where(np.isfinite(values), _whole(values), values)


@exact_kernel(DiscreteLaplace)
@kernel(DiscreteLaplace)
class DiscreteLaplaceKernel(DiscreteKernel):
    """values + k, k with probability proportional to exp(-|k| / scale), exactly.

    A scale that is no fraction of numbers up to 2^52 is rounded up to 40 digits: more noise.
    Source: Canonne, Kamath and Steinke (2020), Algorithm 2.
    """

    norm: ClassVar[Norm] = "l1"
    vectors: ClassVar[bool] = True

    def __init__(self, leaf: Any, trials: int) -> None:
        super().__init__(leaf, trials)
        self._exact = rounded_up(leaf.scale)
        self._scale = float(self._exact)

    @staticmethod
    def own_scale(leaf: Any) -> float:
        return float(enclose(leaf.scale).mid())

    def draw(self, count: int, bits: Bits) -> Whole:
        scales = np.full(count, self._exact.numerator, dtype=np.int64)
        return laplace_units(scales, self._exact.denominator, bits)

    def sample_away(
        self, values: Array, others: Array, shift: Array, scale: Array, rng: Generator
    ) -> Array:
        integers, side, law = self._tilted(values, others, shift, scale)
        return np.where(scale[:, None] > 0, integers + side * law.sample(rng), integers)

    def log_density_away(
        self, released: Array, values: Array, others: Array, shift: Array, scale: Array
    ) -> Array:
        integers, side, law = self._tilted(values, others, shift, scale)
        leaned = law.log_ratio(side * (released - integers) / self._scale).sum(-1)
        density = self.log_density(released, values, scale)
        return np.where(scale > 0, density + leaned, density)

    def _tilted(
        self, values: Array, others: Array, shift: Array, scale: Array
    ) -> tuple[Array, Array, TiltedLaplace]:
        """Whole values, the side on which the others are, and the noise that leans away."""
        integers = _whole(self._checked(values, scale))
        moved = (_whole(others) - integers) / self._scale
        law = TiltedLaplace(np.abs(moved), shift[:, None], 1 / self._scale)
        return integers, np.copysign(1, moved), law

    def log_mass(self, k: Array) -> Array:
        return laplace_log_mass(k, self._scale)

    def tail(self, k: Array) -> Array:
        return laplace_tail(k, self._scale)


@exact_kernel(DiscreteGaussian)
@kernel(DiscreteGaussian)
class DiscreteGaussianKernel(DiscreteKernel):
    """values + k, k with probability proportional to exp(-k^2 / (2 variance)), exactly.

    Source: Canonne, Kamath and Steinke (2020), Algorithm 3.
    """

    norm: ClassVar[Norm] = "l2"

    def __init__(self, leaf: Any, trials: int) -> None:
        super().__init__(leaf, trials)
        self._exact = rounded_up(leaf.variance)
        self._variance = float(self._exact)

    @staticmethod
    def own_scale(leaf: Any) -> float:
        return math.sqrt(float(enclose(leaf.variance).mid()))

    def draw(self, count: int, bits: Bits) -> Whole:
        return gaussian_units([self._exact], np.zeros(count, dtype=np.int64), bits)

    def log_mass(self, k: Array) -> Array:
        return gaussian_log_mass(k, self._variance)

    def tail(self, k: Array) -> Array:
        return gaussian_tail(k, self._variance)


@exact_kernel(Laplace)
class GridLaplaceKernel(LaplaceKernel):
    """Laplace noise for real queries that leaks no bits: values on a grid, discrete noise on it.

    The grid's step g is a power of two, 2^-32 of the scale or less.  Rounding d coordinates to it
    adds d g to the l1-sensitivity, for which the scale is raised: the loss is that of the
    leaf, scale / sensitivity, or less.  Densities and residuals are the continuous ones, right to
    2^-30.
    Source: Haney, Desfontaines, Hartman, Shrestha and Hay (2022); Balcer and Vadhan (2018).
    """

    arithmetic: ClassVar[str] = "exact"

    def admit(self, scale: Array, dimension: int) -> None:
        """Errors: InvalidParameter for a scale too large for the grid."""
        self._raised(scale, _steps(scale), dimension)

    def _raised(self, scale: Array, step: Array, dimension: int) -> Whole:
        return _raised(scale, step, self.multiplier(self.leaf) * dimension)

    def sample(self, values: Array, scale: Array, rng: Generator) -> Array:
        step = _steps(scale)
        raised = self._raised(scale, step, values.shape[-1])
        each = np.repeat(raised, values.shape[-1])
        noise = laplace_units(each, 1, bits_of(rng)).reshape(values.shape)
        return _on_grid(values, noise, step, scale)


@exact_kernel(Gaussian)
class GridGaussianKernel(GaussianKernel):
    """Gaussian noise for real queries that leaks no bits: values on a grid, discrete noise on it.

    Rounding adds sqrt(d) g to the l2-sensitivity, and to the half of it that a record in a sample
    adds; for twice that the deviation is raised.  It has the zCDP and Renyi bounds of the leaf.
    Its profile is close to the normal's, by how much is not proved: an epsilon accounted by mu or
    by the profile is then an estimate.
    Source: Canonne, Kamath and Steinke (2020), Theorem 4; Haney et al. (2022).
    """

    arithmetic: ClassVar[str] = "exact"

    def admit(self, scale: Array, dimension: int) -> None:
        """Errors: InvalidParameter for a scale too large for the grid."""
        self._raised(scale, _steps(scale), dimension)

    def _raised(self, scale: Array, step: Array, dimension: int) -> Whole:
        return _raised(scale, step, 2 * self.multiplier(self.leaf) * math.sqrt(dimension))

    def sample(self, values: Array, scale: Array, rng: Generator) -> Array:
        step = _steps(scale)
        raised = self._raised(scale, step, values.shape[-1])
        deviations, which = np.unique(raised, return_inverse=True)
        variances = [Fraction(int(deviation)) ** 2 for deviation in deviations]
        each = np.repeat(which.astype(np.int64), values.shape[-1])
        noise = gaussian_units(variances, each, bits_of(rng)).reshape(values.shape)
        return _on_grid(values, noise, step, scale)


def _steps(scale: Array) -> Array:
    """The grid's step of each trial: the power of two at or below scale / 2^32; 1 without noise."""
    exponent = np.frexp(np.where(scale > 0, scale, 1.0))[1] - 1
    return np.ldexp(1.0, np.where(scale > 0, exponent - GRID_BITS, 0))


def _raised(scale: Array, step: Array, more: float) -> Whole:
    """Scale in steps, raised by ``more`` steps and rounded up; 1 without noise.

    Errors: InvalidParameter where the noise multiplier times the dimension is above 2^50.
    """
    if not more < 2.0**50:
        raise InvalidParameter("noise multiplier times dimension: too large for noise on a grid")
    return np.ceil((np.where(scale > 0, scale / step, 1.0) + more) * (1 + 2.0**-50)).astype(
        np.int64
    )


def _on_grid(values: Array, noise: Whole, step: Array, scale: Array) -> Array:
    """Whole steps and whole noise added exactly, and rounded once, to a float."""
    with np.errstate(over="ignore"):
        steps = np.rint(np.nan_to_num(values / step[:, None], nan=0.0))
    if np.abs(noise).max(initial=0) < LARGEST_WHOLE:
        total = steps + noise.astype(np.float64)  # of two whole floats: rounded once
    else:
        exact = [int(s) + int(k) for s, k in zip(steps.flat, noise.flat, strict=True)]
        total = np.array(exact, dtype=np.float64).reshape(steps.shape)
    with np.errstate(over="ignore"):
        noisy = np.nan_to_num(total * step[:, None])
    return np.where(scale[:, None] > 0, noisy, values)


def rounded_up(value: Any) -> Fraction:
    """The fraction itself if its parts are at most 2^52, else the next of 40 binary digits above.

    Errors: InvalidParameter for what is above 2^52 or below 2^-52.
    """
    fraction = value if isinstance(value, Fraction) else upper_fraction(enclose(value))
    if fraction is None or not Fraction(1, LARGEST_NUMERATOR) <= fraction <= LARGEST_NUMERATOR:
        raise InvalidParameter("scale of discrete noise: outside [2^-52, 2^52]")
    if max(fraction.numerator, fraction.denominator) <= LARGEST_NUMERATOR:
        return fraction
    digits = min(max(40 - math.floor(math.log2(fraction)), 0), 52)
    return Fraction(math.ceil(fraction * 2**digits), 2**digits)
