"""E1: the error of DIFF2's estimate is the noise it adds up since the last restart, no more."""

from __future__ import annotations

import numpy as np

from dpaudit.kernels.query import Records
from experiments.diff2.runs import visits
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
from experiments.objectives import PenalisedLogistic, mean_square, unit_rows
from mechanisms.papers.diff2.framework import Diff2
from mechanisms.papers.diff2.noise import Noise

FEATURES, ROWS, ROUNDS = 10, 8, 12
DATA_SEED = 4
BAND = 0.02
TRIALS = {Size.QUICK: 10_000, Size.FULL: 40_000}


def cells(size: Size) -> list[Cell]:
    """Two restart intervals."""
    return [Cell.of(restart_every=t, trials=TRIALS[size]) for t in (4, 6)]


def program(restart_every: int) -> Diff2:
    """Steps long enough, and noise large enough, for both terms of the error to show."""
    loss = PenalisedLogistic()
    return Diff2(
        loss=loss,
        features=FEATURES,
        client_sizes=(ROWS,),
        rounds=ROUNDS,
        restart_every=restart_every,
        gradient_radius=loss.gradient_bound(FEATURES),
        difference_radius=loss.smoothness,
        step_size=0.7,
        noise=Noise(0.5, 1.2),
    )


def run(cell: Cell, rng: np.random.Generator) -> Values:
    """Measured and predicted E||v_r - grad f(x_{r-1})||^2 for every round."""
    made = program(cell.count("restart_every"))
    rows = unit_rows(ROWS, FEATURES, DATA_SEED)
    loss = PenalisedLogistic()
    restart = (float(made.noise.sigma_1) * made.gradient_radius) ** 2 * FEATURES
    per_step = (float(made.noise.sigma_2) * made.difference_radius) ** 2 * FEATURES
    measured, predicted, errors = [], [], []
    total = np.zeros(cell.count("trials"))
    for visit in visits(made, Records(rows), rng, cell.count("trials")):
        wrong = mean_square(visit.estimate - loss.mean_gradients(visit.point, rows))
        fresh = visit.round % made.restart_every == 0
        total = np.square(visit.moved) * per_step + (restart if fresh else total)
        measured.append(float(wrong.mean()))
        errors.append(float((wrong - total).std() / np.sqrt(len(wrong))))
        predicted.append(float(total.mean()))
    return {"measured": measured, "predicted": predicted, "errors": errors}


def read(results: Results) -> Findings:
    """The ratio of measured to predicted, round by round; the furthest from 1 is checked."""
    checks, panels, rows = [], [], []
    for result in results:
        interval = result.cell.count("restart_every")
        names = ("measured", "predicted", "errors")
        triples = list(zip(*map(result.numbers, names), strict=True))
        found = [(m / p, 2 * e / p) for m, p, e in triples]
        rows += [(interval, r, m, p, m / p) for r, (m, p, _) in enumerate(triples, start=1)]
        checks += [_check(interval, "furthest", found)]
        checks += [_check(interval, "restarts", found[::interval])]
        panels.append(_panel(interval, [m for m, _, _ in triples], [p for _, p, _ in triples]))
    columns = ("T", "round", "measured", "predicted", "ratio")
    table = Table("Mean squared error of the estimate", columns, tuple(rows))
    return Findings((table,), tuple(checks), tuple(panels))


def _check(interval: int, which: str, ratios: list[tuple[float, float]]) -> Check:
    ratio, margin = max(ratios, key=lambda pair: abs(pair[0] - 1))
    among = "all rounds" if which == "furthest" else "rounds that restart"
    name = f"T={interval}: measured over predicted error, furthest from 1 of {among}"
    return Check(name, ratio, 1 - BAND, 1 + BAND, margin, "within 2%, as the identity is exact")


def _panel(interval: int, measured: list[float], predicted: list[float]) -> Panel:
    rounds = tuple(float(r) for r in range(1, len(measured) + 1))
    series = (
        Series("measured", rounds, tuple(measured), ""),
        Series("predicted", rounds, tuple(predicted), "--", ""),
    )
    return Panel(f"T = {interval}", "round", "squared error of the estimate", series, "linear")


diff2_identity = Experiment(
    name="diff2_identity",
    title="DIFF2: the error of the estimate grows within a block and is shed at every restart",
    source="Murata and Suzuki 2023, proof of Proposition D.2",
    cells=cells,
    run=run,
    read=read,
    alone=("",),
)
