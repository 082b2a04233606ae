"""The table of planted bugs: each is caught by everything its suite names, the twin by nothing.

4,000 trials a side.  False alarms of the twin: at most 1e-4, the decision error of a run.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from audits.broken import diff2
from dpaudit.check import check
from tests.support.diff2_bugs import truth
from tests.support.planted import CATCHES, planted_in, printed_table

BENCH = planted_in(diff2, seed=20_231_116, trials=4_000)


@pytest.fixture(scope="module")
def table() -> Iterator[list[str]]:
    """Rows of the table, printed when the module is done (run with -s)."""
    yield from printed_table("epsilon at 1e-5, mu")


@pytest.mark.first_case("name", by=lambda name: BENCH.suites[name].caught_by)
@pytest.mark.long_cases(
    "b11_reused_noise",
    "b12_swapped_sigmas",
    "b13_one_sigma",
    "b1_half_sensitivity",
    "b2_root_two",
    "b3_fifth",
    "b4_variance_as_deviation",
    "b6_clipped_after_averaging",
)
@pytest.mark.parametrize("name", BENCH.bugs)
def test_a_planted_bug_is_caught_by_all_that_must(name: str, table: list[str]) -> None:
    result = BENCH.judged(name, table, truth(BENCH.suites[name].bug))
    assert not BENCH.missed(name, result)
    assert result.verdict in ("refuted", "alarm")
    check(result.certificate)


@pytest.mark.quality
@pytest.mark.parametrize("name", BENCH.twins)
def test_the_correct_twin_is_flagged_by_nothing(name: str, table: list[str]) -> None:
    result = BENCH.judged(name, table, truth(BENCH.suites[name].bug))
    assert BENCH.caught_by(result) == []
    assert result.verdict == "certified_under_assumptions"
    assert all(j.lower is not None and j.lower.shown > 0 for j in result.judged)


def test_the_table_names_known_catches_only() -> None:
    assert BENCH.named() == set(CATCHES)
    assert BENCH.twins == ["twin"]


def test_bugs_are_planted_at_every_place() -> None:
    """A query, a sampler kernel, a program, a declaration; and those the project must refute."""
    kernels = [n for n in BENCH.bugs if BENCH.suites[n].kernels]
    declared = [n for n in BENCH.bugs if BENCH.suites[n].mechanism != "diff2_gd_bench"]
    other = [n for n in BENCH.bugs if n not in kernels + declared]
    assert min(len(kernels), len(declared), len(other)) >= 4
    for bug in ("B1", "B2", "B4", "B6", "B12"):
        assert any(
            s.bug.startswith(f"{bug}:") and "refuted" in s.caught_by for s in BENCH.suites.values()
        )
    for bug in ("B3", "B11"):
        assert any(
            s.bug.startswith(f"{bug}:") and "conformance" in s.caught_by
            for s in BENCH.suites.values()
        )
