"""Rows made for conditions that were true of no record: numbers are changed until one is met.

How far the numbers that a condition compares are from meeting it is measured of many changed rows
at once, as the rows of one data set.  Steps change one entry: to a number that the condition
compares with, by a digit of any place, or to where the distance, were it a line, would be zero.
Conditions that have to be true at once add up, so that what meets one keeps the others.
Source: Korel 1990 (branch distance, one variable at a time); Tracey et al. 1998 (their sum).
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dpaudit.audit.examine.displacement import Asking
from dpaudit.audit.examine.distances import CONSTANTS, began
from dpaudit.audit.examine.made import MEETS
from dpaudit.audit.examine.outcomes import Site, Watch
from dpaudit.kernels.query import Array, Records

COLUMNS = 8  # of a row that are changed
STEPS = 12  # towards one condition, from one row
SCANNED = 8_192  # whole numbers that are tried where no distance leads on
STARTS = 16  # rows that are changed, for one condition
BEYOND = 0.0, 1e-9, 1e-6, 1e-4, 1e-2  # shares of a change that go beyond where it is zero
DIGITS = (-2, 8)  # places of the digits that change
# By so much an entry changes for one digit.
CHANGES = tuple(
    sign * digit * 10.0**place
    for place, digit, sign in itertools.product(
        range(DIGITS[0], DIGITS[1] + 1), range(1, 10), (1, -1)
    )
)


@dataclass(frozen=True, eq=False)
class Aim:
    """One condition, aimed at through one query of ``size`` rows, until the work is ``until``."""

    site: Site
    asking: Asking
    watch: Watch
    size: int
    until: float

    def met(self, starts: Sequence[Array]) -> Array | None:
        """A row that the condition is true of, made of one of the first rows; None if none is."""
        for start in starts:
            row, least = start, np.inf
            for _ in range(STEPS):
                if self.asking.meter.beyond(self.until):
                    return None
                found, best, distance = self._step(row)
                if found is not None:
                    return found
                if best is None or not distance < least:
                    break
                row, least = best, distance
        return None

    def scanned(self, starts: Sequence[Array]) -> Array | None:
        """The first row with a whole number in a column that meets it, as a hash or a date may.

        The first whole numbers, and some of those up to each larger number that code names.
        """
        row, rng = starts[0], np.random.default_rng(SCANNED)
        named = {abs(float(start.flat[0])) for start in starts if np.ptp(start) == 0}
        scales = [rng.integers(0, int(n), SCANNED) for n in sorted(named) if n > SCANNED]
        numbers = np.concatenate([np.arange(SCANNED), *scales]).astype(np.float64)
        for column in range(min(row.size, COLUMNS)):
            for begin in range(0, len(numbers), self.size):
                if self.asking.meter.beyond(self.until):
                    return None
                entries = numbers[begin : begin + self.size]
                truths = self._measured(row, column, entries)[1]
                if truths.any():
                    return self._one_of(row, column, entries[truths])
        return None

    def _step(self, row: Array) -> tuple[Array | None, Array | None, float]:
        """A row that meets it, or the nearest of all that differ in an entry, and its distance."""
        changes = np.array([0.0, *CHANGES])
        nearest: tuple[Array | None, float] = None, np.inf
        for column in range(min(row.size, COLUMNS)):
            now = float(row.flat[column])
            entries = np.concatenate([now + changes, CHANGES, self._constants()])
            distances, truths = self._measured(row, column, entries)
            lines = self._zeros(entries, distances)
            for values, of in ((entries, (distances, truths)), (lines, None)):
                if not len(values):
                    continue
                distances, truths = self._measured(row, column, values) if of is None else of
                with np.errstate(all="ignore"):
                    total = np.nan_to_num(distances / (1 + distances), nan=1.0).sum(axis=0)
                at = int(np.argmin(total))
                if truths.any():
                    return self._one_of(row, column, values[truths]), None, 0.0
                if total[at] < nearest[1]:
                    nearest = _changed(row, column, values[at]), float(total[at])
        return None, *nearest

    def _one_of(self, row: Array, column: int, entries: Array) -> Array:
        """A row that meets it alone, where a condition is not asked row by row."""
        while len(entries) > 1:
            first, second = np.array_split(entries, 2)
            entries = first if self._measured(row, column, first)[1].any() else second
        return _changed(row, column, entries[0])

    def _constants(self) -> list[float]:
        """Numbers that the conditions compare with, which are compared most, and those beside."""
        common = (leaf.constants.most_common(CONSTANTS) for leaf in self.site.leaves)
        numbers = {number for most in common for number, _ in most}
        return [number + side for number in sorted(numbers) for side in (0.0, -1.0, 1.0)]

    def _zeros(self, entries: Array, distances: Array) -> Array:
        """Where lines through the first entry's distance and another's are zero, and beside it."""
        changes = []
        with np.errstate(all="ignore"):
            for one in distances:
                change = one[0] * (entries - entries[0]) / (one[0] - one)
                changes.append(np.unique(np.round(change[np.isfinite(change)], 9)))
        most = np.concatenate(changes)[: len(CHANGES)]
        zeros = (entries[0] + most[:, None] * (1.0 + np.array(BEYOND))).reshape(-1)
        return np.unique(np.concatenate([zeros, np.floor(zeros), np.ceil(zeros)]))

    def _measured(self, row: Array, column: int, entries: Array) -> tuple[Array, Array]:
        """The distance of each condition, (conditions, entries), and whether all are met."""
        distances, truths = [], []
        for begin in range(0, len(entries), self.size):
            part = np.resize(entries[begin : begin + self.size], self.size)
            values = np.array(np.broadcast_to(row, (self.size, *row.shape)))
            values.reshape(self.size, -1)[:, column] = part
            self.watch.distances = {site: [] for site in {self.site, *self.site.leaves}}
            with contextlib.suppress(Exception):
                if not self.asking.meter.beyond(self.until):
                    self.asking.value(Records(values), 0)
            measured, self.watch.distances = self.watch.distances, None
            distances.append([_by_row(measured[leaf], self.size) for leaf in self.site.leaves])
            truths.append(_by_row(measured[self.site], self.size) == 0)
        count = len(entries)
        return np.concatenate(distances, axis=1)[:, :count], np.concatenate(truths)[:count]


def _by_row(samples: Sequence[Array], size: int) -> Array:
    """The distance of each row; of all of them where the samples are not one a row."""
    if not samples:
        return np.full(size, np.inf)
    single = [one.reshape(-1) for one in samples]
    of_rows = [one for one in samples if one.shape[:1] == (size,)]
    if of_rows:
        rows = [one.reshape(size, -1).min(axis=1) for one in of_rows]
        return np.asarray(np.min(rows, axis=0))
    numbers = np.concatenate(single)
    if numbers.size and numbers.size % size == 0:
        return np.asarray(numbers.reshape(size, -1).min(axis=1))
    return np.full(size, numbers.min(initial=np.inf))


def _changed(row: Array, column: int, entry: float) -> Array:
    changed = np.array(row, dtype=np.float64)
    changed.flat[column] = entry
    return changed


def aimed(
    asked: Sequence[tuple[Asking, int]],
    watch: Watch,
    rows: Mapping[str, Array],
    until: float,
) -> dict[str, Array]:
    """Rows that meet the conditions which were true of none, as far as they are found.

    ``asked``: queries, each with its number of rows; ``rows``: that a search starts from.
    """
    found: dict[str, Array] = {}
    for scans in (False, True):
        for site, (asking, size) in itertools.product(watch.open, asked):
            if site.true or asking.label not in site.labels:
                continue
            starts = [*reversed(found.values()), *rows.values()][:STARTS]
            aim = Aim(site, asking, watch, size, until)
            # Before a handler runs, nothing says how far it is.
            row = aim.scanned(starts) if scans or site.function is began else aim.met(starts)
            if row is not None:
                found[f"a row{MEETS}{site.text} ({site.place})"] = row
        if found:
            break
    return found
