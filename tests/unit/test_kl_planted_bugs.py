"""The table of planted bugs: each is caught by everything its suite names, the twins by nothing.

2,000 trials a side.  False alarms of a twin: at most 1e-4, the decision error of a run.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from audits.broken import kl, kl_declared
from dpaudit.check import check
from tests.planted_for_tests import CATCHES, planted_in, printed_table

BENCH = planted_in(kl, kl_declared, seed=20_231_122)


@pytest.fixture(scope="module")
def table() -> Iterator[list[str]]:
    """Rows of the table, printed when the module is done (run with -s)."""
    yield from printed_table("of the claims in turn")


@pytest.mark.parametrize("name", BENCH.bugs)
def test_a_planted_bug_is_caught_by_all_that_must(name: str, table: list[str]) -> None:
    result = BENCH.judged(name, table)
    assert not BENCH.missed(name, result)
    assert result.verdict in ("refuted", "alarm")
    check(result.certificate)


@pytest.mark.parametrize("name", BENCH.twins)
def test_a_correct_twin_is_flagged_by_nothing(name: str, table: list[str]) -> None:
    result = BENCH.judged(name, table)
    assert BENCH.caught_by(result) == []
    assert result.verdict == "certified_under_assumptions"
    assert all(j.lower is not None and j.lower.shown > 0 for j in result.judged)


def test_every_bug_of_the_plan_is_planted() -> None:
    """B16, a realised sum reported as a guarantee, is a claim: see test_kl_filter."""
    planted = {BENCH.suites[name].bug.partition(":")[0] for name in BENCH.bugs}
    assert planted == {f"B{k}" for k in range(1, 20)} - {"B16"}
    assert BENCH.named() == set(CATCHES)
