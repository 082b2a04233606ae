"""Audits of the baselines: one record of a linear loss, of the largest norm, white box.

The loss of a record s is s C u.x, u the first unit vector: its gradient is s C u everywhere, which
saturates the clip in whichever step reads it, and is convex, C-Lipschitz and smooth, as the
algorithms in phases assume.  All other records have zero gradient.  Records lie in the first block,
which no noise protects better than another, and of algorithms in phases in each phase.  A run reads
far fewer records than the catalogue's: no declaration depends on their number.  Baselines without
phases need none: the search for a steeper loss shows nine tenths of what one does.
Source: ours; for linear losses Choquette-Choo, Ganesh, Thakurta 2024, Section 4.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from dpaudit.audit.neighbours import Neighbours
from dpaudit.audit.suite import Suite
from dpaudit.curator.curator import Program
from dpaudit.curator.mechanism import Mechanism
from dpaudit.kernels.query import Array, Records
from dpaudit.scope import Adjacency
from mechanisms.papers.common.losses import WorstCase
from mechanisms.papers.srgd import baselines_catalogue as catalogue
from mechanisms.papers.srgd.batches_catalogue import phased_erm_in_batches as in_batches
from mechanisms.papers.srgd.phases import halves
from mechanisms.papers.srgd.problem import Problem, Work
from mechanisms.papers.srgd.variance_reduced import BatchedMinimum, PhasedERMInBatches

EXCESS = 1e3  # so that a clip that was deleted shows
WIDE = 1e6  # no projection binds, so that the last release is seen whole


def linear(problem: Problem, size: int, slope: float) -> Problem:
    """The loss s ``slope`` u.x on ``size`` records, in one parameter and unconstrained."""
    loss = WorstCase(size=1, curvature=0.0, slope=slope)
    return replace(problem, loss=loss, features=0, size=size, radius=WIDE)


def neighbours(size: int, adjacency: Adjacency, canary: int = 0) -> Neighbours:
    """One record of full norm: zeroed out, with the other sign, or left out (then it is last)."""
    first = np.zeros((size, 1))
    canary = size - 1 if adjacency is Adjacency.ADD_REMOVE else canary
    first[canary] = 1.0
    if adjacency is Adjacency.REPLACE_ONE:
        second = Records(-first)
    elif adjacency is Adjacency.ZERO_OUT:
        second = Records(first, np.arange(size) != canary)
    else:
        second = Records(first[:canary])
    return Neighbours(
        Records(first), second, adjacency, "one record of a linear loss; all others have none"
    )


def suite(mechanism: Mechanism, size: int, trials: int = 20_000) -> Suite:
    """White-box audit of a mechanism whose program has a ``problem``, on ``size`` records."""
    return Suite(
        mechanism=mechanism.name,
        program=worst_case(mechanism.program, size),
        neighbours=neighbours(size, mechanism.scope.adjacency),
        trials=trials,
    )


def in_every_phase(first: Suite, trials: int, but: tuple[int, ...] = ()) -> Suite:
    """The suite of a record of phase 1, and beside it one of the first record of each later one.

    ``but``: phases to leave out, counted from 0.
    """
    program: Any = first.program
    size, adjacency = len(first.neighbours.first), first.neighbours.adjacency
    sizes, later = halves(size, program.phases), []
    for phase in sorted(set(range(1, program.phases)) - set(but)):
        pair = neighbours(size, adjacency, sum(sizes[:phase]))
        pair = replace(pair, text=f"{pair.text}; in phase {phase + 1}")
        later.append(replace(first, neighbours=pair, trials=trials))
    return replace(first, also=tuple(later))


def worst_case(program: Any, size: int) -> Program:
    """The same program and declaration on the linear loss, ``EXCESS`` times beyond its clip."""
    slope = EXCESS * getattr(program, "clip", program.problem.clip)
    attacked: Program = replace(program, problem=linear(program.problem, size, slope))
    return attacked


class MinimumInBatches(BatchedMinimum):
    """In batches also where descent takes fewer gradients."""

    def work(self, size: int) -> Work:
        """As in batches."""
        return self.in_batches(size)


@dataclass(frozen=True)
class InBatches(PhasedERMInBatches):
    """Every phase in batches, on however few rows: the solver that the catalogue's first phase has.

    Same declaration; the catalogue's own program would solve an attack's few rows by descent.
    """

    def query(self, centre: Array, phase: int, size: int) -> MinimumInBatches:
        """The minimum of phase ``phase`` (from 0) over ``size`` rows."""
        plain = super().query(centre, phase, size)
        return MinimumInBatches(**{f.name: getattr(plain, f.name) for f in fields(plain)})


def all_in_batches(program: Any) -> InBatches:
    """The same program, but for which solver a phase has."""
    return InBatches(**{f.name: getattr(program, f.name) for f in fields(program)})


phased_sgd = in_every_phase(suite(catalogue.phased_sgd, 2**6), trials=5_000)
phased_erm = in_every_phase(suite(catalogue.phased_erm, 2**6), trials=5_000)
# Runs are long: of phases alike but for their sizes, the first two and the last.
phased_erm_in_batches = in_every_phase(
    replace(suite(in_batches, 2**6), program=all_in_batches(worst_case(in_batches.program, 2**6))),
    trials=2_000,
    but=(2, 3, 4),
)
localized_accelerated_dp_sgd = in_every_phase(
    suite(catalogue.localized_accelerated_dp_sgd, 8, trials=16_000), trials=8_000
)
suites = [
    phased_sgd,
    phased_erm,
    phased_erm_in_batches,
    localized_accelerated_dp_sgd,
]
