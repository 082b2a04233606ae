"""Searches: how many runs are made, and the density of the best one's rank."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
from scipy.special import ndtri

from dpaudit.errors import InvalidParameter
from dpaudit.exact import enclose
from dpaudit.families.tuning import Tuned, TunedPoisson
from dpaudit.kernels.base import Generator, Kernel, kernel
from dpaudit.kernels.query import Array

MOST_RUNS = 10**6  # numbers of runs whose chances are listed


def law_of_runs(gamma: float, shape: float) -> Array:
    """P(K = 1), P(K = 2), ..: the truncated negative binomial law; errors: InvalidParameter.

    Its terms are summed until what is left is below 1e-12 of them, at most ``MOST_RUNS``.
    """
    if not (0 < gamma < 1 and shape > -1):
        raise InvalidParameter(f"gamma = {gamma}, shape = {shape}: expected (0, 1) and above -1")
    most = min(int(np.ceil(40 * (1 + max(shape, 0)) / gamma)), MOST_RUNS)
    k = np.arange(1, most)
    ratios = (1 - gamma) * (k + shape) / (k + 1)
    law = np.cumprod(np.concatenate(([1.0], ratios)))
    return np.asarray(law / law.sum())


def numbers_of_runs(gamma: float, shape: float, rng: Generator, trials: int) -> Array:
    """K, (trials,), of :func:`law_of_runs`; errors: InvalidParameter."""
    reached = np.cumsum(law_of_runs(gamma, shape))
    counts: Array = (1 + np.searchsorted(reached, rng.random(trials))).astype(np.float64)
    return np.minimum(counts, len(reached))


class _SearchKernel(Kernel):
    """K of a law that is tabled: its distribution function from ``least`` on."""

    searches: ClassVar[bool] = True
    may_find_none: ClassVar[bool] = False
    least: ClassVar[int] = 1

    def reached(self) -> Array:
        """P(K <= least), P(K <= least + 1), .."""
        raise NotImplementedError

    def numbers(self, rng: Generator) -> Array:
        reached = self.reached()
        drawn = np.searchsorted(reached, rng.random(self.trials))
        return np.minimum(drawn, len(reached) - 1) + float(self.least)

    def number_residual(self, numbers: Array) -> Array:
        reached = np.concatenate([[0.0], self.reached()])
        place = np.clip(numbers - self.least, 0, len(reached) - 2).astype(np.int64)
        share = reached[place] + self.uniforms(*numbers.shape) * (
            reached[place + 1] - reached[place]
        )
        return np.asarray(ndtri(np.clip(share, 1e-300, 1 - 1e-16)))

    @staticmethod
    def multiplier(leaf: Any) -> float:
        """A search adds no noise of its own."""
        return 1.0


@kernel(Tuned)
class TunedKernel(_SearchKernel):
    """K of the truncated negative binomial law; f'(q) is that to the power -(shape + 1)."""

    def __init__(self, leaf: Any, trials: int) -> None:
        super().__init__(leaf, trials)
        self._gamma = float(enclose(leaf.gamma).mid())
        self._shape = float(enclose(leaf.shape).mid())

    def reached(self) -> Array:
        return np.cumsum(law_of_runs(self._gamma, self._shape))

    def log_weight(self, share: Array) -> Array:
        return np.asarray(-(self._shape + 1) * np.log1p(-(1 - self._gamma) * share))


@kernel(TunedPoisson)
class TunedPoissonKernel(_SearchKernel):
    """K of the Poisson law, none included; f'(q) = m exp(m (q - 1))."""

    may_find_none: ClassVar[bool] = True
    least: ClassVar[int] = 0

    def __init__(self, leaf: Any, trials: int) -> None:
        super().__init__(leaf, trials)
        self._mean = float(enclose(leaf.mean).mid())

    def reached(self) -> Array:
        most = self._mean + 10 * math.sqrt(self._mean) + 30
        from scipy.stats import poisson  # a third of a second, of every process

        return np.asarray(poisson.cdf(np.arange(int(most) + 1), self._mean))

    def log_weight(self, share: Array) -> Array:
        return np.asarray(self._mean * (share - 1))
