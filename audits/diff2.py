"""Audits of DIFF2: worst-case neighbours of replace_one, white box.

Gradient descent needs none, nor do local steps with the paper's noise: on the programs' own losses,
or on the steeper one that is searched for, the default attack reaches nine tenths of what a worst
case shows.

One record of the smallest client is s = +1 in one data set and s = -1 in the other; all other
records have zero gradient.  The loss s (B u.x + K/2 ||x||^2) exceeds every clip by a thousand: B is
a million times C1 and K a thousand times C2, so that its gradient is clipped to s C1 times a unit
vector, its gradient difference s K (x_{r-1} - x_{r-2}) to s C2 (x_{r-1} - x_{r-2}), and a clip that
was deleted shows.  With clients as units all records of one client are such records.
Source: the loss is ours; Murata and Suzuki 2023, Lemma C.1 is the bound it attains.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dpaudit.audit.neighbours import Neighbours
from dpaudit.audit.suite import Suite
from dpaudit.curator.mechanism import Mechanism
from dpaudit.kernels.query import Records
from dpaudit.scope import Adjacency
from mechanisms.papers.common.losses import WorstCase
from mechanisms.papers.diff2 import catalogue as diff2
from mechanisms.papers.diff2.framework import Diff2, LocalDescent
from mechanisms.papers.diff2.units import by_client, equal_size

DIMENSION = 5
EXCESS = 1e3  # so that a clip that was deleted shows
TRIALS = 20_000
LOCAL_TRIALS = 3_000  # each draws secret batches, and costs more
CLIENT_TRIALS = 10_000  # each clips records, and then clients


def beyond(gradient_radius: float, curvature: float, dimension: int = DIMENSION) -> WorstCase:
    """The loss of curvature ``EXCESS`` times ``curvature``, and of gradients as far beyond C1.

    Its slope is ``EXCESS`` times that, so that no iterate of norm below ``EXCESS`` C1 / curvature
    makes a gradient small.
    """
    slope = EXCESS**2 * gradient_radius
    return WorstCase(size=dimension, curvature=EXCESS * curvature, slope=slope)


def worst_case(program: Diff2, dimension: int = DIMENSION) -> Diff2:
    """The same program, noise and schedule on the loss that is beyond every clip."""
    largest = program.difference_radius
    if isinstance(program.routine, LocalDescent):
        largest = max(largest, program.routine.radius)
    loss = beyond(program.gradient_radius, largest, dimension)
    return replace(program, loss=loss, features=0)


def opposed(client_sizes: tuple[int, ...]) -> Neighbours:
    """One record of the smallest client is +1 or -1, its fellow records are -1, others have none.

    A local step's batch then moves by twice its radius over the batch size if it holds the record,
    against the mean of the others: the pair that attains the one-step profile.
    """
    canary = sum(client_sizes[: int(np.argmin(client_sizes))])
    first = np.zeros((sum(client_sizes), 1))
    first[canary : canary + min(client_sizes)] = -1.0
    second = first.copy()
    first[canary] = 1.0
    return Neighbours(
        Records(first),
        Records(second),
        Adjacency.REPLACE_ONE,
        "one record of the smallest client saturates every clip, with either sign, against its "
        "fellow records; all other clients have zero gradient",
    )


def neighbours(client_sizes: tuple[int, ...]) -> Neighbours:
    """One record of the smallest client is +1 or -1; all others have zero gradient."""
    canary = sum(client_sizes[: int(np.argmin(client_sizes))])
    first = np.zeros((sum(client_sizes), 1))
    first[canary] = 1.0
    return Neighbours(
        Records(first),
        Records(-first),
        Adjacency.REPLACE_ONE,
        "one record of the smallest client saturates every clip, with either sign; "
        "all other records have zero gradient",
    )


def client_neighbours(client_sizes: tuple[int, ...]) -> Neighbours:
    """One client's records are all +1 or all -1; rows are clients, (clients, n, 1)."""
    first = np.zeros((len(client_sizes), equal_size(client_sizes), 1))
    first[0] = 1.0
    return Neighbours(
        Records(first),
        Records(-first),
        Adjacency.REPLACE_ONE,
        "all records of one client saturate every clip, with either sign; all other clients have "
        "zero gradient",
    )


def suite(mechanism: Mechanism) -> Suite:
    """White-box audit of a DIFF2 program under replace_one; errors: TypeError for another one."""
    program = mechanism.program
    if not isinstance(program, Diff2):
        raise TypeError(f"{mechanism.name}: its program is no Diff2")
    pair, trials = neighbours, TRIALS
    if by_client(mechanism.scope):
        pair, trials = client_neighbours, CLIENT_TRIALS
    elif isinstance(program.routine, LocalDescent):
        pair, trials = opposed, LOCAL_TRIALS
    return Suite(
        mechanism=mechanism.name,
        program=worst_case(program),
        neighbours=pair(program.client_sizes),
        trials=trials,
    )


suites = [suite(mechanism) for mechanism in (diff2.diff2_bvr_local_sgd_tight,)]
(diff2_bvr_local_sgd_tight,) = suites
