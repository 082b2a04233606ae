"""Baselines with fresh Gaussian noise: accelerated and plain DP-SGD, and Nesterov's method.

Source: Choquette-Choo, Ganesh, Thakurta 2024, Sections 2.1 and 5.5.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpaudit.curator.curator import Curator
from dpaudit.exact import Number, exact
from dpaudit.exact.domains import rate
from dpaudit.families.additive import Gaussian
from dpaudit.families.composition import Parallel, Repeat
from dpaudit.families.sampling import PoissonSampled
from dpaudit.kernels.query import Array
from dpaudit.nodes import Node
from dpaudit.scope import Scope
from mechanisms.papers.srgd.geometry import EtaSchedule, nesterov_step
from mechanisms.papers.srgd.problem import (
    Problem,
    Solution,
    Work,
    blocks,
    moves,
    multiplier,
    one_gradient_each,
    real,
    record_moves,
    whole,
)


class _OnePass:
    """What programs share that release one noisy gradient of each batch."""

    problem: Problem
    steps: int
    noise_multiplier: Number

    def check_fields(self, scale: str) -> None:
        """Errors: InvalidParameter for the batches, for the field ``scale``, or for the noise."""
        blocks(self.problem.size, self.steps)
        name = type(self).__name__
        real(getattr(self, scale), f"{name}.{scale}")
        found = multiplier(self.noise_multiplier, f"{name}.noise_multiplier")
        object.__setattr__(self, "noise_multiplier", found)

    @property
    def work(self) -> Work:
        """One gradient a record that is read."""
        return one_gradient_each(self.problem.size, self.steps)

    def declaration(self, scope: Scope) -> Node:
        """One Gaussian release a batch, on disjoint batches."""
        noise = self.noise_multiplier / moves(scope, type(self).__name__)
        return Parallel(*(Gaussian(f"batch {t}", noise) for t in range(self.steps)))

    def gradient(self, curator: Curator, x: Array, t: int) -> Array:
        """The release of batch t: the noisy mean of clipped gradients at x, (trials, d)."""
        sizes = blocks(self.problem.size, self.steps)
        query = self.problem.mean_gradient(x, float(sizes[t]))
        return curator.release(f"batch {t}", query, rows=curator.part(t, sizes))


@dataclass(frozen=True)
class AcceleratedDPSGD(_OnePass):
    """Accelerated descent with a fresh noisy batch gradient in every step, in one pass.

    Batch t holds rows t B .. (t + 1) B - 1, B = floor(size / steps); rows left over are never read.
    grad_t = (1/B) sum clip(g_i, C) + N(0, s^2 I), G_t = eta_t grad_t / ``beta``, then lines 6 to 8
    of Algorithm 1; the output is y_T.  s = ``noise_multiplier`` C / B (in the paper's units
    sigma_t = eta_t s / beta), so that the run is 1/noise_multiplier-GDP under zero_out.
    ``beta``: the smoothness constant or more.
    Source: Choquette-Choo, Ganesh, Thakurta 2024, Section 5.5; the paper leaves the noise open, and
    its calibration is ours: disjoint batches compose in parallel, with no tree.
    """

    problem: Problem
    steps: int
    beta: float
    noise_multiplier: Number
    schedule: EtaSchedule = EtaSchedule.LINEAR

    def __post_init__(self) -> None:
        self.check_fields("beta")

    def run(self, curator: Curator) -> Solution:
        """Run on a curator; iterates are (trials, d)."""
        x = y = z = self.problem.start(curator.trials)
        for t in range(self.steps):
            found = self.gradient(curator, x, t)
            weighted = self.schedule.eta(t) / self.beta * found
            x, y, z = nesterov_step(x, z, weighted, t, self.schedule, self.problem.radius)
        return Solution(y, y)


@dataclass(frozen=True)
class DPSGDOnePass(_OnePass):
    """Noisy projected gradient descent over disjoint batches, in one pass.

    x_{t+1} = Proj(x_t - ``step_size`` ((1/B) sum clip(g_i, C) + N(0, s^2 I))), with
    s = ``noise_multiplier`` C / B; the output is the mean of x_1, ..., x_T.
    Source: Choquette-Choo, Ganesh, Thakurta 2024, Section 2.1.
    """

    problem: Problem
    steps: int
    step_size: float
    noise_multiplier: Number

    def __post_init__(self) -> None:
        self.check_fields("step_size")

    def run(self, curator: Curator) -> Solution:
        """Run on a curator; iterates are (trials, d)."""
        x = self.problem.start(curator.trials)
        total = np.zeros_like(x)
        for t in range(self.steps):
            found = self.gradient(curator, x, t)
            x = self.problem.project(x - self.step_size * found)
            total += x
        return Solution(total / self.steps, x)


@dataclass(frozen=True)
class DPSGDPoisson:
    """Noisy projected gradient descent on Poisson batches, over several passes.

    Every round draws each record with probability ``rate``; the sum of clipped gradients is divided
    by the public number b = rate * problem.size, whatever the batch holds, and gets noise of
    standard deviation ``noise_multiplier`` C / b.  The output is the mean of the iterates.
    The number of records can be private: ``problem.size`` is then a public guess.
    Source: Choquette-Choo, Ganesh, Thakurta 2024, Section 2.1; Abadi et al. 2016, Algorithm 1, for
    the batches (there with b as the expected batch size).
    """

    problem: Problem
    rounds: int
    rate: Number
    step_size: float
    noise_multiplier: Number

    def __post_init__(self) -> None:
        whole(self.rounds, "DPSGDPoisson.rounds")
        real(self.step_size, "DPSGDPoisson.step_size")
        chosen = exact(self.rate, "DPSGDPoisson.rate")
        rate(chosen, "DPSGDPoisson.rate")
        object.__setattr__(self, "rate", multiplier(chosen, "DPSGDPoisson.rate"))
        found = multiplier(self.noise_multiplier, "DPSGDPoisson.noise_multiplier")
        object.__setattr__(self, "noise_multiplier", found)

    @property
    def expected_batch(self) -> float:
        """rate * size: the public divisor."""
        return float(self.rate) * self.problem.size

    @property
    def work(self) -> Work:
        """Gradients in expectation, rounded up."""
        return Work(int(np.ceil(self.rounds * self.expected_batch)), self.rounds)

    def declaration(self, scope: Scope) -> Node:
        """A fresh Poisson batch every round."""
        noise = self.noise_multiplier / record_moves(scope, type(self).__name__)
        return Repeat(PoissonSampled(Gaussian("gradient", noise), self.rate), self.rounds)

    def run(self, curator: Curator) -> Solution:
        """Run on a curator; iterates are (trials, d)."""
        x = self.problem.start(curator.trials)
        total = np.zeros_like(x)
        for _ in range(self.rounds):
            with curator.batch("gradient") as batch:
                query = self.problem.mean_gradient(x, self.expected_batch)
                found = curator.release("gradient", query, rows=batch)
            x = self.problem.project(x - self.step_size * found)
            total += x
        return Solution(total / self.rounds, x)


@dataclass(frozen=True)
class DPGD:
    """Noisy projected gradient descent on all records, in every round with the same noise.

    Means of clipped gradients get noise of standard deviation ``noise_multiplier`` C / n.  The
    output is the mean of the iterates.
    Source: Bassily, Smith, Thakurta 2014, Algorithm 1, with full gradients and steps of one length.
    """

    problem: Problem
    rounds: int
    step_size: float
    noise_multiplier: Number

    def __post_init__(self) -> None:
        whole(self.rounds, "DPGD.rounds")
        real(self.step_size, "DPGD.step_size")
        found = multiplier(self.noise_multiplier, "DPGD.noise_multiplier")
        object.__setattr__(self, "noise_multiplier", found)

    @property
    def work(self) -> Work:
        """A gradient of every record in every round."""
        return Work(self.rounds * self.problem.size, self.rounds)

    def declaration(self, scope: Scope) -> Node:
        """A Gaussian release every round."""
        noise = self.noise_multiplier / record_moves(scope, type(self).__name__)
        return Repeat(Gaussian("gradient", noise), self.rounds)

    def run(self, curator: Curator) -> Solution:
        """Run on a curator; iterates are (trials, d)."""
        x = self.problem.start(curator.trials)
        total = np.zeros_like(x)
        for _ in range(self.rounds):
            query = self.problem.mean_gradient(x, float(self.problem.size))
            x = self.problem.project(x - self.step_size * curator.release("gradient", query))
            total += x
        return Solution(total / self.rounds, x)


def nesterov_agd(
    problem: Problem,
    records: Array,
    steps: int,
    beta: float,
    schedule: EtaSchedule = EtaSchedule.LINEAR,
) -> Solution:
    """Nesterov's method with full gradients and no noise: a reference, *not private*.

    It reads ``records`` (n, features + 1) itself, so it is no program and no curator runs it; what
    it returns carries no guarantee.  Gradients are neither clipped nor noised.
    Source: Nesterov 1983, in the form of Choquette-Choo, Ganesh, Thakurta 2024, Algorithm 1.
    """
    whole(steps, "nesterov_agd.steps")
    real(beta, "nesterov_agd.beta")
    x = y = z = problem.start(1)
    for t in range(steps):
        gradient = problem.loss.gradients(x, records).mean(axis=1)
        weighted = schedule.eta(t) / beta * gradient
        x, y, z = nesterov_step(x, z, weighted, t, schedule, problem.radius)
    return Solution(y, y)
