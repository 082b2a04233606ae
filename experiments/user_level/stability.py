"""How far apart two groups' averages end: the lemma that sets tau, against runs.

Two groups hold i.i.d. items of their own.  With a linear loss nothing pulls them together, and the
distance grows as the square root of the steps; tau's proven bound, which two such groups exceed
with probability zeta at most, is for every convex, L-Lipschitz and 1/eta-smooth loss.
"""

from __future__ import annotations

import math

import numpy as np

from dpaudit.kernels.query import Array
from experiments.lab.fits import fit_power_law
from experiments.lab.model import (
    Cell,
    Check,
    Experiment,
    Findings,
    Panel,
    Parameter,
    Results,
    Series,
    Size,
    Table,
    Values,
)
from experiments.user_level import problem
from experiments.user_level.problem import DIMENSION
from mechanisms.papers.common.losses import Loss
from mechanisms.papers.user_level.problem import LinearLoss, Problem, SquaredDistance
from mechanisms.papers.user_level.sgd import one_pass_sgd, sgd_two_run_radius

LOSSES: dict[str, tuple[Loss, float]] = {
    "linear": (LinearLoss(DIMENSION), 1e3),
    "quadratic": (SquaredDistance(DIMENSION), 1.0),
}
STEPS = {Size.QUICK: (64, 256, 1024), Size.FULL: (64, 128, 256, 512, 1024, 2048)}
PAIRS, AT_ONCE = 1_000, 250
STEP, ZETA = 0.002, 0.01


def cells(size: Size) -> list[Cell]:
    """Both losses at every number of steps."""
    return [Cell.of(t, loss=name, steps=t) for name in LOSSES for t in STEPS[size]]


def run(cell: Cell, rng: np.random.Generator) -> Values:
    """Root mean square and largest distance of 1,000 pairs, over L eta sqrt(T) where it says so."""
    loss, radius = LOSSES[cell.text("loss")]
    steps = cell.count("steps")
    on = Problem(loss, 2 * AT_ONCE, steps, DIMENSION, radius, problem.LIPSCHITZ)
    found = np.concatenate([distances(on, rng) for _ in range(PAIRS // AT_ONCE)])
    bound = sgd_two_run_radius(STEP, problem.LIPSCHITZ, steps, ZETA)
    return {
        "distance": float(math.sqrt(np.square(found).mean())),
        "largest": float(found.max()),
        "bound": bound,
        "beyond": int((found > bound).sum()),
    }


def distances(on: Problem, rng: np.random.Generator) -> Array:
    """Of one group's average to the next one's; every user is a group."""
    data = problem.sample(on.users, on.items, rng)
    (averages,) = one_pass_sgd(on, on.start(1), data, on.users, STEP)
    return np.asarray(np.linalg.norm(averages[::2] - averages[1::2], axis=1))


def read(results: Results) -> Findings:
    """The slope for a linear loss, and no pair beyond the bound."""
    checks, series = [], []
    rows: list[tuple[Parameter, ...]] = []
    for name in LOSSES:
        found = results.where(loss=name).rows
        steps = [r.cell.number("steps") for r in found]
        measured = [r.number("distance") for r in found]
        errors = [m / math.sqrt(2 * DIMENSION * PAIRS) for m in measured]
        fit = fit_power_law(steps, measured, errors)
        if name == "linear":
            checks.append(Check("linear loss: slope of the distance in T", fit.slope, 0.45, 0.55,
                                margin=2 * fit.error, source="acceptance 8"))  # fmt: skip
        beyond = sum(r.number("beyond") for r in found)
        checks.append(Check(f"{name} loss: pairs beyond the proven radius", beyond, upper=0.0,
                            source="acceptance 8"))  # fmt: skip
        rows += [
            (name, r.cell.count("steps"), *(r.number(v) for v in ("distance", "largest", "bound")))
            for r in found
        ]
        label = f"{name} loss ({fit.slope:.2f})"
        series.append(Series(label, tuple(steps), tuple(measured)))
    bounds = tuple(r.number("bound") for r in results.where(loss="linear"))
    x = tuple(r.cell.number("steps") for r in results.where(loss="linear"))
    series.append(Series("proven radius, zeta = .01", x, bounds, style="--", marker=""))
    columns = ("loss", "steps T", "root mean square", "largest", "proven radius")
    table = Table(f"Distance of two averages, {PAIRS:,} pairs", columns, tuple(rows))
    panel = Panel("Two runs on i.i.d. items", "steps T", "distance", tuple(series))
    note = f"eta = {STEP}, L = {problem.LIPSCHITZ:g}; the largest distance is what tau has to reach"
    return Findings((table,), tuple(checks), (panel,), (note,))


user_level_stability = Experiment(
    name="user_level_stability",
    title="Two groups' average iterates: distance against steps",
    source=f"{problem.PAPER}, Lemma 2.3; its constant: dpaudit 2026",
    cells=cells,
    run=run,
    read=read,
    alone=("",),
)
