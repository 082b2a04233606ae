"""Localisation: phases of stable releases around what the phase before released.

Phase i minimises the loss plus lambda_i/2 ||theta - previous||^2, lambda_i = 4^i lambda; what is
released is projected onto the domain, and a bottom leaves the point where it was: both look at
released values only.
Source: Ghazi et al. 2023, Algorithms 3 and 4; projection and bottom are not in the paper.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from dpaudit.curator.curator import Curator, Part
from dpaudit.errors import InvalidParameter
from dpaudit.families.composition import Parallel, Repeat
from dpaudit.kernels.query import Array
from dpaudit.nodes import Node
from dpaudit.scope import Scope
from mechanisms.papers.stable_erm.calibration import Constants
from mechanisms.papers.stable_erm.domains import Domain
from mechanisms.papers.stable_erm.problem import DeltaRule, Problem
from mechanisms.papers.stable_erm.release import (
    StableQuery,
    check_distance,
    check_scope,
    check_users,
    declared,
    query_of,
    stable_release,
)
from mechanisms.papers.stable_erm.solver import Minimiser, Pull
from mechanisms.papers.stable_erm.stable import Enumeration, Search, Statistic

Failed = NDArray[np.bool_]
PHASE = "phase"


@dataclass(frozen=True)
class Optimised:
    """What a run gives: the last point, (trials, d), and in which phases the outcome was bottom.

    ``failed``: (trials, phases).
    """

    output: Array
    failed: Failed


@dataclass(frozen=True)
class Phases(ABC):
    """What both optimisers share: ``weight`` is lambda, ``count`` is T, the number of phases.

    ``make`` turns a phase's minimiser into another function of the users: audits' adversaries.
    """

    problem: Problem
    constants: Constants
    count: int
    weight: float
    rule: DeltaRule = DeltaRule()
    search: Search = Enumeration()
    make: Callable[[Minimiser], Statistic] | None = None

    def __post_init__(self) -> None:
        if not (hasattr(self.count, "__index__") and self.count >= 0):
            raise InvalidParameter(f"count = {self.count}: expected a whole number of phases")
        if not (math.isfinite(self.weight) and self.weight > 0):
            raise InvalidParameter(f"weight = {self.weight}: expected a positive number")
        check_distance(self.search, self.constants)

    def run(self, curator: Curator) -> Optimised:
        start = self.problem.start(curator.trials)
        return self.run_from(curator, start, self.problem.domain, self.weight)

    @abstractmethod
    def run_from(
        self, curator: Curator, point: Array, domain: Domain, base: Array | float
    ) -> Optimised:
        """The phases from a released point on, in a domain made of released values."""

    def query(
        self, phase: int, point: Array, users: int, domain: Domain, base: Array | float
    ) -> StableQuery:
        """Phase 1, 2, ...: the pulled minimiser around a released point."""
        weight = base * 4.0**phase
        statistic = Minimiser(self.problem.loss, domain, Pull(weight, _merged(point, weight)))
        twice = 2 * self.problem.lipschitz
        own = getattr(self.search, "unit", None)  # of a search whose proof needs one of its own
        kappa = self.constants.kappa
        unit = (
            own(statistic, users, kappa)
            if own
            else self.rule.unit(self.problem, twice, weight, users, kappa)
        )
        made = statistic if self.make is None else self.make(statistic)
        items = self.problem.rows if self.make is None else None
        return query_of(self.constants, made, self.search, unit, users, items)

    def deviation(self, phase: int, users: int) -> float:
        """sigma of a phase, of each coordinate."""
        point = self.problem.start(1)
        query = self.query(phase, point, users, self.problem.domain, self.weight)
        return float(self.constants.noise_multiplier) * float(np.max(query.unit))

    def noise_dominated(self, users: int) -> bool:
        """Whether the first phase's noise, of norm sigma sqrt(d), is beyond the domain."""
        radius = self.deviation(1, users) * math.sqrt(self.problem.dimension)
        return radius > self.problem.domain.diameter


def _merged(point: Array, weight: Array | float) -> Array:
    """One row where all trials stand at the same released point."""
    same = np.ndim(weight) == 0 and bool((point == point[:1]).all())
    return point[:1] if same else point


def moved(released: Array, failed: Failed, point: Array, domain: Domain) -> Array:
    """What was released, or the point itself after a bottom, projected onto the domain."""
    kept = np.where(failed[:, None], point, released)
    return domain.project(kept)


@dataclass(frozen=True)
class PhasedERM(Phases):
    """T phases on all users, each with an equal share of the budget.

    ``constants``: those of one phase.
    Errors: InvalidParameter for fewer users than 4 kappa + 2; utility is shown from 8 kappa + 2.
    Source: Ghazi et al. 2023, Algorithm 3 and Theorem 4.1.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        check_users(self.problem.users, self.constants, type(self).__name__)

    def declaration(self, scope: Scope) -> Node:
        check_scope(scope, type(self).__name__)
        return declared(Repeat(self.constants.leaf(PHASE), self.count), self.search)

    def run_from(
        self, curator: Curator, point: Array, domain: Domain, base: Array | float
    ) -> Optimised:
        """The phases from a released point on, in a domain made of released values."""
        failed = []
        for i in range(1, self.count + 1):
            query = self.query(i, point, self.problem.users, domain, base)
            released, bottom = stable_release(curator, PHASE, query)
            point = moved(released, bottom, point, domain)
            failed.append(bottom)
        return Optimised(point, np.stack(failed, axis=1))


def batch_sizes(users: int, count: int) -> tuple[int, ...]:
    """Batch i holds floor(n/2^(i-1)) - floor(n/2^i) users, counted from the last; then the unused.

    The paper's batch i is users [n/2^i, n/2^(i-1)), half-open; here users are counted from the
    other end, so that batch 1 comes first.
    """
    ends = [users >> i for i in range(count + 1)]
    batches = [a - b for a, b in pairwise(ends)]
    return (*batches, *([ends[-1]] if ends[-1] else []))


@dataclass(frozen=True)
class PhasedSCO(Phases):
    """T phases on disjoint halves of the users, n/2, n/4, ...: each has the whole budget.

    With no phase (``count`` = 0) no user is looked at.
    Errors: InvalidParameter for a batch of fewer users than 4 kappa + 2.
    Source: Ghazi et al. 2023, Algorithm 4 and Theorem 5.1, batches half-open.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.count:
            last = self.sizes[self.count - 1]
            check_users(last, self.constants, f"{type(self).__name__}, batch {self.count}")

    @property
    def sizes(self) -> tuple[int, ...]:
        """Users of each batch, and of the unused block."""
        return batch_sizes(self.problem.users, self.count)

    def labels(self) -> tuple[str, ...]:
        """One a batch."""
        return tuple(f"{PHASE} {i + 1}" for i in range(self.count))

    def declaration(self, scope: Scope) -> Node:
        check_scope(scope, type(self).__name__)
        if self.count == 0:
            return Repeat(self.constants.leaf(PHASE), 0)
        leaves = [self.constants.leaf(label) for label in self.labels()]
        return declared(Parallel(*leaves), self.search)

    def run_from(
        self, curator: Curator, point: Array, domain: Domain, base: Array | float
    ) -> Optimised:
        """The phases from a released point on, in a domain made of released values."""
        failed = np.zeros((curator.trials, self.count), dtype=bool)
        for i, label in enumerate(self.labels()):
            query = self.query(i + 1, point, self.sizes[i], domain, base)
            rows: Part = curator.part(i, self.sizes)
            released, failed[:, i] = stable_release(curator, label, query, rows)
            point = moved(released, failed[:, i], point, domain)
        return Optimised(point, failed)
