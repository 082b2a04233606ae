"""The table of planted bugs: each is caught by everything its suite names, the twins by nothing.

2,000 trials a side.  False alarms of a twin: at most 1e-4, the decision error of a run.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from audits.broken import kl, kl_declared
from dpaudit.audit.suite import Suite
from dpaudit.audit.verdict import exceeds
from dpaudit.certify import Certified, Options, Order, certify
from dpaudit.check import check
from dpaudit.mechanism import Mechanism

SEED = 20_231_122
CATCHES = ("refuted", "conformance", "accountant")
PARTS = {**vars(kl), **vars(kl_declared)}
SUITES = {name: value for name, value in PARTS.items() if isinstance(value, Suite)}
MECHANISMS = {m.name: m for m in PARTS.values() if isinstance(m, Mechanism)}
PLANTED = [name for name, suite in SUITES.items() if suite.caught_by]
TWINS = [name for name in SUITES if name not in PLANTED]


@pytest.fixture(scope="module")
def table() -> Iterator[list[str]]:
    """Rows of the table, printed when the module is done (run with -s)."""
    rows: list[str] = []
    yield rows
    print("\nbug | caught by | lower bounds", *rows, sep="\n")  # noqa: T201


def attacked(name: str) -> Certified:
    suite = SUITES[name]
    order = Order(MECHANISMS[suite.mechanism], suite, "project", {"a.py": "0" * 64})
    return certify([order], Options(seed=SEED))[0]


def caught_by(result: Certified) -> list[str]:
    """What flags this implementation, each on its own."""
    assert result.attacked is not None
    found = {
        "refuted": any(j.lower and exceeds(j.lower, j.claim.value) for j in result.judged),
        "conformance": any(f.status == "broken" for f in result.attacked.findings),
        "accountant": any(j.checked.outcome == "refuted" for j in result.judged),
    }
    return [name for name in CATCHES if found[name]]


def row(name: str, result: Certified) -> str:
    lowers = ", ".join("none" if j.lower is None else f"{j.lower.shown:.3f}" for j in result.judged)
    return f"{SUITES[name].bug} | {', '.join(caught_by(result)) or 'nothing'} | {lowers}"


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_bug_is_caught_by_all_that_must(name: str, table: list[str]) -> None:
    result = attacked(name)
    table.append(row(name, result))
    missed = set(SUITES[name].caught_by) - set(caught_by(result))
    assert not missed
    assert result.verdict in ("refuted", "alarm")
    check(result.certificate)


@pytest.mark.parametrize("name", TWINS)
def test_a_correct_twin_is_flagged_by_nothing(name: str, table: list[str]) -> None:
    result = attacked(name)
    table.append(row(name, result))
    assert caught_by(result) == []
    assert result.verdict == "certified_under_assumptions"
    assert all(j.lower is not None and j.lower.shown > 0 for j in result.judged)


def test_every_bug_of_the_plan_is_planted() -> None:
    """B16, a realised sum reported as a guarantee, is a claim: see test_kl_filter."""
    planted = {SUITES[name].bug.partition(":")[0] for name in PLANTED}
    assert planted == {f"B{k}" for k in range(1, 20)} - {"B16"}
    assert {c for name in PLANTED for c in SUITES[name].caught_by} == set(CATCHES)
