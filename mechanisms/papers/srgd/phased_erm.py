"""Phased ERM: a certified approximate minimum released a phase.

A *reconstruction*: Choquette-Choo, Ganesh, Thakurta 2024 only cite it (Table 1).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dpaudit.curator.curator import Curator
from dpaudit.errors import InvalidParameter
from dpaudit.exact import Number, enclose
from dpaudit.families.composition import Assuming
from dpaudit.kernels.query import Array, Norm, Records
from dpaudit.nodes import Node
from dpaudit.scope import Adjacency, Scope
from mechanisms.papers.srgd.phases import convex, fresh_phases, halves, non_negative, phase_moves
from mechanisms.papers.srgd.problem import Problem, Solution, Work, moves, multiplier, real


@dataclass(frozen=True, eq=False)
class RegularisedMinimum:
    """A point within ``accuracy`` of argmin over the ball of mean f + (ridge / 2) ||x - centre||^2.

    Found by a public number of projected gradient steps of length 2 / (smoothness + 2 ridge), each
    of which brings *any* data's iterate nearer to the minimum by smoothness / (smoothness + 2
    ridge), from ``centre`` (trials, d), which is at most min(L / ridge, diameter) away: the
    accuracy holds whatever the data are, and no iteration count depends on them.
    Moves by L / (ridge n) + 2 accuracy under zero_out, 2 L / (ridge n) + 2 accuracy under
    replace_one, *if* every record's loss is convex, L-Lipschitz and smooth.
    Source: Zhang, Thekumparampil, Oh, He 2022 (as cited); Nesterov 2018, Theorem 2.1.15, for the
    contraction of gradient descent on a strongly convex function.
    """

    problem: Problem
    centre: Array
    ridge: float
    smoothness: float
    accuracy: float

    @property
    def norm(self) -> Norm:
        return "l2"

    @cached_property
    def steps(self) -> int:
        """Steps after which the worst case is within ``accuracy``."""
        return solver_steps(self.problem, self.ridge, self.smoothness, self.accuracy)

    def value(self, records: Records, chosen: NDArray[np.bool_] | None = None) -> Array:
        """The solver's last point, shape (trials, d)."""
        if chosen is not None:
            raise InvalidParameter("RegularisedMinimum: solves on a block, not on a secret batch")
        length, x = 2 / (self.smoothness + 2 * self.ridge), self.centre
        for _ in range(self.steps):
            mean = self.problem.mean_gradient(x, float(len(records))).value(records)
            x = self.problem.project(x - length * (mean + self.ridge * (x - self.centre)))
        return x

    def sensitivity(self, adjacency: Adjacency, size: int) -> Array:
        exactly = phase_moves(adjacency) * self.problem.clip / (self.ridge * size)
        return np.array(exactly + 2 * self.accuracy)


def solver_steps(problem: Problem, ridge: float, smooth: float, accuracy: float) -> int:
    """The least public count of steps that certifies ``accuracy`` for any data; at least 1.

    Half of the accuracy is left for rounding.
    """
    away = min(problem.clip / ridge, 2 * problem.radius)
    shrink = smooth / (smooth + 2 * ridge)
    if accuracy >= 2 * away or shrink == 0:
        return 1
    return max(1, math.ceil(math.log(accuracy / (2 * away)) / math.log(shrink)))


@dataclass(frozen=True)
class PhasedERM:
    """Regularised empirical minimisation in phases, each phase's approximate minimum released.

    Phase i = 1..``phases`` minimises mean f + (l_i / 2) ||x - x_{i-1}||^2 over n_i = floor(n / 2^i)
    fresh rows, l_i = 1 / (h_i n_i), h_i = ``step_size`` / 4^i, to a certified distance a_i =
    ``slack`` L h_i / 2, and releases it with N(0, s_i^2 I), s_i = ``noise_multiplier`` L h_i.
    It moves by (1 + slack) L h_i under zero_out, (2 + slack) L h_i under replace_one.
    Privacy assumes what :class:`RegularisedMinimum` does: it is declared, with ``evidence``, and
    not certified.
    Source: a reconstruction of Zhang, Thekumparampil, Oh, He 2022, with the constants of Feldman,
    Koren, Talwar 2020, Algorithm 3, from memory; the solver, and its certificate, are ours.
    """

    problem: Problem
    phases: int
    step_size: float
    smoothness: float
    noise_multiplier: Number
    slack: Number = 0.01
    evidence: str = ""

    def __post_init__(self) -> None:
        halves(self.problem.size, self.phases)
        real(self.step_size, "PhasedERM.step_size")
        non_negative(self.smoothness, "PhasedERM.smoothness")
        for name in ("noise_multiplier", "slack"):
            found = multiplier(getattr(self, name), f"PhasedERM.{name}")
            object.__setattr__(self, name, found)

    @property
    def work(self) -> Work:
        """Gradients and steps of all phases' solvers."""
        sizes = halves(self.problem.size, self.phases)
        steps = [self.query(self.problem.start(1), i, sizes[i]).steps for i in range(self.phases)]
        return Work(sum(n * s for n, s in zip(sizes, steps, strict=False)), sum(steps))

    def declaration(self, scope: Scope) -> Node:
        """One Gaussian release a phase, on disjoint records, under the declared assumption."""
        noise = self.noise_multiplier / (moves(scope, type(self).__name__) + self.slack)
        return Assuming(
            fresh_phases(self.phases, noise), convex(self.problem, self.smoothness, self.evidence)
        )

    def query(self, centre: Array, phase: int, size: int) -> RegularisedMinimum:
        """The minimum of phase ``phase`` (from 0) over ``size`` rows."""
        step = self.step_size / 4 ** (phase + 1)
        slack = float(enclose(self.slack).mid())
        accuracy, ridge = slack * self.problem.clip * step / 2, 1 / (step * size)
        return RegularisedMinimum(self.problem, centre, ridge, self.smoothness, accuracy)

    def run(self, curator: Curator) -> Solution:
        """Run on a curator; iterates are (trials, d)."""
        sizes = halves(self.problem.size, self.phases)
        x = self.problem.start(curator.trials)
        for i in range(self.phases):
            query = self.query(x, i, sizes[i])
            found = curator.release(f"phase {i}", query, rows=curator.part(i, sizes))
            x = self.problem.project(found)
        return Solution(x, x)
