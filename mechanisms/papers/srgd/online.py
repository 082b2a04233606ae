"""Baselines with correlated noise on prefix sums: DP-FTRL, and private online-to-batch.

Source: Choquette-Choo, Ganesh, Thakurta 2024, Section 2.2 and Table 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from dpaudit.curator.curator import Curator
from dpaudit.errors import InvalidParameter
from dpaudit.exact import Number
from dpaudit.families.correlated import CorrelatedGaussian
from dpaudit.kernels.query import Array, ClippedMean
from dpaudit.nodes import Node
from dpaudit.scope import Scope
from mechanisms.papers.srgd.problem import (
    Problem,
    Solution,
    Work,
    blocks,
    moves,
    multiplier,
    one_gradient_each,
    real,
)


@dataclass(frozen=True)
class DPFTRL:
    """Follow the regularised leader on noisy prefix sums of clipped batch gradients.

    x_{t+1} = Proj(x_0 - ``step_size`` r_t), r_t = sum_{i <= t} (1/B) sum clip(g_i, C) + (B_ Z)_t, a
    lazy projection; A = B_ C_ is the ``strategy``, Z has standard deviation ``noise_multiplier``
    C / B, and C / B is the sensitivity of a batch under zero_out.  The output is x_T.
    Source: Choquette-Choo, Ganesh, Thakurta 2024, Section 2.2; Kairouz et al. 2021.
    """

    problem: Problem
    steps: int
    step_size: float
    noise_multiplier: Number
    strategy: str = "tree"

    def __post_init__(self) -> None:
        blocks(self.problem.size, self.steps)
        real(self.step_size, "DPFTRL.step_size")
        found = multiplier(self.noise_multiplier, "DPFTRL.noise_multiplier")
        object.__setattr__(self, "noise_multiplier", found)
        CorrelatedGaussian("gradient", found, self.steps, self.strategy)

    @property
    def work(self) -> Work:
        """One gradient a record that is read."""
        return one_gradient_each(self.problem.size, self.steps)

    def declaration(self, scope: Scope) -> Node:
        """All noisy prefix sums; a record is in one batch."""
        noise = self.noise_multiplier / moves(scope, type(self).__name__)
        return CorrelatedGaussian("gradient", noise, self.steps, self.strategy)

    def run(self, curator: Curator) -> Solution:
        """Run on a curator; iterates are (trials, d)."""
        sizes = blocks(self.problem.size, self.steps)
        x = start = self.problem.start(curator.trials)
        for t in range(self.steps):
            query = self.problem.mean_gradient(x, float(sizes[t]))
            prefix = curator.release("gradient", query, rows=curator.part(t, sizes))
            x = self.problem.project(start - self.step_size * prefix)
        return Solution(x, x)


@dataclass(frozen=True)
class DPOnlineToBatch:
    """Online learning on noisy prefix sums of weighted gradient differences.

    x_t = sum_{i <= t} w_i u_i / w_{1:t}, w_t = t^``power``; round t clips every
    D_i = w_t grad f(x_t, d_i) - w_{t-1} grad f(x_{t-1}, d_i) of its batch to ``clip`` and releases
    the noisy prefix sum of batch means, an estimate of w_t grad F(x_t); then
    u_{t+1} = Proj(u_t - ``step_size`` estimate).  The output is x_{T+1}.
    The noise has standard deviation ``noise_multiplier`` clip / B on the nodes of ``strategy``;
    ``problem.clip`` is not used.
    With the default ``clip``, :func:`online_to_batch_clip`, no difference of an L-Lipschitz,
    M-smooth loss is ever clipped; privacy rests on the clip alone.
    Source: a reconstruction of Zhang, Tran, Cutkosky 2022, which Choquette-Choo, Ganesh, Thakurta
    2024 only cite (Table 1), with one record a round, steps = size; larger batches are ours.
    """

    problem: Problem
    steps: int
    step_size: float
    noise_multiplier: Number
    clip: float
    power: int = 1
    strategy: str = "tree"

    def __post_init__(self) -> None:
        blocks(self.problem.size, self.steps)
        for name in ("step_size", "clip", "power"):
            real(getattr(self, name), f"DPOnlineToBatch.{name}")
        found = multiplier(self.noise_multiplier, "DPOnlineToBatch.noise_multiplier")
        object.__setattr__(self, "noise_multiplier", found)
        CorrelatedGaussian("difference", found, self.steps, self.strategy)

    @property
    def work(self) -> Work:
        """Two gradients a record that is read, one in the first batch."""
        batch = self.problem.size // self.steps
        return Work((2 * self.steps - 1) * batch, self.steps)

    def declaration(self, scope: Scope) -> Node:
        """All noisy prefix sums; a record is in one batch."""
        noise = self.noise_multiplier / moves(scope, type(self).__name__)
        return CorrelatedGaussian("difference", noise, self.steps, self.strategy)

    def run(self, curator: Curator) -> Solution:
        """Run on a curator; iterates are (trials, d)."""
        sizes = blocks(self.problem.size, self.steps)
        x = previous = learner = self.problem.start(curator.trials)
        total = 1.0
        for t in range(1, self.steps + 1):
            query = self.query(x, previous, t, float(sizes[t - 1]))
            found = curator.release("difference", query, rows=curator.part(t - 1, sizes))
            learner = self.problem.project(learner - self.step_size * found)
            total += self.weight(t + 1)
            previous, x = x, x + self.weight(t + 1) / total * (learner - x)
        return Solution(x, x)

    def weight(self, t: int) -> float:
        """w_t = t^power, for t from 1 on; w_0 = 0."""
        return float(t) ** self.power

    def query(self, x: Array, previous: Array, t: int, divisor: float) -> ClippedMean:
        """The mean of clipped weighted differences, both gradients on one batch."""
        return ClippedMean(partial(self._rows, x, previous, t), self.clip, divisor=divisor)

    def _rows(self, x: Array, previous: Array, t: int, records: Array) -> Array:
        now = self.weight(t) * self.problem.loss.gradients(x, records)
        if t == 1:
            return now
        return now - self.weight(t - 1) * self.problem.loss.gradients(previous, records)


def online_to_batch_clip(
    steps: int, lipschitz: float, smoothness: float, diameter: float, power: int = 1
) -> float:
    """max_t M D w_t^2 / w_{1:t} + (w_t - w_{t-1}) L: no difference is longer, w_t = t^power.

    It bounds ||D_i|| for every L-Lipschitz, M-smooth loss over a set of this diameter, whatever the
    data and the noise; for power = 1 it is below 2 M D + L.
    Errors: InvalidParameter for numbers that are not positive (``smoothness`` may be 0).
    Source: x_t - x_{t-1} = (w_t / w_{1:t}) (u_t - x_{t-1}); the argument is ours.
    """
    for name, value in (("lipschitz", lipschitz), ("diameter", diameter), ("power", power)):
        real(value, f"online_to_batch_clip.{name}")
    if not (np.isfinite(smoothness) and smoothness >= 0):
        raise InvalidParameter(f"online_to_batch_clip.smoothness = {smoothness}: expected >= 0")
    weights = np.arange(1, steps + 1, dtype=np.float64) ** power
    gaps = np.diff(weights, prepend=0.0)
    bounds = smoothness * diameter * weights**2 / np.cumsum(weights) + gaps * lipschitz
    # The first round has one gradient and no difference.
    return float(max(lipschitz, bounds[1:].max(initial=0.0)))
