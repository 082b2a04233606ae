"""Deletion sensitivity: how far a function moves when users are deleted, and who to delete.

B(T) is how far f moves at most when one more user is deleted after T; M(S) is the largest B(T)
over T that contain S, |T| <= 4 kappa; the score of a data set is the size of a smallest S,
|S| <= 2 kappa, with M(S) at most a public unit, and 2 kappa + 1 where there is none.  It moves by
at most 1 when one user is replaced.
Source: Ghazi et al. 2023, Definition 3.2, Algorithm 1 and Observation 3.5.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import combinations
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from dpaudit.errors import InvalidParameter
from dpaudit.families.stability import Distance
from dpaudit.kernels.query import Array
from dpaudit.scope import choose

Subsets = NDArray[np.int64]
Flags = NDArray[np.bool_]
MOST_SUBSETS = 2**20
MOST_NUMBERS = 2**24
DENSE_USERS = 20


class Statistic(Protocol):
    """A deterministic function of the users that are kept, in the order of their indices.

    Whatever else it depends on is public: released values, one row a trial.
    """

    @property
    def trials(self) -> int:
        """How many functions this is: 1 where no trial differs."""

    def of(self, chosen: Flags) -> Statistic:
        """The functions of some trials, (trials,); of all where there is one."""

    def at(self, users: Array, kept: Flags) -> Array:
        """(trials, subsets, d) for users (n, items, features) and kept (subsets, n).

        Bit by bit a function of the kept users: sums run over them in the order of their indices.
        """


@dataclass(frozen=True, eq=False)
class Found:
    """Scores, (trials,), and the vector of the users that are kept, (trials, d); finite numbers.

    Either may have one row where no trial differs.
    """

    scores: Array
    vectors: Array


class Search(Protocol):
    """How a score and a stable set of users are found."""

    @property
    def distance(self) -> Distance:
        """How far apart the vectors of neighbours may be, in units."""

    def check(self, users: int, kappa: int) -> None:
        """Errors: InvalidParameter, from public numbers alone, for a search that never ends."""

    def find(self, statistic: Statistic, users: Array, unit: Array | float, kappa: int) -> Found:
        """Score and vector of users (n, items, features); ``unit`` a number or (trials,)."""


@dataclass(frozen=True)
class UserMean:
    """The mean over users of the mean over a user's items: (1, subsets, features)."""

    trials: int = 1

    def of(self, chosen: Flags) -> UserMean:
        return self

    def at(self, users: Array, kept: Flags) -> Array:
        return kept_means(user_means(users)[None], kept)


def user_means(users: Array) -> Array:
    """Means over items, (n, features)."""
    return np.asarray(users.sum(axis=1) / users.shape[1])


def kept_means(vectors: Array, kept: Flags) -> Array:
    """Means of the kept rows, (trials, subsets, d), of vectors (trials, n, d); none kept: NaN.

    Kept rows are added in order.  A total less the deleted rows would differ in its last bits with
    what was deleted, and ties would then break a sensitivity of 1.
    """
    with np.errstate(all="ignore"):
        total = np.zeros((len(vectors), len(kept), vectors.shape[-1]))
        if len(kept) == 1:  # the same sums in the same order, for many users: a sparse row's
            rows = np.flatnonzero(kept[0])
            ends, ones = np.array([0, len(rows)]), np.ones(len(rows))
            row = csr_array((ones, rows, ends), shape=kept.shape)
            for t, each in enumerate(vectors):
                total[t] = row @ each
        else:
            for i in range(kept.shape[1]):
                total += np.where(kept[None, :, i, None], vectors[:, None, i], 0.0)
        return np.asarray(total / kept.sum(axis=1)[None, :, None])


# --- subsets --------------------------------------------------------------------------------------


def count_subsets(users: int, deleted: int) -> int:
    """How many sets of at most so many of the users there are."""
    return sum(math.comb(users, k) for k in range(min(deleted, users) + 1))


def check_count(users: int, deleted: int, most: int) -> None:
    """Errors: InvalidParameter where there are more subsets than ``most``; from public numbers."""
    count = count_subsets(users, deleted)
    if count > most:
        shown = str(count) if count < 10**15 else f"about 1e{len(str(count)) - 1}"
        raise InvalidParameter(
            f"{users} users with up to {deleted} deleted have {shown} subsets, above the cap of "
            f"{most}: use fewer users, a smaller kappa, or a search that needs no enumeration"
        )
    if users > 62:
        raise InvalidParameter(f"{users} users: an enumeration takes at most 62")


class Lattice:
    """All sets of at most ``most`` deleted users, as bit masks in rising order.

    Errors: InvalidParameter where there are more of them than ``cap``.
    """

    def __init__(self, users: int, most: int, cap: int = MOST_SUBSETS) -> None:
        check_count(users, most, cap)
        self.users = users
        self.deleted = _masks(users, min(most, users))
        self.sizes: Subsets = np.bitwise_count(self.deleted).astype(np.int64)
        self._places = _places(users, self.deleted)

    @property
    def kept(self) -> Flags:
        """Which users are kept, (subsets, users)."""
        bits = self.deleted[:, None] >> np.arange(self.users)
        return np.asarray(bits & 1 == 0)

    def pairs(self, i: int) -> tuple[Subsets, Subsets]:
        """Places of the sets without user i that have a set with it, and of those sets."""
        without = np.flatnonzero((self.deleted >> i) & 1 == 0)
        wanted = self.deleted[without] | (1 << i)
        found = self._find(wanted)
        known = found >= 0
        return without[known], found[known]

    def spread(self, values: Array) -> Array:
        """The largest value over all listed sets that contain a set; (trials, subsets)."""
        if self._places is None:
            largest = np.array(values)
            for i in range(self.users):
                without, above = self.pairs(i)
                largest[:, without] = np.maximum(largest[:, without], largest[:, above])
            return largest
        dense = np.full((len(values), 1 << self.users), -np.inf)
        dense[:, self.deleted] = values
        for i in range(self.users):
            low, high = halves(dense, i)
            np.maximum(low, high, out=low)
        return dense[:, self.deleted]

    def longest(self, table: Array) -> Array:
        """The longest step from each set to a listed one with one user more; NaN counts as far.

        Right for sets smaller than the largest that are listed.
        """
        found = np.zeros(table.shape[:2])
        if self._places is None:
            for i in range(self.users):
                without, above = self.pairs(i)
                step = _far(_length(table[:, without] - table[:, above]))
                found[:, without] = np.maximum(found[:, without], step)
            return found
        dense = np.full((len(table), 1 << self.users, table.shape[2]), np.nan)
        dense[:, self.deleted] = table
        longest = np.zeros(dense.shape[:2])
        for i in range(self.users):
            low, high = halves(dense, i)
            into, _ = halves(longest, i)
            np.maximum(into, _far(_length(low - high)), out=into)
        return longest[:, self.deleted]

    def _find(self, wanted: Subsets) -> Subsets:
        if self._places is not None:
            return self._places[wanted]
        place = np.minimum(np.searchsorted(self.deleted, wanted), len(self.deleted) - 1)
        return np.where(self.deleted[place] == wanted, place, -1)


@lru_cache(maxsize=4)
def lattice_of(users: int, most: int, cap: int = MOST_SUBSETS) -> Lattice:
    """A lattice, made once."""
    return Lattice(users, most, cap)


def _masks(users: int, most: int) -> Subsets:
    found, layer = [np.zeros(1, dtype=np.int64)], np.zeros(1, dtype=np.int64)
    for _ in range(most):
        grown = [layer[layer < (1 << i)] | (1 << i) for i in range(users)]
        layer = np.concatenate(grown)
        found.append(layer)
    return np.sort(np.concatenate(found))


def _places(users: int, masks: Subsets) -> Subsets | None:
    if users > DENSE_USERS:
        return None
    places = np.full(1 << users, -1, dtype=np.int64)
    places[masks] = np.arange(len(masks))
    return places


# --- stability ------------------------------------------------------------------------------------


def steps(table: Array, lattice: Lattice, most: int) -> Array:
    """B(T), (trials, subsets), for sets of at most ``most``; -infinity above.

    ``most``: below the size of the largest listed sets.
    """
    return np.where(lattice.sizes <= most, lattice.longest(table), -np.inf)


def path_stability(table: Array, lattice: Lattice, most: int) -> Array:
    """M(S): the longest step from a set that contains S and has at most ``most`` users."""
    return lattice.spread(steps(table, lattice, most))


def diameter_stability(table: Array, lattice: Lattice) -> Array:
    """V(S): the diagonal of the box around f at all listed sets that contain S.

    It is at least the largest distance of two of them, equal in one dimension, and grows with the
    family of sets, which is all that the guarantee needs.
    """
    squares = np.zeros(table.shape[:2])
    for column in np.moveaxis(table, -1, 0):
        high, low = (lattice.spread(_far(sign * column)) for sign in (1.0, -1.0))
        with np.errstate(all="ignore"):
            squares += np.square(high + low)
    return _far(np.sqrt(squares))


def halves(dense: Array, i: int) -> tuple[Array, Array]:
    """Views of the entries of masks without bit i, and of those with it; masks are on axis 1."""
    shape = (len(dense), -1, 2, 1 << i, *dense.shape[2:])
    split = dense.reshape(shape)
    return split[:, :, 0], split[:, :, 1]


def _length(differences: Array) -> Array:
    if differences.shape[-1] == 1:
        return np.abs(differences[..., 0])
    return np.asarray(np.linalg.norm(differences, axis=-1))


def _far(values: Array) -> Array:
    return np.where(np.isnan(values), np.inf, values)


@dataclass(frozen=True)
class Enumeration:
    """Every set of up to 4 kappa + 1 deleted users; private for any deterministic function.

    ``stability``: "path" (steps of at most a unit: neighbours' vectors are s + t + 2 units apart)
    or "diameter" (all within a unit: they are 2 units apart; its own condition on the data).
    Among the smallest stable sets the lowest bit mask is taken.
    """

    stability: str = Distance.PATH
    most_subsets: int = MOST_SUBSETS

    def __post_init__(self) -> None:
        object.__setattr__(self, "stability", choose(Distance, self.stability, "stability"))

    @property
    def distance(self) -> Distance:
        return Distance(self.stability)

    def check(self, users: int, kappa: int) -> None:
        check_count(users, 4 * kappa + 1, self.most_subsets)

    def find(self, statistic: Statistic, users: Array, unit: Array | float, kappa: int) -> Found:
        if len(users) < 4 * kappa + 2:
            return nothing(statistic, users, kappa)
        lattice = lattice_of(len(users), 4 * kappa + 1, self.most_subsets)
        trials = max(statistic.trials, np.size(unit))
        units = np.broadcast_to(unit, (trials,))
        parts = [
            self._one(statistic.of(np.arange(trials) == t), users, float(units[t]), kappa, lattice)
            for t in range(trials)
        ]
        return Found(
            np.concatenate([p.scores for p in parts]), np.concatenate([p.vectors for p in parts])
        )

    def _one(
        self, statistic: Statistic, users: Array, unit: float, kappa: int, lattice: Lattice
    ) -> Found:
        with np.errstate(all="ignore"):
            table = tabulated(statistic, users, lattice.kept)
            if self.distance is Distance.PATH:
                found = path_stability(table, lattice, 4 * kappa)
            else:
                found = diameter_stability(table, lattice)
        return smallest(table, found <= unit, lattice, kappa)


@dataclass(frozen=True)
class Unending:
    """The search of :class:`Enumeration` by path, at any size: private, and for few users only.

    Sets are tried by size, then by bit mask, each until a step beyond the unit is found.  At real
    sizes it ends on no data that a certificate does not pass; what it would give has the law of
    Algorithm 1, which is why it may stand behind a certificate.  A run that is stopped from outside
    has told that its certificate failed.
    """

    distance: Distance = field(default=Distance.PATH, init=False)

    def check(self, users: int, kappa: int) -> None:
        """Nothing is refused."""

    def find(self, statistic: Statistic, users: Array, unit: Array | float, kappa: int) -> Found:
        if len(users) < 4 * kappa + 2:
            return nothing(statistic, users, kappa)
        trials = max(statistic.trials, np.size(unit))
        units = np.broadcast_to(unit, (trials,))
        parts = [
            self._one(statistic.of(np.arange(trials) == t), users, float(units[t]), kappa)
            for t in range(trials)
        ]
        return Found(
            np.concatenate([p.scores for p in parts]), np.concatenate([p.vectors for p in parts])
        )

    def _one(self, statistic: Statistic, users: Array, unit: float, kappa: int) -> Found:
        count = len(users)

        def at(deleted: int) -> Array:
            kept = np.array([[not deleted >> i & 1 for i in range(count)]])
            return statistic.at(users, kept)[:, 0]

        def steady(deleted: int) -> bool:
            here = at(deleted)
            steps = (at(deleted | 1 << i) - here for i in range(count) if not deleted >> i & 1)
            return all(_far(_length(step))[0] <= unit for step in steps)

        def stable(least: int, size: int) -> bool:
            rest = [i for i in range(count) if not least >> i & 1]
            more = (c for k in range(4 * kappa - size + 1) for c in combinations(rest, k))
            return all(steady(least | sum(1 << i for i in added)) for added in more)

        with np.errstate(all="ignore"):
            for size in range(2 * kappa + 1):
                for least in _masks_of(count, size):
                    if stable(least, size):
                        return Found(np.array([float(size)]), at(least))
        return nothing(statistic, users, kappa)


def _masks_of(users: int, size: int) -> Iterator[int]:
    """Bit masks of so many of the users, in rising order."""
    mask = (1 << size) - 1
    while mask < 1 << users:
        yield mask
        if not mask:
            return
        low = mask & -mask
        high = mask + low
        mask = high | ((mask ^ high) // low >> 2)


def tabulated(statistic: Statistic, users: Array, kept: Flags) -> Array:
    """The statistic at every subset, a block of subsets at a time."""
    rows = max(1, MOST_NUMBERS // max(1, users.size))
    blocks = [statistic.at(users, kept[k : k + rows]) for k in range(0, len(kept), rows)]
    return np.concatenate(blocks, axis=1)


def smallest(table: Array, stable: Flags, lattice: Lattice, kappa: int) -> Found:
    """The first among the smallest stable sets of at most 2 kappa; bottom where there is none."""
    never = 2 * kappa + 1
    sizes = np.where(stable & (lattice.sizes <= 2 * kappa), lattice.sizes, never)
    first = sizes.argmin(axis=1)
    trials = np.arange(len(table))
    scores = sizes[trials, first].astype(np.float64)
    vectors = table[trials, first]
    return Found(scores, np.where(scores[:, None] < never, vectors, 0.0))


def nothing(statistic: Statistic, users: Array, kappa: int) -> Found:
    """Too few users, which is public: a score that never passes."""
    width = statistic.at(np.zeros_like(users), np.ones((1, len(users)), dtype=bool)).shape[-1]
    return Found(np.array([2.0 * kappa + 1]), np.zeros((1, width)))


def deletion_sensitivity(statistic: Statistic, users: Array, deleted: int) -> Array:
    """Delta_r f(x), (trials,): the longest step after at most r = ``deleted`` deletions.

    Source: Ghazi et al. 2023, Definition 3.2.
    """
    lattice = lattice_of(len(users), deleted + 1)
    table = tabulated(statistic, users, lattice.kept)
    return np.asarray(steps(table, lattice, deleted).max(axis=1))


def local_deletion_sensitivity(statistic: Statistic, users: Array) -> Array:
    """max_i ||f(x) - f(x without user i)||, (trials,)."""
    return deletion_sensitivity(statistic, users, 0)
