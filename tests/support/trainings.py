"""Private trainings in NumPy, ten of them wrong in a way that occurs, each beside its right twin.

All claim epsilon 2.76 at delta 1e-5 for one record more or less.  ``fit(records, rng)`` gives a
:class:`Model`, ``score`` its logits; DP-SGD is laid out as Opacus' optimizer is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
from scipy.special import expit

from dpaudit.accountant.recipes import noise_for
from dpaudit.membership.data import Data

EPSILON, DELTA = 2.76, "1e-5"
RECORDS, BATCH, EPOCHS = 600, 72, 5
RATE = BATCH / RECORDS
STEPS = EPOCHS * RECORDS // BATCH
WORDS = 40

Rng = np.random.Generator
Array = Any


@cache
def noise_multiplier() -> float:
    """Of Poisson-sampled DP-SGD at the claim."""
    return float(noise_for(epsilon=EPSILON, delta=DELTA, n=RECORDS, batch=BATCH, epochs=EPOCHS))


@dataclass
class Model:
    """A logistic model: inputs are ``prepare(features)`` and a one; ``offset`` is added."""

    weights: Array
    prepare: Callable[[Array], Array] = np.asarray
    offset: float = 0.0

    def margins(self, features: Array) -> Array:
        return with_ones(self.prepare(features)) @ self.weights + self.offset


def score(model: Model, records: Data) -> Array:
    """Logits of two classes, (n, 2); of a regression minus the squared error, (n,)."""
    margins = model.margins(records.features)
    labels = np.asarray(records.labels)
    if labels.dtype.kind == "f":
        return -((margins - labels) ** 2)
    return np.stack([np.zeros_like(margins), margins], axis=1)


def with_ones(rows: Array) -> Array:
    return np.column_stack([rows, np.ones(len(rows))])


def standardised(features: Array, mean: Array, deviation: Array) -> Array:
    return np.clip((features - mean) / deviation, -1e6, 1e6)


PUBLIC_MEAN, PUBLIC_DEVIATION = 3.0, 2.0


def public(features: Array) -> Array:
    """Standardised by numbers that are public."""
    return standardised(features, PUBLIC_MEAN, PUBLIC_DEVIATION)


@dataclass(frozen=True)
class DPSGD:
    """The right one: Poisson batches, clipped gradients of records, noise for the clipping norm."""

    clip: float = 1.0
    rate: float = 0.5
    noise: float = field(default_factory=noise_multiplier)

    def __call__(self, records: Data, rng: Rng) -> Model:
        prepare = self.preparation(records.features, rng)
        inputs, labels = with_ones(prepare(records.features)), np.asarray(records.labels)
        weights = np.zeros(inputs.shape[1])
        path = []
        for batch in self.batches(len(inputs), rng):
            gradients = self.gradients(weights, inputs[batch], labels[batch])
            update = (self.clipped_sum(gradients) + self.drawn(weights.size, rng)) / BATCH
            weights = weights - self.rate * update
            path.append(weights)
        return self.finished(path, inputs, labels, prepare)

    def preparation(self, features: Array, rng: Rng) -> Callable[[Array], Array]:
        return public

    def batches(self, count: int, rng: Rng) -> Iterator[Array]:
        return (np.flatnonzero(rng.random(count) < RATE) for _ in range(STEPS))

    def gradients(self, weights: Array, inputs: Array, labels: Array) -> Array:
        return (expit(inputs @ weights) - labels)[:, None] * inputs

    def clipped_sum(self, gradients: Array) -> Array:
        return self.factors(gradients) @ gradients

    def factors(self, gradients: Array) -> Array:
        return np.minimum(1, self.clip / np.maximum(np.linalg.norm(gradients, axis=1), 1e-12))

    def drawn(self, size: int, rng: Rng) -> Array:
        return rng.normal(0, self.noise * self.clip, size)

    def finished(
        self, path: list[Array], inputs: Array, labels: Array, prepare: Callable[[Array], Array]
    ) -> Model:
        return Model(path[-1], prepare)


class NoClipping(DPSGD):
    def clipped_sum(self, gradients: Array) -> Array:
        return gradients.sum(axis=0)


class NoiseOverTheBatchTwice(DPSGD):
    """Noise 72 times too small."""

    def drawn(self, size: int, rng: Rng) -> Array:
        return super().drawn(size, rng) / BATCH


class TheMeanIsClipped(DPSGD):
    """``clip_grad_norm_`` of the batch's mean gradient."""

    def clipped_sum(self, gradients: Array) -> Array:
        mean = gradients.sum(axis=0) / max(len(gradients), 1)
        return BATCH * mean * min(1.0, self.clip / max(float(np.linalg.norm(mean)), 1e-12))


class NoiseOfOneSeed(DPSGD):
    def __call__(self, records: Data, rng: Rng) -> Model:
        object.__setattr__(self, "fixed", np.random.default_rng(7))
        return super().__call__(records, rng)

    def drawn(self, size: int, rng: Rng) -> Array:
        return super().drawn(size, self.fixed)  # type: ignore[attr-defined]


class PrivateMeanAndDeviation(DPSGD):
    def preparation(self, features: Array, rng: Rng) -> Callable[[Array], Array]:
        mean, deviation = features.mean(axis=0), features.std(axis=0) + 1e-9
        return lambda rows: standardised(rows, mean, deviation)


class Regression(DPSGD):
    """Of a real label, by squared error."""

    def gradients(self, weights: Array, inputs: Array, labels: Array) -> Array:
        return (inputs @ weights - labels)[:, None] * inputs


class BiasIsNotClipped(Regression):
    """The clipping forgets one group of parameters, whose gradient is the residual."""

    def clipped_sum(self, gradients: Array) -> Array:
        factors = np.minimum(1, self.clip / np.linalg.norm(gradients[:, :-1], axis=1).clip(1e-12))
        return np.append(factors @ gradients[:, :-1], gradients[:, -1].sum())


class Words(DPSGD):
    """The first column is the number of a word, of a vocabulary that is public."""

    def preparation(self, features: Array, rng: Rng) -> Callable[[Array], Array]:
        return self.encoder(np.arange(WORDS))

    def encoder(self, known: Array) -> Callable[[Array], Array]:
        return lambda rows: np.column_stack(
            [rows[:, :1] == known[None, :], public(rows[:, 1:])]
        ).astype(float)


class PrivateVocabulary(Words):
    def preparation(self, features: Array, rng: Rng) -> Callable[[Array], Array]:
        return self.encoder(np.unique(features[:, 0]))


class PrivateClassWeights(DPSGD):
    """Clipped gradients are weighted by how rare their class is among the private records."""

    def __call__(self, records: Data, rng: Rng) -> Model:
        counts = np.maximum(np.bincount(np.asarray(records.labels), minlength=2), 1)
        object.__setattr__(self, "weights", len(records) / (2 * counts))
        return super().__call__(records, rng)

    def clipped_sum(self, gradients: Array) -> Array:
        # A positive's gradient is against its last entry, the bias.
        weights = self.weights[(gradients[:, -1] < 0).astype(int)]  # type: ignore[attr-defined]
        return (weights * self.factors(gradients)) @ gradients


class PrivateCheckpoint(DPSGD):
    """The iterate of the smallest loss on the private records is released."""

    def finished(
        self, path: list[Array], inputs: Array, labels: Array, prepare: Callable[[Array], Array]
    ) -> Model:
        signs = 2 * labels - 1
        losses = [np.logaddexp(0, -signs * (inputs @ weights)).mean() for weights in path]
        return Model(path[int(np.argmin(losses))], prepare)


class Shuffled(DPSGD):
    """Batches of a shuffled order, accounted as if each record were drawn by a coin."""

    def batches(self, count: int, rng: Rng) -> Iterator[Array]:
        for _ in range(EPOCHS):
            yield from np.array_split(rng.permutation(count), max(1, count // BATCH))


BUGS: dict[str, tuple[DPSGD, DPSGD]] = {
    "no clipping": (NoClipping(), DPSGD()),
    "noise 72 times too small": (NoiseOverTheBatchTwice(), DPSGD()),
    "batch mean clipped": (TheMeanIsClipped(), DPSGD()),
    "noise of one seed": (NoiseOfOneSeed(), DPSGD()),
    "private mean and deviation": (PrivateMeanAndDeviation(), DPSGD()),
    "bias not clipped": (BiasIsNotClipped(), Regression()),
    "private vocabulary": (PrivateVocabulary(), Words()),
    "private class weights": (PrivateClassWeights(), DPSGD()),
    "private checkpoint": (PrivateCheckpoint(), DPSGD()),
    "shuffled batches": (Shuffled(), DPSGD()),
}


def records(name: str = "") -> Data:
    """600 records for a bug: 8 columns about 3, 2 deviations wide, and labels of two classes.

    A quarter is of class 1; for class weights 1 in 120.  For vocabularies the first column is the
    number of a word; for the bias the labels are real.
    """
    words, rare, real = (word in name for word in ("vocabulary", "class", "bias"))
    rng = np.random.default_rng(11)
    table = rng.normal(PUBLIC_MEAN, PUBLIC_DEVIATION, (RECORDS, 8))
    slope = rng.normal(size=8) / PUBLIC_DEVIATION
    margins = (table - PUBLIC_MEAN) @ slope - (7.5 if rare else 2.0)
    labels = (rng.random(RECORDS) < expit(margins)).astype(int)
    if real:
        return Data(table, margins + rng.normal(size=RECORDS))
    if words:
        table[:, 0] = rng.zipf(1.5, RECORDS) % (WORDS // 2)
    return Data(table, labels)
