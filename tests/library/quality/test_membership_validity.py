"""How often membership bounds exceed the truth: 1,000 audits of mechanisms of known epsilon each.

A bound at error 5% may exceed the truth in at most 5% of audits; two standard errors more are
allowed, which a bound whose error is exactly 5% exceeds in 2.3% of seeds.  Bounds of pooled coins
are exact nowhere but at randomised response, where all coins are guessed; the seed is fixed.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpaudit.audit.canaries.terms import CanaryTerms
from dpaudit.audit.verdict import Verdict
from dpaudit.families.opaque import ApproxDP, PureDP
from dpaudit.membership import Study
from dpaudit.membership.bounds import Known, bound_of
from tests.support.membership import (
    Null,
    gaussian,
    laplace,
    looked_up,
    numbered,
    responding,
    response,
    shaming,
    shared,
)

ERROR, AUDITS, STUDIES = 0.05, 1_000, 200
MODELS, UNITS = 8, 40
NULLS = [
    response(0.0),
    response(1.0),
    response(3.0),
    laplace(1.0),
    gaussian(1.0, 1e-3),
    shared(1.0, 1e-3),
    shared(0.3, 0.05),
    shaming(1.0, 1e-3, 20),
]


def limit(audits: int) -> float:
    return ERROR + 2 * math.sqrt(ERROR * (1 - ERROR) / audits)


@pytest.mark.parametrize("null", NULLS, ids=str)
def test_a_bound_on_a_true_claim_exceeds_it_no_more_often_than_stated(null: Null) -> None:
    target = CanaryTerms.of(ApproxDP(0, null.delta), 0.95, 1e-4, 0).target
    rng = np.random.default_rng(18)
    half, wrong = MODELS // 2, 0
    for audit in range(AUDITS):
        included = rng.random((MODELS, UNITS)) < 0.5
        scores = null.scores(included, rng)
        known = Known(scores[:half], included[:half])
        found = bound_of(known, scores[half:], included[half:], target, ERROR, audit)
        wrong += found.value > null.epsilon
    assert wrong / AUDITS <= limit(AUDITS)


@pytest.mark.parametrize(("models", "units"), [(400, 1), (40, 3)])
def test_few_records_in_many_runs(models: int, units: int) -> None:
    null, rng = response(1.0), np.random.default_rng(19)
    target = CanaryTerms.of(PureDP(0), 0.95, 1e-4, 0).target
    half, wrong = models // 2, 0
    for audit in range(AUDITS):
        included = rng.random((models, units)) < 0.5
        scores = null.scores(included, rng)
        known = Known(scores[:half], included[:half])
        found = bound_of(known, scores[half:], included[half:], target, ERROR, audit)
        wrong += found.value > null.epsilon
    assert wrong / AUDITS <= limit(AUDITS)


@pytest.mark.parametrize("look", [0, 5])
def test_whole_studies_of_a_true_claim(look: int) -> None:
    """200 studies with training, attacks and choices: the bound shown, and no refutation."""
    wrong = refuted = 0
    for seed in range(STUDIES):
        study = Study((responding, looked_up), numbered(40), 8, seed=seed, look=look)
        found = study.run(claim=PureDP(1), attacks="loss,lira", refute_at=1e-3)
        assert found.bound is not None
        wrong += found.bound.value > 1
        refuted += found.verdict is Verdict.REFUTED
    assert wrong / STUDIES <= limit(STUDIES)
    assert refuted <= 2
