"""Phased SGD: one pass a phase, its mean iterate released.

A *reconstruction*: Choquette-Choo, Ganesh, Thakurta 2024 only cite it (Table 1).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpaudit.curator.curator import Curator
from dpaudit.errors import InvalidParameter
from dpaudit.exact import Number
from dpaudit.families.composition import Assuming
from dpaudit.kernels.query import Array, Norm, Records
from dpaudit.nodes import Node
from dpaudit.scope import Adjacency, Scope
from mechanisms.papers.srgd.phases import convex, fresh_phases, halves, non_negative, phase_moves
from mechanisms.papers.srgd.problem import Problem, Solution, Work, moves, multiplier, real


@dataclass(frozen=True, eq=False)
class OnePassAverage:
    """The mean of the iterates of one pass of projected gradient descent, a record a step.

    x_{j+1} = Proj(x_j - ``step`` clip(grad f(x_j, d_j))), in the records' order, from ``start``
    (trials, d), public.  A record that is zeroed out, or whose gradient is not finite, takes no
    step.  Moves by step * clip under zero_out, twice that under replace_one, *if* every record's
    loss is convex, smooth and ``clip``-Lipschitz and step <= 2 / smoothness: a step is then
    non-expansive, so what one record moves, later steps do not widen.
    Source: Feldman, Koren, Talwar 2020, Lemma 4.4 and Section 4 (as cited).
    """

    problem: Problem
    start: Array
    step: float

    @property
    def norm(self) -> Norm:
        return "l2"

    def value(self, records: Records, chosen: NDArray[np.bool_] | None = None) -> Array:
        """The mean of the iterates after each record, shape (trials, d)."""
        if chosen is not None:
            raise InvalidParameter("OnePassAverage: a pass reads a block, not a secret batch")
        x, total = self.start, np.zeros_like(self.start)
        for j in range(len(records)):
            gradient = self.problem.loss.gradients(x, records.values[j : j + 1])[:, 0]
            length = self.step * records.present[j]
            x = self.problem.project(x - length * clipped(gradient, self.problem.clip))
            total += x
        return total / len(records)

    def sensitivity(self, adjacency: Adjacency, size: int) -> Array:
        return np.array(phase_moves(adjacency) * self.step * self.problem.clip)


def clipped(rows: Array, radius: float) -> Array:
    """Rows (trials, d) at most ``radius`` long; zero where the squared length overflows.

    As :func:`dpaudit.kernels.query.clip_rows`, but a third of its cost, which a pass pays a record.
    """
    squares = np.einsum("td,td->t", rows, rows)
    usable = np.isfinite(squares)
    lengths = np.sqrt(np.where(usable & (squares > radius**2), squares, radius**2))
    return np.where(usable[:, None], rows, 0.0) * (radius / lengths)[:, None]


@dataclass(frozen=True)
class PhasedSGD:
    """Projected SGD in phases of halving length and quartering step, each phase's mean released.

    Phase i = 1..``phases``: one pass over floor(n / 2^i) fresh rows with step h_i = ``step_size`` /
    4^i from the last released point, projected; its mean gets N(0, s_i^2 I), s_i =
    ``noise_multiplier`` L h_i.  The output is the last release.
    Privacy assumes what :class:`OnePassAverage` does: it is declared, with ``evidence``, and not
    certified.
    Errors: InvalidParameter for a first step above 2 / smoothness, or an empty phase.
    Source: a reconstruction of Feldman, Koren, Talwar 2020, Algorithm 2, from memory; there
    phases = ceil(log2 n), those without a record skipped, and s_i = 4 L h_i sqrt(log(1/delta)) /
    epsilon.  A released point is projected before it is used, which is post-processing.
    """

    problem: Problem
    phases: int
    step_size: float
    smoothness: float
    noise_multiplier: Number
    evidence: str = ""

    def __post_init__(self) -> None:
        halves(self.problem.size, self.phases)
        real(self.step_size, "PhasedSGD.step_size")
        non_negative(self.smoothness, "PhasedSGD.smoothness")
        if self.smoothness * self.step_size / 4 > 2:
            raise InvalidParameter(
                f"PhasedSGD.step_size = {self.step_size}: the first phase's step, a quarter of it, "
                f"must be at most 2 / smoothness = {2 / self.smoothness:g}"
            )
        found = multiplier(self.noise_multiplier, "PhasedSGD.noise_multiplier")
        object.__setattr__(self, "noise_multiplier", found)

    @property
    def work(self) -> Work:
        """One gradient and one step a record that is read."""
        read = sum(halves(self.problem.size, self.phases)[: self.phases])
        return Work(read, read)

    def declaration(self, scope: Scope) -> Node:
        """One Gaussian release a phase, on disjoint records, under the declared assumption."""
        noise = self.noise_multiplier / moves(scope, type(self).__name__)
        return Assuming(
            fresh_phases(self.phases, noise), convex(self.problem, self.smoothness, self.evidence)
        )

    def run(self, curator: Curator) -> Solution:
        """Run on a curator; iterates are (trials, d)."""
        sizes = halves(self.problem.size, self.phases)
        x = self.problem.start(curator.trials)
        for i in range(self.phases):
            query = OnePassAverage(self.problem, x, self.step_size / 4 ** (i + 1))
            found = curator.release(f"phase {i}", query, rows=curator.part(i, sizes))
            x = self.problem.project(found)
        return Solution(x, x)
