"""Bassily and Sun's user-level SGD, central and local: ranges first, then means cut to them.

Reconstructions: Lowy, Liu, Asi 2024 only cite them.
Source: Bassily, Sun 2023; Levy et al. 2021.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache, partial

import numpy as np
from numpy.typing import NDArray

from dpaudit.curator.curator import Batch, Curator
from dpaudit.errors import InvalidParameter
from dpaudit.families.additive import Laplace
from dpaudit.families.composition import Compose, Parallel, Repeat
from dpaudit.families.sampling import SampledWithoutReplacement
from dpaudit.families.selection import ExponentialMechanism
from dpaudit.kernels.query import FEW_KINDS, Array, ClippedMean, Norm, Records
from dpaudit.nodes import Node
from dpaudit.scope import Adjacency, Scope, Trust
from mechanisms.papers.user_level.accelerated import check_batch
from mechanisms.papers.user_level.constants import budget
from mechanisms.papers.user_level.phased_sgd import Solution
from mechanisms.papers.user_level.problem import Problem, check_scope, positive, users_of, whole

# --- Bassily, Sun 2023, central -------------------------------------------------------------------


@lru_cache(maxsize=8)
def rotation(dimension: int, seed: int = 0) -> Array:
    """H diag(+-1) / sqrt(D), D the next power of two: (D, d), public; spreads every vector."""
    from scipy.linalg import hadamard

    size = 1 << max(0, math.ceil(math.log2(dimension)))
    signs = np.random.default_rng(seed).choice([-1.0, 1.0], size)
    found = hadamard(size).astype(np.float64) * signs / math.sqrt(size)
    found.flags.writeable = False
    return np.asarray(found[:, :dimension])


def bin_edges(bins: int, radius: float) -> Array:
    """Edges of bins of width 2 radius around 0."""
    return np.asarray(radius * (2.0 * np.arange(bins + 1) - bins))


@dataclass(frozen=True, eq=False)
class RangeQuery:
    """Minus the larger number of users left, or right, of each bin: (trials, bins).

    One user moves a count by 1.
    """

    coordinate: Callable[[Array], Array]
    edges: Array
    norm: Norm = field(default="linf", init=False)

    @property
    def exchangeable(self) -> bool:
        """Equal users may stand for one another."""
        return True

    def value(self, records: Records, chosen: NDArray[np.bool_] | None = None) -> Array:
        values, members = _members(records, chosen)
        found = self.coordinate(values)
        bins = np.clip(np.searchsorted(self.edges, found, side="right"), 1, len(self.edges) - 1)
        counts = np.stack(
            [((bins == k) * members).sum(axis=1) for k in range(1, len(self.edges))], axis=1
        )
        left = np.cumsum(counts, axis=1) - counts
        right = counts.sum(axis=1, keepdims=True) - counts - left
        return np.asarray(-np.maximum(left, right), dtype=np.float64)

    def sensitivity(self, adjacency: Adjacency, size: int) -> Array:
        return np.array(1.0)


def _members(records: Records, chosen: NDArray[np.bool_] | None) -> tuple[Array, Array]:
    """Users of few kinds, one each, or all; and how many of each a batch holds: (trials, kinds)."""
    values, origin = records.distinct()
    among = np.ones((1, len(records)), dtype=bool) if chosen is None else chosen
    if len(values) > FEW_KINDS:
        return records.values, among.astype(np.float64)
    counts = [among[:, origin == k].sum(axis=1) for k in range(len(values))]
    return values, np.stack(counts, axis=1).astype(np.float64)


@dataclass(frozen=True)
class WinsorizedMeanDPSGD:
    """Steps on means of user gradients, each rotated coordinate cut to a private range.

    Every round a secret batch of ``batch`` users; ``radius``: tau'; ``epsilon``: of each range and
    of each mean.
    Errors: InvalidParameter for a batch of more users than there are.
    Source: Bassily, Sun 2023, with the mean estimator of Levy et al. 2021: a reconstruction.
    """

    problem: Problem
    batch: int
    rounds: int
    epsilon: Fraction
    radius: float
    step: float

    def __post_init__(self) -> None:
        whole(self.rounds, "rounds")
        for name in ("radius", "step"):
            positive(getattr(self, name), name)
        check_batch(whole(self.batch, "batch"), self.problem.users)

    @property
    def rotation(self) -> Array:
        """The public rotation."""
        return rotation(self.problem.dimension)

    def declaration(self, scope: Scope) -> Node:
        check_scope(scope, type(self).__name__)
        leaves: list[Node] = []
        for j in range(len(self.rotation)):
            leaves.append(ExponentialMechanism(f"range {j}", self.epsilon))
            leaves.append(Laplace(f"mean {j}", 1 / self.epsilon))
        step = SampledWithoutReplacement(Compose(*leaves), self.batch, self.problem.users)
        return Repeat(step, self.rounds)

    def run(self, curator: Curator) -> Solution:
        point = self.problem.start(curator.trials)
        for _ in range(self.rounds):
            with curator.batch("range 0") as batch:
                means = [self._mean(curator, point, j, batch) for j in range(len(self.rotation))]
            slope = np.stack(means, axis=1) @ self.rotation
            point = self.problem.project(point - self.step * slope)
        return Solution(point, np.zeros(curator.trials, dtype=bool))

    def _mean(self, curator: Curator, point: Array, j: int, batch: Batch) -> Array:
        """A rotated coordinate's mean, (trials,)."""
        coordinate = partial(self._coordinate, point, j)
        width = self.problem.lipschitz
        bins = max(1, math.ceil(width / self.radius))
        edges = bin_edges(bins, self.radius)
        chosen = curator.release(f"range {j}", RangeQuery(coordinate, edges), rows=batch)
        centre = (edges[:-1] + self.radius)[np.argmax(chosen, axis=1)]
        query = ClippedMean(
            lambda values: (coordinate(values) - centre[:, None])[..., None],
            2 * self.radius,
            divisor=self.batch,
            norm="l1",
        )
        return np.asarray(centre + curator.release(f"mean {j}", query, rows=batch)[:, 0])

    def _coordinate(self, point: Array, j: int, values: Array) -> Array:
        return rotated_gradients(self.problem, point, self.rotation[j], values)


def rotated_gradients(problem: Problem, point: Array, row: Array, values: Array) -> Array:
    """One rotated coordinate of every user's mean gradient, (trials, n)."""
    found = problem.user_gradients(point, users_of(values, problem.items)) @ row
    return np.asarray(np.broadcast_to(found, (len(point), found.shape[1])))


# --- Bassily, Sun 2023, local ---------------------------------------------------------------------


@dataclass(frozen=True)
class UserLevelLDPSGD:
    """Steps from users' own noisy reports: half of a round's users vote for a range, half report.

    Round t asks ``each`` new users, each about one rotated coordinate, in turn; a vote is for the
    bin of a user's mean gradient, a report its distance from the chosen bin's centre, cut to
    2 tau', with noise.
    Errors: InvalidParameter for too few users, in all or for the coordinates of a round.
    Source: Bassily, Sun 2023, Algorithm 5, a reconstruction.
    """

    problem: Problem
    rounds: int
    each: int
    epsilon: Fraction
    radius: float
    step: float

    def __post_init__(self) -> None:
        whole(self.rounds, "rounds")
        for name in ("radius", "step"):
            positive(getattr(self, name), name)
        needed, least = self.rounds * whole(self.each, "each"), 2 * len(self.rotation)
        if self.each % 2 or self.each < least or self.problem.users < needed:
            raise InvalidParameter(
                f"{self.problem.users} users, {self.each} a round: expected an even number a round "
                f"from {least} on, two a rotated coordinate, and at least {needed} users"
            )

    @property
    def rotation(self) -> Array:
        """The public rotation."""
        return rotation(self.problem.dimension)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Every user is a part."""
        return (1,) * self.problem.users

    def declaration(self, scope: Scope) -> Node:
        """One randomiser a user, who trusts nobody: a vote, or a report."""
        check_scope(scope, type(self).__name__, Trust.LOCAL)
        return Parallel(*(self._leaf(i) for i in range(self.rounds * self.each)))

    def _leaf(self, user: int) -> Node:
        if self._votes(user):
            return ExponentialMechanism(f"user {user}", self.epsilon)
        return Laplace(f"user {user}", 1 / self.epsilon)

    def _votes(self, user: int) -> bool:
        return user % self.each < self.each // 2

    def run(self, curator: Curator) -> Solution:
        point = self.problem.start(curator.trials)
        for t in range(self.rounds):
            users = range(t * self.each, (t + 1) * self.each)
            slope = self._slope(curator, point, list(users))
            point = self.problem.project(point - self.step * slope)
        return Solution(point, np.zeros(curator.trials, dtype=bool))

    def _slope(self, curator: Curator, point: Array, users: list[int]) -> Array:
        """The mean reports rotated back, (trials, d)."""
        voters = [u for u in users if self._votes(u)]
        others, count = [u for u in users if not self._votes(u)], len(self.rotation)
        means = [
            self._mean(
                curator, partial(self._coordinate, point, j), voters[j::count], others[j::count]
            )
            for j in range(count)
        ]
        return np.stack(means, axis=1) @ self.rotation

    def _mean(
        self,
        curator: Curator,
        coordinate: Callable[[Array], Array],
        voters: list[int],
        others: list[int],
    ) -> Array:
        """Of one coordinate, (trials,)."""
        bins = max(1, math.ceil(self.problem.lipschitz / self.radius))
        edges = bin_edges(bins, self.radius)
        votes = [self._ask(curator, u, VoteQuery(coordinate, edges)) for u in voters]
        centre = (edges[:-1] + self.radius)[np.argmax(np.sum(votes, axis=0), axis=1)]
        query = ClippedMean(
            lambda values: (coordinate(values) - centre[:, None])[..., None],
            2 * self.radius,
            norm="l1",
        )
        reports = [self._ask(curator, u, query)[:, 0] for u in others]
        return np.asarray(centre + np.mean(reports, axis=0))

    def _ask(self, curator: Curator, user: int, query: VoteQuery | ClippedMean) -> Array:
        return curator.release(f"user {user}", query, rows=curator.part(user, self.sizes))

    def _coordinate(self, point: Array, j: int, values: Array) -> Array:
        return rotated_gradients(self.problem, point, self.rotation[j], values)


@dataclass(frozen=True, eq=False)
class VoteQuery:
    """1 for the bin of one user's number, 0 for the others: (trials, bins)."""

    coordinate: Callable[[Array], Array]
    edges: Array
    norm: Norm = field(default="linf", init=False)

    def value(self, records: Records, chosen: NDArray[np.bool_] | None = None) -> Array:
        found = self.coordinate(records.values)[:, 0]
        last = len(self.edges) - 2
        bins = np.clip(np.searchsorted(self.edges, found, side="right") - 1, 0, last)
        return np.asarray(np.eye(last + 1)[bins])

    def sensitivity(self, adjacency: Adjacency, size: int) -> Array:
        return np.array(1.0)


def own_rounds(
    problem: Problem, epsilon: object, delta: object, radius: float, step: float
) -> WinsorizedMeanDPSGD:
    """T = n rounds on batches of B = sqrt(n) users, as Figure 1 counts them: n^(3/2) m gradients.

    A round gets e' = epsilon / sqrt(8 T log(1/delta)): then e' sqrt(2 T log(1/delta)) and T e'
    (exp(e') - 1) are half of epsilon each at most (Dwork, Rothblum and Vadhan 2010).  Before
    amplification by B / n that is log(1 + (exp(e') - 1) n / B), for p ranges and p means.
    Errors: InvalidParameter for an epsilon outside (0, 1].
    Source: Bassily, Sun 2023, by their gradient complexity; constants ours.
    """
    budgeted, chance = budget(epsilon, delta)
    if budgeted > 1:
        raise InvalidParameter(f"epsilon = {float(budgeted):g}: expected at most 1")
    users = problem.users
    batch = max(1, math.isqrt(users))
    logarithm = math.log(1 / float(chance))
    each = float(budgeted) / math.sqrt(8 * users * logarithm)
    share = math.log1p(math.expm1(each) * users / batch)
    coordinates = len(rotation(problem.dimension))
    spent = Fraction(f"{share / (2 * coordinates) * (1 - 1e-9):.12e}")
    return WinsorizedMeanDPSGD(problem, batch, users, spent, radius, step)
