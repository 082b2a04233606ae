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


@dataclass
class Linear:
    """A linear model with the iterates that led to it."""

    weights: Any
    iterates: list[Any] = field(default_factory=list)
