"""Figures and tables of the papers by one command: a user's files, the share of the scale."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dpaudit.errors import InvalidParameter
from experiments.diff2 import figures as diff2
from experiments.diff2.network import LOST, _until_lost
from experiments.lab import figures
from experiments.lab.found import load
from experiments.lab.model import Cell, Check, Findings, Result, Results, Size
from experiments.lab.papers import Paper, Read, Statement, load_figures, load_papers, read_all
from experiments.lab.running import measured
from tests.library.cli.conftest import Invoke

RATES = {f"rates_{paper}" for paper in ("diff2", "kl", "srgd", "stable", "user_level")}
OWN = """
import os
from experiments.lab.figures import Figure, together
from experiments.lab.model import Cell, Experiment, Findings, Table

def cells(size, files):
    numbers = (1,) if size == "quick" else (1, 2)
    return [Cell.of(n=n, file=str(files.get("mine", ""))) for n in numbers]

def run(cell, rng):
    with open("ran.txt", "a") as stream:
        stream.write("ran ")
    if cell.count("n") == 2 and os.path.exists("stop"):
        raise KeyboardInterrupt
    return {"drawn": rng.random()}

def read(results):
    return Findings((Table("Drawn", ("n",), tuple((r.cell.count("n"),) for r in results)),), ())

figure = Figure(
    "own", "An own figure", "nobody, Figure 1", together, lambda reads: "a half",
    own=Experiment("own", "An own figure", "nobody", lambda size: cells(size, {}), run, read),
    cells=cells, files=("mine",),
)
"""


def drawn(figure: figures.Figure, size: Size, files: figures.Files) -> Findings:
    """A figure of its own experiment, run in this process."""
    assert figure.own is not None
    cells = figure.grid(size, files)
    results = Results(tuple(Result(c, measured(figure.own, c, 1)) for c in cells))
    read = Read(figure.name, figure.own.read(results), results)
    return figure.drawn({figure.name: read})


@pytest.mark.parametrize("figure", [diff2.figure_1, diff2.figure_2], ids=lambda f: f.name)
def test_the_figures_of_diff2_come_from_a_users_files(
    figure: figures.Figure, tmp_path: Path
) -> None:
    """Two of three data sets have a file: six panels, and what share of the paper's rows it is."""
    rng = np.random.default_rng(7)
    widths = {"california": 9, "gas_turbine": 11}
    files = {name: tmp_path / f"{name}.csv" for name in widths}
    for name, path in files.items():
        np.savetxt(path, rng.uniform(1, 2, (60, widths[name])), delimiter=",")
    found = drawn(figure, Size.QUICK, files)
    assert [panel.title for panel in found.panels] == 3 * ["california"] + 3 * ["gas_turbine"]
    assert all(len(series.x) == 21 for panel in found.panels for series in panel.series)
    (scale,) = (note for note in found.notes if note.startswith("scale: "))
    assert "california: 40 of 16,510 training rows (0%)" in scale
    assert "2 of 3 data sets; 20 of 2,000 rounds; 2 of 5 seeds" in scale
    assert "DIFF2-GD 1 of 100 settings; DP-GD 1 of 5" in scale


def test_without_files_rows_that_a_library_brings_stand_for_them() -> None:
    found = drawn(diff2.figure_1, Size.QUICK, {})
    assert {panel.title for panel in found.panels} == {diff2.STAND_IN}
    assert any("350 rows of a data set that is not the paper's" in note for note in found.notes)


def test_the_whole_figure_is_the_papers_search() -> None:
    """2,000 rounds, five seeds, 100 settings of DIFF2-GD and 5 of DP-GD; epsilon 3 and 5."""
    for figure, epsilon in ((diff2.figure_1, 3), (diff2.figure_2, 5)):
        cells = figure.grid(Size.FULL, {})
        assert {(c.count("rounds"), c.count("epsilon")) for c in cells} == {(2000, epsilon)}
        for method, settings in (("diff2", 100), ("dp_gd", 5)):
            own = [c for c in cells if c.text("method") == method and c.count("seed") == 4]
            radii = [c.number("gradient_radius") for c in own]
            tried = [s for r in radii for s in diff2.settings(method, r, 2000, Size.FULL)]
            assert len(set(tried)) == len(tried) == settings


def test_another_file_of_one_name_is_another_cell(tmp_path: Path) -> None:
    path, names = tmp_path / "rows.csv", []
    for text in ("1", "2"):
        path.write_text(text)
        names.append([c.name for c in diff2.figure_1.grid(Size.QUICK, {"california": path})])
    assert not set(names[0]) & set(names[1])
    with pytest.raises(InvalidParameter, match="no file that can be read"):
        diff2.figure_1.grid(Size.QUICK, {"california": tmp_path / "none.csv"})
    with pytest.raises(InvalidParameter, match="'iris'; expected california"):
        diff2.figure_1.grid(Size.QUICK, {"iris": path})


def test_a_run_that_leaves_the_floats_is_given_up() -> None:
    """It would be refused for a sensitivity that is not finite, and the figure with it."""
    path = [np.array([[0.0]]), np.array([[2 * LOST]]), np.array([[1.0]])]
    values = [float(x[0, 0]) for x in _until_lost(iter(path), 4)]
    np.testing.assert_array_equal(values, [0.0] + 4 * [np.nan])
    whole = [float(x[0, 0]) for x in _until_lost(iter(path[::2]), 1)]
    assert whole == [0.0, 1.0]


@pytest.mark.quality
def test_every_paper_has_a_table_of_rates_of_its_results(checkout: Path) -> None:
    """Each row has what is printed, and a slope that its experiment measured."""
    known = figures.by_name(load_figures(checkout), load_papers(checkout).values())
    assert set(known) >= RATES | {"diff2_figure_1", "diff2_figure_2", "srgd_section_4_3"}
    reads = read_all(load(checkout).values(), checkout / "experiments" / "results")
    for name in RATES:
        own = {one: reads[one] for one in known[name].experiments}
        found = known[name].drawn(own)
        (table,) = found.tables
        assert table.rows
        assert all(row[1] and isinstance(row[3], float) for row in table.rows)
        assert "the paper prints rates and no run" in found.notes[0]
    section = known["srgd_section_4_3"]
    panels = section.drawn({one: reads[one] for one in section.experiments}).panels
    assert [panel.y for panel in panels] == ["variance", "root mean square error"]


def test_a_rate_that_was_not_measured_is_named_and_has_no_row() -> None:
    paper = Paper(
        "own",
        "Own",
        (
            Statement("Theorem 1", "n^-1", "own_rate", ("A: ",)),
            Statement("Theorem 2", "n^-2", "own_other", ("B: ",)),
        ),
    )
    checks = (Check("A: slope in n", -1.0, -1.1, -0.9), Check("A: first", 1.0, upper=2.0))
    results = Results(tuple(Result(Cell.of(n=n), {}) for n in (10, 1000)))
    read = Read("own_rate", Findings((), checks), results)
    found = figures.rates(paper).drawn(
        {"own_rate": read, "own_other": Read("own_other", why="no result")}
    )
    assert [row[:4] for row in found.tables[0].rows] == [
        ("Theorem 1", "n^-1", "A: slope in n", -1.0)
    ]
    assert "own_rate (n 10 to 1,000)" in found.notes[0]
    assert found.notes[-1] == "own_other: not run (no result)"


def test_one_command_makes_a_figure_and_keeps_its_results(lab: Invoke, laboratory: Path) -> None:
    (laboratory / "experiments" / "own.py").write_text(OWN)
    assert "own  An own figure (nobody, Figure 1)" in lab("figure").stdout
    assert "own" not in lab("run", "--all", "--quick").stdout  # a figure alone runs it
    result = lab("figure", "own", "--out", "out")
    assert result.stdout.splitlines()[-2:] == ["", "out/own.md"]
    page = Path("out/own.md").read_text()
    assert "- scale: a half" in page
    assert "`python -m experiments figure own`" in page
    assert len(Path("ran.txt").read_text().split()) == 3  # its corner too, for the pace
    lab("figure", "own", "--out", "out")
    assert len(Path("ran.txt").read_text().split()) == 3  # kept
    lab("figure", "own", "--out", "out", "--data", "mine=rows.csv", "--size", "quick")
    assert len(Path("ran.txt").read_text().split()) == 4


def test_a_figure_says_its_time_before_it_runs_and_resumes_where_it_was_stopped(
    lab: Invoke, laboratory: Path
) -> None:
    """On a user's file; of two cells one is done when it stops, and does not run again."""
    (laboratory / "experiments" / "own.py").write_text(OWN)
    words = ("figure", "own", "--out", "out", "--data", "mine=rows.csv")
    Path("stop").touch()
    first = lab(*words, code=130).stderr
    assert first.index("own: 0 of 2 cells are done; the others take about") < first.index(
        "own: 0 of 2 cells\n"
    )
    assert first.splitlines()[-1] == (
        "dpaudit: interrupted; the same command resumes where it stopped"
    )
    ran = len(Path("ran.txt").read_text().split())
    Path("stop").unlink()
    again = lab(*words).stderr
    assert "own: 1 of 2 cells are done; the others take about" in again
    assert len(Path("ran.txt").read_text().split()) == ran + 1


def test_the_corner_of_a_figure_paces_its_whole_by_rounds_and_settings() -> None:
    """Each round of each setting costs alike, so that the time of the whole is near."""
    corner, whole = (diff2.figure_1.grid(size, {}) for size in (Size.QUICK, Size.FULL))
    assert {cell.cost for cell in corner} == {20.0}
    costs = {method: sum(c.cost for c in whole if c.text("method") == method)
             for method in diff2.METHODS}  # fmt: skip
    assert costs == {"dp_gd": 5 * 5 * 2000, "diff2": 5 * 100 * 2000}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("none",), "no figure 'none': expected one of"),
        (("own", "--data", "rows.csv"), "expected NAME=FILE"),
        (("own", "--data", "other=rows.csv"), "data set 'other'; expected mine"),
    ],
)
def test_what_no_figure_takes_is_refused_before_any_runs(
    arguments: tuple[str, ...], said: str, lab: Invoke, laboratory: Path
) -> None:
    (laboratory / "experiments" / "own.py").write_text(OWN)
    assert said in lab("figure", *arguments, code=2).stderr
    assert not Path("ran.txt").exists()
