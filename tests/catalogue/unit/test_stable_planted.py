"""Planted bugs in stable releases: each is caught by everything its suite names, twins by nothing.

4,000 trials a side.  False alarms of the twins: at most 1e-4 each, the decision error of a run.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from audits.broken import stable_erm, stable_erm_search
from dpaudit.accountant.account import account
from dpaudit.certificate.certify import certify
from dpaudit.certificate.order import Options, Order
from dpaudit.check import check
from mechanisms.papers.stable_erm.calibration import del_output_pert_paper
from tests.support.planted import UNCONTRADICTED, planted_in, printed_table

BENCH = planted_in(
    stable_erm,
    stable_erm_search,
    seed=20_230_729,
    trials=8_000,
)


@pytest.fixture(scope="module")
def table() -> Iterator[list[str]]:
    """Rows of the table, printed when the module is done (run with -s)."""
    yield from printed_table("epsilon")


# Several seconds each.
LONG = {"b11_closed_ranges", "b10_whole_budget_each_phase"}


@pytest.mark.first_case
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.quality] * (n in LONG)) for n in BENCH.bugs]
)
def test_a_planted_bug_is_caught_by_all_that_must(name: str, table: list[str]) -> None:
    result = BENCH.judged(name, table)
    assert not BENCH.missed(name, result)
    assert result.verdict in ("refuted", "alarm", "inconclusive")


@pytest.mark.quality
@pytest.mark.first_case
@pytest.mark.parametrize("name", BENCH.twins)
def test_a_correct_twin_is_flagged_by_nothing(name: str, table: list[str]) -> None:
    result = BENCH.judged(name, table)
    assert BENCH.caught_by(result) == []
    assert result.verdict in UNCONTRADICTED
    check(result.certificate)


def test_slack_hides_a_root_of_two_from_the_claim_but_not_from_the_checks() -> None:
    """sigma / sqrt(2): exact epsilon .617 of a claim of 1; its noise is not the declared one."""
    assert BENCH.caught_by(BENCH.attacked("root_two")) == ["conformance"]


@pytest.mark.quality
def test_too_small_a_kappa_is_refuted_by_what_passes() -> None:
    """B5 at (1, 1e-3), 40,000 a side: kappa is 8, not 18, and p(0) = .0045 tells all.

    The profile has no finite epsilon there; at (1, 1e-6) its delta is the plan's 1.355e-4.
    """
    mechanism = stable_erm.stable_b5_seen
    audit = replace(stable_erm.told(mechanism), trials=40_000)
    order = Order(mechanism, audit, "project", {"a.py": "0" * 64})
    result = certify([order], Options(seed=20_230_729))[0]
    assert BENCH.caught_by(result) == ["refuted", "accountant"]
    assert result.verdict == "refuted"
    check(result.certificate)
    assert del_output_pert_paper(1, stable_erm.SEEN).kappa == 18
    found = account(stable_erm.stable_b5.declaration, stable_erm.stable_b5.scope).delta(1)
    assert float(found.upper) == pytest.approx(1.355e-4, rel=1e-3)
    assert found.lower is not None
    assert float(found.lower) == pytest.approx(1.355e-4, rel=1e-3)


def test_the_table_holds_every_bug_of_the_plan() -> None:
    """B1 to B18, at every place; twins of each bench that has data of its own."""
    numbers = {suite.bug.partition(":")[0] for suite in BENCH.suites.values()}
    assert {f"B{k}" for k in range(1, 19)} <= numbers
    assert BENCH.named() == set(BENCH.catches)
    assert len(BENCH.twins) == 4
