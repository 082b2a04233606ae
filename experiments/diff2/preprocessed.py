"""``diff2_network`` on data prepared as the paper prepares them: by the data's own statistics.

Numeric features have mean 0 and deviation 1 over the training rows, the target is divided by its
largest absolute value over all rows, and every seed splits the rows anew (Section 6, Data
Preparation).  One record then moves every row: the preparation is declared *not private*, and a
run with it has no finite guarantee.  The epsilon in the tables is that of a run's releases from
prepared rows.  Network, grid, rule of step sizes and rounds are those of ``diff2_network``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from pathlib import Path

import numpy as np

from dpaudit.accountant.account import account
from dpaudit.curator.curator import Sampler
from dpaudit.kernels.query import Array, Records
from experiments.diff2 import network, problem
from experiments.diff2.data import Layout, Prepared, load, prepared
from experiments.diff2.network import LOSS, NAMES, UNCLIPPED, Setting
from experiments.diff2.runs import SCOPE
from experiments.lab.model import Cell, Experiment, Findings, Results, Size, Table, Values
from mechanisms.papers.common import randhie
from mechanisms.papers.common.losses import mean_value
from mechanisms.papers.diff2.framework import Diff2, schedule
from mechanisms.papers.diff2.theory import Budget
from mechanisms.papers.diff2.tuning import (
    NonPrivateSearch,
    Patience,
    paper_grid_search,
    path_of,
)

EPSILON = 3  # of the paper's figures in the main text
LOST = 1e100  # of a coordinate: a difference so long has no square, and its noise no scale
# Set before the run, and nobody had seen a loss of these rows: bands are the paper's.
SEEDS = {Size.QUICK: 2, Size.FULL: 8}
# The RAND study's numbers, then its indicators, which the paper leaves as they are.
RAND_NUMERIC = ("lncoins", "lpi", "fmde", "disea")
RAND_INDICATORS = ("physlm", "idp", "hlthg", "hlthf", "hlthp")
GAP = "largest excess of a run's epsilon over what it may spend"
QUOTED = {
    GAP: 'Proposition 4.1: "is sufficient to guarantee (epsilon_DP, delta_DP)"',
    "settings that survived": 'Appendix A: "If we reached 2,000 rounds using a certain learning '
    'rate [...], the learning rate tuning was terminated"; ours: a setting must',
}


@lru_cache(maxsize=2)
def rows(name: str) -> tuple[Array, Layout]:
    """A data set as it comes, features then target, and how it is laid out.

    Errors: DataUnavailable where the library that brings the data is missing.
    """
    try:
        if name == "randhie":
            from statsmodels.datasets import randhie as source

            frame = source.load_pandas().data
            columns = (*RAND_NUMERIC, *RAND_INDICATORS, randhie.VISITS.name)
            table = np.column_stack([frame[column] for column in columns]).astype(np.float64)
            return table, Layout(len(table), 9, 9, numeric=len(RAND_NUMERIC))
        from sklearn.datasets import load_diabetes, make_friedman1
    except ImportError:
        raise randhie.DataUnavailable(
            f"{name}: needs statsmodels and scikit-learn; pip install 'dpaudit[ml]'"
        ) from None
    if name == "diabetes":  # shipped with scikit-learn, no network
        x, y = load_diabetes(return_X_y=True, scaled=False)
        return np.column_stack([x, y]), Layout(len(x), 10, 10)
    x, y = make_friedman1(20_640, 8, noise=1.0, random_state=network.FRIEDMAN_SEED)
    return np.column_stack([x, y]), Layout(len(x), 8, 8)


@lru_cache(maxsize=4)
def split(name: str, seed: int, file: str = "") -> Prepared:
    """The rows, of a user's file where one is named, split by a seed, prepared as Section 6 says.

    Errors: as :func:`rows` and :func:`experiments.diff2.data.load`.
    """
    return load(Path(file), name, seed) if file else prepared(*rows(name), seed)


@dataclass
class Search:
    """One search under a seed: its programs, and the test loss at each training loss.

    ``file``: the user's, of the data set ``data``; "" for one that a library brings.
    """

    data: str
    method: str
    seed: int
    rounds: int
    clients: int
    epsilon: int = EPSILON
    file: str = ""
    tests: dict[float, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        made = split(self.data, self.seed, self.file)
        block = len(made.train) // network.CLIENTS
        self.records, self.held_out = Records(made.train[: self.clients * block]), made.test
        self.non_private = made.non_private

    def program(self, setting: Setting, step_size: float) -> Diff2:
        """A run on prepared rows, whose preparation it declares."""
        size = len(self.records)
        restarts, differences = schedule(self.rounds, setting.restart_every)
        share = network.SHARE if differences else 1.0
        return Diff2(
            loss=LOSS,
            features=self.held_out.shape[1] - 1,
            client_sizes=(size // self.clients,) * self.clients,
            rounds=self.rounds,
            restart_every=setting.restart_every,
            gradient_radius=setting.gradient_radius,
            difference_radius=setting.difference_radius,
            step_size=step_size,
            noise=Budget(self.epsilon, problem.DELTA, size).noise(restarts, differences, share),
            start_seed=self.seed,
            non_private=self.non_private,
        )

    def settings(self) -> list[Setting]:
        """The grid of ``diff2_network`` for the method."""
        if self.method == "gd":
            return [Setting(UNCLIPPED, UNCLIPPED, 1)]
        if self.method == "dp_gd":
            return [Setting(c, c, 1) for c in network.GRADIENT_RADII]
        periods = dict.fromkeys(max(2, round(share * self.rounds)) for share in network.PERIODS)
        return [
            Setting(c, k, t)
            for t in periods
            for c in network.GRADIENT_RADII
            for k in network.DIFFERENCE_RADII
        ]

    def evaluate(self, x: Array) -> tuple[float, float]:
        """Training loss and squared gradient norm; the test loss is kept beside them."""
        loss = float(mean_value(LOSS, x, self.records.values)[0])
        self.tests[loss] = float(mean_value(LOSS, x, self.held_out)[0])
        return loss, float(np.square(self._gradient(x)).sum())

    def descent(self, step_size: float) -> Iterator[Array]:
        """Gradient descent: nothing clipped, no noise."""
        x = LOSS.initial(self.held_out.shape[1] - 1, 1, self.seed)
        yield x
        for _ in range(self.rounds):
            x = x - step_size * self._gradient(x)
            yield x

    def _gradient(self, x: Array) -> Array:
        plain = self.program(Setting(UNCLIPPED, UNCLIPPED, 1), 1.0)
        return plain.gradient_query(x).value(self.records)

    def spent(self) -> tuple[float, float]:
        """Epsilon of a run's releases from prepared rows, and of a run with its preparation."""
        made = self.program(self.settings()[0], 1.0)
        if self.method == "gd":
            return np.inf, np.inf
        releases, whole = (
            float(account(one.declaration(SCOPE), SCOPE).epsilon(problem.DELTA).upper)
            for one in (replace(made, non_private=()), made)
        )
        return releases, whole


def grid(size: Size, epsilon: int, seeds: int) -> list[Cell]:
    """One search a data set, method and seed."""
    costs = {"gd": 1.0, "dp_gd": 2.0, "diff2": 40.0}
    shape = {"rounds": network.ROUNDS[size], "clients": network.BLOCKS[size]}
    return [
        Cell.of(costs[m], data=d, method=m, epsilon=epsilon, seed=s, **shape)
        for d in network.DATA[size]
        for m in NAMES
        for s in range(seeds)
    ]


def cells(size: Size) -> list[Cell]:
    """The searches at epsilon 3."""
    return grid(size, EPSILON, SEEDS[size])


def run(cell: Cell, rng: np.random.Generator) -> Values:
    """The search for one method and seed, measured as in ``diff2_network``."""
    rounds = cell.count("rounds")
    search = Search(
        cell.text("data"),
        cell.text("method"),
        cell.count("seed"),
        rounds,
        cell.count("clients"),
        cell.count("epsilon"),
    )
    patience = Patience(every=max(1, rounds // network.EVALUATIONS))
    found = searched(search, search.settings(), patience, rng)
    releases, whole = search.spent()
    return {
        **_measured(found, search.tests),
        "start": found.tried[0].losses[0],
        "runs": len(found.tried),
        "survived": len(found.chosen),
        "epsilon": releases,
        "whole": whole,
    }


def searched(
    search: Search, settings: Sequence[Setting], patience: Patience, rng: np.random.Generator
) -> NonPrivateSearch[Setting]:
    """The paper's search of a step size for every setting: not private."""

    def start(setting: Setting, step_size: float) -> Iterator[Array]:
        if search.method == "gd":
            return search.descent(step_size)
        made = search.program(setting, step_size)
        sampler = Sampler(made.declaration(SCOPE), SCOPE, search.records, rng=rng)
        return _until_lost(path_of(made, sampler), made.rounds)

    return paper_grid_search(settings, start, search.evaluate, patience=patience)


def _until_lost(path: Iterator[Array], rounds: int) -> Iterator[Array]:
    """The iterates; NaN, which gives a run up, from the first beyond ``LOST`` on."""
    for count, x in enumerate(path, start=1):
        if not (np.abs(x) < LOST).all():
            yield from [np.full_like(x, np.nan)] * (rounds + 2 - count)
            return
        yield x


def _measured(
    found: NonPrivateSearch[Setting], tests: Mapping[float, float]
) -> dict[str, float | list[float]]:
    """The paper's measures, the setting taken and its losses; infinite where no run lasts."""
    best = found.best(lambda one: one.lowest_loss)
    smallest = found.best(lambda one: one.smallest_gradient)
    if best is None or smallest is None:
        return {**dict.fromkeys((*network.MEASURES, *network.TAKEN), np.inf), "curve": []}
    return {
        "loss": best.lowest_loss,
        "gradient": smallest.smallest_gradient,
        "test": tests[best.lowest_loss],
        "step_size": best.step_size,
        **asdict(best.setting),
        "curve": list(best.losses),
    }


def read(results: Results) -> Findings:
    """As ``diff2_network`` reads its own, and what the account says of the preparation."""
    found = network.read(results)
    checks = tuple(
        replace(check, source=next((QUOTED[b] for b in QUOTED if check.name.startswith(b)),
                                   check.source))
        for check in found.checks
    )  # fmt: skip
    notes = (
        "numeric features by their mean and deviation over the training rows, the target by its "
        "largest absolute value over all rows, a split by the seed: the paper's preparation, which "
        "is not private; indicators are left as they are",
        "the epsilon of a run is that of its releases from prepared rows: with the preparation, "
        "the tuning or the stopping it has none that is finite",
        "parameters start within 1 / sqrt(inputs), as software does, not within the printed "
        "sqrt(inputs)",
        *(note for note in found.notes if not note.startswith("tuning")),
    )
    return Findings((*found.tables, _accounted(results)), checks, found.panels, notes)


def _accounted(results: Results) -> Table:
    lines: list[tuple[str | float, ...]] = []
    for data in results.parameters("data"):
        for method in ("dp_gd", "diff2"):
            one = results.where(data=data, method=method).rows[0]
            values = (one.number("epsilon"), one.number("whole"))
            lines.append((str(data), NAMES[method], *values))
    columns = ("data", "method", "its releases from prepared rows", "with the preparation")
    return Table(f"Epsilon of a run at delta = {float(problem.DELTA):g}", columns, tuple(lines))


diff2_preprocessed = Experiment(
    name="diff2_preprocessed",
    title="DIFF2-GD, DP-GD and gradient descent on data prepared by themselves (not private)",
    source="Murata and Suzuki 2023, Section 6 (Data Preparation) and Appendix A",
    cells=cells,
    run=run,
    read=read,
    alone=("largest excess of a run", "settings that survived"),
)
