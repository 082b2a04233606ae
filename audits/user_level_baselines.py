"""Audits of the baselines: one user of a linear loss on one side, or the other, white box.

Its gradient is a thousand times the clip.
A run reads fewer users where no declaration depends on their number.
Source: ours (dpaudit 2026).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from audits.user_level import EXCESS, NEAR, far, hub, linear, placed
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


def passes(mechanism: Mechanism) -> Suite:
    """16 users a run: the first user's gradients come first in phase 1."""
    program: Any = mechanism.program
    problem = replace(linear(program.problem), users=16)
    found = replace(program, problem=problem)
    return Suite(mechanism=mechanism.name, program=found, neighbours=opposed(16, 2), trials=5_000)


def full_batches(mechanism: Mechanism) -> Suite:
    """The hub, across the threshold of the test."""
    program: Any = mechanism.program
    found = replace(program, problem=linear(program.problem), radius=NEAR)
    batch, users = program.constants[0].batch, program.problem.users
    first, second = (placed(2 * NEAR * points, users) for points in hub(batch, 0.8 * batch))
    text = "one user's gradient is near to all others, or to none"
    apart = pair(first, far(first, second), text)
    return Suite(mechanism=mechanism.name, program=found, neighbours=apart, trials=FEW)


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


def local(mechanism: Mechanism) -> Suite:
    """The first user votes for the first bin, or the last."""
    program: Any = mechanism.program
    problem = replace(program.problem, loss=LinearLoss(1), items=1)
    return Suite(
        mechanism=mechanism.name,
        program=replace(program, problem=problem),
        neighbours=opposed(program.problem.users, 1),
        trials=2_000,
    )


user_level_phased_sgd_baseline = passes(catalogue.user_level_phased_sgd_baseline)
full_batch_outlier_removed_dpsgd = full_batches(catalogue.full_batch_outlier_removed_dpsgd)
winsorized_mean_dpsgd = batches(catalogue.winsorized_mean_dpsgd)
user_level_ldp_sgd = local(catalogue.user_level_ldp_sgd)
