"""Records that train beside canaries.

A guarantee holds on every data set, so a canary may stand beside any records.  Each kind of
records lets one thing show that others hide: that too little noise is added, that a record moves
more than its share where all others contradict it, or that it decides about others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from dpaudit.membership.crafted import Canaries, Table
from dpaudit.membership.data import Data, FloatArray

AS_GIVEN = "as given"
_FOLLOWERS = 0.05  # of the records: fewer than a rule for outliers takes for the crowd
_BEHIND = 0.1  # a follower's distance from the middle, as a share of its canary's
_ACROSS, _BEYOND = 10.0, 5.0  # widths of opposed records, and how far on the other side they lie


def _as_given(table: Table, records: Data, _: Canaries) -> Data:
    return records


def _quiet(table: Table, records: Data, _: Canaries) -> Data:
    """Drawn to the middle, of the commonest class but one of each other, or at the median label.

    The noise of batches is small there, and what hides a canary is the noise that training adds.
    """
    rows, labels = _rows(records), records.labels
    if labels is not None and labels.dtype.kind == "f":
        labels = np.full(len(records), np.median(labels), dtype=labels.dtype)
    elif labels is not None:
        classes, sizes = np.unique(labels, return_counts=True)
        labels = _mostly(labels, classes[np.argmax(sizes)])
    return _made(table, records, table.near_middle(rows), labels)


def _followed(table: Table, records: Data, canaries: Canaries) -> Data:
    """Quiet, but one record in 20 follows a canary: nearer the middle, with its whole numbers.

    A rule that a canary changes (which records are outliers, which values are frequent) then
    changes the part of its followers too.  The canary in place k has k + 1 shares of them.
    """
    quiet, ahead = _quiet(table, records, canaries), _rows(canaries.data)
    rows = _rows(quiet)
    followers = np.arange(0, len(rows), round(1 / _FOLLOWERS))
    shares = np.repeat(np.arange(len(ahead)), np.arange(len(ahead)) + 1)
    led = ahead[np.resize(shares, followers.size)]
    rows[followers] = np.where(table.whole, led, rows[followers] + _BEHIND * (led - table.middle))
    return _made(table, records, rows, quiet.labels)


def _opposed(table: Table, records: Data, canaries: Canaries) -> Data:
    """On the other side of the middle, with the canaries' label: wide across, flat along them.

    Training on such records contradicts the canaries, so that their gradients stay long; and little
    else is known along the canaries, so that each weighs the most.
    """
    free = ~table.whole
    towards = (_rows(canaries.data) - table.middle).mean(axis=0) / table.width * free
    towards = towards / max(float(np.linalg.norm(towards)), 1.0)
    spread = (_rows(records) - table.middle) / table.width
    across = _ACROSS * (spread - np.outer(spread @ towards, towards)) - _BEYOND * towards
    rows = table.middle + table.width * np.where(free, across, spread)
    labels = canaries.data.labels
    if labels is not None and labels.dtype.kind == "f":
        labels = np.full(len(records), np.median(labels), dtype=labels.dtype)
    elif labels is not None:
        classes, sizes = np.unique(labels, return_counts=True)
        labels = _mostly(records.labels, classes[np.argmax(sizes)])
    return _made(table, records, rows, labels)


def _rows(data: Data) -> FloatArray:
    return data.features.reshape(len(data), -1).astype(np.float64)


def _mostly(labels: Any, wanted: Any) -> Any:
    """One class, but for one record of each other."""
    classes, firsts = np.unique(labels, return_index=True)
    labels_made = np.full(len(labels), wanted, dtype=labels.dtype)
    labels_made[firsts] = classes
    return labels_made


def _made(table: Table, records: Data, rows: FloatArray, labels: Any) -> Data:
    return replace(table.records(rows, labels), units=records.units)


BESIDE: dict[str, tuple[str, Callable[[Table, Data, Canaries], Data]]] = {
    "quiet": ("records drawn to the middle", _quiet),
    AS_GIVEN: ("the data as given", _as_given),
    "opposed": ("records of their label on the other side of the middle", _opposed),
    "followed": ("records drawn to the middle, some of which follow them", _followed),
}


def trained_beside(kind: str, data: Data, records: Data, canaries: Canaries) -> Data | None:
    """``records`` of ``data`` as they train beside ``canaries``; None for other than numbers."""
    if kind == AS_GIVEN:
        return records
    table = Table.of(data)
    return None if table is None else BESIDE[kind][1](table, records, canaries)
