"""Ghost clipping as a query: a mean of clipped gradients without a gradient per record.

Of a linear model a gradient is a slope times the record's features, whose direction and length stay
the same in all rounds: a clipped mean is then two products of a matrix and a vector.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeGuard

import numpy as np
from numpy.typing import NDArray

from dpaudit.kernels.query import Array, ClippedMean, Records
from mechanisms.papers.common.factors import Factors, clipped_sums, unit_rows
from mechanisms.papers.common.losses import LeastSquares, Logistic, Loss


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
    Rows that are not finite count as zero; sensitivity as there.
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
        with np.errstate(all="ignore"):
            return self.pack(*clipped_sums(self.factors(values), totals, self.radius))


class LinearLoss(Loss, Protocol):
    """A loss whose gradient is a slope times the record's features."""

    def slopes(self, parameters: Array, records: Array) -> Array:
        """The slopes, (trials, n)."""


def is_linear(loss: Loss) -> TypeGuard[LinearLoss]:
    """Whether a loss is one of a linear model, without a ridge term; a subclass may see others."""
    return type(loss) is LeastSquares or (type(loss) is Logistic and not loss.l2)


@dataclass(frozen=True, eq=False)
class LinearClippedMean(ClippedMean):
    """The same value as :class:`ClippedMean` of ``per_record``, whose rows are slopes times x.

    ``slopes(values)`` gives (trials, n), x being a row of ``values`` without its last column.  A
    secret batch goes through ``per_record``.  A row whose features or slope are not finite counts
    as zero; directions and lengths are kept apart, so that no row is longer than the radius.
    """

    slopes: Callable[[Array], Array] | None = None

    def value(self, records: Records, chosen: NDArray[np.bool_] | None = None) -> Array:
        """The weighted sum of clipped rows, shape (trials, d)."""
        if chosen is not None or self.slopes is None:
            return super().value(records, chosen)
        values = records.distinct()[0]
        units, norms = _directions(records)
        with np.errstate(all="ignore"):
            slopes = self.slopes(values)
            longest = np.asarray(self.radius)[..., None]
            # A trial whose radius is no number has no value, as in ClippedMean.
            lengths = np.copysign(np.minimum(np.abs(slopes) * norms, longest), slopes)
            lengths[~(np.isfinite(slopes) & np.isfinite(norms))] = 0.0
            if not np.isfinite(longest).all():
                lengths = np.where(np.isfinite(longest), lengths, np.nan)
            return np.asarray((lengths * self._totals(records)) @ units) + self.plus


def _directions(records: Records) -> tuple[Array, Array]:
    """Unit features and norms of the distinct rows, kept with the records, which never change."""
    kept = records.__dict__.get("_directions")
    if kept is None:
        features = records.distinct()[0][:, :-1]
        with np.errstate(all="ignore"):
            units, norms = unit_rows(features)
        finite = np.isfinite(features).all(axis=1) & np.isfinite(norms)
        units[~finite], norms[~finite] = 0.0, np.nan
        kept = records.__dict__["_directions"] = (units, norms)
    return kept
