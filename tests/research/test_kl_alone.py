"""Paper 5's points alone under attack, and what of its results statements say."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from experiments.kl import alone
from experiments.lab.found import load
from experiments.lab.model import Cell, Result, Results, Status
from experiments.lab.papers import agreement, load_papers, read_file
from experiments.lab.running import measured


@pytest.mark.parametrize("paper", ["kl", "stable"])
def test_what_is_not_held_is_said_by_a_statement(paper: str, checkout: Path) -> None:
    """No check that is missed or open stands on its experiment's page alone."""
    unsaid, missed = set(), 0
    for name, experiment in load(checkout).items():
        if not name.startswith(f"{paper}_"):
            continue
        read = read_file(experiment, checkout / "experiments" / "results")
        if read.findings is None:  # its statements read not run
            continue
        own = [s for s in load_papers(checkout)[paper].statements if s.experiment == name]
        said = {check.name for s in own for check in agreement(s, read)[1]}
        found = {c.name for c in read.findings.checks if c.status is not Status.HELD}
        missed += len(found)
        unsaid |= found - said
    assert missed
    assert not unsaid


@pytest.mark.quality
def test_the_points_alone_show_more_than_a_private_run_may() -> None:
    """40,000 runs a side, 95%: 6.45 under this seed; norms that are cut at 0 stay below 5.42."""
    found = {
        reading: measured(alone.kl_reading, Cell.of(reading=reading, n=10_000, trials=40_000), 7)[
            "epsilon"
        ]
        for reading in alone.READINGS
    }
    allowed = alone.most()
    assert allowed == pytest.approx(5.41992, abs=1e-5)
    assert found["clipped"] < allowed < found["signed"]


def test_a_step_s_ratio_is_odd_and_of_points_alone() -> None:
    made = alone.program("signed", 10_000)
    grid, values = alone.ratio(made)
    np.testing.assert_allclose(values, -values[::-1], atol=1e-9)
    assert values[grid > 0].max() > 0
    seen = np.array([[0.0, 0.0], [-1e-4, 1e-4], [np.nan, np.nan]])
    first, second = alone.scores(made, seen)
    assert first == pytest.approx(-second)
    assert first > 0


def test_the_page_says_from_which_size_on_the_stated_number_is_shown() -> None:
    """From the results: another size where they say so, none where no size shows it."""

    def told(shown: dict[int, float]) -> str:
        rows = [
            Result(Cell.of(reading="signed", n=n, trials=200_000), {"epsilon": e, "steps": 9.0})
            for n, e in shown.items()
        ]
        return alone.kl_reading.read(Results(tuple(rows))).notes[-1]

    assert told({5_000: 6.0, 7_000: 6.2, 10_000: 6.5}).endswith(
        "not at n = 5,000, from n = 7,000 on"
    )
    assert told({5_000: 6.11, 7_000: 6.2}).endswith("here from n = 5,000 on")
    assert told({5_000: 6.0}).endswith("here not at n = 5,000")
