"""Audits of the options of paper 1: one user of a linear loss, or of a count, white box.

Source: ours (dpaudit 2026).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from audits.user_level import (
    ASIDE,
    CLUSTER,
    DIMENSION,
    EXCESS,
    NEAR,
    attacked,
    linear,
    of_phase,
    placed,
    users_before,
)
from audits.user_level_baselines import opposed, pair, passes
from dpaudit.audit.suite import Suite
from dpaudit.curator.mechanism import Mechanism
from mechanisms.papers.user_level import options_catalogue as catalogue
from mechanisms.papers.user_level.above import AboveThresholdCounts
from mechanisms.papers.user_level.order import InPublicOrder


def sampled(mechanism: Mechanism, phase: int = 0) -> Suite:
    """A user on either side of all others, an inlier on both, whom a batch may miss.

    Clipped to L, its gradient is 2 tau away from those of all others.
    """
    program: Any = mechanism.program
    problem = linear(program.problem)
    sides = opposed(problem.users, DIMENSION).first.values
    sides = np.roll(sides, users_before(program, phase), axis=0)
    text = f"one user's gradient on either side of all others{of_phase(phase)}"
    return Suite(
        mechanism=mechanism.name,
        program=replace(program, problem=problem, radius=problem.lipschitz / 2),
        neighbours=pair(sides, -sides, text),
        trials=200,
    )


def across(mechanism: Mechanism, phase: int, apart: int, trials: int) -> Suite:
    """A user of a phase near to all of its others or to none, of whom ``apart`` lie apart.

    So many that the batches' scores lie around the test's threshold; so few that an attack can
    average over how many of them a batch holds (:data:`dpaudit.curator.latent.MOST_OUTCOMES`).
    """
    program: Any = mechanism.program
    users = program.sizes[phase]
    between = np.zeros((users, DIMENSION))
    between[1:, 0] = CLUSTER
    between[1 : 1 + apart, 0] = -CLUSTER
    aside = between.copy()
    aside[0, 1] = ASIDE * EXCESS
    problem = linear(program.problem)
    first, second = (
        np.roll(placed(2 * NEAR * one, problem.users), users_before(program, phase), axis=0)
        for one in (between, aside)
    )
    text = f"one user's gradient near to all others, or to none{of_phase(phase)}"
    return Suite(
        mechanism=mechanism.name,
        program=replace(program, problem=problem, radius=2 * NEAR),
        neighbours=pair(first, second, text),
        trials=trials,
    )


def anywhere(mechanism: Mechanism, trials: int) -> Suite:
    """A user on either side of all others, an inlier on both, wherever the public order puts it.

    A step along its clipped gradient is tau long.
    """
    program: Any = mechanism.program
    assert isinstance(program, InPublicOrder)  # noqa: S101  (what this suite is for)
    users = program.problem.users
    sides = opposed(users, DIMENSION).first.values
    phased: Any = attacked(program.program)
    phases = tuple(replace(phase, radius=phase.step) for phase in phased.phases)
    return Suite(
        mechanism=mechanism.name,
        program=InPublicOrder(replace(phased, phases=phases)),
        neighbours=pair(sides, -sides, "one user's gradient on either side of all others"),
        trials=trials,
    )


def counts(mechanism: Mechanism, users: int = 3_230) -> Suite:
    """A user who reaches all levels, or none, where one too few others do."""
    program: Any = mechanism.program
    assert isinstance(program, AboveThresholdCounts)  # noqa: S101  (what this suite is for)
    rows = np.zeros((users, program.items, 1))
    rows[: program.target] = 1.0
    other = rows.copy()
    other[0] = 0.0
    return Suite(
        mechanism=mechanism.name,
        program=program,
        neighbours=pair(rows, other, "one user reaches every level, or none"),
        trials=10_000,
    )


user_level_accelerated_sgd_sampled_tests = sampled(
    catalogue.user_level_accelerated_sgd_sampled_tests
)
PHASES = catalogue.user_level_phased_erm_sampled_tests
user_level_phased_erm_sampled_tests = replace(
    across(PHASES, 2, apart=12, trials=600), also=(sampled(PHASES), sampled(PHASES, 1))
)
# Orders are drawn once a run, so that every trial is a run of its own: few of them.
user_level_phased_sgd_public_order = anywhere(catalogue.user_level_phased_sgd_public_order, 400)
PLAIN = catalogue.user_level_phased_sgd_plain
user_level_phased_sgd_plain = replace(passes(PLAIN, groups=200), also=(passes(PLAIN, 1, 200),))
above_threshold = counts(catalogue.above_threshold)
