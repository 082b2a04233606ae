"""Candidate events of one measurement: thresholds, atoms, unions of cells, values seen."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from dpaudit.audit.blackbox.draws import TrainingDraws
from dpaudit.audit.blackbox.events import (
    Cells,
    Event,
    Measurement,
    Member,
    Missing,
    Relation,
    Threshold,
)
from dpaudit.audit.blackbox.evidence import Batch

Array = npt.NDArray[Any]
QUANTILE_THRESHOLDS = 48  # Thresholds at equally spaced quantiles of the training draws.
# Thresholds for each tail, at geometrically growing ranks, so that rare events are tried.
TAIL_THRESHOLDS = 24
MOST_CELLS = 512  # distinct outputs above which cells hold several
QUANTILE_CELLS = 48  # cells of equal share of the draws
# Repeated outputs that become events of their own, those with the largest difference first.
MAX_ATOMS = 48
LEAST_ATOM = 3  # draws of one output before it counts as repeated
SMOOTHING_PASSES = 3  # Passes of the moving average over the ratios of neighbouring cells.


@dataclass(frozen=True, eq=False)
class Sides:
    """A measurement's values on training draws of both data sets."""

    measurement: Measurement
    first: Array
    second: Array

    @property
    def trials(self) -> tuple[int, int]:
        return self.first.size, self.second.size

    def half(self, which: int) -> Sides:
        """One half of the draws: events are built on half 0, fitted ones scored on half 1."""
        halves = [
            x[: x.size // 2] if which == 0 else x[x.size // 2 :] for x in (self.first, self.second)
        ]
        return Sides(self.measurement, halves[0], halves[1])


def measured(measurement: Measurement, first: TrainingDraws, second: TrainingDraws) -> Sides:
    """The measurement on training draws; no others are let in."""
    return Sides(measurement, measurement(first), measurement(second))


def batches_of(sides: Sides, name: str, *, plain: float, ordered: bool = True) -> Iterator[Batch]:
    """All candidate events of one measurement; ``plain`` is the penalty of its thresholds."""
    missing = [_nan(x) for x in (sides.first, sides.second)]
    if missing[0].any() or missing[1].any():
        counts = [np.array([np.count_nonzero(m)]) for m in missing]
        event = Missing(sides.measurement)
        yield Batch(lambda _: event, counts[0], counts[1], sides.trials, plain, f"{name} missing")
    table = Table.of(sides)
    if table.values.size < 2:
        return
    if ordered:
        yield from _thresholds(sides, table, plain, name)
    yield from _atoms(sides, table, plain + 1.0, name)
    if table.values.size > 2:
        yield _unions(sides, plain + 1.0, name)
    if table.values.size > MOST_CELLS:
        yield from _seen(sides, plain + 0.5, name)


def threshold_batches(sides: Sides, name: str, penalty: float) -> Iterator[Batch]:
    """Thresholds and atoms alone, for a score that increases with the odds of one side."""
    table = Table.of(sides)
    if table.values.size > 1:
        yield from _thresholds(sides, table, penalty, name)
        yield from _atoms(sides, table, penalty + 1.0, name)


@dataclass(frozen=True, eq=False)
class Table:
    """Distinct values (sorted, no NaN) and how often each side has them."""

    values: Array
    first: Array
    second: Array

    @classmethod
    def of(cls, sides: Sides) -> Table:
        numbers = [x[~_nan(x)] for x in (sides.first, sides.second)]
        values, inverse = np.unique(np.concatenate(numbers), return_inverse=True)
        counts = [
            np.bincount(part, minlength=values.size)
            for part in (inverse[: numbers[0].size], inverse[numbers[0].size :])
        ]
        return cls(values, counts[0], counts[1])


def _nan(values: Array) -> Array:
    return np.isnan(values) if values.dtype.kind == "f" else np.zeros(values.shape, dtype=bool)


def _thresholds(sides: Sides, table: Table, penalty: float, name: str) -> Iterator[Batch]:
    """Events "at most v" for quantiles and for ranks from both tails, each tail apart.

    "Above v" adds nothing: its test of P over Q is the one of "at most v" of Q over P.
    """
    cumulative = [np.cumsum(counts) for counts in (table.first, table.second)]
    wanted = []
    for total in cumulative:
        ranks = np.unique(np.geomspace(1, max(total[-1], 1), TAIL_THRESHOLDS).astype(int))
        levels = np.linspace(0, total[-1], QUANTILE_THRESHOLDS)[1:-1]
        wanted.append(np.searchsorted(total, np.concatenate([ranks, total[-1] - ranks, levels])))
    places = np.unique(np.clip(np.concatenate(wanted), 0, table.values.size - 2))
    lower = 2 * (cumulative[0] + cumulative[1])[places] < sum(sides.trials)
    for tail, chosen in (("lower", places[lower]), ("upper", places[~lower])):
        hits, others = (total[chosen] for total in cumulative)
        make = partial(_at_most, sides.measurement, table.values[chosen])
        yield Batch(make, hits, others, sides.trials, penalty, f"{name} {tail}")


def _at_most(measurement: Measurement, values: Array, i: int) -> Event:
    return Threshold(measurement, Relation.AT_MOST, values[i].item())


def _atoms(sides: Sides, table: Table, penalty: float, name: str) -> Iterator[Batch]:
    """Single values that repeat, those that differ most first."""
    repeated = np.flatnonzero(table.first + table.second >= LEAST_ATOM)
    if repeated.size == 0:
        return
    a, b = table.first[repeated], table.second[repeated]
    differ = np.abs(a - b) / np.sqrt(a + b)
    chosen = repeated[np.argsort(-differ, kind="stable")[:MAX_ATOMS]]

    def make(i: int) -> Event:
        return Member(sides.measurement, Relation.AMONG, table.values[chosen[i : i + 1]])

    hits, others = table.first[chosen], table.second[chosen]
    yield Batch(make, hits, others, sides.trials, penalty, f"{name} atom")


def _unions(sides: Sides, penalty: float, name: str) -> Batch:
    """Cells in the order of their density ratio, made on one half and judged on the other."""
    fit, judge = sides.half(0), sides.half(1)
    table = Table.of(fit)
    edges = _edges(table)
    counts = [_in_cells(edges, x) for x in (fit.first, fit.second)]
    ratio = np.log((counts[0] + 0.5) / (counts[1] + 0.5))
    if table.values.size > MOST_CELLS:
        ratio = _smooth(ratio)
    order = np.argsort(-ratio, kind="stable")
    judged = [np.cumsum(_in_cells(edges, x)[order]) for x in (judge.first, judge.second)]
    rank = np.empty(order.size, dtype=int)
    rank[order] = np.arange(order.size)

    def make(i: int) -> Event:
        return Cells(sides.measurement, edges, rank <= i)

    hits, others = (total[:-1] for total in judged)
    return Batch(make, hits, others, judge.trials, penalty, f"{name} cells")


def _smooth(ratio: Array) -> Array:
    """Neighbouring cells of a continuous measurement have similar ratios; noise has not."""
    for _ in range(SMOOTHING_PASSES):
        padded = np.pad(ratio, 1, mode="edge")
        ratio = (padded[:-2] + 2 * padded[1:-1] + padded[2:]) / 4
    return ratio


def _edges(table: Table) -> Array:
    """Upper ends of all cells but the last: atoms stand alone, the rest is cut by quantiles."""
    if table.values.size <= MOST_CELLS:
        return table.values[:-1]
    counts = table.first + table.second
    total = np.cumsum(counts)
    levels = np.linspace(0, total[-1], QUANTILE_CELLS + 1)[1:-1]
    cuts = np.searchsorted(total, levels)
    heavy = np.flatnonzero(counts > max(LEAST_ATOM, total[-1] / 2_000))
    heavy = heavy[np.argsort(-counts[heavy], kind="stable")[:MOST_CELLS]]
    places = np.unique(np.concatenate([cuts, heavy, heavy - 1]))
    return np.asarray(table.values[places[(places >= 0) & (places < table.values.size - 1)]])


def _in_cells(edges: Array, values: Array) -> Array:
    cells = np.searchsorted(edges, values[~_nan(values)], "left")
    return np.asarray(np.bincount(cells, minlength=edges.size + 1))


def _seen(sides: Sides, penalty: float, name: str) -> Iterator[Batch]:
    """Values that one side's training draws took and the other's did not, and values not taken.

    The evidence is predicted by building the sets on one half and counting on the other; the events
    returned use all training draws.  Values seen on only one side reveal noise of few bits and
    supports that depend on the data.
    """
    halves = sides.half(0), sides.half(1)
    folds = (halves, halves[::-1])
    for side in (0, 1):
        counts = np.sum([_among(judge, _alone(fit, side)) for fit, judge in folds], axis=0)
        if counts[side] > counts[1 - side]:
            event = Member(sides.measurement, Relation.AMONG, _alone(sides, side))
            yield _single(event, counts, sides, penalty, f"{name} seen {side}")
        out = np.sum([_not_among(judge, _taken(fit, side)) for fit, judge in folds], axis=0)
        if out[side] < 0.05 * sides.trials[side]:
            event = Member(sides.measurement, Relation.NOT_AMONG, _taken(sides, side))
            yield _single(event, out, sides, penalty, f"{name} unseen {side}")


def _single(event: Event, counts: Array, sides: Sides, penalty: float, name: str) -> Batch:
    make = partial(_constant, event)
    return Batch(make, counts[:1], counts[1:], sides.trials, penalty, name)


def _among(sides: Sides, values: Array) -> Array:
    return np.array([np.isin(x, values).sum() for x in (sides.first, sides.second)])


def _not_among(sides: Sides, values: Array) -> Array:
    both = (sides.first, sides.second)
    return np.array([np.count_nonzero(~np.isin(x, values) & ~_nan(x)) for x in both])


def _taken(sides: Sides, side: int) -> Array:
    values = (sides.first, sides.second)[side]
    return np.unique(values[~_nan(values)])


def _constant(event: Event, _: int) -> Event:
    return event


def _alone(sides: Sides, side: int) -> Array:
    values = (sides.first, sides.second)
    return np.setdiff1d(values[side][~_nan(values[side])], values[1 - side])
