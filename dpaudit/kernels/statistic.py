"""Queries written as plain functions: of all rows of a data set, or of one row.

A :class:`Statistic` is bounded by what its author states, which the examination tests.  The values
of a :func:`RowFunction` are clipped row by row by the library, so that its bound holds whatever the
function does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpaudit.errors import InvalidParameter
from dpaudit.kernels.query import Array, ClippedMean, Norm, Records, distinct_batches
from dpaudit.scope import Adjacency

Frame: TypeAlias = Literal["numpy", "pandas", "polars"]
FRAMES = ("numpy", "pandas", "polars")  # how a function gets the rows


class Statistic:
    """A function of the rows of one data set, and how far its author says one record moves it.

    ``function(rows)`` returns a number or a vector of a fixed length, for any number of rows, none
    included.  Rows are handed over as ``frame`` says: an array of shape (n, columns), or a pandas
    or polars frame with ``columns`` as its names.  Rows of absent records, rows outside a secret
    batch and rows with an entry that is no finite number are left out.
    ``sensitivity``: how far one record moves the value in ``norm`` under the adjacency of the
    mechanism's scope; a number, or one for each trial.  A record that is left out for an entry that
    is no finite number counts as a record that is not there.
    ``given``: released values that the function depends on, shape (trials, ...); the function is
    then called as ``function(rows, given[trial])``.
    Errors: InvalidParameter for a sensitivity that is negative or not finite, an unknown frame, a
    frame without names, and values that are no vector.

    >>> import dpaudit as dp
    >>> over_40 = dp.Statistic(lambda rows: (rows[:, 0] > 40).sum(), sensitivity=1)
    >>> over_40.value(dp.Records([[61.0], [39.0], [float("nan")], [47.0]]))
    array([[2.]])
    """

    def __init__(
        self,
        function: Callable[..., Any],
        sensitivity: Any,
        norm: Norm = "l2",
        *,
        frame: Frame = "numpy",
        columns: Sequence[str] = (),
        given: Any = None,
    ) -> None:
        try:
            stated = np.array(sensitivity, dtype=np.float64)
        except (TypeError, ValueError, OverflowError):
            stated = np.array(np.nan)
        if stated.ndim > 1 or not (np.isfinite(stated) & (stated >= 0)).all():
            raise InvalidParameter(
                "Statistic.sensitivity: expected a finite number of at least 0, or one a trial"
            )
        _chosen("Statistic.norm", norm, ("l1", "l2", "linf"))
        _chosen("Statistic.frame", frame, FRAMES)
        if frame != "numpy" and not columns:
            raise InvalidParameter(f"Statistic: frame={frame!r} needs columns=, the names of a row")
        self.function, self.norm, self.frame, self.columns = function, norm, frame, tuple(columns)
        self.given = None if given is None else np.asarray(given)
        self._stated = stated

    # The value depends on the rows of a batch alone, in their order: not on their places.
    of_rows_in_order = True

    def value(self, records: Records, chosen: NDArray[np.bool_] | None = None) -> Array:
        """The function's value in each trial, (trials, d), or (1, d) where all trials agree."""
        usable = ~self.silent(records)
        masks = [usable] if chosen is None else [usable & one for one in distinct_batches(chosen)]
        trials = max(len(masks), 1 if self.given is None else len(self.given))
        masks = masks * trials if len(masks) == 1 else masks
        if self.given is not None:
            values = (self._of(records.values[mask], k) for k, mask in enumerate(masks))
            return np.stack([*values])
        distinct = {mask.tobytes(): mask for mask in masks}
        by_mask = {key: self._of(records.values[mask], 0) for key, mask in distinct.items()}
        return np.stack([by_mask[mask.tobytes()] for mask in masks])

    def silent(self, records: Records, on: Any = None) -> NDArray[np.bool_]:
        """Which records are left out, (n,), in all trials."""
        finite = np.isfinite(records.values.reshape(len(records), -1)).all(axis=1)
        return ~(records.present & finite)

    def sensitivity(self, adjacency: Adjacency, size: int) -> Array:
        """The stated sensitivity, for every adjacency and number of rows."""
        return self._stated

    def _of(self, rows: Array, trial: int) -> Array:
        # A copy: what the function writes into its rows reaches no other call.
        more = () if self.given is None else (self.given[trial].copy(),)
        return _vector("Statistic", self.function(self._framed(rows.copy()), *more))

    def _framed(self, rows: Array) -> Any:
        if self.frame == "numpy":
            return rows
        if rows.shape[1:] != (len(self.columns),):
            raise InvalidParameter(
                f"Statistic.columns: {len(self.columns)} names for rows of shape {rows.shape[1:]}"
            )
        if find_spec(self.frame) is None:
            raise InvalidParameter(
                f"Statistic: frame={self.frame!r} needs the library: pip install {self.frame}"
            )
        library = import_module(self.frame)
        return library.DataFrame({name: rows[:, k] for k, name in enumerate(self.columns)})


def RowFunction(
    function: Callable[..., Any],
    radius: Any,
    norm: Norm = "l2",
    *,
    divisor: float = 1.0,
    given: Any = None,
) -> ClippedMean:
    """The sum over all records of ``function(row)``, each clipped to ``radius`` by the library.

    ``function`` takes one row, an array of its entries, and returns a number or a vector of a
    fixed length.  One record moves the sum by ``radius`` in ``norm``, and by twice that under
    replace_one, whatever the function does: a row whose value is not finite counts as zero, and so
    does a row with an entry that is no finite number if the function raises on it.
    ``divisor``: a public number that the sum is divided by.
    ``given``: released values that the function depends on, shape (trials, ...); the function is
    then called as ``function(row, given[trial])``.
    Returns: a :class:`ClippedMean`, which calls the function once for each distinct row where these
    are few.
    Errors: InvalidParameter as :class:`ClippedMean`, and for values that are no vector.

    >>> import dpaudit as dp
    >>> income = dp.RowFunction(lambda row: row[1] / 1000, radius=80)
    >>> income.value(dp.Records([[61, 30_000], [39, 950_000]]))
    array([[110.]])
    """
    each = [()] if given is None else [(argument,) for argument in np.asarray(given)]

    def per_record(values: Array) -> Array:
        return np.stack([[_of_row(function, row, *more) for row in values] for more in each])

    return ClippedMean(per_record, radius, divisor=divisor, norm=norm)


def _of_row(function: Callable[..., Any], row: Array, *given: Array) -> Array:
    copies = [argument.copy() for argument in (row, *given)]
    try:
        return _vector("RowFunction", function(*copies))
    except Exception:
        finite = np.isfinite(row)
        if finite.all():
            raise
        # An error would tell of one record; the row without its gaps says how long a zero is.
        return np.zeros_like(_of_row(function, np.where(finite, row, 0), *given))


def _vector(name: str, value: Any) -> Array:
    """A number or a vector as a vector.  Errors: InvalidParameter, without the value."""
    array = np.asarray(value)
    if array.dtype.kind not in "biuf" or array.ndim > 1 or not array.size:
        plain = array.dtype.kind in "biuf"
        kind = f"an array of shape {array.shape}" if plain else type(value).__name__
        raise InvalidParameter(f"{name}: its function returned {kind}; return a number or a vector")
    return np.atleast_1d(array).astype(np.float64)


def _chosen(name: str, given: str, allowed: Sequence[str]) -> None:
    if given not in allowed:
        raise InvalidParameter(f"{name} = {given!r}: expected one of {', '.join(allowed)}")
