"""Clipped means of linear models: two products of a matrix and a vector, whatever the slopes.

A linear model's gradient is a slope times the record's features, whose direction and length stay
the same in all rounds: they are made once of a data set.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpaudit.kernels.query import Array, ClippedMean, Records

SMALLEST_SQUARE = 1e-280  # Sums of squares above this,
LARGEST_SQUARE = 1e280  # and below this, are exact up to rounding for all entries.


@dataclass(frozen=True, eq=False)
class SlopedRows:
    """Vectors of a linear model: ``slopes(values)``, (trials, n), times x.

    x is a row of ``values`` without its last column; slope i is a function of row i alone.

    >>> import numpy as np
    >>> residuals = SlopedRows(lambda values: values[None, :, -1])
    >>> residuals(np.array([[3.0, 4.0, 2.0]]))
    array([[[6., 8.]]])
    """

    slopes: Callable[[Array], Array]

    def __call__(self, values: Array) -> Array:
        """All of them, (trials, n, d)."""
        return np.asarray(np.asarray(self.slopes(values))[..., None] * values[:, :-1])


@dataclass(frozen=True, eq=False)
class LinearClippedMean(ClippedMean):
    """The same value as :class:`ClippedMean`, quickly where ``per_record`` is :class:`SlopedRows`.

    A secret batch is summed as there.  A row whose features or slope are not finite counts as zero;
    directions and lengths are kept apart, so that no row is longer than the radius by more than
    rounding, whatever the slopes are.

    >>> import dpaudit as dp, numpy as np
    >>> rows = SlopedRows(lambda values: np.full((1, len(values)), 2.0))
    >>> records = dp.Records([[3.0, 0.0], [0.25, 0.0]])
    >>> float(LinearClippedMean(rows, radius=1).value(records)[0, 0])
    0.75
    """

    def value(self, records: Records, chosen: NDArray[np.bool_] | None = None) -> Array:
        """The weighted sum of clipped rows, shape (trials, d)."""
        rows = self.per_record
        if chosen is not None or self.norm != "l2" or type(rows) is not SlopedRows:
            return super().value(records, chosen)
        units, norms = _directions(records)
        with np.errstate(all="ignore"):
            slopes = np.asarray(rows.slopes(records.distinct()[0]), dtype=np.float64)
            longest = np.asarray(self.radius)[..., None]
            lengths = np.copysign(np.minimum(np.abs(slopes) * norms, longest), slopes)
            lengths[~(np.isfinite(slopes) & np.isfinite(norms))] = 0.0
            if not np.isfinite(longest).all():
                # A trial whose radius is no number has no value.
                lengths = np.where(np.isfinite(longest), lengths, np.nan)
            return np.asarray((lengths * self._totals(records)) @ units) + self.plus


def _directions(records: Records) -> tuple[Array, Array]:
    """Unit features and norms of the distinct rows, kept with the records, which never change."""
    stored = records.__dict__.get("_directions")
    if stored is None:
        features = records.distinct()[0][:, :-1]
        with np.errstate(all="ignore"):
            units, norms = unit_rows(features)
        finite = np.isfinite(features).all(axis=1) & np.isfinite(norms)
        units[~finite], norms[~finite] = 0.0, np.nan
        stored = records.__dict__["_directions"] = (units, norms)
    directions: tuple[Array, Array] = stored
    return directions


def unit_rows(rows: Array) -> tuple[Array, Array]:
    """Directions and norms over the last axis.

    A row's result depends on its own entries alone, also where squares over- or underflow.
    """
    squares = np.einsum("...i,...i->...", rows, rows)
    unsafe = ~((squares > SMALLEST_SQUARE) & (squares < LARGEST_SQUARE))
    norms = np.asarray(np.sqrt(squares))
    units = np.asarray(rows / np.where(unsafe, 1.0, norms)[..., None])
    if unsafe.any():
        units[unsafe], norms[unsafe] = _scaled_units(rows[unsafe])
    return units, norms


def _scaled_units(rows: Array) -> tuple[Array, Array]:
    largest = np.abs(rows).max(axis=-1, initial=0.0)
    scaled = rows / np.where(largest > 0, largest, 1.0)[..., None]
    norms = np.sqrt(np.square(scaled).sum(axis=-1))
    return scaled / np.where(norms > 0, norms, 1.0)[..., None], largest * norms
