"""Means of an estimated log density ratio against claims of zCDP and of Renyi divergences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.random import Generator

from dpaudit.audit import audit_function
from dpaudit.audit.blackbox.claims import EventTest
from dpaudit.audit.blackbox.divergence import (
    DIVERGENCE_SHARE,
    Asked,
    Divergence,
    divergence,
    scores_of,
)
from dpaudit.audit.blackbox.draws import TestDraws, TrainingDraws, read_output
from dpaudit.audit.blackbox.events import OwnScore
from dpaudit.audit.bounds.estimators import TestScores
from dpaudit.audit.bounds.variational import renyi_lower, renyi_p_value
from dpaudit.audit.verdict import Verdict
from dpaudit.errors import InvalidParameter
from dpaudit.families.opaque import GDP, ZCDP, ApproxDP, PureDP, RenyiDP
from dpaudit.nodes import Node

TRAINING, TEST = 1_000, 4_000


def gaussian(mu: float) -> Any:
    """mu-GDP between data 0 and 1: rho = mu^2 / 2, and D_a = a mu^2 / 2."""
    return lambda data, rng, size: data * mu + rng.normal(0, 1, size)


def several(data: float, rng: Generator, size: int) -> Any:
    """Three outputs, of which two move: mu = 1 together, rho = 1/2."""
    return data * np.array([0.6, 0.0, 0.8]) + rng.normal(0, 1, (size, 3))


def drawn(mechanism: Any, data: float, rng: Generator, size: int, kind: Any) -> Any:
    draws = read_output(mechanism(data, rng, size), size, "here")
    return kind(draws.values, draws.about)


def asked(
    mechanism: Any, claim: Node, seed: int, own: Any = None, error: float = 1e-3
) -> Divergence | None:
    rng = np.random.default_rng([seed, 0])
    sides = [drawn(mechanism, data, rng, TRAINING, TrainingDraws) for data in (0.0, 1.0)]
    return divergence(own, sides[0], sides[1], EventTest.of(claim), TEST, error)


def judged(mechanism: Any, found: Divergence, seed: int, size: int = TEST) -> TestScores:
    rng = np.random.default_rng([seed, 1])
    sides = [drawn(mechanism, data, rng, size, TestDraws) for data in (0.0, 1.0)]
    return TestScores(*(scores_of(found.score, side, 10**6) for side in sides))


# --- validity ------------------------------------------------------------------------------------


@pytest.mark.quality
@pytest.mark.first_case
@pytest.mark.parametrize(
    ("mechanism", "claim"),
    [
        (gaussian(1.0), ZCDP(0.5)),
        (gaussian(1.0), RenyiDP(2, 1)),
        (gaussian(0.0), ZCDP(1e-9)),
        (several, ZCDP(0.5)),
    ],
)
def test_true_claims_are_refuted_no_more_often_than_stated(mechanism: Any, claim: Node) -> None:
    """30 runs at a true claim, at error 0.1 each: 12 refutations or more have chance 3e-5."""
    refuted = wrong = 0
    for seed in range(30):
        found = asked(mechanism, claim, seed)
        if found is not None:
            test = judged(mechanism, found, seed)
            claimed = EventTest.of(claim).claimed
            refuted += found.p_value(test, claimed) <= 0.1
            wrong += found.lower(test, 0.1) > claimed
    assert refuted <= 11
    assert wrong <= 11


def test_scores_and_bets_do_not_look_at_test_draws() -> None:
    """Every test draw is scored alike, in whatever company."""
    found = asked(several, ZCDP(0.4), 1)
    assert found is not None
    draws = drawn(several, 0.0, np.random.default_rng(2), 100, TestDraws)
    whole = scores_of(found.score, draws, 100)
    assert whole.tolist() == [scores_of(found.score, draws.rows([i]), 1)[0] for i in range(100)]
    assert scores_of(found.score, draws, 30).tolist() == whole[:30].tolist()
    assert scores_of(found.score, draws, 0).size == 0


def test_a_p_value_and_a_lower_bound_say_the_same() -> None:
    found = asked(gaussian(1.0), ZCDP(0.3), 3)
    assert found is not None
    test = judged(gaussian(1.0), found, 3)
    for error in (0.05, 1e-4):
        bound = renyi_lower(test, found.witness, error)
        assert bound > 0.2
        assert renyi_p_value(test, found.witness, bound * (1 - 1e-5)) <= error
        assert renyi_p_value(test, found.witness, bound * (1 + 1e-5)) > error
    claims = np.linspace(0, 1, 50)
    p_values = [renyi_p_value(test, found.witness, c) for c in claims]
    assert p_values == sorted(p_values)
    assert max(p_values) <= 1


@pytest.mark.parametrize("claimed", [-0.1, float("nan"), float("inf")])
def test_a_claim_is_a_number(claimed: float) -> None:
    found = asked(gaussian(1.0), ZCDP(0.3), 3)
    assert found is not None
    with pytest.raises(InvalidParameter, match="claimed"):
        renyi_p_value(judged(gaussian(1.0), found, 3), found.witness, claimed)


def test_a_share_of_the_error_is_paid_for() -> None:
    found = asked(gaussian(1.0), ZCDP(0.3), 3)
    assert found is not None
    mean = Asked(found, judged(gaussian(1.0), found, 3))
    assert mean.weighted_p(0.4) == found.p_value(mean.test, 0.4) / DIVERGENCE_SHARE
    assert mean.lower(0.05) == found.lower(mean.test, 0.05 * DIVERGENCE_SHARE)
    assert mean.lower(0.05) < found.lower(mean.test, 0.05)


# --- what it is good for -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "claim", [PureDP(1), ApproxDP(1, 1e-5), GDP(1), RenyiDP(2 * 10**4, 1)], ids=str
)
def test_other_claims_bound_no_mean(claim: Node) -> None:
    assert asked(gaussian(1.0), claim, 1) is None


def test_what_promises_nothing_is_not_asked() -> None:
    """Its share of the error is left to the events."""
    assert asked(gaussian(0.01), ZCDP(0.5), 1) is None


@pytest.mark.parametrize(("mechanism", "least"), [(gaussian(1.0), 0.38), (several, 0.32)])
def test_most_of_rho_is_shown(mechanism: Any, least: float) -> None:
    """Of 0.5, at 95%, by 1,000 draws a side to fit the score and 20,000 to test it."""
    found = asked(mechanism, ZCDP(0.45), 5)
    assert found is not None
    bound = found.lower(judged(mechanism, found, 5, 20_000), 0.05)
    assert least < bound < 0.5


def test_an_own_score_of_any_scale_is_calibrated() -> None:
    own = OwnScore(lambda x: -1e6 * x**3)
    found = asked(gaussian(1.0), ZCDP(0.4), 7, own)
    assert found is not None
    assert "the score <lambda>" in found.score.words
    assert 0.38 < found.lower(judged(gaussian(1.0), found, 7, 20_000), 0.05) < 0.5


@pytest.mark.quality
def test_a_claim_that_no_single_event_refutes() -> None:
    """rho = 1/2: with 20,000 draws a side the best event would refute 0.41 or less."""
    given: dict[str, Any] = {"trials": 20_000, "seed": 1}
    result = audit_function(gaussian(1.0), 0.0, 1.0, claim=ZCDP(0.43), **given)
    assert result.verdict is Verdict.REFUTED
    assert "means of the log density ratio of output 0 differ by more than" in result.reason
    assert 0.43 < result.lower < 0.5
    true = audit_function(gaussian(1.0), 0.0, 1.0, claim=ZCDP(0.5), **given)
    assert true.verdict is Verdict.INCONCLUSIVE
    again = audit_function(gaussian(1.0), 0.0, 1.0, claim=ZCDP(0.43), **given)
    assert (again.p_value, again.lower) == (result.p_value, result.lower)


@pytest.mark.quality
def test_outputs_that_are_missing_or_infinite_are_scored_too() -> None:
    def odd(data: float, rng: Generator, size: int) -> Any:
        drawn = rng.random(size)
        return np.where(drawn < 0.2 + 0.5 * data, np.nan, np.where(drawn < 0.9, 1.0, np.inf))

    result = audit_function(odd, 0.0, 1.0, claim=ZCDP(0.3), trials=20_000, seed=1)
    assert result.verdict is Verdict.REFUTED
