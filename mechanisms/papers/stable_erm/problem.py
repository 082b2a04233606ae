"""What is optimised, and how large the unit of a stable release of its minimiser is."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpaudit.errors import InvalidParameter
from dpaudit.kernels.query import Array
from mechanisms.papers.stable_erm.bounds import (
    DELTA_RULES,
    Size,
    erm_deletion_sensitivity_bound,
    erm_population_distance_bound,
)
from mechanisms.papers.stable_erm.calibration import Constants
from mechanisms.papers.stable_erm.certificate import RULES, solver_slack, unit_of_radius
from mechanisms.papers.stable_erm.domains import Domain
from mechanisms.papers.stable_erm.sharp import Shares
from mechanisms.papers.stable_erm.solver import Loss


@dataclass(frozen=True)
class Problem:
    """A convex loss over a domain, for so many users of so many items of so many features.

    ``lipschitz`` G and the domain's diameter R are what lambda and the units are made of; no
    guarantee of privacy rests on them.
    Errors: InvalidParameter for counts or constants that are not positive.
    """

    loss: Loss
    domain: Domain
    users: int
    items: int
    features: int
    lipschitz: float

    def __post_init__(self) -> None:
        Size(self.users, self.items, 0.01)
        Size(self.features, 1, 0.01)
        if not (math.isfinite(self.lipschitz) and self.lipschitz > 0):
            raise InvalidParameter(
                f"Problem.lipschitz = {self.lipschitz}: expected a positive number"
            )

    @property
    def dimension(self) -> int:
        """Parameters."""
        return self.loss.dimension(self.features)

    @property
    def rows(self) -> int:
        """Rows of a user's record: one an item, or one that counts them."""
        return 1 if isinstance(self.loss, Shares) else self.items

    def start(self, trials: int) -> Array:
        """The projection of 0, (trials, d)."""
        return self.domain.project(np.zeros((trials, self.dimension)))


@dataclass(frozen=True)
class DeltaRule:
    """How a unit (Delta, or D) is set: by a bound of the paper, or a certificate's at gamma.

    ``rule``: line3, paper or tight at a Lipschitz constant and ``beta``; or c1, c2, c2c, quadratic,
    diameter at gradient radius ``gamma``.  ``slack`` leaves room for residuals and the solver's
    error.  A unit that is too small costs bottoms, never privacy.
    Errors: InvalidParameter for an unknown rule, or numbers outside their domain.
    """

    rule: str = "tight"
    beta: float = 1e-3
    gamma: float = 0.0
    slack: float = 0.0

    def __post_init__(self) -> None:
        Size(1, 1, self.beta)
        for name in ("gamma", "slack"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0):
                raise InvalidParameter(f"DeltaRule.{name} = {value}: expected a finite number")
        known = RULES if self.gamma else DELTA_RULES
        if self.rule not in known:
            raise InvalidParameter(f"rule = {self.rule!r}: expected one of {', '.join(known)}")

    def unit(
        self, problem: Problem, lipschitz: float, modulus: Array | float, users: int, kappa: int
    ) -> Array:
        """The unit of the minimiser of so many users, shaped like the modulus."""
        loss = problem.loss
        weight, reach = np.asarray(modulus, dtype=np.float64), problem.domain.diameter
        solved = solver_slack(loss, weight, users, kappa, reach)
        if self.gamma > 0:
            smooth = loss.smoothness
            found = unit_of_radius(self.rule, self.gamma, modulus, smooth, users, kappa)
            root = math.sqrt(problem.dimension) if self.rule == "diameter" else 1.0
            return np.asarray(found * root + self.slack + solved)
        size = Size(users, problem.items, self.beta)
        bound = erm_deletion_sensitivity_bound(lipschitz, 1.0, size, kappa, self.rule)
        return np.asarray(bound / np.asarray(modulus) + self.slack + solved)


def erm_phases(users: int, items: int) -> int:
    """T = ceil(log2(n m))."""
    return math.ceil(math.log2(users * items))


def sco_phases(users: int, constants: Constants) -> int:
    """T = floor(log2(n / N0)), N0 = 8 kappa + 2, or 0."""
    return max(0, math.floor(math.log2(users / (8 * constants.kappa + 2))))


def erm_weight(problem: Problem, diameter: float) -> float:
    """lambda = G sqrt(d) / (R n sqrt(m)), R the ``diameter`` of the set that is searched.

    Errors: InvalidParameter for a diameter that is not positive and finite.
    Source: Ghazi et al. 2023, Theorem 4.1.
    """
    if not (math.isfinite(diameter) and diameter > 0):
        raise InvalidParameter(
            f"diameter = {diameter}: phases need a bounded domain (Theorems 4.1 and 5.1)"
        )
    root = problem.users * math.sqrt(problem.items)
    return problem.lipschitz * math.sqrt(problem.dimension) / (diameter * root)


def sco_weight(problem: Problem, diameter: float) -> float:
    """lambda = (G/R) (sqrt(d) / (n sqrt(m)) + 1 / sqrt(n m)); the second term is not printed.

    Without it the bound of Theorem 5.1 keeps a term R G / sqrt(d m) that does not fall with n.
    Errors: as :func:`erm_weight`.
    """
    first = erm_weight(problem, diameter)
    return first + problem.lipschitz / diameter / math.sqrt(problem.users * problem.items)


def sampling_distance(problem: Problem, beta: float) -> float:
    """What Algorithm 6 adds to the radius: Proposition B.1 at the loss's own modulus."""
    size = Size(problem.users, problem.items, beta)
    return erm_population_distance_bound(problem.lipschitz, problem.loss.modulus, size)
