"""``diff2_preprocessed`` at the other epsilon of the paper's figures, 5, under five seeds.

Data, network, grid and rule of step sizes are those of ``diff2_preprocessed``; only the noise is
another.  It stands alone so that the runs at epsilon 3 need not be made again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from dpaudit.curator.curator import Sampler
from dpaudit.kernels.query import Array
from experiments.diff2 import network, preprocessed, problem
from experiments.diff2.network import NAMES, Setting
from experiments.diff2.runs import SCOPE
from experiments.lab.model import Cell, Experiment, Findings, Results, Size, Values
from mechanisms.papers.diff2.framework import Diff2, schedule
from mechanisms.papers.diff2.theory import Budget
from mechanisms.papers.diff2.tuning import Patience, paper_grid_search, path_of

EPSILON = 5
# As many as the paper's; set before the run for its time, as are all bands, which are the paper's.
SEEDS = {Size.QUICK: 1, Size.FULL: 5}


@dataclass
class Search(preprocessed.Search):
    """A search at epsilon 5."""

    def program(self, setting: Setting, step_size: float) -> Diff2:
        """The run of ``diff2_preprocessed`` with this epsilon's noise."""
        restarts, differences = schedule(self.rounds, setting.restart_every)
        share = network.SHARE if differences else 1.0
        budget = Budget(EPSILON, problem.DELTA, len(self.records))
        made = super().program(setting, step_size)
        return replace(made, noise=budget.noise(restarts, differences, share))


def cells(size: Size) -> list[Cell]:
    """One search a data set, method and seed."""
    costs = {"gd": 1.0, "dp_gd": 2.0, "diff2": 40.0}
    shape = {"rounds": network.ROUNDS[size], "clients": network.BLOCKS[size]}
    return [
        Cell.of(costs[m], data=d, method=m, epsilon=EPSILON, seed=s, **shape)
        for d in network.DATA[size]
        for m in NAMES
        for s in range(SEEDS[size])
    ]


def run(cell: Cell, rng: np.random.Generator) -> Values:
    """The search for one method and seed, measured as in ``diff2_network``."""
    rounds = cell.count("rounds")
    search = Search(
        cell.text("data"), cell.text("method"), cell.count("seed"), rounds, cell.count("clients")
    )

    def start(setting: Setting, step_size: float) -> Iterator[Array]:
        if search.method == "gd":
            return search.descent(step_size)
        made = search.program(setting, step_size)
        return path_of(made, Sampler(made.declaration(SCOPE), SCOPE, search.records, rng=rng))

    patience = Patience(every=max(1, rounds // network.EVALUATIONS))
    found = paper_grid_search(search.settings(), start, search.evaluate, patience=patience)
    releases, whole = search.spent()
    return {
        **preprocessed._measured(found, search.tests),
        "start": found.tried[0].losses[0],
        "runs": len(found.tried),
        "survived": len(found.chosen),
        "epsilon": releases,
        "whole": whole,
    }


def read(results: Results) -> Findings:
    """As ``diff2_preprocessed`` reads its own."""
    return preprocessed.read(results)


diff2_preprocessed_five = Experiment(
    name="diff2_preprocessed_five",
    title="DIFF2-GD, DP-GD and gradient descent on data prepared by themselves, epsilon 5",
    source="Murata and Suzuki 2023, Section 6 (Data Preparation) and Appendix A",
    cells=cells,
    run=run,
    read=read,
    alone=("largest excess of a run", "settings that survived"),
)
