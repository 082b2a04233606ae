"""GLZW24 on the settings of ``srgd_one_pass``: localised accelerated descent on secret batches.

What is held of it are its line of Table 1 (~n^(9/8) gradients in ~n^(1/4) batch steps) and its
kind: phases of halving length, each an accelerated descent on Poisson batches around the last
point.  So every phase has n^(1/4) rounds of n_i / n^(1/8) records in expectation.  Its constants
are not held: the ridge is that of a phased method with FKT20's cited step size, and three multiples
of it, so that it chooses among as many settings as the accelerated method has, five step sizes and
four numbers of steps.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

import numpy as np
from sympy import Symbol

from dpaudit.accountant.calibrate import calibrate
from dpaudit.curator.curator import Sampler
from dpaudit.families.additive import Gaussian
from dpaudit.families.composition import Repeat
from dpaudit.families.opaque import ApproxDP
from dpaudit.families.sampling import PoissonSampled
from experiments.lab.fits import mean_and_error
from experiments.lab.learning import Learnt, learning_checks, learning_table
from experiments.lab.model import (
    Cell,
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
from experiments.srgd import one_pass, problem
from experiments.srgd.one_pass import INSIDE, LIPSCHITZ, SCALES, SEEDS, SMOOTHNESS
from mechanisms.papers.srgd.localized import LocalizedAcceleratedDPSGD
from mechanisms.papers.srgd.phases import all_phases, cited_step_size
from mechanisms.papers.srgd.problem import Problem

NAME = "localised accelerated, all phases (GLZW24)"
SIZES = {Size.QUICK: (2**12,), Size.FULL: (2**12, 2**14)}  # as FKT20 and ZTOH22
RIDGES = (0.25, 1.0, 4.0, 16.0)  # of the cited one; set before the run, as everything here


def cells(size: Size) -> list[Cell]:
    """Every step size with every ridge, the minimiser inside."""
    few = size is Size.QUICK
    return [
        Cell.of(n, method=NAME, n=n, place=INSIDE, scale=scale, ridge=ridge, seeds=SEEDS[size])
        for n in SIZES[size]
        for scale in (SCALES[1:3] if few else SCALES)
        for ridge in (RIDGES[1:3] if few else RIDGES)
    ]


def rounds(n: int) -> int:
    """n^(1/4) a phase."""
    return round(math.sqrt(math.sqrt(n)))


def share(n: int) -> Fraction:
    """n^(-1/8): of a phase's records those that a batch has in expectation."""
    return Fraction(round(1e6 * n**-0.125), 10**6)


@lru_cache(maxsize=4)
def least_noise(n: int) -> Fraction:
    """The least multiplier, to six digits, that the accountant proves (1, 1e-6) for."""
    noise = Gaussian("gradient", Symbol("s", positive=True))
    declared = Repeat(PoissonSampled(noise, share(n)), rounds(n))
    budget = ApproxDP(problem.EPSILON, problem.DELTA)
    return calibrate(declared, problem.SCOPE, budget, bracket=(1, 16)).value


def cited_ridge(n: int) -> float:
    """l_1 = 1 / (h_1 n_1) = 8 / (h n): a phased method's, h FKT20's step size as cited."""
    on = _problem(n)
    step = cited_step_size(on, on.features, float(problem.EPSILON), float(problem.DELTA))
    return 8 / (step * n)


def _problem(n: int) -> Problem:
    return Problem(problem.LOSS, problem.FEATURES, n, problem.RADIUS, LIPSCHITZ)


def program(n: int, scale: float, ridge: float) -> LocalizedAcceleratedDPSGD:
    """n records, steps of ``scale`` / M, and ``ridge`` times the cited one."""
    return LocalizedAcceleratedDPSGD(
        _problem(n),
        all_phases(n),
        rounds(n),
        share(n),
        ridge * cited_ridge(n),
        SMOOTHNESS / scale,
        least_noise(n),
    )


def run(cell: Cell, rng: np.random.Generator) -> Values:
    """The excess risk of each seed, which has a data set of its own, as in ``srgd_one_pass``."""
    n, place = cell.count("n"), cell.text("place")
    made = program(n, cell.number("scale"), cell.number("ridge"))
    declared = made.declaration(problem.SCOPE)
    least, found = one_pass.least(place), []
    for _ in range(cell.count("seeds")):
        curator = Sampler(declared, problem.SCOPE, one_pass._sample(n, place, rng), rng=rng)
        found.append(one_pass.risk(made.run(curator).output[0], place) - least)
    start = one_pass.risk(np.zeros(problem.FEATURES), place) - least
    work = made.work
    return {
        "excess": found,
        "start": start,
        "batch_steps": work.batch_steps,
        "gradients": work.gradients,
    }


def read(results: Results) -> Findings:
    """Every setting's mean, the best of each n, and whether it learns."""
    sizes = [int(n) for n in results.parameters("n")]
    learnt = []
    for n in sizes:
        best = one_pass.best(results, n=n)
        mean, error = mean_and_error(best.numbers("excess"))
        learnt.append(Learnt(f"{NAME}, n = {n}", mean, best.number("start"), error))
    tables = (
        Table(
            "Mean excess risk of every setting, minimiser inside",
            ("n", "step size times M", "ridge over the cited", "mean", "standard error"),
            tuple(_row(result) for result in results),
        ),
        Table(
            "What a run takes",
            ("n", "phases", "rounds a phase", "batch steps", "gradients, in expectation",
             "share of a phase in a batch", "noise multiplier", "cited ridge"),
            tuple(_work(results.where(n=n).rows[0]) for n in sizes),
        ),
        learning_table(learnt, "excess risk, best step size and ridge"),
    )  # fmt: skip
    notes = (
        "of GLZW24 Table 1's growth and the kind of algorithm are held, and not its constants: "
        "n^(1/4) rounds a phase and batches of n^(7/8) records are its two exponents, the ridge is "
        "ours, and so is the noise, the least that the accountant proves (1, 1e-6) for",
        "beside the accelerated method and every other baseline it stands in "
        "[srgd_every_baseline](srgd_every_baseline.md), made of this result and of the others'",
    )
    panels = tuple(_panel(results.where(n=n), n) for n in sizes)
    return Findings(tables, tuple(learning_checks(learnt)), panels, notes)


def _panel(own: Results, n: int) -> Panel:
    series = []
    for ridge in own.parameters("ridge"):
        found = own.where(ridge=ridge)
        means, errors = zip(*(mean_and_error(r.numbers("excess")) for r in found), strict=True)
        x, bars = tuple(r.cell.number("scale") for r in found), tuple(2 * e for e in errors)
        series.append(Series(f"{ridge:g} times the cited ridge", x, means, error=bars))
    return Panel(f"n = {n}, minimiser inside", "step size times M", "excess risk", tuple(series))


def _row(result: Result) -> tuple[int | float, ...]:
    cell = result.cell
    setting = cell.number("scale"), cell.number("ridge")
    return cell.count("n"), *setting, *mean_and_error(result.numbers("excess"))


def _work(result: Result) -> tuple[int | float, ...]:
    n = result.cell.count("n")
    taken = int(result.number("batch_steps")), int(result.number("gradients"))
    chosen = float(share(n)), float(least_noise(n)), cited_ridge(n)
    return n, all_phases(n), rounds(n), *taken, *chosen


srgd_localized = Experiment(
    name="srgd_localized",
    title="GLZW24, our reconstruction, on the settings of the other baselines",
    source="Choquette-Choo, Ganesh and Thakurta 2024, Section 1 and Table 1",
    cells=cells,
    run=run,
    read=read,
)
