"""The function that attains the exact profile of a stable release, and its closed form.

Users: the larger of two groups first, then the other, then fillers, the changed user last (value
below 1/2 in one data set, above in the other).  The function is about 0 with one group deleted,
and a million away elsewhere, so that one data set is made stable by deleting the first group only,
its neighbour by deleting the second only.  On the way each deleted or added user is one unit (path
stability: |f(x) - f(x')| = (s + t + 2) units), or the changed user alone is (diameter: 2 units).
A group of 2 kappa + 1 users makes its data set one without a stable set.
Source: ours (dpaudit 2026), for Ghazi et al. 2023, Algorithm 1.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from dpaudit.errors import InvalidParameter
from dpaudit.families.stability import Distance
from dpaudit.kernels.query import Array, Records
from dpaudit.nodes import Assumption
from dpaudit.scope import choose
from mechanisms.papers.stable_erm.stable import Flags, Found, Statistic

FAR = 1e6


@dataclass(frozen=True)
class Adversarial:
    """(1, subsets, 1): stable after ``score`` deletions in one data set, ``other`` in the next.

    Errors: InvalidParameter for scores more than 1 apart, or another stability.
    """

    score: int
    other: int
    unit: float = 1.0
    stability: str = Distance.PATH
    trials: int = field(default=1, init=False)

    def __post_init__(self) -> None:
        choose(Distance, self.stability, "stability")
        if abs(self.score - self.other) > 1 or min(self.score, self.other) < 0:
            raise InvalidParameter(
                f"scores {self.score}, {self.other}: expected at most 1 apart, not negative"
            )

    def of(self, chosen: Flags) -> Adversarial:
        return self

    def at(self, users: Array, kept: Flags) -> Array:
        here = kept[:, -1]
        second = bool(users[-1, 0, 0] > 0.5)
        groups = self._groups(kept)
        low = (groups[0] == 0) & ~(here & second)
        high = (groups[1] == 0) & ~(here & ~second)
        on_the_way = groups if self.stability == Distance.PATH else (0, 0)
        down = -(on_the_way[1] + here) * self.unit
        up = (on_the_way[0] + here) * self.unit
        values = np.where(low, down, np.where(high, up, FAR * self.unit))
        return np.asarray(np.where(low & high, 0.0, values)[None, :, None])

    def _groups(self, kept: Flags) -> tuple[Array, Array]:
        """How many users of the first group (those of the score) and of the other are kept."""
        sizes = (self.score, self.other)
        larger, rest = max(sizes), min(sizes)
        counts = kept[:, :larger].sum(axis=1), kept[:, larger : larger + rest].sum(axis=1)
        first, second = counts if self.score >= self.other else counts[::-1]
        return first.astype(np.float64), second.astype(np.float64)

    def records(self, users: int, version: int) -> Records:
        """One of the two data sets: one item a user, 0 everywhere but in the changed user's."""
        values = np.zeros((users, 1, 1))
        values[-1] = float(version)
        return Records(values)


@dataclass(frozen=True)
class Oracle:
    """The closed form of :class:`Adversarial`: real kappas, where no enumeration ends.

    A user above 1/2, wherever, makes it the second data set.
    ``stability``: under "diameter" the two vectors are 2 units apart, whatever the scores.
    ``assumption``: that of the search it stands in for, so that the declaration stays the same.
    """

    score: int
    other: int
    stability: str = Distance.PATH
    assumption: Assumption | None = None

    @property
    def distance(self) -> Distance:
        return Distance(self.stability)

    def check(self, users: int, kappa: int) -> None:
        """Errors: InvalidParameter where the groups do not fit."""
        if users < self.score + self.other + 1 or max(self.score, self.other) > 2 * kappa + 1:
            raise InvalidParameter(
                f"scores {self.score}, {self.other}: expected at most 2 kappa + 1 = "
                f"{2 * kappa + 1}, and {self.score + self.other + 1} users, not {users}"
            )

    def find(self, statistic: Statistic, users: Array, unit: Array | float, kappa: int) -> Found:
        second = bool((users[:, 0, 0] > 0.5).any())
        score, other = (self.other, self.score) if second else (self.score, self.other)
        moved = other + 1.0 if self.distance is Distance.PATH else 1.0
        passable = 0.0 if score > 2 * kappa else moved
        return Found(np.array([float(score)]), (1 if second else -1) * passable * column(unit))


def column(unit: Array | float) -> Array:
    """A unit as vectors of one coordinate, (trials, 1)."""
    return np.reshape(np.asarray(unit, dtype=np.float64), (-1, 1))
