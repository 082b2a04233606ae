"""Slopes in d and epsilon: upper bounds, so that a slope misses on one side alone."""

from __future__ import annotations

import pytest

from experiments.diff2 import dimensions
from experiments.diff2.problem import LOSS
from experiments.lab.model import Check, Result, Results, Size, Status


def checks(steeper: float) -> list[Check]:
    """Of values that follow the printed rates, and d's exponent and epsilon's moved."""
    rows = []
    for cell in dimensions.cells(Size.FULL):
        method, d, epsilon = cell.text("method"), cell.count("d"), cell.count("epsilon")
        printed = dimensions.PRINTED[method]
        of_g = LOSS.gradient_bound(d) ** dimensions.OF_G[method]
        of_d, of_epsilon = d ** (printed["d"] + steeper), epsilon ** (printed["epsilon"] + steeper)
        value = 1e-6 * of_d * of_epsilon * of_g
        rows.append(
            Result(cell, {"gradient": [value] * 3, "start": 1.0, "bound": 1.0, "rounds": 9})
        )
    return [c for c in dimensions.read(Results(tuple(rows))).checks if "slope" in c.name]


@pytest.mark.parametrize(
    ("steeper", "status"),
    [(0.0, Status.HELD), (-0.5, Status.HELD), (0.3, Status.MISSED)],
    ids=["as printed", "better", "worse"],
)
def test_a_slope_above_the_printed_rate_alone_is_missed(steeper: float, status: Status) -> None:
    found = checks(steeper)
    assert len(found) == 4
    assert {check.status for check in found} == {status}
    if steeper == 0:
        dp_gd, diff2 = (c.value for c in found if c.name.endswith("in d"))
        assert (dp_gd, diff2) == (pytest.approx(1 / 2), pytest.approx(2 / 3))
