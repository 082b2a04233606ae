"""Table 1 in d and epsilon: measured gradient norms of DP-GD and DIFF2-GD at one N.

As ``diff2_slopes``, at N = 10,000 and the printed constants; schedules are those of the bound's
least value at each d and epsilon.  G grows a little with d, as the penalty has more terms: its
power in the rate is taken out of the slope in d.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from dpaudit.kernels.query import Array
from experiments.diff2.bounds import NAMES
from experiments.diff2.problem import DATA_SEED, DELTA, LOSS, ROWS
from experiments.diff2.runs import visits
from experiments.lab.fits import fit_power_law, mean_and_error
from experiments.lab.learning import Learnt, learning_checks, learning_table
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
from experiments.objectives import mean_square, replicated, unit_rows
from mechanisms.papers.diff2.framework import Diff2
from mechanisms.papers.diff2.theory import Budget, Choice, Problem, diff2_gd_auto, dp_gd_auto

RECORDS, TRIALS, BLOCK = 10_000, 3, 4096
AT = {"d": 20, "epsilon": 3}  # of the other one
VALUES: dict[Size, dict[str, tuple[int, ...]]] = {
    Size.QUICK: {"d": (10, 40), "epsilon": (1, 4)},
    Size.FULL: {"d": (10, 20, 40, 80), "epsilon": (1, 2, 4, 8)},
}
# Printed exponents, of d, of epsilon and of G, and how far above a slope may be: as E4 in N.
PRINTED = {"dp_gd": {"d": 1 / 2, "epsilon": -1.0}, "diff2": {"d": 2 / 3, "epsilon": -4 / 3}}
OF_G = {"dp_gd": 1.0, "diff2": 2 / 3}
OFF = {"dp_gd": 0.1, "diff2": 0.15}
SAID = (
    "Table 1, upper bounds: d^(1/2) / (N epsilon) and d^(2/3) / (N epsilon)^(4/3), so that a slope "
    "may be below; as far above as E4 lets those in N be; one side after a look at a corner"
)


def cells(size: Size) -> list[Cell]:
    """Both methods, over d at epsilon = 3 and over epsilon at d = 20."""
    return [
        Cell.of(_choice(method, **at).rounds, method=method, over=over, **at)
        for method in PRINTED
        for over, values in VALUES[size].items()
        for at in ({**AT, over: value} for value in values)
    ]


@lru_cache(maxsize=32)
def _choice(method: str, d: int, epsilon: int) -> Choice:
    facts = Problem(LOSS.smoothness, LOSS.gradient_bound(d), math.log(2), d)
    search = dp_gd_auto if method == "dp_gd" else diff2_gd_auto
    return search(facts, Budget(epsilon, DELTA, RECORDS))


def run(cell: Cell, rng: np.random.Generator) -> Values:
    """Each trial's mean of ||grad f(x_{r-1})||^2 over all rounds, and its value at the start."""
    d = cell.count("d")
    choice, rows = (
        _choice(cell.text("method"), d, cell.count("epsilon")),
        unit_rows(ROWS, d, DATA_SEED),
    )
    made = Diff2(
        loss=LOSS,
        features=d,
        client_sizes=(RECORDS,),
        rounds=choice.rounds,
        restart_every=choice.restart_every,
        gradient_radius=LOSS.gradient_bound(d),
        difference_radius=LOSS.smoothness,
        step_size=choice.step_size,
        noise=choice.noise,
    )
    total, points = np.zeros(TRIALS), list[Array]()
    for visit in visits(made, replicated(rows, RECORDS // ROWS), rng, TRIALS):
        points.append(visit.point)
        if len(points) == BLOCK or visit.round == choice.rounds - 1:
            flat = np.concatenate(points)
            squares = mean_square(LOSS.mean_gradients(flat, rows))
            total += squares.reshape(-1, TRIALS).sum(axis=0)
            points.clear()
    start = mean_square(LOSS.mean_gradients(np.zeros((1, d)), rows))
    return {
        "gradient": (total / choice.rounds).tolist(),
        "start": float(start[0]),
        "bound": choice.gradient_norm_upper,
        "rounds": choice.rounds,
    }


def read(results: Results) -> Findings:
    """Slopes in d and epsilon beside the printed ones, and every cell below its start."""
    checks, rows, panels, learnt = [], [], [], []
    for over in AT:
        series = []
        for method, name in NAMES.items():
            found = results.where(method=method, over=over)
            x = tuple(r.cell.number(over) for r in found)
            pairs = [mean_and_error(r.numbers("gradient")) for r in found]
            power = OF_G[method] * (over == "d")
            scales = [LOSS.gradient_bound(r.cell.count("d")) ** power for r in found]
            y, spread = (
                [value / scale for value, scale in zip(values, scales, strict=True)]
                for values in zip(*pairs, strict=True)
            )
            fit = fit_power_law(x, y, spread)
            printed, off = PRINTED[method][over], OFF[method]
            title = f"{name}: log-log slope of the measured gradient norm in {over}"
            checks.append(
                Check(title, fit.slope, upper=printed + off, margin=2 * fit.error, source=SAID)
            )
            series.append(Series(f"{name} ({fit.slope:.2f})", x, tuple(y)))
            for r, (mean, error) in zip(found, pairs, strict=True):
                at = (r.cell.count("d"), r.cell.count("epsilon"))
                rows.append((name, *at, int(r.number("rounds")), mean, error, r.number("bound")))
                row = f"{name} over {over}, d = {at[0]}, epsilon = {at[1]}"
                learnt.append(Learnt(row, mean, r.number("start"), error))
        panels.append(Panel(f"Over {over}", over, "mean squared gradient norm", tuple(series)))
    columns = ("method", "d", "epsilon", "R", "measured", "standard error", "bound")
    table = Table(f"Mean squared gradient norm, N = {RECORDS:,}", columns, tuple(rows))
    tables = (table, learning_table(learnt, "squared gradient norm, mean over rounds"))
    return Findings(tables, (*checks, *learning_checks(learnt)), tuple(panels))


diff2_dimensions = Experiment(
    name="diff2_dimensions",
    title="DIFF2-GD and DP-GD: measured gradient norm against d and epsilon",
    source="Murata and Suzuki 2023, Table 1 and Theorem 4.3",
    cells=cells,
    run=run,
    read=read,
    alone=("",),
)
