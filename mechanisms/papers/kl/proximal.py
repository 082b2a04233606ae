"""The private proximal point method, and the private strongly convex solver inside it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, reduce
from itertools import repeat
from typing import Protocol

import numpy as np

from dpaudit.curator.curator import Curator
from dpaudit.errors import InvalidParameter
from dpaudit.exact import Number, sqrt
from dpaudit.families.additive import Gaussian
from dpaudit.families.composition import Compose, Repeat
from dpaudit.kernels.query import Array
from dpaudit.nodes import Node
from dpaudit.scope import Scope
from mechanisms.papers.kl.condition import KLCondition
from mechanisms.papers.kl.problem import KLProblem, budget, chance, moves, within
from mechanisms.papers.srgd.problem import real, whole

LABEL = "gradient"
CALIBRATIONS = ("paper", "corrected")
STEP_RULES = ("paper", "n2rho_over_d")
LARGEST_STEPS = 10_000_000
VACUOUS = "the theorem promises nothing better than the start (phi0 >= F0): no data was touched"


def printed_steps(size: int, dimension: int, rho: Fraction, beta: float, rule: str) -> int:
    """T = ceil(n^2 rho log^2(2/beta) / d), at least 1; without the logarithm for n2rho_over_d.

    Errors: InvalidParameter for another rule.
    Source: Menart et al. 2023, Algorithm 4, line 1.
    """
    if rule not in STEP_RULES:
        raise InvalidParameter(f"step_rule = {rule!r}: expected {' or '.join(STEP_RULES)}")
    factor = math.log(2 / beta) ** 2 if rule == "paper" else 1.0
    return max(1, math.ceil(float(size**2 * rho / dimension) * factor))


class PrivateStronglyConvexSolver(Protocol):
    """Minimises F + a pull to a public centre; its declaration is that of one call."""

    def declaration(self, scope: Scope) -> Node:
        """The releases of one call, whatever its centre."""

    def solve(self, curator: Curator, centre: Array) -> Array:
        """A released point (trials, d), from a released or public one."""


def in_turn(
    solvers: Iterable[PrivateStronglyConvexSolver], curator: Curator, start: Array
) -> Array:
    """Every solver's call from the output of the one before; the last output, (trials, d)."""
    return reduce(lambda centre, solver: solver.solve(curator, centre), solvers, start)


@dataclass(frozen=True)
class RegularizedNoisyGD:
    """Projected noisy gradient descent on F(w) + Lw ||w - w0||^2, averaged with weights t.

    T - 1 noisy clipped mean gradients, steps 1 / (Lw t), in the ball of radius L0 / (2 Lw) around
    w0; the regulariser's gradient is added after averaging, so that it is never clipped.
    Output 2 / (T (T + 1)) sum_t t w_t.
    ``max_steps`` caps T: the printed n^2 rho log^2(2/beta) / d makes a call cost n^3 gradients.
    The noise is made for the T that is run: sigma^2 = 2 L0^2 (T - 1) / (n^2 rho) ("corrected",
    exactly rho-zCDP under replace_one) or 4 L0^2 T / (n^2 rho) ("paper", rho (T - 1) / (2 T)).
    Errors: InvalidParameter for Lw, rho or beta outside their domains, or unknown constants.
    Source: Menart et al. 2023, Algorithm 4 and Theorem 9, with w_1 = w0, which the print omits.
    """

    problem: KLProblem
    rho: Fraction
    beta: float
    weak_convexity: float
    max_steps: int
    constants: str = "corrected"
    step_rule: str = "paper"

    def __post_init__(self) -> None:
        object.__setattr__(self, "rho", budget(self.rho, "RegularizedNoisyGD.rho"))
        real(self.weak_convexity, "RegularizedNoisyGD.weak_convexity")
        if whole(self.max_steps, "RegularizedNoisyGD.max_steps") > LARGEST_STEPS:
            raise InvalidParameter(f"RegularizedNoisyGD.max_steps: at most {LARGEST_STEPS}")
        chance(self.beta, "RegularizedNoisyGD.beta")
        if self.constants not in CALIBRATIONS:
            raise InvalidParameter(
                f"RegularizedNoisyGD.constants = {self.constants!r}: expected paper or corrected"
            )
        _ = self.steps

    @cached_property
    def steps(self) -> int:
        """T: the printed number, at most ``max_steps``."""
        own = self.problem
        printed = printed_steps(own.size, own.dimension, self.rho, self.beta, self.step_rule)
        return min(printed, self.max_steps)

    @property
    def noise(self) -> Number:
        """The noise's standard deviation over L0 / n."""
        if self.constants == "paper":
            return sqrt(4 * self.steps / self.rho)
        return sqrt(2 * Fraction(max(self.steps - 1, 1)) / self.rho)

    @property
    def radius(self) -> float:
        """L0 / (2 Lw): a call moves no further."""
        return self.problem.lipschitz / (2 * self.weak_convexity)

    def declaration(self, scope: Scope) -> Node:
        """T - 1 Gaussian releases; none where T = 1."""
        factor = moves(scope, type(self).__name__)
        return Repeat(Gaussian(LABEL, self.noise / factor), self.steps - 1)

    def run(self, curator: Curator) -> Array:
        """Run on a curator from the problem's start; the output is (trials, d)."""
        return self.solve(curator, self.problem.initial(curator.trials))

    def solve(self, curator: Curator, centre: Array) -> Array:
        """The averaged iterates around ``centre`` (trials, d), which may be any released point."""
        x, total = centre, np.zeros_like(centre)
        for t in range(1, self.steps + 1):
            total = total + t * x
            if t == self.steps:
                break
            released = curator.release(LABEL, self.problem.mean_gradient(x))
            slope = released + 2 * self.weak_convexity * (x - centre)
            x = within(x - slope / (self.weak_convexity * t), centre, self.radius)
        return 2 / (self.steps * (self.steps + 1)) * total


@dataclass(frozen=True)
class ProximalPoint:
    """What a run gives: the last centre (trials, d), and what there is to say."""

    output: Array
    note: str = ""


@dataclass(frozen=True)
class ProximalPointMethod:
    """w_t = A(F + Lw ||. - w_{t-1}||^2, w_{t-1}, rho / T, beta / T), t = 1..T; kappa >= 2.

    T = ceil((1 + 32 F0^((kappa-2)/kappa) gamma^2 Lw) log(F0 / phi0)), phi0 = (gamma L0 sqrt(d) /
    (n sqrt(rho)))^kappa; the solver A is :class:`RegularizedNoisyGD` at rho / T.
    phi0 >= F0 returns the start, with no release.  The account depends on kappa through T alone;
    the claimed rate is proved for kappa = 2 only (for kappa > 2 the printed induction has a gap).
    Errors: InvalidParameter for kappa below 2, Lw not positive, F0 above (gamma L0)^kappa, and
    whatever the solver refuses.
    Source: Menart et al. 2023, Algorithm 2 and Theorem 2.
    """

    problem: KLProblem
    condition: KLCondition
    rho: Fraction
    beta: float
    starting_gap: float
    weak_convexity: float
    max_steps: int
    constants: str = "corrected"
    step_rule: str = "paper"
    calls_at_most: int = 100_000

    def __post_init__(self) -> None:
        object.__setattr__(self, "rho", budget(self.rho, "ProximalPointMethod.rho"))
        real(self.weak_convexity, "ProximalPointMethod.weak_convexity")
        whole(self.calls_at_most, "ProximalPointMethod.calls_at_most")
        if self.condition.kappa < 2:
            raise InvalidParameter(
                f"ProximalPointMethod needs kappa >= 2, not {self.condition.kappa}: use KL-Spider"
            )
        chance(self.beta, "ProximalPointMethod.beta")
        _ = self.gap, self.solver

    @property
    def gap(self) -> float:
        """F0."""
        place = "ProximalPointMethod.starting_gap"
        return self.condition.admitted_gap(self.starting_gap, self.problem.lipschitz, place)

    @property
    def calls(self) -> int:
        """T, at most ``calls_at_most``; 0 where the start is below phi0 already."""
        own, kappa = self.problem, self.condition.kappa
        noise = own.lipschitz * math.sqrt(own.dimension) / (own.size * math.sqrt(self.rho))
        log_ratio = math.log(self.gap) - kappa * math.log(self.condition.gamma * noise)
        rate = (
            float(self.gap ** ((kappa - 2) / kappa)) * self.condition.gamma**2 * self.weak_convexity
        )
        return max(0, min(math.ceil((1 + 32 * rate) * log_ratio), self.calls_at_most))

    @property
    def solver(self) -> RegularizedNoisyGD:
        """The solver of one call, at rho / T and beta / T."""
        calls = max(self.calls, 1)
        return RegularizedNoisyGD(
            self.problem,
            self.rho / calls,
            self.beta / calls,
            self.weak_convexity,
            self.max_steps,
            self.constants,
            self.step_rule,
        )

    @property
    def region_radius(self) -> float:
        """No iterate leaves this ball around the start: T L0 / (2 Lw)."""
        return self.calls * self.solver.radius

    def declaration(self, scope: Scope) -> Node:
        """T calls of the solver."""
        return Repeat(Compose(self.solver.declaration(scope)), self.calls)

    def run(self, curator: Curator) -> ProximalPoint:
        """Run on a curator; the output is (trials, d)."""
        start, calls = self.problem.initial(curator.trials), self.calls
        if calls == 0:
            return ProximalPoint(start, VACUOUS)
        return ProximalPoint(in_turn(repeat(self.solver, calls), curator, start))
