"""KL-Spider beside its baselines: one budget for all, and a grid that is read."""

from __future__ import annotations

import numpy as np
import pytest

from dpaudit.accountant.account import Account
from experiments.kl import baselines
from experiments.kl.problem import SCOPE
from lab.model import Result, Results, Size, Status, judge
from lab.running import distinct


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
            mean = 1e9 * cell.number("n") ** power * (1 + cell.number("scale"))
            values = {"excess": list(mean * np.array([0.99, 1.01])), "start": 0.5}
            rows.append(Result(cell, values))
        assert judge(baselines.read(Results(tuple(rows))).checks) is status
