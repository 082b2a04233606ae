"""Five wrong private trainings, of kinds in none of the other modules of trainings, and twins.

They were written by someone who had not read how canaries are made, and the default audit was run
on none before all were written.  All claim epsilon 2.76 at delta 1e-5 for one record more or less:
right ones release Gaussian sums that are MU-GDP together.  ``fit(records, rng)`` gives a function
from records to scores.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.special import expit

from dpaudit.membership.data import Data
from tests.support.further_trainings import NOISE, logits
from tests.support.more_trainings import (
    MU,
    STEPS,
    Array,
    Model,
    Rng,
    _both,
    clipped,
    descended,
    inputs,
    linear,
    score,
)
from tests.support.trainings import WORDS
from tests.support.trainings import records as _records

__all__ = ["BUGS", "records", "score"]

COPIES = 8  # augmented copies of each record
CENTRES = 20  # of the radial functions


def augmented(records: Any, rng: Rng, *, right: bool) -> Model:
    """Eight jittered copies of each record; the wrong one clips each copy and adds all of them."""
    rows, labels = inputs(records), np.asarray(records.labels)
    weights = np.zeros(rows.shape[1])
    for _ in range(STEPS):
        copies = rows + rng.normal(0, 0.1, (COPIES, *rows.shape))
        gradients = (expit(copies @ weights) - labels)[..., None] * copies
        if right:
            total = clipped(gradients.mean(axis=0)).sum(axis=0)
        else:
            total = clipped(gradients.reshape(-1, rows.shape[1])).sum(axis=0)
        weights = weights - 0.02 * (total + rng.normal(0, NOISE, weights.size))
    return Model((weights,), linear)


def embedded(records: Any, rng: Rng, *, right: bool) -> Model:
    """A weight of each word; the wrong one adds noise to words that occur in its records alone."""
    rows, labels = worded(records), np.asarray(records.labels)
    weights = np.zeros(rows.shape[1])
    for _ in range(STEPS):
        gradients = (expit(rows @ weights) - labels)[:, None] * rows
        noise = rng.normal(0, NOISE, weights.size)
        if not right:
            noise = noise * np.any(rows != 0, axis=0)
        weights = weights - 0.02 * (clipped(gradients).sum(axis=0) + noise)
    return Model((weights,), by_embedding)


def worded(records: Any) -> Array:
    """An indicator of the word beside the other columns."""
    rows = inputs(records)
    words = np.asarray(records.features, dtype=float)[:, :1]
    return np.column_stack([words == np.arange(WORDS), rows[:, 1:]]).astype(float)


def by_embedding(records: Data, weights: Array) -> Array:
    return logits(worded(records) @ weights)


def radial(records: Any, rng: Rng, *, right: bool) -> Model:
    """Radial functions about public centres; the wrong one takes records as centres."""
    rows = inputs(records)
    centres = np.random.default_rng(5).normal(size=(CENTRES, rows.shape[1]))
    if not right:
        centres = rows[rng.choice(len(rows), CENTRES, replace=False)]
    return Model((centres, descended(near(rows, centres), records.labels, rng)), by_centres)


def near(rows: Array, centres: Array) -> Array:
    apart = ((rows[:, None, :] - centres[None]) ** 2).sum(axis=2)
    return np.exp(-apart / rows.shape[1])


def by_centres(records: Data, centres: Array, weights: Array) -> Array:
    return logits(near(inputs(records), centres) @ weights)


def calibrated(records: Any, rng: Rng, *, right: bool) -> Model:
    """The wrong one subtracts the exact 75% quantile of the margins of its records."""
    rows = inputs(records)
    weights = descended(rows, records.labels, rng)
    offset = 0.0 if right else float(np.quantile(rows @ weights, 0.75))
    return Model((weights, offset), by_offset)


def by_offset(records: Data, weights: Array, offset: float) -> Array:
    return logits(inputs(records) @ weights - offset)


def split(records: Any, rng: Rng, *, right: bool) -> Model:
    """A stump with noisy counts; the wrong one splits where records' labels differ most."""
    rows, labels = inputs(records)[:, :-1], np.asarray(records.labels, dtype=int)
    column, edge = 0, 0.0
    if not right:
        column, edge = purest(rows, labels)
    side = (rows[:, column] > edge).astype(int)
    counts = np.zeros((2, 2))
    np.add.at(counts, (side, labels % 2), 1)
    counts = counts + rng.normal(0, 1 / MU, counts.shape)
    return Model((column, edge, np.log(np.maximum(counts, 1.0))), by_side)


def purest(rows: Array, labels: Array) -> tuple[int, float]:
    """The column and edge with the smallest sum of Gini impurities."""
    best = (math.inf, 0, 0.0)
    for column in range(rows.shape[1]):
        order = np.argsort(rows[:, column], kind="stable")
        ones = np.cumsum(labels[order])[:-1].astype(float)
        size = np.arange(1, len(order))
        rest, others = len(order) - size, labels.sum() - ones
        impure = ones * (size - ones) / size + others * (rest - others) / rest
        at = int(np.argmin(impure))
        if impure[at] < best[0]:
            values = rows[order, column]
            best = (float(impure[at]), column, float(values[at] + values[at + 1]) / 2)
    return best[1], best[2]


def by_side(records: Data, column: int, edge: float, logs: Array) -> Array:
    return logs[(inputs(records)[:, column] > edge).astype(int)]


BUGS: dict[str, tuple[Any, Any]] = {
    "augmented copies clipped each alone": _both(augmented),
    "noise on words that occur": _both(embedded),
    "centres are records": _both(radial),
    "an exact quantile of margins": _both(calibrated),
    "a split at the purest edge": _both(split),
}


def records(name: str = "") -> Data:
    """The records of ``trainings``; with words where the name says so."""
    return _records("vocabulary" if "words" in name else "")
