"""User-level DP-SGD: steps along noisy means of users' clipped mean gradients."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from dpaudit.curator.curator import Curator
from dpaudit.exact import Number
from dpaudit.families.additive import Gaussian
from dpaudit.families.composition import Parallel, Repeat
from dpaudit.kernels.query import ClippedMean
from dpaudit.nodes import Node
from dpaudit.scope import Scope
from mechanisms.papers.srgd.problem import blocks, multiplier
from mechanisms.papers.user_level.phased_sgd import Solution
from mechanisms.papers.user_level.problem import Problem, check_scope, positive, whole


@dataclass(frozen=True)
class UserLevelDPSGD:
    """Projected steps on ``batches`` disjoint batches of users, ``passes`` times; the mean iterate.

    One pass over several batches is one-pass DP-SGD, passes over one batch are full-batch DP-GD.
    A user's mean gradient is clipped to ``clip``, so that replacing a user moves a batch's mean by
    2 clip / B: its noise is N(0, (``noise_multiplier`` 2 clip / B)^2) a coordinate, and a run is
    sqrt(passes) / noise_multiplier-GDP.
    Errors: InvalidParameter for more batches than users, or for numbers that are not positive.
    Source: Bassily, Smith, Thakurta 2014, with a user's mean gradient for a record's; parallel
    composition (McSherry 2009, Theorem 4).
    """

    problem: Problem
    batches: int
    passes: int
    step_size: float
    clip: float
    noise_multiplier: Number

    def __post_init__(self) -> None:
        whole(self.passes, "passes")
        positive(self.step_size, "step_size")
        positive(self.clip, "clip")
        blocks(self.problem.users, self.batches)
        noise = multiplier(self.noise_multiplier, "noise_multiplier")
        object.__setattr__(self, "noise_multiplier", noise)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Users of each batch, and of the rest, which is never read."""
        return blocks(self.problem.users, self.batches)

    def declaration(self, scope: Scope) -> Node:
        """Gaussian releases on disjoint batches, every pass anew."""
        check_scope(scope, type(self).__name__)
        each = (
            Repeat(Gaussian(f"batch {t}", self.noise_multiplier), self.passes)
            for t in range(self.batches)
        )
        return Parallel(*each)

    def run(self, curator: Curator) -> Solution:
        point = self.problem.start(curator.trials)
        total = np.zeros_like(point)
        for _ in range(self.passes):
            for t in range(self.batches):
                query = ClippedMean(partial(self.problem.user_gradients, point), self.clip)
                rows = curator.part(t, self.sizes)
                slope = curator.release(f"batch {t}", query, rows=rows)
                point = self.problem.project(point - self.step_size * slope)
                total = total + point
        return Solution(total / (self.passes * self.batches), np.zeros(curator.trials, dtype=bool))
