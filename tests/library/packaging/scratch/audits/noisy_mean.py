"""The audit of the noisy mean: one of ten records moves from one end of the ball to the other."""

from __future__ import annotations

import numpy as np

from dpaudit.audit.neighbours import Neighbours
from dpaudit.audit.suite import Suite
from dpaudit.kernels.query import Records
from mechanisms.noisy_mean import noisy_mean

ROWS = np.zeros((10, 2))
ROWS[0, 0] = 1.0

suite = Suite(
    mechanism=noisy_mean.name,
    program=noisy_mean.program,
    neighbours=Neighbours(Records(ROWS), Records(-ROWS), "replace_one", "one record changes sign"),
    trials=400,
)
