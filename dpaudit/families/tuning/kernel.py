"""Numbers of runs, for a search and for its audits."""

from __future__ import annotations

import numpy as np

from dpaudit.errors import InvalidParameter
from dpaudit.kernels.base import Generator
from dpaudit.kernels.query import Array

MOST_RUNS = 10**6


def numbers_of_runs(gamma: float, shape: float, rng: Generator, trials: int) -> Array:
    """K, (trials,), of the truncated negative binomial law; errors: InvalidParameter.

    Its terms are summed until what is left is below 1e-12 of them, at most ``MOST_RUNS``.
    """
    if not (0 < gamma < 1 and shape > -1):
        raise InvalidParameter(f"gamma = {gamma}, shape = {shape}: expected (0, 1) and above -1")
    most = min(int(np.ceil(40 * (1 + max(shape, 0)) / gamma)), MOST_RUNS)
    k = np.arange(1, most)
    ratios = (1 - gamma) * (k + shape) / (k + 1)
    law = np.cumprod(np.concatenate(([1.0], ratios)))
    reached = np.cumsum(law) / law.sum()
    found: Array = (1 + np.searchsorted(reached, rng.random(trials))).astype(np.float64)
    return np.minimum(found, most)
