"""A user's file as records: one row a record, or all rows of one unit a record."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np

from dpaudit.errors import InvalidParameter
from dpaudit.kernels.query import Array, Records

KINDS = ".csv, .npy, .npz or .parquet"


def read_records(
    path: Path, *, label: str | None = None, unit: str | None = None, rows: int | None = None
) -> Records:
    """The records of a file, (n, columns); of a .npy or .npz file in whatever shape they have.

    A .csv file has a line of names, and numbers below it.  ``label`` names the column that goes
    last, where programs look for a target.  ``unit`` names the column that says whose row it is;
    then a record is one unit, (units, ``rows``, columns): the first ``rows`` rows of each, in the
    order of the file, and where it has fewer its own again from the first.  So a record is a
    function of its unit alone, and ``rows`` is public.  Units come as they first appear.
    An .npz file has one array, or ``features`` and ``labels``.
    Errors: InvalidParameter for a file that cannot be read as such, which names no value of it.
    """
    if path.suffix in (".npy", ".npz"):
        if label is not None or unit is not None or rows is not None:
            raise InvalidParameter(f"{path}: columns have no names there; use .csv or .parquet")
        return Records(_array(path))
    if (unit is None) != (rows is None):
        raise InvalidParameter("give both, the column of the unit and how many rows of one count")
    columns = columns_of(path, label=label, unit=unit)
    kept = [name for name in columns if name not in (label, unit)] + ([label] if label else [])
    table = np.column_stack([numbers_of(path, name, columns[name]) for name in kept])
    if unit is None or rows is None:
        return Records(table)
    # A unit's rows are repeated or left out to make so many.
    if rows < 1:
        raise InvalidParameter(f"rows = {rows}: expected at least 1")
    _, first, inverse = np.unique(
        np.asarray(columns[unit], dtype=str), return_index=True, return_inverse=True
    )
    places = [np.flatnonzero(inverse == k) for k in np.argsort(first)]
    return Records(np.stack([table[np.resize(own, rows)] for own in places]))


def columns_of(path: Path, *, label: str | None, unit: str | None) -> dict[str, Any]:
    """The columns of a .csv or .parquet file by name, those of a .csv as text.

    Errors: InvalidParameter for another file, or where ``label`` or ``unit`` is no column of it.
    """
    if path.suffix not in (".csv", ".parquet"):
        raise InvalidParameter(f"{path}: expected a file {KINDS}")
    columns = _csv(path) if path.suffix == ".csv" else _parquet(path)
    for option, name in (("label", label), ("unit", unit)):
        if name is not None and name not in columns:
            raise InvalidParameter(
                f"{option} {name!r}: no such column; there are {', '.join(columns)}"
            )
    return columns


def numbers_of(path: Path, name: str, column: Any) -> Array:
    """A column as numbers.  Errors: InvalidParameter, naming the column, where one is none."""
    try:
        return np.asarray(column, dtype=np.float64)
    except (TypeError, ValueError):
        pass
    raise InvalidParameter(f"{path}: column {name!r} holds what is no number; encode it beforehand")


def _array(path: Path) -> Array:
    try:
        loaded = np.load(path, allow_pickle=False)
        if path.suffix == ".npy":
            return np.asarray(loaded, dtype=np.float64)
        with loaded:
            if {"features", "labels"} == set(loaded.files):
                return np.column_stack([loaded["features"], loaded["labels"]]).astype(np.float64)
            (name,) = loaded.files
            return np.asarray(loaded[name], dtype=np.float64)
    except (OSError, ValueError, TypeError, EOFError):
        pass
    # Outside the handler: what NumPy says may quote a record.
    raise InvalidParameter(f"{path}: expected one array of numbers, or features and labels")


def _csv(path: Path) -> dict[str, Any]:
    try:
        with path.open(newline="", encoding="utf-8-sig") as stream:
            names, *body = [line for line in csv.reader(stream) if line]
        if len(set(names)) == len(names) and body and {len(line) for line in body} == {len(names)}:
            return dict(zip(names, map(list, zip(*body, strict=True)), strict=True))
    except (OSError, ValueError, csv.Error):
        pass
    raise InvalidParameter(f"{path}: expected a line of different names, and full rows below it")


def _parquet(path: Path) -> dict[str, Any]:
    try:
        import pyarrow.parquet as parquet
    except ImportError:
        raise InvalidParameter(f"{path}: .parquet needs pip install 'dpaudit[tables]'") from None
    try:
        table = parquet.read_table(path)
    except (OSError, ValueError):
        raise InvalidParameter(f"{path}: not a Parquet file that can be read") from None
    return {name: table.column(name).to_numpy() for name in table.column_names}
