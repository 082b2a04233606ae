"""What the algorithms of this paper share: the problem, its queries, and the two adjacencies."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

import numpy as np

from dpaudit.errors import InvalidParameter
from dpaudit.exact.domains import positive
from dpaudit.kernels.query import Array, ClippedMean, clip_rows
from dpaudit.scope import Adjacency, Scope, Trust, Unit
from mechanisms.papers.common.budgets import rational
from mechanisms.papers.common.losses import Loss
from mechanisms.papers.srgd.problem import real, whole


@dataclass(frozen=True)
class KLProblem:
    """The mean loss of ``size`` records; every gradient of one record is clipped to ``lipschitz``.

    ``lipschitz`` (L0) is the Lipschitz constant where the loss has one: then nothing is clipped.
    ``size`` and ``start`` (the start point's coordinates; the loss's own start if empty) are
    public.
    Errors: InvalidParameter for a size or a norm that is not positive, or a start that is not
    finite.
    """

    loss: Loss
    features: int
    size: int
    lipschitz: float
    start: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        whole(self.size, "KLProblem.size")
        real(self.lipschitz, "KLProblem.lipschitz")
        if self.start and not np.isfinite(self.start).all():
            raise InvalidParameter("KLProblem.start: expected finite numbers")

    @property
    def dimension(self) -> int:
        """The number of parameters."""
        return self.loss.dimension(self.features)

    def initial(self, trials: int) -> Array:
        """The start point w0 in every trial, (trials, d); free of any record."""
        if not self.start:
            return self.loss.initial(self.features, trials, 0)
        if len(self.start) != self.dimension:
            raise InvalidParameter(f"KLProblem.start: expected {self.dimension} numbers")
        return np.tile(np.asarray(self.start, dtype=np.float64), (trials, 1))

    def mean_gradient(self, x: Array) -> ClippedMean:
        """The mean of gradients clipped to L0: moves by L0 / n, twice that under replace_one."""
        return ClippedMean(partial(self.loss.gradients, x), self.lipschitz)

    def mean_difference(self, x: Array, previous: Array, radius: float) -> ClippedMean:
        """The mean of differences of *clipped* gradients, each clipped to ``radius``.

        So they telescope with :meth:`mean_gradient`; clipping moves no two gradients apart.
        """
        return ClippedMean(partial(self._differences, x, previous), radius)

    def _differences(self, x: Array, previous: Array, records: Array) -> Array:
        norms = np.broadcast_to(self.lipschitz, (len(x),))
        now, before = (clip_rows(self.loss.gradients(w, records), norms) for w in (x, previous))
        return now - before


def moves(scope: Scope, program: str) -> int:
    """How many clipping radii one record moves a clipped row by: 1, or 2 under replace_one.

    Errors: InvalidParameter under add_remove, where the mean over n records has no sensitivity;
    for another unit than a record; where no curator is trusted.
    """
    if scope.adjacency is Adjacency.ADD_REMOVE:
        raise InvalidParameter(
            f"{program} divides by the number of records: use zero_out or replace_one"
        )
    if (scope.unit, scope.trust) != (Unit.RECORD, Trust.CENTRAL):
        raise InvalidParameter(
            f"{program} declares its noise for a record and a trusted curator: {scope}"
        )
    return 2 if scope.adjacency is Adjacency.REPLACE_ONE else 1


def budget(value: object, place: str) -> Fraction:
    """A rational budget; errors: InvalidParameter unless it is positive and finite."""
    found = rational(value, place)
    positive(found, place)
    return found


def chance(value: object, place: str) -> float:
    """A probability that is neither 0 nor 1; errors: InvalidParameter."""
    found = real(value, place)
    if found >= 1:
        raise InvalidParameter(f"{place} = {value}: expected in (0, 1)")
    return found


def within(points: Array, centre: Array, radius: float) -> Array:
    """The nearest points of the ball of ``radius`` around each row of ``centre``, (trials, d)."""
    if radius == math.inf:
        return points
    away = points - centre
    norms = np.linalg.norm(away, axis=-1, keepdims=True)
    return centre + away * np.minimum(1.0, radius / np.where(norms > 0, norms, 1.0))


def of_length(rows: Array, length: float) -> Array:
    """Rows (trials, d) scaled to that norm; a row of zeros stays."""
    norms = np.linalg.norm(rows, axis=-1, keepdims=True)
    return np.asarray(length * rows / np.where(norms > 0, norms, 1.0))
