"""Planted bugs of DIFF2's sensitivities and local steps: each is caught by all its suite names.

What can catch: the attack (``refuted``), the checks of an audit (``conformance``), the accountant,
and the gray-box inspection of batches and local noise (``inspection``).  The bugs' own checks run
at 1e-4 (a certificate's) and 1e-5 (the inspection): that often a correct twin is flagged.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from audits.broken import diff2, diff2_bvr, diff2_more
from dpaudit.account import account
from dpaudit.audit.graybox import inspect_program
from dpaudit.audit.graybox.frequencies import CHECK as FREQUENCIES
from dpaudit.audit.suite import Suite
from dpaudit.audit.verdict import exceeds
from dpaudit.certify import Certified, Options, Order, certify
from dpaudit.curator import Sampler
from dpaudit.errors import InvalidParameter
from dpaudit.kernels import GaussianKernel
from dpaudit.mechanism import Mechanism
from dpaudit.query import Records
from mechanisms.diff2.catalogue import REPLACE_ONE
from tests.diff2_bugs import TRUTH, truth

SEED = 20_230_729
TRIALS = {diff2_more: 4_000, diff2_bvr: 300}
CATCHES = ("refuted", "conformance", "accountant", "inspection")

SUITES = {
    name: (module, value)
    for module in (diff2_more, diff2_bvr)
    for name, value in vars(module).items()
    if isinstance(value, Suite)
}
MECHANISMS = {
    m.name: m
    for module in (diff2, diff2_more, diff2_bvr)
    for m in vars(module).values()
    if isinstance(m, Mechanism)
}
PLANTED = [name for name, (_, suite) in SUITES.items() if suite.caught_by]


@pytest.fixture(scope="module")
def table() -> Iterator[list[str]]:
    """Rows of the table, printed when the module is done (run with -s)."""
    rows: list[str] = []
    yield rows
    print("\nbug | caught by | lower bounds of its claims | true guarantee", *rows, sep="\n")  # noqa: T201


def attacked(name: str) -> tuple[Certified, Any]:
    module, suite = SUITES[name]
    suite = replace(suite, trials=TRIALS[module])
    of = MECHANISMS[suite.mechanism]
    order = Order(of, suite, "project", {"a.py": "0" * 64})
    return certify([order], Options(seed=SEED))[0], inspect_program(of, suite, seed=3, error=1e-5)


def caught_by(result: Certified, inspection: Any) -> list[str]:
    """What flags this implementation, each on its own."""
    assert result.attacked is not None
    found = {
        "refuted": any(j.lower and exceeds(j.lower, j.claim.value) for j in result.judged),
        "conformance": any(f.status == "broken" for f in result.attacked.findings),
        "accountant": any(j.checked.outcome == "refuted" for j in result.judged),
        "inspection": bool(inspection.broken),
    }
    return [name for name in CATCHES if found[name]]


def row(name: str, result: Certified, caught: list[str]) -> str:
    lowers = ", ".join("none" if j.lower is None else f"{j.lower.shown:.3f}" for j in result.judged)
    bug = SUITES[name][1].bug
    return f"{bug} | {', '.join(caught) or 'nothing'} | {lowers} | {truth(bug)}"


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_bug_is_caught_by_all_that_must(name: str, table: list[str]) -> None:
    result, inspection = attacked(name)
    caught = caught_by(result, inspection)
    table.append(row(name, result, caught))
    assert not set(SUITES[name][1].caught_by) - set(caught)


def test_the_correct_twin_is_flagged_by_nothing(table: list[str]) -> None:
    result, inspection = attacked("bvr_twin")
    table.append(row("bvr_twin", result, caught_by(result, inspection)))
    assert caught_by(result, inspection) == []
    assert result.verdict == "certified_under_assumptions"


@pytest.mark.parametrize(
    "name", [n for n in PLANTED if SUITES[n][1].bug[:3] in ("B18", "B19", "B20", "B25")]
)
def test_wrong_batches_show_in_their_frequencies(name: str) -> None:
    """The check that the plan names for them, by itself."""
    suite = SUITES[name][1]
    found = inspect_program(diff2_bvr.diff2_bvr_bench, suite, seed=4, error=1e-5)
    assert FREQUENCIES in {f.check for f in found.broken}


def test_half_the_local_noise_shows_in_its_variance() -> None:
    suite = SUITES["b23_half_noise"][1]
    found = inspect_program(diff2_bvr.diff2_bvr_bench, suite, seed=4, error=1e-5)
    wrong = {f.check for f in found.broken}
    assert {"variance of local 0", "variance of local 1"} <= wrong
    assert not {c for c in wrong if "gradient" in c or "difference" in c}


@pytest.mark.parametrize(
    ("name", "lower", "upper"),
    [("diff2_bvr_bench", 1.5575, 1.5752), ("diff2_bvr_b21", 2.275, 2.347),
     ("diff2_bvr_b22", 2.421, 2.505)],
)  # fmt: skip
def test_the_account_of_a_calibration(name: str, lower: float, upper: float) -> None:
    """What is printed for the noise each calibration finds, from an attained and a proved side."""
    found = account(MECHANISMS[name].declaration, REPLACE_ONE).epsilon(1e-5)
    assert found.lower == pytest.approx(lower, abs=6e-4)
    assert found.upper == pytest.approx(upper, abs=6e-4)


class Untouched(GaussianKernel):
    """Fails if anything is ever released."""

    def sample(self, values: Any, scale: Any, rng: Any) -> Any:
        assert "local" not in self.leaf.label
        return super().sample(values, scale, rng)


def test_batches_out_of_all_clients_records_are_refused_before_data_is_touched() -> None:
    """B21 in the declaration: the curator knows how many records a client holds."""
    program = diff2_bvr.WRONG_POPULATION
    records = diff2_bvr.bvr_twin.neighbours.first
    curator = Sampler(
        program.declaration(REPLACE_ONE),
        REPLACE_ONE,
        Records(records.values),
        rng=np.random.default_rng(0),
        kernels={diff2_bvr.Gaussian: Untouched},
    )
    with pytest.raises(InvalidParameter, match="declared for another number of records"):
        program.run(curator)


def test_every_bug_of_the_plan_is_planted_and_its_truth_is_known() -> None:
    bugs = [s.bug for s in vars(diff2).values() if isinstance(s, Suite)]
    bugs += [suite.bug for _, suite in SUITES.values()]
    assert {bug.partition(":")[0] for bug in bugs} == set(TRUTH)
    assert {f"B{i}" for i in range(1, 27)} <= set(TRUTH)
    named = {catch for _, suite in SUITES.values() for catch in suite.caught_by}
    assert named == set(CATCHES)
