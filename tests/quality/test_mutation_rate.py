"""The audits of the catalogue find the bugs that mutation testing plants in its programs.

At least 95% of at least 200 mutants are killed, at a median of at most 5 s each on one core.  A
mutant without a bug would be killed with probability at most 1e-4.
"""

from __future__ import annotations

import statistics
from pathlib import Path

import pytest

from dpaudit.mutate.ladder import SURVIVED
from dpaudit.mutate.report import kill_rate
from dpaudit.mutate.run import Order, run
from dpaudit.project.project import catalogue_root, load


@pytest.mark.quality
def test_the_audits_of_the_catalogue_kill_the_mutants_of_its_programs(checkout: Path) -> None:
    project = load(catalogue_root())
    names = sorted(set(project.mechanisms) & set(project.suites))
    limit = -(-200 // len(names)) + 8
    results = []
    for name in names:
        ran = run(Order(f"catalogue:{name}", checkout, limit=limit))
        assert ran.faults == "", name
        results += ran.results
    rate = kill_rate(results)
    survivors = [f"{r.where} {r.name}" for r in results if r.status == SURVIVED]
    assert len(results) >= 200
    assert rate is not None
    assert rate >= 0.95, survivors
    assert statistics.median(r.seconds for r in results) <= 5
