"""AboveThreshold as the paper uses it: counts of users against a secret, noisy threshold.

Source: Lowy, Liu, Asi 2024, Algorithm 4, whose noise is repaired: it prints one scale, of the
threshold, for both; Dwork, Roth 2014, Theorem 3.24 has 2 / epsilon and, on queries, 4 / epsilon.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpaudit.curator.curator import Curator
from dpaudit.errors import InvalidParameter
from dpaudit.families.selection import AboveThreshold
from dpaudit.kernels.query import Array, Norm, Records
from dpaudit.nodes import Node
from dpaudit.scope import Adjacency, Scope, choose
from mechanisms.papers.user_level.problem import check_scope, positive, users_of, whole

BIT = "bit"


class Direction(StrEnum):
    """Where a stream of queries halts: at the first above its threshold, or the first below."""

    ABOVE = "above"
    BELOW = "below"


@dataclass(frozen=True, eq=False)
class CountQuery:
    """sign * (how many users satisfy a condition - target): one user moves it by 1."""

    holds: Callable[[Array], NDArray[np.bool_]]
    target: int
    sign: int
    items: int
    norm: Norm = field(default="l1", init=False)

    def value(self, records: Records, chosen: NDArray[np.bool_] | None = None) -> Array:
        if chosen is not None:
            raise InvalidParameter("a threshold test spans queries: it takes no secret batch")
        count = int(self.holds(users_of(records.values, self.items)).sum())
        return np.array([[float(self.sign * (count - self.target))]])

    def sensitivity(self, adjacency: Adjacency, size: int) -> Array:
        return np.array(1.0)


@dataclass(frozen=True)
class FirstLevel:
    """In which trials the stream halted, and at which query, counted from 0 (-1: at none)."""

    halted: NDArray[np.bool_]
    index: NDArray[np.int64]


@dataclass(frozen=True)
class AboveThresholdCounts:
    """The first of ``levels`` that at least ``target`` users reach on average, or fewer do.

    Pure epsilon: Laplace noise 2 / epsilon on the threshold, once, and 4 / epsilon on every count.
    Errors: InvalidParameter for no level, or an epsilon that is not positive.
    """

    items: int
    levels: tuple[float, ...]
    target: int
    epsilon: Fraction
    direction: str = Direction.ABOVE

    def __post_init__(self) -> None:
        object.__setattr__(self, "direction", choose(Direction, self.direction, "direction"))
        whole(self.items, "items")
        whole(self.target, "target")
        if not self.levels:
            raise InvalidParameter("levels: expected at least one")
        positive(float(self.epsilon), "epsilon")

    def declaration(self, scope: Scope) -> Node:
        check_scope(scope, type(self).__name__)
        return AboveThreshold(BIT, self.epsilon / 2, self.epsilon / 2)

    def run(self, curator: Curator) -> FirstLevel:
        sign = 1 if self.direction == Direction.ABOVE else -1
        halted = np.zeros(curator.trials, dtype=bool)
        index = np.full(curator.trials, -1)
        for k, level in enumerate(self.levels):
            query = CountQuery(self._reaching(level), self.target, sign, self.items)
            yes = curator.release(BIT, query)[:, 0] == 1
            index[yes & ~halted] = k
            halted = halted | yes
            if halted.all():
                break
        return FirstLevel(halted, index)

    def _reaching(self, level: float) -> Callable[[Array], NDArray[np.bool_]]:
        return lambda users: np.asarray(users[..., 0].mean(axis=1) >= level)
