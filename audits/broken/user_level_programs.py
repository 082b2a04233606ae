"""Planted bugs of paper 1 in a program or a declaration; see :mod:`audits.broken.user_level`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from audits.broken.user_level import (
    CONSTANTS,
    DELTA,
    GROUPS,
    PHASES,
    QUARTER,
    SLOTS,
    bench,
    line,
    pair,
    planted,
    user_level_bench_mean,
    user_level_bench_phases,
    user_level_bench_slots,
)
from audits.user_level import NEAR, outliers, placed
from dpaudit.audit.neighbours import Neighbours
from dpaudit.curator.curator import Curator
from dpaudit.families.additive import Gaussian
from dpaudit.families.composition import Repeat
from dpaudit.families.opaque import ApproxDP
from dpaudit.families.sampling import SampledWithoutReplacement
from dpaudit.kernels.query import Array, ClippedMean, Records
from dpaudit.nodes import Node
from dpaudit.scope import Adjacency, Scope
from mechanisms.papers.user_level.outliers import RELEASE, OutlierRemovedMean, OutlierRemovedQuery
from mechanisms.papers.user_level.phased_sgd import Solution, UserLevelPhasedSGD
from mechanisms.papers.user_level.points import counts_within, weighted_inlier_mean

# --- a program ------------------------------------------------------------------------------------


class CutQuery(OutlierRemovedQuery):
    """Keeps whoever has half of all points near, without a ramp (B9)."""

    def value(self, records: Records, chosen: NDArray[np.bool_] | None = None) -> Array:
        found = super().value(records, chosen)
        points = self.points(records.values)
        (far,) = counts_within(points, self.radius, (2.0,))
        kept = (far >= points.shape[1] / 2).astype(np.float64)
        return np.hstack([found[:, :1], weighted_inlier_mean(kept, points)])


class MovedQuery(OutlierRemovedQuery):
    """States how far the plain mean moves where a user moves by a millionth of tau (B20)."""

    def sensitivity(self, adjacency: Adjacency, size: int) -> Array:
        return np.minimum(super().sensitivity(adjacency, size), 1e-6 * self.radius / GROUPS)


@dataclass(frozen=True)
class WrongMean(OutlierRemovedMean):
    """The mean with another query."""

    query: type[OutlierRemovedQuery] = OutlierRemovedQuery

    def run(self, curator: Curator) -> Array:
        query = self.query(self.points, self.radius, self.constants, self.items)
        return curator.release(RELEASE, query)


class MedianScaled(WrongMean):
    """Points are divided by their median norm, and so tau is set from the data (B12)."""

    def points(self, users: Array) -> Array:
        found = super().points(users)
        median = np.median(np.linalg.norm(found, axis=-1))
        return found / (median if median > 0 else 1.0) * NEAR


class NaiveGradientScorePhasedSGD(WrongMean):
    """Scores of the users' gradients along one path of SGD, noise at its end alone (B19).

    Quadratic loss, step 1/2: a user moves every later iterate, and so all later gradients, of which
    the mean over inliers is how far the path went.
    """

    def points(self, users: Array) -> Array:
        means, point, slopes = users.mean(axis=1), np.zeros(users.shape[-1]), []
        for mean in means:
            slopes.append(point - mean)
            point = point - slopes[-1] / 2
        return np.stack(slopes)[None]


def wrong(kind: type[WrongMean] = WrongMean, **options: Any) -> WrongMean:
    """The bench of one mean with one part replaced."""
    return kind(GROUPS, 1, QUARTER, 10.0, CONSTANTS, **options)


# 2 tau away from 60 others, or 61: no ramp lets 11 points in or out at once.
RAMP = pair(
    line((11, 3.0), (49, 1.0), (61, 0.0), first=3.0),
    line((11, 3.0), (49, 1.0), (61, 0.0), first=-1.0),
    "eleven points with just under half of all others near, or just half",
)
EDGE = pair(
    line((11, 3.0), (49, 1.0), (61, 0.0), first=1.0),
    line((11, 3.0), (49, 1.0), (61, 0.0), first=1.0 - 1e-6),
    "a user on the edge of eleven others' balls, or a millionth off",
)
SPREAD = pair(
    line((60, 1.0), (61, 1.2), first=1.2),
    line((60, 1.0), (61, 1.2), first=-1.0),
    "two clusters: the median point is in one, or the other",
)
FAR = pair(line((121, 0.0), first=0.0), line((121, 0.0), first=3e3), "one user far from all others")


@dataclass(frozen=True)
class ReusedUsers(UserLevelPhasedSGD):
    """Phase 2 on the users of phase 1 (B13)."""

    def run_from(self, curator: Curator, start: Array) -> Solution:
        for label, phase in zip(self.labels(), self.phases, strict=True):
            part = curator.part(0, self.sizes)
            start = start + curator.release(label, self.query(phase, start), rows=part)
        return Solution(start, np.zeros(curator.trials, dtype=bool))


b8_slots = planted(
    user_level_bench_slots,
    "B8: slots drawn independently, noise for one slot a user",
    "refuted",
    "conformance",
    trials=200,
    program=SLOTS,
    neighbours=Neighbours(
        outliers(665, 5_912), outliers(666, 5_912), Adjacency.REPLACE_ONE, "665 outliers, or 666"
    ),
)
b9_cut = planted(
    user_level_bench_mean, "B9: a cut instead of a ramp", "conformance",
    program=wrong(query=CutQuery), neighbours=RAMP,
)  # fmt: skip
twin_ramp = planted(
    user_level_bench_mean, "none: correct, on the ramp", program=wrong(), neighbours=RAMP
)
b12_median = planted(
    user_level_bench_mean, "B12: tau set from the data", "conformance",
    program=wrong(MedianScaled), neighbours=SPREAD,
)  # fmt: skip
b13_reused_users = planted(
    user_level_bench_phases, "B13: phase 2 on the users of phase 1", "conformance",
    program=ReusedUsers(PHASES.problem, CONSTANTS, PHASES.phases),
)  # fmt: skip
b19_naive_path = planted(
    user_level_bench_mean,
    "B19: scores of gradients along a shared path, noise at its end",
    "conformance",
    program=wrong(NaiveGradientScorePhasedSGD),
    neighbours=FAR,
)
b20_smaller_bound = planted(
    user_level_bench_mean, "B20: the plain mean's sensitivity for the selected one", "conformance",
    program=wrong(query=MovedQuery), neighbours=EDGE,
)  # fmt: skip


# --- a declaration --------------------------------------------------------------------------------


@dataclass(frozen=True)
class PublicSchedule:
    """Rounds on all of 500 users, declared as secret batches of 100 (B16)."""

    def declaration(self, scope: Scope) -> Node:
        return Repeat(SampledWithoutReplacement(Gaussian("gradient", 2), 100, 500), 10)

    def run(self, curator: Curator) -> Array:
        return curator.release("gradient", item_mean(1.0))


@dataclass(frozen=True)
class TextbookGaussian:
    """sigma = Delta sqrt(2 log(2 / delta)) / epsilon, for every epsilon (B18, Lemma A.5)."""

    epsilon: Fraction

    def declaration(self, scope: Scope) -> Node:
        noise = math.sqrt(2 * math.log(2 / float(DELTA))) / float(self.epsilon)
        return Gaussian("output", Fraction(f"{noise:.6f}"))

    def run(self, curator: Curator) -> Array:
        return curator.release("output", item_mean(1.0))


def item_mean(radius: float) -> ClippedMean:
    """The mean of the users' only items, clipped."""
    return ClippedMean(lambda values: values.reshape(1, len(values), -1), radius)


ONE_USER = pair(
    placed(np.array([[1.0, 0.0]]), 500), placed(np.array([[-1.0, 0.0]]), 500), "one user's item"
)
user_level_bench_amplified = bench("user_level_bench_amplified", PublicSchedule())
user_level_bench_textbook = bench(
    "user_level_bench_textbook", TextbookGaussian(Fraction(10)), ApproxDP(10, DELTA)
)
b16_public_schedule = planted(
    user_level_bench_amplified,
    "B16: amplification by a schedule that is public",
    "conformance",
    program=PublicSchedule(),
    neighbours=ONE_USER,
)
b18_textbook = planted(
    user_level_bench_textbook,
    "B18: Lemma A.5 at epsilon = 10",
    "accountant",
    program=TextbookGaussian(Fraction(10)),
    neighbours=ONE_USER,
)
