"""How a search of pairs weighs a run's releases: secret batches by their chance, parts apart."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dpaudit as dp
from dpaudit.audit.examine import losses
from dpaudit.audit.examine.meter import Meter
from dpaudit.curator.proposal import Proposal
from dpaudit.kernels.query import Array

FULL = dp.clipped_sum(lambda rows: rows[None], radius=1)
RECORDS = 20


class Mixed:
    """One release of all records, and ten of secret batches that hold a tenth of them."""

    def declaration(self, scope: dp.Scope) -> dp.Node:
        batch = dp.PoissonSampled(dp.Gaussian("batch", noise_multiplier=1), rate="0.1")
        return dp.Compose(dp.Gaussian("all", noise_multiplier=1), dp.Repeat(batch, 10))

    def run(self, curator: Any) -> Array:
        curator.release("all", FULL)
        for _ in range(10):
            with curator.batch("batch") as rows:
                curator.release("batch", FULL, rows=rows)
        return np.zeros(curator.trials)


def run_of(program: Any) -> losses.Run:
    scope = dp.central("add_remove")
    rows = np.zeros((RECORDS, 2))
    rows[-1] = 1.0
    curator = losses.Run(
        program.declaration(scope), scope, (dp.Records(rows), dp.Records(rows[:-1])),
        rng=np.random.default_rng(1), trials=4, proposal=Proposal(1.0, 0.3, 1e-9),
        pool=rows[-1:].repeat(2, axis=0), place=RECORDS - 1, meter=Meter(60.0),
    )  # fmt: skip
    program.run(curator)
    return curator


def test_a_secret_batch_counts_by_its_chance() -> None:
    """Ten batches of chance a tenth show a tenth of what one release does."""
    run = run_of(Mixed())
    assert run.allowed[None] == pytest.approx(1 + 10 * 0.1**2)
    assert run.moved[None] == pytest.approx(run.allowed[None])
    assert run.reach == pytest.approx(1)


def test_without_the_chance_batches_would_count_ten_times_the_release(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sure = type("Sure", (), {"share": lambda self, size: 1.0})()
    monkeypatch.setattr(losses, "batches_of", lambda sampling: sure)
    assert run_of(Mixed()).allowed[None] == pytest.approx(11)


def test_a_pool_says_how_far_each_two_of_its_rows_would_move_a_run() -> None:
    """Two equal rows of norm 1 after the clip, and no row."""
    promised = run_of(Mixed()).promised
    assert promised is not None
    one = 1 + 10 * 0.1**2
    assert promised == pytest.approx(np.array([[0, 0, one], [0, 0, one], [one, one, 0]]))


def test_parts_of_a_run_are_seen_apart() -> None:
    """One record is in one part: what is declared of the others does not count."""
    assert losses.Run._by_part({None: 1.0, 0: 2.0, 1: 3.0}) == [3.0, 4.0]
    assert losses.Run._by_part({None: 1.0}) == [1.0]
