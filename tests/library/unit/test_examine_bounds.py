"""Long runs stay within the work of an examination, and what was left out is told."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

import dpaudit as dp
from dpaudit.audit.examine import Examination, examine, meter
from dpaudit.audit.examine.examination import CONTROL, MOVED
from dpaudit.audit.examine.walks import PartWalk
from dpaudit.audit.residuals import Finding
from dpaudit.certificate.evidence import BOTH, evidence_caveats
from dpaudit.families.selection.node import AboveThreshold
from dpaudit.families.selection.threshold_kernel import AboveThresholdKernel
from dpaudit.families.tuning import Tuned
from dpaudit.kernels.posterior import Posterior
from dpaudit.kernels.query import Array, Norm, Records
from dpaudit.report.words import UNCOMPARED
from tests.support.examined import mechanism

ROUNDS, ROWS = 6_000, 5_912


@dataclass
class Counted:
    """A sum of clipped numbers, by the user's own code, that counts how often it is asked."""

    asked: list[int] = field(default_factory=lambda: [0])
    norm: Norm = "l1"

    def value(self, records: Records, chosen: Any = None) -> Array:
        self.asked[0] += 1
        values, origin = records.distinct()
        kinds = np.clip(np.nan_to_num(values[:, 0]), -1, 1)
        return np.array([[kinds @ np.bincount(origin, minlength=len(kinds))]])

    def sensitivity(self, adjacency: dp.Adjacency, size: int) -> Array:
        return np.array(2.0)


@dataclass(frozen=True)
class Long:
    """As many noisy sums as there are rounds, of a public number of records."""

    query: Counted = field(default_factory=Counted)
    users: int = ROWS

    def declaration(self, scope: dp.Scope) -> dp.Node:
        return dp.Repeat(dp.Laplace("sum", 100), ROUNDS)

    def run(self, curator: dp.Curator) -> Array:
        for _ in range(ROUNDS):
            found = curator.release("sum", self.query)
        return found


@pytest.mark.quality
def test_thousands_of_rounds_stay_within_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted in evaluations: each counts for EVALUATION numbers at least."""
    monkeypatch.setattr(meter, "PATIENCE", np.inf)
    program = Long()
    found = examine(mechanism("long", program), seed=1, seconds=1e9)
    least = meter.EVALUATION + ROWS
    # A run that is begun is walked as far as it was drawn, and a shape is tried on a whole run.
    assert program.query.asked[0] <= meter.LIMIT / least + ROUNDS + 3_000
    assert not found.broken
    assert not found.stopped
    assert found.walked == 600
    said = "runs on other records were compared over the first 600 releases"
    assert said in evidence_caveats(found, [], BOTH)
    assert any(f.check == MOVED and "too slow to try" in f.detail for f in found.findings)


def test_no_time_at_all_ends_what_is_under_way_and_is_told() -> None:
    found = examine(mechanism("long", Long()), seed=1, seconds=0.0)
    assert found.stopped
    assert not found.broken
    assert found.not_examined == (
        "no run of the program ended within 0 s of a processor; what would help: a records_like "
        "hook that makes fewer or shorter records, fewer rounds, or a faster query"
    )
    assert found.findings == ()


@pytest.mark.parametrize(("status", "said"), [("held", False), ("not_run", True)])
def test_control_flow_that_nothing_was_compared_of_is_said(status: Any, said: bool) -> None:
    found = Examination(findings=(Finding(CONTROL, status, 0.0, 0.0, ""),))
    assert (UNCOMPARED in evidence_caveats(found, [], BOTH)) == said
    assert UNCOMPARED not in evidence_caveats(replace(found, not_examined="no shape"), [], BOTH)


@dataclass
class Slow(Counted):
    """A sum that takes .2 s of a processor a thousand records."""

    def value(self, records: Records, chosen: Any = None) -> Array:
        end = time.process_time() + 2e-4 * len(records)
        while time.process_time() < end:
            pass
        return super().value(records)


@pytest.mark.quality
def test_what_is_said_to_help_a_program_that_is_too_slow_helps() -> None:
    """A hook of 4 records where the program is for 5,912; of many still, it is to make fewer."""
    slow = mechanism("slow", Long(Slow()))
    found = examine(slow, seed=1, seconds=0.5)
    assert "what would help: a records_like hook that makes fewer" in found.not_examined
    for count, said in ((4, ""), (6_000, "help: its records_like hook making fewer or shorter")):
        made = Records(np.linspace(-1, 1, 2 * count).reshape(count, 2))
        hooked = replace(slow, records_like=lambda _, made=made: made)
        again = examine(hooked, seed=1, seconds=0.5)
        assert said in again.not_examined
        assert bool(said) == bool(again.not_examined)
        tried = [f.status for f in again.findings if f.check == MOVED]
        assert tried == ["not_run" if said else "held"]


@dataclass(frozen=True)
class Halting:
    """A threshold test of many rounds, which stops at the first answer above."""

    rounds: int

    def declaration(self, scope: dp.Scope) -> dp.Node:
        return AboveThreshold("test", 1, 1)

    def run(self, curator: dp.Curator) -> Array:
        for number in range(self.rounds):
            found = curator.release("test", Below())
            if found[0, 0]:
                return np.array([number])
        return np.array([self.rounds])


@dataclass
class Below(Counted):
    """A sum far below the threshold."""

    def value(self, records: Records, chosen: Any = None) -> Array:
        return super().value(records) - 1e6


@pytest.mark.quality
def test_walks_ask_a_test_for_no_density(monkeypatch: pytest.MonkeyPatch) -> None:
    counted, chances = [0], Posterior.chances
    walking, exact = [False], PartWalk._exact

    def counting(self: Posterior, *arguments: Any) -> Any:
        counted[0] += walking[0]
        return chances(self, *arguments)

    def walked(self: PartWalk, *arguments: Any) -> None:
        walking[0] = True
        exact(self, *arguments)
        walking[0] = False

    monkeypatch.setattr(Posterior, "chances", counting)
    monkeypatch.setattr(PartWalk, "_exact", walked)
    asked = []
    for follow in (AboveThresholdKernel.follow, AboveThresholdKernel.log_density):
        monkeypatch.setattr(AboveThresholdKernel, "follow", follow)
        counted[0] = 0
        examine(mechanism("test", Halting(6)), seed=1)
        asked.append(counted[0])
    assert asked[0] == 0 < asked[1]


@dataclass(frozen=True)
class Searched:
    """The best of several runs, each at the radius that ``radius`` gives."""

    keeps: bool = False

    def declaration(self, scope: dp.Scope) -> dp.Node:
        return Tuned(dp.Gaussian("sum", 12), gamma="0.2")

    def run(self, curator: dp.Curator) -> Array:
        found, _ = curator.best_of("sum", self.once)
        return np.asarray(found)

    def once(self, curator: dp.Curator) -> tuple[Array, Array]:
        kept: Any = curator

        def rows(values: Array) -> Array:
            kept.seen = float(np.nan_to_num(np.abs(values)).mean())
            return np.asarray(values[None, :, :1])

        radius = 1 + min(getattr(kept, "seen", 0.0), 1.0) if self.keeps else 1.0
        sums: Array = curator.release("sum", dp.clipped_sum(rows, radius=radius))
        return sums, sums[:, 0]


@pytest.mark.quality
def test_what_a_run_of_a_search_keeps_for_the_next_is_found() -> None:
    assert not examine(mechanism("right", Searched(), "add_remove"), seed=1).broken
    found = examine(mechanism("keeps", Searched(keeps=True), "add_remove"), seed=1).broken
    assert any("a run of its search" in f.detail for f in found)
