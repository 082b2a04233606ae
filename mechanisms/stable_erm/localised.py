"""Strongly convex optimisation: find a ball around the minimiser first, then phases inside it.

Source: Ghazi et al. 2023, Algorithms 5 and 6.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpaudit.curator import Curator
from dpaudit.errors import InvalidParameter
from dpaudit.nodes import Compose, Node
from dpaudit.scope import Scope
from mechanisms.stable_erm.bounds import gaussian_norm_bound
from mechanisms.stable_erm.domains import Ball, Lens
from mechanisms.stable_erm.phased import Optimised, PhasedERM, PhasedSCO, moved
from mechanisms.stable_erm.release import (
    StronglyConvexOutputPerturbation,
    check_scope,
    declared,
    stable_release,
)

FIRST = "first"


@dataclass(frozen=True)
class Localised:
    """A first stable release of the strongly convex minimiser, then phases in a ball around it.

    The ball has radius sigma (sqrt(d) + sqrt(2 ln(1/beta))) plus ``more``; after a bottom it is the
    whole domain.  lambda = ``slope`` / radius.
    Errors: InvalidParameter for a domain that is no Ball.
    Source: Ghazi et al. 2023, Algorithms 5 and 6.
    """

    first: StronglyConvexOutputPerturbation
    phases: PhasedERM | PhasedSCO
    beta: float
    more: float = 0.0

    def __post_init__(self) -> None:
        if not isinstance(self.first.problem.domain, Ball):
            raise InvalidParameter(f"{type(self).__name__}: expected a Ball for a domain")

    @property
    def radius(self) -> float:
        """R' where the first release is no bottom."""
        dimension = self.first.problem.dimension
        return self.first.deviation * gaussian_norm_bound(dimension, self.beta) + self.more

    def declaration(self, scope: Scope) -> Node:
        check_scope(scope, type(self).__name__)
        leaf = self.first.constants.leaf(FIRST)
        return Compose(declared(leaf, self.first.search), self.phases.declaration(scope))

    def run(self, curator: Curator) -> Optimised:
        whole = self.first.problem.domain
        assert isinstance(whole, Ball)  # noqa: S101  (checked when it was made)
        released, bottom = stable_release(curator, FIRST, self.first.query())
        centre = moved(released, bottom, self.first.problem.start(curator.trials), whole)
        widest = whole.diameter / 2
        radius = np.where(bottom, 2 * widest, min(self.radius, 2 * widest))
        domain = Lens(whole, Ball(radius, centre))
        base = self.phases.weight * np.where(bottom, self.radius / widest, 1.0)
        after = self.phases.run_from(curator, centre, domain, base)
        return Optimised(after.output, np.column_stack([bottom, after.failed]))


@dataclass(frozen=True)
class StronglyConvexERM(Localised):
    """Localise, then :class:`PhasedERM`; half of the budget each.  Algorithm 5, Theorem 4.3."""


@dataclass(frozen=True)
class StronglyConvexSCO(Localised):
    """Localise, then :class:`PhasedSCO`; half of the budget each.  Algorithm 6, Theorem 5.3."""
