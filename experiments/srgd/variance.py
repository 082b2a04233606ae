"""Section 4.3: the variance of the gradient estimate without acceleration, against n and B.

The sketch takes recursive gradients with weights t + 1 and plain projected descent of step
1 / beta = B / sqrt(n), one epoch, and says that their variance is Omega(1) for t = Omega(T),
whatever B is.  Noise is off, as it is in the sketch.  Measured is E ||grad_t - grad F(x_t)||^2.
"""

from __future__ import annotations

import math

import numpy as np

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
from experiments.srgd import problem
from mechanisms.papers.srgd.geometry import project_l2_ball

BATCHES = (1, 4, 16)
SIZES = {Size.QUICK: (2**8, 2**10), Size.FULL: (2**8, 2**10, 2**12, 2**14)}
SEEDS = {Size.QUICK: 5, Size.FULL: 20}
SHARES = (0.5, 0.75, 1.0)  # of T, at which the estimate is compared
SAID = 'Section 4.3: "For t = Omega(T) = Omega(n/B), the variance is Omega(1)"; '
IN_N = SAID + "a slope in n of -.2 at least is ours, set before the run"


def cells(size: Size) -> list[Cell]:
    """Every batch size at every n, one epoch."""
    return [
        Cell.of(n / batch, batch=batch, n=n, seeds=SEEDS[size])
        for batch in BATCHES
        for n in SIZES[size]
    ]


def run(cell: Cell, rng: np.random.Generator) -> Values:
    """The mean squared error of the estimate over the late steps, of each seed."""
    n, batch = cell.count("n"), cell.count("batch")
    found = [_late_error(n, batch, rng) for _ in range(cell.count("seeds"))]
    return {"variance": found}


def _late_error(n: int, batch: int, rng: np.random.Generator) -> float:
    data, steps, length = problem.sample(n, rng).values, n // batch, batch / math.sqrt(n)
    x = previous = np.zeros((1, problem.FEATURES))
    total, errors = np.zeros_like(x), []
    late = {max(1, round(share * steps)) for share in SHARES}
    for t in range(steps):
        rows = data[t * batch : (t + 1) * batch]
        now = problem.LOSS.gradients(x, rows).mean(axis=1)
        before = problem.LOSS.gradients(previous, rows).mean(axis=1)
        total = total + (t + 1) * now - t * before
        estimate = total / (t + 1)
        if t + 1 in late:
            true = problem.population_gradients(x)
            errors.append(float(np.square(estimate - true).sum()))
        previous, x = x, project_l2_ball(x - length * estimate, problem.RADIUS)
    return float(np.mean(errors))


def read(results: Results) -> Findings:
    """The slope of the variance in n for each batch size."""
    checks, rows, series = [], [], []
    for batch in (int(b) for b in results.parameters("batch")):
        found = results.where(batch=batch).rows
        x = tuple(r.cell.number("n") for r in found)
        pairs = [mean_and_error(r.numbers("variance")) for r in found]
        means, errors = (tuple(v) for v in zip(*pairs, strict=True))
        fit: Fit = fit_power_law(x, means, errors)
        name = f"variance without acceleration, B = {batch}: log-log slope in n"
        checks.append(Check(name, fit.slope, lower=-0.2, margin=2 * fit.error, source=IN_N))
        rows.append((batch, *means, fit.slope, means[-1] * x[-1]))
        bars = tuple(2 * e for e in errors)
        series.append(Series(f"B = {batch} ({fit.slope:.2f})", x, means, error=bars))
    columns = ("B", *(f"n = {int(n)}" for n in x), "slope in n", "n times the variance, largest n")
    table = Table("Mean squared error of the gradient estimate, late steps", columns, tuple(rows))
    note = (
        "the sketch bounds the variance of a step's difference by its worst case; on this problem "
        "consecutive iterates are near, so that a difference varies by far less"
    )
    panel = Panel("Unaccelerated recursive gradients", "records n", "variance", tuple(series))
    return Findings((table,), tuple(checks), (panel,), (note,))


srgd_variance = Experiment(
    name="srgd_variance",
    title="Recursive gradients without acceleration: their variance against n and B",
    source="Choquette-Choo, Ganesh and Thakurta 2024, Section 4.3",
    cells=cells,
    run=run,
    read=read,
    alone=("variance",),
)
