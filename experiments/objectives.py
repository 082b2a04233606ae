"""Objectives of the experiments: public synthetic data, and losses with known constants."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from dpaudit.errors import InvalidParameter
from dpaudit.kernels.query import Array, Records
from mechanisms.papers.common.losses import Logistic

SLOPE_MOST = 3 * math.sqrt(3) / 8  # the largest derivative of v^2 / (1 + v^2), at v = 1 / sqrt(3)


@dataclass(frozen=True)
class PenalisedLogistic:
    """Nonconvex logistic loss log(1 + exp(-s x.theta)) + weight sum_j theta_j^2 / (1 + theta_j^2).

    On rows of norm 1 it is (1/4 + 2 weight)-smooth, and its gradient has norm at most
    1 + weight sqrt(d) 3 sqrt(3) / 8.  It is at least 0 and log 2 at zero.
    Source: Wang, Ye and Xu 2017, the regulariser; the constants are ours.
    """

    weight: float = 0.05

    def __post_init__(self) -> None:
        if not (math.isfinite(self.weight) and self.weight >= 0):
            raise InvalidParameter(f"PenalisedLogistic.weight = {self.weight}: expected at least 0")

    @property
    def smoothness(self) -> float:
        """L on rows of norm at most 1."""
        return 0.25 + 2 * self.weight

    def gradient_bound(self, features: int) -> float:
        """G on rows of norm at most 1."""
        return 1 + self.weight * math.sqrt(features) * SLOPE_MOST

    def dimension(self, features: int) -> int:
        """The number of features."""
        return Logistic().dimension(features)

    def initial(self, features: int, trials: int, seed: int) -> Array:
        """Zeros (trials, features); the seed is not used."""
        return Logistic().initial(features, trials, seed)

    def values(self, parameters: ArrayLike, records: ArrayLike) -> Array:
        """The losses (trials, n)."""
        theta = np.asarray(parameters, dtype=np.float64)
        squares = np.square(theta)
        penalty = self.weight * (squares / (1 + squares)).sum(axis=1, keepdims=True)
        return np.asarray(Logistic().values(theta, records) + penalty)

    def gradients(self, parameters: ArrayLike, records: ArrayLike) -> Array:
        """The gradients (trials, n, d)."""
        theta = np.asarray(parameters, dtype=np.float64)
        slope = 2 * self.weight * theta / np.square(1 + np.square(theta))
        return np.asarray(Logistic().gradients(theta, records) + slope[:, None, :])

    def mean_gradients(self, points: Array, rows: Array) -> Array:
        """The gradient of the mean over public rows at each of many points, (points, d)."""
        x, sign = rows[:, :-1], 2 * rows[:, -1] - 1
        weights = -sign * expit(-sign * (points @ x.T))
        slope = 2 * self.weight * points / np.square(1 + np.square(points))
        return np.asarray(weights @ x / len(rows) + slope)


def unit_rows(size: int, features: int, seed: int, strength: float = 5.0) -> Array:
    """Rows of norm 1 and a 0-1 label, (size, features + 1): uniform, logistic in a fixed direction.

    The label is 1 with probability 1 / (1 + exp(-strength x.w)), w of norm 1.
    """
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(size, features))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    direction = rng.normal(size=features)
    direction /= np.linalg.norm(direction)
    chance = expit(strength * (rows @ direction))
    return np.column_stack([rows, rng.random(size) < chance]).astype(np.float64)


def replicated(rows: Array, times: int) -> Records:
    """Each row so many times: the objective stays what it is while one record weighs less."""
    return Records(np.repeat(rows, times, axis=0))


def mean_square(vectors: Array) -> Array:
    """Squared norms over the last axis."""
    return np.asarray(np.square(vectors).sum(axis=-1))


def geometric(first: float, last: float, count: int) -> Sequence[float]:
    """So many numbers from first to last, each the same multiple of the one before."""
    return [float(v) for v in np.geomspace(first, last, count)]
