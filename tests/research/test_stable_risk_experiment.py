"""Releases beside their formula: what holds by construction is a table, the checks can fail."""

from __future__ import annotations

import numpy as np
import pytest

from dpaudit.kernels.query import Array, Records
from experiments.lab.model import Check, Findings, Result, Results, Size, Status
from experiments.lab.running import distinct, measured
from experiments.stable_erm import risk


def findings() -> Findings:
    """The corner of the grid, run: 2,000 releases a cell, six cells a method."""
    cells = distinct(risk.cells(Size.QUICK))
    return risk.read(
        Results(tuple(Result(cell, measured(risk.stable_risk, cell, 1)) for cell in cells))
    )


def named(found: Findings, part: str) -> list[Check]:
    return [check for check in found.checks if part in check.name]


def test_releases_have_the_noise_that_is_stated() -> None:
    """Four standard errors of 12,000 draws: a false alarm in 16,000 for each of the methods."""
    found = findings()
    for part in ("mean excess over", "least share not bottom"):
        assert [check.status for check in named(found, part)] == [Status.HELD] * 4
    assert not named(found, "slope")
    assert not named(found, "break-even")


def test_another_noise_than_stated_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tenth more of sigma in every release: a fifth more of its excess."""
    release = risk._released

    def louder(
        method: str, items: float, records: Records, trials: int, rng: np.random.Generator
    ) -> Array:
        best = float(records.values.mean())
        return best + 1.1 * (release(method, items, records, trials, rng) - best)

    monkeypatch.setattr(risk, "_released", louder)
    found = named(findings(), "mean excess over")
    assert [check.status for check in found] == [Status.MISSED] * 4


def test_a_unit_at_which_users_are_not_stable_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tenth of the unit, whose certificates fail on the same users: bottoms, and no excess."""
    stated = risk.unit

    def less(method: str, items: float, users: int = risk.USER_COUNT) -> float:
        return stated(method, items, users) / 10

    monkeypatch.setattr(risk, "unit", less)
    found = findings()
    for part in ("mean excess over", "least share not bottom"):
        assert [check.status for check in named(found, part)] == [Status.MISSED] * 4
