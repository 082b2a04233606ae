"""Losses with known KL parameters, and data sets of n equal records held as one row.

The objective is then the loss itself and stays what it is while n grows: only the noise falls.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from dpaudit.curator.curator import Program, Sampler
from dpaudit.errors import InvalidParameter
from dpaudit.kernels.query import Array, ClippedMean, Records
from dpaudit.scope import Adjacency, central
from mechanisms.papers.common.losses import Loss
from mechanisms.papers.kl.condition import KLCondition
from mechanisms.papers.kl.problem import KLProblem

SCOPE = central("replace_one")


@dataclass(frozen=True)
class Radial:
    """A loss phi(||w - x||) of a point x: ``height`` is phi, ``slope`` phi', minimum phi(0) = 0."""

    height: Callable[[Array], Array]
    slope: Callable[[Array], Array]

    def dimension(self, features: int) -> int:
        """A record is a point."""
        return features

    def initial(self, features: int, trials: int, seed: int) -> Array:
        """Zeros; a problem names its own start."""
        return np.zeros((trials, features))

    def values(self, parameters: ArrayLike, records: ArrayLike) -> Array:
        """The losses (trials, n)."""
        return self.height(np.linalg.norm(_apart(parameters, records), axis=-1))

    def gradients(self, parameters: ArrayLike, records: ArrayLike) -> Array:
        """The gradients (trials, n, d); 0 at the point itself."""
        apart = _apart(parameters, records)
        norms = np.linalg.norm(apart, axis=-1, keepdims=True)
        return np.asarray(self.slope(norms) * apart / np.where(norms > 0, norms, 1.0))


def _apart(parameters: ArrayLike, records: ArrayLike) -> Array:
    return np.asarray(np.asarray(parameters)[:, None, :] - np.asarray(records))


@dataclass(frozen=True)
class Decay:
    """exp(-(w_1 - x_1)): its slope is its height, so that kappa = 1 and gamma = 1, with equality.

    The infimum 0 is not attained.  Where a minimum is, kappa = 1 cannot hold with equality: the
    loss is flatter there than every power, and its slope over its height grows without bound.
    """

    def dimension(self, features: int) -> int:
        """A record is a point."""
        return features

    def initial(self, features: int, trials: int, seed: int) -> Array:
        """Zeros; a problem names its own start."""
        return np.zeros((trials, features))

    def values(self, parameters: ArrayLike, records: ArrayLike) -> Array:
        """The losses (trials, n)."""
        return np.asarray(np.exp(-_apart(parameters, records)[..., 0]))

    def gradients(self, parameters: ArrayLike, records: ArrayLike) -> Array:
        """The gradients (trials, n, d)."""
        found = np.zeros_like(_apart(parameters, records))
        found[..., 0] = -self.values(parameters, records)
        return found


@dataclass(frozen=True, eq=False)
class Landscape:
    """An objective with infimum 0 and its constants where the runs are.

    ``condition`` is None where no KL condition is known.
    """

    loss: Loss
    lipschitz: float
    smoothness: float
    start: float
    condition: KLCondition | None = None

    @property
    def kl(self) -> KLCondition:
        """Its KL condition; errors: InvalidParameter where it has none."""
        if self.condition is None:
            raise InvalidParameter("this loss has no KL condition")
        return self.condition

    @property
    def starting_gap(self) -> float:
        """F0 = F(w0) - inf F, exactly."""
        return float(self.excess(np.array([[self.start]]))[0])

    def problem(self, dimension: int, size: int) -> Replicated:
        """The objective on ``size`` records at zero, from (start, 0, ..., 0)."""
        first = (self.start, *(0.0 for _ in range(dimension - 1)))
        return Replicated(self.loss, dimension, size, self.lipschitz, first)

    def excess(self, points: Array) -> Array:
        """F - inf F at points (trials, d)."""
        return self.loss.values(points, np.zeros((1, points.shape[-1])))[:, 0]

    def gradient_norms(self, points: Array) -> Array:
        """The norm of the gradient at points (trials, d)."""
        found = self.loss.gradients(points, np.zeros((1, points.shape[-1])))[:, 0]
        return np.asarray(np.linalg.norm(found, axis=-1))


def power(kappa: float, radius: float, lipschitz: float) -> Landscape:
    """||w||^tau / tau from norm 1, tau = kappa / (kappa - 1): gamma = tau^(-1/kappa).

    L1 = (tau - 1) radius^(tau - 2), and L0 at least radius^(tau - 1), on a ball of that radius.
    """
    tau = kappa / (kappa - 1)
    if lipschitz < radius ** (tau - 1):
        raise InvalidParameter(f"lipschitz = {lipschitz}: below the slope at radius {radius}")
    loss = Radial(lambda r: np.asarray(r**tau / tau), lambda r: np.asarray(r ** (tau - 1)))
    smoothness = (tau - 1) * radius ** (tau - 2)
    return Landscape(loss, lipschitz, smoothness, 1.0, KLCondition(tau ** (-1 / kappa), kappa))


def decay() -> Landscape:
    """exp(-w_1) from 0: L0 = L1 = gamma = kappa = 1."""
    return Landscape(Decay(), 1.0, 1.0, 0.0, KLCondition(1.0, 1.0))


def logarithm() -> Landscape:
    """log(1 + ||w||^2) from norm 30: L0 = 1, L1 = 2, nonconvex, no KL condition."""
    loss = Radial(lambda r: np.log1p(r**2), lambda r: np.asarray(2 * r / (1 + r**2)))
    return Landscape(loss, 1.0, 2.0, 30.0)


@dataclass(frozen=True, eq=False)
class Replicas(ClippedMean):
    """A mean over ``size`` equal records: the value of one of them, the sensitivity of all."""

    size: int = 1

    def sensitivity(self, adjacency: Adjacency, size: int) -> Array:
        """As that of ``self.size`` rows, whatever the curator holds."""
        return super().sensitivity(adjacency, self.size)


@dataclass(frozen=True)
class Replicated(KLProblem):
    """A problem of ``size`` equal records, of which a curator holds one."""

    def mean_gradient(self, x: Array) -> ClippedMean:
        """As that of ``size`` rows."""
        return self._of_all(super().mean_gradient(x))

    def mean_difference(self, x: Array, previous: Array, radius: float) -> ClippedMean:
        """As that of ``size`` rows."""
        return self._of_all(super().mean_difference(x, previous, radius))

    def _of_all(self, mean: ClippedMean) -> Replicas:
        return Replicas(mean.per_record, mean.radius, size=self.size)


def sampler(program: Program, held: Records, trials: int, rng: np.random.Generator) -> Sampler:
    """A curator for one run of a program, under replace_one."""
    return Sampler(program.declaration(SCOPE), SCOPE, held, rng=rng, trials=trials)


def replicas(dimension: int) -> Records:
    """What a curator holds for a problem that is ``Replicated``: one record, at zero."""
    return Records(np.zeros((1, dimension)))
