"""What stable releases are held against: output perturbation, localisation, noisy gradients.

A row of the records is one unit: all items of a user, or one item, as the scope says.  A loss must
bound its gradients for any item, since the noise rests on it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from numpy.typing import NDArray

from dpaudit.curator.curator import Curator
from dpaudit.errors import InvalidParameter
from dpaudit.exact import Number, exact
from dpaudit.exact.domains import positive
from dpaudit.families.additive import Gaussian
from dpaudit.families.composition import Parallel, Repeat
from dpaudit.kernels.query import Array, ClippedMean, Norm, Records
from dpaudit.nodes import Node
from dpaudit.scope import Adjacency, Scope, Trust
from mechanisms.papers.stable_erm.domains import Domain
from mechanisms.papers.stable_erm.phased import batch_sizes
from mechanisms.papers.stable_erm.problem import Problem
from mechanisms.papers.stable_erm.release import user_array
from mechanisms.papers.stable_erm.solver import Minimiser, Pull, RidgeLogistic

OUTPUT = "output"
GRADIENT = "gradient"
PHASE = "phase"


@dataclass(frozen=True, eq=False)
class MinimiserQuery:
    """The minimiser over all rows; replacing one moves it by at most 2 G/(mu n) + 2 error.

    Source: Chaudhuri, Monteleoni, Sarwate 2011, Corollary 8; with the solver's error.
    """

    minimiser: Minimiser
    norm: Norm = field(default="l2", init=False)

    def value(self, records: Records, chosen: NDArray[np.bool_] | None = None) -> Array:
        """The minimiser, (trials, d)."""
        if chosen is not None:
            raise InvalidParameter("a minimiser takes no secret batch")
        users = user_array(records.values)
        return self.minimiser.at(users, np.ones((1, len(users)), dtype=bool))[:, 0]

    def sensitivity(self, adjacency: Adjacency, size: int) -> Array:
        """Errors: InvalidParameter under another adjacency than replace_one."""
        if adjacency is not Adjacency.REPLACE_ONE:
            raise InvalidParameter(f"a minimiser under {adjacency}: expected replace_one")
        loss = bounded(self.minimiser.loss)
        moved = 2 * loss.lipschitz / (self.minimiser.modulus * size) + 2 * loss.error
        return np.asarray(moved if len(moved) > 1 else moved[0])


def bounded(loss: object) -> RidgeLogistic:
    """Errors: InvalidParameter for a loss whose gradients any item could make large."""
    if not isinstance(loss, RidgeLogistic):
        raise InvalidParameter(
            f"{type(loss).__name__} bounds no gradient for any item; use RidgeLogistic"
        )
    return loss


@dataclass(frozen=True)
class OutputPerturbation:
    """The minimiser with Gaussian noise: (trials, d); at user level no number of items helps.

    Errors: InvalidParameter for noise that is not positive, an unbounded loss.
    Source: Chaudhuri, Monteleoni, Sarwate 2011, Algorithm 1, with Gaussian noise.
    """

    problem: Problem
    noise_multiplier: Number

    def __post_init__(self) -> None:
        _checked(self)

    def declaration(self, scope: Scope) -> Node:
        _check_scope(scope, type(self).__name__)
        return Gaussian(OUTPUT, self.noise_multiplier)

    def run(self, curator: Curator) -> Array:
        minimiser = Minimiser(self.problem.loss, self.problem.domain)
        return curator.release(OUTPUT, MinimiserQuery(minimiser))


@dataclass(frozen=True)
class ItemPhasedERM:
    """Localisation with output perturbation on disjoint halves of the rows: the last point.

    Phase i: lambda_i = 4^i ``weight`` around the last released point, projected onto the domain.
    Errors: InvalidParameter for fewer than 2^T rows, as :class:`OutputPerturbation`.
    Source: Feldman, Koren, Talwar 2020, Algorithm 3 (localisation), halves as in Ghazi et al. 2023.
    """

    problem: Problem
    noise_multiplier: Number
    count: int
    weight: float

    def __post_init__(self) -> None:
        _checked(self)
        if not (self.count >= 1 and self.problem.users >> self.count >= 1):
            raise InvalidParameter(f"count = {self.count}: expected 1 to log2 of the rows")

    def declaration(self, scope: Scope) -> Node:
        _check_scope(scope, type(self).__name__)
        labels = [f"{PHASE} {i + 1}" for i in range(self.count)]
        return Parallel(*(Gaussian(label, self.noise_multiplier) for label in labels))

    def run(self, curator: Curator) -> Array:
        point, domain = self.problem.start(curator.trials), self.problem.domain
        sizes = batch_sizes(self.problem.users, self.count)
        for i in range(self.count):
            pull = Pull(self.weight * 4.0 ** (i + 1), point)
            query = MinimiserQuery(Minimiser(self.problem.loss, domain, pull))
            rows = curator.part(i, sizes)
            point = domain.project(curator.release(f"{PHASE} {i + 1}", query, rows=rows))
        return point


@dataclass(frozen=True)
class NoisyGradientDescent:
    """Projected steps along noisy means of clipped row gradients: the mean of the points.

    Rows are users (their mean gradients are clipped: a stand-in for user-level gradient descent) or
    items (noisy gradient descent).
    Errors: as :class:`OutputPerturbation`.
    Source: Bassily, Smith, Thakurta 2014 (full-batch, Gaussian noise); Levy et al. 2021 at user
    level, with clipping in place of their mean estimation: a reconstruction.
    """

    problem: Problem
    noise_multiplier: Number
    rounds: int
    step_size: float
    radius: float

    def __post_init__(self) -> None:
        _checked(self)
        if not (hasattr(self.rounds, "__index__") and self.rounds > 0):
            raise InvalidParameter(f"rounds = {self.rounds}: expected a positive whole number")
        for name in ("step_size", "radius"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0):
                raise InvalidParameter(f"{name} = {value}: expected a positive number")

    def declaration(self, scope: Scope) -> Node:
        _check_scope(scope, type(self).__name__)
        return Repeat(Gaussian(GRADIENT, self.noise_multiplier), self.rounds)

    def run(self, curator: Curator) -> Array:
        point = total = self.problem.start(curator.trials)
        for _ in range(self.rounds):
            each = partial(_row_gradients, bounded(self.problem.loss), point, self.problem.domain)
            slope = curator.release(GRADIENT, ClippedMean(each, self.radius))
            slope = slope + self.problem.loss.common(point)
            point = self.problem.domain.project(point - self.step_size * slope)
            total = total + point
        return np.asarray(total / (self.rounds + 1))


def _row_gradients(loss: RidgeLogistic, point: Array, domain: Domain, values: Array) -> Array:
    return loss.gradients(point, user_array(values), Pull(0.0, point), domain)


def _checked(program: OutputPerturbation | ItemPhasedERM | NoisyGradientDescent) -> None:
    bounded(program.problem.loss)
    noise = exact(program.noise_multiplier, "noise_multiplier")
    positive(noise, "noise_multiplier")
    object.__setattr__(program, "noise_multiplier", noise)


def _check_scope(scope: Scope, place: str) -> None:
    if (scope.adjacency, scope.trust) != (Adjacency.REPLACE_ONE, Trust.CENTRAL):
        raise InvalidParameter(f"{place} declares its noise for replace_one: {scope}")
