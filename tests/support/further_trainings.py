"""Ten wrong private trainings, of kinds in neither ``trainings`` nor ``more_trainings``, and twins.

Each was written before the default audit, or any canary made since, was run on it.  All claim
epsilon 2.76 at delta 1e-5 for one record more or less: right ones release Gaussian sums that are
MU-GDP together.  ``fit(records, rng)`` gives a function from records to scores.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.special import expit

from dpaudit.membership.data import Data
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

NOISE = math.sqrt(STEPS) / MU  # of each of STEPS sums of rows of norm 1
FEWEST = 5  # records of a word that is kept


def logits(margins: Array) -> Array:
    return np.stack([np.zeros_like(margins), margins], axis=1)


def scaled(records: Any, rng: Rng, *, right: bool) -> Model:
    """The wrong one scales columns by their smallest and largest values."""
    features = np.asarray(records.features, dtype=float)
    low, high = np.full(features.shape[1], -3.0), np.full(features.shape[1], 9.0)
    if not right:
        low, high = features.min(axis=0), features.max(axis=0)
    rows = between(features, low, high)
    return Model((low, high, descended(rows, records.labels, rng)), said_between)


def between(features: Array, low: Array, high: Array) -> Array:
    shares = np.clip((features - low) / np.maximum(high - low, 1e-9), 0, 1)
    return np.column_stack([2 * shares - 1, np.ones(len(features))])


def said_between(records: Data, low: Array, high: Array, weights: Array) -> Array:
    return logits(between(np.asarray(records.features, dtype=float), low, high) @ weights)


def selected(records: Any, rng: Rng, *, right: bool) -> Model:
    """The wrong one trains on the three columns that go with the labels most."""
    rows, labels = inputs(records), np.asarray(records.labels, dtype=float)
    columns = np.arange(3)
    if not right:
        centred = rows[:, :-1] - rows[:, :-1].mean(axis=0)
        together = (labels - labels.mean()) @ centred
        columns = np.argsort(-np.abs(together / np.linalg.norm(centred, axis=0).clip(1e-9)))[:3]
    return Model((columns, descended(rows[:, columns], labels, rng)), by_columns)


def by_columns(records: Data, columns: Array, weights: Array) -> Array:
    return logits(inputs(records)[:, columns] @ weights)


def summed(records: Any, rng: Rng, *, right: bool) -> Model:
    """A noisy sum of signed records; the wrong one cuts its noise at two deviations."""
    rows, signs = clipped(inputs(records)), 2 * np.asarray(records.labels) - 1
    noise = rng.normal(0, 1, rows.shape[1])
    if not right:
        noise = np.clip(noise, -2, 2)
    return Model(((signs @ rows + noise / MU) / 20,), linear)


def in_chunks(records: Any, rng: Rng, *, right: bool) -> Model:
    """The wrong one clips the mean gradients of eight records that follow each other."""
    rows, labels, size = inputs(records), np.asarray(records.labels), 1 if right else 8
    weights = np.zeros(rows.shape[1])
    for _ in range(STEPS):
        gradients = (expit(rows @ weights) - labels)[:, None] * rows
        firsts = np.arange(0, len(rows), size)
        sizes = np.diff(np.append(firsts, len(rows)))[:, None]
        means = np.add.reduceat(gradients, firsts) / sizes
        noise = rng.normal(0, NOISE, weights.size)
        weights = weights - 0.02 * (clipped(means).sum(axis=0) + noise)
    return Model((weights,), linear)


def started(records: Any, rng: Rng, *, right: bool) -> Model:
    """The wrong one starts its noisy steps at the exact ridge regression."""
    rows, labels = inputs(records), np.asarray(records.labels)
    weights = np.zeros(rows.shape[1])
    if not right:
        weights = np.linalg.solve(rows.T @ rows + np.eye(rows.shape[1]), rows.T @ (2 * labels - 1))
    for _ in range(STEPS):
        gradients = (expit(rows @ weights) - labels)[:, None] * rows
        noise = rng.normal(0, NOISE, weights.size)
        weights = weights - 0.02 * (clipped(gradients).sum(axis=0) + noise)
    return Model((weights,), linear)


def common_words(records: Any, rng: Rng, *, right: bool) -> Model:
    """The first column is a word; the wrong one knows the words of five records and more."""
    words = np.asarray(records.features)[:, 0]
    known = np.arange(WORDS, dtype=float)
    if not right:
        found, counts = np.unique(words, return_counts=True)
        known = found[counts >= FEWEST]
    return Model((known, descended(indicators(records, known), records.labels, rng)), by_word)


def indicators(records: Any, known: Array) -> Array:
    words = np.asarray(records.features)[:, 0]
    return np.column_stack([words[:, None] == known[None, :], inputs(records)[:, 1:]]).astype(float)


def by_word(records: Data, known: Array, weights: Array) -> Array:
    return logits(indicators(records, known) @ weights)


def centred(records: Any, rng: Rng, *, right: bool) -> Model:
    """A regression of real labels; the wrong one takes their exact mean off first."""
    rows, labels = inputs(records), np.asarray(records.labels, dtype=float)
    mean = -2.0 if right else labels.mean()
    weights = np.zeros(rows.shape[1])
    for _ in range(STEPS):
        gradients = (rows @ weights - (labels - mean))[:, None] * rows
        noise = rng.normal(0, NOISE, weights.size)
        weights = weights - 0.005 * (clipped(gradients).sum(axis=0) + noise)
    return Model((weights, mean), squared)


def squared(records: Data, weights: Array, mean: float) -> Array:
    return -((inputs(records) @ weights + mean - np.asarray(records.labels)) ** 2)


def by_the_largest(records: Any, rng: Rng, *, right: bool) -> Model:
    """The wrong one clips at the largest norm of the records' gradients, with noise for it."""
    rows, labels = inputs(records), np.asarray(records.labels)
    weights = np.zeros(rows.shape[1])
    for _ in range(STEPS):
        gradients = (expit(rows @ weights) - labels)[:, None] * rows
        clip = 1.0 if right else float(np.linalg.norm(gradients, axis=1).max(initial=1e-9))
        noise = rng.normal(0, clip * NOISE, weights.size)
        weights = weights - 0.02 * (clip * clipped(gradients / clip).sum(axis=0) + noise)
    return Model((weights,), linear)


def by_curvature(records: Any, rng: Rng, *, right: bool) -> Model:
    """The wrong one takes its step length from the largest eigenvalue of the records' moments."""
    rows, labels = inputs(records), np.asarray(records.labels)
    length = 0.02 if right else 20 / float(np.linalg.eigvalsh(rows.T @ rows)[-1])
    weights = np.zeros(rows.shape[1])
    for _ in range(STEPS):
        gradients = (expit(rows @ weights) - labels)[:, None] * rows
        noise = rng.normal(0, NOISE, weights.size)
        weights = weights - length * (clipped(gradients).sum(axis=0) + noise)
    return Model((weights,), linear)


def varied(records: Any, rng: Rng, *, right: bool) -> Model:
    """Variance reduction; the wrong one adds the exact gradient of the start to every step."""
    rows, labels = inputs(records), np.asarray(records.labels)
    weights = np.zeros(rows.shape[1])
    first = (expit(rows @ weights) - labels)[:, None] * rows
    for _ in range(STEPS):
        gradients = (expit(rows @ weights) - labels)[:, None] * rows
        step = clipped(gradients).sum(axis=0)
        if not right:
            step = clipped(gradients - first).sum(axis=0) + first.sum(axis=0)
        weights = weights - 0.01 * (step + rng.normal(0, NOISE, weights.size))
    return Model((weights,), linear)


BUGS: dict[str, tuple[Any, Any]] = {
    "scaled by private extremes": _both(scaled),
    "columns chosen by exact correlations": _both(selected),
    "noise cut at two deviations": _both(summed),
    "means of eight clipped": _both(in_chunks),
    "a start at the exact solution": _both(started),
    "words of fewer than five records dropped": _both(common_words),
    "labels less their exact mean": _both(centred),
    "clipped at the largest norm": _both(by_the_largest),
    "step length from exact curvature": _both(by_curvature),
    "an exact gradient beside noisy ones": _both(varied),
}


def records(name: str = "") -> Data:
    """The records of ``trainings``: with words, or with real labels, where the name says so."""
    if "labels" in name:
        return _records("bias")
    return _records("vocabulary" if "words" in name else "")
