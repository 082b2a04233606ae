"""What is optimised over which set, by how many users of how many items; and gradients in pairs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from dpaudit.errors import InvalidParameter
from dpaudit.kernels.query import Array, Records, clip_rows, surely_within
from dpaudit.scope import Adjacency, Released, Scope, Trust, Unit
from mechanisms.papers.common.losses import Loss
from mechanisms.papers.srgd.geometry import project_l2_ball

EQUAL = (
    "every user has equally many, m (Theorems 2.1 and 3.1); pad or drop items before, by a rule "
    "that no data decide"
)
SHORT = 8  # sums of fewer numbers are taken in order, however they lie in memory
BLOCK = 48_000  # numbers of a block, whose arrays stay in a processor's cache
USERS = Scope(Adjacency.REPLACE_ONE, Unit.USER, Trust.CENTRAL, Released.TRANSCRIPT)
LOCAL_USERS = Scope(Adjacency.REPLACE_ONE, Unit.USER, Trust.LOCAL, Released.TRANSCRIPT)


@runtime_checkable
class DrawnLoss(Protocol):
    """A loss whose gradients take public random numbers, made for all rows before any is read."""

    def draws(self, points: Array, count: int) -> list[Array]:
        """Arrays of so many rows, a trial's beside another's: (count, numbers)."""

    def gradients_with(self, points: Array, records: Array, draws: list[Array]) -> Array:
        """The gradients of some rows with their draws, (trials, n, d)."""


@dataclass(frozen=True)
class Problem:
    """A loss over the l2 ball of ``radius`` around 0; users x items x features of records.

    A row of the records is one user.  Every gradient is clipped to ``lipschitz``, L: no guarantee
    of Algorithms 1 to 3 rests on the loss, or on the data.
    Errors: InvalidParameter for counts that are not whole numbers from 1 on, or a radius or L that
    is not positive and finite.
    """

    loss: Loss
    users: int
    items: int
    features: int
    radius: float
    lipschitz: float

    def __post_init__(self) -> None:
        for name in ("users", "items"):
            whole(getattr(self, name), f"Problem.{name}")
        for name in ("radius", "lipschitz"):
            positive(getattr(self, name), f"Problem.{name}")

    @property
    def dimension(self) -> int:
        """Parameters, d."""
        return self.loss.dimension(self.features)

    @property
    def diameter(self) -> float:
        """R, twice the radius."""
        return 2 * self.radius

    @property
    def least_items(self) -> int:
        """Items that every user has at least."""
        return self.items

    def start(self, trials: int) -> Array:
        """The loss's start, projected; free of any record.  Shape (trials, d)."""
        return self.project(self.loss.initial(self.features, trials, 0))

    def project(self, points: Array) -> Array:
        """The nearest points of the ball."""
        return project_l2_ball(points, self.radius)

    def paired_gradients(self, points: Array, records: Array) -> Array:
        """Gradient k at point k and record k, of norm at most L: (count, d).

        points: (count, d); records: (count, features).  A gradient that is not finite becomes 0.
        """
        found = self.loss.gradients(points, records[:, None, :])
        return clip_rows(found, np.full(len(points), self.lipschitz))[:, 0]

    def user_gradients(self, points: Array, users: Array) -> Array:
        """Means over each user's items of clipped gradients, (trials, users, d).

        points: (trials, d); users: (users, items, features).
        """
        if users.shape[2] < SHORT:
            sums = np.concatenate(list(self._block_sums(points, users)), axis=1)
        else:
            sums = self._sums(self.item_gradients(points, users).swapaxes(1, 2), users)
        # In the usual order in memory: sums over users are taken in another order otherwise.
        return np.asarray(np.divide(sums, self._counts(users), order="C"))

    def _block_sums(self, points: Array, users: Array) -> Iterator[Array]:
        """Sums over items of clipped gradients, (trials, users, d), some users at a time."""
        count, items, features = users.shape
        drawn = self.loss if isinstance(self.loss, DrawnLoss) else None
        draws = drawn.draws(points, count * items) if drawn else []
        size = max(1, BLOCK // (items * features))
        for first in range(0, count, size):
            block = slice(first, min(first + size, count))
            rows = _turned(users[block])
            if drawn:
                own = [_turned(each.reshape(count, items, -1)[block]) for each in draws]
                found = drawn.gradients_with(points, rows, own)
            else:
                found = self.loss.gradients(points, rows)
            clipped = self._clipped(found)
            by_item = clipped.reshape(len(clipped), items, block.stop - first, -1)
            yield self._sums(by_item, users[block])

    def _sums(self, by_item: Array, users: Array) -> Array:
        """Of gradients (trials, items, users, d) over items, one item after another."""
        return np.asarray(np.add.reduce(by_item, axis=1))

    def _counts(self, users: Array) -> Array:
        """Items of each user, shaped to fit (trials, users, d)."""
        return np.array(users.shape[1])

    def item_gradients(self, points: Array, users: Array) -> Array:
        """Clipped gradients, (trials, users, items, d), or of one trial where all are equal."""
        count, items, features = users.shape
        found = self.loss.gradients(points, users.reshape(count * items, features))
        clipped = self._clipped(found)
        return clipped.reshape(len(clipped), count, items, -1)

    def _clipped(self, found: Array) -> Array:
        """To L, whatever found them: of one trial where all are equal."""
        # A view that repeats one trial is a gradient that depends on no point.
        found = found[:1] if found.strides[0] == 0 else found
        length = np.full(len(found), self.lipschitz)
        return found if surely_within(found, length) else clip_rows(found, length)


@dataclass(frozen=True)
class UnequalProblem(Problem):
    """Users of 1 to ``items`` items each: a user's gradient is the mean over the items it has.

    A user's missing items are rows that are no number anywhere (:func:`unequal_records`).  How many
    a user has is part of its record, and as secret: every user's gradient is a function of its own
    record, of norm at most L, which is all that the guarantees of Algorithms 2 and 3 rest on, whose
    outliers are removed by a test.  ``fewest``: a public number of items that users have at least;
    it sets how far apart the gradients of users may be, and no guarantee rests on it.
    Errors: InvalidParameter for a ``fewest`` that is no whole number from 1 to ``items``.
    Source: dpaudit 2026; Theorems 2.1 and 3.1 of Lowy, Liu, Asi 2024 are for equal numbers.
    """

    fewest: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if whole(self.fewest, "UnequalProblem.fewest") > self.items:
            raise InvalidParameter(f"fewest = {self.fewest}: expected at most {self.items} items")

    @property
    def least_items(self) -> int:
        """``fewest``."""
        return self.fewest

    def _sums(self, by_item: Array, users: Array) -> Array:
        """Over the items that each user has."""
        held = np.asarray(~np.isnan(users).all(axis=2))
        # Whatever the loss says of a row that is no number: it is no item.
        return super()._sums(np.where(held.T[None, :, :, None], by_item, 0.0), users)

    def _counts(self, users: Array) -> Array:
        """Items that each user has; 1 of a user that has none, whose sum is 0."""
        held = np.asarray(~np.isnan(users).all(axis=2))
        return np.asarray(np.maximum(held.sum(axis=1), 1)[None, :, None])


@dataclass(frozen=True)
class SearchSet(Problem):
    """The same problem in the part of its ball that lies within ``reach`` of released points.

    ``centres``: (trials, d), in the ball of the problem; they are compared by identity alone.
    """

    centres: Array = field(default_factory=lambda: np.zeros((1, 1)), compare=False)
    reach: float = math.inf

    def project(self, points: Array) -> Array:
        """The nearest points of both balls."""
        return project_two_balls(points, self.radius, self.centres, self.reach)


def within(problem: Problem, centres: Array, reach: float) -> Problem:
    """The problem on its search set; the problem itself where ``reach`` leaves nothing out.

    Errors: InvalidParameter for users of unequal numbers of items, which restarts do not take.
    """
    if reach >= 2 * problem.radius:
        return problem
    if isinstance(problem, UnequalProblem):
        raise InvalidParameter(f"a search set within {reach:g}: {EQUAL}")
    fields = (problem.loss, problem.users, problem.items, problem.features)
    return SearchSet(*fields, problem.radius, problem.lipschitz, centres, reach)


def project_two_balls(points: Array, radius: float, centres: Array, reach: float) -> Array:
    """The nearest points in the ball of ``radius`` around 0 and that of ``reach`` around a centre.

    points, centres: (trials, d), every centre in the first ball, so that the balls meet.  Where
    neither ball's nearest point lies in the other, it is on the sphere in which they cross.
    """
    first = project_l2_ball(points, radius)
    second = centres + project_l2_ball(points - centres, reach)
    crossing = _on_both_spheres(points, radius, centres, reach)
    room = 1 + 1e-12
    in_second = np.linalg.norm(first - centres, axis=1, keepdims=True) <= reach * room
    in_first = np.linalg.norm(second, axis=1, keepdims=True) <= radius * room
    found = np.where(in_second, first, np.where(in_first, second, crossing))
    return np.asarray(project_l2_ball(found, radius))


def _on_both_spheres(points: Array, radius: float, centres: Array, reach: float) -> Array:
    """The nearest points at distance ``radius`` from 0 and ``reach`` from the centre."""
    lengths = np.linalg.norm(centres, axis=1, keepdims=True)
    axes = centres / np.where(lengths > 0, lengths, 1.0)
    along = (radius**2 - reach**2 + lengths**2) / np.where(lengths > 0, 2 * lengths, 1.0)
    across = np.sqrt(np.maximum(radius**2 - along**2, 0.0))
    rest = points - np.einsum("td,td->t", points, axes)[:, None] * axes
    norms = np.linalg.norm(rest, axis=1, keepdims=True)
    return np.asarray(along * axes + across * rest / np.where(norms > 0, norms, 1.0))


@dataclass(frozen=True)
class LinearLoss:
    """f(x, z) = <z, x>: the gradient is z, whatever x is.  ``size``: parameters."""

    size: int

    def dimension(self, features: int) -> int:
        """As many as the record has."""
        return self.size

    def initial(self, features: int, trials: int, seed: int) -> Array:
        """Zeros."""
        return np.zeros((trials, self.size))

    def values(self, parameters: ArrayLike, records: ArrayLike) -> Array:
        """<z, x>, (trials, n)."""
        x, z = np.asarray(parameters, dtype=np.float64), np.asarray(records, dtype=np.float64)
        rows = np.broadcast_to(z, (len(x), *z.shape[-2:]))
        return np.asarray(np.einsum("td,tnd->tn", x, rows))

    def gradients(self, parameters: ArrayLike, records: ArrayLike) -> Array:
        """z, (trials, n, d)."""
        x, z = np.asarray(parameters, dtype=np.float64), np.asarray(records, dtype=np.float64)
        shape = (len(x), *z.shape[-2:])
        return np.broadcast_to(z, shape)


@dataclass(frozen=True)
class SquaredDistance:
    """f(x, z) = ||x - z||^2 / 2: its minimiser is the mean.  ``size``: parameters."""

    size: int

    def dimension(self, features: int) -> int:
        """As many as the record has."""
        return self.size

    def initial(self, features: int, trials: int, seed: int) -> Array:
        """Zeros."""
        return np.zeros((trials, self.size))

    def values(self, parameters: ArrayLike, records: ArrayLike) -> Array:
        """||x - z||^2 / 2, (trials, n)."""
        return np.asarray(np.square(self.gradients(parameters, records)).sum(axis=-1) / 2)

    def gradients(self, parameters: ArrayLike, records: ArrayLike) -> Array:
        """x - z, (trials, n, d)."""
        x, z = np.asarray(parameters, dtype=np.float64), np.asarray(records, dtype=np.float64)
        return np.asarray(x[:, None, :] - z)


def _turned(users: Array) -> Array:
    """Items of all users, (items, users) in a row, by features: a view of memory (features, rows).

    Sums over features, or over a user's items, are sums of long arrays, in the order of before.
    """
    turned = np.array(users.transpose(2, 1, 0), order="C")
    return turned.reshape(len(turned), -1).T


def check_scope(scope: Scope, place: str, trust: Trust = Trust.CENTRAL) -> None:
    """Errors: InvalidParameter for anything but replace_one of a user, or another model of trust.

    With a user more or less the sizes of phases and groups would change with the data.
    """
    if (scope.adjacency, scope.unit, scope.trust) != (Adjacency.REPLACE_ONE, Unit.USER, trust):
        raise InvalidParameter(
            f"{place} declares its noise for replace_one of a user, {trust} model: {scope}"
        )


def whole(value: Any, place: str) -> int:
    """Errors: InvalidParameter for what is no whole number from 1 on."""
    if isinstance(value, bool) or not hasattr(value, "__index__") or value < 1:
        raise InvalidParameter(f"{place} = {value!r}: expected a whole number from 1 on")
    return int(value)


def positive(value: Any, place: str) -> float:
    """Errors: InvalidParameter for what is not positive and finite."""
    known = isinstance(value, (int, float, np.floating)) and not isinstance(value, bool)
    if not (known and math.isfinite(value) and value > 0):
        raise InvalidParameter(f"{place} = {value!r}: expected a positive, finite number")
    return float(value)


def user_records(users: Sequence[ArrayLike]) -> Records:
    """One row a user: each gives an array of items, (items, features), as many as every other.

    Errors: InvalidParameter for no user, one without items, or unequal numbers of items.
    """
    counts = sorted({len(np.asarray(user)) for user in users})
    if not counts or counts[0] == 0:
        raise InvalidParameter(
            f"{len(users)} users, some of no items: Theorems 2.1 and "
            "3.1 are for n >= 1 users of m >= 1 items each"
        )
    if len(counts) > 1:
        raise InvalidParameter(f"users of {counts[0]} to {counts[-1]} items: {EQUAL}")
    return Records(np.stack([np.asarray(user, dtype=np.float64) for user in users]))


def unequal_records(users: Sequence[ArrayLike], items: int) -> Records:
    """One row a user of 1 to ``items`` items: those it has, then rows that are no number.

    Errors: InvalidParameter for no user, one of no item, or of more: which of them to leave out is
    a rule to be set beforehand, of the user's data alone.
    """
    arrays = [np.asarray(user, dtype=np.float64) for user in users]
    counts = sorted({len(user) for user in arrays})
    if not counts or counts[0] == 0 or counts[-1] > items:
        held = f"of {counts[0]} to {counts[-1]} items" if counts else "none"
        raise InvalidParameter(f"{len(arrays)} users, {held}: expected 1 to {items} items of each")
    made = np.full((len(arrays), items, arrays[0].shape[1]), np.nan)
    for row, user in zip(made, arrays, strict=True):
        row[: len(user)] = user
    return Records(made)


def users_of(values: Array, items: int) -> Array:
    """Rows as (users, items, features).

    Errors: InvalidParameter for rows of another shape: users have equally many items.
    """
    rows = values if values.ndim == 3 else values.reshape(len(values), 1, -1)
    if rows.shape[1] != items:
        raise InvalidParameter(f"records: {rows.shape[1]} items a user, expected {items}: {EQUAL}")
    return rows
