"""Audits of stable releases at user level: the function that attains the exact profile, white box.

The statistic is replaced by :class:`Adversarial`, whose score and vector are known in closed form,
so that kappas at which no enumeration ends are attacked; scores are kappa and kappa + 1, the worst
pair.  One user, the last of the batch that holds it, differs.
Source: the function is ours (dpaudit 2026); Ghazi et al. 2023, Theorem 3.3 is the claim.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from dpaudit.audit.neighbours import Neighbours
from dpaudit.audit.suite import Suite
from dpaudit.curator.curator import Program
from dpaudit.curator.mechanism import Mechanism
from dpaudit.kernels.query import Records
from dpaudit.scope import Adjacency
from mechanisms.papers.stable_erm import catalogue as stable
from mechanisms.papers.stable_erm.adversarial import Adversarial, Oracle
from mechanisms.papers.stable_erm.calibration import Constants
from mechanisms.papers.stable_erm.localised import Localised
from mechanisms.papers.stable_erm.phased import PhasedERM, PhasedSCO
from mechanisms.papers.stable_erm.release import (
    DeletionStableOutputPerturbation,
    StronglyConvexOutputPerturbation,
)
from mechanisms.papers.stable_erm.solver import Minimiser

TRIALS = 20_000
PHASE_TRIALS = 4_000
SINGLE = (
    DeletionStableOutputPerturbation,
    StronglyConvexOutputPerturbation,
    PhasedERM,
    PhasedSCO,
)


def adversary(search: Oracle, minimiser: Minimiser | None = None) -> Adversarial:
    """The adversarial function in place of a minimiser."""
    return Adversarial(search.score, search.other, stability=search.stability)


def oracle(constants: Constants, replaced: Any) -> Oracle:
    """Scores kappa and kappa + 1, with the assumption of the search that is replaced."""
    assumption = getattr(replaced, "assumption", None)
    return Oracle(constants.kappa, constants.kappa + 1, constants.distance, assumption)


def attacked(program: Any) -> Program:
    """The same program and noise on the adversarial function.

    Errors: TypeError for a program that is none of this paper's.
    """
    if isinstance(program, Localised):
        first: Any = attacked(program.first)
        phases: Any = attacked(program.phases)
        return replace(program, first=first, phases=phases)
    if not isinstance(program, SINGLE):
        raise TypeError(f"{type(program).__name__}: no program of this paper")
    search = oracle(program.constants, program.search)
    if isinstance(program, DeletionStableOutputPerturbation):
        return replace(program, statistic=adversary(search), search=search)
    return replace(program, search=search, make=partial(adversary, search))


def neighbours(users: int, changed: int, text: str) -> Neighbours:
    """All users are 0; user ``changed`` is 1 in the second data set."""
    first = np.zeros((users, 1, 1))
    second = first.copy()
    second[changed] = 1.0
    return Neighbours(Records(first), Records(second), Adjacency.REPLACE_ONE, text)


def suite(mechanism: Mechanism, users: int, changed: int, trials: int = TRIALS) -> Suite:
    """White-box audit: the changed user decides which of two groups a function rests on."""
    text = f"user {changed} decides which group of users the function is stable without"
    return Suite(
        mechanism=mechanism.name,
        program=attacked(mechanism.program),
        neighbours=neighbours(users, changed, text),
        trials=trials,
    )


def whole(mechanism: Mechanism, users: int, trials: int = TRIALS) -> Suite:
    """The changed user is the last of all."""
    return suite(mechanism, users, users - 1, trials)


def own(mechanism: Mechanism, outliers: int = 3) -> Suite:
    """The program itself, its own loss and search: users at 0, and kappa or kappa + 1 of them at 1.

    What the adversarial function leaks, no mean does; found by trying every number of outliers.
    """
    problem: Any = mechanism.program
    size = problem.problem.users, problem.problem.items, 1
    first = np.zeros(size)
    first[:outliers] = 1.0
    second = first.copy()
    second[-1] = 1.0
    text = f"{outliers} or {outliers + 1} of {size[0]} users are at 1, the others at 0"
    pair = Neighbours(Records(first), Records(second), Adjacency.REPLACE_ONE, text)
    return Suite(mechanism.name, mechanism.program, pair, trials=PHASE_TRIALS)


def in_batch(mechanism: Mechanism, batch: int = 0) -> Suite:
    """The changed user is the last of a batch, counted from 0, on the border of two."""
    sizes = _phases(mechanism).sizes[: batch + 1]
    return suite(mechanism, _phases(mechanism).problem.users, sum(sizes) - 1, PHASE_TRIALS)


def every_batch(mechanism: Mechanism) -> Suite:
    """The last user of batch 1, and beside it of each later one; of the last part nobody reads."""
    later = range(1, len(_phases(mechanism).sizes) - 1)
    also = tuple(in_batch(mechanism, batch) for batch in later)
    return replace(in_batch(mechanism), also=also)


def _phases(mechanism: Mechanism) -> Any:
    program: Any = mechanism.program
    return program.phases if isinstance(program, Localised) else program


deletion_stable_output_perturbation = whole(stable.deletion_stable_output_perturbation, 300)
deletion_stable_output_perturbation_calibrated = whole(
    stable.deletion_stable_output_perturbation_calibrated, 300
)
strongly_convex_output_perturbation = own(stable.strongly_convex_output_perturbation)
strongly_convex_output_perturbation_printed = whole(
    stable.strongly_convex_output_perturbation_printed, stable.PAPER_PROBLEM.users
)
window_mean_score = whole(stable.window_mean_score, stable.WINDOW_USERS)
deletion_stable_output_perturbation_laplace = whole(
    stable.deletion_stable_output_perturbation_laplace, stable.WINDOW_USERS
)
ladder_stable_output_perturbation = whole(
    stable.ladder_stable_output_perturbation, stable.WINDOW_USERS
)
stable_phased_erm = whole(stable.stable_phased_erm, stable.ERM_PROBLEM.users, PHASE_TRIALS)
stable_phased_sco = every_batch(stable.stable_phased_sco)
strongly_convex_erm = whole(stable.strongly_convex_erm, stable.LOCALISED_USERS, PHASE_TRIALS)
strongly_convex_sco = every_batch(stable.strongly_convex_sco)
