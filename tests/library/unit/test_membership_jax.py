"""JAX by the same protocol: DP-SGD of per-record gradients, right and without clipping.

Left out where jax is not installed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import pytest

from dpaudit.audit.verdict import Verdict
from dpaudit.families.opaque import GDP
from dpaudit.membership import Data, FunctionTarget, Released, Study
from tests.support.membership import numbered

jax = pytest.importorskip("jax", reason="jax is not installed")

MODELS = 240
STEPS, MU = 2, 1.0
# One step of noise sigma and clipping norm 1 is 1/sigma-GDP under add_remove, and STEPS of them MU.
SIGMA = STEPS**0.5 / MU
WIDTH, HELD = 3, 12


def loss(weights: Any, row: Any, label: Any) -> Any:
    """Of a logistic model with a bias, the label 0 or 1."""
    logit = row @ weights[:-1] + weights[-1]
    return jax.numpy.logaddexp(0.0, logit) - label * logit


gradients = jax.jit(jax.vmap(jax.grad(loss), in_axes=(None, 0, 0)))


@jax.jit
def step(weights: Any, rows: Any, labels: Any, present: Any, limit: Any, key: Any) -> Any:
    """A noisy sum of clipped gradients: of ``HELD`` rows, so that one compilation serves all."""
    found = gradients(weights, rows, labels)
    sizes = jax.numpy.linalg.norm(found, axis=1, keepdims=True)
    clipped = found * jax.numpy.minimum(1.0, limit / jax.numpy.maximum(sizes, 1e-9))
    noise = SIGMA * jax.random.normal(key, weights.shape)
    return weights - 0.5 * ((clipped * present[:, None]).sum(axis=0) + noise)


@dataclass
class Model:
    weights: Any
    iterates: list[Any] = field(default_factory=list)


def fit(records: Data, rng: np.random.Generator, limit: float = 1.0) -> Model:
    rows, labels = np.zeros((HELD, WIDTH)), np.zeros(HELD)
    rows[: records.features.shape[0]] = records.features
    labels[: records.features.shape[0]] = records.labels
    present = np.arange(HELD) < records.features.shape[0]
    weights = jax.numpy.zeros(WIDTH + 1)
    iterates = [Model(weights)]
    for key in jax.random.split(jax.random.key(int(rng.integers(2**31))), STEPS):
        weights = step(weights, rows, labels, present, limit, key)
        iterates.append(Model(weights))
    return Model(weights, iterates)


def score(model: Model, records: Data) -> Any:
    logit = jax.numpy.asarray(records.features) @ model.weights[:-1] + model.weights[-1]
    return jax.numpy.stack([-logit / 2, logit / 2], axis=1)


def gradient(model: Model, records: Data) -> Any:
    return gradients(model.weights, records.features, records.labels)


def without_clipping(records: Data, rng: np.random.Generator) -> Model:
    return fit(records, rng, limit=1e9)


@cache
def data() -> Data:
    """Small records of which the first is far out: where nothing clips, it moves the model most."""
    records = numbered(8, WIDTH)
    features = records.features / 100
    features[0] = [20.0, 0.0, 0.0]
    return Data(features, np.arange(8) % 2)


def audited(fitted: Any, released: Released, attack: str, models: int) -> Any:
    target = FunctionTarget(
        fitted, score, released, "DP-SGD in JAX", gradient, lambda model: model.weights
    )
    far, others = data().take(np.arange(1)), data().take(np.arange(1, 8))
    study = Study(target, far, models, background=others, seed=1, references=0.25)
    return study.run(claim=GDP(MU), attacks=attack, refute_at=1e-3)


@pytest.mark.quality
@pytest.mark.parametrize(
    ("released", "attack"), [(Released.SCORES, "lira"), (Released.ITERATES, "lira_steps")]
)
def test_training_without_clipping_is_refuted_and_its_right_twin_is_not(
    released: Released, attack: str
) -> None:
    """At an error of 1e-3 each; the seed is fixed."""
    right = audited(fit, released, attack, MODELS)
    assert right.verdict is Verdict.INCONCLUSIVE, str(right)
    wrong = audited(without_clipping, released, attack, MODELS)
    assert wrong.verdict is Verdict.REFUTED, str(wrong)


def test_what_jax_computes_reaches_the_attacks_as_numbers() -> None:
    """Gradients are those by hand, (probability - label)(features, 1), and the seed fixes all."""
    model = fit(data(), np.random.default_rng(3))
    again = fit(data(), np.random.default_rng(3))
    assert (np.asarray(model.weights) == np.asarray(again.weights)).all()
    logit = np.asarray(score(model, data()))[:, 1] * 2
    residual = 1 / (1 + np.exp(-logit)) - np.asarray(data().labels)
    by_hand = residual[:, None] * np.column_stack([data().features, np.ones(8)])
    assert np.allclose(np.asarray(gradient(model, data())), by_hand, atol=1e-4)
    assert len(model.iterates) == STEPS + 1
    target = FunctionTarget(
        fit, score, Released.ITERATES, "DP-SGD in JAX", gradient, lambda model: model.weights
    )
    whole = Study(target, data(), 8, seed=2).run()
    assert {"lira", "lira_steps", "influence", "gradient_norm"} <= set(whole.attacks)
    assert whole.bound is not None
