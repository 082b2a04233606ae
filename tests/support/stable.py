"""What tests of stable releases share: runs on random users, searches among users with a mean."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpaudit.curator.curator import Sampler
from dpaudit.kernels.query import Array, Records
from mechanisms.papers.stable_erm.calibration import USERS, Constants
from mechanisms.papers.stable_erm.domains import Box
from mechanisms.papers.stable_erm.problem import Problem
from mechanisms.papers.stable_erm.solver import Absolute
from mechanisms.papers.stable_erm.stable import Enumeration, Found, Search, UserMean

ABSOLUTE = Problem(Absolute(), Box(1.0, 5), 60, 10, 5, 1.0)
SMALL = Constants(2, 1, 3)
MEAN = UserMean()


def sampler(program: Any, data: Array, trials: int = 50, scope: Any = USERS) -> Sampler:
    return Sampler(
        program.declaration(scope),
        scope,
        Records(data),
        rng=np.random.default_rng(1),
        trials=trials,
    )


def run(program: Any, data: Array, trials: int = 50, scope: Any = USERS) -> Any:
    return program.run(sampler(program, data, trials, scope))


def users(count: int, items: int = 4, features: int = 1, seed: int = 0) -> Array:
    """Uniform on [-1, 1]: (count, items, features)."""
    return np.random.default_rng(seed).uniform(-1, 1, size=(count, items, features))


def column(*values: float) -> Array:
    """One user a value, with one item of one feature."""
    return np.array(values, dtype=np.float64).reshape(-1, 1, 1)


def found(
    values: Any, unit: float, kappa: int, search: Search | None = None
) -> tuple[float, Array]:
    """The score and the vector that a search gives for the users' mean."""
    shaped = np.asarray(values, dtype=np.float64).reshape(len(values), 1, -1)
    result: Found = (search or Enumeration()).find(MEAN, shaped, unit, kappa)
    return float(result.scores[0]), result.vectors[0]
