"""KL-Spider beside its baselines at kappa = 2 under one protocol: every free parameter searched.

KL-Spider has its contraction, floor, stopping threshold and step, on none of which its privacy
depends beyond the noise that it declares; K is the printed number of phases.  WYX17 is full-batch
DP-GD with its steps and their length searched.  One-pass DP-SGD takes T disjoint batches of n / T
records, each at rho.  All records are equal: only the noise falls with n.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from dpaudit.compare.search import Axis, Protocol
from experiments.kl.problem import Landscape, power, replicas, sampler
from experiments.lab.fits import fit_power_law, mean_and_error
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
from mechanisms.papers.kl.baselines import FixedNoisyGD
from mechanisms.papers.kl.schedule import Constants, KLSpiderSchedule
from mechanisms.papers.kl.spider import KLSpider

PROTOCOL = Protocol(budget=24, choosing=3, judging=10)
RHO, BETA, TRIALS = Fraction(1), 0.05, 4  # runs that a seed has
SPIDER = "KL-Spider"
REFERENCES = (NOTHING, OPTIMUM)
BASIC = (*REFERENCES, ONE_PASS, FULL_BATCH)
PAPERS, BASELINES = (SPIDER,), (ONE_PASS, FULL_BATCH)
NO_WORSE = "ours, no worse; set before the run"
RATE = "Theorem 1 and Wang, Ye and Xu 2017: n^-kappa but for logarithms; ends ours, set before"


@dataclass(frozen=True)
class Setting:
    """An objective, its dimension and sizes, and who is compared on it."""

    title: str
    on: Landscape
    dimension: int
    sizes: tuple[int, ...]
    methods: tuple[str, ...]


LARGE = (300_000, 30_000_000)
SETTINGS: Mapping[str, Setting] = {
    "two": Setting(
        "kappa = 2: ||w||^2 / 2, d = 10", power(2.0, 1.5, 1.5), 10, LARGE,
        (*BASIC, SPIDER),
    ),
}  # fmt: skip


def cells(size: Size) -> list[Cell]:
    """Every method of every setting at every n."""
    if size is Size.QUICK:
        few = (*BASIC, SPIDER)
        return [Cell.of(setting="two", method=m, n=n) for m in few for n in LARGE]
    return [
        Cell.of(float(n**0.5), setting=name, method=method, n=n)
        for name, one in SETTINGS.items()
        for method in one.methods
        for n in one.sizes
    ]


def free(method: str) -> tuple[Axis, ...]:
    """A method's free parameters, from the printed values where there are such."""
    if method in REFERENCES:
        return ()
    if method == SPIDER:
        return (
            Axis("contraction", 64.0, 1.0),
            Axis("floor", 32.0),
            Axis("step", 0.25),
            Axis("stop", 0.875, most=0.99),
        )
    return (Axis("step", 1.0), Axis("steps", 20, 1, whole=True))


def program(setting: Setting, method: str, n: int, chosen: Mapping[str, float]) -> Any:
    """A method's program on n records at a setting; steps in units of 1 / L1."""
    made, dimension = setting.on, setting.dimension
    on = made.problem(dimension, n)

    def ratio(name: str) -> Fraction:
        return Fraction(chosen[name]).limit_denominator(10**6)

    def spider() -> KLSpider:
        constants = Constants(chosen["contraction"], chosen["floor"], ratio("stop"), ratio("step"))
        public = (made.starting_gap, made.lipschitz, made.smoothness, constants)
        return KLSpider(on, KLSpiderSchedule(made.kl, dimension, n, RHO, BETA, *public))

    def one_pass() -> FixedNoisyGD:
        # T batches are disjoint: each has n / T records and all of rho.
        steps = int(chosen["steps"])
        batch = made.problem(dimension, n // steps)
        return FixedNoisyGD(batch, RHO * steps, steps, chosen["step"] / made.smoothness)

    makers: dict[str, Callable[[], Any]] = {
        SPIDER: spider,
        ONE_PASS: one_pass,
        FULL_BATCH: lambda: FixedNoisyGD(
            on, RHO, int(chosen["steps"]), chosen["step"] / made.smoothness
        ),
    }  # fmt: skip
    return makers[method]()


def run(cell: Cell, rng: np.random.Generator) -> Values:
    """The search of a method, and its mean excess on the judging seeds."""
    setting, method, n = SETTINGS[cell.text("setting")], cell.text("method"), cell.count("n")

    def loss(chosen: Mapping[str, float], draws: np.random.Generator) -> float:
        if method in REFERENCES:
            return setting.on.starting_gap if method == NOTHING else 0.0
        made = program(setting, method, n, chosen)
        held = replicas(setting.dimension)
        found = made.run(sampler(made, held, TRIALS, draws))
        return float(np.mean(setting.on.excess(found.output)))

    return tuned(PROTOCOL, free(method), loss, rng)


def read(results: Results) -> Findings:
    """Ratios of judged means, slopes in n, and who learns, setting by setting."""
    checks: list[Check] = []
    tables: list[Table] = []
    panels: list[Panel] = []
    learnt: list[Learnt] = []
    for name in map(str, results.parameters("setting")):
        setting, own = SETTINGS[name], results.where(setting=name)
        sizes = [int(n) for n in own.parameters("n")]
        for n in sizes:
            checks += _checks(own.where(n=n), f"{setting.title}, ", n)
            tables.append(contest_table(f"{setting.title}, n = {n:,}: mean excess", own.where(n=n)))
        series = []
        for method in (m for m in setting.methods if own.where(method=m).rows):
            pairs = [mean_and_error(r.numbers("judged")) for r in own.where(method=method)]
            means, errors = (tuple(v) for v in zip(*pairs, strict=True))
            slope, spread = _slope(sizes, means, errors)
            if method == SPIDER and name == "two":
                text = f"{setting.title}, {method} searched: log-log slope of the mean excess in n"
                checks.append(Check(text, slope, upper=-1.75, margin=2 * spread, source=RATE))
            label = method if math.isnan(slope) else f"{method} ({slope:.2f})"
            bars = tuple(2 * e for e in errors)
            series.append(Series(label, tuple(map(float, sizes)), means, error=bars))
            if method not in REFERENCES:
                learnt += [
                    Learnt(
                        f"{setting.title}, {method} searched, n = {n:,}",
                        mean, setting.on.starting_gap, error,
                    )
                    for n, mean, error in zip(sizes, means, errors, strict=True)
                ]  # fmt: skip
        panels.append(Panel(setting.title, "records n", "mean excess", tuple(series)))
    tables.append(learning_table(learnt, "mean excess"))
    notes = (protocol_note(PROTOCOL), "full-batch DP-GD, searched, is WYX17 without its schedule")
    return Findings(tuple(tables), (*checks, *learning_checks(learnt)), tuple(panels), notes)


def _slope(
    sizes: list[int], means: tuple[float, ...], errors: tuple[float, ...]
) -> tuple[float, float]:
    """The slope in n and its error; not a number where there is one n, or a mean of zero."""
    if len(sizes) < 2:
        return math.nan, 0.0
    fit = fit_power_law(sizes, means, errors)
    return fit.slope, fit.error


def _checks(instance: Results, begins: str, n: int) -> list[Check]:
    have = {str(method) for method in instance.parameters("method")}
    return [
        beside(
            f"{begins}{ours} over {other}, n = {n:,}: ratio of the judged means",
            PROTOCOL, instance, (ours, other), NO_WORSE,
        )
        for ours in PAPERS
        for other in BASELINES
        if {ours, other} <= have
    ]  # fmt: skip


kl_contest = Experiment(
    name="kl_contest",
    title="KL-Spider beside its baselines at kappa = 2, every method searched alike",
    source="Menart et al. 2023, Theorem 1; baselines from the rates that are cited",
    cells=cells,
    run=run,
    read=read,
    protocol=PROTOCOL,
    alone=("kappa = 2: ||w||^2 / 2, d = 10, KL-Spider searched: log-log",),
)
