"""The objective of E3 to E8: 1,000 unit rows in 20 dimensions, replicated, so that f stays fixed.

Only the weight of one record, and with it the noise, changes with the number of records.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

from dpaudit.errors import InvalidParameter
from dpaudit.kernels.query import Array, Records
from experiments.objectives import PenalisedLogistic, replicated, unit_rows
from mechanisms.papers.diff2.framework import Diff2, schedule
from mechanisms.papers.diff2.theory import (
    Budget,
    Choice,
    Problem,
    diff2_gd_auto,
    diff2_gd_bound,
    diff2_gd_step_size,
    dp_gd_auto,
)

FEATURES, ROWS, DATA_SEED = 20, 1000, 20
EPSILON, DELTA = 3, Fraction(1, 10**5)
LOSS = PenalisedLogistic()
SMOOTHNESS = LOSS.smoothness
GRADIENT_BOUND = LOSS.gradient_bound(FEATURES)
# f(0) - inf f is at most f(0) = log 2.
FACTS = Problem(SMOOTHNESS, GRADIENT_BOUND, math.log(2), FEATURES)


@lru_cache(maxsize=1)
def rows() -> Array:
    """The distinct rows, public and made of a fixed seed."""
    return unit_rows(ROWS, FEATURES, DATA_SEED)


def records(size: int) -> Records:
    """The rows, each size / 1000 times.

    Errors: InvalidParameter for a size that is no multiple of 1000.
    """
    if size < 1 or size % ROWS:
        raise InvalidParameter(f"{size} records: expected a multiple of {ROWS}")
    return replicated(rows(), size // ROWS)


def chosen(method: str, size: int) -> Choice:
    """Data-free parameters with the least bound, at the constants as printed.

    ``method``: "dp_gd" or "diff2".
    """
    budget = Budget(EPSILON, DELTA, size)
    return dp_gd_auto(FACTS, budget) if method == "dp_gd" else diff2_gd_auto(FACTS, budget)


def program(choice: Choice, size: int) -> Diff2:
    """DIFF2-GD on this objective: C1 = G and C2 = L, so that nothing is ever clipped."""
    return Diff2(
        loss=LOSS,
        features=FEATURES,
        client_sizes=(size,),
        rounds=choice.rounds,
        restart_every=choice.restart_every,
        gradient_radius=GRADIENT_BOUND,
        difference_radius=SMOOTHNESS,
        step_size=choice.step_size,
        noise=choice.noise,
    )


def planned(calibration: str, size: int, rounds: int, restart_every: int, share: float) -> Choice:
    """A choice with a schedule of one's own, and the step size and bound that go with it."""
    restarts, differences = schedule(rounds, restart_every)
    budget = Budget(EPSILON, DELTA, size, calibration)
    made = budget.noise(restarts, differences, share if differences else 1.0)
    step = diff2_gd_step_size(FACTS, restart_every, made)
    bound = diff2_gd_bound(FACTS, rounds, restart_every, made)
    return Choice(rounds, restart_every, share, step, made, bound)
