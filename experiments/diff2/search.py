"""A setting for DIFF2-GD at the 2,000 rounds of ``diff2_rounds``, of a small grid of its own.

C1, C2 and T are searched under seeds that judge nothing; the one with the least mean of the least
training losses is taken.  C1 is one of DP-GD's two.  *Not private*, as all tuning here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from dpaudit.curator.curator import Sampler
from dpaudit.kernels.query import Array
from experiments.diff2 import network, problem
from experiments.diff2.network import Setting
from experiments.diff2.runs import SCOPE
from experiments.lab.fits import mean_and_error
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
from mechanisms.papers.common.losses import mean_value
from mechanisms.papers.diff2.framework import Diff2, schedule
from mechanisms.papers.diff2.theory import Budget
from mechanisms.papers.diff2.tuning import NonPrivateSearch, Patience, paper_grid_search, path_of

DATA, EPSILON = "friedman1", 3
ROUNDS, EVERY = {Size.QUICK: 120, Size.FULL: 2000}, {Size.QUICK: 6, Size.FULL: 20}
# Grid, seeds and rule were set before the run, and committed.
GRADIENT_RADII = {Size.QUICK: (3.0,), Size.FULL: network.GRADIENT_RADII}
DIFFERENCE_RADII = {Size.QUICK: (3.0,), Size.FULL: network.DIFFERENCE_RADII}
SHARES = {Size.QUICK: (0.01,), Size.FULL: (0.003, 0.01, 0.03)}  # T over R
SEEDS = {Size.QUICK: (100,), Size.FULL: (100, 101)}


@dataclass
class Long:
    """One search at ``rounds`` rounds under a seed: its runs, and the test loss at each loss."""

    rounds: int
    every: int
    seed: int
    tests: dict[float, float] = field(default_factory=dict)

    def program(self, setting: Setting, step_size: float) -> Diff2:
        """A run: the noise is that of epsilon, whatever the setting."""
        data = network.load(DATA, network.CLIENTS)
        size = len(data.train)
        restarts, differences = schedule(self.rounds, setting.restart_every)
        share = network.SHARE if differences else 1.0
        return Diff2(
            loss=network.LOSS,
            features=data.features,
            client_sizes=(size // network.CLIENTS,) * network.CLIENTS,
            rounds=self.rounds,
            restart_every=setting.restart_every,
            gradient_radius=setting.gradient_radius,
            difference_radius=setting.difference_radius,
            step_size=step_size,
            noise=Budget(EPSILON, problem.DELTA, size).noise(restarts, differences, share),
            start_seed=self.seed,
        )

    def search(
        self, settings: Sequence[Setting], rng: np.random.Generator
    ) -> NonPrivateSearch[Setting]:
        """For each setting the first step size that lasts."""
        data = network.load(DATA, network.CLIENTS)

        def evaluate(x: Array) -> tuple[float, float]:
            loss = float(mean_value(network.LOSS, x, data.train.values)[0])
            self.tests[loss] = float(mean_value(network.LOSS, x, data.test)[0])
            return loss, loss

        def start(setting: Setting, step_size: float) -> Iterator[Array]:
            made = self.program(setting, step_size)
            return path_of(made, Sampler(made.declaration(SCOPE), SCOPE, data.train, rng=rng))

        return paper_grid_search(settings, start, evaluate, patience=Patience(every=self.every))


def cells(size: Size) -> list[Cell]:
    """One search of the step size for every setting and seed."""
    return [
        Cell.of(
            gradient_radius=gradient,
            difference_radius=difference,
            restart_every=max(2, round(share * ROUNDS[size])),
            epsilon=EPSILON,
            rounds=ROUNDS[size],
            every=EVERY[size],
            seed=seed,
        )
        for gradient in GRADIENT_RADII[size]
        for difference in DIFFERENCE_RADII[size]
        for share in SHARES[size]
        for seed in SEEDS[size]
    ]


def run(cell: Cell, rng: np.random.Generator) -> Values:
    """The least training loss of the first step size that lasts; infinite where none does."""
    long = Long(cell.count("rounds"), cell.count("every"), cell.count("seed"))
    radius = cell.number("difference_radius")
    setting = Setting(cell.number("gradient_radius"), radius, cell.count("restart_every"))
    found = long.search([setting], rng)
    best = found.best(lambda one: one.lowest_loss)
    return {
        "loss": np.inf if best is None else best.lowest_loss,
        "start": found.tried[0].losses[0],
        "step_size": 0.0 if best is None else best.step_size,
    }


def of_settings(results: Results) -> dict[Setting, Results]:
    """The results of every setting."""
    found: dict[Setting, Results] = {}
    for r in results:
        first, second = r.cell.number("gradient_radius"), r.cell.number("difference_radius")
        every = r.cell.count("restart_every")
        found[Setting(first, second, every)] = results.where(
            gradient_radius=first, difference_radius=second, restart_every=every
        )
    return found


def mean_loss(results: Results) -> float:
    """The mean over seeds of the least training loss."""
    return float(np.mean([r.number("loss") for r in results]))


def taken(results: Results) -> Setting:
    """The rule: the least mean of the least training losses."""
    found = of_settings(results)
    return min(found, key=lambda setting: mean_loss(found[setting]))


def named(setting: Setting) -> str:
    """C1, C2 and T."""
    radii = f"C1 = {setting.gradient_radius:g}, C2 = {setting.difference_radius:g}"
    return f"{radii}, T = {setting.restart_every}"


def read(results: Results) -> Findings:
    """Every setting's mean loss, and the one that is taken beside its start."""
    best, found = taken(results), of_settings(results)
    loss, error = mean_and_error([r.number("loss") for r in found[best]])
    start = mean_and_error([r.number("start") for r in found[best]])[0]
    learnt = [Learnt(f"DIFF2-GD, {named(best)}, which is taken", loss, start, error)]
    rows = []
    for setting, own in found.items():
        steps = ", ".join(f"{r.number('step_size'):g}" for r in own)
        radii = setting.gradient_radius, setting.difference_radius
        rows.append((*radii, setting.restart_every, mean_loss(own), steps))
    columns = ("C1", "C2", "T", "mean least training loss", "step sizes that lasted")
    lasting = sum(np.isfinite(mean_loss(own)) for own in found.values())
    checks = (
        Check("settings of which a run lasts under every seed", lasting, lower=1.0, source="ours"),
        *learning_checks(learnt),
    )
    notes = (
        f"seeds {', '.join(map(str, results.parameters('seed')))}, which judge nothing",
        "the paper's grid has 5 C1, 5 C2 and four T",
        "tuning by the raw training loss is not private",
    )
    title = f"{DATA}, epsilon = {EPSILON}, {results.rows[0].cell.count('rounds'):,} rounds"
    tables = (Table(title, columns, tuple(rows)), learning_table(learnt, "least training loss"))
    return Findings(tables, checks, (_panel(title, results),), notes)


def _panel(title: str, results: Results) -> Panel:
    """Mean losses over T, a line for C1 and C2."""
    lines: dict[str, list[tuple[float, float]]] = {}
    for setting, own in of_settings(results).items():
        label = f"C1 = {setting.gradient_radius:g}, C2 = {setting.difference_radius:g}"
        lines.setdefault(label, []).append((setting.restart_every, mean_loss(own)))
    series = []
    for label, points in lines.items():
        x, y = zip(*sorted(points), strict=True)
        series.append(Series(label, x, y))
    return Panel(title, "T", "mean least training loss", tuple(series))


diff2_search = Experiment(
    name="diff2_search",
    title="DIFF2-GD's grid at 2,000 rounds (tuned without privacy)",
    source="Murata and Suzuki 2023, Appendix A",
    cells=cells,
    run=run,
    read=read,
    alone=("",),
)
