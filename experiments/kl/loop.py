"""The repaired loop of Algorithm 1 against the printed one, at the printed noise and at ours."""

from __future__ import annotations

import numpy as np

from experiments.kl.problem import replicas, sampler
from experiments.kl.reading import line, median_and_error, sizes
from experiments.kl.spider import BETA, DIMENSION, PROVED, landscape, schedule
from experiments.lab.learning import Learnt, learning_checks, learning_table
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
from mechanisms.papers.kl.spider import (
    CorrectedNoise,
    KLSpider,
    PrintedKLSpider,
    PrintedNoise,
    SpiderNoise,
)

LOOPS = {"repaired": KLSpider, "printed": PrintedKLSpider}
NOISES: dict[str, SpiderNoise] = {"corrected": CorrectedNoise(), "printed": PrintedNoise()}
KAPPAS = (2.0, 1.5)
STATED, STATED_AT = (1.1, 1.25), 1_000_000
BROKEN = "ours: above Phi_K nearly always, where the proof allows beta; 20 of 20 earlier runs were"
EARLIER = "ours: about the 1.17 of earlier runs (1.055e-4 over 9.045e-5)"
TRIALS = {Size.QUICK: 20, Size.FULL: 200}
SIZES = {Size.QUICK: (1_000_000,), Size.FULL: (300_000, 1_000_000, 3_000_000)}


def cells(size: Size) -> list[Cell]:
    """Both loops at both noises."""
    return [
        Cell.of(loop=loop, noise=noise, kappa=kappa, n=n, trials=TRIALS[size])
        for kappa in KAPPAS
        for loop in LOOPS
        for noise in NOISES
        for n in SIZES[size]
    ]


def run(cell: Cell, rng: np.random.Generator) -> Values:
    """The excess of every run, over Phi_K."""
    kappa, size = cell.number("kappa"), cell.count("n")
    on, public = landscape(kappa), schedule(kappa, size)
    make, noise = LOOPS[cell.text("loop")], NOISES[cell.text("noise")]
    program = make(on.problem(DIMENSION, size), public, noise)
    found = program.run(sampler(program, replicas(DIMENSION), cell.count("trials"), rng))
    return {"ratio": (on.excess(found.output) / public.excess_upper).tolist()}


def read(results: Results) -> Findings:
    """Shares of runs above Phi_K: at most beta, or every one."""
    checks, learnt = [], []
    rows: list[tuple[str | float, ...]] = []
    for result in results:
        ratios = result.numbers("ratio")
        loop, noise = result.cell.text("loop"), result.cell.text("noise")
        kappa, size = result.cell.number("kappa"), result.cell.count("n")
        median, error = median_and_error(ratios)
        above = sum(r > 1 for r in ratios) / len(ratios)
        rows.append((loop, noise, kappa, size, median, max(ratios), above))
        name = f"{loop} loop, {noise} noise, kappa = {kappa:g}, n = {size:,}"
        start = landscape(kappa).starting_gap / schedule(kappa, size).excess_upper
        learnt.append(Learnt(f"Algorithm 1, {name}", median, start, error))
        if loop == "repaired":
            checks.append(Check(f"{name}: share above Phi_K", above, upper=BETA, source=PROVED))
        elif (kappa, size, noise) == (2.0, STATED_AT, "printed"):
            checks += [
                Check(f"{name}: share above Phi_K, refuted", above, 0.99, 1.0, source=BROKEN),
                Check(f"{name}: median over Phi_K", median, *STATED, source=EARLIER),
            ]
    columns = ("loop", "noise", "kappa", "n", "median over Phi_K", "largest", "share above 1")
    table = Table("Excess over the explicit bound Phi_K", columns, tuple(rows))
    notes = (
        "the printed loop hands on the iterate before its last update, which no test certified: at "
        "kappa = 2 a run is a dozen steps, and which n break the bound depends on where the last "
        "step falls; at kappa = 1.5 one step is a small part of the way and the bound survives",
        "printed noise is less than rho-zCDP needs under replace_one",
    )
    return Findings(
        (table, learning_table(learnt, "median over Phi_K")),
        (*checks, *learning_checks(learnt)),
        (_panel(results),),
        notes,
    )


def _panel(results: Results) -> Panel:
    series = [
        line(f"{loop}, kappa = {kappa:g}", results.where(loop=loop, noise="printed", kappa=kappa),
             "ratio")
        for kappa in KAPPAS
        for loop in LOOPS
    ]  # fmt: skip
    x = sizes(results.where(loop="printed", noise="printed", kappa=2.0))
    series.append(Series("the bound", tuple(x), tuple(1.0 for _ in x), "--", ""))
    return Panel("Algorithm 1, printed noise", "records n", "excess over Phi_K", tuple(series))


kl_loop = Experiment(
    name="kl_loop",
    title="KL-Spider: the repaired loop keeps its bound, the printed one breaks it at an n",
    source="Menart et al. 2023, Algorithm 1, lines 10 and 17",
    cells=cells,
    run=run,
    read=read,
    alone=("",),
)
