"""Hubs of users: an outlier-removed mean shows one itself; the losses of WIDE entries cannot."""

from __future__ import annotations

from typing import Any

import pytest

from audits import user_level as audits
from benchmarks.likelihoods import NOT_FOUND, WIDE
from dpaudit.audit.likelihood import likelihood_audit
from dpaudit.curator.mechanism import Mechanism
from dpaudit.project.project import catalogue_root, load
from mechanisms.papers.user_level import catalogue
from mechanisms.papers.user_level.phased_sgd import UserLevelPhasedSGD

PROGRAMS = load(catalogue_root()).mechanisms
RUNS, ENOUGH = 700, 0.9
# Epsilon that the former stand-ins showed: one item a user, and a user as a group of items.
STAND_INS = {"outlier_removed_mean": 0.2478, "outlier_removed_mean_random": 1.945}


def shown(mechanism: Mechanism) -> float:
    """The epsilon that likelihoods of the suite's runs show, at the claim's own delta."""
    suite = audits.suite(mechanism)
    assert suite.program is mechanism.program
    found = likelihood_audit(
        suite.program, mechanism.declaration, mechanism.scope, suite.neighbours, mechanism.claims,
        seed=1, runs=RUNS, shown_error=0.05, decisive_error=1e-4,
    )  # fmt: skip
    return found.bounds[0].shown


@pytest.mark.parametrize("name", STAND_INS)
def test_a_mean_shows_what_its_stand_in_showed(name: str) -> None:
    assert shown(PROGRAMS[name]) > ENOUGH * STAND_INS[name]


def test_without_height_one_of_many_users_of_a_group_crosses_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(audits, "HEIGHT", 0.0)
    assert (
        shown(catalogue.outlier_removed_mean_random)
        < ENOUGH * STAND_INS["outlier_removed_mean_random"]
    )


def farthest(program: Any) -> list[tuple[float, float]]:
    """For each phase how far apart two of its points can be, and the radius of its test."""
    if isinstance(program, UserLevelPhasedSGD):
        problem, groups = program.problem, program.constants.groups
        return [
            (
                2 * min(
                    phase.users // groups * problem.items * phase.step * problem.lipschitz,
                    problem.radius,
                ),
                phase.radius,
            )
            for phase in program.phases
        ]  # fmt: skip
    bases = getattr(program, "bases", (program,))
    return [(2 * base.problem.lipschitz, 2 * base.radius) for base in bases]


@pytest.mark.parametrize("name", NOT_FOUND[WIDE])
def test_no_data_of_its_own_loss_cross_a_wide_test(name: str) -> None:
    program: Any = PROGRAMS[name].program
    phases = farthest(getattr(program, "program", program))
    assert phases
    assert all(apart <= radius for apart, radius in phases)


def test_a_narrow_test_may_be_crossed() -> None:
    """Not in the first phase, whose start is public: later ones start at noise."""
    first, later, *_ = farthest(catalogue.user_level_phased_sgd_random.program)
    assert first[0] < first[1]
    assert later[0] > later[1]
