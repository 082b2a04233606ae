"""Randomised smoothing: a Lipschitz loss averaged over a small ball, and its random gradients.

Source: Lowy, Liu, Asi 2024, Section 4 and Appendix D; Duchi, Bartlett, Wainwright 2012.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from hashlib import sha256

import numpy as np
from numpy.typing import ArrayLike

from dpaudit.kernels.query import Array
from mechanisms.papers.common.losses import Loss
from mechanisms.papers.user_level.problem import positive


@dataclass(frozen=True)
class BallSmoothedLoss:
    """f_r(x, z) = E f(x + y, z), y uniform in the ball of ``radius`` r; gradients at one y each.

    f_r is convex, L-Lipschitz and L sqrt(d) / r smooth, and f <= f_r <= f + L r (Lemma D.1 prints
    the first bullet the other way round).  Shifts are public: a row's depends on its place, the
    point and ``seed``, on no record, so that neighbours have the same ones; each row and point has
    one of its own, or the noise of a mean would not fall with its size.
    ``loss`` must be defined, and Lipschitz, within r of the set.
    Errors: InvalidParameter for a radius that is not positive and finite.
    """

    loss: Loss
    radius: float
    seed: int = 0

    def __post_init__(self) -> None:
        positive(self.radius, "BallSmoothedLoss.radius")

    def dimension(self, features: int) -> int:
        return self.loss.dimension(features)

    def initial(self, features: int, trials: int, seed: int) -> Array:
        return self.loss.initial(features, trials, seed)

    def values(self, parameters: ArrayLike, records: ArrayLike) -> Array:
        """f at one shift a row: an unbiased estimate of f_r, (trials, n)."""
        x, z = np.asarray(parameters, dtype=np.float64), np.asarray(records, dtype=np.float64)
        points, rows = self._shifted(x, z, self.draws(x, z.shape[-2]))
        return np.asarray(self.loss.values(points, rows).reshape(len(x), -1))

    def gradients(self, parameters: ArrayLike, records: ArrayLike) -> Array:
        """Gradients of f at one shift a row: unbiased for f_r's, (trials, n, d)."""
        x, z = np.asarray(parameters, dtype=np.float64), np.asarray(records, dtype=np.float64)
        return self.gradients_with(x, z, self.draws(x, z.shape[-2]))

    def gradients_with(self, points: Array, records: Array, draws: list[Array]) -> Array:
        """The same of some rows, with what :meth:`draws` made for them."""
        moved, rows = self._shifted(points, records, draws)
        found = self.loss.gradients(moved, rows)
        return np.asarray(found.reshape(len(points), -1, moved.shape[1]))

    def draws(self, points: Array, count: int) -> list[Array]:
        """Directions and lengths of so many shifts, for every point: (count, d) and (count, 1).

        Made of one point alone: what moves another point, or a group, changes none of them.
        """
        found: list[Array] = []
        for point in points:
            content = np.ascontiguousarray(point + 0.0).tobytes()
            words = np.frombuffer(sha256(content).digest(), dtype=np.uint32)
            rng = np.random.default_rng([self.seed, *map(int, words)])
            found += _drawn(count, len(point), rng)
        return found

    def _shifted(self, x: Array, z: Array, draws: list[Array]) -> tuple[Array, Array]:
        """Every point with every row's shift, (trials n, d); its row, (trials n, 1, features)."""
        rows = np.broadcast_to(z, (len(x), *z.shape[-2:]))
        drawn = zip(x, draws[::2], draws[1::2], strict=True)
        moved = [point + _shifts(g, u, self.radius) for point, g, u in drawn]
        points = moved[0] if len(moved) == 1 else np.concatenate(moved)
        return points, rows.reshape(len(points), 1, rows.shape[2])


def ball_shifts(count: int, dimension: int, radius: float, rng: np.random.Generator) -> Array:
    """Uniform points of a ball, (count, d): r U^(1/d) g / |g|."""
    return _shifts(*_drawn(count, dimension, rng), radius)


def _drawn(count: int, dimension: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """g and U."""
    return rng.standard_normal((count, dimension)), rng.random((count, 1))


def _shifts(directions: Array, uniform: Array, radius: float) -> Array:
    lengths = np.linalg.norm(directions, axis=1, keepdims=True)
    return np.asarray(radius * uniform ** (1 / directions.shape[1]) * directions / lengths)


def smoothing_radius(
    users: int, items: int, dimension: int, diameter: float, epsilon: float
) -> float:
    """r = R sqrt(d) / (eps n sqrt(m)).  Source: Theorem D.3."""
    return diameter * math.sqrt(dimension) / (epsilon * users * math.sqrt(items))


def smoothed_smoothness(lipschitz: float, dimension: int, radius: float) -> float:
    """beta = L sqrt(d) / r.  Source: Lemma D.1."""
    return lipschitz * math.sqrt(dimension) / radius
