"""Small programs and data for the tests of Accelerated-DP-SRGD's baselines."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from audits import srgd_baselines as audits
from dpaudit.curator.curator import Sampler
from dpaudit.curator.mechanism import Mechanism
from dpaudit.kernels.query import Array, Records
from dpaudit.scope import Scope, central
from mechanisms.papers.common.losses import LeastSquares
from mechanisms.papers.srgd import baselines_catalogue as catalogue
from mechanisms.papers.srgd.baselines import (
    AcceleratedDPSGD,
    DPSGDOnePass,
    DPSGDPoisson,
)
from mechanisms.papers.srgd.batches_catalogue import phased_erm_in_batches
from mechanisms.papers.srgd.localized import LocalizedAcceleratedDPSGD
from mechanisms.papers.srgd.online import DPFTRL, DPOnlineToBatch
from mechanisms.papers.srgd.phased_erm import PhasedERM
from mechanisms.papers.srgd.phased_sgd import PhasedSGD
from mechanisms.papers.srgd.problem import Problem

ZERO_OUT, REPLACE_ONE, ADD_REMOVE = map(central, ("zero_out", "replace_one", "add_remove"))
TINY = Fraction(1, 10**9)
CATALOGUE = {m.name: m for m in vars(catalogue).values() if isinstance(m, Mechanism)}
CATALOGUE[phased_erm_in_batches.name] = phased_erm_in_batches
# The worst cases of all entries: of some no audit is kept, as searches show as much.
SUITES = {s.mechanism: s for s in audits.suites} | {
    m.name: audits.suite(m, size)
    for m, size in (
        (catalogue.accelerated_dp_sgd, 20),
        (catalogue.dp_sgd_one_pass, 20),
        (catalogue.dp_ftrl, 32),
        (catalogue.dp_gd_projected, 2),
        (catalogue.dp_sgd_one_pass_replace_one, 20),
        (catalogue.dp_sgd_poisson, 2),
        (catalogue.dp_online_to_batch, 32),
    )
}
HOSTILE = [1e300, -1e12, np.inf, np.nan]


def problem(size: int = 24, **changes: Any) -> Problem:
    """Least squares with room: neither the ball nor the clip acts unless a test asks for it."""
    return replace(Problem(LeastSquares(), 2, size, radius=50.0, clip=1e6), **changes)


def regression(blocks_of_equal_rows: int = 1, rows: int = 24) -> Array:
    """Rows (x1, x2, target), the same in every block."""
    rng = np.random.default_rng(0)
    block = rng.uniform(-1, 1, size=(rows // blocks_of_equal_rows, 3))
    return np.tile(block, (blocks_of_equal_rows, 1))


def logistic_rows(n: int, seed: int = 0) -> Array:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, 2))
    return np.column_stack([x, rng.random(n) < 0.6])


def run(program: Any, rows: Array, scope: Scope = ZERO_OUT, seed: int = 0, trials: int = 1) -> Any:
    sampler = Sampler(
        program.declaration(scope),
        scope,
        Records(rows),
        rng=np.random.default_rng(seed),
        trials=trials,
    )
    return program.run(sampler)


def least_squares_gradient(x: Array, rows: Array) -> Array:
    """Of the mean of (x.w - y)^2, written out."""
    return np.asarray(2 * (rows[:, :2] @ x - rows[:, 2]) @ rows[:, :2] / len(rows))


PROGRAMS: dict[str, Callable[..., Any]] = {
    "accelerated": lambda z=1, **p: AcceleratedDPSGD(problem(**p), 4, 8.0, z),
    "one_pass": lambda z=1, **p: DPSGDOnePass(problem(**p), 4, 0.1, z),
    "poisson": lambda z=1, **p: DPSGDPoisson(problem(**p), 4, Fraction(1, 2), 0.1, z),
    "ftrl": lambda z=1, **p: DPFTRL(problem(**p), 4, 0.1, z),
    "online": lambda z=1, **p: DPOnlineToBatch(problem(**p), 4, 0.02, z, clip=1e6),
    "phased_sgd": lambda z=1, **p: PhasedSGD(problem(**p), 3, 0.1, 10.0, z),
    "phased_erm": lambda z=1, **p: PhasedERM(problem(**p), 3, 0.1, 10.0, z),
    "localized": lambda z=1, **p: LocalizedAcceleratedDPSGD(
        problem(**p), 2, 3, Fraction(1, 2), 0.1, 10.0, z
    ),
}
