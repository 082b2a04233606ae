"""The noise of the clients that are left, added to a sum of whole numbers."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from dpaudit.exact import enclose
from dpaudit.families.additive.kernel import DiscreteKernel, rounded_up
from dpaudit.families.distributed import DistributedGaussian, DistributedSkellam
from dpaudit.families.distributed.masses import DIGITS, masses_of
from dpaudit.kernels.base import exact_kernel, kernel
from dpaudit.kernels.query import Array, Norm
from dpaudit.kernels.random_bits import Bits, Whole
from dpaudit.kernels.samplers import gaussian_units


class _SummedKernel(DiscreteKernel):
    """Masses from a table; beyond it they are below 10^-40, and taken for that."""

    norm: ClassVar[Norm] = "l2"

    def __init__(self, leaf: Any, trials: int) -> None:
        super().__init__(leaf, trials)
        masses = np.array([float(m) for m in (*masses_of(leaf), 1)]) / 10.0**DIGITS
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
        left = self.leaf.left
        drawn = gaussian_units(
            [rounded_up(self.leaf.variance)], np.zeros(count * left, dtype=np.int64), bits
        )
        return np.asarray(drawn.reshape(count, left).sum(axis=1))


@kernel(DistributedSkellam)
class DistributedSkellamKernel(_SummedKernel):
    """Differences of Poisson numbers, in floating point."""

    arithmetic: ClassVar[str] = "float64"

    def draw(self, count: int, bits: Bits) -> Whole:
        """By a generator that the bits seed."""
        rng = np.random.default_rng([int(word) for word in bits(4)])
        half = float(enclose(self.leaf.total).mid()) / 2
        return np.asarray(rng.poisson(half, count) - rng.poisson(half, count))
