"""What cells take is written down, and what is left is told from it."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments.lab.model import Cell
from experiments.lab.times import Times, bill, bills_table

CELLS = tuple(Cell.of(cost, n=n) for n, cost in ((1, 1.0), (2, 2.0), (3, 4.0)))


@pytest.fixture
def times(tmp_path: Path) -> Times:
    return Times(tmp_path / "seconds.csv")


def test_seconds_are_read_as_they_were_written(times: Times) -> None:
    assert times.read() == {}
    times.add("tried", CELLS[0], 1.5, "a" * 64)
    times.add("other", CELLS[0], 9.0, "")
    times.add("tried", CELLS[0], 2.5, "b" * 64)
    assert times.read() == {("tried", "n=1"): (2.5, "b" * 12), ("other", "n=1"): (9.0, "")}
    times.path.write_text("experiment,cell,seconds,sources\ntried,n=1,soon,\n")
    assert times.read() == {}


def test_cells_that_were_not_timed_go_at_the_pace_of_the_others(times: Times) -> None:
    """3 s for a cost of 1 + 2: a second a unit, and so 4 s more."""
    times.add("tried", CELLS[0], 0.5, "")
    times.add("tried", CELLS[1], 2.5, "")
    times.add("other", CELLS[2], 100.0, "")
    made = bill("tried", CELLS, {"n=2"}, times)
    assert (made.timed, made.measured, made.estimated) == (2, 3.0, 4.0)
    assert (made.done, made.left) == (1, 4.5)
    assert bill("tried", CELLS, {c.name for c in CELLS}, times).left == 0


def test_a_grid_without_a_time_goes_at_the_pace_of_its_quick_one(times: Times) -> None:
    """6 s for a cost of 3 there: 2 s a unit of 1 + 2 + 4; the grid's own times come first."""
    quick = [Cell.of(3.0, n=0)]
    times.add("tried", quick[0], 6.0, "")
    made = bill("tried", CELLS, set(), times, quick)
    assert (made.timed, made.measured, made.estimated, made.left) == (0, 0, 14.0, 14.0)
    assert bill("tried", CELLS, set(), times).estimated is None
    times.add("tried", CELLS[0], 1.0, "")
    assert bill("tried", CELLS, set(), times, quick).estimated == 6.0


def test_nothing_is_guessed_where_nothing_was_timed(times: Times) -> None:
    made = bill("tried", CELLS, set(), times)
    assert (made.measured, made.estimated, made.left) == (0, None, None)
    table = bills_table([made])
    assert table.rows[0] == ("tried", 3, 0, "0", "not timed", 0, "not timed")
    assert table.rows[-1][:4] == ("all but 1 that nothing was timed of", 3, 0, "0")
