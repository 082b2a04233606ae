"""E6, with few rounds and with all: who is ahead, who learns, what is shown of the search."""

from collections.abc import Callable

import numpy as np
import pytest

from experiments.diff2 import network, rounds
from experiments.lab.model import Cell, Findings, Result, Results, Size, Status, judge

SEARCHED = {"gradient": 1e-5, "test": 0.01, "step_size": 0.5, "gradient_radius": 3.0,
            "difference_radius": 3.0, "restart_every": 2, "epsilon": 0.5, "spent": 0.5,
            "survived": 1, "runs": 3, "start": 0.5}  # fmt: skip


def result(cell: Cell, loss: float) -> Result:
    """A search that ended at a loss, a little another one under every seed."""
    loss *= 1 + 0.01 * cell.count("seed") + 0.003 * (cell.text("method") == "diff2")
    return Result(cell, {**SEARCHED, "loss": loss, "curve": [0.5, 2 * loss, loss]})


def of_the_grid(ours: float, theirs: float = 0.1) -> Findings:
    cells = network.cells(Size.FULL)
    losses = (ours if cell.text("method") == "diff2" else theirs for cell in cells)
    return network.read(Results(tuple(map(result, cells, losses))))


def of_all_rounds(ours: float, theirs: float = 0.1) -> Findings:
    cells = rounds.cells(Size.FULL)
    losses = (ours if cell.text("method") == "diff2" else theirs for cell in cells)
    return rounds.read(Results(tuple(map(result, cells, losses))))


@pytest.mark.parametrize("read", [of_the_grid, of_all_rounds])
def test_who_is_ahead_is_a_check(read: Callable[..., Findings]) -> None:
    assert judge(read(0.09).checks) is Status.HELD
    behind = [c for c in read(0.11).checks if c.status is Status.MISSED]
    assert behind
    assert all("DIFF2-GD over DP-GD" in check.name for check in behind)
    worse = [c for c in read(0.6, 0.7).checks if c.status is Status.MISSED]
    assert worse
    assert all("of its start's value" in check.name for check in worse)


def test_every_epsilon_has_its_curves_and_what_the_search_took() -> None:
    found = of_the_grid(0.09)
    assert len(found.panels) == 6
    for panel in found.panels:
        assert all(series.x == (0.0, 6.0, 12.0) for series in panel.series)
    taken = next(table for table in found.tables if table.title == "What the search takes")
    assert {row[1] for row in taken.rows} == {1, 3, 5}
    assert "3 (10 of 10)" in taken.rows[-1]


def test_a_search_of_which_no_run_survived_has_no_curve() -> None:
    cells = rounds.cells(Size.QUICK)
    failed: dict[str, float | list[float]] = {
        **SEARCHED,
        "loss": np.inf,
        "test": np.inf,
        "curve": [],
    }
    rows = [
        Result(cell, failed) if cell.text("method") == "diff2" else result(cell, 0.1)
        for cell in cells
    ]
    found = rounds.read(Results(tuple(rows)))
    assert judge(found.checks) is Status.MISSED
    assert [len(series.x) for series in found.panels[0].series] == [3, 0]


def test_dp_gd_has_the_longer_search_over_all_rounds_and_the_same_budget() -> None:
    ours, theirs = (rounds.settings(method, 2000) for method in ("diff2", "dp_gd"))
    assert len(ours) < len(theirs)
    assert [one.restart_every for one in ours] == [6]
    assert {cell.count("rounds") for cell in rounds.cells(Size.FULL)} == {2000}
    assert len({cell.count("seed") for cell in rounds.cells(Size.FULL)}) == 10
