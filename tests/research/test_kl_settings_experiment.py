"""Paper 5 beside its baselines in every setting, and its points alone under attack."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dpaudit.accountant.account import Account
from experiments.kl import alone, settings
from experiments.kl.problem import SCOPE
from experiments.lab.found import load
from experiments.lab.model import Cell, Result, Results, Size, Status, judge
from experiments.lab.papers import Agreement, Read, agreement, load_papers, read_file
from experiments.lab.running import distinct, measured

PAIRS = [(name, method) for name, s in settings.SETTINGS.items() for method in s.methods]


@pytest.mark.parametrize(("name", "method"), PAIRS)
def test_every_method_spends_rho(name: str, method: str) -> None:
    """Theorem 5's selection costs half as much again, as the theorem allows (2 rho)."""
    scale = settings.SCALES.get(method, (0.0,))[0]
    made = settings.program(name, method, settings.SETTINGS[name].sizes[-1], scale)
    spent = float(Account(made.declaration(SCOPE), SCOPE).step("zcdp").value)
    most = 1.5 if method == settings.SELECTED else 1.0
    assert 0.4 < spent <= most * float(settings.RHO) * (1 + 1e-12)


def test_the_grid_is_read() -> None:
    cells = distinct(settings.cells(Size.FULL))
    for start, status in ((1e9, Status.HELD), (1e-9, Status.MISSED)):
        rows = [
            Result(cell, {"measured": [0.9 * of, 1.1 * of], "start": start})
            for cell in cells
            for of in ((0.1 if cell.text("method") in settings.PAPERS else 1.0) / cell.number("n"),)
        ]  # fmt: skip
        found = settings.read(Results(tuple(rows)))
        assert judge(found.checks) is status
        assert len(found.panels) == len(settings.SETTINGS)
        named = " ".join(check.name for check in found.checks)
        assert "kappa = 1.5: ||w||^3 / 3, d = 10, WYX17" in named


def rows_of(means: dict[str, float]) -> Results:
    """Every method at means of 1 / n, but for some that are so many times that."""
    return Results(
        tuple(
            Result(cell, {"measured": [0.9 * of, 1.1 * of], "start": 1.0})
            for cell in distinct(settings.cells(Size.FULL))
            for of in (means.get(cell.text("method"), 1.0) / cell.number("n"),)
        )
    )


def test_every_statement_of_who_is_ahead_follows_its_own_checks(checkout: Path) -> None:
    """Where WYX17 is ahead nothing of the paper's is, in any setting; where no baseline is, all."""
    stated = [
        s
        for s in load_papers(checkout)["kl"].statements
        if s.experiment == "kl_settings" and "at most that of every baseline" in s.says
    ]
    assert len(stated) == 7
    theirs = dict.fromkeys(settings.PAPERS, 0.1)
    for means, expected in (
        (theirs | {settings.PL: 0.01}, Agreement.DOES_NOT),
        (theirs, Agreement.AGREES),
    ):
        read = Read("kl_settings", settings.read(rows_of(means)))
        assert {agreement(statement, read)[0] for statement in stated} == {expected}


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
