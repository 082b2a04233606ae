"""Reconstruction and attribute inference, beside the rate that a guarantee allows."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import dpaudit as dp
from dpaudit.audit.verdict import Verdict
from dpaudit.errors import InvalidParameter
from dpaudit.membership import Data, allowed_rate, audit_reconstruction, with_values
from dpaudit.membership import reconstruction as module

OTHERS = Data(np.zeros((5, 3)), np.zeros(5, dtype=int))
CANDIDATES = Data(np.eye(3), np.zeros(3, dtype=int))
MU = 1.5


def noisy_sum(records: Data, rng: Any) -> Any:
    """mu-GDP under add/remove: each record's norm is at most 1."""
    return records.features.sum(axis=0) + rng.normal(0, 1 / MU, 3)


def plain_sum(records: Data, rng: Any) -> Any:
    return records.features.sum(axis=0)


def along(model: Any, records: Data) -> Any:
    return records.features @ model


def test_the_allowed_rate_is_that_of_the_trade_off_function() -> None:
    """GDP: Phi(Phi^-1(1/K) + mu); (epsilon, delta): the least of its three lines."""
    from scipy.stats import norm

    assert allowed_rate(dp.GDP("1.5"), 10) == pytest.approx(norm.cdf(norm.ppf(0.1) + 1.5), abs=1e-6)
    epsilon, delta = 1.0, 1e-5
    lines = (math.exp(epsilon) / 10 + delta, 1 - math.exp(-epsilon) * (1 - delta - 0.1))
    assert min(lines) <= allowed_rate(dp.ApproxDP(1, "1e-5"), 10) <= min(lines) + 1e-3


@pytest.mark.quality
def test_a_right_training_stays_below_the_bound_and_one_without_noise_does_not() -> None:
    """At error 1e-4; the bound on three candidates at mu 1.5 is 0.86."""
    account = dp.account(dp.Gaussian("sum", noise_multiplier="2/3"), "add_remove")
    right = audit_reconstruction(
        (noisy_sum, along), OTHERS, CANDIDATES, claim=account, models=400, seed=1
    )
    assert right.verdict is Verdict.INCONCLUSIVE
    assert 1 / 3 < right.lower < right.rate < right.allowed
    wrong = audit_reconstruction(
        (plain_sum, along), OTHERS, CANDIDATES, claim=account, models=400, seed=1
    )
    assert wrong.verdict is Verdict.REFUTED
    assert wrong.rate == 1
    assert "refuted: 200 of 200 candidates guessed" in str(wrong)


def test_a_private_attribute_is_guessed_from_a_noiseless_sum() -> None:
    record = Data(np.array([[0.0, 1.0, 0.0]]), np.array([0]))
    candidates = with_values(record, 2, [0.0, 0.25, 0.5, 0.75])
    found = audit_reconstruction((plain_sum, squared), OTHERS, candidates, models=80, seed=2)
    assert found.verdict is None
    assert found.rate > 0.9


def squared(model: Any, records: Data) -> Any:
    return -((records.features - model) ** 2).sum(axis=1)


@pytest.mark.quality
def test_guesses_that_see_the_answer_would_break_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """The attack is given no target's candidate: with it, a right training is refuted."""
    plain = module._guesses

    def told(fits: Any, included: Any, half: int, candidates: Data) -> Any:
        plain(fits, included, half, candidates)
        return np.argmax(included[half:], axis=1)

    monkeypatch.setattr(module, "_guesses", told)
    found = audit_reconstruction(
        (noisy_sum, along), OTHERS, CANDIDATES, claim=dp.GDP(MU), models=400, seed=1
    )
    assert found.verdict is Verdict.REFUTED


@pytest.mark.parametrize("audits", [300, pytest.param(4_000, marks=pytest.mark.quality)])
def test_the_rate_exceeds_what_a_true_claim_allows_no_more_often_than_stated(audits: int) -> None:
    """The best attack of a Gaussian mechanism on two candidates; 5% and three deviations."""
    allowed = allowed_rate(dp.GDP(MU), 2)
    rng = np.random.default_rng(3)
    wrong = 0
    for _ in range(audits):
        correct = int(rng.binomial(100, allowed))
        found = module._judged(correct, 100, 2, None, 0.95, 1e-4)
        wrong += found.lower > allowed
    assert wrong / audits <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / audits)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"candidates": CANDIDATES.take(np.array([0]))}, "two or more"),
        ({"candidates": CANDIDATES.take(np.array([0, 0]))}, "that differ"),
        ({"models": 3}, "models = 3"),
        ({"candidates": Data(np.eye(4), np.zeros(4, dtype=int))}, "shape"),
    ],
    ids=["one", "twice", "models", "shape"],
)
def test_bad_input_is_refused_before_training(change: dict[str, Any], said: str) -> None:
    given: dict[str, Any] = {"candidates": CANDIDATES, "models": 20} | change
    with pytest.raises(InvalidParameter, match=said):
        audit_reconstruction((broken, along), OTHERS, **given)


def broken(records: Data, rng: Any) -> Any:
    raise ValueError("bad shape")


def test_a_training_that_fails_is_named_after_its_first_model() -> None:
    with pytest.raises(InvalidParameter, match=r"test_membership_reconstruction.py.*ValueError"):
        audit_reconstruction((broken, along), OTHERS, CANDIDATES, models=20)


def test_columns_that_are_not_there_are_refused() -> None:
    record = CANDIDATES.take(np.array([0]))
    with pytest.raises(InvalidParameter, match="column = 7"):
        with_values(record, 7, [0.0, 1.0])
    with pytest.raises(InvalidParameter, match="record: shape"):
        with_values(replace(CANDIDATES), 0, [0.0, 1.0])
