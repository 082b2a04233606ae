"""Clipped means of linear models: two products of a matrix and a vector, whatever the slopes.

A linear model's gradient is a slope times the record's features, whose direction and length stay
the same in all rounds: they are made once of a data set.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpaudit.kernels.query import BOUNDED, Array, ClippedMean, Records

# Sums of squares in between are exact to rounding, whatever their entries.
SMALLEST_SQUARE, LARGEST_SQUARE = 1e-280, 1e280


@dataclass(frozen=True, eq=False)
class LinearClippedMean(ClippedMean):
    """The same value as :class:`ClippedMean` of ``per_record``, whose rows are slopes times x.

    ``slopes(values)`` gives (trials, n), slope i a function of row i alone; x is a row of
    ``values`` without its last column.  A secret batch goes through ``per_record``.  A row whose
    features or slope are not finite counts as zero; directions and lengths are kept apart, so that
    no row is longer than the radius by more than rounding, whatever the slopes are.

    >>> import numpy as np
    >>> from dpaudit.kernels.query import Records
    >>> mean = LinearClippedMean(
    ...     lambda v: 2 * v[None, :, :1], radius=1, slopes=lambda v: np.full((1, len(v)), 2.0)
    ... )
    >>> float(mean.value(Records([[3.0, 0.0], [0.25, 0.0]]))[0, 0])
    0.75
    """

    slopes: Callable[[Array], Array] | None = None

    def value(self, records: Records, chosen: NDArray[np.bool_] | None = None) -> Array:
        """The weighted sum of clipped rows, shape (trials, d)."""
        if chosen is not None or self.slopes is None:
            return super().value(records, chosen)
        units, norms = _directions(records)
        with np.errstate(all="ignore"):
            slopes = np.asarray(self.slopes(records.distinct()[0]), dtype=np.float64)
            longest = np.asarray(self.radius)[..., None]
            lengths = np.copysign(np.minimum(np.abs(slopes) * norms, longest), slopes)
            lengths[~(np.isfinite(slopes) & np.isfinite(norms))] = 0.0
            if not np.isfinite(longest).all():
                # A trial whose radius is no number has no value.
                lengths = np.where(np.isfinite(longest), lengths, np.nan)
            return np.asarray((lengths * self._totals(records)) @ units) + self.plus

    def mixes_records(self, records: Records) -> bool:
        """Whether ``per_record`` or ``slopes`` gives a row another value among other rows."""
        if self.slopes is None or super().mixes_records(records):
            return super().mixes_records(records)
        values, _ = records.distinct()
        with np.errstate(all="ignore"):
            among = self.slopes(values)
            apart = [self.slopes(values[k::2]) for k in range(min(2, len(values)))]
        return not all(
            np.allclose(among[:, k::2], rows, rtol=1e-6, equal_nan=True)
            for k, rows in enumerate(apart)
        )


BOUNDED.add(LinearClippedMean)


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
    found: tuple[Array, Array] = kept
    return found


def unit_rows(rows: Array) -> tuple[Array, Array]:
    """Directions and norms over the last axis; a row's own entries alone decide how it is done."""
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
