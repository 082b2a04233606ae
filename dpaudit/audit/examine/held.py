"""Records of the data that a program holds: in its fields, closures, defaults and its module.

Found are memory that is shared; rows; numbers in a row, along a row or a column; a column or its
numbers in another order; and columns scaled and shifted by constants: as they are, as whole numbers
and in float32.  Data encoded in another way (a digest, a sum, scaled and shuffled) are not found.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from dpaudit.audit.examine import walks
from dpaudit.audit.residuals import Finding
from dpaudit.check.assumptions import NOISE
from dpaudit.curator.curator import Curator
from dpaudit.curator.mechanism import Mechanism
from dpaudit.kernels.query import Array, Records

KEPT = "nothing kept of the records"
# Looked at, of the data and of what is held.
ROWS, NUMBERS, CELLS = 2_000, 200_000, 2_000_000
# A row of so many numbers tells; so do so many in a row, or in any order, with so many values.
TELLING, RUN, DIFFERENT = 3, 8, 4
SHORT = 1e4  # numbers of so many parts may be in any program: .25
PARALLEL = 1e-12  # below it 1 - |correlation| is rounding, of float32 too


def held_by(mechanism: Mechanism, data: Records | None) -> tuple[Finding, ...]:
    """The parts of the data, or of any records, that a program holds: it should hold none."""
    details: dict[str, None] = {}
    values_known = () if data is None else (_Known(data.values), _Known(_in_float32(data.values)))
    for path, value in walks.reachable(mechanism.program):
        if isinstance(value, (Records, Curator)):
            details[f"the program holds {type(value).__name__}: {path}"] = None
        elif values_known and _holds(value, values_known):
            details[f"the program holds records of the data: {path}"] = None
    return tuple(Finding(KEPT, "broken", 1.0, 0.0, text, NOISE, 1) for text in details)


def _in_float32(values: Array) -> Array:
    with np.errstate(all="ignore"):
        return np.asarray(values, np.float32).astype(np.float64)


def _holds(value: Any, values_known: tuple[_Known, _Known]) -> bool:
    """Whether an array or a list shares memory with the data, or holds rows or columns of it.

    ``known``: the data, and the same in float32.
    """
    if isinstance(value, (list, tuple)) and value:
        try:
            value = np.array(value, dtype=np.float64)
        except (TypeError, ValueError, OverflowError):
            return False  # no numbers, or of several lengths: looked at item by item
    elif not isinstance(value, np.ndarray):
        return False
    if np.shares_memory(value, values_known[0].values):
        return True
    if value.dtype.kind not in "fiu" or not value.size:
        return False
    array = np.ascontiguousarray(value, np.float64)
    if values_known[0].holds(array):
        return True
    return np.array_equal(array, _in_float32(array), equal_nan=True) and values_known[1].holds(
        array
    )


class _Known:
    """Features that identify a data set, each made when it is first asked for."""

    def __init__(self, values: Array) -> None:
        self.values = values
        self.table = values.reshape(len(values), -1)

    def holds(self, held: Array) -> bool:
        """Whether an array of numbers holds any of it."""
        lines = [held.reshape(1, -1), *([held.reshape(len(held), -1).T] if held.ndim > 1 else [])]
        if self._has_rows(held) or any(not self.runs.isdisjoint(_runs(line)) for line in lines):
            return True
        return self._has_numbers(held) or self._has_columns(held)

    def _has_rows(self, held: Array) -> bool:
        width = self.table.shape[1]
        if width < TELLING or held.size < width or held.size % width:
            return False
        return any(row.tobytes() in self.rows for row in held.reshape(-1, width)[:NUMBERS])

    @cached_property
    def rows(self) -> set[bytes]:
        """Rows that are not zero."""
        return {row.tobytes() for row in self._most if row.any()}

    @cached_property
    def _most(self) -> Array:
        """So many rows that they are not too many numbers."""
        return self.table[: max(ROWS, CELLS // max(1, self.table.shape[1]))]

    @cached_property
    def runs(self) -> set[bytes]:
        """Numbers in a row, down a column or along the rows."""
        table = self.table[:ROWS]
        return _runs(table.T) | _runs(table.reshape(1, -1))

    def _has_numbers(self, held: Array) -> bool:
        """Whether long numbers of the data are half of what is held, in whatever order."""
        numbers = np.unique(held.ravel()[:NUMBERS])
        common = numbers[np.isin(numbers, self.numbers)]
        return len(common) >= max(RUN, len(numbers) / 2) and not _even(common)

    @cached_property
    def numbers(self) -> Array:
        """Numbers that are no short decimals."""
        numbers = np.unique(self._most)
        with np.errstate(all="ignore"):
            parts = numbers * SHORT
            return numbers[np.abs(parts - np.round(parts)) > 1e-6 * np.maximum(1, np.abs(parts))]

    def _has_columns(self, held: Array) -> bool:
        """Whether what is held has as many rows, and a column in another order or other units."""
        sides = [held.reshape(len(held), -1), *([held.T] if held.ndim == 2 else [])]
        for columns in sides:
            if len(columns) != len(self.table) or len(columns) < RUN:
                continue
            if not self.in_order.isdisjoint(_in_order(columns)):
                return True
            with np.errstate(all="ignore"):
                cosines = np.abs(self.directions.T @ _directions(columns))
            if (cosines > 1 - PARALLEL).any():
                return True
        return False

    @cached_property
    def in_order(self) -> set[bytes]:
        """The columns, each in order."""
        return _in_order(self.table)

    @cached_property
    def directions(self) -> Array:
        """The columns, centred and of length 1."""
        return _directions(self.table)


def _in_order(columns: Array) -> set[bytes]:
    """The columns in order that have several values, and some more often than others."""
    orders = set[bytes]()
    for line in np.sort(columns[:, : max(1, CELLS // len(columns))].T, axis=1):
        values, counts = np.unique(line, return_counts=True)
        # Grids, places of rows and balanced classes are in many a program.
        common = np.ptp(counts) <= 1 and _even(values)
        if len(values) >= DIFFERENT and not common:
            orders.add(line.tobytes())
    return orders


def _directions(columns: Array) -> Array:
    """The columns (n, k), centred and of length 1, but those that any program might have.

    Those with few values, with nearly equal steps, or that are one number and many zeros.
    """
    columns = columns[:ROWS, :ROWS]
    columns = columns[:, np.isfinite(columns).all(axis=0)]
    steps = np.arange(len(columns)) - (len(columns) - 1) / 2
    with np.errstate(all="ignore"):
        centred = columns - columns.mean(axis=0)
        centred /= np.linalg.norm(centred, axis=0)
        along = np.abs(steps @ centred) / np.linalg.norm(steps)
    several = (np.diff(np.sort(columns, axis=0), axis=0) != 0).sum(axis=0) + 1 >= DIFFERENT
    usable = several & np.isfinite(centred).all(axis=0) & (along < 1 - 1e-6)
    return np.asarray(centred[:, usable & (np.abs(centred).max(axis=0, initial=0.0) < 0.9)])


def _even(numbers: Array) -> bool:
    """Whether numbers in order have equal steps, as grids in many a program."""
    steps = np.diff(numbers)
    return bool(np.ptp(steps) <= 1e-6 * np.abs(steps).max()) if len(steps) else True


def _runs(lines: Array) -> set[bytes]:
    """Every ``RUN`` numbers in a row of each line, but of few values or with equal steps."""
    if lines.shape[1] < RUN:
        return set()
    runs = np.lib.stride_tricks.sliding_window_view(lines, RUN, axis=1)[:, :NUMBERS]
    runs = runs.reshape(-1, RUN)[:NUMBERS]
    different = (np.diff(np.sort(runs, axis=1), axis=1) != 0).sum(axis=1) + 1
    # Numbers of rows, and grids, are in many a program.
    even = np.ptp(np.diff(runs, axis=1), axis=1) <= 1e-9 * np.abs(runs).max(axis=1)
    return {run.tobytes() for run in runs[(different >= DIFFERENT) & ~even]}
