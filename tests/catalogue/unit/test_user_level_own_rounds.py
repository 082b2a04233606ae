"""Baselines with the rounds that Figure 1 counts: BS23 in T = n, AL24 in T = beta R/L sqrt(nm)."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from dpaudit.accountant.account import Account
from dpaudit.curator.curator import Sampler
from dpaudit.errors import InvalidParameter
from dpaudit.kernels.query import Records
from mechanisms.papers.user_level.baselines import own_schedule
from mechanisms.papers.user_level.problem import USERS, Problem, SquaredDistance
from mechanisms.papers.user_level.winsorized import own_rounds

DELTA = Fraction(1, 10**6)


def made(users: int) -> Problem:
    return Problem(SquaredDistance(2), users, 3, 2, 1.0, 2.0)


@pytest.mark.quality
def test_its_rounds_batches_and_guarantee_are_those_of_the_figure() -> None:
    for users in (64, 400):
        program = own_rounds(made(users), 1, DELTA, radius=0.5, step=0.1)
        assert (program.rounds, program.batch) == (users, round(users**0.5))
        bound = Account(program.declaration(USERS), USERS).epsilon(DELTA)
        assert bound.upper <= 1
    with pytest.raises(InvalidParameter, match="at most 1"):
        own_rounds(made(64), 2, DELTA, radius=0.5, step=0.1)


def test_it_runs() -> None:
    program = own_rounds(made(49), 1, DELTA, radius=0.5, step=0.1)
    records = Records(np.random.default_rng(1).uniform(-0.5, 0.5, (49, 3, 2)))
    declared = program.declaration(USERS)
    found = program.run(Sampler(declared, USERS, records, rng=np.random.default_rng(2)))
    assert np.linalg.norm(found.output) <= 1 + 1e-12


def test_al24_takes_its_own_rounds_in_every_phase() -> None:
    counts = []
    for users in (2_000, 20_000):
        program = own_schedule(made(users), 8, DELTA, smoothness=1.0)
        rounds = math.ceil(math.sqrt(users * 3))  # beta R / L = 1
        assert {c.rounds for c in program.constants} == {rounds}
        assert len(program.constants) >= 2
        bound = Account(program.declaration(USERS), USERS).epsilon(DELTA)
        assert bound.upper <= 8
        # Of the first phase: more users suffice for more phases.
        counts.append(program.constants[0].rounds * program.constants[0].batch)
        assert counts[-1] * 3 < program.gradients < 2 * counts[-1] * 3
    assert abs(math.log10(counts[1] / counts[0]) - 3 / 2) < 0.01
    with pytest.raises(InvalidParameter, match="too few for"):
        own_schedule(made(100), 1, DELTA, smoothness=1.0)


def test_al24_runs_both_phases() -> None:
    program = own_schedule(made(2000), 8, DELTA, smoothness=1.0)
    assert len(program.constants) >= 2
    records = Records(np.random.default_rng(1).uniform(0.1, 0.5, (2000, 3, 2)))
    sampler = Sampler(program.declaration(USERS), USERS, records, rng=np.random.default_rng(2))
    found = program.run(sampler)
    assert not found.halted.any()
    labels = {event.label for event in sampler.transcript}
    assert {"gradient 1", "gradient 2", "score 1", "score 2"} <= labels
