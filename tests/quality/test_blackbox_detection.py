"""Detection and false alarms on the project's own set of black-box mechanisms."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

import audits.blackbox
from dpaudit.audit import Verdict, audit_domain, audit_function
from dpaudit.audit.blackbox.domains import Adjacent

pytestmark = pytest.mark.quality

TRIALS = 100_000
REFUTE_AT = 0.05
SEEDS = range(4)


@cache
def cases() -> tuple[Any, ...]:
    names = [module.name for module in pkgutil.iter_modules(audits.blackbox.__path__)]
    modules = [importlib.import_module(f"audits.blackbox.{name}") for name in names]
    families = [module.FAMILY for module in modules if hasattr(module, "FAMILY")]
    return tuple(case for family in families for case in family.cases)


def refuted(case: Any, seed: int) -> bool:
    result = audit_function(
        case.mechanism,
        case.d0,
        case.d1,
        claim=case.claim,
        trials=TRIALS,
        refute_at=REFUTE_AT,
        seed=seed,
        attack=case.attack,
    )
    return result.verdict is Verdict.REFUTED


def test_bugs_are_found_with_the_pair_given() -> None:
    """97% of the bugs; which of them are missed is printed."""
    wrong = [case for case in cases() if not case.correct]
    missed = [case.name for case in wrong if not refuted(case, 1)]
    assert len(wrong) >= 74
    assert len(missed) <= 0.03 * len(wrong), missed


def test_right_mechanisms_are_refuted_no_more_often_than_stated() -> None:
    """All runs together at 5% each: the count is exceeded by chance with probability 1e-3."""
    right = [case for case in cases() if case.correct]
    flagged = [case.name for case in right for seed in SEEDS if refuted(case, seed)]
    assert len(right) >= 25
    runs = len(right) * len(SEEDS)
    assert len(flagged) <= binom.ppf(1 - 1e-3, runs, REFUTE_AT), flagged
    assert all(flagged.count(name) < len(SEEDS) for name in flagged)


def test_bugs_are_found_with_domain_and_relation_alone() -> None:
    """88% of the bugs."""
    wrong = [case for case in cases() if not case.correct]
    missed = []
    for case in wrong:
        result = audit_domain(
            case.mechanism,
            case.domain,
            str(Adjacent(case.relation)),
            claim=case.claim,
            trials=TRIALS,
            refute_at=REFUTE_AT,
            seed=1,
        )
        if result.verdict is not Verdict.REFUTED:
            missed.append(case.name)
    assert len(missed) <= 0.12 * len(wrong), missed


def test_bounds_exceed_the_truth_no_more_often_than_stated() -> None:
    """Laplace noise with epsilon exactly 1: 300 bounds at 95%; more than 28 have chance 1e-3."""

    def laplace(data: float, rng: np.random.Generator, size: int) -> Any:
        return data + rng.laplace(0, 1, size)

    from dpaudit.nodes import PureDP

    results = [
        audit_function(laplace, 0.0, 1.0, claim=PureDP(1), trials=2_000, refute_at=0.05, seed=seed)
        for seed in range(300)
    ]
    most = binom.ppf(1 - 1e-3, len(results), 0.05)
    assert sum(result.epsilon_lower > 1 for result in results) <= most
    assert sum(result.verdict is Verdict.REFUTED for result in results) <= most
