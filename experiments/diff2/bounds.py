"""E3: the utility bounds themselves, each at its best parameters, fall as N^-1 and N^-4/3."""

from __future__ import annotations

import numpy as np

from experiments.diff2 import problem
from experiments.lab.fits import fit_power_law
from experiments.lab.model import (
    Cell,
    Check,
    Experiment,
    Findings,
    Panel,
    Results,
    Series,
    Size,
    Table,
    Values,
)

SLOPES = {"dp_gd": -1.0, "diff2": -4 / 3}
NAMES = {"dp_gd": "DP-GD", "diff2": "DIFF2-GD"}
STATED = {"dp_gd": 4.942e-3, "diff2": 7.26e-4}
STATED_AT = 10_000
SIZES = {
    Size.QUICK: (3_000, 10_000, 100_000, 1_000_000),
    Size.FULL: (3_000, 6_000, 10_000, 30_000, 60_000, 100_000, 300_000, 600_000, 1_000_000),
}


def cells(size: Size) -> list[Cell]:
    """Every number of records with both methods."""
    return [Cell.of(method=m, n=n) for m in SLOPES for n in SIZES[size]]


def run(cell: Cell, rng: np.random.Generator) -> Values:
    """The least bound and where it is reached; nothing here is random."""
    choice = problem.chosen(cell.text("method"), cell.count("n"))
    return {
        "bound": choice.gradient_norm_upper,
        "rounds": choice.rounds,
        "restart_every": choice.restart_every,
        "share": choice.share,
        "step_size": choice.step_size,
    }


def read(results: Results) -> Findings:
    """Fitted slopes in their bands, and the stated values at N = 10,000."""
    checks, series = [], []
    for method, slope in SLOPES.items():
        found = results.where(method=method)
        sizes = tuple(r.cell.number("n") for r in found)
        bounds = tuple(r.number("bound") for r in found)
        fitted = fit_power_law(sizes, bounds)
        name = f"{NAMES[method]}: log-log slope of the bound in N"
        checks.append(Check(name, fitted.slope, slope - 0.02, slope + 0.02, source="E3"))
        at = found.one(n=STATED_AT).number("bound") / STATED[method]
        name = f"{NAMES[method]}: bound at N = 10,000 over {STATED[method]}"
        checks.append(Check(name, at, 0.99, 1.01, source="E3, values"))
        series.append(Series(f"{NAMES[method]}, slope {fitted.slope:.3f}", sizes, bounds))
    rows = tuple(
        (
            NAMES[r.cell.text("method")],
            r.cell.count("n"),
            r.number("bound"),
            int(r.number("rounds")),
            int(r.number("restart_every")),
            r.number("share"),
        )
        for r in results
    )
    columns = ("method", "N", "bound on the squared gradient norm", "R", "T", "u")
    table = Table("Least bounds at (3, 1e-5)-DP, constants as printed", columns, rows)
    panel = Panel("Least bound", "records N", "squared gradient norm", tuple(series))
    return Findings((table,), tuple(checks), (panel,))


diff2_bounds = Experiment(
    name="diff2_bounds",
    title="DIFF2-GD and DP-GD: the utility bounds at their best parameters against N",
    source="Murata and Suzuki 2023, Theorem 4.3 and Proposition D.2",
    cells=cells,
    run=run,
    read=read,
    alone=("",),
)
