"""Audits of Accelerated-DP-SRGD and DP-SRGD: one record of a linear loss, white box.

Programs that clip need none: the search for a steeper loss shows nine tenths of what one does.

The loss of a record s is s b u.x, u the first unit vector: its gradient is s b u everywhere, and
its weighted difference (eta_t - eta_(t-1)) s b u = s b u in whichever round reads it; b is a
thousand times the clip C, which cuts it to s C u.  It lies in the round that the noise protects
least, the first for the tree; all other records have zero gradient.  Where nothing is clipped, b is
the Lipschitz constant: the loss is one of those that the bound is stated for, and moves a row by
less than that bound.
Source: ours; for linear losses Choquette-Choo, Ganesh, Thakurta 2024, Section 4.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from dpaudit.audit.neighbours import Neighbours
from dpaudit.audit.suite import Suite
from dpaudit.curator.mechanism import Mechanism
from dpaudit.families.correlated.node import Factorisation, Strategy
from dpaudit.families.correlated.strategies import prefix_root
from dpaudit.kernels.query import Records
from dpaudit.scope import Adjacency
from mechanisms.papers.common.losses import WorstCase as SignedLoss
from mechanisms.papers.srgd import printed
from mechanisms.papers.srgd.accelerated import DPSRGD, AcceleratedDPSRGD
from mechanisms.papers.srgd.constants import as_float
from mechanisms.papers.srgd.entries import LIPSCHITZ
from mechanisms.papers.srgd.gradient import StochasticRecursiveGradient
from mechanisms.papers.srgd.rows import WorstCase

Program: TypeAlias = AcceleratedDPSRGD | DPSRGD

TRIALS = 10_000
EXCESS = 1e3  # so that a clip that was deleted shows
DIMENSION = 2
# Strategies whose first round is the one least protected, in any number of rounds.
FALLING = {
    Factorisation.IDENTITY,
    Factorisation.INDEPENDENT_PREFIX,
    Factorisation.TREE,
    Factorisation.SQRT_TOEPLITZ,
}


def exposed_round(strategy: Strategy, rounds: int) -> int:
    """The round, from 0, that moves the releases the most: the longest column of K^-1 A."""
    if strategy in FALLING:
        return 0
    moves = np.linalg.solve(prefix_root(strategy, rounds), np.tri(rounds))
    return int(np.square(moves).sum(axis=0).argmax())


def linear(program: Program, slope: float | None = None) -> Program:
    """The same program and noise on the loss s C u.x; ``slope``: C, or else the clipping norm."""
    largest = as_float(program.gradient.rows.largest) if slope is None else slope
    return program.on_loss(SignedLoss(size=DIMENSION, curvature=0.0, slope=largest), 0)


def neighbours(
    gradient: StochasticRecursiveGradient, adjacency: Adjacency = Adjacency.ZERO_OUT
) -> Neighbours:
    """One record is +1, in the most exposed round, and zeroed out or of the other sign."""
    first = np.zeros((gradient.size, 1))
    strategy = gradient.rows.strategy(gradient.strategy, gradient.rounds)
    canary = exposed_round(strategy, gradient.rounds) * gradient.batch
    first[canary] = 1.0
    opposite = adjacency is Adjacency.REPLACE_ONE
    second = Records(-first) if opposite else Records(first, np.arange(len(first)) != canary)
    return Neighbours(
        Records(first),
        second,
        adjacency,
        "one record of a linear loss, in the round that is protected least; all others have none",
    )


def suite(mechanism: Mechanism) -> Suite:
    """White-box audit of a program of the paper; errors: TypeError for another one."""
    program = mechanism.program
    if not isinstance(program, (AcceleratedDPSRGD, DPSRGD)):
        raise TypeError(f"{mechanism.name}: its program is no AcceleratedDPSRGD or DPSRGD")
    unclipped = isinstance(program.gradient.rows, WorstCase)
    steep = EXCESS * as_float(program.gradient.rows.largest)
    attacked = linear(program, as_float(LIPSCHITZ) if unclipped else steep)
    return Suite(
        mechanism=mechanism.name,
        program=attacked,
        neighbours=neighbours(attacked.gradient, mechanism.scope.adjacency),
        trials=TRIALS,
    )


accelerated_dp_srgd_theorem_5_12_unclipped = suite(
    printed.accelerated_dp_srgd_theorem_5_12_unclipped
)
