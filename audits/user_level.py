"""Audits of outlier-removed means and Algorithms 1 to 3 at user level: planted clouds, white box.

With a linear loss f(x, z) = <z, x> a user's data say where its group's iterate, or its gradient,
lies.  All users are at one point but the first, at twice tau on one side or the other: an inlier
on both data sets, whose mean moves by a quarter of what the analysis allows (weighted inliers).
Independent slots: 665 of 5,912 users are of the other sign, or 666.
Source: the clouds are ours (dpaudit 2026).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from dpaudit.audit.neighbours import Neighbours
from dpaudit.audit.suite import Suite
from dpaudit.curator import Program
from dpaudit.mechanism import Mechanism
from dpaudit.query import Array, Records
from dpaudit.scope import Adjacency
from mechanisms.user_level import catalogue
from mechanisms.user_level.accelerated import UserLevelAcceleratedSGD
from mechanisms.user_level.outliers import OutlierRemovedMean
from mechanisms.user_level.phased_erm import StronglyConvexReduction, UserLevelPhasedERM
from mechanisms.user_level.phased_sgd import UserLevelPhasedSGD
from mechanisms.user_level.problem import LinearLoss, Problem
from mechanisms.user_level.readings import IndependentSlotsTest, RedrawnThresholdTest

TRIALS = 2_000
FEW = 500
MANY = 50_000
DIMENSION = 2
WIDE = 1e9  # no projection cuts a released point
NEAR = 0.4  # tau over L: the first user's gradient, 2 tau, is not clipped
OUTLIERS = 665


def linear(problem: Problem) -> Problem:
    """The same users, one item each, with a linear loss in two parameters, L = 1."""
    loss = LinearLoss(DIMENSION)
    return replace(problem, loss=loss, items=1, features=DIMENSION, radius=WIDE, lipschitz=1.0)


def attacked(program: Any) -> Program:
    """The same noise on a linear loss, with a radius that the first user can reach.

    Errors: TypeError for a program that is none of this paper's.
    """
    if isinstance(program, OutlierRemovedMean):
        return replace(program, items=1, bound=1.0, radius=NEAR)
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
    """tau = NEAR times what a group moves whose first user alone has data."""
    groups = program.constants.groups
    phases = tuple(
        replace(phase, radius=NEAR * phase.step * (p + 1) / (2 * p))
        for phase, p in zip(
            program.phases, (p.users // groups for p in program.phases), strict=True
        )
    )
    return replace(program, problem=linear(program.problem), phases=phases)


def cloud(users: int, scale: float) -> Array:
    """All users at 0 but the first, at ``scale`` on the first axis: (users, 1, 2)."""
    found = np.zeros((users, 1, DIMENSION))
    found[0, 0, 0] = scale
    return found


def neighbours(users: int, scale: float, text: str) -> Neighbours:
    """The first user on one side, or the other."""
    return Neighbours(
        Records(cloud(users, scale)),
        Records(cloud(users, -scale)),
        Adjacency.REPLACE_ONE,
        text,
    )


def first_user_scale(program: Any) -> float:
    """How far the first user is, so that its group or gradient is at 2 tau."""
    if isinstance(program, OutlierRemovedMean):
        return min(1.0, 2 * NEAR * (program.users // program.constants.groups))
    return 2 * NEAR


def users_of(program: Any) -> int:
    """Rows of the records."""
    return int(program.users if hasattr(program, "users") else program.problem.users)


def suite(mechanism: Mechanism, trials: int = TRIALS) -> Suite:
    """White-box audit: the first user is twice tau away, on either side."""
    program = attacked(mechanism.program)
    text = "one user's group, or gradient, on either side of all others, an inlier on both"
    scale = first_user_scale(program)
    return Suite(
        mechanism=mechanism.name,
        program=program,
        neighbours=neighbours(users_of(program), scale, text),
        trials=trials,
    )


def outliers(count: int, users: int) -> Records:
    """So many users at -1, the others at 1: (users, 1, 2)."""
    rows = np.zeros((users, 1, DIMENSION))
    rows[:, 0, 0] = 1.0
    rows[:count, 0, 0] = -1.0
    return Records(rows)


def slots(mechanism: Mechanism, trials: int = FEW) -> Suite:
    """665 or 666 outliers; errors: TypeError for another program."""
    program = mechanism.program
    if not isinstance(program, IndependentSlotsTest):
        raise TypeError(f"{mechanism.name}: its slots are not drawn independently")
    pair = (outliers(OUTLIERS + more, program.users) for more in (0, 1))
    return Suite(
        mechanism=mechanism.name,
        program=program,
        neighbours=Neighbours(*pair, Adjacency.REPLACE_ONE, "665 or 666 users of the other sign"),
        trials=trials,
    )


SIDE = 1.56  # of a triangle; its centre is within 2 tau of all corners, the corners are not
FAR = 659


def triangle(corner: bool, users: int) -> Records:
    """5,252 users at one corner, 659 at another; the first at the centre, or the third corner."""
    angles = np.pi * np.array([7, 11, 3]) / 6
    corners = SIDE / np.sqrt(3) * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    rows = np.tile(corners[0], (users, 1, 1))
    rows[1 : 1 + FAR, 0] = corners[1]
    rows[0, 0] = corners[2] if corner else 0.0
    return Records(rows)


def redrawn(mechanism: Mechanism, trials: int = FEW) -> Suite:
    """A user whom all are near to, or none; errors: TypeError for another program."""
    program = mechanism.program
    if not isinstance(program, RedrawnThresholdTest):
        raise TypeError(f"{mechanism.name}: its threshold is not drawn anew")
    pair = (triangle(corner, program.users) for corner in (False, True))
    return Suite(
        mechanism=mechanism.name,
        program=program,
        neighbours=Neighbours(*pair, Adjacency.REPLACE_ONE, "a user near to all, or to none"),
        trials=trials,
    )


outlier_removed_mean = suite(catalogue.outlier_removed_mean, MANY)
outlier_removed_mean_random = suite(catalogue.outlier_removed_mean_random, MANY)
user_level_phased_sgd = suite(catalogue.user_level_phased_sgd, TRIALS)
user_level_phased_sgd_random = suite(catalogue.user_level_phased_sgd_random, TRIALS)
user_level_accelerated_sgd = suite(catalogue.user_level_accelerated_sgd, TRIALS)
user_level_phased_erm = suite(catalogue.user_level_phased_erm, TRIALS)
smoothed_user_level_phased_erm = suite(catalogue.smoothed_user_level_phased_erm, TRIALS)
strongly_convex_reduction = suite(catalogue.strongly_convex_reduction, TRIALS)
user_level_accelerated_sgd_independent_slots = slots(
    catalogue.user_level_accelerated_sgd_independent_slots
)
user_level_accelerated_sgd_redrawn_threshold = redrawn(
    catalogue.user_level_accelerated_sgd_redrawn_threshold
)
