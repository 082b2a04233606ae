"""Federated rounds: a client is in or out with all its records; secure sums may be seen or not."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from dpaudit.membership import Data, FunctionTarget, Released, Study

CLIENTS, RECORDS, ROUNDS = 12, 3, 4


@dataclass
class Global:
    """The global model; ``iterates`` after each round, as whoever sees the secure sums has them."""

    weights: Any
    iterates: list[Any] = field(default_factory=list)


def rounds(records: Any, rng: np.random.Generator) -> Global:
    """Each round sums the clients' updates, clipped to 1, under noise for one client."""
    weights = np.zeros(CLIENTS)
    model = Global(weights, [Global(weights)])
    for _ in range(ROUNDS):
        total = rng.normal(0, 1.0, CLIENTS)
        for client in np.unique(records.unit_of):
            update = (records.features[records.unit_of == client] - model.weights).mean(axis=0)
            total += update / max(1.0, float(np.linalg.norm(update)))
        # The server forgets half of what it held, so that the last model alone tells less.
        model.weights = 0.5 * model.weights + 0.01 * total
        model.iterates.append(Global(model.weights))
    return model


def fit_of(model: Global, records: Data) -> Any:
    return (records.features * model.weights).sum(axis=1)


def clients() -> Data:
    """Each client holds three records of a direction of its own."""
    features = np.repeat(5.0 * np.eye(CLIENTS), RECORDS, axis=0)
    features += 0.01 * np.random.default_rng(0).normal(size=features.shape)
    return Data(features, units=np.repeat(np.arange(CLIENTS), RECORDS))


def auc(released: Released) -> float:
    target = FunctionTarget(rounds, fit_of, released, "federated rounds")
    study = Study(target, clients(), 60, Data(np.zeros((2, CLIENTS))), seed=1)
    trained = study.train(repeated=False)
    assert trained.included.shape == (60, CLIENTS)  # a coin for each client and model
    signal = "path" if released is Released.ITERATES else "fit"
    by_client = trained.signals[signal].reshape(60, CLIENTS, RECORDS).sum(axis=2)
    inside, outside = by_client[trained.included], by_client[~trained.included]
    return float((inside[:, None] > outside[None, :]).mean())


def test_whoever_sees_the_rounds_sums_tells_clients_better_than_from_the_last_model() -> None:
    """Fixed seed; 60 models of 12 clients."""
    final, seen = auc(Released.SCORES), auc(Released.ITERATES)
    assert 0.6 < final < seen


@pytest.mark.quality
def test_a_claim_of_less_than_the_rounds_cost_is_refuted() -> None:
    import dpaudit as dp

    target = FunctionTarget(rounds, fit_of, Released.ITERATES, "federated rounds")
    study = Study(target, clients(), 200, Data(np.zeros((2, CLIENTS))), seed=2)
    found = study.run(claim=dp.ApproxDP("0.1", "1e-5"), attacks="lira_path")
    assert str(found.verdict) == "refuted", str(found)
