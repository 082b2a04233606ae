"""Ghost clipping as a query: a mean of clipped gradients without a gradient per record.

Which losses are of linear models, whose clipped means the library itself makes quickly.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeGuard

import numpy as np
from numpy.typing import NDArray

from dpaudit.kernels.query import Array, ClippedMean, Records
from mechanisms.papers.common.factors import Factors, clipped_sums
from mechanisms.papers.common.losses import LeastSquares, Logistic, Loss

ROWS = 2_048


class GhostLoss(Loss, Protocol):
    """A loss whose gradients come as factors."""

    def factors(self, parameters: Array, records: Array) -> Factors:
        """The factors of each record's gradient."""

    def pack(self, outer: Array, rest: Array) -> Array:
        """A sum of outer products (trials, h, k) and of rests (trials, m) as (trials, d)."""


def is_ghost(loss: Loss) -> TypeGuard[GhostLoss]:
    """Whether a loss offers factors."""
    return hasattr(loss, "factors") and hasattr(loss, "pack")


@dataclass(frozen=True, eq=False)
class GhostClippedMean(ClippedMean):
    """The same value as :class:`ClippedMean` of ``per_record``, computed from ``factors``.

    ``factors(values)`` gives the factors of every row of ``per_record(values)``, and ``pack`` puts
    their weighted sums together.  A secret batch, which is small, goes through ``per_record``.
    Rows that are not finite count as zero; sensitivity as there.  Rows are taken in blocks whose
    arrays stay in a processor's cache.
    """

    factors: Callable[[Array], Factors] | None = None
    pack: Callable[[Array, Array], Array] | None = None

    def value(self, records: Records, chosen: NDArray[np.bool_] | None = None) -> Array:
        """The weighted sum of clipped rows, shape (trials, d)."""
        if chosen is not None or self.factors is None or self.pack is None:
            return super().value(records, chosen)
        weights = self.public_weights(len(records)) * records.present
        values, origin = records.distinct()
        totals: Any = np.bincount(origin, weights=weights, minlength=len(values))
        blocks = [slice(first, first + ROWS) for first in range(0, len(values), ROWS)]
        with np.errstate(all="ignore"):
            parts = [clipped_sums(self.factors(values[b]), totals[b], self.radius) for b in blocks]
            outer, rest = (sum(sums[1:], start=sums[0]) for sums in zip(*parts, strict=True))
            return self.pack(outer, rest)


class LinearLoss(Loss, Protocol):
    """A loss whose gradient is a slope times the record's features."""

    def slopes(self, parameters: Array, records: Array) -> Array:
        """The slopes, (trials, n)."""


def is_linear(loss: Loss) -> TypeGuard[LinearLoss]:
    """Whether a loss is one of a linear model, without a ridge term; a subclass may see others."""
    return type(loss) is LeastSquares or (type(loss) is Logistic and not loss.l2)
