"""Federated rounds: a client is in or out with all its records; secure sums may be seen or not."""

from __future__ import annotations

import numpy as np
import pytest

from dpaudit.membership import Data, FunctionTarget, Released, Study
from tests.support.membership import CLIENTS, RECORDS, clients, fit_of_client, rounds


def auc(released: Released) -> float:
    target = FunctionTarget(rounds, fit_of_client, released, "federated rounds")
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

    target = FunctionTarget(rounds, fit_of_client, Released.ITERATES, "federated rounds")
    study = Study(target, clients(), 200, Data(np.zeros((2, CLIENTS))), seed=2)
    found = study.run(claim=dp.ApproxDP("0.1", "1e-5"), attacks="lira_path")
    assert str(found.verdict) == "refuted", str(found)
