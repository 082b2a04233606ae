"""What the baselines share: the problem, the layout of the records, and a noise's two scopes."""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpaudit.errors import InvalidParameter
from dpaudit.exact import Number, exact
from dpaudit.exact.domains import positive
from dpaudit.kernels.query import Array, ClippedMean, surely_within
from dpaudit.scope import Adjacency, Scope, Trust, Unit
from mechanisms.papers.common.losses import Logistic, Loss
from mechanisms.papers.srgd.geometry import ball, project_l2_ball


@dataclass(frozen=True)
class Problem:
    """A loss over the l2 ball of ``radius`` around 0, on ``size`` records.

    ``clip``: the l2 norm to which every gradient of one record is clipped; the Lipschitz constant L
    where the loss has one.  ``size`` is public.
    Errors: InvalidParameter for a size, a radius or a norm that is not positive.
    """

    loss: Loss
    features: int
    size: int
    radius: float
    clip: float

    def __post_init__(self) -> None:
        whole(self.size, "Problem.size")
        ball(self.radius, "Problem.radius")
        real(self.clip, "Problem.clip")

    def start(self, trials: int) -> Array:
        """The loss's start, projected; free of any record.  Shape (trials, d)."""
        return project_l2_ball(self.loss.initial(self.features, trials, 0), self.radius)

    def project(self, points: Array) -> Array:
        """The nearest points of the ball."""
        return project_l2_ball(points, self.radius)

    def mean_gradient(self, x: Array, divisor: float) -> ClippedMean:
        """sum_i clip(grad f(x, d_i)) / divisor: moves by clip / divisor under zero_out."""
        return ClippedMean(partial(self.loss.gradients, x), self.clip, divisor=divisor)


@dataclass(frozen=True, eq=False)
class Solution:
    """The released model; ``last``: the last iterate, the same where no average is taken."""

    output: Array
    last: Array


@dataclass(frozen=True)
class Work:
    """Gradients of one record that a run takes, and its adaptive batch steps."""

    gradients: int
    batch_steps: int


@dataclass(frozen=True)
class BoundedLogistic(Logistic):
    """Logistic loss of rows scaled to l2 norm at most ``norm``, targets cut to [0, 1].

    So the loss of *every* record, whatever it holds, is convex, ``norm``-Lipschitz and
    norm^2 / 4 smooth: where privacy rests on these, no record can break them.
    """

    norm: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        real(self.norm, "BoundedLogistic.norm")
        if self.l2:
            raise InvalidParameter("BoundedLogistic.l2: a ridge term has no Lipschitz constant")

    def values(self, parameters: ArrayLike, records: ArrayLike) -> Array:
        return super().values(parameters, self.bounded(records))

    def gradients(self, parameters: ArrayLike, records: ArrayLike) -> Array:
        return super().gradients(parameters, self.bounded(records))

    def bounded(self, records: ArrayLike) -> Array:
        """The rows as the loss sees them; a row that is not finite stays so."""
        rows = np.asarray(records, dtype=np.float64)
        labels = rows[..., -1]
        if surely_within(rows[..., :-1], np.array(self.norm)) and (
            labels.min(initial=0.0) >= 0.0 and labels.max(initial=1.0) <= 1.0
        ):
            return rows
        rows = rows.copy()
        with np.errstate(all="ignore"):
            rows[..., -1] = np.clip(rows[..., -1], 0.0, 1.0)
            norms = np.linalg.norm(rows[..., :-1], axis=-1, keepdims=True)
            rows[..., :-1] *= np.where(norms > self.norm, self.norm / norms, 1.0)
        return rows


def blocks(size: int, steps: int) -> tuple[int, ...]:
    """``steps`` equal batches of floor(size / steps) rows, and a last block that is never read.

    Errors: InvalidParameter where a batch would be empty.
    """
    whole(steps, "steps")
    if steps > size:
        raise InvalidParameter(f"steps = {steps} of {size} records: a batch would be empty")
    batch = size // steps
    rest = size - batch * steps
    return (batch,) * steps + ((rest,) if rest else ())


def one_gradient_each(size: int, steps: int) -> Work:
    """One gradient a record of the batches, none of rows left over."""
    return Work(size // steps * steps, steps)


def moves(scope: Scope, program: str) -> int:
    """How far one record moves a clipped row, in clipping norms: 1, or 2 under replace_one.

    Errors: InvalidParameter under add_remove, where blocks by position have no meaning; for
    another unit than a record; where no curator is trusted.
    """
    if scope.adjacency is Adjacency.ADD_REMOVE:
        raise InvalidParameter(
            f"{program} reads records by position: use zero_out (a record removed in its own slot) "
            "or replace_one"
        )
    return record_moves(scope, program)


def record_moves(scope: Scope, program: str) -> int:
    """As :func:`moves`, for programs that do not read records by position."""
    if (scope.unit, scope.trust) != (Unit.RECORD, Trust.CENTRAL):
        raise InvalidParameter(
            f"{program} declares its noise for a record and a trusted curator: {scope}"
        )
    return 2 if scope.adjacency is Adjacency.REPLACE_ONE else 1


def multiplier(value: object, place: str) -> Number:
    """A noise multiplier as an exact number or an expression; errors unless it is positive."""
    found = exact(value, place)
    positive(found, place)
    return found


def whole(value: Any, place: str) -> int:
    """A public count; errors unless it is a whole number from 1 on."""
    try:
        count = operator.index(value)
    except TypeError:
        count = 0
    if isinstance(value, bool) or count < 1:
        raise InvalidParameter(f"{place} = {value!r}: expected a whole number from 1 on")
    return count


def real(value: object, place: str) -> float:
    """A public parameter; errors unless it is a positive, finite number."""
    if isinstance(value, (int, float, np.floating)) and not isinstance(value, bool):
        found = float(value)
        if math.isfinite(found) and found > 0:
            return found
    raise InvalidParameter(f"{place} = {value!r}: expected a positive, finite number")
