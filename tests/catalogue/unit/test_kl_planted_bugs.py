"""The table of planted bugs: each is caught by everything its suite names, the twins by nothing.

2,000 trials a side.  False alarms of a twin: at most 1e-4, the decision error of a run.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from audits.broken import kl, kl_bench, kl_declared
from audits.kl import turned_round
from audits.kl_adaptive import pulled
from dpaudit.check import check
from dpaudit.curator.curator import Sampler
from dpaudit.scope import central
from tests.support.claims import number, value
from tests.support.planted import CATCHES, planted_in, printed_table

# rho-zCDP of the wrong version under replace_one, of the bench's numbers; the claim is rho = 1, of
# selections 1/2, of B16 .502.  None: no finite guarantee, or none that is known.
TRUE: dict[str, tuple[str, float | None]] = {
    "b1_signed_norm": ("500 (2 sqrt(rho)/n + rho/2) = 251", 251.0),
    "b2_half_charges": ("3 rho/2 + 2 sqrt(rho)/n = 1.502", 1.502),
    "b3_half_sensitivity": ("2 rho of anchors, up to rho/4 more", 2.25),
    "b4_one_more": ("one difference above the cap of the noise", None),
    "b5_no_root": ("4/5 rho, and rho_d times the mean of m_k", 0.8 + 0.2 * 2),
    "b6_unnormalised": ("unbounded", None),
    "b7_reused_noise": ("none: differences are free of noise", None),
    "b8_exact_stop": ("none: a deterministic stop", None),
    "b9_exact_norm": ("none: two variances", None),
    "b10_unsplit": ("T rho = 3", 3.0),
    "b11_clipped_after_averaging": ("n^2 rho = 2500", 2500.0),
    "b12_root_two": ("2 rho", 2.0),
    "b12_more_steps": ("rho (T' - 1) / (T - 1) = 19/9", 19 / 9),
    "b13_coefficient": ("2 rho", 2.0),
    "b14_argmin": ("none", None),
    "b15_gap_from_data": ("none", None),
    "b16_realised_sum": ("the cap, 1", 1.0),
    "b17_asked_too_late": ("the cap and one unbounded step", None),
    "b18_sum_for_mean": ("n^2 rho = 2500", 2500.0),
    "b19_minibatch": ("(n/b)^2 rho = 25", 25.0),
}
BENCH = planted_in(kl, kl_declared, seed=20_231_122)


@pytest.fixture(scope="module")
def table() -> Iterator[list[str]]:
    """Rows of the table, printed when the module is done (run with -s)."""
    yield from printed_table("of the claims in turn")


@pytest.mark.first_case
@pytest.mark.long_cases("b12_root_two")
@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[pytest.mark.quality] * (n == "b16_realised_sum")) for n in BENCH.bugs],
)
def test_a_planted_bug_is_caught_by_all_that_must(name: str, table: list[str]) -> None:
    said, true = TRUE[name]
    result = BENCH.judged(name, table, said)
    assert not BENCH.missed(name, result)
    first = result.judged[0].lower
    assert true is None or first is None or first.shown <= true
    assert result.verdict in ("refuted", "alarm")
    check(result.certificate)


@pytest.mark.quality
@pytest.mark.first_case
@pytest.mark.long_cases("selection_twin")
@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[pytest.mark.quality] * (n == "adaptive_twin")) for n in BENCH.twins],
)
def test_a_correct_twin_is_flagged_by_nothing(name: str, table: list[str]) -> None:
    result = BENCH.judged(name, table)
    assert BENCH.caught_by(result) == []
    assert result.verdict == "certified_under_assumptions"
    assert all(j.lower is not None and j.lower.shown > 0 for j in result.judged)


def test_every_bug_of_the_plan_is_planted() -> None:
    planted = {BENCH.suites[name].bug.partition(":")[0] for name in BENCH.bugs}
    assert planted == {f"B{k}" for k in range(1, 20)}
    assert BENCH.named() == set(CATCHES)
    assert set(TRUE) == set(BENCH.bugs)


@pytest.mark.parametrize("name", ["b3_half_sensitivity", "b5_no_root", "b10_unsplit",
                                  "b12_more_steps", "b13_coefficient"])  # fmt: skip
def test_what_a_wrong_declaration_costs_is_what_the_table_says(name: str) -> None:
    """The accountant's own number: at most the table's, and above the claim."""
    found = BENCH.mechanism(name)
    cost = number(value(found.declaration, "zcdp"))
    assert number(found.claims[0].value) < cost <= float(TRUE[name][1] or 0) * (1 + 1e-12)


def test_the_sum_of_b16_is_that_of_a_run() -> None:
    """Data on which all norms are silent: a noisy norm below 0, one gradient at the floor, stop."""
    line = pulled(kl_bench.ADAPTIVE_BENCH.problem, 1, 0.0)
    program = replace(kl_bench.ADAPTIVE_BENCH, problem=line)
    scope, records = central("replace_one"), turned_round(line.size).first
    spent = set()
    for seed in range(10):
        rng = np.random.default_rng(seed)
        curator = Sampler(program.declaration(scope), scope, records, rng=rng)
        program.run(curator)
        spent.add(round(float(curator.entitlements.spent("norm")), 9))
    assert float(kl_declared.ONE_RUN) in spent
    assert max(spent) > float(kl_declared.ONE_RUN)
