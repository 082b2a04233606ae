"""The table of planted bugs: each is caught by everything its suite names, the twin by nothing.

4,000 trials a side.  False alarms of the twin: at most 1e-4, the decision error of a run.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from audits.broken import diff2
from dpaudit.audit.suite import Suite
from dpaudit.audit.verdict import exceeds
from dpaudit.certify import Certified, Options, Order, certify
from dpaudit.check import check
from dpaudit.mechanism import Mechanism
from tests.diff2_bugs import truth

TRIALS = 4_000
SEED = 20_231_116
CATCHES = ("refuted", "conformance", "accountant")

SUITES = {name: value for name, value in vars(diff2).items() if isinstance(value, Suite)}
MECHANISMS = {m.name: m for m in vars(diff2).values() if isinstance(m, Mechanism)}
PLANTED = [name for name, suite in SUITES.items() if suite.caught_by]
TWINS = [name for name in SUITES if name not in PLANTED]


@pytest.fixture(scope="module")
def table() -> Iterator[list[str]]:
    """Rows of the table, printed when the module is done (run with -s)."""
    rows: list[str] = []
    yield rows
    head = "bug | caught by | lower bounds (epsilon at 1e-5, mu) | true guarantee"
    print("", head, *rows, sep="\n")  # noqa: T201


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
    }
    return [name for name in CATCHES if found[name]]


def row(name: str, result: Certified) -> str:
    lowers = ", ".join("none" if j.lower is None else f"{j.lower.shown:.3f}" for j in result.judged)
    bug = SUITES[name].bug
    return f"{bug} | {', '.join(caught_by(result)) or 'nothing'} | {lowers} | {truth(bug)}"


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_bug_is_caught_by_all_that_must(name: str, table: list[str]) -> None:
    result = attacked(name)
    table.append(row(name, result))
    missed = set(SUITES[name].caught_by) - set(caught_by(result))
    assert not missed
    assert result.verdict in ("refuted", "alarm")
    check(result.certificate)


@pytest.mark.parametrize("name", TWINS)
def test_the_correct_twin_is_flagged_by_nothing(name: str, table: list[str]) -> None:
    result = attacked(name)
    table.append(row(name, result))
    assert caught_by(result) == []
    assert result.verdict == "certified_under_assumptions"
    assert all(j.lower is not None and j.lower.shown > 0 for j in result.judged)


def test_the_table_names_known_catches_only() -> None:
    named = {catch for suite in SUITES.values() for catch in suite.caught_by}
    assert named == set(CATCHES)
    assert TWINS == ["twin"]


def test_bugs_are_planted_at_every_place() -> None:
    """A query, a sampler kernel, a program, a declaration; and those the project must refute."""
    kernels = [n for n in PLANTED if SUITES[n].kernels]
    declared = [n for n in PLANTED if SUITES[n].mechanism != "diff2_gd_bench"]
    other = [n for n in PLANTED if n not in kernels + declared]
    assert min(len(kernels), len(declared), len(other)) >= 4
    for bug in ("B1", "B2", "B4", "B6", "B12"):
        assert any(
            s.bug.startswith(f"{bug}:") and "refuted" in s.caught_by for s in SUITES.values()
        )
    for bug in ("B3", "B11"):
        assert any(
            s.bug.startswith(f"{bug}:") and "conformance" in s.caught_by for s in SUITES.values()
        )
