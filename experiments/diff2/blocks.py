"""E7: how the error of the estimate builds up inside a block, and what the block length costs."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from experiments.diff2 import problem
from experiments.diff2.runs import visits
from experiments.diff2.stationarity import at_start
from experiments.lab.fits import mean_and_error
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

SHARE, TRIALS = 1.25, 8
STEP_SIZE = 1 / (2 * problem.SMOOTHNESS)
RECORDS = {Size.QUICK: 3000, Size.FULL: 5000}
ROUNDS = {Size.QUICK: 240, Size.FULL: 1200}
LENGTHS = {
    Size.QUICK: (1, 6, 20, 60),
    Size.FULL: (1, 2, 6, 20, 60, 200, 600, 1200),
}
DRAWN = (6, 20, 60, 200)
LAST = 0.1


def cells(size: Size) -> list[Cell]:
    """One cell a block length T; all have the same rounds, step size and guarantee."""
    shared = {"rounds": ROUNDS[size], "n": RECORDS[size]}
    return [Cell.of(restart_every=t, **shared) for t in LENGTHS[size]]


def run(cell: Cell, rng: np.random.Generator) -> Values:
    """Mean errors by position in the block, and squared gradient norms for each trial."""
    rounds, length, n = (cell.count(name) for name in ("rounds", "restart_every", "n"))
    choice = problem.planned("paper", n, rounds, length, SHARE)
    made = replace(problem.program(choice, n), step_size=STEP_SIZE)
    fresh = (float(made.noise.sigma_1) * made.gradient_radius) ** 2 * problem.FEATURES
    step = (float(made.noise.sigma_2) * made.difference_radius) ** 2 * problem.FEATURES
    wrong, stated, norms = (np.zeros((rounds, TRIALS)) for _ in range(3))
    for visit in visits(made, problem.records(n), rng, TRIALS):
        r = visit.round
        gradient = problem.LOSS.mean_gradients(visit.point, problem.rows())
        wrong[r] = mean_square(visit.estimate - gradient)
        norms[r] = mean_square(gradient)
        stated[r] = np.square(visit.moved) * step + (stated[r - 1] if r % length else fresh)
    late = norms[-max(1, round(LAST * rounds)) :].mean(axis=0)
    return {
        "measured": _by_position(wrong, length),
        "predicted": _by_position(stated, length),
        "restart_errors": wrong[::length].mean(axis=0).tolist(),
        "restart_predicted": fresh,
        "last_errors": wrong[length - 1 :: length].mean(axis=0).tolist(),
        "gradient": norms.mean(axis=0).tolist(),
        "late_gradient": late.tolist(),
    }


def _by_position(
    errors: np.ndarray[tuple[int, int], np.dtype[np.float64]], length: int
) -> list[float]:
    """The mean over whole blocks and trials at each position in the block."""
    whole = len(errors) // length
    return [float(v) for v in errors[: whole * length].reshape(whole, length, -1).mean(axis=(0, 2))]


def read(results: Results) -> Findings:
    """The reset at restarts, the growth in between, and the price of short and of long blocks."""
    lengths = [r.cell.count("restart_every") for r in results]
    inner = [r for r in results if r.cell.count("restart_every") in DRAWN]
    checks = [_reset(inner), *map(_identity, inner)]
    checks += _ends(results)
    rows = [
        (
            t,
            r.numbers("measured")[0],
            r.numbers("measured")[-1],
            mean_and_error(r.numbers("gradient"))[0],
            mean_and_error(r.numbers("late_gradient"))[0],
        )
        for t, r in zip(lengths, results, strict=True)
    ]
    columns = (
        "T", "error after a restart", "error at the end of a block",
        "mean squared gradient norm", "over the last tenth",
    )  # fmt: skip
    table = Table(
        "Block lengths, (3, 1e-5)-DP, the same rounds and step size", columns, tuple(rows)
    )
    learnt = [_learnt(result) for result in results]
    return Findings(
        (table, learning_table(learnt, "squared gradient norm over the last tenth")),
        (*checks, *learning_checks(learnt)),
        (_sawtooth(results), _sweep(results)),
    )


def _learnt(result: Result) -> Learnt:
    mean, error = mean_and_error(result.numbers("late_gradient"))
    return Learnt(f"DIFF2-GD, T = {result.cell.count('restart_every')}", mean, at_start(), error)


def _reset(results: list[Result]) -> Check:
    """The mean over restarts of all block lengths, each restart with the same weight."""
    ratios = [
        np.asarray(r.numbers("restart_errors")) / r.number("restart_predicted") for r in results
    ]
    restarts = [-(-r.cell.count("rounds") // r.cell.count("restart_every")) for r in results]
    ratio, error = mean_and_error(np.average(ratios, axis=0, weights=restarts).tolist())
    name = "error after a restart over sigma_1^2 C1^2 d"
    return Check(name, ratio, 0.9, 1.1, 2 * error, "E7: reset at restarts")


def _identity(result: Result) -> Check:
    ratio = result.numbers("measured")[-1] / result.numbers("predicted")[-1]
    spread = mean_and_error(result.numbers("last_errors"))
    name = f"T={result.cell.count('restart_every')}: error at the end of a block over predicted"
    return Check(
        name, ratio, 0.8, 1.25, 2 * spread[1] / spread[0], "E7: errors accumulate as E1 says"
    )


def _ends(results: Results) -> list[Check]:
    """The least value of the sweep over T is lower than at both ends: of a U no more is checked."""
    ends = [r for r in results if r.cell.count("restart_every") in (1, r.cell.count("rounds"))]
    least, error = min(mean_and_error(r.numbers("gradient")) for r in results)
    found = []
    for result in ends:
        which = f"T = {result.cell.count('restart_every')}"
        value, spread = mean_and_error(result.numbers("gradient"))
        margin = 2 * value / least * math.hypot(spread / value, error / least)
        name = f"squared gradient norm, {which} over the best T"
        found.append(Check(name, value / least, 1.02, margin=margin, source="E7: a U in T"))
    return found


def _sawtooth(results: Results) -> Panel:
    series = []
    for result in results:
        length = result.cell.count("restart_every")
        if length in DRAWN:
            x = tuple(float(k + 1) for k in range(length))
            series.append(Series(f"T = {length}", x, tuple(result.numbers("measured")), marker=""))
    return Panel("Error within a block", "round of the block", "squared error", tuple(series))


def _sweep(results: Results) -> Panel:
    x = tuple(r.cell.number("restart_every") for r in results)
    series = []
    for name, label in (("gradient", "all rounds"), ("late_gradient", "last tenth")):
        pairs = [mean_and_error(r.numbers(name)) for r in results]
        y, bars = tuple(m for m, _ in pairs), tuple(2 * e for _, e in pairs)
        series.append(Series(label, x, y, error=bars))
    return Panel("Length of a block", "T", "squared gradient norm", tuple(series))


diff2_blocks = Experiment(
    name="diff2_blocks",
    title="DIFF2-GD: errors accumulate within a block; short and long blocks both cost",
    source="Murata and Suzuki 2023, Section 4 and Proposition D.2",
    cells=cells,
    run=run,
    read=read,
    alone=("",),
)
