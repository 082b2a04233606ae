"""E4 and E5: measured gradient norms against N, at both calibrations, beside their bounds."""

from __future__ import annotations

import math

import numpy as np

from experiments.diff2 import problem
from experiments.diff2.bounds import NAMES
from experiments.diff2.runs import visits
from experiments.diff2.stationarity import at_start
from experiments.lab.fits import fit_power_law, mean_and_error
from experiments.lab.learning import Learnt, learning_checks, learning_table
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
    Table,
    Values,
)
from experiments.objectives import mean_square

TRIALS = 3
BANDS = {"dp_gd": (-1.1, -0.9), "diff2": (-1.45, -1.15)}
BLOCK = 4096  # rounds whose gradients are evaluated at once
SIZES = {
    ("paper", Size.QUICK): (3_000, 10_000),
    ("tight", Size.QUICK): (10_000,),
    ("paper", Size.FULL): (3_000, 10_000, 30_000, 100_000),
    ("tight", Size.FULL): (3_000, 10_000, 30_000),
}


def cells(size: Size) -> list[Cell]:
    """Both methods and calibrations; the schedules are those of the bound's least value."""
    return [
        Cell.of(_cost(method, n), method=method, calibration=calibration, n=n, trials=TRIALS)
        for calibration in ("paper", "tight")
        for method in BANDS
        for n in SIZES[calibration, size]
    ]


def _cost(method: str, n: int) -> float:
    return problem.chosen(method, n).rounds * (2.0 + n / 1e5)


def run(cell: Cell, rng: np.random.Generator) -> Values:
    """Each trial's mean of ||grad f(x_{r-1})||^2 over all rounds, and the bound on its mean.

    Where the calibration is "tight" the schedule stays that of the printed constants.
    """
    n = cell.count("n")
    best = problem.chosen(cell.text("method"), n)
    choice = problem.planned(
        cell.text("calibration"), n, best.rounds, best.restart_every, best.share
    )
    made = problem.program(choice, n)
    total, points = np.zeros(cell.count("trials")), []
    for visit in visits(made, problem.records(n), rng, cell.count("trials")):
        points.append(visit.point)
        if len(points) == BLOCK or visit.round == choice.rounds - 1:
            total += _squares(np.stack(points)).sum(axis=0)
            points.clear()
    return {
        "gradient": (total / choice.rounds).tolist(),
        "bound": choice.gradient_norm_upper,
        "rounds": choice.rounds,
        "restart_every": choice.restart_every,
        "share": choice.share,
    }


def _squares(
    points: np.ndarray[tuple[int, ...], np.dtype[np.float64]],
) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """||grad f||^2 at points (rounds, trials, d): (rounds, trials)."""
    flat = points.reshape(-1, problem.FEATURES)
    gradients = problem.LOSS.mean_gradients(flat, problem.rows())
    return mean_square(gradients).reshape(points.shape[:2])


def read(results: Results) -> Findings:
    """Slopes, measured against bound, and what tightness gains."""
    checks = [_slope(results, method) for method in BANDS]
    worst = max(results, key=lambda r: _mean(r)[0] / r.number("bound"))
    mean, error = _mean(worst)
    bound = worst.number("bound")
    name = f"measured over bound, largest of all cells ({worst.cell.name})"
    checks.append(Check(name, mean / bound, upper=1.0, margin=2 * error / bound, source="E4"))
    checks += _gains(results)
    panel = Panel("Measured", "records N", "mean squared gradient norm", tuple(_drawn(results)))
    learnt = [_learnt(result) for result in results]
    tables = (_table(results), learning_table(learnt, "squared gradient norm, mean over rounds"))
    return Findings(tables, (*checks, *learning_checks(learnt)), (panel,))


def _learnt(result: Result) -> Learnt:
    mean, error = _mean(result)
    of = result.cell
    method = (
        f"{NAMES[of.text('method')]}, {of.text('calibration')} constants, N = {of.count('n'):,}"
    )
    return Learnt(method, mean, at_start(), error)


def _mean(result: Result) -> tuple[float, float]:
    return mean_and_error(result.numbers("gradient"))


def _slope(results: Results, method: str) -> Check:
    found = results.where(method=method, calibration="paper")
    means, errors = zip(*map(_mean, found), strict=True)
    fitted = fit_power_law([r.cell.number("n") for r in found], means, errors)
    name = f"{NAMES[method]}: log-log slope of the measured gradient norm in N"
    return Check(name, fitted.slope, *BANDS[method], margin=2 * fitted.error, source="E4")


def _gains(results: Results) -> list[Check]:
    """Tight over printed constants, at every size that has both: below 1."""
    checks = []
    for result in results.where(calibration="tight"):
        method, n = result.cell.text("method"), result.cell.count("n")
        (ours, error) = _mean(result)
        (theirs, spread) = _mean(results.one(method=method, calibration="paper", n=n))
        margin = 2 * ours / theirs * math.hypot(error / ours, spread / theirs)
        name = f"{NAMES[method]}: tight over printed constants at N = {n:,}"
        checks.append(Check(name, ours / theirs, upper=0.95, margin=margin, source="E5"))
    return checks


def _table(results: Results) -> Table:
    rows = tuple(
        (
            NAMES[r.cell.text("method")],
            r.cell.text("calibration"),
            r.cell.count("n"),
            int(r.number("rounds")),
            int(r.number("restart_every")),
            r.number("share"),
            *_mean(r),
            r.number("bound"),
        )
        for r in results
    )
    columns = ("method", "constants", "N", "R", "T", "u", "measured", "standard error", "bound")
    return Table("Mean squared gradient norm over the rounds, (3, 1e-5)-DP", columns, rows)


def _drawn(results: Results) -> list[Series]:
    series = []
    for method in BANDS:
        for calibration in ("paper", "tight"):
            found = results.where(method=method, calibration=calibration)
            x = tuple(r.cell.number("n") for r in found)
            means, errors = zip(*map(_mean, found), strict=True)
            label = f"{NAMES[method]}, {calibration}"
            bars = tuple(2 * e for e in errors)
            series.append(
                Series(label, x, means, "-" if calibration == "paper" else ":", error=bars)
            )
        bounds = tuple(r.number("bound") for r in results.where(method=method, calibration="paper"))
        x = tuple(r.cell.number("n") for r in results.where(method=method, calibration="paper"))
        series.append(Series(f"{NAMES[method]}, bound", x, bounds, "--", ""))
    return series


diff2_slopes = Experiment(
    name="diff2_slopes",
    title="DIFF2-GD and DP-GD on replicated data: measured gradient norm against N",
    source="Murata and Suzuki 2023, Table 1 and Theorem 4.3",
    cells=cells,
    run=run,
    read=read,
    alone=("DP-GD:", "DIFF2-GD:", "measured over bound"),
)
