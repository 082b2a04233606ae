"""How a search of pairs weighs a run's releases: a few stand for all, secret batches by chance."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dpaudit as dp
from dpaudit.audit.examine import pairs
from dpaudit.audit.examine.meter import Meter
from dpaudit.curator.proposal import Proposal
from dpaudit.kernels.query import Array

FULL = dp.clipped_sum(lambda rows: rows[None], radius=1)
RECORDS = 20


def asked(stated: float) -> pairs.AskedSum:
    return pairs.AskedSum(FULL, None, np.full(2, stated), np.full(2, stated))


@pytest.mark.parametrize("count", [3, 7, 12, 40])
def test_a_few_releases_stand_for_all_that_is_declared(count: int) -> None:
    """Loud releases in turn with quiet ones, as anchors with differences: neither kind is lost."""
    sums = [asked(1.0 if k % 4 == 0 else 0.2) for k in range(80)]
    few = pairs._few(sums, count)
    assert len(few) <= count
    total = sum(one.allowed for one in sums)
    assert sum(one.allowed for one in few) == pytest.approx(total)
    quiet = sum(one.allowed for one in few if one.stated[0] < 1)
    assert quiet == pytest.approx(60 * 0.04, abs=total / count)


def test_releases_without_noise_are_all_kept() -> None:
    assert len(pairs._few([asked(0.0)] * 9, 4)) == 9


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


def run_of(program: Any) -> pairs.Pooled:
    scope = dp.central("add_remove")
    rows = np.zeros((RECORDS, 2))
    rows[-1] = 1.0
    curator = pairs.Pooled(
        program.declaration(scope), scope, (dp.Records(rows), dp.Records(rows[:-1])),
        rng=np.random.default_rng(1), trials=4, proposal=Proposal(1.0, 0.3, 1e-9),
        pool=rows[-1:].repeat(2, axis=0), absent=True, meter=Meter(60.0), seen={},
    )  # fmt: skip
    program.run(curator)
    return curator


def test_a_secret_batch_counts_by_its_chance() -> None:
    """Ten batches of chance a tenth show a tenth of what one release does."""
    found = run_of(Mixed()).asked()
    assert found is not None
    assert found.allowed() == pytest.approx(1 + 10 * 0.1**2)


def test_without_the_chance_batches_would_count_ten_times_the_release(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sure = type("Sure", (), {"share": lambda self, size: 1.0})()
    monkeypatch.setattr(pairs, "batches_of", lambda sampling: sure)
    found = run_of(Mixed()).asked()
    assert found is not None
    assert found.allowed() == pytest.approx(11)
