"""KL-Spider beside its baselines: one budget for all, and a grid that is read."""

from __future__ import annotations

import numpy as np
import pytest

from dpaudit.accountant.account import Account
from experiments.kl import baselines
from experiments.kl.problem import SCOPE
from experiments.kl.reading import ahead
from experiments.lab.model import Result, Results, Size, Status, judge
from experiments.lab.running import distinct


@pytest.mark.parametrize("method", baselines.SCALES)
def test_every_method_spends_rho(method: str) -> None:
    made = baselines.programs(300_000, baselines.SCALES[method][0])[method]()
    spent = Account(made.declaration(SCOPE), SCOPE).step("zcdp").value
    assert 0.9 < float(spent) <= float(baselines.RHO)


def test_the_grid_is_read() -> None:
    cells = distinct(baselines.cells(Size.FULL))
    for power, status in ((-2.0, Status.HELD), (-1.0, Status.MISSED)):
        rows = []
        for cell in cells:
            ahead_of_all = 0.1 if cell.text("method") == baselines.OURS else 1.0
            mean = 1e9 * cell.number("n") ** power * (1 + cell.number("scale")) * ahead_of_all
            values = {"excess": list(mean * np.array([0.99, 1.01])), "start": 0.5}
            rows.append(Result(cell, values))
        assert judge(baselines.read(Results(tuple(rows))).checks) is status


def test_a_baseline_that_is_ahead_is_seen() -> None:
    """Of one baseline at one n: its own check is missed there, and no other."""
    rows = []
    for cell in distinct(baselines.cells(Size.FULL)):
        behind = (cell.text("method"), cell.count("n")) == (baselines.PL, 3_000_000)
        of = 0.01 if behind else 0.1 if cell.text("method") == baselines.OURS else 1.0
        mean = 1e9 * cell.number("n") ** -2 * of
        rows.append(Result(cell, {"excess": list(mean * np.array([0.99, 1.01])), "start": 0.5}))
    found = [c for c in baselines.read(Results(tuple(rows))).checks if "ratio" in c.name]
    assert len(found) == 9
    missed = [check.name for check in found if check.status is not Status.HELD]
    assert missed == ["KL-Spider over WYX17, n = 3,000,000: ratio of the means"]


def test_who_is_ahead_within_the_errors_is_open() -> None:
    """1.1 over 1, standard errors of .03 each: two of the ratio are .089; of .05 they are .149."""
    for error, status in ((0.03, Status.MISSED), (0.05, Status.INCONCLUSIVE)):
        assert ahead("a over b", 10, (1.1, error), (1.0, error)).status is status
    assert ahead("a over b", 10, (0.9, 0.01), (1.0, 0.01)).status is Status.HELD
    margin = ahead("a over b", 10, (1.1, 0.03), (1.0, 0.03)).margin
    assert margin == pytest.approx(2 * 1.1 * np.hypot(0.03 / 1.1, 0.03))
