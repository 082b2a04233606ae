"""Planted bugs in the search for a stable subset, and in the function that is made stable.

Numbers and benches are those of :mod:`audits.broken.stable_erm`.  Data sets are enumerated: all
users but one are alike, or the score of the wrong search is known to jump between them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from audits.broken.stable_erm import (
    ONE,
    TWO,
    planted,
    stable_bench_one,
    stable_bench_two,
)
from dpaudit.audit.neighbours import Neighbours
from dpaudit.families.stability import Distance
from dpaudit.kernels.query import Array, Records
from dpaudit.scope import Adjacency
from mechanisms.papers.stable_erm.calibration import Constants
from mechanisms.papers.stable_erm.certificate import Certified, GradientCertificate
from mechanisms.papers.stable_erm.release import DeletionStableOutputPerturbation
from mechanisms.papers.stable_erm.solver import Minimiser, Quadratic
from mechanisms.papers.stable_erm.stable import (
    Enumeration,
    Flags,
    Found,
    Search,
    Statistic,
    UserMean,
    lattice_of,
    smallest,
    steps,
    tabulated,
    user_means,
)


def pair(first: Any, second: Any, text: str) -> Neighbours:
    """Two data sets of one number a user, or (users, items)."""
    data = [np.asarray(rows, dtype=np.float64) for rows in (first, second)]
    shaped = [rows.reshape(len(rows), -1, 1) for rows in data]
    return Neighbours(Records(shaped[0]), Records(shaped[1]), Adjacency.REPLACE_ONE, text)


def outlier(users: int, value: float, items: int = 1) -> Neighbours:
    """All users are 0; the last one is an outlier in the second data set."""
    first = np.zeros((users, items))
    second = first.copy()
    second[-1] = value
    return pair(first, second, f"the last of {users} users is 0, or {value}")


def enumerated(
    constants: Constants, users: int, unit: float, search: Search, statistic: Statistic
) -> DeletionStableOutputPerturbation:
    """A release with a search or a statistic of its own."""
    return DeletionStableOutputPerturbation(users, unit, constants, statistic, search)


twin_two = planted(
    stable_bench_two,
    "none: enumerated, correct, an outlier",
    program=enumerated(TWO, 10, 1.0, Enumeration(), UserMean()),
    neighbours=outlier(10, 1e4),
)
# --- a search -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Wrapped:
    """The exact search, to be changed."""

    inner: Enumeration = Enumeration()

    @property
    def distance(self) -> Distance:
        return self.inner.distance

    def check(self, users: int, kappa: int) -> None:
        """Few enough users."""


class ReleasesAll(_Wrapped):
    """Releases f(x) of all users after the test has passed (B4)."""

    def find(self, statistic: Statistic, users: Array, unit: Array | float, kappa: int) -> Found:
        found = self.inner.find(statistic, users, unit, kappa)
        return Found(found.scores, statistic.at(users, np.ones((1, len(users)), dtype=bool))[:, 0])


class LevelZero(_Wrapped):
    """A set is stable if one more deletion moves little; supersets are not looked at (B6)."""

    def find(self, statistic: Statistic, users: Array, unit: Array | float, kappa: int) -> Found:
        lattice = lattice_of(len(users), 4 * kappa + 1)
        table = tabulated(statistic, users, lattice.kept)
        return smallest(table, steps(table, lattice, 4 * kappa) <= unit, lattice, kappa)


class FixedLevel(_Wrapped):
    """Looks 4 kappa deletions beyond every set, not up to 4 kappa in all (B8)."""

    def find(self, statistic: Statistic, users: Array, unit: Array | float, kappa: int) -> Found:
        lattice = lattice_of(len(users), 6 * kappa + 1)
        table = tabulated(statistic, users, lattice.kept)
        longest = steps(table, lattice, 6 * kappa)
        stable = np.zeros(longest.shape, dtype=bool)
        for size in range(2 * kappa + 1):
            near = np.where(lattice.sizes <= size + 4 * kappa, longest, -np.inf)
            here = lattice.sizes == size
            stable[:, here] = lattice.spread(near)[:, here] <= unit
        return smallest(table, stable, lattice, kappa)


@dataclass(frozen=True)
class UncertifiedIsBottom:
    """Where the certificate fails nothing is released (B7)."""

    certified: Certified = Certified(GradientCertificate("quadratic"))

    @property
    def distance(self) -> Distance:
        return Distance.PATH

    def check(self, users: int, kappa: int) -> None:
        """One solve."""

    def find(self, statistic: Statistic, users: Array, unit: Array | float, kappa: int) -> Found:
        silent = replace(self.certified, fallback=_Silent())
        return silent.find(statistic, users, unit, kappa)


@dataclass(frozen=True)
class _Silent:
    """Never stable."""

    @property
    def distance(self) -> Distance:
        return Distance.PATH

    def check(self, users: int, kappa: int) -> None:
        """Nothing to do."""

    def find(self, statistic: Statistic, users: Array, unit: Array | float, kappa: int) -> Found:
        vectors = statistic.at(users, np.ones((1, len(users)), dtype=bool))[:, 0]
        return Found(np.full(len(vectors), 2.0 * kappa + 1), vectors)


@dataclass(frozen=True)
class _Unstated(_Wrapped):
    """A certificate, as the bench declares it: without its assumption."""

    certified: Certified = Certified(GradientCertificate("c1"))

    def find(self, statistic: Statistic, users: Array, unit: Array | float, kappa: int) -> Found:
        return self.certified.find(statistic, users, unit, kappa)


@dataclass(frozen=True)
class Overstated(Minimiser):
    """Says that the objective is a million times as convex as it is (B18)."""

    @property
    def modulus(self) -> Array:
        return np.asarray(super().modulus * 1e6)


class ItemByItem(_Wrapped):
    """Deletes items, not users (B13)."""

    def find(self, statistic: Statistic, users: Array, unit: Array | float, kappa: int) -> Found:
        items = users.reshape(-1, 1, users.shape[-1])
        return self.inner.find(statistic, items, unit, kappa)


b4_releases_all = planted(
    stable_bench_two,
    "B4: releases f(x), not f of the stable users",
    "refuted",
    "conformance",
    program=enumerated(TWO, 10, 1.0, ReleasesAll(), UserMean()),
    neighbours=outlier(10, 1e4),
)
LEVEL_ZERO = (-1.12, 1.4, 0.26, 2.48, -1.6, -0.07, -0.14, 1.61, -5.3, 0.0)
b6_level_zero = planted(
    stable_bench_one,
    "B6: stability tested at one level only",
    "refuted",
    "conformance",
    program=enumerated(ONE, 10, 0.293, LevelZero(), UserMean()),
    neighbours=pair(LEVEL_ZERO, (*LEVEL_ZERO[:-1], 4.7), "a pair whose score jumps from 1 to 3"),
)
CERTIFIED = Minimiser(Quadratic())
b7_uncertified_is_bottom = planted(
    stable_bench_two,
    "B7: a failed certificate is a bottom",
    "refuted",
    "conformance",
    program=enumerated(TWO, 10, 1.0, UncertifiedIsBottom(), CERTIFIED),
    neighbours=outlier(10, 1e4),
)
FIXED = (-0.52, -0.18, -1.44, 3.17, 1.35, 1.24, -1.0, 0.0, -0.3, -1.87, 0.26, -0.94, -1.31)
b8_fixed_level = planted(
    stable_bench_one,
    "B8: level 4 kappa for every set",
    "refuted",
    "conformance",
    program=enumerated(ONE, 13, 0.33, FixedLevel(), UserMean()),
    neighbours=pair(FIXED, (*FIXED[:-1], -6.0), "a pair whose score jumps from 1 to 3"),
)
b13_item_by_item = planted(
    stable_bench_one,
    "B13: deletes one item, not one user",
    "refuted",
    "conformance",
    program=enumerated(ONE, 6, 1.0, ItemByItem(), UserMean()),
    neighbours=outlier(6, 1e3, items=3),
)
b18_overstated_modulus = planted(
    stable_bench_two,
    "B18: a certificate with an overstated modulus",
    "refuted",
    "conformance",
    program=enumerated(TWO, 10, 1.0, _Unstated(), Overstated(Quadratic())),
    neighbours=outlier(10, 1e4),
)

# --- a statistic ----------------------------------------------------------------------------------


class TotalMinusDeleted(UserMean):
    """Takes a mean as (total - deleted) / count: its last bits tell what was deleted (B17)."""

    def at(self, users: Array, kept: Flags) -> Array:
        means = user_means(users)
        deleted = np.zeros((len(kept), means.shape[1]))
        for i in range(len(means)):
            deleted += np.where(~kept[:, i, None], means[i], 0.0)
        return np.asarray(((means.sum(axis=0) - deleted) / kept.sum(axis=1)[:, None])[None])


class WarmStarted(UserMean):
    """Stops half-way from the mean of all users (B14)."""

    def at(self, users: Array, kept: Flags) -> Array:
        start = user_means(users).mean(axis=0)
        return np.asarray(0.5 * super().at(users, kept) + 0.5 * start)


def tie() -> tuple[Array, float]:
    """Users among which the longest step of all equals the unit, bit by bit."""
    users = np.random.default_rng(58).choice([0, 0.1, 0.2, 0.3, 0.7, 1.0], size=7)
    lattice = lattice_of(7, 5)
    table = tabulated(UserMean(), users.reshape(7, 1, 1), lattice.kept)
    return users, float(steps(table, lattice, 4).max())


TIED, TIE = tie()
b17_total_minus_deleted = planted(
    stable_bench_one,
    "B17: subset means as total minus deleted",
    "refuted",
    "conformance",
    program=enumerated(ONE, 7, TIE, Enumeration(), TotalMinusDeleted()),
    neighbours=pair(TIED, (*TIED[:-1], 1e7 / 3), "a unit that a step attains, and a large user"),
)
b14_warm_start = planted(
    stable_bench_two,
    "B14: subset solves start at f(x)",
    "refuted",
    "conformance",
    program=enumerated(TWO, 10, 1.0, Enumeration(), WarmStarted()),
    neighbours=outlier(10, 1e4),
)
