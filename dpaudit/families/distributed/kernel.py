"""The noise of the clients that are left, added to sums of whole numbers."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
from scipy.special import ndtr, ndtri

from dpaudit.exact import enclose
from dpaudit.families.additive.kernel import DiscreteKernel, rounded_up
from dpaudit.families.distributed import (
    DistributedGaussian,
    DistributedGaussianVector,
    DistributedSkellam,
    DistributedSkellamVector,
)
from dpaudit.families.distributed.masses import MASS_DECIMALS, masses_of
from dpaudit.kernels.base import Generator, Kernel, exact_kernel, kernel
from dpaudit.kernels.query import Array, Norm
from dpaudit.kernels.random_bits import Bits, Whole
from dpaudit.kernels.samplers import gaussian_units

# Variance up to which masses are tabulated and certified; above, formulas give log masses within
# 1e-4.
MAX_TABLED_VARIANCE = 10**4
TABLED_DEVIATIONS = 40  # Standard deviations that a table covers; noise beyond them does not occur.
IMPOSSIBLE_RESIDUAL = 37.0  # Standard deviations: the residual of a release that no run can give.


class _SummedKernel(DiscreteKernel):
    """Masses from a table; beyond it they are below 10^-40, and taken for that."""

    norm: ClassVar[Norm] = "l2"

    def __init__(self, leaf: Any, trials: int) -> None:
        super().__init__(leaf, trials)
        masses = np.array([float(m) for m in (*masses_of(leaf), 1)]) / 10.0**MASS_DECIMALS
        self._log_masses = np.log(masses)
        self._tails = np.cumsum(masses[::-1])[::-1]

    @staticmethod
    def own_scale(leaf: Any) -> float:
        return math.sqrt(float(enclose(leaf.total).mid()))

    def log_mass(self, k: Array) -> Array:
        return np.asarray(self._log_masses[self._place(k)])

    def tail(self, k: Array) -> Array:
        return np.asarray(self._tails[self._place(k)])

    def _place(self, k: Array) -> Any:
        return np.minimum(np.abs(k), len(self._log_masses) - 1).astype(np.int64)


@exact_kernel(DistributedGaussian)
@kernel(DistributedGaussian)
class DistributedGaussianKernel(_SummedKernel):
    """The sum of one exact discrete Gaussian number of each client that is left."""

    def draw(self, count: int, bits: Bits) -> Whole:
        clients = self.leaf.left
        drawn = gaussian_units(
            [rounded_up(self.leaf.variance)], np.zeros(count * clients, dtype=np.int64), bits
        )
        return np.asarray(drawn.reshape(count, clients).sum(axis=1))


@kernel(DistributedSkellam)
class DistributedSkellamKernel(_SummedKernel):
    """Differences of Poisson numbers, in floating point."""

    arithmetic: ClassVar[str] = "float64"

    def draw(self, count: int, bits: Bits) -> Whole:
        """By a generator that the bits seed."""
        rng = np.random.default_rng([int(word) for word in bits(4)])
        half = float(enclose(self.leaf.total).mid()) / 2
        return np.asarray(rng.poisson(half, count) - rng.poisson(half, count))


class _VectorKernel(_SummedKernel):
    """Coordinates with noise of their own, modulo the leaf's modulus where it has one.

    Where all noise fits between two multiples of the modulus the wrapped law is the law; elsewhere
    it is a table of sums over the multiples.
    """

    vectors: ClassVar[bool] = True

    def __init__(self, leaf: Any, trials: int) -> None:
        Kernel.__init__(self, leaf, trials)
        self._variance = float(enclose(leaf.total).mid())
        self._modulus = int(leaf.modulus)
        self._tabled = self._variance <= MAX_TABLED_VARIANCE
        if self._tabled:
            super().__init__(leaf, trials)
        far = math.ceil(TABLED_DEVIATIONS * math.sqrt(self._variance)) + 60
        self._wraps = 0 < self._modulus < 2 * far
        if self._wraps:
            noise = np.arange(-far, far + 1)
            places = self._residues(noise.astype(np.float64)).astype(np.int64)
            folded = np.zeros(self._modulus)
            np.add.at(
                folded, places + self._modulus // 2, np.exp(self._law(noise.astype(np.float64)))
            )
            self._folded = np.maximum(folded, 1e-300)
            self._below = np.cumsum(folded) / folded.sum()

    @classmethod
    def multiplier(cls, leaf: Any) -> float:
        return cls.own_scale(leaf) / math.sqrt(float(leaf.squared))

    def sample(self, values: Array, scale: Array, rng: Generator) -> Array:
        return self._residues(super().sample(values, scale, rng))

    def log_mass(self, k: Array) -> Array:
        if self._wraps:
            return np.asarray(np.log(self._folded[k.astype(np.int64) + self._modulus // 2]))
        return self._law(k)

    def residual(self, released: Array, values: Array, scale: Array) -> Array:
        """Farther than any noise where a release is no representative, as after another lift."""
        scores = self._of_residues(released, values, scale)
        strange = (released != self._residues(released)) & (scale[:, None] > 0)
        return np.where(strange, IMPOSSIBLE_RESIDUAL, scores)

    def _of_residues(self, released: Array, values: Array, scale: Array) -> Array:
        if not self._wraps:
            return super().residual(released, values, scale)
        moved = self._moved(released, values, scale)
        residues = np.where(np.isfinite(moved), moved, 0.0).astype(np.int64) + self._modulus // 2
        share = self._below[residues] - self.uniforms(*released.shape) * self._folded[residues]
        return np.where(scale[:, None] > 0, ndtri(np.clip(share, 1e-15, 1 - 1e-15)), np.nan)

    def _moved(self, released: Array, values: Array, scale: Array) -> Array:
        moved = self._residues(super()._moved(released, values, scale))
        return np.where(released == self._residues(released), moved, np.inf)

    def _residues(self, values: Array) -> Array:
        """The representative from -M/2 up to M/2, the larger end left out."""
        if not self._modulus:
            return values
        half = self._modulus // 2
        return np.asarray(np.mod(values + half, self._modulus) - half)

    def _law(self, k: Array) -> Array:
        return super().log_mass(k) if self._tabled else self._formula(k)

    def tail(self, k: Array) -> Array:
        """Tail masses: from the law's table, or of normal noise of the same variance."""
        if self._tabled:
            return super().tail(k)
        return np.asarray(ndtr(-(k - 0.5) / math.sqrt(self._variance)))

    def _formula(self, k: Array) -> Array:
        """Log masses of a variance above ``MAX_TABLED_VARIANCE``."""
        raise NotImplementedError


@kernel(DistributedGaussianVector)
class DistributedGaussianVectorKernel(_VectorKernel):
    """One number a coordinate from the law of the sum: of its table, or rounded normal noise.

    Normal noise of variance V - 1/12, rounded, has the law's masses to a relative 1 / V^2.
    """

    arithmetic: ClassVar[str] = "float64"

    def draw(self, count: int, bits: Bits) -> Whole:
        """By a generator that the bits seed."""
        rng = np.random.default_rng([int(word) for word in bits(4)])
        if not self._tabled:
            noise = math.sqrt(self._variance - 1 / 12) * rng.standard_normal(count)
            return np.asarray(np.rint(noise).astype(np.int64))
        half = np.exp(self._log_masses)
        masses = np.concatenate([half[:0:-1], half])
        drawn = rng.choice(len(masses), size=count, p=masses / masses.sum())
        return np.asarray(drawn - (len(half) - 1))

    def _formula(self, k: Array) -> Array:
        height = 0.5 * math.log(2 * math.pi * self._variance)
        return np.asarray(-(k**2) / (2 * self._variance) - height)


@exact_kernel(DistributedGaussianVector)
class ExactGaussianVectorKernel(DistributedGaussianVectorKernel):
    """One exact discrete Gaussian number of each client that is left, in every coordinate."""

    arithmetic: ClassVar[str] = "exact"

    def draw(self, count: int, bits: Bits) -> Whole:
        clients = self.leaf.left
        nowhere = np.zeros(count * clients, dtype=np.int64)
        drawn = gaussian_units([rounded_up(self.leaf.variance)], nowhere, bits)
        return np.asarray(drawn.reshape(count, clients).sum(axis=1))


@kernel(DistributedSkellamVector)
class DistributedSkellamVectorKernel(_VectorKernel):
    """Differences of Poisson numbers, in floating point."""

    arithmetic: ClassVar[str] = "float64"

    def draw(self, count: int, bits: Bits) -> Whole:
        """By a generator that the bits seed."""
        rng = np.random.default_rng([int(word) for word in bits(4)])
        half = self._variance / 2
        return np.asarray(rng.poisson(half, count) - rng.poisson(half, count))

    def _formula(self, k: Array) -> Array:
        """log(exp(-V) I_k(V)), by the uniform expansion to its second term (DLMF 10.41.3)."""
        order = np.abs(k)
        size = np.hypot(order, self._variance)
        main = order**2 / (size + self._variance) - order * np.arcsinh(order / self._variance)
        second = np.log1p((3 - 5 * (order / size) ** 2) / (24 * size))
        return np.asarray(main - 0.5 * np.log(2 * math.pi * size) + second)
