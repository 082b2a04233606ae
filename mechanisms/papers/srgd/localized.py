"""Localised accelerated DP-SGD: secret batches, phase by phase, around the last point.

A *reconstruction*: Choquette-Choo, Ganesh, Thakurta 2024 only cite it (Table 1).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from dpaudit.curator.curator import Curator
from dpaudit.exact import Number, enclose, exact
from dpaudit.exact.domains import rate
from dpaudit.families.additive import Gaussian
from dpaudit.families.composition import Parallel, Repeat
from dpaudit.families.sampling import PoissonSampled
from dpaudit.kernels.query import Array, ClippedMean
from dpaudit.nodes import Node
from dpaudit.scope import Scope
from mechanisms.papers.srgd.geometry import EtaSchedule, nesterov_step
from mechanisms.papers.srgd.phases import halves, non_negative
from mechanisms.papers.srgd.problem import Problem, Solution, Work, moves, multiplier, real, whole


@dataclass(frozen=True)
class LocalizedAcceleratedDPSGD:
    """Accelerated noisy descent on secret batches, phase by phase, around the last point.

    Phase i = 1..``phases`` runs ``rounds`` steps of Algorithm 1's coupling on mean f + (l_i / 2)
    ||x - x_{i-1}||^2 over its own n_i = floor(n / 2^i) rows, l_i = ``ridge`` 4^(i-1), with
    beta_i = smoothness + l_i.  A step draws each row of the phase with probability ``rate``; its
    sum of clipped gradients is divided by rate n_i, whatever the batch holds, and gets noise of
    standard deviation ``noise_multiplier`` C / (rate n_i).  The regulariser reads no data.
    Privacy needs no convexity: every gradient is clipped.
    Source: a reconstruction of Gao, Lowy, Zhou, Wright 2024 with one silo.
    """

    problem: Problem
    phases: int
    rounds: int
    rate: Number
    ridge: float
    smoothness: float
    noise_multiplier: Number
    schedule: EtaSchedule = EtaSchedule.LINEAR

    def __post_init__(self) -> None:
        halves(self.problem.size, self.phases)
        whole(self.rounds, "LocalizedAcceleratedDPSGD.rounds")
        real(self.ridge, "LocalizedAcceleratedDPSGD.ridge")
        non_negative(self.smoothness, "LocalizedAcceleratedDPSGD.smoothness")
        rate(exact(self.rate, "LocalizedAcceleratedDPSGD.rate"), "LocalizedAcceleratedDPSGD.rate")
        for name in ("rate", "noise_multiplier"):
            found = multiplier(getattr(self, name), f"LocalizedAcceleratedDPSGD.{name}")
            object.__setattr__(self, name, found)

    @property
    def work(self) -> Work:
        """Gradients in expectation, rounded up."""
        read = sum(halves(self.problem.size, self.phases)[: self.phases])
        return Work(math.ceil(self.rounds * read * self._rate), self.rounds * self.phases)

    @property
    def _rate(self) -> float:
        return float(enclose(self.rate).mid())

    def declaration(self, scope: Scope) -> Node:
        """Fresh Poisson batches in every step of a phase; phases on disjoint records."""
        noise = self.noise_multiplier / moves(scope, type(self).__name__)
        return Parallel(
            *(
                Repeat(PoissonSampled(Gaussian(f"phase {i}", noise), self.rate), self.rounds)
                for i in range(self.phases)
            )
        )

    def run(self, curator: Curator) -> Solution:
        """Run on a curator; iterates are (trials, d)."""
        x = self.problem.start(curator.trials)
        for i in range(self.phases):
            x = self._phase(curator, i, x)
        return Solution(x, x)

    def _phase(self, curator: Curator, phase: int, centre: Array) -> Array:
        sizes = halves(self.problem.size, self.phases)
        rows, ridge = curator.part(phase, sizes), self.ridge * 4**phase
        query: Callable[[Array], ClippedMean] = partial(
            self.problem.mean_gradient, divisor=self._rate * sizes[phase]
        )
        x = y = z = centre
        for t in range(self.rounds):
            with curator.batch(f"phase {phase}", rows) as batch:
                found = curator.release(f"phase {phase}", query(x), rows=batch)
            weight = self.schedule.eta(t) / (self.smoothness + ridge)
            weighted = weight * (found + ridge * (x - centre))
            x, y, z = nesterov_step(x, z, weighted, t, self.schedule, self.problem.radius)
        return y
