"""Output perturbation at a stable subset of users, with a bottom outcome.

A smallest set of users is sought whose deletion makes a function stable; where its size is at most
a secret threshold, the function of the other users is released with Gaussian noise, else bottom.
Privacy rests on no property of the data, and of the function only that it depends on nothing but
the kept users and public values.
Source: Ghazi et al. 2023, Algorithms 1 and 2.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit.curator.curator import Curator, Part
from dpaudit.errors import InvalidParameter
from dpaudit.families.composition import Assuming, Compose
from dpaudit.families.opaque import NonPrivate
from dpaudit.kernels.query import Array, Norm, Records
from dpaudit.nodes import Node
from dpaudit.scope import Adjacency, Scope, Trust, Unit
from mechanisms.papers.stable_erm.calibration import Constants, Noise
from mechanisms.papers.stable_erm.problem import DeltaRule, Problem
from mechanisms.papers.stable_erm.solver import Minimiser
from mechanisms.papers.stable_erm.stable import (
    Enumeration,
    Found,
    Search,
    Statistic,
    UserMean,
    nothing,
)

RELEASE = "release"
EQUAL_ITEMS = (
    "every user has equally many, m (Theorem 3.1): drop or repeat items, by a rule that no data "
    "decide"
)


@dataclass(frozen=True, eq=False)
class StableQuery:
    """(score, vector): shape (trials, 1 + d); one user moves the score by at most 1.

    ``unit``: Delta (or D), public, a number or (trials,), in the units of the vector.  With fewer
    than 4 kappa + 2 users, which is public, the score is 2 kappa + 1: nothing is released.
    ``items``: how many every user has; None where the statistic does not say.
    Errors: InvalidParameter for a unit that is not positive and finite.
    Source: Ghazi et al. 2023, Observation 3.5.
    """

    statistic: Statistic
    search: Search
    unit: Array | float
    kappa: int
    users: int
    items: int | None = None
    norm: Norm = field(default="l2", init=False)

    def __post_init__(self) -> None:
        if not (np.isfinite(self.unit) & (np.asarray(self.unit) > 0)).all():
            raise InvalidParameter(f"unit = {self.unit}: expected a positive number")

    def value(self, records: Records, chosen: NDArray[np.bool_] | None = None) -> Array:
        """Score and vector of all records; deterministic.

        Errors: InvalidParameter for another number of items a user than was declared.
        """
        if chosen is not None:
            raise InvalidParameter("a stable release takes no secret batch")
        users = user_array(records.values)
        if self.items not in (None, users.shape[1]):
            raise InvalidParameter(
                f"records: {users.shape[1]} items a user, expected {self.items}: {EQUAL_ITEMS}"
            )
        if len(users) < 4 * self.kappa + 2:
            return joined(nothing(self.statistic, users, self.kappa))
        return joined(self.search.find(self.statistic, users, self.unit, self.kappa))

    def sensitivity(self, adjacency: Adjacency, size: int) -> Array:
        """One unit; what a score and a vector may move by is said by the leaf's distance.

        Errors: InvalidParameter under another adjacency than replace_one: without a user one level
        of stability less is left, and the score may jump; for another number of users than was
        declared; for a search that would never end.
        """
        if adjacency is not Adjacency.REPLACE_ONE:
            raise InvalidParameter(
                f"a stable release under {adjacency}: its score is bounded under replace_one "
                "only; put a null user in the place of an absent one"
            )
        if size != self.users:
            raise InvalidParameter(f"a stable release for {self.users} users was given {size}")
        if size >= 4 * self.kappa + 2:
            self.search.check(size, self.kappa)
        return np.array(self.unit)


@dataclass(frozen=True, eq=False)
class LaplaceQuery(StableQuery):
    """(kappa - score, number), for a test of its own and Laplace noise: shape (trials, 2).

    ``farthest``: how many units apart two neighbours' numbers may be.
    """

    farthest: int = 1

    def value(self, records: Records, chosen: NDArray[np.bool_] | None = None) -> Array:
        """The test passes where kappa - score + noise in -kappa..kappa is not negative."""
        found = super().value(records, chosen)
        found[:, 0] = self.kappa - found[:, 0]
        return found

    def sensitivity(self, adjacency: Adjacency, size: int) -> Array:
        """How far the number moves; the score's is 1.  Errors: as :class:`StableQuery`."""
        return np.asarray(super().sensitivity(adjacency, size) * self.farthest)


def query_of(
    constants: Constants,
    statistic: Statistic,
    search: Search,
    unit: Array | float,
    users: int,
    items: int | None = None,
) -> StableQuery:
    """The query that the constants' leaf takes."""
    kappa = constants.kappa
    if constants.noise == Noise.LAPLACE:
        return LaplaceQuery(statistic, search, unit, kappa, users, items, constants.farthest)
    return StableQuery(statistic, search, unit, kappa, users, items)


def user_array(values: Array) -> Array:
    """Rows as (users, items, features); a row of one axis is one item a user."""
    return values if values.ndim == 3 else values.reshape(len(values), 1, -1)


def joined(found: Found) -> Array:
    """(trials, 1 + d): scores, then vectors; finite whatever a search made of the data."""
    trials = max(len(found.scores), len(found.vectors))
    scores = np.broadcast_to(found.scores, (trials,))
    vectors = np.broadcast_to(found.vectors, (trials, found.vectors.shape[1]))
    return np.column_stack([scores, np.nan_to_num(vectors)])


def check_scope(scope: Scope, place: str) -> None:
    """Errors: InvalidParameter for anything but replace_one of a user and a trusted curator."""
    if (scope.adjacency, scope.unit, scope.trust) != (
        Adjacency.REPLACE_ONE,
        Unit.USER,
        Trust.CENTRAL,
    ):
        raise InvalidParameter(f"{place} declares its noise for replace_one of a user: {scope}")


def check_users(users: int, constants: Constants, place: str) -> None:
    """Errors: InvalidParameter for fewer users than 4 kappa + 2."""
    needed = constants.fewest_users
    if not hasattr(users, "__index__") or users < needed:
        raise InvalidParameter(
            f"{place}: {users} users are too few for kappa = {constants.kappa}: it needs at least "
            f"4 kappa + 2 = {needed} (Algorithm 1), and Theorem 3.1 shows utility from 8 kappa + 2 "
            f"= {8 * constants.kappa + 2}; use more users, or constants of a smaller kappa"
        )


def declared(leaf: Node, search: Any) -> Node:
    """The leaf, with what its guarantee rests on, or why there is none, as the search says."""
    reason, assumption = getattr(search, "not_private", ""), getattr(search, "assumption", None)
    if reason:
        return Compose(NonPrivate(reason), leaf)
    return leaf if assumption is None else Assuming(leaf, assumption)


@dataclass(frozen=True)
class DeletionStableOutputPerturbation:
    """One stable release of ``statistic``: (trials, d), NaN where the outcome is bottom.

    ``unit``: Delta, fixed without the data; ``constants``: see
    :mod:`mechanisms.papers.stable_erm.calibration`, Laplace noise (d = 1) with ``noise="laplace"``;
    ``search`` must measure the stability that the constants are for.
    Errors: InvalidParameter for fewer users than 4 kappa + 2, a search of another stability.
    Source: Ghazi et al. 2023, Algorithm 1, at level 4 kappa - |S|.
    """

    users: int
    unit: float
    constants: Constants
    statistic: Statistic = UserMean()
    search: Search = Enumeration()

    def __post_init__(self) -> None:
        check_users(self.users, self.constants, type(self).__name__)
        check_distance(self.search, self.constants)
        self.query()

    def declaration(self, scope: Scope) -> Node:
        """A :class:`StableRelease`; errors: see :func:`check_scope`."""
        check_scope(scope, type(self).__name__)
        return declared(self.constants.leaf(RELEASE), self.search)

    def query(self) -> StableQuery:
        """Score and vector."""
        return query_of(self.constants, self.statistic, self.search, self.unit, self.users)

    def run(self, curator: Curator) -> Array:
        """Run on a curator."""
        return curator.release(RELEASE, self.query())


@dataclass(frozen=True)
class StronglyConvexOutputPerturbation:
    """One stable release of the minimiser: (trials, d), NaN where the outcome is bottom.

    ``make`` turns the minimiser into another function of the users: audits' adversaries.
    Errors: InvalidParameter for a loss that is not strongly convex; as
    :class:`DeletionStableOutputPerturbation`.
    Source: Ghazi et al. 2023, Algorithm 2 and Theorem 3.1.
    """

    problem: Problem
    constants: Constants
    rule: DeltaRule = DeltaRule()
    search: Search = Enumeration()
    make: Callable[[Minimiser], Statistic] | None = None

    def __post_init__(self) -> None:
        if not self.problem.loss.modulus > 0:
            raise InvalidParameter("StronglyConvexOutputPerturbation: the loss has modulus 0")
        check_users(self.problem.users, self.constants, type(self).__name__)
        check_distance(self.search, self.constants)
        self.query()

    @property
    def unit(self) -> float:
        """Delta, at Lipschitz constant G."""
        problem, kappa = self.problem, self.constants.kappa
        modulus = problem.loss.modulus
        if own := getattr(self.search, "unit", None):
            return float(own(Minimiser(problem.loss, problem.domain), problem.users, kappa)[0])
        return float(self.rule.unit(problem, problem.lipschitz, modulus, problem.users, kappa))

    @property
    def deviation(self) -> float:
        """sigma, of each coordinate."""
        return float(self.constants.noise_multiplier) * self.unit

    def declaration(self, scope: Scope) -> Node:
        check_scope(scope, type(self).__name__)
        return declared(self.constants.leaf(RELEASE), self.search)

    def query(self) -> StableQuery:
        """Score and minimiser."""
        minimiser = Minimiser(self.problem.loss, self.problem.domain)
        statistic = minimiser if self.make is None else self.make(minimiser)
        items = self.problem.rows if self.make is None else None
        return query_of(
            self.constants, statistic, self.search, self.unit, self.problem.users, items
        )

    def run(self, curator: Curator) -> Array:
        return curator.release(RELEASE, self.query())


def check_distance(search: Search, constants: Constants) -> None:
    """Errors: InvalidParameter where a search's stability is not that of the constants."""
    if search.distance != constants.distance:
        raise InvalidParameter(
            f"{type(search).__name__} measures {search.distance} stability, the constants are for "
            f"{constants.distance}: calibrate with distance={str(search.distance)!r}"
        )


def stable_release(
    curator: Curator, label: str, query: StableQuery, rows: Part | None = None
) -> tuple[Array, NDArray[np.bool_]]:
    """What was released, (trials, d), and in which trials it is bottom, (trials,)."""
    released = curator.release(label, query, rows=rows)
    return released, np.asarray(np.isnan(released).any(axis=1))


del_output_pert = DeletionStableOutputPerturbation

__all__ = [
    "DeletionStableOutputPerturbation",
    "StableQuery",
    "StronglyConvexOutputPerturbation",
    "del_output_pert",
]
