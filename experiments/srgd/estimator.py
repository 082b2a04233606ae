"""The error of stochastic recursive gradients falls as t^-1/2; a fresh batch's does not."""

from __future__ import annotations

import math

import numpy as np

from dpaudit.kernels.query import Array
from experiments.lab.fits import Fit, fit_power_law, mean_and_error
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
from experiments.objectives import mean_square
from experiments.srgd import problem
from mechanisms.papers.srgd.accelerated import AcceleratedDPSRGD
from mechanisms.papers.srgd.constants import as_float, noised
from mechanisms.papers.srgd.gradient import LABEL, of_constants

BATCH, ROUNDS = 64, 256
SEEDS = {Size.QUICK: 8, Size.FULL: 16}
AT = (4, 8, 16, 32, 64, 128, 256)  # t + 1
BOUND = (
    "proof of Lemma 5.2: ||q_t|| <= Q sqrt(3 (t + 1) log(6/gamma)) / (sqrt B eta_t), -1/2 in t + 1;"
    " +-.15 ours, set before the run"
)
FLAT = "ours, set before the run: flat, +-.05"
NAMES = {"recursive": "recursive estimate", "fresh": "mean gradient of a fresh batch"}


def cells(size: Size) -> list[Cell]:
    """One data set a cell."""
    return [Cell.of(dataset=k, rounds=ROUNDS) for k in range(SEEDS[size])]


def program() -> AcceleratedDPSRGD:
    """B = 64, T = 256, beta = 2 M T, noise next to none."""
    made = noised(
        ROUNDS, BATCH, 2 * problem.SMOOTHNESS * ROUNDS, problem.CLIP, problem.NEXT_TO_NONE
    )
    gradient = of_constants(made, problem.LOSS, problem.FEATURES, BATCH * ROUNDS)
    return AcceleratedDPSRGD(gradient, radius=problem.RADIUS)


def run(cell: Cell, rng: np.random.Generator) -> Values:
    """||grad_t - grad F(x_t)|| at some rounds, for both estimates."""
    made = program()
    data = problem.sample(BATCH * ROUNDS, rng)
    ran = problem.run(made, data, rng)
    found: dict[str, list[float]] = {name: [] for name in NAMES}
    beta, state = as_float(made.gradient.beta), made.start(1)
    released = [event.released for event in ran.transcript if event.label == LABEL]
    for t, value in enumerate(released):
        prefix = made.gradient.accumulate(t, state.prefix, value)
        if t + 1 in AT:
            true = problem.population_gradients(state.x)
            rows = data.values[t * BATCH : (t + 1) * BATCH]
            fresh = problem.LOSS.gradients(state.x, rows).mean(axis=1)
            estimate = beta * prefix.total / made.gradient.schedule.eta(t)
            found["recursive"].append(_distance(estimate, true))
            found["fresh"].append(_distance(fresh, true))
        state = made.after(state, prefix, t)
    return found


def _distance(first: Array, second: Array) -> float:
    return math.sqrt(float(mean_square(first - second)[0]))


def read(results: Results) -> Findings:
    """Slopes of the root mean square in t + 1."""
    recursive, fresh = _fitted(results, "recursive"), _fitted(results, "fresh")
    checks = (
        Check(
            "recursive estimate: slope of its error in t + 1",
            recursive.slope, -0.65, -0.35, 2 * recursive.error, BOUND,
        ),
        Check(
            "fresh batch: slope of its error in t + 1",
            fresh.slope, -0.05, 0.05, 2 * fresh.error, FLAT,
        ),
    )  # fmt: skip
    columns = ("t + 1", *(f"{name}, root mean square error" for name in NAMES.values()))
    means = {name: _rms(results, name) for name in NAMES}
    rows = tuple((t, *(means[name][k] for name in NAMES)) for k, t in enumerate(AT))
    table = Table("Errors, B = 64, T = 256, beta = 2 M T, noise off", columns, rows)
    x = tuple(float(t) for t in AT)
    series = tuple(
        Series(f"{label} ({fit.slope:.2f})", x, tuple(means[name]))
        for (name, label), fit in zip(NAMES.items(), (recursive, fresh), strict=True)
    )
    panel = Panel("Gradient error", "t + 1", "root mean square error", series)
    return Findings((table,), checks, (panel,))


def _errors(results: Results, name: str) -> Array:
    return np.array([r.numbers(name) for r in results])


def _rms(results: Results, name: str) -> list[float]:
    return [float(v) for v in np.sqrt(np.square(_errors(results, name)).mean(axis=0))]


def _fitted(results: Results, name: str) -> Fit:
    """The slope of the root mean square; its error from the slopes of single data sets."""
    fitted = fit_power_law(AT, _rms(results, name))
    single = [fit_power_law(AT, row).slope for row in _errors(results, name).tolist()]
    return Fit(fitted.slope, fitted.intercept, mean_and_error(single)[1])


srgd_estimator = Experiment(
    name="srgd_estimator",
    title="Stochastic recursive gradients: the error falls as the square root of the step",
    source="Choquette-Choo, Ganesh and Thakurta 2024, Section 4.2 and Lemma 5.3",
    cells=cells,
    run=run,
    read=read,
    alone=("",),
)
