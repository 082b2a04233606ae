"""More planted bugs of paper 1: missing data, sorted groups, odd counts, clipped passes.

See :mod:`audits.broken.user_level`.  Benches at (1, 1e-6): ``union`` is the mean over inliers where
some are known to exist, with noise for a move of 4 tau; ``passes`` one phase of plain SGD over 128
of 256 users of one item.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from audits.broken.user_level import (
    DELTA,
    QUARTER,
    bench,
    pair,
    planted,
    user_level_bench_small,
)
from audits.broken.user_level_programs import WrongMean
from audits.user_level import WIDE, placed
from dpaudit.curator.curator import Curator
from dpaudit.families.additive import Gaussian
from dpaudit.families.composition import Assuming
from dpaudit.families.opaque import ApproxDP
from dpaudit.kernels.query import Array, Norm, Records, clip_rows
from dpaudit.nodes import Assumption, Node, Status
from dpaudit.scope import Adjacency, Scope
from mechanisms.papers.user_level.baselines import OnePassQuery, UserLevelPhasedSGDBaseline
from mechanisms.papers.user_level.catalogue import WEIGHTED
from mechanisms.papers.user_level.outliers import OutlierRemovedQuery
from mechanisms.papers.user_level.points import (
    counts_within,
    inlier_probabilities,
    weighted_inlier_mean,
)
from mechanisms.papers.user_level.problem import LinearLoss, Problem

NOISE = Fraction("4.224679")  # kappa(1, 1e-6), rounded up
GROUPS = WEIGHTED.groups


def wrong(kind: type[WrongMean] = WrongMean, users: int = GROUPS, **options: Any) -> WrongMean:
    """The bench of one mean of 800 groups with one part replaced."""
    return kind(users, 1, QUARTER, 10.0, WEIGHTED, **options)


# --- missing data ---------------------------------------------------------------------------------


class NothingMissing(WrongMean):
    """Means of the users' items as they are: a missing item makes the release one (B11)."""

    def points(self, users: Array) -> Array:
        return np.asarray(users.mean(axis=1)[None])


class RaisesOnMissing(NothingMissing):
    """Refuses a user whose items are missing (B11)."""

    def points(self, users: Array) -> Array:
        if np.isnan(users).any():
            raise ValueError("a group has no data")
        return super().points(users)


class RaisesOnNobody(OutlierRemovedQuery):
    """Raises where no point is an inlier (B11)."""

    def value(self, records: Records, chosen: NDArray[np.bool_] | None = None) -> Array:
        points = self.points(records.values)
        (far,) = counts_within(points, self.radius, (2.0,))
        if not (inlier_probabilities(far) > 0).any():
            raise ValueError("no inlier")
        return super().value(records, chosen)


def gone() -> Array:
    """All users at 0 but the first, whose items are missing."""
    found = placed(np.zeros((1, 2)), GROUPS)
    found[0] = np.nan
    return found


b11_missing = planted(
    user_level_bench_small,
    "B11: a group that is missing makes the release missing",
    "conformance",
    "refuted",
    program=wrong(NothingMissing),
    neighbours=pair(placed(np.zeros((1, 2)), GROUPS), gone(), "a user whose items are missing"),
)
b11_raises = planted(
    user_level_bench_small,
    "B11: an exception where a group is missing",
    "gray box",
    program=wrong(RaisesOnMissing),
)
b11_nobody = planted(
    user_level_bench_small,
    "B11: an exception where nobody is an inlier",
    "gray box",
    program=wrong(query=RaisesOnNobody),
)

# --- groups made of the data ----------------------------------------------------------------------


@dataclass(frozen=True)
class SortedGroups(WrongMean):
    """Two users a group, after sorting them by their second number (B12)."""

    def points(self, users: Array) -> Array:
        order = np.argsort(users[:, 0, 1], kind="stable")
        return super().points(users[order])


def alternating(key: float) -> Array:
    """Users who cancel in pairs where the first comes first, and no longer where it comes last."""
    users = np.arange(2 * GROUPS)
    signs = np.where(users // 2 % 2, -1.0, 1.0)
    found = np.zeros((len(users), 1, 2))
    found[:, 0, 0] = np.where(users % 2, signs, -signs)
    found[:, 0, 1] = 1e-9 * users
    found[0, 0, 1] = key
    return found


b12_sorted = planted(
    user_level_bench_small,
    "B12: groups formed after sorting the users",
    "conformance",
    "refuted",
    program=wrong(SortedGroups, 2 * GROUPS),
    neighbours=pair(alternating(0.0), alternating(1e-5), "the first user comes first, or last"),
)

# --- an odd number, and a cut ---------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class UnionQuery:
    """The weighted mean over inliers, of which any two are within 4 tau on any two neighbours.

    C must be even, and inliers have more than C / 2 neighbours: two of them then share one.
    """

    radius: float
    norm: Norm = field(default="l2", init=False)

    def weights(self, counts: Array) -> Array:
        """The ramp."""
        return inlier_probabilities(counts)

    def value(self, records: Records, chosen: NDArray[np.bool_] | None = None) -> Array:
        points = clip_rows(records.values.reshape(1, len(records), -1), np.array([WIDE]))
        (counts,) = counts_within(points, self.radius, (2.0,))
        return weighted_inlier_mean(self.weights(counts), points)

    def sensitivity(self, adjacency: Adjacency, size: int) -> Array:
        return np.array(4 * self.radius)


class HalfQuery(UnionQuery):
    """Keeps whoever has half of all points near (B15)."""

    def weights(self, counts: Array) -> Array:
        return np.asarray(counts >= counts.shape[1] / 2, dtype=np.float64)


@dataclass(frozen=True)
class UnionMean:
    """The mean over inliers, for data of which some point is an inlier whatever a user does."""

    query: type[UnionQuery] = UnionQuery

    def declaration(self, scope: Scope) -> Node:
        some = Assumption("inliers", "some point is an inlier", Status.DECLARED, "planted clouds")
        return Assuming(Gaussian("mean", NOISE), some)

    def run(self, curator: Curator) -> Array:
        return curator.release("mean", self.query(QUARTER))


def blocks(first: float, *places: tuple[int, float]) -> Array:
    """The first user, and so many others at each place, in units of tau: (users, 1, 1)."""
    others = [np.full(count, place) for count, place in places]
    return QUARTER * np.concatenate([[first], *others])[:, None, None]


# Some point is an inlier whatever the first user does, as the declaration assumes.
user_level_bench_union = replace(
    bench("user_level_bench_union", UnionMean(), ApproxDP(1, DELTA)),
    records_like=lambda rng: Records(blocks(rng.uniform(-9, 9), (3, 0.0), (2, 2.0))),
)
twin_union = planted(
    user_level_bench_union,
    "none: correct, six points",
    program=UnionMean(),
    neighbours=pair(blocks(-2.0, (3, 0.0), (2, 2.0)), blocks(2.0, (3, 0.0), (2, 2.0)), "a side"),
)
b15_odd = planted(
    user_level_bench_union,
    "B15: an odd number of points",
    "conformance",
    "refuted",
    program=UnionMean(),
    neighbours=pair(blocks(0.0, (2, 0.0), (2, 50.0)), blocks(50.0, (2, 0.0), (2, 50.0)), "a block"),
)
b15_half = planted(
    user_level_bench_union,
    "B15: inliers of half of all points",
    "conformance",
    "refuted",
    program=UnionMean(HalfQuery),
    neighbours=pair(blocks(0.0, (3, 0.0), (2, 50.0)), blocks(50.0, (3, 0.0), (2, 50.0)), "a block"),
)

# --- plain passes ---------------------------------------------------------------------------------

USERS, STEP, CURVED = 256, 0.02, 100.0
ITEMS = Problem(LinearLoss(2), USERS, 1, 2, WIDE, 1.0)
# Its loss may be 100-smooth: a quarter of the step is then 2 / beta.
PASSES = UserLevelPhasedSGDBaseline(ITEMS, NOISE, 1, 4 * STEP, CURVED, "linear")
user_level_bench_passes = bench("user_level_bench_passes", PASSES, ApproxDP(1, DELTA))


@dataclass(frozen=True)
class Bent:
    """f(x, z) = (100 x_1^2 + x_2^2) / 2 - <z, x>: no loss of one linear form of x."""

    def dimension(self, features: int) -> int:
        return 2

    def initial(self, features: int, trials: int, seed: int) -> Array:
        return np.zeros((trials, 2))

    def values(self, parameters: ArrayLike, records: ArrayLike) -> Array:
        x, z = np.asarray(parameters, dtype=np.float64), np.asarray(records, dtype=np.float64)
        bent = (x**2 @ np.array([CURVED, 1.0]))[:, None] / 2
        return np.asarray(bent - (x[:, None, :] * z).sum(axis=-1))

    def gradients(self, parameters: ArrayLike, records: ArrayLike) -> Array:
        x, z = np.asarray(parameters, dtype=np.float64), np.asarray(records, dtype=np.float64)
        return np.asarray(np.array([CURVED, 1.0]) * x[:, None, :] - z)


@dataclass(frozen=True)
class AnyLoss(UserLevelPhasedSGDBaseline):
    """The baseline on a loss whose gradients it clips (B17)."""

    def check_loss(self) -> None:
        """Asks nothing of it."""


class ClippedAverage(OnePassQuery):
    """Gradients as they are, and their average cut to what a pass can cover (B17)."""

    def value(self, records: Records, chosen: NDArray[np.bool_] | None = None) -> Array:
        problem = replace(self.problem, lipschitz=WIDE)
        moved = OnePassQuery(problem, self.start, self.step).value(records, chosen)
        limit = self.step * self.problem.lipschitz * (len(records) + 1) / 2
        return clip_rows(moved[:, None], np.full(len(moved), limit))[:, 0]


@dataclass(frozen=True)
class ClippedAverages(UserLevelPhasedSGDBaseline):
    """Passes that clip too late."""

    def query(self, phase: int, start: Array) -> OnePassQuery:
        return ClippedAverage(self.problem, start, self.step / 4 ** (phase + 1))


def one_side(size: float) -> Array:
    """The first user at this place, all others at 0."""
    found = np.zeros((USERS, 1, 2))
    found[0, 0, 0] = size
    return found


def driven_apart(count: int, angle: float) -> tuple[Array, Array]:
    """Records that drive two runs with clipped gradients apart, the first of either sign.

    Each next one is the worst of a grid: a normalised gradient field of a bent loss is no gradient.
    """
    angles, sizes = np.linspace(0, 2 * np.pi, 361)[:-1], np.array([1.0, 1.2, 2.0, 4.0, 8.0, 16.0])
    around = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    slopes = (sizes[:, None, None] * around).reshape(-1, 2)
    first = np.array([np.sin(angle), np.cos(angle)])
    one, two, rows = STEP * first, -STEP * first, [first]
    for _ in range(count - 1):
        records = np.array([CURVED, 1.0]) * one - slopes
        ahead = [_ahead(point, records) for point in (one, two)]
        worst = int(np.argmax(np.linalg.norm(ahead[0] - ahead[1], axis=1)))
        one, two = ahead[0][worst], ahead[1][worst]
        rows.append(records[worst])
    found = np.zeros((USERS, 1, 2))
    found[:count, 0] = rows
    other = found.copy()
    other[0] = -found[0]
    return found, other


def _ahead(point: Array, records: Array) -> Array:
    """One clipped step from a point, for every record."""
    slopes = np.array([CURVED, 1.0]) * point - records
    return np.asarray(point - STEP * clip_rows(slopes[None], np.array([1.0]))[0])


twin_passes = planted(
    user_level_bench_passes,
    "none: phased SGD, correct",
    program=PASSES,
    neighbours=pair(one_side(1.0), one_side(-1.0), "one user of either sign"),
)
b17_clipped = planted(
    user_level_bench_passes,
    "B17: clipped gradients of a loss that is no generalised linear model",
    "conformance",
    program=AnyLoss(replace(ITEMS, loss=Bent()), NOISE, 1, 4 * STEP, CURVED, "linear"),
    neighbours=pair(*driven_apart(USERS // 2, 1.29), "two runs that the other users drive apart"),
)
b17_late = planted(
    user_level_bench_passes,
    "B17: clipped after averaging",
    "conformance",
    "refuted",
    program=ClippedAverages(ITEMS, NOISE, 1, 4 * STEP, CURVED, "linear"),
    neighbours=pair(one_side(10.0), one_side(-10.0), "one user far beyond L, of either sign"),
)
