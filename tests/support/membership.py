"""Mechanisms of known epsilon in place of training, and small trainings, right and wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.special import expit

from dpaudit.audit.bounds.estimators import epsilon_of_gaussian
from dpaudit.membership.data import Data

Rng = np.random.Generator


@dataclass(frozen=True)
class Null:
    """From coins (models, units) to scores, (epsilon, delta)-DP in each coin, models apart."""

    name: str
    scores: Callable[[Any, Rng], Any]
    epsilon: float
    delta: float

    def __str__(self) -> str:
        return self.name


def response(epsilon: float) -> Null:
    def scores(included: Any, rng: Rng) -> Any:
        told = np.where(rng.random(included.shape) < expit(epsilon), included, ~included)
        return told + rng.normal(0, 0.01, included.shape)

    return Null(f"randomised response {epsilon}", scores, epsilon, 0.0)


def laplace(epsilon: float) -> Null:
    def scores(included: Any, rng: Rng) -> Any:
        return included + rng.laplace(0, 1 / epsilon, included.shape)

    return Null(f"Laplace {epsilon}", scores, epsilon, 0.0)


def gaussian(mu: float, delta: float) -> Null:
    def scores(included: Any, rng: Rng) -> Any:
        return mu * included + rng.normal(0, 1, included.shape)

    return Null(f"Gaussian {mu}, {delta}", scores, epsilon_of_gaussian(mu, delta) + 1e-9, delta)


def shared(mu: float, delta: float) -> Null:
    """As private as the Gaussian in each coin, but one |x| for all records of a model."""

    def scores(included: Any, rng: Rng) -> Any:
        size = np.abs(rng.normal(mu / 2, 1, (included.shape[0], 1)))
        right = rng.random(included.shape) < expit(mu * size)
        return size * np.where(right == included, 1.0, -1.0)

    return Null(f"shared {mu}, {delta}", scores, epsilon_of_gaussian(mu, delta) + 1e-9, delta)


def copied(epsilon: float) -> Null:
    """One record's response decides what is said of all: a model is right or wrong as a whole.

    Model m tells for every record its coin, or for every record the opposite, by one draw: every
    record alone is randomised response, and all records of a model fall together.
    """

    def scores(included: Any, rng: Rng) -> Any:
        right = rng.random((included.shape[0], 1)) < expit(epsilon)
        return np.where(right, included, ~included) + rng.normal(0, 0.01, included.shape)

    return Null(f"copied {epsilon}", scores, np.inf, 0.0)


def shaming(epsilon: float, delta: float, group: int) -> Null:
    """With probability delta units / group a model tells the coins of one group, all of them."""

    def scores(included: Any, rng: Rng) -> Any:
        models, units = included.shape
        told = np.where(rng.random(included.shape) < expit(epsilon), included, ~included) + 0.0
        for model in np.flatnonzero(rng.random(models) < delta * units / group):
            shown = rng.choice(units, group, replace=False)
            told[model, shown] = 3.0 * included[model, shown] - 1.0
        return told + rng.normal(0, 0.01, included.shape)

    return Null(f"shaming {epsilon}, {delta}, {group}", scores, epsilon, delta)


# --- trainings -----------------------------------------------------------------------------------


def numbered(count: int, features: int = 3, seed: int = 0) -> Data:
    """Records that carry their number in the first column, and a label of two classes."""
    rng = np.random.default_rng(seed)
    table = rng.normal(size=(count, features))
    table[:, 0] = np.arange(count)
    return Data(table, rng.integers(0, 2, count))


def responding(records: Data, rng: Rng) -> Any:
    """A "model" that holds each record's randomised response at epsilon 1, of 1,000 numbers."""
    present = np.zeros(1_000, dtype=bool)
    present[records.features[:, 0].astype(int)] = True
    told = np.where(rng.random(1_000) < expit(1.0), present, ~present)
    return told + rng.normal(0, 0.01, 1_000)


def looked_up(model: Any, records: Data) -> Any:
    return model[records.features[:, 0].astype(int)]


def remembering(records: Data, rng: Rng) -> Any:
    """A model that remembers all it has seen, behind a little noise."""
    present = np.zeros(1_000)
    present[records.features[:, 0].astype(int)] = 1.0
    return present + rng.normal(0, 0.1, 1_000)


def blurting(records: Data, rng: Rng) -> Any:
    """Three times in ten a model tells openly who was in; else noise."""
    told = remembering(records, rng)
    return told if rng.random() < 0.3 else rng.normal(-3, 0.1, 1_000)


class Responses:
    """Tells of any record whether it was in training, by randomised response."""

    def __init__(self, records: Data, rng: Rng, epsilon: float) -> None:
        self.present, self.salt = set(records.prints()), int(rng.integers(2**32))
        self.chance = expit(epsilon)

    def __call__(self, records: Data) -> Any:
        told = []
        for content in records.prints():
            own = np.random.default_rng([self.salt, *content])
            inside = content in self.present
            told.append(
                (inside if own.random() < self.chance else not inside) + own.normal(0, 0.01)
            )
        return np.array(told)


def responding_to_any(epsilon: float) -> Any:
    """A target of functions that no other process imports."""
    return (lambda records, rng: Responses(records, rng, epsilon)), (
        lambda model, records: model(records)
    )


# --- federated rounds: a client is in or out with all its records --------------------------------

CLIENTS, RECORDS, ROUNDS = 12, 3, 4


@dataclass
class Global:
    """The global model; ``iterates`` after each round, as whoever sees the secure sums has them."""

    weights: Any
    iterates: list[Any] = field(default_factory=list)


def rounds(records: Any, rng: np.random.Generator, noise: float = 1.0) -> Global:
    """Each round sums the clients' updates, clipped to 1, under noise for one client.

    All rounds together are sqrt(ROUNDS) / noise-GDP for a client in or out.
    """
    weights = np.zeros(CLIENTS)
    model = Global(weights, [Global(weights)])
    for _ in range(ROUNDS):
        total = rng.normal(0, noise, CLIENTS)
        for client in np.unique(records.unit_of):
            update = (records.features[records.unit_of == client] - model.weights).mean(axis=0)
            total += update / max(1.0, float(np.linalg.norm(update)))
        # The server forgets half of what it held, so that the last model alone tells less.
        model.weights = 0.5 * model.weights + 0.01 * total
        model.iterates.append(Global(model.weights))
    return model


def fit_of_client(model: Global, records: Data) -> Any:
    return (records.features * model.weights).sum(axis=1)


def clients() -> Data:
    """Each client holds three records of a direction of its own."""
    features = np.repeat(5.0 * np.eye(CLIENTS), RECORDS, axis=0)
    features += 0.01 * np.random.default_rng(0).normal(size=features.shape)
    return Data(features, units=np.repeat(np.arange(CLIENTS), RECORDS))


# --- DP-SGD, laid out as Opacus' DPOptimizer is: clip and accumulate, add noise, scale -----------


@dataclass
class Linear:
    """A logistic model, its bias last, with the iterates that led to it."""

    weights: Any
    iterates: list[Any] = field(default_factory=list)


def logits(model: Any, records: Data) -> Any:
    """Logits of two classes, (n, 2)."""
    margin = inputs(records) @ (model.weights if isinstance(model, Linear) else model)
    return np.stack([np.zeros_like(margin), margin], axis=1)


def inputs(records: Data) -> Any:
    return np.column_stack([records.features, np.ones(len(records))])


def loss_gradients(model: Any, records: Data) -> Any:
    """Gradients of the logistic loss, (n, features + 1)."""
    rows = inputs(records)
    margin = rows @ (model.weights if isinstance(model, Linear) else model)
    return (expit(margin) - np.asarray(records.labels))[:, None] * rows


@dataclass(frozen=True)
class DPOptimizer:
    """The right one: each record's gradient is clipped, noise is for the clipping norm, once."""

    noise_multiplier: float = 8.0
    max_grad_norm: float = 0.1
    expected_batch_size: int = 8
    steps: int = 10
    sample_rate: float = 1.0
    rate: float = 1.0
    start: tuple[float, ...] = ()
    keeps: bool = False

    def __call__(self, records: Data, rng: Rng) -> Linear:
        size = records.features.shape[1] + 1
        weights = np.array(self.start) if self.start else np.zeros(size)
        model = Linear(weights, [weights])
        for step in range(self.steps):
            for batch in self.batches(records, rng):
                gradients = loss_gradients(model.weights, batch)
                summed = self.clip_and_accumulate(gradients)
                noise = self.noise(step, size, rng)
                update = self.scale_grad(summed, noise, len(batch))
                model.weights = model.weights - self.rate * update
                if self.keeps:
                    model.iterates.append(model.weights)
        return model

    def batches(self, records: Data, rng: Rng) -> list[Data]:
        """Poisson batches; an empty one gets its noise all the same."""
        if self.sample_rate == 1:
            return [records]
        return [Empty(records).take(rng.random(len(records)) < self.sample_rate)]

    def clip_and_accumulate(self, gradients: Any) -> Any:
        lengths = np.linalg.norm(gradients, axis=1)
        factors = np.minimum(1, self.max_grad_norm / np.maximum(lengths, 1e-12))
        return factors @ gradients

    def noise(self, step: int, size: int, rng: Rng) -> Any:
        return rng.normal(0, self.noise_multiplier * self.max_grad_norm, size)

    def scale_grad(self, summed: Any, noise: Any, batch: int) -> Any:
        return (summed + noise) / self.expected_batch_size


class Empty:
    """Batches of a data set that may be empty."""

    def __init__(self, records: Data) -> None:
        self.records = records

    def take(self, rows: Any) -> Any:
        if rows.any():
            return self.records.take(rows)
        width = self.records.features.shape[1]

        class Nothing:
            features = np.zeros((0, width))
            labels = np.zeros(0)

            def __len__(self) -> int:
                return 0

        return Nothing()


class NoClipping(DPOptimizer):
    def clip_and_accumulate(self, gradients: Any) -> Any:
        return gradients.sum(axis=0)


class ClipsTheBatch(DPOptimizer):
    """clip_grad_norm_ of the mean gradient, noise as if each record had been clipped."""

    def clip_and_accumulate(self, gradients: Any) -> Any:
        mean = gradients.mean(axis=0)
        factor = min(1.0, self.max_grad_norm / max(float(np.linalg.norm(mean)), 1e-12))
        return mean * factor * self.expected_batch_size


class NoiseOverBatchTwice(DPOptimizer):
    def scale_grad(self, summed: Any, noise: Any, batch: int) -> Any:
        return (summed + noise / self.expected_batch_size) / self.expected_batch_size


class OneNoiseForAllSteps(DPOptimizer):
    """Every step makes its generator from the same seed."""

    def __call__(self, records: Data, rng: Rng) -> Linear:
        object.__setattr__(self, "_seed", int(rng.integers(2**62)))
        return super().__call__(records, rng)

    def noise(self, step: int, size: int, rng: Rng) -> Any:
        seed: int = self._seed  # type: ignore[attr-defined]
        return super().noise(step, size, np.random.default_rng(seed))


class SamplesNothing(DPOptimizer):
    """Accounted at a sampling rate; every step takes all records."""

    def batches(self, records: Data, rng: Rng) -> list[Data]:
        return [records]


class Sequential(DPOptimizer):
    """Right: batches one after the other, each divided by the nominal size."""

    def batches(self, records: Data, rng: Rng) -> list[Data]:
        size = self.expected_batch_size
        # What came last is last: background first, the audited record at the end.
        order = np.arange(len(records))[::-1]
        return [records.take(order[k : k + size]) for k in range(0, len(records), size)]


class LastPartialBatch(Sequential):
    """A smaller last batch is averaged over its own size, with noise for a whole one."""

    def scale_grad(self, summed: Any, noise: Any, batch: int) -> Any:
        return summed / batch + noise / self.expected_batch_size


class NormTwice(DPOptimizer):
    def noise(self, step: int, size: int, rng: Rng) -> Any:
        return super().noise(step, size, rng) * self.max_grad_norm


class BiasNotClipped(DPOptimizer):
    """A group of parameters that the clipping forgot."""

    def clip_and_accumulate(self, gradients: Any) -> Any:
        clipped = super().clip_and_accumulate(gradients[:, :-1])
        return np.append(clipped, gradients[:, -1].sum())


class BiasWithoutNoise(DPOptimizer):
    def noise(self, step: int, size: int, rng: Rng) -> Any:
        found = super().noise(step, size, rng)
        found[-1] = 0.0
        return found


class NoiseOnce(DPOptimizer):
    def noise(self, step: int, size: int, rng: Rng) -> Any:
        return super().noise(step, size, rng) * (step == 0)


BUGS: dict[str, tuple[type[DPOptimizer], type[DPOptimizer], dict[str, Any]]] = {
    "no clipping": (NoClipping, DPOptimizer, {}),
    "the batch is clipped": (ClipsTheBatch, DPOptimizer, {}),
    "noise over the batch size twice": (NoiseOverBatchTwice, DPOptimizer, {}),
    "one noise for all steps": (OneNoiseForAllSteps, DPOptimizer, {"keeps": True}),
    "sampling that does not happen": (
        SamplesNothing,
        DPOptimizer,
        {"sample_rate": 0.1, "noise_multiplier": 2.0},
    ),
    "last partial batch": (LastPartialBatch, Sequential, {}),
    "clipping norm twice": (NormTwice, DPOptimizer, {}),
    "bias not clipped": (BiasNotClipped, DPOptimizer, {"max_grad_norm": 0.02}),
    "bias without noise": (BiasWithoutNoise, DPOptimizer, {}),
    "noise in the first step only": (
        NoiseOnce,
        DPOptimizer,
        {"steps": 40, "noise_multiplier": 16.0},
    ),
}


def background(count: int = 8, features: int = 4) -> Data:
    """Records of two classes, as many of each, with nothing in the first column."""
    rng = np.random.default_rng(7)
    table = rng.normal(size=(count, features))
    table[:, 0] = 0
    return Data(table, np.arange(count) % 2)


def canary(bug: str, features: int = 4) -> Data:
    """A record with a coordinate of its own and a long gradient; blank where the bias is at fault.

    A blank record's gradient is in the bias alone, and still longer than the clipping norm.
    """
    table = np.zeros((1, features))
    table[0, 0] = 0.0 if bug.startswith("bias") else 5.0
    return Data(table, np.array([1]))
