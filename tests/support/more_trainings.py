"""Ten more private trainings that are wrong, of other kinds than those of ``trainings``, and twins.

Each was written before the default audit was run on it.  All claim epsilon 2.76 at delta 1e-5 for
one record more or less: right ones release Gaussian sums that are MU-GDP together, or a Laplace
sum.  ``fit(records,
rng)`` gives a function from records to scores.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.special import expit

from dpaudit.audit.bounds.weighted import mu_of_delta
from dpaudit.membership.data import Data
from tests.support.trainings import EPSILON, PUBLIC_DEVIATION, PUBLIC_MEAN, WORDS
from tests.support.trainings import records as _records

MU = mu_of_delta(EPSILON, 1e-5)
STEPS = 10

Rng = np.random.Generator
Array = Any


@dataclass
class Model:
    """Numbers of a model, and what it says of records."""

    numbers: tuple[Array, ...]
    say: Callable[..., Array]


def score(model: Model, records: Data) -> Array:
    return model.say(records, *model.numbers)


def clipped(rows: Array) -> Array:
    """Rows of norm at most 1."""
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1.0)


def inputs(records: Any) -> Array:
    """Standardised by public numbers, and a one."""
    table = (np.asarray(records.features, dtype=float) - PUBLIC_MEAN) / PUBLIC_DEVIATION
    return np.column_stack([table, np.ones(len(table))])


def linear(records: Data, weights: Array) -> Array:
    margins = inputs(records) @ weights
    return np.stack([np.zeros_like(margins), margins], axis=1)


def descended(
    rows: Array, labels: Array, rng: Rng, *, clip: Callable[[Array], Array] = clipped
) -> Array:
    """Logistic regression by STEPS steps on all records."""
    weights = np.zeros(rows.shape[1])
    for _ in range(STEPS):
        gradients = (expit(rows @ weights) - labels)[:, None] * rows
        noise = rng.normal(0, math.sqrt(STEPS) / MU, weights.size)
        weights = weights - 0.02 * (clip(gradients).sum(axis=0) + noise)
    return weights


def logistic(records: Any, rng: Rng, *, clip: Callable[[Array], Array] = clipped) -> Model:
    return Model((descended(inputs(records), records.labels, rng, clip=clip),), linear)


def by_value(gradients: Array) -> Array:
    """Every coordinate is clipped to 1, with noise for a norm of 1."""
    return np.clip(gradients, -1, 1)


def least_squares(records: Any, rng: Rng, *, right: bool) -> Model:
    """Noisy moments; the wrong one forgets the noise of the second moments."""
    rows, labels = clipped(inputs(records)), np.clip(np.asarray(records.labels, float), -1, 1)
    noise = math.sqrt(2) / MU
    moments = rows.T @ rows
    if right:
        moments = moments + rng.normal(0, noise, moments.shape)
    sums = rows.T @ labels + rng.normal(0, noise, rows.shape[1])
    system = (moments + moments.T) / 2 + 20 * np.eye(len(sums))
    return Model((np.linalg.lstsq(system, sums, rcond=None)[0],), linear)


def naive_bayes(records: Any, rng: Rng, *, right: bool) -> Model:
    """Noisy histograms of columns by class; the wrong one takes quantiles of the data as edges."""
    features, labels = np.asarray(records.features), np.asarray(records.labels)
    quantiles = np.array([0.0, 0.25, 0.5, 0.75, 1.0])
    edges = np.quantile(features, quantiles, axis=0).T
    if right:
        edges = np.tile(PUBLIC_MEAN + PUBLIC_DEVIATION * np.array([-3, -0.7, 0, 0.7, 3]), (8, 1))
    cells = cells_of(features, edges)
    counts = np.zeros((2, 8, 6))
    for column in range(8):
        np.add.at(counts, (labels, column, cells[:, column]), 1)
    noisy = counts + rng.normal(0, math.sqrt(8) / MU, counts.shape)
    return Model((edges, np.log(np.maximum(noisy, 1.0))), said_by_cells)


def cells_of(features: Array, edges: Array) -> Array:
    columns = [np.searchsorted(edges[c], features[:, c], side="right") for c in range(len(edges))]
    return np.stack(columns, axis=1)


def said_by_cells(records: Data, edges: Array, logs: Array) -> Array:
    cells = cells_of(np.asarray(records.features), edges)
    return logs[:, np.arange(8), cells].sum(axis=2).T


def momentum(records: Any, rng: Rng, *, right: bool) -> Model:
    """The wrong one adds a tenth of the noise, as if momentum averaged the gradients."""
    rows, labels = inputs(records), records.labels
    weights, velocity = np.zeros(rows.shape[1]), np.zeros(rows.shape[1])
    for _ in range(STEPS):
        gradients = (expit(rows @ weights) - labels)[:, None] * rows
        noise = rng.normal(0, math.sqrt(STEPS) / MU, weights.size)
        share = 1.0 if right else 1 - 0.9
        velocity = 0.9 * velocity + clipped(gradients).sum(axis=0) + share * noise
        weights = weights - 0.01 * velocity
    return Model((weights,), linear)


def weighed(records: Any, rng: Rng, *, right: bool) -> Model:
    """A sum under Laplace noise; the wrong one has noise for the Euclidean length of a record."""
    rows = clipped(inputs(records))
    signs = 2 * np.asarray(records.labels) - 1
    length = math.sqrt(rows.shape[1]) if right else 1.0
    weights = signs @ rows + rng.laplace(0, length / EPSILON, rows.shape[1])
    return Model((weights / 20,), linear)


def centroids(records: Any, rng: Rng, *, right: bool) -> Model:
    """The nearest mean of a class; the wrong one divides noisy sums by exact counts."""
    rows, labels = clipped(inputs(records)), np.asarray(records.labels)
    kinds = np.arange(2)
    sums = np.stack([rows[labels == kind].sum(axis=0) for kind in kinds])
    counts = np.array([np.count_nonzero(labels == kind) for kind in kinds], dtype=float)
    noise = math.sqrt(2) / MU
    sums = sums + rng.normal(0, noise, sums.shape)
    if right:
        counts = counts + rng.normal(0, noise, 2)
    counts = np.maximum(counts, 1.0)
    return Model((sums / counts[:, None], np.log(counts)), nearest)


def nearest(records: Data, means: Array, logs: Array) -> Array:
    rows = clipped(inputs(records))
    return -((rows[:, None, :] - means) ** 2).sum(axis=2) + logs


def trimmed(records: Any, rng: Rng, *, right: bool) -> Model:
    """The wrong one drops records beyond three deviations of the records' own mean."""
    rows, labels = inputs(records), np.asarray(records.labels)
    kept = np.ones(len(rows), dtype=bool)
    if not right:
        lengths = np.linalg.norm(rows, axis=1)
        kept = lengths < lengths.mean() + 3 * lengths.std()
    return Model((descended(rows[kept], labels[kept], rng),), linear)


def balanced(records: Any, rng: Rng, *, right: bool) -> Model:
    """The wrong one repeats the rarer class until both are as many."""
    rows, labels = inputs(records), np.asarray(records.labels)
    if not right:
        places = [np.flatnonzero(labels == kind) for kind in range(2)]
        most = max(map(len, places))
        chosen = np.concatenate([np.resize(place, most) for place in places if len(place)])
        rows, labels = rows[chosen], labels[chosen]
    return Model((descended(rows, labels, rng),), linear)


def projected(records: Any, rng: Rng, *, right: bool) -> Model:
    """The wrong one trains on the three first directions of the exact covariance."""
    rows = inputs(records)
    size = rows.shape[1]
    turned = np.linalg.qr(np.random.default_rng(5).normal(size=(size, 3)))[0]
    if not right:
        turned = np.linalg.svd(rows - rows.mean(axis=0), full_matrices=False)[2][:3].T
    return Model((turned, descended(rows @ turned, records.labels, rng)), along)


def along(records: Data, turned: Array, weights: Array) -> Array:
    margins = inputs(records) @ turned @ weights
    return np.stack([np.zeros_like(margins), margins], axis=1)


def encoded(records: Any, rng: Rng, *, right: bool) -> Model:
    """The first column is a word; the wrong one puts the mean label of its records in its place."""
    words = np.asarray(records.features)[:, 0].astype(int) % (4 * WORDS)
    labels = np.asarray(records.labels)
    means = np.full(4 * WORDS, 0.5)
    if not right:
        for word in np.unique(words):
            means[word] = labels[words == word].mean()
    weights = descended(encoding(records, means), labels, rng)
    return Model((means, weights), by_word)


def encoding(records: Any, means: Array) -> Array:
    words = np.asarray(records.features)[:, 0].astype(int) % (4 * WORDS)
    return np.column_stack([4 * (means[words] - 0.5), inputs(records)[:, 1:]])


def by_word(records: Data, means: Array, weights: Array) -> Array:
    margins = encoding(records, means) @ weights
    return np.stack([np.zeros_like(margins), margins], axis=1)


def _both(fit: Callable[..., Model]) -> tuple[Any, Any]:
    return partial(fit, right=False), partial(fit, right=True)


BUGS: dict[str, tuple[Any, Any]] = {
    "no noise in second moments": _both(least_squares),
    "edges at private quantiles": _both(naive_bayes),
    "a tenth of the noise, for momentum": _both(momentum),
    "Laplace noise for a Euclidean length": _both(weighed),
    "noisy sums over exact counts": _both(centroids),
    "private outliers are dropped": _both(trimmed),
    "the rarer one is repeated": _both(balanced),
    "exact principal directions": _both(projected),
    "mean label of a word": _both(encoded),
    "clipped by value": (partial(logistic, clip=by_value), logistic),
}


def records(name: str = "") -> Data:
    """The records of ``trainings``; with words in the first column where the name says so."""
    return _records("vocabulary" if "word" in name else "")
