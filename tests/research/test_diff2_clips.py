"""What the printed clipping radii bring DP-GD, and that a gain would be seen."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.diff2 import clips, network
from experiments.lab.model import Cell, Findings, Result, Results, Size, Status


def found(gain: float, spread: float = 0.0) -> Findings:
    """Every search with C1 above 3 so much lower than those of the comparison."""
    rows = []
    for cell in clips.cells(Size.FULL):
        wide = 1 - gain + spread * (-1) ** cell.count("seed")
        values = {f"C1 = {c:g}": 1.0 if c in clips.NARROW else wide for c in clips.WIDE}
        rows.append(Result(cell, {**values, "start": 3.0}))
    return clips.read(Results(tuple(rows)))


@pytest.mark.parametrize(
    ("gain", "spread", "status"),
    [(0.0, 0.0, Status.HELD), (0.2, 0.0, Status.MISSED), (0.0, 0.03, Status.INCONCLUSIVE)],
)
def test_a_gain_above_the_lead_is_seen(gain: float, spread: float, status: Status) -> None:
    checks = found(gain, spread).checks
    assert len(checks) == 2 + 4
    assert checks[0].status is status


def test_the_radii_are_the_comparison_s_and_the_printed_ones() -> None:
    assert network.GRADIENT_RADII == clips.NARROW
    assert set(clips.NARROW) < set(clips.WIDE)
    assert max(clips.WIDE) == 100


def test_a_search_of_few_rounds_has_a_loss_of_every_radius() -> None:
    cell = Cell.of(data="randhie", seed=0, rounds=8, clients=2)
    values = clips.run(cell, np.random.default_rng(0))
    assert set(values) == {*(f"C1 = {c:g}" for c in clips.WIDE), "start"}
    assert all(float(np.asarray(v)) > 0 for v in values.values())
