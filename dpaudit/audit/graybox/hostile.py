"""Hostile records: whether a query keeps its stated sensitivity beyond the audited pair.

A guarantee speaks of all data sets, so a query must hold its bound on any records.  One row of the
audited data is replaced by rows that are huge, opposite, constant, not finite; every two of the
data sets made so are neighbours.  So are those among which all other rows equal the audited one:
there a row shows that changes what the others contribute.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from dpaudit.audit.graybox.watch import Asked
from dpaudit.curator.replayer import moved_too_far
from dpaudit.kernels.query import Array, ClippedMean, Records
from dpaudit.scope import Adjacency

Make = Callable[[Array], Array]


def _first(row: Array, value: float) -> Array:
    changed = np.array(row)
    changed.reshape(-1)[0] = value
    return changed


def _alternating(row: Array) -> Array:
    return 1e6 * np.where(np.arange(row.size) % 2, -1.0, 1.0).reshape(row.shape)


HOSTILE: Mapping[str, Make] = {
    "as it is": np.array,
    "opposite": lambda row: -row,
    "a thousand times": lambda row: 1e3 * row,
    "minus a thousand times": lambda row: -1e3 * row,
    "all zero": np.zeros_like,
    "all one": np.ones_like,
    "a million everywhere": lambda row: np.full_like(row, 1e6),
    "minus a million everywhere": lambda row: np.full_like(row, -1e6),
    "a million of either sign": _alternating,
    "a million first": lambda row: _first(np.zeros_like(row), 1e6),
    "not a number": lambda row: np.full_like(row, np.nan),
    "one entry not a number": lambda row: _first(row, np.nan),
    "infinite": lambda row: np.full_like(row, np.inf),
}


@dataclass(frozen=True, eq=False)
class Probe:
    """One query on hostile records: ``problem`` is empty if it kept its bound.

    ``values``: every noise-free value seen, (data sets, trials, d), to compare implementations.
    """

    label: str
    place: str
    problem: str
    values: Array


def probe(
    asked: Asked, adjacency: Adjacency, row: int, hostile: Mapping[str, Make] = HOSTILE
) -> Probe:
    """Evaluate a query on data sets whose row ``row`` is hostile, and compare them pair by pair.

    The guarantee's inequality: ||q(D) - q(D')|| <= sensitivity for neighbours D, D'.  Under
    replace_one every two data sets are neighbours; under zero_out and add_remove each is a
    neighbour of the one whose row is zeroed out, or left out.
    Deterministic: a query that keeps its bound is never flagged.
    """
    values_seen: list[Array] = []
    problem = ""
    try:
        given = asked.records
        crowd = Records(np.broadcast_to(given.values[row], given.values.shape), given.present)
        for base in (given, crowd):
            variants = _variants(base, adjacency, row, hostile)
            values = [_value(asked, records, row) for records in variants]
            problem = problem or _compared(asked, adjacency, values, hostile)
            values_seen += values
    except Exception as error:  # noqa: BLE001  (whatever a record provokes is the finding)
        problem = f"hostile records make the query fail ({type(error).__name__})"
    return Probe(asked.label, asked.place, problem, np.array(values_seen))


def _compared(
    asked: Asked, adjacency: Adjacency, values: list[Array], hostile: Mapping[str, Make]
) -> str:
    """Which two data sets are too far apart; empty if none are."""
    replaced = adjacency is Adjacency.REPLACE_ONE
    count = len(values)
    pairs = combinations(range(count), 2) if replaced else ((0, k) for k in range(1, count))
    names = list(hostile) if replaced else ["taken out", *hostile]
    for i, j in pairs:
        if moved_too_far((values[i], values[j]), asked.sensitivity, asked.session, asked.on):
            return (
                "hostile records move the query by more than its stated "
                f"{asked.query.norm} sensitivity (a row {names[i]!r} against {names[j]!r})"
            )
    return ""


def rows_to_probe(asked: Asked, changed: int, adjacency: Adjacency) -> list[int]:
    """The row the audited pair changes (in a part: its largest), and one of greater weight."""
    size = len(asked.records)
    if adjacency is Adjacency.ADD_REMOVE:
        return [size - 1]
    largest = np.nan_to_num(np.abs(asked.records.values).reshape(size, -1)).max(axis=1)
    row = changed if changed < size else int(np.argmax(largest))
    if not isinstance(asked.query, ClippedMean):
        return [row]
    weights = np.abs(asked.query.public_weights(size))
    heaviest = int(np.argmax(weights))
    return [row, heaviest] if weights[heaviest] > weights[row] else [row]


def _variants(
    records: Records, adjacency: Adjacency, row: int, hostile: Mapping[str, Make]
) -> Iterator[Records]:
    if adjacency is Adjacency.ZERO_OUT:
        present = np.array(records.present)
        present[row] = False
        yield Records(records.values, present)
    elif adjacency is Adjacency.ADD_REMOVE:
        yield records.rows(0, len(records) - 1)
    present = np.array(records.present)
    present[row] = True
    for make in hostile.values():
        changed = np.array(records.values)
        changed[row] = make(records.values[row])
        yield Records(changed, present)


def _value(asked: Asked, records: Records, row: int) -> Array:
    """The value on all rows, or on a batch that could be drawn and holds the row."""
    trials = len(asked.on)
    first = np.arange(len(records)) < (asked.members - 1 if asked.members else len(records))
    members = first | (np.arange(len(records)) == row)
    chosen = np.broadcast_to(members, (trials, len(records))) if asked.batched else None
    with np.errstate(all="ignore"):
        value = np.asarray(asked.query.value(records, chosen), dtype=np.float64)
    return np.broadcast_to(value, (trials, value.shape[-1]))
