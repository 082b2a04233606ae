"""Suites of the cases; ``slack`` draws too little noise."""

from __future__ import annotations

import numpy as np

from dpaudit.audit.neighbours import Neighbours
from dpaudit.audit.suite import Suite
from dpaudit.families.additive import Gaussian
from dpaudit.families.additive.kernel import GaussianKernel
from dpaudit.kernels.query import Array, Records
from mechanisms import cases

first, second = np.zeros((4, 1)), np.zeros((4, 1))
first[1], second[1] = 1.0, -1.0
PAIR = Neighbours(Records(first), Records(second), "replace_one", "a row is +1 or -1")


class TooLittle(GaussianKernel):
    """Two thirds of the declared noise: too little to be seen against a claim with room."""

    def sample(self, values: Array, scale: Array, rng: np.random.Generator) -> Array:
        return super().sample(values, scale * 2 / 3, rng)


held = Suite("held", cases.held.program, PAIR, trials=400)
slack = Suite("slack", cases.slack.program, PAIR, trials=2_000, kernels={Gaussian: TooLittle})
slow = Suite("slow", cases.slow.program, PAIR, trials=4_400)
