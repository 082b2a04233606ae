"""Planted bugs in outlier removal and threshold tests: who catches them; twins stay quiet.

False alarms of the twins: at most 1e-4 each, the decision error of a run.
"""

from __future__ import annotations

from typing import Any

import pytest

from audits import user_level as audits
from audits.broken import user_level as broken
from audits.broken import user_level_programs as programs
from dpaudit.account import Account
from dpaudit.audit.attack import Attacked, attack
from dpaudit.audit.observed import attack_observed
from dpaudit.audit.suite import Suite
from dpaudit.audit.verdict import (
    DecisionBudget,
    Judged,
    Verdict,
    bounds_of,
    deltas,
    judge,
    lens,
    raw,
)
from dpaudit.errors import InvalidParameter
from dpaudit.mechanism import Mechanism
from dpaudit.nodes import NonPrivate
from dpaudit.query import Array
from mechanisms.user_level import catalogue
from mechanisms.user_level.catalogue import SLOT_DELTA
from mechanisms.user_level.constants import ReleaseConstants
from mechanisms.user_level.readings import Halted

SEED = 20_241_023
PLACES = {**vars(broken), **vars(programs)}
SUITES = {k: v for k, v in PLACES.items() if isinstance(v, Suite)}
BENCHES = {m.name: m for m in PLACES.values() if isinstance(m, Mechanism)}
PLANTED = [name for name, suite in SUITES.items() if suite.caught_by]
TWINS = [name for name in SUITES if name not in PLANTED]
AUDITS = {k: v for k, v in vars(audits).items() if isinstance(v, Suite)}


def run(mechanism: Mechanism, suite: Suite) -> tuple[Attacked, list[Judged]]:
    attacked = attack(mechanism, suite, seed=SEED, error=5e-5)
    budget = DecisionBudget(bounds_of(mechanism.claims), 1)
    account = Account(mechanism.declaration, mechanism.scope)
    found = []
    for claim, delta in zip(mechanism.claims, deltas(mechanism.claims), strict=True):
        bounds = lens(attacked, budget), raw(attacked, budget, delta)
        found.append(judge(claim.check_account(account), account, *bounds, attacked, ()))
    return attacked, found


def test_eighteen_bugs_are_planted() -> None:
    assert len(PLANTED) == 18
    assert len(TWINS) == 7


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_bug_is_caught(name: str) -> None:
    suite = SUITES[name]
    attacked, (judged,) = run(BENCHES[suite.mechanism], suite)
    caught = {"conformance"} if any(f.status == "broken" for f in attacked.findings) else set()
    caught |= {"refuted"} if judged.verdict is Verdict.REFUTED else set()
    assert set(suite.caught_by) <= caught
    assert judged.verdict in (Verdict.REFUTED, Verdict.ALARM)


@pytest.mark.parametrize("name", TWINS)
def test_a_twin_is_certified(name: str) -> None:
    suite = SUITES[name]
    attacked, (judged,) = run(BENCHES[suite.mechanism], suite)
    assert [f.check for f in attacked.findings if f.status == "broken"] == []
    assert judged.verdict is Verdict.CERTIFIED


def test_an_odd_number_of_groups_is_refused() -> None:
    """B15: the diameter of the inliers could exceed 4 tau."""
    made = broken.CONSTANTS
    with pytest.raises(InvalidParameter, match="even number"):
        ReleaseConstants(
            made.groups - 1, made.test_scale, made.threshold, made.core, made.noise, made.inliers
        )


@pytest.mark.parametrize("name", sorted(AUDITS))
def test_audits_of_the_catalogue(name: str) -> None:
    suite = AUDITS[name]
    mechanism: Mechanism = getattr(catalogue, suite.mechanism)
    attacked, found = run(mechanism, suite)
    assert [f.check for f in attacked.findings if f.status == "broken"] == []
    if mechanism.expected:
        assert {judged.verdict for judged in found} == {Verdict.REFUTED}
        return
    for judged in found:
        assert judged.verdict is Verdict.CERTIFIED
        assert judged.conditional is not None
        assert judged.conditional.shown > 0


def fell_back(output: Halted) -> Array:
    """Whether the output of a run is the start."""
    return output.halted.astype(float)


def test_independent_slots_are_refuted_by_the_last_bit_alone() -> None:
    """epsilon >= 8 at 95% of (1, 1e-10), from "the output equals the fallback"; exactly, 9.13."""
    mechanism = catalogue.user_level_accelerated_sgd_independent_slots
    suite = audits.user_level_accelerated_sgd_independent_slots
    attacked = attack_observed(mechanism, suite, fell_back, seed=SEED, trials=100_000)
    bound = raw(attacked, DecisionBudget(1, 1), SLOT_DELTA)
    assert bound is not None
    assert 8.0 <= bound.shown <= 9.14
    assert bound.decisive > 7.0


def test_secret_batches_declare_that_nothing_is_proved() -> None:
    mechanism = catalogue.user_level_accelerated_sgd_secret_batches
    declared: Any = mechanism.declaration.children[0]
    assert isinstance(declared, NonPrivate)
    assert mechanism.claims[0].check(mechanism.declaration, mechanism.scope).outcome == "unproved"
