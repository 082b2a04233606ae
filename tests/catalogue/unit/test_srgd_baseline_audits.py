"""Audits of Accelerated-DP-SRGD's baselines: they attack the catalogue's declarations, tightly."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest

from audits import srgd_baselines as audits
from dpaudit.accountant.claim import Claim, Outcome
from dpaudit.audit.suite import Suite
from dpaudit.certificate.order import Order
from dpaudit.families.opaque import GDP
from dpaudit.nodes import Node
from tests.support.claims import number, value
from tests.support.kernels import replayer, sampled
from tests.support.planted import judged_by_its_suite
from tests.support.srgd_baselines import (
    CATALOGUE,
    SUITES,
)


@pytest.mark.parametrize("name", sorted(SUITES))
def test_a_suite_attacks_the_declaration_of_its_mechanism(name: str) -> None:
    mechanism, suite = CATALOGUE[name], SUITES[name]
    assert suite.program.declaration(mechanism.scope) == mechanism.declaration


TIGHT = ["accelerated_dp_sgd", "dp_sgd_one_pass", "dp_ftrl", "dp_online_to_batch",
         "phased_sgd", "phased_erm", "phased_erm_in_batches"]  # fmt: skip


@cache
def derived_mu(node: Node, adjacency: str) -> float:
    return number(value(node, "gdp", adjacency))


@pytest.mark.first_case
@pytest.mark.parametrize("name", TIGHT)
def test_scores_of_the_worst_case_have_the_accounted_mean(name: str) -> None:
    """+-mu^2/2 within 5 standard errors at mu about 1 (false alarms 1e-6), 2,000 trials a side."""
    mechanism, suite = CATALOGUE[name], SUITES[name]
    program: Any = suite.program
    small = replace(program, noise_multiplier=program.noise_multiplier / 4)
    mu = derived_mu(small.declaration(mechanism.scope), str(mechanism.scope.adjacency))
    # One percent of phased ERM's sensitivity is for its solver, which is exact on this loss.
    mu *= 200 / 201 if name.startswith("phased_erm") else 1
    assert 0.4 < mu < 1.0
    for own, records in enumerate(suite.neighbours.pair):
        transcript = sampled(small, records, mechanism.scope, seed=own, trials=2000).transcript
        replay = replayer(small, suite.neighbours.pair, mechanism.scope).inspect(transcript, own)
        assert (replay.attack, replay.violations) == ("exact", ())
        expected = mu**2 / 2 * (1 - 2 * own)
        assert abs(replay.scores.mean() - expected) < 5 * mu / 2000**0.5
        assert replay.scores.std() == pytest.approx(mu, rel=0.1)


@pytest.mark.first_case
@pytest.mark.parametrize("name", ["dp_sgd_poisson", "localized_accelerated_dp_sgd"])
def test_scores_of_secret_batches_are_exact_log_likelihood_ratios(name: str) -> None:
    """E_D[exp(-score)] = 1 within 5 standard errors (false alarms 1e-6); the attack sees a lot."""
    mechanism, suite = CATALOGUE[name], SUITES[name]
    sampler = sampled(suite.program, suite.neighbours.first, mechanism.scope, seed=1, trials=2000)
    replay = replayer(suite.program, suite.neighbours.pair, mechanism.scope).inspect(
        sampler.transcript, own=0
    )
    assert (replay.attack, replay.violations) == ("exact", ())
    ratios = np.exp(-replay.scores)
    assert abs(ratios.mean() - 1) < 5 * ratios.std() / 2000**0.5 < 0.2
    assert replay.scores.mean() > 0.01


def test_suites_are_of_correct_implementations() -> None:
    assert all(isinstance(s, Suite) and not s.caught_by and not s.kernels for s in audits.suites)


@pytest.mark.parametrize("name", ["dp_ftrl", pytest.param("phased_erm", marks=pytest.mark.quality)])
@pytest.mark.quality
def test_the_lower_bound_on_mu_is_near_a_claim_of_one(name: str) -> None:
    """At mu = 1 and 10,000 trials a side the lens finds .92 or more, and no more than 1.

    At 95% a correct mechanism exceeds its mu in 1 run of 20; this seed does not.
    """
    mechanism, suite = CATALOGUE[name], SUITES[name]
    mu = derived_mu(mechanism.declaration, str(mechanism.scope.adjacency))
    program: Any = suite.program
    louder = replace(program, noise_multiplier=program.noise_multiplier * Fraction(mu))
    claims = (Claim(GDP(1 + Fraction(1, 10**9)), by="here"),)
    one = replace(mechanism, program=louder, claims=claims, records=None, evaluate=None)
    alone = replace(suite, program=louder, trials=10_000, also=())
    order = Order(one, alone, "project", {"a.py": "0" * 64})
    (judged,) = judged_by_its_suite(order, seed=3).judged
    assert judged.checked.outcome is Outcome.PROVED
    assert judged.lower is not None
    assert 0.92 <= judged.lower.shown <= 1
