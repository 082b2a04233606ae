"""Canaries: records that a model is most likely to memorise.

They are audited like other records: a fair coin includes or excludes each.  Canaries in data space
are rows with a label.  Canaries in gradient space are themselves gradients: they serve losses whose
gradient is the record, and attackers who see parameters or iterates.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dpaudit.errors import InvalidParameter
from dpaudit.membership.data import Data, FloatArray
from dpaudit.membership.signals import checked_score, signals
from dpaudit.membership.targets import Released, Target


def mislabelled(data: Data, count: int, rng: np.random.Generator) -> Data:
    """``count`` different records of ``data``, each with another label of the data.

    Errors: InvalidParameter for too few records, or labels of one class only.
    Source: Carlini et al. (2022), section VII-D; Steinke, Nasr and Jagielski (2023), section 6.
    """
    labels = _labels(data)
    classes = np.unique(labels)
    if classes.size < 2:
        raise InvalidParameter("mislabelled: the data have one class; there is no other label")
    if not 1 <= count <= len(data):
        raise InvalidParameter(f"count = {count}: expected from 1 to {len(data)} records")
    rows = rng.permutation(len(data))[:count]
    shift = rng.integers(1, classes.size, rows.size)
    places = (np.searchsorted(classes, labels[rows]) + shift) % classes.size
    return Data(data.features[rows], classes[places])


def blank(data: Data, value: float = 0.0) -> Data:
    """One constant record for each label of the data; further ones would be duplicates.

    Source: Nasr et al. (2023), blank canaries; De et al. (2022).
    """
    classes = np.unique(_labels(data))
    shape = (classes.size, *data.features.shape[1:])
    return Data(np.full(shape, value, dtype=data.features.dtype), classes)


def users_of_mislabelled(data: Data, users: int, records: int, rng: np.random.Generator) -> Data:
    """Users as canaries: ``users`` units of ``records`` mislabelled records each.

    Source: Kairouz et al. (2023) and Andrew et al. (2024), audits by canary clients.
    """
    relabelled = mislabelled(data, users * records, rng)
    return Data(relabelled.features, relabelled.labels, np.repeat(np.arange(users), records))


def adversarial(
    target: Target,
    background: Data,
    candidates: Data,
    count: int,
    rng: np.random.Generator,
    *,
    models: int = 2,
) -> Data:
    """The ``count`` candidates with the largest gradient, or loss if gradients are hidden.

    Norms and losses are averaged over ``models`` trainings on ``background`` alone.  The audit
    never counts these models, and the choice is made before any coin is drawn.
    Errors: InvalidParameter for fewer candidates than canaries.
    Source: Nasr et al. (2021), crafted examples; Annamalai and De Cristofaro (2024).
    """
    if not 1 <= count <= len(candidates):
        raise InvalidParameter(f"count = {count}: expected from 1 to {len(candidates)} candidates")
    total: FloatArray = np.zeros(len(candidates))
    for _ in range(models):
        model = target.fit(background, rng)
        gradients: Any = None
        if target.released.shows(Released.PARAMETERS) and hasattr(target, "gradients"):
            gradients = target.gradients(model, candidates)
        if gradients is not None:
            total += np.linalg.norm(gradients, axis=1)
        elif target.released is Released.LABELS:
            checked_score(target, model, candidates)
            total -= signals(target, model, candidates, 0)["correct"]
        else:
            total += signals(target, model, candidates, 0)["loss"]
    best = np.sort(np.argsort(-total, kind="stable")[:count])
    return candidates.take(best)


def gradients_of(
    size: int, count: int, radius: float, rng: np.random.Generator, *, kind: str = "dirac"
) -> Data:
    """Canaries that are gradients, (count, size): one coordinate each, or random directions.

    Errors: InvalidParameter for another kind, a radius that is not positive, or more Dirac canaries
    than coordinates.  Source: Nasr et al. (2023), section 4, Dirac and random gradients.
    """
    if kind not in ("dirac", "random"):
        raise InvalidParameter(f"kind = {kind!r}: expected dirac or random")
    if not (np.isfinite(radius) and radius > 0):
        raise InvalidParameter(f"radius = {radius}: expected a positive number")
    if kind == "random":
        rows = rng.normal(size=(count, size))
        return Data(radius * rows / np.linalg.norm(rows, axis=1, keepdims=True))
    if not 1 <= count <= size:
        raise InvalidParameter(f"count = {count}: there are {size} coordinates for Dirac canaries")
    return Data(radius * np.eye(size)[rng.permutation(size)[:count]])


def _labels(data: Data) -> Any:
    if data.labels is None:
        raise InvalidParameter("canaries: the data have no labels")
    return data.labels
