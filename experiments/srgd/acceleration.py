"""Without noise and data: the coupled steps accelerate on the chain that is hard for them."""

from __future__ import annotations

import numpy as np

from dpaudit.kernels.query import Array
from experiments.lab.fits import fit_power_law
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
from mechanisms.papers.srgd.geometry import EtaSchedule, nesterov_step

DIMENSION, BETA = 400, 1.0
ROUNDS = (8, 16, 32, 64, 128)
SLOPES = {"t+1": -1.05, "bg19": -1.0, "plain": -0.5}
NAMES = {"t+1": "eta = t + 1", "bg19": "eta = (t + 1) / 2", "plain": "gradient descent"}
STATED = (0.021623, 0.011142, 0.005530, 0.002638, 0.001171)
CHAIN = "ours, set before the run: slopes -1.05 (t + 1), -1 ((t + 1) / 2) and -.5, +-.1"
OUTSIDE = "ours, set before the run: the gaps of an outside run, to its digits"
BOUND = "Theorem 5.1 without noise and sampling: F(y_T) - F* <= beta R^2 / eta_{0:T}, R = ||x*||"


def cells(size: Size) -> list[Cell]:
    """Three methods; a run costs nothing."""
    return [Cell.of(method=m, d=DIMENSION) for m in SLOPES]


def run(cell: Cell, rng: np.random.Generator) -> Values:
    """f(y_T) - f* of f(x) = x'Qx/2 - x_1/4, Q = (2I - S - S')/4, from 0."""
    method = cell.text("method")
    return {"gap": [_gap(_last(method, rounds)) for rounds in ROUNDS]}


def _gradient(x: Array) -> Array:
    gradient = x / 2
    gradient[:, 1:] -= x[:, :-1] / 4
    gradient[:, :-1] -= x[:, 1:] / 4
    gradient[:, 0] -= 0.25
    return gradient


def _gap(x: Array) -> float:
    """f(x) - f* = (x - x*)'Q(x - x*)/2, where x*_i = 1 - i / (d + 1)."""
    apart = x - (1 - np.arange(1, DIMENSION + 1) / (DIMENSION + 1))
    shifted = _gradient(apart)
    shifted[:, 0] += 0.25
    return float((apart * shifted).sum() / 2)


def _last(method: str, rounds: int) -> Array:
    x = y = z = np.zeros((1, DIMENSION))
    if method == "plain":
        for _ in range(rounds):
            x = x - _gradient(x) / BETA
        return x
    schedule = EtaSchedule(method)
    for t in range(rounds):
        weighted = schedule.eta(t) / BETA * _gradient(x)
        x, y, z = nesterov_step(x, z, weighted, t, schedule, np.inf)
    return y


def read(results: Results) -> Findings:
    """Slopes in T, and the stated values of the printed schedule."""
    checks, series, learnt = [], [], []
    start = _gap(np.zeros((1, DIMENSION)))
    rows: list[tuple[str | float, ...]] = []
    for method, stated in SLOPES.items():
        gaps = results.one(method=method).numbers("gap")
        slope = fit_power_law(ROUNDS, gaps).slope
        name = f"{NAMES[method]}: log-log slope of the gap in T"
        checks.append(Check(name, slope, stated - 0.1, stated + 0.1, source=CHAIN))
        x = tuple(float(t) for t in ROUNDS)
        series.append(Series(f"{NAMES[method]} ({slope:.2f})", x, tuple(gaps)))
        rows.append((NAMES[method], *gaps, slope))
        learnt += [
            Learnt(f"without noise, {NAMES[method]}, T = {t}", gap, start)
            for t, gap in zip(ROUNDS, gaps, strict=True)
        ]
    gaps = results.one(method="t+1").numbers("gap")
    apart = max(abs(g / s - 1) for g, s in zip(gaps, STATED, strict=True))
    name = "eta = t + 1: largest relative distance from the stated gaps"
    checks.append(Check(name, apart, upper=1e-3, source=OUTSIDE))
    checks += [_bound(results, schedule) for schedule in EtaSchedule]
    table = Table(
        "Gap f(y_T) - f*", ("method", *(f"T = {t}" for t in ROUNDS), "slope"), tuple(rows)
    )
    panel = Panel("Acceleration", "rounds T", "f(y_T) - f*", tuple(series))
    return Findings(
        (table, learning_table(learnt, "gap")), (*checks, *learning_checks(learnt)), (panel,)
    )


def _bound(results: Results, schedule: EtaSchedule) -> Check:
    """The largest gap over the printed bound, over T."""
    gaps = results.one(method=schedule.value).numbers("gap")
    radius = 1 - np.arange(1, DIMENSION + 1) / (DIMENSION + 1)
    square = float(radius @ radius)
    shares = [
        gap * schedule.total(rounds) / (BETA * square)
        for rounds, gap in zip(ROUNDS, gaps, strict=True)
    ]
    name = f"bound, {NAMES[schedule.value]}: largest gap over beta R^2 / eta_{{0:T}}"
    return Check(name, max(shares), upper=1.0, source=BOUND)


srgd_acceleration = Experiment(
    name="srgd_acceleration",
    title="The coupled steps without noise: acceleration on a quadratic chain",
    source="Choquette-Choo, Ganesh and Thakurta 2024, Algorithm 1, without noise",
    cells=cells,
    run=run,
    read=read,
    alone=("",),
)
