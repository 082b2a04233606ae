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
from dpaudit.accountant.account import account
from dpaudit.audit.graybox import inspect_program
from dpaudit.audit.graybox.frequencies import CHECK as FREQUENCIES
from dpaudit.audit.suite import Suite
from dpaudit.certificate.certify import Certified
from dpaudit.curator.curator import Sampler
from dpaudit.errors import InvalidParameter
from dpaudit.families.additive.kernel import GaussianKernel
from dpaudit.kernels.query import Records
from mechanisms.papers.diff2.catalogue import REPLACE_ONE
from tests.support.diff2_bugs import TRUTH, truth
from tests.support.planted import CATCHES, planted_in, printed_table

SEED = 20_230_729
BENCH = replace(
    planted_in(diff2, diff2_more, diff2_bvr, seed=SEED),
    suites={
        name: replace(suite, trials=trials)
        for module, trials in ((diff2_more, 4_000), (diff2_bvr, 300))
        for name, suite in planted_in(module, seed=SEED).suites.items()
    },
)


@pytest.fixture(scope="module")
def table() -> Iterator[list[str]]:
    """Rows of the table, printed when the module is done (run with -s)."""
    yield from printed_table("of the claims in turn")


def judged(name: str, table: list[str]) -> tuple[Certified, list[str]]:
    """The judgement of a suite, with its row in the table, and all that flags it."""
    result = BENCH.attacked(name)
    inspection = inspect_program(BENCH.mechanism(name), BENCH.suites[name], seed=3, error=1e-5)
    more = ["inspection"] if inspection.broken else []
    table.append(BENCH.row(name, result, truth(BENCH.suites[name].bug), more))
    return result, BENCH.caught_by(result) + more


# A judgement of local steps takes seconds, in `make quality`; what catches them is also tested by
# itself below.
LOCAL = set(planted_in(diff2_bvr, seed=SEED).bugs)
ALL = [pytest.param(n, marks=pytest.mark.quality if n in LOCAL else ()) for n in BENCH.bugs]


@pytest.mark.first_case
@pytest.mark.long_cases(
    "b15_largest_client",
    "b5_large_steps",
    "b17_zeroed_out",
    "b27_everybody_stays",
    "b8_clipped_gradients",
    "b9_noise_free_accumulator",
)
@pytest.mark.parametrize("name", ALL)
def test_a_planted_bug_is_caught_by_all_that_must(name: str, table: list[str]) -> None:
    _, caught = judged(name, table)
    assert not set(BENCH.suites[name].caught_by) - set(caught)


@pytest.mark.quality
def test_the_correct_twin_is_flagged_by_nothing(table: list[str]) -> None:
    result, caught = judged("bvr_twin", table)
    assert caught == []
    assert result.verdict == "certified_under_assumptions"


@pytest.mark.quality
@pytest.mark.first_case
@pytest.mark.parametrize(
    "name", [n for n in BENCH.bugs if BENCH.suites[n].bug[:3] in ("B18", "B19", "B20", "B25")]
)
def test_wrong_batches_show_in_their_frequencies(name: str) -> None:
    """The check that the plan names for them, by itself."""
    suite = BENCH.suites[name]
    found = inspect_program(diff2_bvr.diff2_bvr_bench, suite, seed=4, error=1e-5)
    assert FREQUENCIES in {f.check for f in found.broken}


@pytest.mark.quality
def test_half_the_local_noise_shows_in_its_variance() -> None:
    suite = BENCH.suites["b23_half_noise"]
    found = inspect_program(diff2_bvr.diff2_bvr_bench, suite, seed=4, error=1e-5)
    wrong = {f.check for f in found.broken}
    assert {"variance of local 0", "variance of local 1"} <= wrong
    assert not {c for c in wrong if "gradient" in c or "difference" in c}


@pytest.mark.quality
@pytest.mark.first_case
@pytest.mark.parametrize(
    ("name", "lower", "upper"),
    [("diff2_bvr_bench", 1.5575, 1.5752), ("diff2_bvr_b21", 2.275, 2.347),
     ("diff2_bvr_b22", 2.421, 2.505)],
)  # fmt: skip
def test_the_account_of_a_calibration(name: str, lower: float, upper: float) -> None:
    """What is printed for the noise each calibration finds, from an attained and a proved side."""
    found = account(BENCH.mechanisms[name].declaration, REPLACE_ONE).epsilon(1e-5)
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
    bugs += [suite.bug for suite in BENCH.suites.values()]
    assert {bug.partition(":")[0] for bug in bugs} == set(TRUTH)
    assert {f"B{i}" for i in range(1, 27)} <= set(TRUTH)
    assert BENCH.named() == {*CATCHES, "inspection"}
