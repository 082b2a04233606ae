"""Algorithm 2 as its lines can be read: slots drawn independently, or a threshold drawn anew.

Both keep the test alone: what it reveals, the whole algorithm reveals, since the output of a run
that halts is the start.  The paper elsewhere speaks against either reading.
Source: Lowy, Liu, Asi 2024, Algorithm 2, lines 3 and 4; the counterexamples are ours.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dpaudit.curator import Curator
from dpaudit.errors import InvalidParameter, Unsupported
from dpaudit.nodes import AboveThreshold, Compose, Laplace, Node, NonPrivate, Repeat
from dpaudit.query import Array, Norm, Records
from dpaudit.scope import Adjacency, Scope
from mechanisms.user_level.accelerated import GRADIENT, SCORE, BatchScoreQuery
from mechanisms.user_level.batches import SHARE, BatchConstants
from mechanisms.user_level.problem import check_scope, positive, whole

MOST_KINDS = 8


@dataclass(frozen=True)
class Halted:
    """In which trials a run halted, (trials,): whether its output is the start."""

    halted: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class SlotScoreQuery:
    """(4 K / 5 - score) of K slots, each a user drawn independently: (trials, 1).

    ``coins``: (trials, 8) uniform numbers, from which the slots of every kind of users are counted.
    ``sensitivity`` is that of a user who fills ``filled`` slots: 2 c (K - c) / K.
    """

    coins: Array
    slots: int
    filled: int
    radius: float
    norm: Norm = field(default="l1", init=False)

    def value(self, records: Records, chosen: NDArray[np.bool_] | None = None) -> Array:
        from scipy.spatial.distance import cdist

        kinds, origin = records.distinct()
        points = kinds.reshape(len(kinds), -1, kinds.shape[-1]).mean(axis=1)
        counts = slot_counts(self.coins, np.bincount(origin), self.slots)
        near = cdist(points, points) <= 2 * self.radius
        score = np.einsum("tk,kl,tl->t", counts, near.astype(np.float64), counts) / self.slots
        return np.asarray(float(SHARE) * self.slots - score)[:, None]

    def sensitivity(self, adjacency: Adjacency, size: int) -> Array:
        return np.array(moved_score(self.slots, self.filled))


def moved_score(slots: int, filled: int) -> float:
    """2 c (K - c) / K: pairs of the c slots with the others, each counted twice."""
    return 2 * filled * (slots - filled) / slots


def slot_counts(coins: Array, users: NDArray[np.intp], slots: int) -> Array:
    """How many of K independent slots each kind of users fills, (trials, kinds): multinomial.

    Errors: InvalidParameter for more than 8 kinds.
    """
    if len(users) > MOST_KINDS:
        raise InvalidParameter(f"{len(users)} kinds of users: at most {MOST_KINDS} are counted")
    left, among = np.full(len(coins), slots), int(users.sum())
    columns = []
    for k, size in enumerate(map(int, users[:-1])):
        columns.append(_binomial(coins[:, k], left, Fraction(size, among)))
        left, among = left - columns[-1], among - size
    return np.stack([*columns, left], axis=1).astype(np.float64)


def _binomial(coins: Array, trials: NDArray[np.int64], rate: Fraction) -> NDArray[np.int64]:
    if (trials == trials[0]).all():
        low, levels = _levels(int(trials[0]), rate)
        return np.asarray(low + np.searchsorted(levels, coins))
    from scipy.stats import binom

    return np.asarray(binom.ppf(coins, trials, float(rate)), dtype=np.int64)


@lru_cache(maxsize=64)
def _levels(trials: int, rate: Fraction) -> tuple[int, Array]:
    """The lowest count, and P(count <= low + k): all but e^-70 of a binomial."""
    from scipy.stats import binom

    mean = trials * float(rate)
    width = 12 * np.sqrt(mean * (1 - float(rate))) + 50
    low, high = int(max(0, mean - width)), int(min(trials, mean + width))
    return low, binom.cdf(np.arange(low, high), trials, float(rate))


@dataclass(frozen=True)
class IndependentSlotsTest:
    """The test of Algorithm 2 whose K slots are drawn independently from the users.

    ``filled``: slots that the replaced user fills, K / n on average; the paper's noise, 8 / epsilon
    and 16 / epsilon, is for one slot.
    """

    users: int
    slots: int
    filled: int
    rounds: int
    epsilon: Fraction
    radius: float

    def __post_init__(self) -> None:
        for name in ("users", "slots", "filled", "rounds"):
            whole(getattr(self, name), name)
        positive(self.radius, "radius")

    def declaration(self, scope: Scope) -> Node:
        """The printed noise over the sensitivity of a user in ``filled`` slots."""
        check_scope(scope, type(self).__name__)
        moved = Fraction(2 * self.filled * (self.slots - self.filled), self.slots)
        share = moved * self.epsilon / 8
        return AboveThreshold(SCORE, share, share)

    def run(self, curator: Curator) -> Halted:
        on = np.ones(curator.trials, dtype=bool)
        for _ in range(self.rounds):
            coins = curator.coin(lambda rng: rng.random((curator.trials, MOST_KINDS)))
            query = SlotScoreQuery(coins, self.slots, self.filled, self.radius)
            on = on & (curator.release(SCORE, query)[:, 0] == 0)
        return Halted(~on)


@dataclass(frozen=True)
class RedrawnThresholdTest:
    """The test of Algorithm 2 whose threshold noise is drawn in every round, all users a batch.

    The noisy scores are released, the thresholds are public: no less private than the bits, whose
    law is the same.
    """

    users: int
    items: int
    rounds: int
    epsilon: Fraction
    radius: float

    def __post_init__(self) -> None:
        whole(self.rounds, "rounds")
        positive(self.radius, "radius")
        self.constants()

    def constants(self) -> BatchConstants:
        """Those of Algorithm 2; its noise on gradients plays no part."""
        return BatchConstants(self.users, self.rounds, self.epsilon, Fraction(1))

    def declaration(self, scope: Scope) -> Node:
        """A Laplace release a round, epsilon / 8 each."""
        check_scope(scope, type(self).__name__)
        scale = 16 / self.epsilon / self.constants().score_sensitivity
        return Repeat(Laplace(SCORE, scale), self.rounds)

    def run(self, curator: Curator) -> Halted:
        on, width = np.ones(curator.trials, dtype=bool), 8 / float(self.epsilon)
        query = BatchScoreQuery(_means, self.radius, self.constants(), self.items)
        for _ in range(self.rounds):
            xi = curator.coin(lambda rng: width * rng.laplace(size=curator.trials))
            on = on & (curator.release(SCORE, query)[:, 0] <= -xi)
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
    """Algorithm 2 on secret batches of K < n users, drawn without replacement in every round.

    ``base``: the same constants on a batch of K users.  Declared, not run.
    Errors: InvalidParameter where K is all the users; use :class:`UserLevelAcceleratedSGD`.
    """

    users: int
    base: BatchConstants

    def __post_init__(self) -> None:
        if self.base.batch >= self.users:
            raise InvalidParameter(f"batch of {self.base.batch} from {self.users} users: use all")

    def declaration(self, scope: Scope) -> Node:
        check_scope(scope, type(self).__name__)
        return Compose(NonPrivate(AMPLIFIED), self.base.node(SCORE, GRADIENT))

    def run(self, curator: Curator) -> Halted:
        """Errors: Unsupported: no curator draws secret batches across a threshold test."""
        raise Unsupported("secret batches across a threshold test cannot be run: use K = n")
