"""Audits of outlier-removed means and Algorithms 1 to 3 at user level: planted clouds, white box.

A mean is attacked as it is.  With a linear loss f(x, z) = <z, x> a user's data say where its
group's iterate, or its gradient, lies.  Hub: all points lie in two clusters, further apart than the
test's radius, but the first: it is between them, near to all, or aside, near to none, so that the
score moves by all it can, across its threshold.  Independent slots: 665 of 5,912 users are of the
other sign, or 666.
Source: the clouds are ours (dpaudit 2026).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from dpaudit.audit.neighbours import Neighbours
from dpaudit.audit.suite import Suite
from dpaudit.curator.mechanism import Mechanism
from dpaudit.kernels.query import Array, Records
from dpaudit.scope import Adjacency
from mechanisms.papers.user_level import catalogue
from mechanisms.papers.user_level.accelerated import UserLevelAcceleratedSGD
from mechanisms.papers.user_level.outliers import OutlierRemovedMean
from mechanisms.papers.user_level.phased_erm import StronglyConvexReduction, UserLevelPhasedERM
from mechanisms.papers.user_level.phased_sgd import UserLevelPhasedSGD
from mechanisms.papers.user_level.problem import LinearLoss, Problem
from mechanisms.papers.user_level.readings import IndependentSlotsTest, RedrawnThresholdTest

TRIALS = 2_000
FEW = 600
MANY = 20_000
DIMENSION = 2
WIDE = 1e9  # no projection cuts a released point
OUTLIERS = 665
EXCESS = 1e3  # so that a clip that was deleted shows
# In units of the test's radius: two clusters, and the first point between them or aside.
CLUSTER, ASIDE = 0.9, 1.1
HEIGHT = 0.43  # in these units, by which clusters lie below the first point, all but out of reach
NEAR = 0.5 / ASIDE  # tau over L, where the test's radius is 2 tau: who is aside is clipped to there


def linear(problem: Problem) -> Problem:
    """The same users, one item each, with a linear loss in two parameters, L = 1."""
    loss = LinearLoss(DIMENSION)
    return replace(problem, loss=loss, items=1, features=DIMENSION, radius=WIDE, lipschitz=1.0)


def attacked(program: Any) -> Any:
    """The same noise on a linear loss, with a radius that the first user can reach.

    A mean has no loss, and is itself.
    Errors: TypeError for a program that is none of this paper's.
    """
    if isinstance(program, OutlierRemovedMean):
        return program
    if isinstance(program, UserLevelPhasedSGD):
        return _phased(program)
    if isinstance(program, UserLevelAcceleratedSGD):
        return replace(program, problem=linear(program.problem), radius=NEAR)
    if isinstance(program, UserLevelPhasedERM):
        return replace(program, problem=linear(program.problem), radius=NEAR)
    if isinstance(program, StronglyConvexReduction):
        bases: Any = tuple(attacked(base) for base in program.bases)
        return replace(program, problem=linear(program.problem), bases=bases)
    raise TypeError(f"{type(program).__name__}: no program of this paper")


def _phased(program: UserLevelPhasedSGD) -> UserLevelPhasedSGD:
    """tau is what one step of size L covers, over 1.1: a group's first user goes just aside."""
    phases = tuple(replace(phase, radius=phase.step / ASIDE) for phase in program.phases)
    return replace(program, problem=linear(program.problem), phases=phases)


def hub(count: int, threshold: float) -> tuple[Array, Array]:
    """Points (count, 2) with the first between the clusters, and with the first aside.

    Sizes of the clusters: the least unequal whose score, the first between, is the threshold.
    """
    sizes = np.arange(count // 2, count)
    scores = (sizes**2 + (count - 1 - sizes) ** 2 + 2 * (count - 1) + 1) / count
    larger = int(sizes[np.argmax(scores >= threshold)])
    between = np.zeros((count, DIMENSION))
    between[1:, 0] = CLUSTER
    between[1 : 1 + larger, 0] = -CLUSTER
    aside = between.copy()
    aside[0, 1] = ASIDE
    return between, aside


def rows(program: Any, phase: int = 0) -> tuple[Array, Array]:
    """Items of users, (users, items, 2), on either data set; users of other phases are all at 0.

    ``phase``: of restarts, each of which has one phase, which restart.
    Errors: TypeError for a later phase of a program that has none of its own.
    """
    phased = (UserLevelPhasedSGD, UserLevelPhasedERM, StronglyConvexReduction)
    if phase and not isinstance(program, phased):
        raise TypeError(f"{type(program).__name__}: it has no phase {phase + 1}")
    if isinstance(program, OutlierRemovedMean):
        return _of_mean(program)
    if isinstance(program, UserLevelPhasedSGD):
        return _groups(program, phase)
    if isinstance(program, UserLevelAcceleratedSGD):
        return _batch(program.constants.batch, program.problem.users)
    if isinstance(program, StronglyConvexReduction):
        base = program.bases[phase]
        pair = _batch(base.phases[0].constants.batch, program.problem.users)
        return _moved(pair, sum(sum(before.sizes) for before in program.bases[:phase]))
    pair = _batch(program.phases[phase].constants.batch, program.problem.users)
    return _moved(pair, users_before(program, phase))


def _of_mean(program: OutlierRemovedMean) -> tuple[Array, Array]:
    """The hub of groups' means, (users, items, 2), whose first user moves its group's aside.

    A user, of norm ``bound`` at most, moves the mean of its group by less than the radius where
    groups are large: the less that is, the further below lie the clusters, all but out of reach.
    """
    constants, bound = program.constants, program.bound
    each = program.users // constants.groups
    aside = min(bound, each * ASIDE * program.radius)
    before = min(bound, each * ASIDE * program.radius - aside)
    moved = (before + aside) / (each * program.radius)
    points = hub(constants.groups, float(constants.threshold))[0] * program.radius
    points[1:, 1] = -HEIGHT * (1 - moved / ASIDE) * program.radius
    users = np.zeros((program.users, DIMENSION))
    users[: each * len(points)] = np.repeat(points, each, axis=0)
    users[1:each, 1] = before / max(each - 1, 1)
    first, second = users.copy(), users
    first[0, 1], second[0, 1] = -before, aside
    return _of_items(first, program.items), _of_items(second, program.items)


def _of_items(users: Array, items: int) -> Array:
    """Users of so many equal items, (users, items, 2)."""
    return np.repeat(users[:, None], items, axis=1)


def _batch(batch: int, users: int) -> tuple[Array, Array]:
    pair = hub(batch, 0.8 * batch)
    return placed(2 * NEAR * pair[0], users), placed(2 * NEAR * pair[1], users)


def _moved(pair: tuple[Array, Array], by: int) -> tuple[Array, Array]:
    """So many users at 0 first, and as many fewer at the end."""
    return np.roll(pair[0], by, axis=0), np.roll(pair[1], by, axis=0)


def users_before(program: Any, phase: int) -> int:
    """Users of the phases before this one, counted from 0."""
    return sum(program.sizes[:phase]) if phase else 0


def of_phase(phase: int, kind: str = "phase") -> str:
    """What a suite says of a later phase than the first."""
    return f"; in {kind} {phase + 1}" if phase else ""


def _groups(program: UserLevelPhasedSGD, phase: int) -> tuple[Array, Array]:
    """A group of equal users z moves by (T + 1) / 2 steps of z; its first user alone by one."""
    constants, each = program.constants, program.phases[phase].users // program.constants.groups
    found = []
    for points in hub(constants.groups, float(constants.threshold)):
        of_users = np.repeat(points / ASIDE * 2 / (each + 1), each, axis=0)
        of_users[:each] = 0.0
        of_users[0] = points[0] / ASIDE
        found.append(placed(of_users, program.problem.users))
    return _moved((found[0], found[1]), users_before(program, phase))


def placed(points: Array, users: int) -> Array:
    """The points as the first users' items, all others at 0."""
    found = np.zeros((users, 1, DIMENSION))
    found[: len(points), 0] = points
    return found


def suite(mechanism: Mechanism, trials: int = TRIALS, phase: int = 0) -> Suite:
    """White-box audit: the first user of a phase is near to all of its others, or to none."""
    program = attacked(mechanism.program)
    first, second = rows(program, phase)
    kind = "restart" if isinstance(program, StronglyConvexReduction) else "phase"
    text = "one user's group, or gradient, is near to all others, or to none"
    return Suite(
        mechanism=mechanism.name,
        program=program,
        neighbours=Neighbours(
            Records(first),
            Records(far(first, second)),
            Adjacency.REPLACE_ONE,
            f"{text}{of_phase(phase, kind)}",
        ),
        trials=trials,
    )


def in_every_phase(mechanism: Mechanism, trials: int, count: int) -> Suite:
    """A user of the first phase, or restart, and beside it one of each of the others."""
    later = tuple(suite(mechanism, trials, phase) for phase in range(1, count))
    return replace(suite(mechanism, trials), also=later)


def far(first: Array, second: Array) -> Array:
    """The second data set with the user who is another in the first ``EXCESS`` times as far off."""
    changed = (first != second).any(axis=(1, 2), keepdims=True)
    return np.where(changed, EXCESS * second, second)


def outliers(count: int, users: int) -> Records:
    """So many users at -1, the others at 1: (users, 1, 2)."""
    rows = np.zeros((users, 1, DIMENSION))
    rows[:, 0, 0] = 1.0
    rows[:count, 0, 0] = -1.0
    return Records(rows)


def slots(mechanism: Mechanism, trials: int = FEW // 3) -> Suite:
    """665 or 666 outliers; errors: TypeError for another program."""
    program = mechanism.program
    if not isinstance(program, IndependentSlotsTest):
        raise TypeError(f"{mechanism.name}: its slots are not drawn independently")
    first, second = (outliers(OUTLIERS + more, program.users) for more in (0, 1))
    return Suite(
        mechanism=mechanism.name,
        program=program,
        neighbours=Neighbours(
            first, second, Adjacency.REPLACE_ONE, "665 or 666 users of the other sign"
        ),
        trials=trials,
    )


SIDE = 1.56  # of a triangle; its centre is within 2 tau of all corners, the corners are not
FAR = 659
ANGLES = np.pi * np.array([7, 11, 3]) / 6
CORNERS = SIDE / np.sqrt(3) * np.stack([np.cos(ANGLES), np.sin(ANGLES)], axis=1)


def triangle(first: Array, users: int) -> Records:
    """5,252 users at one corner, 659 at another, and the first."""
    found = np.tile(CORNERS[0], (users, 1, 1))
    found[1 : 1 + FAR, 0] = CORNERS[1]
    found[0, 0] = first
    return Records(found)


def redrawn(mechanism: Mechanism, trials: int = 100_000) -> Suite:
    """A user whom all are near to, or none; errors: TypeError for another program."""
    program = mechanism.program
    if not isinstance(program, RedrawnThresholdTest):
        raise TypeError(f"{mechanism.name}: its threshold is not drawn anew")
    first, second = (triangle(at, program.users) for at in (np.zeros(DIMENSION), CORNERS[2]))
    return Suite(
        mechanism=mechanism.name,
        program=program,
        neighbours=Neighbours(
            first, second, Adjacency.REPLACE_ONE, "a user near to all, or to none"
        ),
        trials=trials,
    )


outlier_removed_mean = suite(catalogue.outlier_removed_mean, MANY)
outlier_removed_mean_random = suite(catalogue.outlier_removed_mean_random, TRIALS)
user_level_phased_sgd = in_every_phase(catalogue.user_level_phased_sgd, TRIALS, 2)
user_level_phased_sgd_random = in_every_phase(catalogue.user_level_phased_sgd_random, FEW, 4)
user_level_accelerated_sgd = suite(catalogue.user_level_accelerated_sgd, TRIALS)
user_level_phased_erm = in_every_phase(catalogue.user_level_phased_erm, FEW, 2)
smoothed_user_level_phased_erm = in_every_phase(catalogue.smoothed_user_level_phased_erm, FEW, 2)
strongly_convex_reduction = in_every_phase(catalogue.strongly_convex_reduction, FEW, 4)
user_level_accelerated_sgd_independent_slots = slots(
    catalogue.user_level_accelerated_sgd_independent_slots
)
user_level_accelerated_sgd_redrawn_threshold = redrawn(
    catalogue.user_level_accelerated_sgd_redrawn_threshold
)
