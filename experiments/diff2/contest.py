"""DIFF2-GD beside DP-GD and one-pass DP-SGD on Section 6's network, under one protocol.

Every method has exactly (epsilon, 1e-5) at every setting, by the least noise.  Its clip C1 and its
step size are searched, DIFF2-GD's C2 and T too, and one-pass DP-SGD's number of batches; the
rounds are 120 for both.  The least training loss of the last iterate chooses; it judges under
other seeds, with its squared gradient norm and its test loss: a seed has a split, a start and
noise of its own.  The choice reads raw losses: *not private*.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.optimize import minimize

from dpaudit.compare.search import Axis, Protocol
from dpaudit.curator.curator import Sampler
from dpaudit.kernels.query import Array, Records
from dpaudit.measures.convert import gaussian_mu
from experiments.diff2 import network, problem
from experiments.diff2.data import Prepared
from experiments.diff2.network import HIDDEN, LOST, PAPER, PUBLIC, Setting
from experiments.diff2.runs import SCOPE
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
from experiments.lab.protocol import (
    FULL_BATCH,
    NOTHING,
    ONE_PASS,
    OPTIMUM,
    beside,
    contest_table,
    protocol_note,
    tuned,
)
from mechanisms.papers.common.losses import SoftplusNetwork, mean_value, squared_gradient_norm
from mechanisms.papers.srgd.baselines import DPSGDOnePass
from mechanisms.papers.srgd.problem import Problem

PROTOCOL = Protocol(budget=24, choosing=2, judging=8)
OURS = "DIFF2-GD"
REFERENCES = (NOTHING, OPTIMUM)
METHODS = (*REFERENCES, ONE_PASS, FULL_BATCH, OURS)
MEASURES = ("training loss", "squared gradient norm", "test loss")
ROUNDS = {Size.QUICK: 4, Size.FULL: 120}
# Each data set, each preparation and each epsilon of the paper's figures twice, for the time.
INSTANCES = (
    ("randhie", PUBLIC, 3),
    ("friedman1", PUBLIC, 5),
    ("randhie", PAPER, 5),
    ("friedman1", PAPER, 3),
)
STEPS = 50  # of L-BFGS, for the non-private optimum
COSTS = {NOTHING: 0.1, OPTIMUM: 1.0, ONE_PASS: 1.0, FULL_BATCH: 4.0, OURS: 8.0}
FAR = 1e6  # the radius of a ball that no run leaves
QUOTED = (
    'Section 6: "DIFF2-GD consistently outperformed DP-GD at the final learning rounds for each '
    'metric"'
)
NO_WORSE = "ours, no worse; set before the run"


@dataclass(frozen=True)
class Started(SoftplusNetwork):
    """The network with a start of its own seed, whoever runs it."""

    seed: int = 0

    def initial(self, features: int, trials: int, seed: int) -> Array:
        return super().initial(features, trials, self.seed)


def cells(size: Size) -> list[Cell]:
    """Every method of every instance; a corner has one instance of 4 rounds."""
    return [
        Cell.of(COSTS[m], data=d, preparation=p, epsilon=e, rounds=ROUNDS[size], method=m)
        for d, p, e in (INSTANCES if size is Size.FULL else INSTANCES[:1])
        for m in METHODS
    ]


def free(method: str, rounds: int) -> tuple[Axis, ...]:
    """A method's free parameters; T of 1 would be DP-GD."""
    if method in REFERENCES:
        return ()
    found = [Axis("step size", 0.5), Axis("C1", 1.0)]
    if method == ONE_PASS:
        return (*found, Axis("batches", 30, 1, whole=True))
    if method == OURS:
        found += [Axis("C2", 3.0), Axis("T", 4, 2, rounds, whole=True)]
    return tuple(found)


def run(cell: Cell, rng: np.random.Generator) -> Values:
    """The search of a method by training loss, and its three losses on the judging seeds."""
    method, rounds, epsilon = cell.text("method"), cell.count("rounds"), cell.count("epsilon")
    measured: list[tuple[float, float, float]] = []

    def loss(setting: Mapping[str, float], draws: np.random.Generator) -> float:
        seed = int(draws.integers(2**31))
        data = network.split(cell.text("data"), seed, cell.text("preparation"))
        at = {"rounds": rounds, **setting}
        measured.append(_losses(last(method, data, at, epsilon, seed, draws), data))
        return measured[-1][0]

    values = tuned(PROTOCOL, free(method, rounds), loss, rng)
    judged = zip(*measured[-PROTOCOL.judging :], strict=True)
    return {**values, **dict(zip(MEASURES, map(list, judged), strict=True))}


def last(
    method: str,
    data: Prepared,
    setting: Mapping[str, float],
    epsilon: int,
    seed: int,
    draws: np.random.Generator,
) -> Array:
    """The last iterate of a run, (1, d); not finite where it was lost."""
    loss, features = Started(HIDDEN, seed=seed), data.test.shape[1] - 1
    x = loss.initial(features, 1, 0)
    if method == NOTHING:
        return x
    if method == OPTIMUM:
        return _minimised(loss, x, data.train)
    if method == ONE_PASS:
        return _one_pass(loss, data, setting, epsilon, draws)
    every = int(setting["T"]) if method == OURS else 1
    radius = setting["C1"]
    chosen = Setting(radius, setting.get("C2", radius), every)
    made = network.program(
        data,
        chosen,
        setting["step size"],
        rounds=int(setting["rounds"]),
        epsilon=epsilon,
        seed=seed,
        calibration="tight",
    )
    return deque(network.iterates(made, Records(data.train), draws), maxlen=1).pop()


def _minimised(loss: SoftplusNetwork, start: Array, train: Array) -> Array:
    """Where L-BFGS ends on the training rows: not private."""

    def value_and_slope(point: Array) -> tuple[float, Array]:
        slope = loss.gradients(point[None], train)[0].mean(axis=0)
        return float(mean_value(loss, point[None], train)[0]), np.asarray(slope)

    found: Any = minimize(value_and_slope, start.ravel(), jac=True, options={"maxiter": STEPS})
    return np.asarray(found.x)[None]


def _one_pass(
    loss: SoftplusNetwork,
    data: Prepared,
    setting: Mapping[str, float],
    epsilon: int,
    draws: np.random.Generator,
) -> Array:
    """Disjoint batches, of which each has the whole budget."""
    where = Problem(loss, data.test.shape[1] - 1, len(data.train), FAR, setting["C1"])
    made = DPSGDOnePass(where, int(setting["batches"]), setting["step size"], _doubled(epsilon))
    records = Records(data.train)
    x = made.run(Sampler(made.declaration(SCOPE), SCOPE, records, rng=draws)).last
    return x if np.abs(x).max() < LOST else np.full_like(x, np.nan)


@lru_cache(maxsize=4)
def _doubled(epsilon: int) -> Fraction:
    """The noise multiplier per clip: a replaced record moves a sum by two."""
    return Fraction(2 / float(gaussian_mu(Fraction(epsilon), problem.DELTA)))


def _losses(x: Array, data: Prepared) -> tuple[float, float, float]:
    """Training loss, its squared gradient norm, test loss; infinite for a run that was lost."""
    if not np.isfinite(x).all():
        return (math.inf,) * 3
    train, test = (float(mean_value(network.LOSS, x, r)[0]) for r in (data.train, data.test))
    return train, float(squared_gradient_norm(network.LOSS, x, data.train)[0]), test


# --- what the grid says ---------------------------------------------------------------------------


def read(results: Results) -> Findings:
    """Ratios of judged means in each measure, the searches, and who learns."""
    checks: list[Check] = []
    tables: list[Table] = []
    learnt: list[Learnt] = []
    for name, instance in _instances(results):
        checks += _ahead(name, instance)
        tables.append(contest_table(f"{name}: training loss on the judging seeds", instance))
        tables.append(_measures(name, instance))
        start = mean_and_error(instance.one(method=NOTHING).numbers("judged"))[0]
        for r in instance:
            if r.cell.text("method") not in REFERENCES:
                mean, error = mean_and_error(r.numbers("judged"))
                learnt.append(Learnt(f"{r.cell.text('method')}, {name}", mean, start, error))
    notes = (
        protocol_note(PROTOCOL),
        "a seed splits the rows anew, so that rows that chose judge too; starts and noise are the "
        "seed's own",
        "u = 1.25, as the paper's experiments have it; the clip of one-pass DP-SGD is called C1",
        "on data prepared as the paper prepares them epsilon is that of the releases from prepared "
        "rows: with the preparation, or the choice of settings, a run has none that is finite",
    )
    tables.append(learning_table(learnt, "training loss, searched"))
    return Findings(tuple(tables), (*checks, *learning_checks(learnt)), (_panel(results),), notes)


def named(data: str, preparation: str, epsilon: int, rounds: int) -> str:
    """An instance in checks and tables."""
    ranges = "public ranges" if preparation == PUBLIC else "the paper's preparation"
    return f"{data}, {ranges}, epsilon = {epsilon}, R = {rounds}"


def _instances(results: Results) -> list[tuple[str, Results]]:
    """The results of every instance, and how it is called."""
    found = {}
    for r in results:
        at = (r.cell.text("data"), r.cell.text("preparation"), r.cell.count("epsilon"))
        rounds = r.cell.count("rounds")
        found[named(*at, rounds)] = results.where(
            data=at[0], preparation=at[1], epsilon=at[2], rounds=rounds
        )
    return list(found.items())


def _ahead(name: str, instance: Results) -> list[Check]:
    """DIFF2-GD beside DP-GD in each of the paper's metrics, and beside one pass."""

    def over(measure: str, other: str, source: str) -> Check:
        title = f"{measure}, {name}: {OURS} over {other}"
        return beside(title, PROTOCOL, _judged_by(instance, measure), (OURS, other), source)

    against = [over(measure, FULL_BATCH, QUOTED) for measure in MEASURES]
    return [*against, over(MEASURES[0], ONE_PASS, NO_WORSE)]


def _judged_by(instance: Results, measure: str) -> Results:
    """The instance with another measure of the same runs in the place of the training loss."""
    return Results(
        tuple(Result(r.cell, {**r.values, "judged": r.values[measure]}) for r in instance)
    )


def _measures(name: str, instance: Results) -> Table:
    """Each measure's mean and standard error, a row a method."""
    rows: list[tuple[str | float, ...]] = []
    for r in instance:
        pairs = (mean_and_error(r.numbers(measure)) for measure in MEASURES)
        shown = (f"{mean:.4g} ± {error:.2g}" for mean, error in pairs)
        rows.append((r.cell.text("method"), *shown))
    return Table(f"{name}: the last iterate", ("method", *MEASURES), tuple(rows))


def _panel(results: Results) -> Panel:
    """The judged training loss over epsilon, a line a method."""
    series = []
    for method in METHODS:
        for data, preparation in dict.fromkeys(
            (r.cell.text("data"), r.cell.text("preparation")) for r in results
        ):
            own = results.where(data=data, preparation=preparation, method=method)
            pairs = [mean_and_error(r.numbers("judged")) for r in own]
            means, errors = (tuple(v) for v in zip(*pairs, strict=True))
            x = tuple(r.cell.number("epsilon") for r in own)
            name = f"{method}, {data}, {preparation}"
            series.append(Series(name, x, means, error=tuple(2 * e for e in errors)))
    return Panel("The last iterate", "epsilon", "training loss", tuple(series), "semilogy")


diff2_contest = Experiment(
    name="diff2_contest",
    title="DIFF2-GD beside DP-GD and one-pass DP-SGD on a network, every method searched alike",
    source="Murata and Suzuki 2023, Section 6 and Appendix A",
    cells=cells,
    run=run,
    read=read,
    protocol=PROTOCOL,
)
