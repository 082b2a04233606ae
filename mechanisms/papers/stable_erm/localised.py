"""Strongly convex optimisation: find a ball around the minimiser first, then phases inside it.

Source: Ghazi et al. 2023, Algorithms 5 and 6.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dpaudit.curator.curator import Curator
from dpaudit.errors import InvalidParameter
from dpaudit.families.composition import Compose
from dpaudit.nodes import Node
from dpaudit.scope import Scope
from mechanisms.papers.stable_erm.bounds import gaussian_norm_bound
from mechanisms.papers.stable_erm.domains import Ball, Lens
from mechanisms.papers.stable_erm.phased import Optimised, PhasedERM, PhasedSCO, moved
from mechanisms.papers.stable_erm.release import (
    StronglyConvexOutputPerturbation,
    check_scope,
    declared,
    stable_release,
)

FIRST = "first"


@dataclass(frozen=True)
class Localised:
    """A first stable release of the strongly convex minimiser, then phases in a ball around it.

    The ball has radius R' = sigma (sqrt(d) + sqrt(2 ln(1/beta))) plus ``more``; lambda is that of
    the phases, made for a domain of size ``reach`` R'.  After a bottom, of which the paper says
    nothing, the ball is the whole domain, of size min(diameter, 2 G/mu), and lambda is made for it.
    Errors: InvalidParameter for a domain that is no Ball.
    Source: Ghazi et al. 2023, Algorithms 5 and 6.
    """

    reach: ClassVar[float] = 1.0

    first: StronglyConvexOutputPerturbation
    phases: PhasedERM | PhasedSCO
    beta: float
    more: float = 0.0

    def __post_init__(self) -> None:
        _whole(self.first)

    @property
    def radius(self) -> float:
        """R' where the first release is no bottom."""
        return ball_radius(self.first, self.beta, self.more)

    @property
    def widest(self) -> float:
        """The size of the whole domain: at most its diameter, and at most 2 G/mu."""
        problem = self.first.problem
        return min(problem.domain.diameter, 2 * problem.lipschitz / problem.loss.modulus)

    def declaration(self, scope: Scope) -> Node:
        check_scope(scope, type(self).__name__)
        leaf = self.first.constants.leaf(FIRST)
        return Compose(declared(leaf, self.first.search), self.phases.declaration(scope))

    def run(self, curator: Curator) -> Optimised:
        whole = _whole(self.first)
        released, bottom = stable_release(curator, FIRST, self.first.query())
        centre = moved(released, bottom, self.first.problem.start(curator.trials), whole)
        radius = np.where(bottom, whole.diameter, min(self.radius, whole.diameter))
        domain = Lens(whole, Ball(radius, centre))
        base = self.phases.weight * np.where(bottom, self.reach * self.radius / self.widest, 1.0)
        after = self.phases.run_from(curator, centre, domain, base)
        return Optimised(after.output, np.column_stack([bottom, after.failed]))


def ball_radius(first: StronglyConvexOutputPerturbation, beta: float, more: float) -> float:
    """R': within it of the first release the minimiser is, with probability 1 - beta."""
    return first.deviation * gaussian_norm_bound(first.problem.dimension, beta) + more


def _whole(first: StronglyConvexOutputPerturbation) -> Ball:
    domain = first.problem.domain
    if not isinstance(domain, Ball):
        raise InvalidParameter(f"{type(domain).__name__}: localisation expects a Ball for a domain")
    return domain


@dataclass(frozen=True)
class StronglyConvexERM(Localised):
    """Localise, then :class:`PhasedERM`; half of the budget each.  Algorithm 5, Theorem 4.3."""


@dataclass(frozen=True)
class StronglyConvexSCO(Localised):
    """Localise, then :class:`PhasedSCO`; half of the budget each.  Algorithm 6, Theorem 5.3.

    lambda is made for the diameter 2 R' of the ball.
    """

    reach: ClassVar[float] = 2.0
