"""A pair of somebody else's, whole in one file: its delta, and the noise that it dominates.

Cauchy noise of scale z on one number that a record moves by 1 at most.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri

from dpaudit import nodes
from dpaudit.check.theorem import Theorem, reached, register
from dpaudit.errors import InvalidParameter
from dpaudit.exact import Number, log, sqrt
from dpaudit.exact.domains import number, positive
from dpaudit.kernels.base import Generator, Kernel, kernel
from dpaudit.kernels.query import Array
from dpaudit.measures.calculus import Source
from dpaudit.measures.profile import PROFILE
from dpaudit.pairs import Losses, Symmetric, balls, one
from dpaudit.pairs.balls import Ball, Delta

STABLE = Source("Samorodnitsky, Taqqu", 1994, "Property 1.2.1 (sums of stable variables)")


@dataclass(frozen=True)
class CauchyShift(Symmetric):
    """Cauchy noise of ``scale`` around 1 against around 0."""

    scale: Number

    def delta(self, x: Ball, of: Delta | None = None) -> Ball:
        """p > x q between two places y, where (x - 1) y^2 - 2 x y + x + (x - 1) z^2 < 0."""
        if x < 1:
            return 1 - x + x * self.delta(1 / x)
        z, more = balls.number(self.scale), x - 1
        if not x > 1:
            # delta falls by at most as much as x rises.
            return 2 * self._share(1 / (2 * z)) + balls.number(0).union(more).union(-more)
        square = x - (more * z) ** 2
        if square <= 0:
            return balls.number(0)
        root = balls.positive(square).sqrt()
        low, high = (x + more * z**2) / (x + root), (x + root) / more
        near, far = (self._share((high - m) / z) - self._share((low - m) / z) for m in (1, 0))
        return balls.positive(near - x * far)

    @staticmethod
    def _share(y: Ball) -> Ball:
        """Standard Cauchy mass between 0 and y."""
        return y.atan() / y.pi()

    @property
    def extremes(self) -> tuple[Number, Number]:
        half = 1 / (2 * self.scale)
        largest = 2 * log(half + sqrt(half**2 + 1))
        return largest, largest


@dataclass(frozen=True, eq=False, repr=False)
class CauchyNoise(nodes.Leaf):
    """Cauchy noise of scale ``noise_multiplier`` times the sensitivity."""

    label: str
    noise_multiplier: Number = number(positive)


@PROFILE.rule(CauchyNoise, "cauchy_noise", cite=STABLE)
def cauchy_noise(node: CauchyNoise) -> Losses:
    """A move by 1; by less it is a move by 1 in more noise, which is more Cauchy noise added."""
    return one(CauchyShift(node.noise_multiplier))


register(
    {
        ("profile", "CauchyNoise"): Theorem(
            "cauchy_noise", lambda node: reached(CauchyShift(node.noise_multiplier))
        )
    }
)


@kernel(CauchyNoise)
class CauchyKernel(Kernel):
    """values + scale times a standard Cauchy variable, one number a release."""

    norm = "l1"

    def admit(self, scale: Array, dimension: int) -> None:
        if dimension != 1:
            raise InvalidParameter(f"{self.leaf.head}: one number a release, not {dimension}")

    def sample(self, values: Array, scale: Array, rng: Generator) -> Array:
        return values + scale[:, None] * rng.standard_cauchy(values.shape)

    def log_density(self, released: Array, values: Array, scale: Array) -> Array:
        noise = (released - values) / scale[:, None]
        return -(np.log(np.pi * scale)[:, None] + np.log1p(noise**2)).sum(-1)

    def residual(self, released: Array, values: Array, scale: Array) -> Array:
        noise = (released - values) / scale[:, None]
        tail = np.clip(np.arctan2(1, np.abs(noise)) / np.pi, 1e-300, 0.5)
        return np.where(noise < 0, ndtri(tail), -ndtri(tail))


def program(noise: Any, rounds: int = 1) -> Any:
    """The number of records, released ``rounds`` times."""
    import dpaudit as dp

    class Counted:
        def declaration(self, scope: Any) -> Any:
            leaf = CauchyNoise("count", noise)
            return leaf if rounds == 1 else dp.Repeat(leaf, rounds)

        def run(self, curator: Any) -> Any:
            rows = dp.ClippedMean(lambda v: v[None, :, :1], radius=1, divisor=1, norm="l1")
            return [curator.release("count", rows) for _ in range(rounds)]

    return Counted()
