"""The problem of the user-level experiments: the mean of biased signs, over the unit ball.

Items are vectors of signs over sqrt(d) with mean .3 in every coordinate, d = 5; the loss is
||x - z||^2 / 2, so that the excess risk of a point is half its squared distance to the mean.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from dpaudit.curator.curator import Sampler
from dpaudit.kernels.query import Array, Records, clip_rows
from mechanisms.papers.user_level.baselines import regularity
from mechanisms.papers.user_level.constants import ReleaseConstants, calibrate_release
from mechanisms.papers.user_level.phased_sgd import Solution, UserLevelPhasedSGD, phased_sgd_of
from mechanisms.papers.user_level.problem import USERS, Problem, SquaredDistance
from mechanisms.papers.user_level.sgd import one_pass_sgd

DIMENSION, BIAS = 5, 0.3
RADIUS, LIPSCHITZ, SMOOTHNESS = 1.0, 2.0, 1.0
EPSILON, DELTA = 1, Fraction(1, 10**6)
MEAN = np.full(DIMENSION, BIAS / math.sqrt(DIMENSION))
PAPER = "Lowy, Liu and Asi 2024"


@dataclass(frozen=True)
class BoundedDistance(SquaredDistance):
    """||x - z||^2 / 2 of items cut to the unit ball: Lipschitz over the ball of ``radius``."""

    radius: float = 1.0

    def gradients(self, parameters: ArrayLike, records: ArrayLike) -> Array:
        """x - z, of norm at most radius + 1 whatever the record."""
        rows = np.asarray(records, dtype=np.float64)
        cut = clip_rows(np.atleast_3d(rows) if rows.ndim > 2 else rows[None], np.ones(1))
        return super().gradients(parameters, cut if rows.ndim > 2 else cut[0])


@regularity.register
def _of_distances(loss: BoundedDistance) -> tuple[float, float]:
    return loss.radius + 1, 1.0


def problem(users: int, items: int) -> Problem:
    """Half the squared distance to an item over the unit ball, whose gradients have norm 2."""
    return Problem(SquaredDistance(DIMENSION), users, items, DIMENSION, RADIUS, LIPSCHITZ)


def sample(users: int, items: int, rng: np.random.Generator, bias: float = BIAS) -> Array:
    """i.i.d. items, (users, items, d)."""
    positive = rng.random((users, items, DIMENSION), dtype=np.float32) < (1 + bias) / 2
    return np.where(positive, 1.0, -1.0) / math.sqrt(DIMENSION)


def excess(points: Array, bias: float = BIAS) -> Array:
    """F(x) - F(mean) of every row; bias^2 / 2 at 0, where every run starts."""
    return np.asarray(np.square(points - bias / BIAS * MEAN).sum(axis=1) / 2)


@lru_cache
def constants(epsilon: int = EPSILON) -> ReleaseConstants:
    """Of one phase at delta = 1e-6: C = 800 groups at epsilon = 1, 122 at 8, weighted inliers."""
    return calibrate_release(epsilon, DELTA)


def algorithm_1(
    users: int, items: int, share: float = 1.0, epsilon: int = EPSILON
) -> UserLevelPhasedSGD:
    """Algorithm 1 with calibrated constants; tau is ``share`` of the heuristic one, all public."""
    made = phased_sgd_of(problem(users, items), constants(epsilon), SMOOTHNESS)
    phases = tuple(replace(phase, radius=share * phase.radius) for phase in made.phases)
    return replace(made, phases=phases)


def run(
    program: UserLevelPhasedSGD, users: Array, rng: np.random.Generator, trials: int = 1
) -> Solution:
    """A run on users (n, items, features)."""
    sampler = Sampler(program.declaration(USERS), USERS, Records(users), rng=rng, trials=trials)
    return program.run(sampler)


def without_noise(program: UserLevelPhasedSGD, users: Array) -> Array:
    """The same phases, groups and steps with plain means of the groups: not private, (1, d)."""
    on, groups, first = program.problem, program.constants.groups, 0
    point = on.start(1)
    for phase in program.phases:
        part = users[first : first + phase.users]
        point = on.project(point + one_pass_sgd(on, point, part, groups, phase.step).mean(axis=1))
        first += phase.users
    return point
