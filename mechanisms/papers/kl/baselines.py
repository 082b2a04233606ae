"""What the paper compares its rates with: noisy gradient descent, a fixed-phase Spider, epochs.

Reconstructions: the paper cites these by their rates; the constants here are ours, rho-zCDP under
replace_one exactly.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Literal

import numpy as np

from dpaudit.curator.curator import Curator
from dpaudit.errors import InvalidParameter
from dpaudit.exact import Number, sqrt
from dpaudit.families.additive import Gaussian
from dpaudit.families.composition import Compose, Repeat
from dpaudit.kernels.query import Array
from dpaudit.nodes import Node
from dpaudit.scope import Scope
from mechanisms.papers.kl.condition import GrowthCondition, KLCondition
from mechanisms.papers.kl.estimator import ANCHOR, DIFFERENCE, SpiderEstimator
from mechanisms.papers.kl.problem import KLProblem, budget, moves, of_length, within
from mechanisms.papers.kl.proximal import LABEL, RegularizedNoisyGD, in_turn
from mechanisms.papers.srgd.problem import real, whole

Output = Literal["last", "random", "average"]
OUTPUTS = ("last", "random", "average")


@dataclass(frozen=True)
class Descended:
    """What a run gives: the output, and the last iterate, (trials, d) each."""

    output: Array
    last: Array


@dataclass(frozen=True)
class FixedNoisyGD:
    """``steps`` noisy clipped mean gradients: sigma^2 = 2 L0^2 steps / (n^2 rho), rho-zCDP.

    ``output``: the last iterate, a uniformly random one of the points where a gradient was taken,
    or their average.  ``radius``: of the ball around the start that iterates are projected to.
    Errors: InvalidParameter for numbers that are not positive, or another output.
    """

    problem: KLProblem
    rho: Fraction
    steps: int
    step_size: float
    output: Output = "last"
    radius: float = math.inf

    def __post_init__(self) -> None:
        object.__setattr__(self, "rho", budget(self.rho, "FixedNoisyGD.rho"))
        whole(self.steps, "FixedNoisyGD.steps")
        real(self.step_size, "FixedNoisyGD.step_size")
        if self.output not in OUTPUTS:
            raise InvalidParameter(f"output = {self.output!r}: expected {', '.join(OUTPUTS)}")
        if not self.radius > 0:
            raise InvalidParameter(f"FixedNoisyGD.radius = {self.radius}: expected positive")

    @property
    def noise(self) -> Number:
        """The noise's standard deviation over L0 / n."""
        return sqrt(2 * self.steps / self.rho)

    def declaration(self, scope: Scope) -> Node:
        """``steps`` Gaussian releases."""
        factor = moves(scope, type(self).__name__)
        return Repeat(Gaussian(LABEL, self.noise / factor), self.steps)

    def run(self, curator: Curator) -> Descended:
        """Run on a curator; iterates are (trials, d)."""
        start = x = self.problem.initial(curator.trials)
        chosen = curator.coin(lambda rng: rng.integers(0, self.steps, size=curator.trials))
        kept, total = x, np.zeros_like(x)
        for t in range(self.steps):
            kept, total = np.where((chosen == t)[:, None], x, kept), total + x
            released = curator.release(LABEL, self.problem.mean_gradient(x))
            x = within(x - self.step_size * released, start, self.radius)
        outputs = {"last": x, "random": kept, "average": total / self.steps}
        return Descended(outputs[self.output], x)


def noisy_gd_pl(
    problem: KLProblem,
    rho: Fraction,
    condition: KLCondition,
    smoothness: float,
    starting_gap: float,
    max_steps: int,
) -> FixedNoisyGD:
    """Under PL: eta = 1/L1, T = ceil(2 gamma^2 L1 log(F0 n^2 rho / (gamma^2 L0^2 d))).

    Steady excess at most gamma^2 d sigma^2.
    Errors: InvalidParameter unless kappa = 2, for F0 above (gamma L0)^2, or where the theorem
    promises nothing (the logarithm is not positive).
    Source: Wang, Ye, Xu 2017, by its rate; constants ours.
    """
    if condition.kappa != 2:
        raise InvalidParameter(f"noisy_gd_pl: kappa = {condition.kappa}, expected 2")
    gap = condition.admitted_gap(starting_gap, problem.lipschitz, "noisy_gd_pl: starting_gap")
    scale = condition.gamma * problem.lipschitz * math.sqrt(problem.dimension) / problem.size
    ratio = gap * float(budget(rho, "rho")) / scale**2
    if ratio <= 1:
        raise InvalidParameter("noisy_gd_pl: F0 is below its floor already: more records, or rho")
    steps = math.ceil(2 * condition.gamma**2 * real(smoothness, "smoothness") * math.log(ratio))
    most = whole(max_steps, "max_steps")
    return FixedNoisyGD(problem, rho, min(max(1, steps), most), 1 / smoothness)


def noisy_gd_stationary(
    problem: KLProblem, rho: Fraction, smoothness: float, starting_gap: float, max_steps: int
) -> FixedNoisyGD:
    """Random iterate, for small gradients: eta = 1/L1, T = ceil(n sqrt(L1 F0 rho)/(L0 sqrt(d))).

    E ||grad F||^2 <= 2 L1 F0 / T + d sigma^2.
    Source: Wang, Ye, Xu 2017, by its rate; constants ours.
    """
    drop = real(smoothness, "smoothness") * real(starting_gap, "starting_gap")
    spread = problem.size * math.sqrt(drop * budget(rho, "rho"))
    steps = math.ceil(spread / (problem.lipschitz * math.sqrt(problem.dimension)))
    most = whole(max_steps, "max_steps")
    return FixedNoisyGD(problem, rho, min(max(1, steps), most), 1 / smoothness, "random")


def convex_noisy_gd(
    problem: KLProblem, rho: Fraction, radius: float, max_steps: int
) -> FixedNoisyGD:
    """Convex Lipschitz: T = ceil(n^2 rho / d), eta = D / sqrt(T (L0^2 + d sigma^2)), the average.

    Source: Bassily, Smith, Thakurta 2014, by its rate; constants ours.
    """
    wanted = math.ceil(problem.size**2 * budget(rho, "rho") / problem.dimension)
    steps = min(max(1, wanted), whole(max_steps, "max_steps"))
    noise = 2 * problem.lipschitz**2 * steps / (problem.size**2 * float(rho))
    length = math.sqrt(steps * (problem.lipschitz**2 + problem.dimension * noise))
    return FixedNoisyGD(problem, rho, steps, real(radius, "radius") / length, "average", radius)


@dataclass(frozen=True)
class PrivateSpider:
    """Anchors every ``phase`` steps, noisy gradient differences between, steps of one length.

    A step of length h moves a gradient by at most L1 h: differences are clipped to that.  Shares
    4/5 and 1/5 of rho for anchors and differences; the output is a uniformly random iterate.
    Errors: InvalidParameter for numbers that are not positive.
    Source: Arora et al. 2023 and Murata, Suzuki 2023, by their rates; constants ours.
    """

    problem: KLProblem
    rho: Fraction
    smoothness: float
    rounds: int
    phase: int
    step_length: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "rho", budget(self.rho, "PrivateSpider.rho"))
        for name in ("rounds", "phase"):
            whole(getattr(self, name), f"PrivateSpider.{name}")
        for name in ("smoothness", "step_length"):
            real(getattr(self, name), f"PrivateSpider.{name}")

    @property
    def anchors(self) -> int:
        """ceil(rounds / phase)."""
        return -(-self.rounds // self.phase)

    @property
    def noises(self) -> tuple[Number, Number]:
        """Standard deviations over L0 / n, and over L1 h / n."""
        rest = self.rounds - self.anchors
        share = Fraction(4, 5) if rest else Fraction(1)
        anchor = sqrt(2 * self.anchors / (share * self.rho))
        return anchor, sqrt(2 * max(rest, 1) / (Fraction(1, 5) * self.rho))

    def declaration(self, scope: Scope) -> Node:
        """Anchors, and differences if a phase has any."""
        factor = moves(scope, type(self).__name__)
        anchor, difference = (noise / factor for noise in self.noises)
        parts: list[Node] = [Repeat(Gaussian(ANCHOR, anchor), self.anchors)]
        if self.rounds > self.anchors:
            rest = self.rounds - self.anchors
            parts.append(Repeat(Gaussian(DIFFERENCE, difference), rest))
        return Compose(*parts)

    def run(self, curator: Curator) -> Descended:
        """Run on a curator; iterates are (trials, d)."""
        x = previous = kept = self.problem.initial(curator.trials)
        chosen = curator.coin(lambda rng: rng.integers(0, self.rounds, size=curator.trials))
        estimate, radius = np.zeros_like(x), self.smoothness * self.step_length
        estimator = SpiderEstimator(self.problem)
        for t in range(self.rounds):
            if t % self.phase == 0:
                estimate = estimator.anchored(curator, x)
            else:
                estimate = estimator.followed(curator, estimate, (previous, x), radius)
            kept = np.where((chosen == t)[:, None], x, kept)
            previous, x = x, x - of_length(estimate, self.step_length)
        return Descended(kept, x)


@dataclass(frozen=True)
class EpochLocalizedERM:
    """Epochs of :class:`RegularizedNoisyGD` at rho / epochs, each pulled 2^(tau-1) times harder.

    Epoch i has pull ``weak_convexity`` 2^(i (tau - 1)) and so a ball 2^(tau - 1) times smaller.
    Errors: InvalidParameter as the solver's.
    Source: Asi, Levy, Duchi 2021, by its rate; the schedule is ours.
    """

    problem: KLProblem
    condition: GrowthCondition
    rho: Fraction
    beta: float
    weak_convexity: float
    epochs: int
    max_steps: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "rho", budget(self.rho, "EpochLocalizedERM.rho"))
        whole(self.epochs, "EpochLocalizedERM.epochs")
        _ = self.solvers

    @cached_property
    def solvers(self) -> tuple[RegularizedNoisyGD, ...]:
        """The solver of each epoch."""
        harder = 2 ** (self.condition.tau - 1)
        return tuple(
            RegularizedNoisyGD(
                self.problem,
                self.rho / self.epochs,
                self.beta / self.epochs,
                self.weak_convexity * harder**i,
                self.max_steps,
            )
            for i in range(self.epochs)
        )

    def declaration(self, scope: Scope) -> Node:
        """All epochs have the same noise."""
        return Repeat(Compose(self.solvers[0].declaration(scope)), self.epochs)

    def run(self, curator: Curator) -> Descended:
        """Run on a curator; iterates are (trials, d)."""
        x = in_turn(self.solvers, curator, self.problem.initial(curator.trials))
        return Descended(x, x)
