"""Audits of the baselines: one user of a linear loss on one side, or the other, white box.

Its gradient is a thousand times the clip.
A run reads fewer users where no declaration depends on their number.
Source: ours (dpaudit 2026).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from audits.user_level import (
    DIMENSION,
    EXCESS,
    NEAR,
    far,
    hub,
    linear,
    of_phase,
    placed,
    users_before,
)
from dpaudit.audit.neighbours import Neighbours
from dpaudit.audit.suite import Suite
from dpaudit.curator.mechanism import Mechanism
from dpaudit.kernels.query import Array, Records
from dpaudit.scope import Adjacency
from mechanisms.papers.user_level import baselines_catalogue as catalogue
from mechanisms.papers.user_level.problem import LinearLoss

FEW = 600


def pair(first: Array, second: Array, text: str) -> Neighbours:
    """Neighbours under replace_one."""
    return Neighbours(Records(first), Records(second), Adjacency.REPLACE_ONE, text)


def opposed(users: int, dimension: int) -> Neighbours:
    """The first user is at 1,000 L, or its negative, of the first axis; all others at 0; L = 1."""
    rows = np.zeros((users, 1, dimension))
    rows[0, 0, 0] = EXCESS
    return pair(rows, -rows, "one user of the largest gradient, of either sign")


def moved(neighbours: Neighbours, by: int, text: str) -> Neighbours:
    """The same users, so many places later."""
    first, second = (np.roll(records.values, by, axis=0) for records in neighbours.pair)
    return pair(first, second, f"{neighbours.text}{text}")


def passes(mechanism: Mechanism, phase: int = 0, groups: int = 1) -> Suite:
    """16 users a group and run: the user's gradients come first in its phase, in its group."""
    program: Any = mechanism.program
    found = replace(program, problem=replace(linear(program.problem), users=16 * groups))
    neighbours = opposed(found.problem.users, DIMENSION)
    return Suite(
        mechanism=mechanism.name,
        program=found,
        neighbours=moved(neighbours, users_before(found, phase), of_phase(phase)),
        trials=5_000,
    )


def full_batches(mechanism: Mechanism, phase: int = 0) -> Suite:
    """The hub, across the threshold of the test."""
    program: Any = mechanism.program
    found = replace(program, problem=linear(program.problem), radius=NEAR)
    batch, users = program.constants[phase].batch, program.problem.users
    first, second = (placed(2 * NEAR * points, users) for points in hub(batch, 0.8 * batch))
    text = "one user's gradient is near to all others, or to none"
    apart = pair(first, far(first, second), text)
    return Suite(
        mechanism=mechanism.name,
        program=found,
        neighbours=moved(apart, users_before(program, phase), of_phase(phase)),
        trials=FEW,
    )


def batches(mechanism: Mechanism) -> Suite:
    """Ten parameters, of which one user's gradient moves all rotated ones; a batch may miss it."""
    program: Any = mechanism.program
    size, users = program.problem.dimension, program.problem.users
    problem = replace(program.problem, loss=LinearLoss(size), items=1, features=size, lipschitz=1.0)
    return Suite(
        mechanism=mechanism.name,
        program=replace(program, problem=problem),
        neighbours=opposed(users, size),
        trials=200,
    )


FKT, AL24 = catalogue.user_level_phased_sgd_baseline, catalogue.full_batch_outlier_removed_dpsgd
user_level_phased_sgd_baseline = replace(
    passes(FKT), also=tuple(passes(FKT, phase) for phase in range(1, 4))
)
full_batch_outlier_removed_dpsgd = replace(full_batches(AL24), also=(full_batches(AL24, 1),))
winsorized_mean_dpsgd = batches(catalogue.winsorized_mean_dpsgd)
