"""From a solver under growth to a solver without: the reduction behind the growth lower bound.

A proof's device rather than an algorithm for data; it runs with any solver of its stages.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dpaudit.curator.curator import Curator
from dpaudit.errors import InvalidParameter
from dpaudit.exact import Number, sqrt
from dpaudit.families.additive import Gaussian
from dpaudit.families.composition import Compose, Repeat
from dpaudit.kernels.query import Array
from dpaudit.nodes import Node
from dpaudit.scope import Scope
from mechanisms.papers.kl.problem import KLProblem, budget, moves, within
from mechanisms.papers.kl.proximal import LABEL, in_turn
from mechanisms.papers.srgd.problem import real, whole

LARGEST_STAGES = 10_000


@dataclass(frozen=True)
class Stage:
    """One call: F + lam^tau 2^(tau - 2) ||w - w_{i-1}||^tau on a ball around w_{i-1}.

    ``share`` of epsilon and of delta.
    """

    lam: float
    radius: float
    share: float


@dataclass(frozen=True)
class GrowthReduction:
    """Stages i = 1..k, lam_i = 2^(-i (tau-1)/tau) lam, each with epsilon / k and delta / k.

    lam = 4^((tau-1)^2/tau^2) (Delta tau / (D^tau (tau-1)))^((tau-1)/tau^2), radius_i =
    (L0 / (2 tau lam_i^tau 2^(tau-2)))^(1/(tau-1)), k the least whole number above
    log2(tau^(1/(tau-1)) L0^(tau/(tau-1)) / (2^(2 tau - 3) Delta)), at least 1.
    ``error`` is Delta: to be taken as (L0 sqrt(d) / (n epsilon))^(tau/(tau-1)), which the print
    gives without the exponent; the logarithm's base, which it does not state, is read as 2.
    Errors: InvalidParameter for numbers that are not positive, tau at most 1, too many stages.
    Source: Menart et al. 2023, Theorem 6.
    """

    tau: float
    error: float
    diameter: float
    lipschitz: float

    def __post_init__(self) -> None:
        for name in ("tau", "error", "diameter", "lipschitz"):
            real(getattr(self, name), f"GrowthReduction.{name}")
        if self.tau <= 1:
            raise InvalidParameter(f"GrowthReduction.tau = {self.tau}: expected above 1")
        if self.count > LARGEST_STAGES:
            raise InvalidParameter(f"GrowthReduction.error = {self.error}: {self.count} stages")

    @property
    def count(self) -> int:
        """k."""
        exponent = self.tau / (self.tau - 1)
        top = math.log2(self.tau) / (self.tau - 1) + exponent * math.log2(self.lipschitz)
        return max(1, math.floor(top - (2 * self.tau - 3) - math.log2(self.error)) + 1)

    @property
    def lam(self) -> float:
        """lam before the first stage."""
        power = (self.tau - 1) / self.tau
        base = self.error * self.tau / (self.diameter**self.tau * (self.tau - 1))
        return float(4 ** (power**2) * base ** (power / self.tau))

    @property
    def stages(self) -> tuple[Stage, ...]:
        """All stages in order."""
        power = (self.tau - 1) / self.tau
        lams = [self.lam * 2 ** (-i * power) for i in range(1, self.count + 1)]
        return tuple(Stage(lam, self._radius(lam), 1 / self.count) for lam in lams)

    def diameter_lower(self, smoothness: float) -> float:
        """D from which on every stage's regulariser is ``smoothness`` (L1) smooth on its ball.

        c2 Delta^(1/tau) L0^((tau-2)/(tau-1)) / (2 L1), c2 = 4^((tau-1)/tau) (tau/(tau-1))^(1/tau)
        tau^(1/(tau-1)) (tau-1); the print multiplies by L1, and has no 1/2.
        """
        tau = self.tau
        constant = 4 ** ((tau - 1) / tau) * (tau / (tau - 1)) ** (1 / tau)
        constant *= tau ** (1 / (tau - 1)) * (tau - 1)
        scale = self.error ** (1 / tau) * self.lipschitz ** ((tau - 2) / (tau - 1))
        return float(constant * scale / (2 * real(smoothness, "smoothness")))

    def _radius(self, lam: float) -> float:
        slope = 2 * self.tau * lam**self.tau * 2 ** (self.tau - 2)
        return float((self.lipschitz / slope) ** (1 / (self.tau - 1)))

    def regulariser(self, stage: Stage, away: Array) -> Array:
        """lam^tau 2^(tau-2) ||away||^tau at w - w_{i-1} = ``away`` (m, d)."""
        norms = np.linalg.norm(np.asarray(away, dtype=np.float64), axis=-1)
        return np.asarray(stage.lam**self.tau * 2 ** (self.tau - 2) * norms**self.tau)

    def regulariser_gradient(self, stage: Stage, away: Array) -> Array:
        """Its gradient, (m, d)."""
        rows = np.asarray(away, dtype=np.float64)
        norms = np.linalg.norm(rows, axis=-1, keepdims=True)
        slope = stage.lam**self.tau * 2 ** (self.tau - 2) * self.tau
        safe = np.where(norms > 0, norms, 1.0)
        return np.asarray(slope * np.where(norms > 0, norms ** (self.tau - 1), 0.0) * rows / safe)


@dataclass(frozen=True)
class StageSolver:
    """Averaged noisy gradient descent on one stage's objective, in its ball: rho-zCDP.

    ``steps`` noisy clipped mean gradients, sigma^2 = 2 L0^2 steps / (n^2 rho); the regulariser's
    gradient, of norm at most L0 / 2, is added after averaging.
    Errors: InvalidParameter for a budget or a count that is not positive.
    """

    problem: KLProblem
    reduction: GrowthReduction
    stage: Stage
    rho: Fraction
    steps: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "rho", budget(self.rho, "StageSolver.rho"))
        whole(self.steps, "StageSolver.steps")

    @property
    def noise(self) -> Number:
        """The noise's standard deviation over L0 / n."""
        return sqrt(2 * self.steps / self.rho)

    @property
    def step_size(self) -> float:
        """radius / sqrt(steps ((3 L0 / 2)^2 + d sigma^2))."""
        own = self.problem
        variance = 2 * own.lipschitz**2 * self.steps / (own.size**2 * float(self.rho))
        squares = (1.5 * own.lipschitz) ** 2 + own.dimension * variance
        return self.stage.radius / math.sqrt(self.steps * squares)

    def declaration(self, scope: Scope) -> Node:
        """``steps`` Gaussian releases."""
        return Repeat(Gaussian(LABEL, self.noise / moves(scope, type(self).__name__)), self.steps)

    def solve(self, curator: Curator, centre: Array) -> Array:
        """The average of the iterates from a released or public centre, (trials, d)."""
        x, total = centre, np.zeros_like(centre)
        for _ in range(self.steps):
            total = total + x
            slope = curator.release(LABEL, self.problem.mean_gradient(x))
            slope = slope + self.reduction.regulariser_gradient(self.stage, x - centre)
            x = within(x - self.step_size * slope, centre, self.stage.radius)
        return total / self.steps


@dataclass(frozen=True)
class ReducedToGrowth:
    """The reduction run: one call of a solver a stage, from the output of the call before.

    The paper's budgets epsilon / k and delta / k are rho / k here.
    Errors: InvalidParameter as the solver's, or where reduction and problem disagree on L0.
    Source: Menart et al. 2023, Theorem 6; Asi, Levy, Duchi 2021.
    """

    problem: KLProblem
    reduction: GrowthReduction
    rho: Fraction
    steps: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "rho", budget(self.rho, "ReducedToGrowth.rho"))
        if self.problem.lipschitz != self.reduction.lipschitz:
            raise InvalidParameter("ReducedToGrowth: problem and reduction differ in L0")
        _ = self.solvers

    @property
    def solvers(self) -> tuple[StageSolver, ...]:
        """The solver of each stage, at rho / k."""
        share = self.rho / self.reduction.count
        return tuple(
            StageSolver(self.problem, self.reduction, stage, share, self.steps)
            for stage in self.reduction.stages
        )

    def declaration(self, scope: Scope) -> Node:
        """All stages have the same noise."""
        return Repeat(Compose(self.solvers[0].declaration(scope)), self.reduction.count)

    def run(self, curator: Curator) -> Array:
        """Run on a curator from the problem's start; the output is (trials, d)."""
        return in_turn(self.solvers, curator, self.problem.initial(curator.trials))
