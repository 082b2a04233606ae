"""Paper 1: programs that are no entries, examined as they are and wrong; a restart's search set."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dpaudit.audit.examine import examine
from dpaudit.curator.curator import Sampler
from dpaudit.kernels.query import Array, Records
from mechanisms.papers.user_level.baselines import own_schedule
from mechanisms.papers.user_level.phased_erm import base_weight, single_phase_erm
from mechanisms.papers.user_level.phased_sampled import sampled_phased_erm
from mechanisms.papers.user_level.problem import USERS, LinearLoss, Problem, SquaredDistance
from mechanisms.papers.user_level.winsorized import own_rounds
from tests.support.examined import mechanism

DELTA = Fraction(1, 10**6)


class Crowd(Problem):
    """Every user's gradient holds the sum of all users': one user decides on every other's."""

    def user_gradients(self, points: Array, users: Array) -> Array:
        own = super().user_gradients(points, users)
        return np.asarray(own + own.sum(axis=1, keepdims=True))


@dataclass(frozen=True)
class Kind:
    """A program, and of how many users."""

    make: Callable[[Problem], Any]
    users: int

    def found(self, kind: type[Problem]) -> list[str]:
        """What an examination finds wrong."""
        program = self.make(kind(SquaredDistance(2), self.users, 3, 2, 1.0, 2.0))
        rows = np.random.default_rng(1).uniform(-0.5, 0.5, (self.users, 3, 2))
        made = replace(mechanism("own", program), scope=USERS, records=lambda: Records(rows))
        examination = examine(made, seed=3)
        assert examination.shape is not None
        return [finding.check for finding in examination.broken]


KINDS = {
    "secret batches in phases": Kind(
        lambda problem: sampled_phased_erm(problem, 4, 4, DELTA, 1.0, most_rounds=4), 2_000
    ),
    "AL24, its own rounds, two phases": Kind(
        lambda problem: own_schedule(problem, 8, DELTA, smoothness=1.0), 2_000
    ),
    "BS23, T = n, B = sqrt(n)": Kind(
        lambda problem: own_rounds(problem, 1, DELTA, radius=0.5, step=0.1), 49
    ),
}


@pytest.mark.quality
@pytest.mark.parametrize("name", KINDS)
def test_the_examiner_finds_nothing_wrong_with_it(name: str) -> None:
    assert KINDS[name].found(Problem) == []


@pytest.mark.quality
@pytest.mark.parametrize("name", KINDS)
def test_the_examiner_finds_a_user_in_all_gradients(name: str) -> None:
    assert KINDS[name].found(Crowd)


@pytest.mark.parametrize("reach", [0.05, 0.2])
def test_a_restart_ends_within_its_search_set(reach: float) -> None:
    """Remark 3.6 by a run: the loss pulls out of the set, and the noise is small beside it."""
    problem = Problem(LinearLoss(2), 2_000, 3, 2, 1.0, 1.0)
    base = single_phase_erm(problem, 8, DELTA, 1.0, 10, base_weight(problem, 8.0))
    rows = Records(np.full((2_000, 3, 2), -1.0))
    start = np.array([[0.3, 0.1]])

    def distance(reach: float) -> float:
        program = replace(base, reach=reach, radius=0.1)
        sampler = Sampler(program.declaration(USERS), USERS, rows, rng=np.random.default_rng(4))
        on = np.ones(1, dtype=bool)
        found = program.run_in(sampler, start, on, lambda i: sampler.part(i, program.sizes))
        assert not found.halted.any()
        return float(np.linalg.norm(found.output - start))

    assert 0.99 * reach < distance(reach) <= reach * (1 + 1e-9)
    assert distance(float("inf")) > 0.25
