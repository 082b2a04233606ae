"""Audits of output perturbation and noisy gradients, per user and per row, white box.

Output perturbation: one row's label and features are turned, with all others at zero; a logistic
loss moves by at most half of the bound, which holds for any loss of its class.  Noisy gradients:
one row's gradient is a thousand times the clip, with either sign, within a domain too small to
leave it.
Propose-test-release: one user moves the median by a unit and the distance by 1, at the bar.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from dpaudit.audit.neighbours import Neighbours
from dpaudit.audit.suite import Suite
from dpaudit.curator.mechanism import Mechanism
from dpaudit.kernels.query import Records
from dpaudit.scope import Adjacency
from mechanisms.papers.stable_erm import baselines_catalogue as baselines
from mechanisms.papers.stable_erm.baselines import NoisyGradientDescent
from mechanisms.papers.stable_erm.domains import Ball
from mechanisms.papers.stable_erm.phased import batch_sizes
from mechanisms.papers.stable_erm.solver import RidgeLogistic

ROWS = 64
TRIALS = 3_000
EXCESS = 1e3  # so that a clip that was deleted shows
LONG = 1e9  # of features, above every feature norm, to which they are scaled down


def opposed(items: int, row: int = 0) -> Neighbours:
    """A row is e_1, or minus e_1, in every item; all others have no features, and no gradient."""
    first = np.zeros((ROWS, items, 3))
    first[..., -1] = 1.0
    first[row, :, 0] = LONG
    second = first.copy()
    second[row, :, 0] = -LONG
    text = f"row {row} has features e_1 or -e_1; all others have none"
    return Neighbours(Records(first), Records(second), Adjacency.REPLACE_ONE, text)


def small(program: Any) -> Any:
    """The same noise on two parameters and few rows; gradients that fill the clip."""
    loss = RidgeLogistic(modulus=20.0, feature_norm=1.0)
    problem = replace(program.problem, users=ROWS, features=3, loss=loss)
    if isinstance(program, NoisyGradientDescent):
        steep = RidgeLogistic(modulus=0.5, feature_norm=4 * EXCESS * program.radius)
        # Within this ball the margin stays small: slopes are a half, but for a twentieth.
        tiny = Ball(0.1 / steep.feature_norm)
        return replace(program, problem=replace(problem, loss=steep, domain=tiny))
    return replace(program, problem=problem)


def suite(mechanism: Mechanism) -> Suite:
    """White-box audit under replace_one of a row."""
    program: Any = mechanism.program
    items = 1 if program.problem.items == 1 else 2
    return Suite(
        mechanism=mechanism.name,
        program=small(program),
        neighbours=opposed(items),
        trials=TRIALS,
    )


def in_every_phase(mechanism: Mechanism) -> Suite:
    """A row of phase 1, and beside it the first row of each later phase."""
    first = suite(mechanism)
    program: Any = first.program
    sizes = batch_sizes(ROWS, program.count)
    pairs = [opposed(1, sum(sizes[:phase])) for phase in range(1, program.count)]
    # So many that half of a mu of 0.24, which is all that a logistic loss shows, is seen.
    later = (replace(first, neighbours=pair, trials=8_000) for pair in pairs)
    return replace(first, also=tuple(later))


def at_the_bar(mechanism: Mechanism) -> Suite:
    """Half of the users at 0, half at one unit; one of the first goes to the bound.

    The median, the last 0, becomes the first unit; the distance, the number of units, falls by 1.
    """
    program: Any = mechanism.program
    reach = math.floor(program.bar)
    values = [-program.bound, 0.0, program.unit, program.bound]
    first = np.repeat(values, [1, reach + 1, reach, 1])[:, None, None]
    second = first.copy()
    second[1] = program.bound
    text = "one user goes from 0 to the bound, and the median from 0 to a unit"
    pair = Neighbours(Records(first), Records(second), Adjacency.REPLACE_ONE, text)
    return Suite(mechanism=mechanism.name, program=program, neighbours=pair, trials=TRIALS)


item_phased_erm = in_every_phase(baselines.item_phased_erm)
user_level_dp_gd = suite(baselines.user_level_dp_gd)
propose_test_release = at_the_bar(baselines.propose_test_release)
