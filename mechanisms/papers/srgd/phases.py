"""What algorithms in phases share: the layout, the noise, and what their privacy assumes.

Source: Feldman, Koren, Talwar 2020 (as cited; from memory).
"""

from __future__ import annotations

import math

from dpaudit.errors import InvalidParameter
from dpaudit.exact import Number, exact, log, sqrt
from dpaudit.families.additive import Gaussian
from dpaudit.families.composition import Parallel
from dpaudit.nodes import Assumption, Node, Status
from dpaudit.scope import Adjacency
from mechanisms.papers.srgd.problem import Problem, real, whole


def halves(size: int, phases: int) -> tuple[int, ...]:
    """Blocks of floor(size / 2^i) rows, i = 1..phases, and a last block that is never read.

    Errors: InvalidParameter where a phase would be empty.
    """
    whole(phases, "phases")
    if size >> phases < 1:
        raise InvalidParameter(f"phases = {phases} of {size} records: the last would be empty")
    taken = tuple(size >> i for i in range(1, phases + 1))
    return (*taken, size - sum(taken))


def all_phases(size: int) -> int:
    """ceil(log2 size) phases, less those without a record: floor(log2 size).

    Source: Feldman, Koren, Talwar 2020, Algorithm 2 (as cited).
    """
    return max(1, whole(size, "size").bit_length() - 1)


def convex(problem: Problem, smoothness: float, evidence: str) -> Assumption:
    """What the sensitivity of a solved phase rests on, beside its clip; nothing checks it."""
    return Assumption(
        id="convex_lipschitz_smooth",
        statement=f"the loss of every record is convex, {problem.clip:g}-Lipschitz and "
        f"{smoothness:g}-smooth on the ball, whatever the record holds",
        status=Status.DECLARED,
        evidence=evidence,
    )


def fresh_phases(phases: int, noise_multiplier: Number) -> Node:
    """Phase i, released once with Gaussian noise; every record is in one phase."""
    return Parallel(*(Gaussian(f"phase {i}", noise_multiplier) for i in range(phases)))


def cited_multiplier(epsilon: object, delta: object) -> Number:
    """s_i / (L h_i) = 4 sqrt(log(1/delta)) / epsilon.

    Source: Feldman, Koren, Talwar 2020, Algorithms 2 and 3, from memory.
    """
    budget = exact(epsilon, "epsilon"), exact(delta, "delta")
    if not (budget[0] > 0 and 0 < budget[1] < 1):
        raise InvalidParameter(f"({epsilon}, {delta}): expected epsilon > 0 and delta in (0, 1)")
    return 4 * sqrt(log(1 / budget[1])) / budget[0]


def cited_step_size(problem: Problem, dimension: int, epsilon: float, delta: float) -> float:
    """h = (R / L) min(4 / sqrt(n), epsilon / (2 sqrt(d log(1/delta)))).

    Source: Feldman, Koren, Talwar 2020, Theorem 4.4, from memory; R is the ball's radius.
    """
    real(epsilon, "epsilon")
    if not 0 < delta < 1:
        raise InvalidParameter(f"delta = {delta}: expected in (0, 1)")
    noisy = epsilon / (2 * math.sqrt(whole(dimension, "dimension") * math.log(1 / delta)))
    return problem.radius / problem.clip * min(4 / math.sqrt(problem.size), noisy)


def non_negative(value: float, place: str) -> None:
    """Errors: InvalidParameter unless the constant is finite and at least 0."""
    if not (math.isfinite(value) and value >= 0):
        raise InvalidParameter(f"{place} = {value}: expected a finite number from 0 on")


def phase_moves(adjacency: Adjacency) -> float:
    """Errors: InvalidParameter under add_remove, where a pass over a block has no sensitivity."""
    if adjacency is Adjacency.ADD_REMOVE:
        raise InvalidParameter("a phase reads records by position: use zero_out or replace_one")
    return 2.0 if adjacency is Adjacency.REPLACE_ONE else 1.0
