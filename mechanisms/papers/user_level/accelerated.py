"""Algorithm 2: accelerated steps on means of user gradients without outliers, or a halt.

Every round asks of the threshold test whether the users' gradients are concentrated; the first
failure halts the run, and the output is the start.
Source: Lowy, Liu, Asi 2024, Algorithm 2 and Theorem 3.1.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dpaudit.curator.curator import Curator, Part
from dpaudit.errors import InvalidParameter
from dpaudit.families.stability.coupled_kernel import packed
from dpaudit.kernels.query import Array, Norm, Records
from dpaudit.nodes import Node
from dpaudit.scope import Adjacency, Scope
from mechanisms.papers.user_level.acsa import Stage, State, ac_sa_step, middle
from mechanisms.papers.user_level.batches import SHARE, BatchConstants, Radii
from mechanisms.papers.user_level.constants import Inliers
from mechanisms.papers.user_level.phased_sgd import Solution
from mechanisms.papers.user_level.points import (
    counts_within,
    inlier_probabilities,
    score_of_counts,
    weighted_inlier_mean,
)
from mechanisms.papers.user_level.problem import Problem, check_scope, positive, users_of

SCORE, GRADIENT = "score", "gradient"
Gradients = Callable[[Array], Array]


@dataclass(frozen=True, eq=False)
class BatchScoreQuery:
    """(4 K / 5 - score): above a threshold where gradients are not concentrated, (trials, 1).

    ``gradients``: users (n, items, features) to (trials, n, d); the first K users are the batch.
    """

    gradients: Gradients
    radius: float
    constants: BatchConstants
    items: int
    norm: Norm = field(default="l1", init=False)

    def value(self, records: Records, chosen: NDArray[np.bool_] | None = None) -> Array:
        points = batch_points(self, records, chosen)
        (near,) = counts_within(points, self.radius, (2.0,))
        return np.asarray(float(SHARE * self.constants.batch) - score_of_counts(near))[:, None]

    def sensitivity(self, adjacency: Adjacency, size: int) -> Array:
        """2 (K - 1) / K under replace_one."""
        return _checked(adjacency, float(self.constants.score_sensitivity))


@dataclass(frozen=True, eq=False)
class InlierMeanQuery:
    """The mean of the batch's inliers, or what it is drawn from.

    Its sensitivity is that of neighbours of which one has a score of ``constants.stable`` at least.
    """

    gradients: Gradients
    radius: float
    constants: BatchConstants
    items: int
    norm: Norm = field(default="l2", init=False)

    def value(self, records: Records, chosen: NDArray[np.bool_] | None = None) -> Array:
        points = batch_points(self, records, chosen)
        wide = 4.0 if self.constants.radii == Radii.CORE else 2.0
        (counts,) = counts_within(points, self.radius, (wide,))
        probabilities = inlier_probabilities(counts)
        if self.constants.inliers == Inliers.RANDOM:
            return packed(probabilities, points)
        return weighted_inlier_mean(probabilities, points)

    def sensitivity(self, adjacency: Adjacency, size: int) -> Array:
        """The unit of the constants under replace_one."""
        return _checked(adjacency, float(self.constants.unit) * self.radius)


def batch_points(
    query: BatchScoreQuery | InlierMeanQuery, records: Records, chosen: NDArray[np.bool_] | None
) -> Array:
    """Gradients of the batch's users, (trials, K, d)."""
    if chosen is not None:
        raise InvalidParameter("a threshold test spans rounds: it takes no secret batch")
    users = users_of(records.values, query.items)
    return query.gradients(users[: query.constants.batch])


def _checked(adjacency: Adjacency, value: float) -> Array:
    if adjacency is not Adjacency.REPLACE_ONE:
        raise InvalidParameter(
            f"outliers under {adjacency}: users are fixed under replace_one only"
        )
    return np.array(value)


@dataclass(frozen=True)
class UserLevelAcceleratedSGD:
    """T rounds of AC-SA on the mean loss of all users plus weight/2 |x - start|^2.

    ``radius``: tau, public; ``stages``: their steps sum to ``constants.rounds``.  The regulariser's
    gradient is public, and carries no noise.
    Errors: InvalidParameter for a batch of more users than there are, stages that do not sum to T.
    Source: Lowy, Liu, Asi 2024, Algorithm 2, with xi drawn once and each user in one slot.
    """

    problem: Problem
    constants: BatchConstants
    radius: float
    weight: float
    stages: tuple[Stage, ...]

    def __post_init__(self) -> None:
        positive(self.radius, "radius")
        positive(self.weight, "weight")
        check_batch(self.constants.batch, self.problem.users)
        steps = sum(stage.steps for stage in self.stages)
        if steps != self.constants.rounds:
            raise InvalidParameter(f"stages of {steps} steps: expected {self.constants.rounds}")

    @property
    def gradients(self) -> int:
        """Gradients of one item that a run takes: T K m."""
        return self.constants.rounds * self.constants.batch * self.problem.items

    def declaration(self, scope: Scope) -> Node:
        check_scope(scope, type(self).__name__)
        return self.constants.node(SCORE, GRADIENT)

    def run(self, curator: Curator) -> Solution:
        solver = BatchSolver(self.problem, self.radius, self.constants)
        start = self.problem.start(curator.trials)
        on = np.ones(curator.trials, dtype=bool)
        found = solver.solve(curator, start, self.weight, self.stages, on, (SCORE, GRADIENT), None)
        return Solution(np.where(found.halted[:, None], start, found.output), found.halted)


@dataclass(frozen=True)
class TestedSolver(ABC):
    """AC-SA on gradients that a test lets pass, on all rows or a part of them."""

    problem: Problem
    radius: float

    @abstractmethod
    def round(
        self,
        curator: Curator,
        at: Array,
        on: NDArray[np.bool_],
        labels: tuple[str, str],
        rows: Part | None,
    ) -> tuple[NDArray[np.bool_], Array]:
        """Which trials pass, and their noisy gradients (NaN elsewhere)."""

    def solve(
        self,
        curator: Curator,
        start: Array,
        weight: float,
        stages: tuple[Stage, ...],
        on: NDArray[np.bool_],
        labels: tuple[str, str],
        rows: Part | None,
    ) -> Solution:
        """From a released start, in the trials that are on; others keep the start."""
        average = start
        for stage in stages:
            state = State(average, average)
            for t in range(1, stage.steps + 1):
                if not on.any():
                    return Solution(average, ~on)
                at = middle(state, t, weight, stage.phi)
                on, noisy = self.round(curator, at, on, labels, rows)
                slope = np.where(on[:, None], noisy, 0.0) + weight * (at - start)
                ahead = ac_sa_step(state, at, slope, t, weight, stage.phi, self.problem.project)
                state = State(
                    np.where(on[:, None], ahead.point, state.point),
                    np.where(on[:, None], ahead.average, state.average),
                )
            average = state.average
        return Solution(average, ~on)

    def gradients_at(self, at: Array) -> Gradients:
        """The users' mean gradients at these points."""
        return lambda users: self.problem.user_gradients(at, users)


class AskedTwice:
    """Users' gradients, kept while a round lasts: its score and its mean are of the same ones.

    The same are those of the same users in the same memory, which is read-only, as that of all
    records is.  Those of the last two records asked for are kept: of placeholders beside users, or
    of two neighbours.  A query outlives its round, in a transcript: what it was answered does not.
    """

    def __init__(self, gradients: Gradients) -> None:
        self._gradients = gradients
        self._open = False
        self._kept: list[tuple[Array, Array]] = []

    def __enter__(self) -> AskedTwice:
        self._open = True
        return self

    def __exit__(self, *raised: object) -> None:
        self._open, self._kept = False, []

    def __call__(self, users: Array) -> Array:
        for asked, found in self._kept:
            if _same_memory(asked, users):
                return found
        found = self._gradients(users)
        if self._open and not users.flags.writeable:
            found.flags.writeable = False
            self._kept = [*self._kept[-1:], (users, found)]
        return found


def _same_memory(first: Array, second: Array) -> bool:
    """Whether two arrays, of which the first is held, are views of the same numbers."""
    return (first.ctypes.data, first.shape, first.strides, first.dtype) == (
        second.ctypes.data,
        second.shape,
        second.strides,
        second.dtype,
    )


@dataclass(frozen=True)
class BatchSolver(TestedSolver):
    """The rounds of one run of Algorithm 2."""

    constants: BatchConstants

    def round(
        self,
        curator: Curator,
        at: Array,
        on: NDArray[np.bool_],
        labels: tuple[str, str],
        rows: Part | None,
    ) -> tuple[NDArray[np.bool_], Array]:
        with AskedTwice(self.gradients_at(at)) as gradients:
            asked = (gradients, self.radius, self.constants, self.problem.items)
            failed = curator.release(labels[0], BatchScoreQuery(*asked), rows=rows)
            passed = on & (failed[:, 0] == 0)
            if not passed.any():
                return passed, np.full(at.shape, np.nan)
            query = InlierMeanQuery(*asked)
            return passed, curator.release(labels[1], query, rows=rows, on=passed)


def check_batch(batch: int, users: int) -> None:
    """Errors: InvalidParameter for a batch of more users than there are."""
    if batch > users:
        raise InvalidParameter(
            f"batch = {batch} of {users} users: of a user in two slots nothing is proved here; it "
            f"needs at least {batch} users"
        )
