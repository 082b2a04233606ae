"""How deletion sensitivity falls with users and items, and what blocks do to it.

Of a mean, on normal items; of ridge logistic regression, on the RAND rows given to users at random.
"""

from __future__ import annotations

import math

import numpy as np

from dpaudit.curator.curator import Sampler
from dpaudit.kernels.query import Array, Records
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
from mechanisms.papers.common import randhie
from mechanisms.papers.stable_erm.bounds import Size as Counts
from mechanisms.papers.stable_erm.bounds import gradient_radius
from mechanisms.papers.stable_erm.calibration import USERS
from mechanisms.papers.stable_erm.catalogue import CALIBRATED
from mechanisms.papers.stable_erm.certificate import unit_of_radius
from mechanisms.papers.stable_erm.domains import Ball
from mechanisms.papers.stable_erm.polynomial import GridMean, WindowMeanScore
from mechanisms.papers.stable_erm.release import DeletionStableOutputPerturbation
from mechanisms.papers.stable_erm.solver import Minimiser, RidgeLogistic
from mechanisms.papers.stable_erm.stable import local_deletion_sensitivity

SOURCE = "Ghazi et al. 2023, Theorem 3.6 and Corollary 3.7"
SCALE = "Theorem 3.6: 5 G sqrt(log(1 / beta)) / (mu (n - 1) sqrt(m)); .05 ours"
ROWS = "Corollary 3.7: 1 / sqrt(m); .1 ours"
FEW, MANY = 1_000, 4_000
ITEMS = (4, 16, 64, 256)
COUNTS = (50, 200, 800, 3200)
BLOCK_USERS, BLOCK_ITEMS = 600, 64
ROW_USERS, ROW_ITEMS, ROW_DRAWS = 8, (10, 40, 160), 20
LOGISTIC = Minimiser(RidgeLogistic(0.5, math.sqrt(10), 1e-4), Ball(2.0))


def cells(size: Size) -> list[Cell]:
    """Items at a fixed number of users, users at a fixed number of items, and blocks."""
    draws = FEW if size is Size.QUICK else MANY
    items = [Cell.of(kind="items", users=100, items=m, draws=draws) for m in ITEMS]
    counts = [Cell.of(kind="users", users=n, items=10, draws=draws) for n in COUNTS]
    runs = [
        Cell.of(kind=kind, users=BLOCK_USERS, items=BLOCK_ITEMS, draws=draws)
        for kind in ("random", "block")
    ]
    rows = [Cell.of(kind="rows", users=ROW_USERS, items=m, draws=ROW_DRAWS) for m in ROW_ITEMS]
    return [*items, *counts, *rows, *runs]


def run(cell: Cell, rng: np.random.Generator) -> Values:
    """The 95% quantile of |mean - mean without the last user|, or the share of bottoms."""
    users, items = cell.count("users"), cell.count("items")
    if cell.text("kind") in ("random", "block"):
        return {"bottoms": _bottoms(cell.text("kind"), users, items, cell.count("draws"), rng)}
    if cell.text("kind") == "rows":
        return {"quantile": _of_rows(users, items, cell.count("draws"), rng)}
    population = rng.standard_normal(users * items)
    steps = []
    for _ in range(cell.count("draws")):
        means = rng.permutation(population).reshape(users, items).mean(axis=1)
        steps.append(float(np.abs(means[-1] - means.mean()) / (users - 1)))
    return {"quantile": float(np.quantile(steps, 0.95))}


def _of_rows(users: int, items: int, draws: int, rng: np.random.Generator) -> float:
    """The median over allocations of the largest step of ridge logistic regression."""
    rows = randhie.load(target="any_visit", clients=1).train
    steps = []
    for _ in range(draws):
        chosen = rng.choice(len(rows), size=users * items, replace=False)
        given = rows[chosen].reshape(users, items, -1)
        steps.append(float(local_deletion_sensitivity(LOGISTIC, given)[0]))
    return float(np.median(steps))


def _bottoms(kind: str, users: int, items: int, trials: int, rng: np.random.Generator) -> float:
    """Items of +-1 given to users at random, or each user all of one kind."""
    values = rng.choice([-1.0, 1.0], size=(users, items if kind == "random" else 1))
    data: Array = np.repeat(values, items // values.shape[1], axis=1)[..., None]
    radius = gradient_radius(1.0, Counts(users, items, 1e-3))
    unit = float(unit_of_radius("quadratic", radius, 1.0, 1.0, users, CALIBRATED.kappa))
    program = DeletionStableOutputPerturbation(
        users, unit, CALIBRATED, GridMean(1.0), WindowMeanScore()
    )
    declaration = program.declaration(USERS)
    sampler = Sampler(declaration, USERS, Records(data), rng=rng, trials=trials)
    return float(np.isnan(program.run(sampler)).mean())


def read(results: Results) -> Findings:
    """Slopes in m and n - 1, and shares of bottoms."""
    items = [results.one(kind="items", items=m).number("quantile") for m in ITEMS]
    counts = [results.one(kind="users", users=n).number("quantile") for n in COUNTS]
    in_items = fit_power_law(ITEMS, items).slope
    in_users = fit_power_law([n - 1 for n in COUNTS], counts).slope
    rows = [results.one(kind="rows", items=m).number("quantile") for m in ROW_ITEMS]
    in_rows = fit_power_law(ROW_ITEMS, rows).slope
    shares = {kind: results.one(kind=kind).number("bottoms") for kind in ("random", "block")}
    checks = (
        Check("slope in items a user", in_items, -0.55, -0.45, source=SCALE),
        Check("slope in users", in_users, -1.05, -0.95, source=SCALE),
        Check("slope in rows a user", in_rows, -0.6, -0.4, source=ROWS),
        Check(
            "bottoms on items given at random",
            shares["random"],
            upper=1e-3,
            source="Theorem 3.1: released but for beta = 1e-3",
        ),
        Check(
            "bottoms where a user's items are alike",
            shares["block"],
            0.99,
            1.0,
            source="ours: m equal items count as one, whose steps exceed the unit for m",
        ),
    )
    listed = [
        *(("items a user", m, q) for m, q in zip(ITEMS, items, strict=True)),
        *(("users", n, q) for n, q in zip(COUNTS, counts, strict=True)),
        *(("rows a user, logistic", m, q) for m, q in zip(ROW_ITEMS, rows, strict=True)),
    ]
    panels = (
        Panel(
            "Deletion sensitivity: of a mean, 95% quantile; of ridge logistic regression, median",
            "items a user, or users",
            "largest step",
            (
                Series(f"items ({in_items:.3f})", tuple(map(float, ITEMS)), tuple(items)),
                Series(f"users ({in_users:.3f})", tuple(map(float, COUNTS)), tuple(counts)),
                Series(f"RAND rows ({in_rows:.3f})", tuple(map(float, ROW_ITEMS)), tuple(rows)),
            ),
        ),
    )
    head = ("varied", "number", "95% quantile (rows: median)")
    table = Table("Deletion sensitivity", head, tuple(listed))
    notes = ("users whose items are alike count as one item each: the units for m items are too "
             "small for them, and nothing is released",)  # fmt: skip
    return Findings((table,), checks, panels, notes)


stable_sensitivity = Experiment(
    name="stable_sensitivity",
    title="Deletion sensitivity against users and items, and the share of bottoms",
    source=SOURCE,
    cells=cells,
    run=run,
    read=read,
    alone=("",),
)
