"""Algorithm 2 as its lines can be read: slots drawn independently, or a threshold drawn anew.

Both keep the test alone: what it reveals, the whole algorithm reveals, since the output of a run
that halts is the start.  The paper elsewhere speaks against either reading.
Source: Lowy, Liu, Asi 2024, Algorithm 2, lines 3 and 4; the counterexamples are ours.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from dpaudit.curator.curator import Curator
from dpaudit.errors import InvalidParameter, Unsupported
from dpaudit.families.composition import Compose, Parallel
from dpaudit.families.events import EventSlack
from dpaudit.families.opaque import NonPrivate
from dpaudit.families.selection import AboveThreshold, NoisyComparisons
from dpaudit.families.selection.random_query_kernel import query_law
from dpaudit.kernels.query import Array, Norm, Records
from dpaudit.nodes import Node
from dpaudit.scope import Adjacency, Scope
from mechanisms.papers.user_level.accelerated import GRADIENT, SCORE, BatchScoreQuery
from mechanisms.papers.user_level.batches import (
    SHARE,
    BatchConstants,
    appendix_d_batch,
    printed_batches,
)
from mechanisms.papers.user_level.constants import budget
from mechanisms.papers.user_level.phased_sgd import printed_sizes
from mechanisms.papers.user_level.points import even
from mechanisms.papers.user_level.problem import Problem, check_scope, positive, whole

LEVELS = 16_384
CROWDED = "a user fills more slots of a round than the noise is declared for"


@dataclass(frozen=True)
class Halted:
    """In which trials a run halted, (trials,): whether its output is the start."""

    halted: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class SlotScoreQuery:
    """The law of (4 K / 5 - score) of K slots, each a user drawn independently and in secret.

    Exact for users of two kinds, and normal for more: the slots are millions.
    ``sensitivity`` is that of a user who fills ``filled`` slots: 2 c (K - c) / K.
    """

    slots: int
    filled: int
    radius: float
    norm: Norm = field(default="l1", init=False)

    def value(self, records: Records, chosen: NDArray[np.bool_] | None = None) -> Array:
        from scipy.spatial.distance import cdist

        kinds, origin = records.distinct()
        points = kinds.reshape(len(kinds), -1, kinds.shape[-1]).mean(axis=1)
        near = (cdist(points, points) <= 2 * self.radius) | np.eye(len(kinds), dtype=bool)
        return _score_law(tuple(map(int, np.bincount(origin))), near.tobytes(), self.slots)

    def sensitivity(self, adjacency: Adjacency, size: int) -> Array:
        return np.array(moved_score(self.slots, self.filled))


@lru_cache(maxsize=16)
def _score_law(users: tuple[int, ...], near: bytes, slots: int) -> Array:
    """The law of 4 K / 5 - score; ``near``: which kinds are near to which."""
    pairs = np.frombuffer(near, dtype=np.bool_).reshape(len(users), -1).astype(np.float64)
    if len(users) > 2:
        score, masses = _normal_score(np.array(users) / sum(users), pairs, slots)
    else:
        counts, masses = slot_counts(np.array(users), slots)
        score = np.einsum("tk,tk->t", counts @ pairs, counts) / slots
    found = query_law(float(SHARE) * slots - score, masses)
    found.flags.writeable = False
    return found


def _normal_score(shares: Array, pairs: Array, slots: int) -> tuple[Array, Array]:
    """Scores within ten standard deviations, and the normal law's masses of them."""
    around = shares @ pairs
    mean = (slots - 1) * float(around @ shares) + float(shares @ np.diag(pairs))
    spread = 2 * math.sqrt(max(slots * float(shares @ (around - around @ shares) ** 2), 0.0))
    far = np.linspace(-10, 10, LEVELS)
    below = ndtr((far[1:] + far[:-1]) / 2)
    return mean + spread * far, np.diff(below, prepend=0.0, append=1.0)


def moved_score(slots: int, filled: int) -> float:
    """2 c (K - c) / K: pairs of the c slots with the others, each counted twice."""
    return 2 * filled * (slots - filled) / slots


def slot_counts(users: NDArray[np.intp], slots: int) -> tuple[Array, Array]:
    """How many of K independent slots one kind of users fills, or two: (LEVELS, kinds); how often.

    All counts within LEVELS / 2 of the mean, the ends with what is beyond them.
    """
    first, masses = _binomial(slots, int(users[0]), int(users.sum()))
    return np.stack([first, slots - first], axis=1)[:, : len(users)], masses


@lru_cache(maxsize=16)
def _binomial(slots: int, users: int, among: int) -> tuple[Array, Array]:
    from scipy.stats import binom

    rate = users / among
    counts = int(slots * rate) - LEVELS // 2 + np.arange(LEVELS)
    below = binom.cdf(counts[:-1], slots, rate)
    masses = np.diff(below, prepend=0.0, append=1.0)
    return np.clip(counts, 0, slots).astype(np.float64), masses


def most_filled(users: int, slots: int, rounds: int, chance: float) -> int:
    """The least c with T P(Bin(K, 1/n) > c) <= chance: slots that one user fills."""
    from scipy.stats import binom

    return int(binom.isf(chance / rounds, slots, 1 / users)) + 1


@dataclass(frozen=True)
class IndependentSlotsTest:
    """The test of Algorithm 2 whose K slots are drawn independently from the users.

    ``filled``: slots that the replaced user fills at most, but for an event of probability
    ``chance`` over all rounds; the paper's noise, 8 / epsilon and 16 / epsilon, is for one slot.
    """

    users: int
    slots: int
    filled: int
    rounds: int
    epsilon: Fraction
    radius: float
    chance: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        for name in ("users", "slots", "filled", "rounds"):
            whole(getattr(self, name), name)
        positive(self.radius, "radius")

    def declaration(self, scope: Scope) -> Node:
        """The printed noise over the sensitivity of a user in ``filled`` slots."""
        check_scope(scope, type(self).__name__)
        moved = Fraction(2 * self.filled * (self.slots - self.filled), self.slots)
        share = moved * self.epsilon / 8
        test = AboveThreshold(SCORE, share, share)
        return EventSlack(test, self.chance, CROWDED) if self.chance else test

    def run(self, curator: Curator) -> Halted:
        on = np.ones(curator.trials, dtype=bool)
        query = SlotScoreQuery(self.slots, self.filled, self.radius)
        for _ in range(self.rounds):
            on = on & (curator.release(SCORE, query)[:, 0] == 0)
        return Halted(~on)


@dataclass(frozen=True)
class RedrawnThresholdTest:
    """The test of Algorithm 2 whose threshold noise is drawn in every round, all users a batch.

    A run halts at the first answer that is yes, and only answers are released.  ``margin``: by how
    much the score of one data set exceeds 4 K / 5, where what leaks is known exactly.
    """

    users: int
    items: int
    rounds: int
    epsilon: Fraction
    radius: float
    margin: Fraction

    def __post_init__(self) -> None:
        whole(self.rounds, "rounds")
        positive(self.radius, "radius")
        self.constants()

    def constants(self) -> BatchConstants:
        """Those of Algorithm 2; its noise on gradients plays no part."""
        return BatchConstants(self.users, self.rounds, self.epsilon, Fraction(1))

    def declaration(self, scope: Scope) -> Node:
        """An answer a round, Laplace noise of scale 8 / epsilon and 16 / epsilon."""
        check_scope(scope, type(self).__name__)
        moved = self.constants().score_sensitivity
        threshold, query = (Fraction(k) / self.epsilon / moved for k in (8, 16))
        return NoisyComparisons(SCORE, threshold, query, self.margin / moved, self.rounds)

    def run(self, curator: Curator) -> Halted:
        on = np.ones(curator.trials, dtype=bool)
        query = BatchScoreQuery(_means, self.radius, self.constants(), self.items)
        for _ in range(self.rounds):
            if not on.any():
                break
            on = on & (curator.release(SCORE, query, on=on)[:, 0] == 0)
        return Halted(~on)


def _means(users: Array) -> Array:
    """Gradients of the linear loss: the users' means, (1, n, d)."""
    return np.asarray(users.mean(axis=1))[None]


AMPLIFIED = (
    "the answers of the threshold test depend on the secret batches: given them a batch is no "
    "longer uniform, and amplification by subsampling is unproved"
)


@dataclass(frozen=True)
class SecretBatchSGD:
    """Phases of Algorithm 2 on secret batches of K_i < n_i users, without replacement every round.

    ``phases``: users of each, and the constants of a batch of K_i.  Declared, not run.
    Errors: InvalidParameter for no phase, or where K_i is all the users; use
    :class:`UserLevelAcceleratedSGD`.
    """

    phases: tuple[tuple[int, BatchConstants], ...]

    def __post_init__(self) -> None:
        if not self.phases:
            raise InvalidParameter("SecretBatchSGD: expected at least one phase")
        for users, constants in self.phases:
            if constants.batch >= users:
                raise InvalidParameter(f"batch of {constants.batch} from {users} users: use all")

    def declaration(self, scope: Scope) -> Node:
        check_scope(scope, type(self).__name__)
        each = (
            Compose(NonPrivate(AMPLIFIED), constants.node(f"{SCORE} {i}", f"{GRADIENT} {i}"))
            for i, (_, constants) in enumerate(self.phases, 1)
        )
        return Parallel(*each)

    def run(self, curator: Curator) -> Halted:
        """Errors: Unsupported: no curator draws secret batches across a threshold test."""
        raise Unsupported("secret batches across a threshold test cannot be run: use K = n")


def appendix_d_phases(
    problem: Problem, epsilon: object, delta: object, shrink: float = 0.1, count: int = 1
) -> SecretBatchSGD:
    """K_i and T_i of Appendix D for the first phases of smoothed Algorithm 3.

    T_i = 1 + n_i^(3/4) m^(1/2) eps^(1/2) log(n d m).  Source: Theorem D.3.
    """
    users, items, size = problem.users, problem.items, problem.dimension
    budgeted = budget(epsilon, delta)
    floats = float(budgeted[0]), float(budgeted[1])
    logarithm = math.log(users * size * items)
    phases = []
    for n in printed_sizes(users, shrink, count):
        rounds = 1 + math.ceil(n**0.75 * math.sqrt(items * floats[0]) * logarithm)
        batch = even(appendix_d_batch(users * items, n, size, *floats, rounds))
        phases.append((n, printed_batches(users, n, size, *budgeted, rounds, batch)))
    return SecretBatchSGD(tuple(phases))
