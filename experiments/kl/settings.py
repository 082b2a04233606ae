"""The paper's algorithms beside every baseline, in the settings of its other plots.

kappa = 1 and 1.5 (Algorithm 1), kappa = 4 (Algorithm 2), kappa = 2 in 3,000 dimensions (Algorithm
3), and gradient norms without a KL condition (Theorem 5).  WYX17's number of steps is made for PL
and for small gradients: elsewhere its descent takes as many as under PL.  ALD21 needs growth, which
a loss without a minimum has not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from experiments.kl.problem import Landscape, decay, logarithm, power, replicas, sampler
from experiments.kl.proximal import method as proximal
from experiments.kl.reading import ahead
from experiments.kl.spider import landscape, schedule
from experiments.lab.fits import fit_power_law, mean_and_error
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
from mechanisms.papers.kl.adaptive import AdaptiveNoisyGD
from mechanisms.papers.kl.baselines import (
    EpochLocalizedERM,
    FixedNoisyGD,
    PrivateSpider,
    noisy_gd_pl,
    noisy_gd_stationary,
)
from mechanisms.papers.kl.condition import kl_to_growth
from mechanisms.papers.kl.problem import KLProblem
from mechanisms.papers.kl.select import SelectStationaryIterate
from mechanisms.papers.kl.spider import KLSpider

RHO, BETA, TRIALS = Fraction(1), 0.05, 40
# Steps, rounds and epochs: enough for the deterministic part to vanish beside the noise.
STEPS, ROUNDS, PHASE, COUNT = 200, 60, 10, 8
SPIDER, PROXIMAL, ADAPTIVE, SELECTED = "KL-Spider", "proximal points", "adaptive", "Theorem 5"
PL, FIXED, EPOCHS = "WYX17", "ABG+23", "ALD21"
PAPERS = (SPIDER, PROXIMAL, ADAPTIVE, SELECTED)  # the others are baselines
SCALES = {FIXED: (0.3, 0.1, 0.03), EPOCHS: (0.1, 0.01, 0.001)}


@dataclass(frozen=True)
class Setting:
    """An objective, its dimension and sizes, who is compared on it, and what is measured."""

    title: str
    on: Landscape
    dimension: int
    sizes: tuple[int, ...]
    methods: tuple[str, ...]
    gradients: bool = False

    def measured(self, points: np.ndarray[Any, np.dtype[np.float64]]) -> Any:
        """Excess, or gradient norms where there is no KL condition."""
        return self.on.gradient_norms(points) if self.gradients else self.on.excess(points)


LARGE = (300_000, 3_000_000, 30_000_000)
SETTINGS: Mapping[str, Setting] = {
    "one": Setting(
        "kappa = 1: exp(-w_1), d = 10", decay(), 10, (300_000, 1_000_000, 3_000_000),
        (SPIDER, ADAPTIVE, PL, FIXED),
    ),
    "three_halves": Setting(
        "kappa = 1.5: ||w||^3 / 3, d = 10", landscape(1.5), 10, LARGE,
        (SPIDER, ADAPTIVE, PL, FIXED, EPOCHS),
    ),
    "high": Setting(
        "kappa = 2: ||w||^2 / 2, d = 3000", power(2.0, 1.0, 1.0), 3_000,
        (10_000, 100_000, 1_000_000), (ADAPTIVE, PL, FIXED, EPOCHS),
    ),
    "four": Setting(
        "kappa = 4: |w|^(4/3) 3/4, d = 1", power(4.0, 1.0, 1.0), 1, (60, 240, 480),
        (PROXIMAL, PL, FIXED, EPOCHS),
    ),
    "none": Setting(
        "no KL condition: log(1 + ||w||^2), d = 3000", logarithm(), 3_000,
        (3_000, 30_000, 300_000), (SELECTED, PL, FIXED), gradients=True,
    ),
}  # fmt: skip


def program(setting: str, method: str, n: int, scale: float) -> Any:
    """A method's program on n records; ``scale``: ABG+23's step length, ALD21's first pull."""
    made = SETTINGS[setting]
    on = made.on.problem(made.dimension, n)
    makers: dict[str, Callable[[], Any]] = {
        SPIDER: lambda: KLSpider(on, schedule(made.on.kl.kappa, n)),
        PROXIMAL: lambda: proximal(on, made.on.kl, made.on.starting_gap),
        ADAPTIVE: lambda: AdaptiveNoisyGD(on, RHO, BETA, made.on.smoothness),
        SELECTED: lambda: SelectStationaryIterate(
            AdaptiveNoisyGD(on, RHO, BETA, made.on.smoothness)
        ),
        PL: lambda: _descent(made, on),
        FIXED: lambda: PrivateSpider(on, RHO, made.on.smoothness, ROUNDS, PHASE, scale),
        EPOCHS: lambda: EpochLocalizedERM(
            on, kl_to_growth(made.on.kl), RHO, BETA, scale, COUNT, STEPS
        ),
    }
    return makers[method]()


def _descent(made: Setting, on: KLProblem) -> FixedNoisyGD:
    """WYX17: with its own number of steps where it has one."""
    loss = made.on
    if made.gradients:
        return noisy_gd_stationary(on, RHO, loss.smoothness, loss.starting_gap, 10 * STEPS)
    if loss.kl.kappa == 2:
        return noisy_gd_pl(on, RHO, loss.kl, loss.smoothness, loss.starting_gap, STEPS)
    return FixedNoisyGD(on, RHO, STEPS, 1 / loss.smoothness)


def cells(size: Size) -> list[Cell]:
    """Every method at every n, two of them at three constants."""
    names = ("three_halves",) if size is Size.QUICK else tuple(SETTINGS)
    return [
        Cell.of(float(SETTINGS[s].dimension + n**0.5), setting=s, method=method, n=n, scale=scale,
                trials=TRIALS)
        for s in names
        for method in SETTINGS[s].methods
        for n in (SETTINGS[s].sizes[::2] if size is Size.QUICK else SETTINGS[s].sizes)
        for scale in SCALES.get(method, (0.0,))
    ]  # fmt: skip


def run(cell: Cell, rng: np.random.Generator) -> Values:
    """What is measured of every run, and of the start."""
    setting = SETTINGS[cell.text("setting")]
    made = program(cell.text("setting"), cell.text("method"), cell.count("n"), cell.number("scale"))
    found = made.run(sampler(made, replicas(setting.dimension), cell.count("trials"), rng))
    start = np.zeros((1, setting.dimension))
    start[0, 0] = setting.on.start
    return {
        "measured": setting.measured(found.output).tolist(),
        "start": float(setting.measured(start)[0]),
    }


def read(results: Results) -> Findings:
    """Who is where, in every setting, who is ahead of whom, and who is below its start."""
    tables, panels = [], []
    checks: list[Check] = []
    learnt: list[Learnt] = []
    for name in map(str, results.parameters("setting")):
        own = results.where(setting=name)
        setting, rows, series = SETTINGS[name], [], []
        means_of: dict[str, list[tuple[float, float]]] = {}
        for method in map(str, own.parameters("method")):
            found = [_best(own, method, int(n)) for n in own.parameters("n")]
            pairs = [mean_and_error(r.numbers("measured")) for r in found]
            means, errors = zip(*pairs, strict=True)
            means_of[method] = pairs
            x = tuple(r.cell.number("n") for r in found)
            fit = fit_power_law(x, means, errors)
            rows.append((method, *means, fit.slope, 2 * fit.error))
            label = f"{setting.title}, {method}"
            learnt += [
                Learnt(f"{label}, n = {int(n):,}", mean, found[-1].number("start"), error)
                for n, mean, error in zip(x, means, errors, strict=True)
            ]
            bars = tuple(2 * e for e in errors)
            series.append(Series(f"{method} ({fit.slope:.2f})", x, means, error=bars))
        series.append(Series("the start", x, (found[-1].number("start"),) * len(x), ":", ""))
        checks += [
            ahead(f"{setting.title}, {ours} over {other}", int(n), first, second)
            for ours in PAPERS
            for other in (PL, FIXED, EPOCHS)
            if ours in means_of and other in means_of
            for n, first, second in zip(x, means_of[ours], means_of[other], strict=True)
        ]
        columns = ("method", *(f"n = {int(n):,}" for n in x), "slope", "two standard errors")
        tables.append(Table(setting.title, columns, tuple(rows)))
        what = "gradient norm" if setting.gradients else "excess"
        panels.append(Panel(setting.title, "records n", what, tuple(series)))
    notes = (
        "constants of the baselines are ours; of ABG+23's step lengths and ALD21's first pulls the "
        "best of three on these runs is shown",
        "WYX17 has no theory at kappa = 1, 1.5 and 4: 200 steps of length 1 / L1 there",
        "where there is no KL condition ABG+23 and WYX17 release a random iterate",
    )
    table = learning_table(learnt, "mean")
    return Findings((*tables, table), (*checks, *learning_checks(learnt)), tuple(panels), notes)


def _best(results: Results, method: str, n: int) -> Result:
    found = results.where(method=method, n=n)
    return min(found, key=lambda r: math.fsum(r.numbers("measured")))


kl_settings = Experiment(
    name="kl_settings",
    title="The paper's algorithms beside WYX17, ABG+23 and ALD21 in all other settings",
    source="Menart et al. 2023, Theorems 1, 2, 4 and 5; baselines from the rates that are cited",
    cells=cells,
    run=run,
    read=read,
)
