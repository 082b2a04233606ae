"""Planted bugs in stable releases: each is caught by everything its suite names, twins by nothing.

4,000 trials a side.  False alarms of the twins: at most 1e-4 each, the decision error of a run.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from audits.broken import stable_erm, stable_erm_search
from dpaudit.audit.suite import Suite
from dpaudit.audit.verdict import exceeds
from dpaudit.certify import Certified, Options, Order, certify
from dpaudit.check import check
from dpaudit.mechanism import Mechanism

TRIALS = 4_000
SEED = 20_230_729
CATCHES = ("refuted", "conformance", "accountant", "unproved")
FOUND = {**vars(stable_erm), **vars(stable_erm_search)}
SUITES = {name: value for name, value in FOUND.items() if isinstance(value, Suite)}
MECHANISMS = {m.name: m for m in FOUND.values() if isinstance(m, Mechanism)}
PLANTED = [name for name, suite in SUITES.items() if suite.caught_by]
TWINS = [name for name in SUITES if name not in PLANTED]


@pytest.fixture(scope="module")
def table() -> Iterator[list[str]]:
    """Rows of the table, printed when the module is done (run with -s)."""
    rows: list[str] = []
    yield rows
    print("\nbug | caught by | lower bound of epsilon", *rows, sep="\n")  # noqa: T201


def attacked(name: str) -> Certified:
    suite = replace(SUITES[name], trials=TRIALS)
    order = Order(MECHANISMS[suite.mechanism], suite, "project", {"a.py": "0" * 64})
    return certify([order], Options(seed=SEED))[0]


def caught_by(result: Certified) -> list[str]:
    """What flags this implementation, each on its own."""
    assert result.attacked is not None
    found = {
        "refuted": any(j.lower and exceeds(j.lower, j.claim.value) for j in result.judged),
        "conformance": any(f.status == "broken" for f in result.attacked.findings),
        "accountant": any(j.checked.outcome == "refuted" for j in result.judged),
        "unproved": any(j.checked.outcome == "unproved" for j in result.judged),
    }
    return [name for name in CATCHES if found[name]]


def row(name: str, result: Certified) -> str:
    lowers = ", ".join("none" if j.lower is None else f"{j.lower.shown:.3f}" for j in result.judged)
    return f"{SUITES[name].bug} | {', '.join(caught_by(result)) or 'nothing'} | {lowers}"


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_bug_is_caught_by_all_that_must(name: str, table: list[str]) -> None:
    result = attacked(name)
    table.append(row(name, result))
    assert set(SUITES[name].caught_by) <= set(caught_by(result))
    assert result.verdict in ("refuted", "alarm", "inconclusive")


@pytest.mark.parametrize("name", TWINS)
def test_a_correct_twin_is_flagged_by_nothing(name: str, table: list[str]) -> None:
    result = attacked(name)
    table.append(row(name, result))
    assert caught_by(result) == []
    assert result.verdict == "certified_under_assumptions"
    check(result.certificate)


def test_slack_hides_a_root_of_two_from_the_claim_but_not_from_the_checks() -> None:
    """sigma / sqrt(2): exact epsilon .617 of a claim of 1; its noise is not the declared one."""
    assert caught_by(attacked("root_two")) == ["conformance"]


def test_the_table_holds_every_bug_of_the_plan() -> None:
    """B1 to B18, at every place; twins of each bench that has data of its own."""
    numbers = {suite.bug.partition(":")[0] for suite in SUITES.values()}
    assert {f"B{k}" for k in range(1, 19)} <= numbers
    assert {catch for suite in SUITES.values() for catch in suite.caught_by} == set(CATCHES)
    assert len(TWINS) == 4
