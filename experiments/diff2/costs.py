"""Table 1 of paper 4: utility, gradients and rounds as formulas, beside the counts of runs.

A run's gradients are counted where the loss evaluates them on records.  The counting loss is linear
in one parameter: how much is asked of it depends on the schedule alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import ArrayLike

from dpaudit.curator.curator import Program, Sampler
from dpaudit.kernels.query import Array, Records
from experiments.diff2 import problem
from experiments.diff2.runs import SCOPE
from experiments.lab.fits import fit_power_law
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
from mechanisms.papers.common.losses import Logistic
from mechanisms.papers.diff2.baselines import DpSrm
from mechanisms.papers.diff2.bvr_noise import Plan, diff2_bvr_noise_paper
from mechanisms.papers.diff2.framework import Diff2
from mechanisms.papers.diff2.routines import LocalDescent
from mechanisms.papers.diff2.theory import Choice

E, D = float(problem.EPSILON), float(problem.FEATURES)
CLIENTS, STEPS, LOCAL_ROUNDS, LOCAL_BATCH = 2, 5, 20, 2
SRM_NOISE = 2.0


@dataclass(frozen=True)
class Formula:
    """A row of the table: texts, and the gradients and rounds at N for epsilon = 3, d = 20.

    Constants and logarithms are 1, as in the table.
    """

    name: str
    utility: str
    gradients_text: str
    rounds_text: str
    gradients: Callable[[float], float]
    rounds: Callable[[float], float]


def _gd(n: float) -> float:
    return n + n**2 * E / math.sqrt(D)


def _diff2(n: float) -> float:
    return float(n + n ** (7 / 3) * E ** (4 / 3) / D ** (2 / 3))


def _bvr(n: float) -> float:
    first = n ** (11 / 6) * E ** (4 / 3) / D ** (2 / 3)
    second = n ** (19 / 12) * E ** (5 / 6) / D ** (1 / 6)
    third = n ** (5 / 3) * CLIENTS * E ** (2 / 3) / D ** (1 / 3)
    return float(n + first + second + third)


def _stochastic(n: float) -> float:
    return n**2 * E**2 / D


def _best_rounds(n: float) -> float:
    return float((n * E) ** (4 / 3) / D ** (2 / 3))


BEST = "d^(2/3)/(N eps)^(4/3)"
FORMULAS = {
    "dp_gd": Formula(
        "DP-GD", "d^(1/2)/(N eps)", "N + N^2 eps/d^(1/2)", "gradients/N", _gd, lambda n: _gd(n) / n
    ),
    "dp_sgd": Formula(
        "DP-SGD", "d^(1/2)/(N eps)", "N^2 eps^2/d", "1 + N^2 eps^2/(b d), b = N/4", _stochastic,
        lambda n: 1 + _stochastic(n) / (n / 4),
    ),
    "srn_sgd": Formula(
        "SRN-SGD", f"{BEST} + 1/N", "N^(7/3) eps^(4/3)/d^(2/3)", "as gradients",
        lambda n: _diff2(n) - n, lambda n: _diff2(n) - n,
    ),
    "dp_srm": Formula(
        "DP-SRM", BEST, "N^2 eps^2/d", "1 + (N eps)^(4/3)/d^(2/3)", _stochastic,
        lambda n: 1 + _best_rounds(n),
    ),
    "diff2": Formula(
        "DIFF2-GD", BEST, "N + N^(7/3) eps^(4/3)/d^(2/3)", "gradients/N", _diff2,
        lambda n: _diff2(n) / n,
    ),
    "bvr": Formula(
        "DIFF2-BVR-L-SGD", BEST,
        "N + N^(11/6) eps^(4/3)/d^(2/3) + N^(19/12) eps^(5/6)/d^(1/6) "
        "+ N^(5/3) P eps^(2/3)/d^(1/3)",
        "gradients/N + zeta (N eps)^(4/3)/d^(2/3), zeta = L", _bvr,
        lambda n: _bvr(n) / n + problem.SMOOTHNESS * _best_rounds(n),
    ),
}  # fmt: skip
FITTED = {"dp_gd": (2.0, 1.0), "diff2": (7 / 3, 4 / 3)}
SIZES = {Size.QUICK: (1_000, 3_000), Size.FULL: (1_000, 3_000, 10_000)}
MOST = {Size.QUICK: 1_000, Size.FULL: 3_000}  # of DP-SGD and DP-SRM, whose rounds are many


@dataclass(frozen=True)
class Counted(Logistic):
    """Counts the gradients asked of it on records; rows of zeros are placeholders."""

    calls: list[int] = field(default_factory=list, compare=False)

    def gradients(self, parameters: ArrayLike, records: ArrayLike) -> Array:
        """The gradients; how many rows there were is noted."""
        rows = np.asarray(records, dtype=np.float64)
        self.calls.append(int(rows.reshape(-1, rows.shape[-1]).any(axis=1).sum()))
        return super().gradients(parameters, records)


def cells(size: Size) -> list[Cell]:
    """Every algorithm that is run, at every N it can afford."""
    return [
        Cell.of(FORMULAS[m].rounds(n), method=m, n=n)
        for m in FORMULAS
        if m != "srn_sgd"
        for n in SIZES[size]
        if m not in ("dp_sgd", "dp_srm") or n <= MOST[size]
    ]


def run(cell: Cell, rng: np.random.Generator) -> Values:
    """Gradients counted in one run, and what its schedule makes them."""
    loss, n = Counted(), cell.count("n")
    program, rounds, expected = _program(cell.text("method"), n, loss)
    rows = np.column_stack([rng.uniform(0.5, 1.0, n), rng.integers(0, 2, n)])
    curator = Sampler(program.declaration(SCOPE), SCOPE, Records(rows), rng=rng)
    program.run(curator)
    return {"gradients": sum(loss.calls), "rounds": rounds, "expected": expected}


def _program(method: str, n: int, loss: Counted) -> tuple[Program, int, int]:
    """The program, its rounds, and the gradients that its schedule asks for."""
    if method in ("dp_gd", "diff2"):
        choice = problem.chosen(method, n)
        made = _diff2_program(loss, (n,), choice)
        return made, choice.rounds, n * (made.restarts + 2 * (choice.rounds - made.restarts))
    if method == "bvr":
        return _local(n, loss)
    return _srm(method, n, loss)


def _diff2_program(loss: Counted, sizes: tuple[int, ...], choice: Choice) -> Diff2:
    return Diff2(
        loss=loss,
        features=1,
        client_sizes=sizes,
        rounds=choice.rounds,
        restart_every=choice.restart_every,
        gradient_radius=1.0,
        difference_radius=1.0,
        step_size=choice.step_size,
        noise=choice.noise,
    )


def _local(n: int, loss: Counted) -> tuple[Program, int, int]:
    """Twenty rounds: the theory's own are too many to run at sizes where b can exceed 1."""
    each, every = n // CLIENTS, LOCAL_ROUNDS // 4
    plan = Plan(each, CLIENTS, LOCAL_ROUNDS, every, STEPS, LOCAL_BATCH)
    noise, sigma = diff2_bvr_noise_paper(problem.EPSILON, problem.DELTA, plan)
    choice = Choice(LOCAL_ROUNDS, every, 3.0, 0.1, noise, math.inf)
    made = _diff2_program(loss, (each,) * CLIENTS, choice)
    routine = LocalDescent(STEPS, LOCAL_BATCH, sigma, 1.0)
    server = n * (made.restarts + 2 * (LOCAL_ROUNDS - made.restarts))
    local = 2 * LOCAL_BATCH * (STEPS - 1) * LOCAL_ROUNDS
    return replace(made, routine=routine), LOCAL_ROUNDS, server + local


def _srm(method: str, n: int, loss: Counted) -> tuple[Program, int, int]:
    """DP-SGD on a quarter of the records, or DP-SRM on as many as its two formulas make it."""
    formula = FORMULAS[method]
    rounds = math.ceil(formula.rounds(n))
    batch = n // 4 if method == "dp_sgd" else math.ceil(formula.gradients(n) / rounds)
    momentum = 1.0 if method == "dp_sgd" else 0.5
    made = DpSrm(loss, 1, n, batch, rounds, 1.0, 1.0, 0.1, SRM_NOISE, momentum)
    each = batch if method == "dp_sgd" else 2 * batch
    return made, rounds, batch + each * (rounds - 1)


def read(results: Results) -> Findings:
    """Counts against schedules, and their growth against the table's exponents."""
    apart = max(abs(r.number("gradients") - r.number("expected")) for r in results)
    checks = [
        Check(
            "counted minus scheduled gradients, largest of all runs",
            apart,
            upper=0.0,
            source="the algorithms' schedules",
        ),
        *(_growth(results, m, kind) for m in FITTED for kind in ("gradients", "rounds")),
    ]
    columns = (
        "algorithm", "N", "utility", "gradients", "as formula", "counted", "rounds", "as formula",
        "run",
    )  # fmt: skip
    rows = [_row(r) for r in results]
    srn = FORMULAS["srn_sgd"]
    rows += [
        (srn.name, int(n), srn.utility, srn.gradients_text, srn.gradients(float(n)), "not run",
         srn.rounds_text, srn.rounds(float(n)), "not run")
        for n in results.parameters("n")
    ]  # fmt: skip
    table = Table("Table 1, epsilon = 3, d = 20: formulas without constants", columns, tuple(rows))
    notes = (
        "formulas hide constants, L, G and logarithms: counts compare with them in growth alone",
        "DP-GD and DIFF2-GD run the rounds of their least bound, DP-SGD and DP-SRM, which are "
        f"reconstructions, those of the formula, DIFF2-BVR-L-SGD {LOCAL_ROUNDS} rounds with "
        f"K = {STEPS}, b = {LOCAL_BATCH}",
        "a difference round takes two gradients a record, one where the previous ones are kept",
        "the communication cells of DP-GD and DP-SGD, which are garbled in print, are gradients/N "
        "and 1 + N^2 eps^2/(b d)",
    )
    return Findings((table,), tuple(checks), (_panel(results),), notes)


def _row(result: Result) -> tuple[str | int | float, ...]:
    formula, n = FORMULAS[result.cell.text("method")], result.cell.count("n")
    counted, rounds = int(result.number("gradients")), int(result.number("rounds"))
    return (
        formula.name, n, formula.utility, formula.gradients_text, formula.gradients(n), counted,
        formula.rounds_text, formula.rounds(n), rounds,
    )  # fmt: skip


def _growth(results: Results, method: str, kind: str) -> Check:
    found = results.where(method=method)
    x = [r.cell.number("n") for r in found]
    slope = fit_power_law(x, [r.number(kind) for r in found]).slope
    stated = FITTED[method][0 if kind == "gradients" else 1]
    name = f"{FORMULAS[method].name}: log-log slope of the {kind} in N"
    return Check(name, slope, stated - 0.1, stated + 0.1, source="Table 1")


def _panel(results: Results) -> Panel:
    series = []
    for method, formula in FORMULAS.items():
        found = results.where(method=method)
        x = tuple(r.cell.number("n") for r in found)
        if x:
            counted = tuple(r.number("gradients") for r in found)
            series.append(Series(f"{formula.name}, counted", x, counted))
        sizes = tuple(float(n) for n in results.parameters("n"))
        stated = tuple(formula.gradients(n) for n in sizes)
        series.append(Series(f"{formula.name}, formula", sizes, stated, "--", ""))
    return Panel("Gradients", "records N", "gradients of one record", tuple(series))


diff2_costs = Experiment(
    name="diff2_costs",
    title="Table 1 of DIFF2: utility, gradients and rounds as formulas, beside counts",
    source="Murata and Suzuki 2023, Table 1",
    cells=cells,
    run=run,
    read=read,
    alone=("",),
)
