"""A private mean of concentrated vectors: test, remove outliers, release with noise, or bottom.

Privacy rests on no property of the vectors: each is a function of its own group of users and of
public values only.
Source: Lowy, Liu, Asi 2024, Algorithm 1, lines 9 to 22.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dpaudit.curator.curator import Curator
from dpaudit.errors import InvalidParameter
from dpaudit.families.stability.coupled_kernel import packed
from dpaudit.kernels.query import Array, Norm, Records, clip_rows
from dpaudit.nodes import Node
from dpaudit.scope import Adjacency, Scope
from mechanisms.papers.user_level.constants import Inliers, ReleaseConstants
from mechanisms.papers.user_level.points import (
    counts_within,
    inlier_probabilities,
    score_of_counts,
    weighted_inlier_mean,
)
from mechanisms.papers.user_level.problem import check_scope, positive, users_of, whole

RELEASE = "mean"


@dataclass(frozen=True, eq=False)
class OutlierRemovedQuery:
    """(score, mean or what it is drawn from): what a :class:`ProposeTestRelease` leaf takes.

    ``points``: users (n, items, features) to (trials, C, d), point j a function of group j alone;
    ``radius``: tau, public, a number or (trials,).  The score counts pairs within tau, inliers
    those within 2 tau.
    Errors: InvalidParameter for a radius that is not positive and finite.
    """

    points: Callable[[Array], Array]
    radius: Array | float
    constants: ReleaseConstants
    items: int
    norm: Norm = field(default="l2", init=False)

    def __post_init__(self) -> None:
        radius = np.asarray(self.radius, dtype=np.float64)
        if not (np.isfinite(radius) & (radius > 0)).all():
            raise InvalidParameter("radius tau: expected positive, finite numbers")

    def value(self, records: Records, chosen: NDArray[np.bool_] | None = None) -> Array:
        """The score less its threshold, in sensitivities; then the mean, or points with coins."""
        if chosen is not None:
            raise InvalidParameter("outliers are removed on all rows of a part, on no secret batch")
        points = self.points(users_of(records.values, self.items))
        near, far = counts_within(points, self.radius, (1.0, 2.0))
        score = score_of_counts(near) - float(self.constants.threshold)
        head = (score / float(self.constants.score_sensitivity))[:, None]
        probabilities = inlier_probabilities(far)
        if self.constants.inliers == Inliers.RANDOM:
            return np.hstack([head, packed(probabilities, points)])
        return np.hstack([head, weighted_inlier_mean(probabilities, points)])

    def sensitivity(self, adjacency: Adjacency, size: int) -> Array:
        """The release's unit.  Errors: InvalidParameter under another adjacency, or too few."""
        if adjacency is not Adjacency.REPLACE_ONE:
            raise InvalidParameter(
                f"outliers under {adjacency}: groups of users are fixed under replace_one only"
            )
        check_users(size, self.constants.groups, "OutlierRemovedQuery")
        return np.asarray(float(self.constants.unit) * np.asarray(self.radius, dtype=np.float64))


def check_users(users: int, groups: int, place: str) -> None:
    """Errors: InvalidParameter for fewer users than groups."""
    if users < groups:
        raise InvalidParameter(
            f"{place}: {users} users are too few for C = {groups} groups: it needs {groups} users"
        )


@dataclass(frozen=True)
class OutlierRemovedMean:
    """The mean of clipped user means without outliers, (trials, d); NaN where it halts.

    ``radius``: tau, fixed without the data; too small a one costs halts, never privacy.  Groups
    are of floor(n / C) users; every item is clipped to l2 norm ``bound``, which privacy does not
    need.
    Errors: InvalidParameter for fewer users than groups.
    """

    users: int
    items: int
    radius: float
    bound: float
    constants: ReleaseConstants

    def __post_init__(self) -> None:
        for name in ("users", "items"):
            whole(getattr(self, name), name)
        for name in ("radius", "bound"):
            positive(getattr(self, name), name)
        check_users(self.users, self.constants.groups, type(self).__name__)

    def declaration(self, scope: Scope) -> Node:
        check_scope(scope, type(self).__name__)
        return self.constants.node(RELEASE)

    def points(self, users: Array) -> Array:
        """Means over groups of clipped items, (1, C, d)."""
        groups = self.constants.groups
        each = len(users) // groups
        rows = users[: groups * each].reshape(1, groups * each * self.items, -1)
        clipped = clip_rows(rows, np.array([self.bound]))
        return np.asarray(clipped.reshape(1, groups, each * self.items, -1).mean(axis=2))

    def run(self, curator: Curator) -> Array:
        query = OutlierRemovedQuery(self.points, self.radius, self.constants, self.items)
        return curator.release(RELEASE, query)
