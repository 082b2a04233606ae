"""BS23 with the rounds and batches that Figure 1 counts: T = n and B = sqrt(n)."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from dpaudit.accountant.account import Account
from dpaudit.curator.curator import Sampler
from dpaudit.errors import InvalidParameter
from dpaudit.kernels.query import Records
from mechanisms.papers.user_level.problem import USERS, Problem, SquaredDistance
from mechanisms.papers.user_level.winsorized import own_rounds

DELTA = Fraction(1, 10**6)


def made(users: int) -> Problem:
    return Problem(SquaredDistance(2), users, 3, 2, 1.0, 2.0)


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
