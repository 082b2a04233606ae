"""Detection and false alarms on the project's own set of black-box mechanisms."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import binom

from audits.blackbox import catalogue
from benchmarks.detection import Audited, detection
from dpaudit.audit import Verdict, audit_function
from dpaudit.families.opaque import PureDP

TRIALS = 100_000
REFUTE_AT = 0.05
SEEDS = range(1, 5)


def found(checkout: Path, entry: str, seed: int, *, correct: bool) -> dict[str, Any]:
    """The set's wrong or right half; cases are kept in build/, so that it resumes."""
    cases = [case for case in catalogue() if case.correct is correct]
    jobs, kept = int(os.environ.get("DPAUDIT_JOBS", "2")), checkout / "build" / "detection.jsonl"
    return detection(Audited(entry, TRIALS, seed), jobs, kept, cases)


def test_bugs_are_found_with_the_pair_given(checkout: Path) -> None:
    """97% of the bugs."""
    result = found(checkout, "pair", 1, correct=False)
    assert result["bugs"] >= 74
    assert result["found"] >= 0.97 * result["bugs"], result["missed"]


def test_right_mechanisms_are_refuted_no_more_often_than_stated(checkout: Path) -> None:
    """All runs together at 5% each: the count is exceeded by chance with probability 1e-3."""
    results = [found(checkout, "pair", seed, correct=True) for seed in SEEDS]
    flagged = [name for result in results for name in result["flagged"]]
    assert results[0]["correct"] >= 25
    runs = sum(result["correct"] for result in results)
    assert len(flagged) <= binom.ppf(1 - 1e-3, runs, REFUTE_AT), flagged
    assert all(flagged.count(name) < len(SEEDS) for name in flagged)


def test_right_mechanisms_withstand_the_search_for_a_pair(checkout: Path) -> None:
    """As above, each once: its pair is searched on draws that the test never sees."""
    result = found(checkout, "domain", 1, correct=True)
    most = binom.ppf(1 - 1e-3, result["correct"], REFUTE_AT)
    assert len(result["flagged"]) <= most, result["flagged"]


def test_bugs_are_found_with_domain_and_relation_alone(checkout: Path) -> None:
    """88% of the bugs."""
    result = found(checkout, "domain", 1, correct=False)
    assert result["found"] >= 0.88 * result["bugs"], result["missed"]


def test_bounds_exceed_the_truth_no_more_often_than_stated() -> None:
    """Laplace noise with epsilon exactly 1: 300 bounds at 95%; more than 28 have chance 1e-3."""

    def laplace(data: float, rng: np.random.Generator, size: int) -> Any:
        return data + rng.laplace(0, 1, size)

    results = [
        audit_function(laplace, 0.0, 1.0, claim=PureDP(1), trials=2_000, refute_at=0.05, seed=seed)
        for seed in range(300)
    ]
    most = binom.ppf(1 - 1e-3, len(results), 0.05)
    assert sum(result.epsilon_lower > 1 for result in results) <= most
    assert sum(result.verdict is Verdict.REFUTED for result in results) <= most
