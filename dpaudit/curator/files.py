"""A user's file as records: one row a record, or all rows of one unit a record."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from io import TextIOWrapper
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from dpaudit.errors import InvalidParameter
from dpaudit.kernels.query import Array, Records
from dpaudit.storage.data import open_data

KINDS = ".csv, .npy, .npz or .parquet"
LEAVE_OUT = "fill it in, or leave the record out"


class Cells(list[str]):
    """A column of a .csv file as text, which one it is, and on which line each cell is."""

    def __init__(self, cells: Sequence[str], number: int, lines: Sequence[int]) -> None:
        super().__init__(cells)
        self.number = number
        self.lines = lines


def read_records(
    path: Path, *, label: str | None = None, unit: str | None = None, rows: int | None = None
) -> Records:
    """The records of a file, (n, columns); of a .npy or .npz file in whatever shape they have.

    A .csv file has a line of names, and numbers below it.  ``label`` names the column that goes
    last, where programs look for a target.  ``unit`` names the column that says whose row it is;
    then a record is one unit, (units, ``rows``, columns): the first ``rows`` rows of each, in the
    order of the file, and where it has fewer its own again from the first.  So a record is a
    function of its unit alone, and ``rows`` is public.  Units come as they first appear.
    An .npz file has one array, or ``features`` and ``labels``.  In an array of units, (units,
    items, columns), an item that is NaN in all columns is one that its unit does not have.
    Errors: InvalidParameter for a file that cannot be read as such or holds what is no finite
    number, which names column and line and no value of it.
    """
    if path.suffix in (".npy", ".npz"):
        if label is not None or unit is not None or rows is not None:
            raise InvalidParameter(f"{path}: columns have no names there; use .csv or .parquet")
        return Records(_finite(path, _array(path)))
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
    units = [str(one).strip() for one in columns[unit]]
    if "" in units:
        where = _cell(path, unit, columns[unit], units.index(""))
        raise InvalidParameter(f"{where} is blank; say whose row it is")
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
    # Without a line of names the first line of a file is a record, which is not told.
    there = (
        f"the first line must hold the names of its {len(columns)} columns"
        if path.suffix == ".csv"
        else f"there are {', '.join(columns)}"
    )
    for option, name in (("label", label), ("unit", unit)):
        if name is not None and name not in columns:
            raise InvalidParameter(f"{path}: {option} {name!r}: no such column; {there}")
    return columns


def numbers_of(path: Path, name: str, column: Any) -> Array:
    """A column as finite numbers.

    Errors: InvalidParameter, naming the column and the line, where a cell is blank or none.
    """
    try:
        found = np.asarray(column, dtype=np.float64)
    except (TypeError, ValueError):
        found = np.array([_number(cell) for cell in column], dtype=np.float64)
    wrong = np.flatnonzero(~np.isfinite(found))
    if not len(wrong):
        return found
    place = int(wrong[0])
    cell, said = str(column[place]).strip(), _cell(path, name, column, place)
    if cell == "" or column[place] is None:
        raise InvalidParameter(f"{said} is blank; {LEAVE_OUT}")
    if _number(cell) is None:
        raise InvalidParameter(f"{said} holds what is no number; encode the column beforehand")
    raise InvalidParameter(f"{said} holds what is no finite number; {LEAVE_OUT}")


def _number(cell: Any) -> float | None:
    try:
        return float(cell)
    except (TypeError, ValueError):
        return None


def _cell(path: Path, name: str, column: Any, place: int) -> str:
    """Where a cell is: its line of a .csv file, its row of another.

    A column of a .csv file is told by its number: what stands for its name may be a record's.
    """
    if isinstance(column, Cells):
        return f"{path}: column {column.number}, line {column.lines[place]},"
    return f"{path}: column {name!r}, row {place + 1},"


def _finite(path: Path, values: Array) -> Array:
    """The values; errors: InvalidParameter, naming the record, where one is no finite number."""
    if values.ndim < 2 or values.size == 0:
        raise InvalidParameter(
            f"{path}: shape {values.shape}; expected (records, columns), at least one of each"
        )
    known = np.isfinite(values)
    if values.ndim > 2:
        known |= np.isnan(values).all(axis=-1, keepdims=True)
    wrong = np.argwhere(~known)
    if len(wrong):
        raise InvalidParameter(
            f"{path}: record {wrong[0][0] + 1} holds what is no finite number; {LEAVE_OUT}"
        )
    return values


def _array(path: Path) -> Array:
    with open_data(path) as stream:
        try:
            loaded = np.load(stream, allow_pickle=False)
            if path.suffix == ".npy":
                return np.asarray(loaded, dtype=np.float64)
            if {"features", "labels"} == set(loaded.files):
                return np.column_stack([loaded["features"], loaded["labels"]]).astype(np.float64)
            (name,) = loaded.files
            return np.asarray(loaded[name], dtype=np.float64)
        except (OSError, ValueError, TypeError, EOFError, BadZipFile):
            pass
    # Outside the handler: what NumPy says may quote a record.
    raise InvalidParameter(f"{path}: expected one array of numbers, or features and labels")


def _csv(path: Path) -> dict[str, Any]:
    rows: list[tuple[int, list[str]]] = []
    with open_data(path) as stream:
        reader = csv.reader(TextIOWrapper(stream, "utf-8-sig", newline=""))
        try:
            rows += [(reader.line_num, row) for row in reader if row]
        except OSError as error:
            raise InvalidParameter(f"{path}: {error.strerror}") from None
        except (ValueError, csv.Error):
            raise InvalidParameter(
                f"{path}: expected text in UTF-8, a line of names and full rows of numbers below it"
            ) from None
    if not rows:
        raise InvalidParameter(f"{path}: it is empty; expected a line of names, and records below")
    names, body = [name.strip() for name in rows[0][1]], rows[1:]
    _named(path, names)
    if not body:
        raise InvalidParameter(f"{path}: there are no records below the line of names")
    for line, row in body:
        if len(row) != len(names):
            raise InvalidParameter(
                f"{path}: line {line} has {len(row)} cells, and there are {len(names)} names; "
                "a cell that holds a comma is written in quotes"
            )
    lines = [line for line, _ in body]
    return {
        name: Cells([row[place] for _, row in body], place + 1, lines)
        for place, name in enumerate(names)
    }


def _named(path: Path, names: Sequence[str]) -> None:
    """Errors: InvalidParameter where the first line is no line of different names."""
    # Without a line of names the first record would be taken for it, and be lost, or told.
    if all(_number(name) is not None for name in names):
        raise InvalidParameter(f"{path}: line 1 is numbers alone; put a line of names above it")
    if "" in names:
        raise InvalidParameter(f"{path}: column {names.index('') + 1} has no name; give it one")
    for place, name in enumerate(names):
        if name in names[:place]:
            raise InvalidParameter(
                f"{path}: columns {names.index(name) + 1} and {place + 1} have the same name; "
                "names must be different, rename one of them"
            )


def _parquet(path: Path) -> dict[str, Any]:
    try:
        import pyarrow.parquet as parquet
    except ImportError:
        raise InvalidParameter(f"{path}: .parquet needs pip install 'dpaudit[tables]'") from None
    with open_data(path) as stream:
        try:
            table = parquet.read_table(stream)
        except (OSError, ValueError):
            table = None
    if table is None:
        raise InvalidParameter(f"{path}: not a Parquet file that can be read")
    return {name: table.column(name).to_numpy() for name in table.column_names}
