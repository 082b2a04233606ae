"""How far from a stationary point: the squared gradient norm, and that of the data-free start."""

import numpy as np

from dpaudit.kernels.query import Array
from experiments.diff2 import problem
from experiments.objectives import mean_square


def squared_gradient(x: Array) -> float:
    """||grad f(x)||^2 at a point (1, d)."""
    return float(mean_square(problem.LOSS.mean_gradients(x, problem.rows()))[0])


def at_start() -> float:
    """The same at 0, where every run of E4, E7 and E8 begins: what no learning leaves."""
    return squared_gradient(np.zeros((1, problem.FEATURES)))
