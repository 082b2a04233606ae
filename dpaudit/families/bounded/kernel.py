"""Kernels of noise of bounded loss: one number a release, in floating point."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, stdtr

from dpaudit.errors import InvalidParameter
from dpaudit.exact import enclose
from dpaudit.families.bounded import Staircase, StudentT, TruncatedLaplace, Tulap
from dpaudit.kernels.base import Generator, Kernel, exact_match, kernel, normal_scores, standardised
from dpaudit.kernels.query import Array, Norm


def _float(value: Any) -> float:
    return float(enclose(value).mid())


class _OneNumber(Kernel):
    """values + scale times noise that is symmetric around 0."""

    norm: ClassVar[Norm] = "l1"

    def admit(self, scale: Array, dimension: int) -> None:
        """Errors: InvalidParameter for a vector, whose moves this noise is not made for."""
        if dimension != 1:
            raise InvalidParameter(
                f"{self.leaf.head}: one number a release, not {dimension}; release them one by one"
            )

    @staticmethod
    def multiplier(leaf: Any) -> float:
        return _float(leaf.parameters.get("noise_multiplier", 1))

    @abstractmethod
    def draw(self, count: int, rng: Generator) -> Array:
        """Noise of scale 1, shape (count,)."""

    @abstractmethod
    def log_law(self, noise: Array) -> Array:
        """Log density of the noise of scale 1."""

    @abstractmethod
    def below(self, noise: Array) -> Array:
        """Its distribution function."""

    def sample(self, values: Array, scale: Array, rng: Generator) -> Array:
        return values + scale[:, None] * self.draw(values.size, rng).reshape(values.shape)

    def log_density(self, released: Array, values: Array, scale: Array) -> Array:
        noise = standardised(released, values, np.where(scale > 0, scale, 1.0))
        density = (self.log_law(noise) - np.log(np.where(scale > 0, scale, 1.0))[:, None]).sum(-1)
        return np.where(scale > 0, density, exact_match(released, values))

    def residual(self, released: Array, values: Array, scale: Array) -> Array:
        return normal_scores(released, values, scale, self.uniforms, self.below)


@kernel(Staircase)
class StaircaseKernel(_OneNumber):
    """A sign, a step, a side of it and a place there; Geng and Viswanath 2014, Algorithm 1."""

    def __init__(self, leaf: Any, trials: int) -> None:
        super().__init__(leaf, trials)
        self._epsilon, self._share = _float(leaf.epsilon), _float(leaf.share)
        self._fall = math.exp(-self._epsilon)
        self._width = self._share + self._fall * (1 - self._share)  # of a step, by its density

    def draw(self, count: int, rng: Generator) -> Array:
        step = np.floor(rng.standard_exponential(count) / self._epsilon)
        is_near = rng.random(count) * self._width < self._share
        place = rng.random(count)
        inner, outer = self._share * place, self._share + (1 - self._share) * place
        size = step + np.where(is_near, inner, outer)
        return np.where(rng.random(count) < 0.5, -size, size)

    def log_law(self, noise: Array) -> Array:
        step, place = self._places(noise)
        falls = step + (place >= self._share)
        return math.log(-math.expm1(-self._epsilon) / (2 * self._width)) - self._epsilon * falls

    def below(self, noise: Array) -> Array:
        step, place = self._places(noise)
        inner = np.minimum(place, self._share) + self._fall * np.maximum(place - self._share, 0)
        outer_part = 1 + math.expm1(-self._epsilon) * inner / self._width
        tail = np.exp(-self._epsilon * step) * outer_part / 2
        return np.where(noise < 0, tail, 1 - tail)

    @staticmethod
    def _places(noise: Array) -> tuple[Array, Array]:
        size = np.abs(np.nan_to_num(noise))
        return np.floor(size), size - np.floor(size)


@kernel(Tulap)
class TulapKernel(_OneNumber):
    """A discrete Laplace number and a uniform one, drawn again while in a tail that is cut off.

    Source: Awan, Slavkovic 2020, Definition 3.1 and Lemma 3.5.
    """

    def __init__(self, leaf: Any, trials: int) -> None:
        super().__init__(leaf, trials)
        self._epsilon, delta = _float(leaf.epsilon), _float(leaf.delta)
        self._fall = math.exp(-self._epsilon)
        self._cut = delta * self._fall / (1 - self._fall + 2 * delta * self._fall)

    def draw(self, count: int, rng: Generator) -> Array:
        geometric = [np.floor(rng.standard_exponential(count) / self._epsilon) for _ in range(2)]
        noise = geometric[0] - geometric[1] + rng.random(count) - 0.5
        again = self._outside(noise)
        if again.any():
            noise[again] = self.draw(int(again.sum()), rng)
        return np.asarray(noise)

    def log_law(self, noise: Array) -> Array:
        density = math.log(math.tanh(self._epsilon / 2)) - self._epsilon * np.abs(np.rint(noise))
        return np.where(self._outside(noise), -np.inf, density - math.log1p(-2 * self._cut))

    def below(self, noise: Array) -> Array:
        lower = np.clip((self._whole(-np.abs(noise)) - self._cut) / (1 - 2 * self._cut), 0, 1)
        return np.where(noise < 0, lower, 1 - lower)

    def _whole(self, noise: Array) -> Array:
        """The distribution function before the tails are cut off, at noise <= 0."""
        near = np.rint(noise)
        share = self._fall + (noise - near + 0.5) * (1 - self._fall)
        return np.exp(self._epsilon * near) * share / (1 + self._fall)

    def _outside(self, noise: Array) -> NDArray[np.bool_]:
        return self._whole(-np.abs(noise)) < self._cut


@kernel(StudentT)
class StudentKernel(_OneNumber):
    """Student's t noise."""

    def __init__(self, leaf: Any, trials: int) -> None:
        super().__init__(leaf, trials)
        self._degrees = _float(leaf.degrees)
        half = self._degrees / 2
        self._log_peak = gammaln(half + 0.5) - gammaln(half) - math.log(math.pi * 2 * half) / 2

    def draw(self, count: int, rng: Generator) -> Array:
        return np.asarray(rng.standard_t(self._degrees, count))

    def log_law(self, noise: Array) -> Array:
        fall = np.log1p(noise**2 / self._degrees) * (self._degrees + 1) / 2
        return np.asarray(self._log_peak - fall)

    def below(self, noise: Array) -> Array:
        return np.asarray(stdtr(self._degrees, noise))


@kernel(TruncatedLaplace)
class TruncatedLaplaceKernel(_OneNumber):
    """Laplace noise within the bound, by its quantiles."""

    def __init__(self, leaf: Any, trials: int) -> None:
        super().__init__(leaf, trials)
        self._bound = _float(leaf.bound) / _float(leaf.noise_multiplier)
        self._mass = -math.expm1(-self._bound)

    def draw(self, count: int, rng: Generator) -> Array:
        size = np.minimum(-np.log1p(-rng.random(count) * self._mass), self._bound)
        return np.where(rng.random(count) < 0.5, -size, size)

    def log_law(self, noise: Array) -> Array:
        size = np.abs(noise)
        return np.where(size <= self._bound, -size - math.log(2 * self._mass), -np.inf)

    def below(self, noise: Array) -> Array:
        size = np.minimum(np.abs(noise), self._bound)
        tail = (np.exp(-size) - math.exp(-self._bound)) / (2 * self._mass)
        return np.where(noise < 0, tail, 1 - tail)
