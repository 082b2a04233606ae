"""A user's file as records: one row a record, or all rows of one unit a record."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dpaudit.errors import InvalidParameter
from dpaudit.kernels.query import Array, Records
from dpaudit.tabular.columns import (
    ARRAYS,
    LEAVE_OUT,
    Columns,
    array_columns,
    arrays_of,
    read_columns,
)

# Arrays of a .npz file by what they hold; X and y are the names of scikit-learn.
PARTS = {"features": ("features", "X"), "labels": ("labels", "y"), "units": ("units",)}


def read_records(
    path: Path,
    *,
    label: str | None = None,
    unit: str | None = None,
    rows: int | None = None,
    warn: Callable[[str], object] = warnings.warn,
) -> Records:
    """The records of a file, (n, columns); of a .npy or .npz file in whatever shape they have.

    A table has a column a name, as :func:`dpaudit.tabular.columns.read_columns` reads it.
    ``label`` names the column that goes last, where programs look for a target.  ``unit`` names
    the column that says whose row it is; then a record is one unit, (units, ``rows``, columns): the
    first ``rows`` rows of each, in the order of the file, and where it has fewer its own again from
    the first.  So a record is a function of its unit alone, and ``rows`` is public.  Units come as
    they first appear.  ``warn`` is told how many rows of the table no record holds.
    An .npz file has one array, or ``features`` and ``labels``.  In an array of units, (units,
    items, columns), an item that is NaN in all columns is one that its unit does not have.
    Errors: InvalidParameter for a file that cannot be read as such or holds what is no finite
    number, which names column and line and no value of it.
    """
    if (unit is None) != (rows is None):
        raise InvalidParameter("give both, the column of the unit and how many rows of one count")
    if path.suffix.lower() in ARRAYS and label is None and unit is None:
        return Records(_finite(path, _stacked(path)))
    columns = read_columns(path)
    table = columns.matrix(features_of(columns, label, unit) + ([label] if label else []))
    if unit is None or rows is None:
        return Records(table)
    # A unit's rows are repeated or left out to make so many.
    if rows < 1:
        raise InvalidParameter(f"rows = {rows}: expected at least 1")
    _, first, inverse = np.unique(
        np.asarray(columns.texts(unit, unit=True)), return_index=True, return_inverse=True
    )
    if len(inverse) != len(table):
        raise InvalidParameter(f"{path}: {unit!r} and the other columns are of different lengths")
    places = [np.flatnonzero(inverse == k) for k in np.argsort(first)]
    left_out = sum(max(0, len(own) - rows) for own in places)
    if left_out:
        longer = sum(len(own) > rows for own in places)
        warn(
            f"{path}: {left_out:,} of {len(table):,} rows are left out: {longer:,} of "
            f"{len(places):,} units have more than {rows}, and the first {rows} of each count; "
            "raise the number of rows of a unit to use more"
        )
    return Records(np.stack([table[np.resize(own, rows)] for own in places]))


def features_of(columns: Columns, label: str | None, unit: str | None) -> list[str]:
    """The names of all columns but these two.

    Errors: InvalidParameter where ``label`` or ``unit`` is no column, or both are one.
    """
    for option, name in (("label", label), ("unit", unit)):
        if name is not None:
            columns.need(name, option)
    if label is not None and label == unit:
        raise InvalidParameter(f"label and unit are both {label!r}; give each its own column")
    return [name for name in columns if name not in (label, unit)]


def read_parts(path: Path) -> dict[str, npt.NDArray[Any]]:
    """The arrays of a .npy or .npz file: ``features``, and where it has them ``labels``, ``units``.

    One array alone is the features, whatever its name.
    Errors: InvalidParameter for an array of another name, which nobody would read.
    """
    arrays = arrays_of(path)
    alone = "features" if len(arrays) == 1 else None
    parts: dict[str, npt.NDArray[Any]] = {}
    for name, array in arrays.items():
        part = next((part for part, names in PARTS.items() if name in names), alone)
        if part is None or part in parts:
            break
        parts[part] = array
    if len(parts) < len(arrays) or "features" not in parts:
        raise InvalidParameter(
            f"{path}: holds {', '.join(map(repr, arrays)) or 'nothing'}; expected one array, or "
            "features (or X), labels (or y) and units, each once and no other"
        )
    features = parts["features"]
    if features.dtype.kind not in "biuf":
        raise InvalidParameter(f"{path}: the records are no numbers; encode them beforehand")
    for part, array in parts.items():
        if part != "features" and array.shape != features.shape[:1]:
            raise InvalidParameter(
                f"{path}: {part} of shape {array.shape} beside records of shape {features.shape}; "
                "expected one a record"
            )
    return parts


def _stacked(path: Path) -> Array:
    """Features and labels side by side, as numbers."""
    parts = read_parts(path)
    if "units" in parts:
        raise InvalidParameter(f"{path}: units beside records; give one array (units, rows, ...)")
    features = parts["features"]
    if "labels" not in parts:
        return features.astype(np.float64)
    if features.ndim > 2:
        raise InvalidParameter(
            f"{path}: labels beside records of shape {features.shape[1:]}; give one array of both"
        )
    labels = array_columns(str(path), {"labels": parts["labels"]}).numbers("labels")
    return np.column_stack([features, labels]).astype(np.float64)


def _finite(path: Path, values: Array) -> Array:
    """The values; errors: InvalidParameter, naming the record, where one is no finite number."""
    if values.ndim < 2 or values.size == 0:
        raise InvalidParameter(
            f"{path}: shape {values.shape}; expected (records, columns), at least one of each"
        )
    finite = np.isfinite(values)
    if values.ndim > 2:
        finite |= np.isnan(values).all(axis=-1, keepdims=True)
    wrong = np.argwhere(~finite)
    if len(wrong):
        raise InvalidParameter(
            f"{path}: record {wrong[0][0] + 1} holds what is no finite number; {LEAVE_OUT}"
        )
    return values
