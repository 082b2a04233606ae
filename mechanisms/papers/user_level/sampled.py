"""Algorithm 2 on secret batches K < n, with a Laplace test of its own in every round.

A threshold that all rounds share cannot be amplified: its answers speak of the batches.  A test and
a release on one batch are one mechanism, (epsilon_1 + epsilon_2, max(delta, p))-DP, and can.
Source: dpaudit 2026; Balle, Barthe, Gaboardi 2018, Theorem 9.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpaudit.curator.curator import Curator, Part
from dpaudit.errors import InvalidParameter
from dpaudit.families.composition import Repeat
from dpaudit.families.sampling import SampledWithoutReplacement
from dpaudit.kernels.query import Array, Records
from dpaudit.nodes import Node
from dpaudit.scope import Adjacency, Scope
from mechanisms.papers.common.losses import Loss
from mechanisms.papers.user_level.accelerated import GRADIENT, TestedSolver
from mechanisms.papers.user_level.acsa import Stage
from mechanisms.papers.user_level.constants import (
    HALT,
    Inliers,
    ReleaseConstants,
    budget,
    kappa,
    rounded_up,
)
from mechanisms.papers.user_level.outliers import OutlierRemovedQuery
from mechanisms.papers.user_level.phased_sgd import Solution
from mechanisms.papers.user_level.points import (
    counts_within,
    even,
    inlier_probabilities,
    score_of_counts,
    weighted_inlier_mean,
)
from mechanisms.papers.user_level.problem import (
    DrawnLoss,
    Problem,
    check_scope,
    positive,
    users_of,
    whole,
)


@dataclass(frozen=True, eq=False)
class SampledOutlierQuery(OutlierRemovedQuery):
    """Score and weighted mean of the users of a secret batch, a point each.

    Points are taken of the users that a trial's batch holds, and of no other.  ``placed``: of users
    and the places asked, (trials, places, d), for points that depend on a user's place.
    """

    placed: Callable[[Array, NDArray[np.intp]], Array] | None = None

    @property
    def exchangeable(self) -> bool:
        """Equal users may stand for one another."""
        return True

    def value(self, records: Records, chosen: NDArray[np.bool_] | None = None) -> Array:
        if chosen is None:
            raise InvalidParameter("SampledOutlierQuery: expected a secret batch")
        batch = self.constants.groups
        members = np.argsort(~chosen, axis=1, kind="stable")[:, :batch, None]
        users, asked = users_of(records.values, self.items), np.unique(members)
        found = (self.placed or self._anywhere)(users, asked)
        found = np.broadcast_to(found, (len(members), *found.shape[1:]))
        points = np.take_along_axis(found, np.searchsorted(asked, members), axis=1)
        near, far = counts_within(points, self.radius, (1.0, 2.0))
        score = score_of_counts(near) - float(self.constants.threshold)
        head = (score / float(self.constants.score_sensitivity))[:, None]
        return np.hstack([head, weighted_inlier_mean(inlier_probabilities(far), points)])

    def _anywhere(self, users: Array, asked: NDArray[np.intp]) -> Array:
        return self.points(users[asked])

    def sensitivity(self, adjacency: Adjacency, size: int) -> Array:
        """The release's unit, whatever the number of users that batches are drawn from."""
        return super().sensitivity(adjacency, max(size, self.constants.groups))


@dataclass(frozen=True)
class SampledTestSGD:
    """T rounds of AC-SA, each on a secret batch that is tested by a noise of its own, or a halt.

    ``constants``: of a round, K groups of one user, weighted inliers; ``radius``: of the score.
    Errors: InvalidParameter for random inliers, a batch of more users than there are, or stages
    that do not sum to ``rounds``.
    """

    problem: Problem
    constants: ReleaseConstants
    rounds: int
    radius: float
    weight: float
    stages: tuple[Stage, ...]

    def __post_init__(self) -> None:
        whole(self.rounds, "rounds")
        for name in ("radius", "weight"):
            positive(getattr(self, name), name)
        if self.constants.inliers != Inliers.WEIGHTED:
            raise InvalidParameter("SampledTestSGD: expected weighted inliers")
        if self.constants.groups >= self.problem.users:
            raise InvalidParameter(
                f"batch of {self.constants.groups} from {self.problem.users} users: it needs more "
                "users than a batch; of all users take UserLevelAcceleratedSGD"
            )
        steps = sum(stage.steps for stage in self.stages)
        if steps != self.rounds:
            raise InvalidParameter(f"stages of {steps} steps: expected {self.rounds}")

    @property
    def gradients(self) -> int:
        """Gradients of one item that a run uses: T K m."""
        return self.rounds * self.constants.groups * self.problem.items

    def declaration(self, scope: Scope) -> Node:
        """Test and release on a batch drawn without replacement, every round."""
        check_scope(scope, type(self).__name__)
        step = self.constants.node(GRADIENT)
        sampled = SampledWithoutReplacement(step, self.constants.groups, self.problem.users)
        return Repeat(sampled, self.rounds)

    def run(self, curator: Curator) -> Solution:
        solver = SampledTestSolver(self.problem, self.radius, self.constants)
        start = self.problem.start(curator.trials)
        on = np.ones(curator.trials, dtype=bool)
        labels = (GRADIENT, GRADIENT)
        found = solver.solve(curator, start, self.weight, self.stages, on, labels, None)
        return Solution(np.where(found.halted[:, None], start, found.output), found.halted)


@dataclass(frozen=True, eq=False)
class PlacedLoss:
    """A loss's gradients at some of ``count`` places, with the public numbers of those places."""

    loss: Loss
    count: int
    places: NDArray[np.intp]

    def dimension(self, features: int) -> int:
        """As the loss has."""
        return self.loss.dimension(features)

    def initial(self, features: int, trials: int, seed: int) -> Array:
        """As the loss has."""
        return self.loss.initial(features, trials, seed)

    def values(self, parameters: ArrayLike, records: ArrayLike) -> Array:
        """As the loss has."""
        return self.loss.values(parameters, records)

    def gradients(self, parameters: ArrayLike, records: ArrayLike) -> Array:
        """With the numbers of their places, as many records as places."""
        points, rows = np.asarray(parameters), np.asarray(records)
        return self.gradients_with(points, rows, self.draws(points, len(self.places)))

    def draws(self, points: Array, count: int) -> list[Array]:
        """What all places draw, of the places."""
        return [each[self.places] for each in self._drawn.draws(points, self.count)]

    def gradients_with(self, points: Array, records: Array, draws: list[Array]) -> Array:
        """As the loss has."""
        return self._drawn.gradients_with(points, records, draws)

    @property
    def _drawn(self) -> DrawnLoss:
        if isinstance(self.loss, DrawnLoss):
            return self.loss
        raise InvalidParameter(f"{type(self.loss).__name__} draws no numbers")


def gradients_of(problem: Problem, points: Array, users: Array, asked: NDArray[np.intp]) -> Array:
    """Mean gradients of the users at some places, and of no others, (trials, places, d)."""
    if isinstance(problem.loss, DrawnLoss):
        count, items = users.shape[:2]
        rows = (asked[:, None] * items + np.arange(items)).reshape(-1)
        problem = replace(problem, loss=PlacedLoss(problem.loss, count * items, rows))
    return problem.user_gradients(points, users[asked])


@dataclass(frozen=True)
class SampledTestSolver(TestedSolver):
    """The rounds of one run; both labels are that of the release."""

    constants: ReleaseConstants

    def round(
        self,
        curator: Curator,
        at: Array,
        on: NDArray[np.bool_],
        labels: tuple[str, str],
        rows: Part | None,
    ) -> tuple[NDArray[np.bool_], Array]:
        asked = (self.gradients_at(at), self.radius, self.constants, self.problem.items)
        query = SampledOutlierQuery(*asked, placed=partial(gradients_of, self.problem, at))
        with curator.batch(labels[1], rows) as batch:
            noisy = curator.release(labels[1], query, rows=batch, on=on)
        return on & ~np.isnan(noisy).all(axis=1), noisy


def sampled_constants(
    test: object,
    release: object,
    delta: object,
    rounds: int,
    core: Fraction = Fraction(4, 5),
) -> ReleaseConstants:
    """Constants of a round at ``test`` + ``release`` of epsilon, before amplification.

    b = 2 / test; theta = rho K + 1 + b log(T / delta), so that false passes of all T rounds cost
    delta / 2; K the least even number at which cohesive batches halt with probability 1e-3 / T.
    Errors: as :func:`budget`.
    """
    epsilon, delta = budget(test, delta)
    rest, _ = budget(release, delta)
    scale = 2 / epsilon
    bar = rounded_up(float(scale) * math.log(whole(rounds, "rounds") / float(delta)))
    room = 1 + float(bar) + float(scale) * math.log(rounds / (2 * HALT))
    batch = even(room / float(1 - core))
    made = ReleaseConstants(batch, scale, core * batch + 1 + bar, core, Fraction(1))
    noise = kappa(rest, delta / (2 * rounds)) * made.unit
    return ReleaseConstants(batch, scale, made.threshold, core, noise)
