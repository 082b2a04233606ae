"""Experiments: cells, checks, fits, running, resuming, pages and plots."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from dpaudit.errors import InvalidParameter, UnknownTarget
from dpaudit.storage import roots
from dpaudit.storage.batches import RowStore
from experiments.lab import pages, running
from experiments.lab.fits import fit_power_law, mean_and_error
from experiments.lab.found import load, named
from experiments.lab.model import (
    Cell,
    Check,
    Experiment,
    Findings,
    Panel,
    Result,
    Results,
    Series,
    Size,
    Status,
    Table,
    judge,
)
from experiments.lab.plots import svg
from experiments.lab.running import Order, distinct, run, run_cell

PLAIN = """
from experiments.lab.model import *

def cells(size):
    return [Cell.of(n=n) for n in ((1, 2) if size is Size.QUICK else (1, 2, 3))]

def run(cell, rng):
    print("a module's own words")
    open("ran.txt", "a").write(f"{cell.count('n')}\\n")
    if cell.count("n") == FAILS:
        raise ValueError("this cell fails")
    return {"drawn": rng.normal(size=3).tolist(), "n": cell.count("n")}

def read(results):
    total = sum(r.number("n") for r in results)
    return Findings((), (Check("sum", total, 1, 10),))

FAILS = 0
tried = Experiment("tried", "A trial", "nobody", cells, run, read, alone=("",))
"""


@pytest.fixture
def project(scratch: Path, monkeypatch: pytest.MonkeyPatch, unserved: None) -> Path:
    """A project with one experiment, which notes the cells it runs; the working folder."""
    write(scratch, PLAIN)
    monkeypatch.chdir(scratch)
    running._opened.cache_clear()
    return scratch


def write(folder: Path, text: str) -> None:
    (folder / "experiments").mkdir(exist_ok=True)
    (folder / "experiments" / "__init__.py").touch()
    (folder / "experiments" / "plain.py").write_text(text)


def ran(folder: Path) -> list[str]:
    path = folder / "ran.txt"
    return path.read_text().split() if path.exists() else []


# --- cells and results ---------------------------------------------------------------------------


def test_a_cell_is_its_parameters() -> None:
    cell = Cell.of(7.0, method="dp_gd", n=3000, rate=0.5)
    assert cell.name == "method=dp_gd n=3000 rate=0.5"
    assert (cell.text("method"), cell.count("n"), cell.number("rate")) == ("dp_gd", 3000, 0.5)
    assert cell == Cell.of(method="dp_gd", n=3000, rate=0.5)
    assert cell.matches({"n": 3000})
    assert not cell.matches({"n": 3001})


@pytest.mark.parametrize(
    ("parameters", "cost"),
    [((), 1.0), ((("rate", math.nan),), 1.0), ((("n", math.inf),), 1.0), ((("n", 1),), 0.0),
     ((("n", 1),), math.nan), ((("n", 1),), -1.0)],
)  # fmt: skip
def test_cells_refuse_what_names_nothing(
    parameters: tuple[tuple[str, float], ...], cost: float
) -> None:
    with pytest.raises(InvalidParameter, match="Cell"):
        Cell(parameters, cost)


def test_grids_are_of_distinct_cells() -> None:
    with pytest.raises(InvalidParameter, match="n=1"):
        distinct([Cell.of(n=1), Cell.of(n=2), Cell.of(3.0, n=1)])
    with pytest.raises(InvalidParameter, match="at least one"):
        distinct([])


def test_results_by_parameters() -> None:
    rows = [Result(Cell.of(method=m, n=n), {"y": n}) for m in "ab" for n in (1, 2)]
    results = Results(tuple(rows))
    assert [r.number("y") for r in results.where(method="b")] == [1, 2]
    assert results.one(method="a", n=2) is rows[1]
    assert results.parameters("n") == [1, 2]
    assert results.parameters("nothing") == []
    with pytest.raises(InvalidParameter, match="2 cells"):
        results.one(method="a")
    with pytest.raises(InvalidParameter, match="0 cells"):
        results.one(n=9)


# --- checks --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "margin", "status"),
    [
        (1.0, 0.0, Status.HELD),
        (2.0, 0.0, Status.HELD),
        (1.5, 0.5, Status.HELD),
        (1.5, 9.0, Status.INCONCLUSIVE),
        (1.9, 0.2, Status.INCONCLUSIVE),
        (2.1, 0.0, Status.MISSED),
        (2.1, 0.2, Status.INCONCLUSIVE),
        (0.8, 0.1, Status.MISSED),
        (0.9, 0.2, Status.INCONCLUSIVE),
        (math.nan, 9.0, Status.MISSED),
        (math.inf, 9.0, Status.MISSED),
        (-math.inf, 9.0, Status.MISSED),
    ],
)
def test_a_value_and_its_band(value: float, margin: float, status: Status) -> None:
    assert Check("x", value, 1.0, 2.0, margin).status is status


@pytest.mark.parametrize(
    ("lower", "upper", "margin"),
    [(2.0, 1.0, 0.0), (-math.inf, math.inf, 0.0), (math.nan, 1.0, 0.0), (0.0, 1.0, math.nan),
     (0.0, 1.0, -1.0), (0.0, 1.0, math.inf)],
)  # fmt: skip
def test_a_check_that_cannot_fail_is_refused(lower: float, upper: float, margin: float) -> None:
    with pytest.raises(InvalidParameter, match="Check 'x'"):
        Check("x", 0.5, lower, upper, margin)


def test_the_worst_check_counts() -> None:
    held, missed, open_ = (Check("x", v, 0.0, 1.0, 0.5) for v in (0.5, 2.0, 1.2))
    assert judge([]) is Status.HELD
    assert judge([held, held]) is Status.HELD
    assert judge([held, open_]) is Status.INCONCLUSIVE
    assert judge([open_, missed, held]) is Status.MISSED


# --- fits ----------------------------------------------------------------------------------------


def test_an_exact_power_law_is_found() -> None:
    x = [3.0, 10.0, 70.0, 1e5]
    fitted = fit_power_law(x, [5 * v**-1.25 for v in x])
    assert fitted.slope == pytest.approx(-1.25, abs=1e-12)
    assert fitted.at(50.0) == pytest.approx(5 * 50**-1.25, rel=1e-10)
    assert fitted.error == 0.0


def test_the_error_of_a_slope_is_what_it_scatters_by() -> None:
    """2,000 fits: their standard deviation has a relative error of 1.6%; the band is 6 of them."""
    rng = np.random.default_rng(1)
    x = np.array([1.0, 2.0, 8.0, 9.0])
    errors = np.array([0.02, 0.05, 0.01, 0.03]) * x
    slopes = [fit_power_law(x, rng.normal(x, errors), errors).slope for _ in range(2000)]
    stated = fit_power_law(x, x, errors).error
    assert np.std(slopes) == pytest.approx(stated, rel=0.1)


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
def test_no_slope_of_what_is_not_positive(bad: float) -> None:
    assert math.isnan(fit_power_law([1.0, 2.0], [1.0, bad]).slope)


@pytest.mark.parametrize(
    ("x", "y"), [([1.0], [1.0]), ([1.0, 1.0], [1.0, 2.0]), ([0.0, 1.0], [1.0, 1.0]),
                 ([1.0, math.nan], [1.0, 1.0]), ([1.0, 2.0], [1.0])],
)  # fmt: skip
def test_fits_refuse_points_that_fix_no_line(x: list[float], y: list[float]) -> None:
    with pytest.raises(InvalidParameter, match="fit"):
        fit_power_law(x, y)


def test_means_and_their_errors() -> None:
    assert mean_and_error([1.0, 3.0]) == (2.0, 1.0)
    assert mean_and_error([4.0]) == (4.0, 0.0)
    assert mean_and_error([math.inf, 1.0]) == (math.inf, 0.0)
    with pytest.raises(InvalidParameter):
        mean_and_error([])


# --- finding and running -------------------------------------------------------------------------


def test_experiments_are_found_by_name(project: Path) -> None:
    found = load(project)
    assert list(found) == ["tried"]
    assert named(found, "tried", project).title == "A trial"
    with pytest.raises(UnknownTarget, match="did you mean tried"):
        named(found, "tied", project)


@pytest.mark.usefixtures("unserved")
def test_a_root_need_not_have_experiments(scratch: Path) -> None:
    assert roots.optional(scratch) == ()
    assert load(scratch) == {}


@pytest.mark.usefixtures("unserved")
def test_a_folder_of_that_name_is_no_package(scratch: Path) -> None:
    (scratch / "experiments").mkdir()
    (scratch / "experiments" / "notes.py").write_text("raise SystemExit")
    assert load(scratch) == {}


def test_two_experiments_of_one_name_are_refused(project: Path) -> None:
    (project / "experiments" / "twice.py").write_text(PLAIN)
    with pytest.raises(UnknownTarget, match="'tried'"):
        load(project)


def test_an_experiment_is_no_source_of_a_certificate(scratch: Path) -> None:
    before = roots.sources(scratch)
    write(scratch, PLAIN)
    assert roots.sources(scratch) == before
    made = roots.sources(scratch, ("experiments",))
    assert {path.name for path in made} == {"__init__.py", "plain.py"}


def test_a_cell_depends_on_its_own_parameters_and_the_seed(project: Path) -> None:
    full = run(Order(project, "tried"))
    quick = run(Order(project, "tried", Size.QUICK))
    other = run(Order(project, "tried", seed=2))
    assert [r.values for r in quick] == [r.values for r in full.rows[:2]]
    drawn = {tuple(r.numbers("drawn")) for r in (*full, *other)}
    assert len(drawn) == 6
    assert run_cell(Order(project, "tried"), Cell.of(n=2)) == full.rows[1].values


def test_a_run_that_failed_resumes(project: Path, tmp_path: Path) -> None:
    write(project, PLAIN.replace("FAILS = 0", "FAILS = 3"))
    order, store, seen = Order(project, "tried"), tmp_path / "store", []
    with pytest.raises(ValueError, match="this cell fails"):
        run(order, store=store)
    assert ran(project) == ["1", "2", "3"]
    load(project)["tried"].run.__globals__["FAILS"] = 0
    results = run(order, store=store, progress=lambda name, done, cells: seen.append(len(done)))
    assert ran(project) == ["1", "2", "3", "3"]
    assert seen == [2, 3]
    assert [r.number("n") for r in results] == [1, 2, 3]
    assert not store.exists()


def test_a_damaged_or_foreign_cell_is_run_again(project: Path, tmp_path: Path) -> None:
    order, store = Order(project, "tried", Size.QUICK), tmp_path / "store"
    kept = RowStore(store / identity(order))
    kept.put("n=1", {"n": 1, "drawn": []})
    kept._path("n=2").write_text('{"task": "n=2", "val')
    run(order, store=store)
    assert ran(project) == ["2"]
    kept.put("n=2", {"n": 2, "drawn": []})
    kept._path("n=2").rename(kept._path("n=1"))
    run(order, store=store)
    assert ran(project) == ["2", "1", "2"]


def identity(order: Order) -> str:
    return running._identity(order, load(order.root)["tried"])


def test_another_seed_or_source_resumes_nothing(project: Path) -> None:
    first = identity(Order(project, "tried"))
    assert identity(Order(project, "tried", Size.QUICK)) == first
    assert identity(Order(project, "tried", seed=2)) != first
    write(project, PLAIN + "\n")
    roots._ran.clear()  # as a process that starts now
    assert identity(Order(project, "tried")) != first


def test_a_file_that_an_experiment_does_not_import_leaves_its_cells(project: Path) -> None:
    first = identity(Order(project, "tried"))
    (project / "mechanisms" / "other.py").write_text("X = 1\n")
    assert identity(Order(project, "tried")) == first
    write(project, "import mechanisms.other\n" + PLAIN)
    roots._ran.clear()  # as a process that starts now
    second = identity(Order(project, "tried"))
    (project / "mechanisms" / "other.py").write_text("X = 2\n")
    roots._ran.clear()
    assert len({first, second, identity(Order(project, "tried"))}) == 3


@pytest.mark.parametrize("value", ["'text'", "[[1, 2]]", "None", "1j"])
def test_results_are_numbers(value: str, project: Path) -> None:
    write(project, PLAIN.replace('"n": cell.count("n")}', f'"n": {value}}}'))
    with pytest.raises(InvalidParameter, match="tried: n=1: n"):
        run(Order(project, "tried"))


@pytest.mark.parametrize("seed", [-1, 2**128])
def test_seeds_have_128_bits(seed: int, tmp_path: Path) -> None:
    with pytest.raises(InvalidParameter, match="seed"):
        Order(tmp_path, "tried", seed=seed)


def test_names_are_words() -> None:
    with pytest.raises(InvalidParameter, match="snake_case"):
        Experiment("../up", "", "", lambda size: [], lambda cell, rng: {}, lambda results: FOUND)


def test_the_example_of_the_docs_runs(project: Path, checkout: Path) -> None:
    page = (checkout / "experiments" / "README.md").read_text()
    write(project, page.split("```python\n")[1].split("```")[0])
    results = run(Order(project, "mean_error", Size.QUICK))
    assert judge(load(project)["mean_error"].read(results).checks) is Status.HELD


# --- pages and plots -----------------------------------------------------------------------------

TABLE = Table("A | table", ("name", "value"), (("a|b", 1.23456), ("<c>", 7)))
POINTS = Series("points", (1.0, 2.0, 0.0), (3.0, math.nan, 5.0), error=(9.0, 0.1, 0.1))
PANEL = Panel("One", "x", "y", (POINTS,))
FOUND = Findings((TABLE,), (Check("c", math.nan, upper=1.0),), (PANEL, PANEL, PANEL), ("a note",))
DRAWN = Experiment(
    "drawn", "Title", "Source", lambda size: [Cell.of(n=1)], lambda cell, rng: {}, lambda r: FOUND
)


def test_pages_hold_what_was_found(tmp_path: Path) -> None:
    order = Order(tmp_path, "drawn", Size.QUICK, seed=5)
    results = Results((Result(Cell.of(n=1), {"y": [math.inf, 1.0]}),))
    paths = pages.write(order, DRAWN, results, FOUND, tmp_path / "out")
    assert [p.name for p in paths] == ["drawn.json", "drawn.md", "drawn.svg"]
    made = json.loads(paths[0].read_text())
    assert made["verdict"] == "missed"
    assert made["checks"][0] | {"value": "nan", "lower": "-inf", "upper": 1.0} == made["checks"][0]
    assert made["cells"] == [{"parameters": {"n": 1}, "values": {"y": ["inf", 1.0]}}]
    page = paths[1].read_text()
    assert "| a\\|b | 1.235 |" in page
    assert "| &lt;c> | 7 |" in page
    assert "`python -m experiments run drawn --seed 5 --size quick`" in page
    assert "![Title](drawn.svg)" in page
    assert "| c | nan | at most 1 |  | missed |  |" in page
    assert list(pages.lines(DRAWN, FOUND))[-1] == "note: a note"


def test_a_check_that_counts_with_numpy_is_written(tmp_path: Path) -> None:
    order, counted = Order(tmp_path, "drawn", Size.QUICK, seed=5), sum(np.isfinite([1.0, 2.0, 3.0]))
    assert not isinstance(counted, int)
    found = Findings((), (Check("c", counted, lower=1.0),))
    path = pages.write(order, DRAWN, Results(()), found, tmp_path / "out")[0]
    assert json.loads(path.read_text())["checks"][0]["value"] == 3


def test_plots_are_the_same_bytes_and_skip_what_no_axis_shows() -> None:
    text = svg((PANEL, PANEL, PANEL))
    assert text == svg((PANEL, PANEL, PANEL))
    assert text.startswith("<?xml")
    empty = Panel("None", "x", "y", (Series("s", (0.0,), (-1.0,)),))
    assert "<svg" in svg((empty,))


def test_tables_and_series_fit_together() -> None:
    with pytest.raises(InvalidParameter, match="every row needs 2"):
        Table("t", ("a", "b"), ((1,),))
    with pytest.raises(InvalidParameter, match="differ in length"):
        Series("s", (1.0,), (1.0, 2.0))
    with pytest.raises(InvalidParameter, match="differ in length"):
        Series("s", (1.0,), (1.0,), error=(1.0, 2.0))
