"""Figures 1 and 2: training loss, squared gradient norm and test loss over the rounds.

DIFF2-GD and DP-GD on the paper's regression data sets, prepared as Section 6 says, over its 2,000
rounds, five seeds and whole grid: 100 settings of DIFF2-GD, 5 of DP-GD, each at the first of ten
step sizes that lasts.  The data are files that the user gives; a data set without a file is left
out, and where there is none scikit-learn's diabetes rows stand for it.  Preparation, tuning and
stopping read the data: *not private*.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np

from dpaudit.errors import InvalidParameter
from dpaudit.kernels.query import Array, Records
from experiments.diff2 import network
from experiments.diff2.data import LAYOUTS, TRAINED, WORKERS
from experiments.diff2.network import LOSS, NAMES, Setting
from experiments.lab.figures import Figure, Files, together
from experiments.lab.fits import mean_and_error
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
from experiments.lab.papers import Read
from mechanisms.papers.common.losses import mean_value
from mechanisms.papers.diff2.framework import Diff2
from mechanisms.papers.diff2.tuning import (
    PERIOD_SHARES,
    RADII,
    NonPrivateSearch,
    Patience,
    paired_one_sided_ttest,
    paper_grid_search,
)

DATA = ("california", "gas_turbine", "blog_feedback")  # the panels of either figure
STAND_IN = "diabetes"
UNCLIPPED = 1e9  # a radius that clips nothing
METHODS = ("dp_gd", "diff2")
ROUNDS = {Size.QUICK: 20, Size.FULL: 2000}
SEEDS = {Size.QUICK: 2, Size.FULL: 5}
FIRST = {Size.QUICK: RADII[:1], Size.FULL: RADII}
SECOND = {Size.QUICK: RADII[1:2], Size.FULL: RADII}
SHARES = {Size.QUICK: PERIOD_SHARES[-1:], Size.FULL: PERIOD_SHARES}
EVERY = 20  # rounds between two looks at the loss, Appendix A; a corner looks at every round
MEASURES = {"loss": "training loss", "gradient": "squared gradient norm", "test": "test loss"}
NOT_PRIVATE = (
    "preparation, tuning, stopping and reporting read the data and are not private: the epsilon is "
    "that of the releases of one run from prepared rows"
)


def cells(epsilon: int, size: Size, files: Files) -> list[Cell]:
    """A cell a data set, method, seed and C1, with all its C2 and T."""
    found = []
    for name, given in {n: files[n] for n in DATA if n in files}.items() or [(STAND_IN, None)]:
        own: dict[str, str] = {"data": name}
        if given is not None:
            own |= {"file": str(given.resolve()), "digest": _digest(given)}
        found += [
            Cell.of(
                float(ROUNDS[size] * len(settings(method, radius, ROUNDS[size], size))),
                **own,
                method=method,
                epsilon=epsilon,
                gradient_radius=radius,
                seed=seed,
                rounds=ROUNDS[size],
                corner=int(size is Size.QUICK),
            )
            for method in METHODS
            for radius in FIRST[size]
            for seed in range(SEEDS[size])
        ]
    return found


def _digest(path: Path) -> str:
    """A digest of a file, so that another file of the same name is measured anew."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()[:12]
    except OSError:
        raise InvalidParameter(f"{path}: no file that can be read") from None


def settings(method: str, radius: float, rounds: int, size: Size) -> list[Setting]:
    """The settings of a method with one C1, as Appendix A lists them."""
    if method == "dp_gd":
        return [Setting(radius, radius, 1)]
    periods = dict.fromkeys(max(1, round(share * rounds)) for share in SHARES[size])
    return [Setting(radius, second, every) for every in periods for second in SECOND[size]]


@dataclass
class Search:
    """The paper's search under a seed, not private: its programs, and the test loss at each loss.

    ``file``: the user's, of the data set ``data``; "" for one that a library brings.
    """

    data: str
    seed: int
    rounds: int
    epsilon: int
    file: str = ""
    tests: dict[float, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.split = network.split(self.data, self.seed, file=self.file)
        self.records = Records(self.split.train)

    def program(self, setting: Setting, step_size: float) -> Diff2:
        """A run with the printed noise on prepared rows, whose preparation it declares."""
        return network.program(
            self.split, setting, step_size, rounds=self.rounds, epsilon=self.epsilon, seed=self.seed
        )

    def over(
        self, settings: Sequence[Setting], patience: Patience, rng: np.random.Generator
    ) -> NonPrivateSearch[Setting]:
        """For each setting the first step size that lasts."""
        plain = self.program(Setting(UNCLIPPED, UNCLIPPED, 1), 1.0)

        def evaluate(x: Array) -> tuple[float, float]:
            loss = float(mean_value(LOSS, x, self.split.train)[0])
            self.tests[loss] = float(mean_value(LOSS, x, self.split.test)[0])
            return loss, float(np.square(plain.gradient_query(x).value(self.records)).sum())

        def start(setting: Setting, step_size: float) -> Iterator[Array]:
            return network.iterates(self.program(setting, step_size), self.records, rng)

        return paper_grid_search(settings, start, evaluate, patience=patience)


def run(cell: Cell, rng: np.random.Generator) -> Values:
    """The best runs of one method, C1 and seed, by training loss and by gradient norm."""
    size = Size.QUICK if cell.count("corner") else Size.FULL
    method, rounds = cell.text("method"), cell.count("rounds")
    file = str(dict(cell.parameters).get("file", ""))
    search = Search(cell.text("data"), cell.count("seed"), rounds, cell.count("epsilon"), file)
    tried = settings(method, cell.number("gradient_radius"), rounds, size)
    found = search.over(tried, Patience(every=1 if size is Size.QUICK else EVERY), rng)
    return {
        "records": len(search.records),
        "settings": len(tried),
        "start": found.tried[0].losses[0],
        **_best(found, search.tests),
    }


def _best(
    found: NonPrivateSearch[Setting], tests: Mapping[float, float]
) -> dict[str, float | Sequence[float]]:
    """The measures and their curves; infinite where no run lasts."""
    by_loss = found.best(lambda one: one.lowest_loss)
    by_gradient = found.best(lambda one: one.smallest_gradient)
    if by_loss is None or by_gradient is None:
        infinite = dict.fromkeys(MEASURES, np.inf)
        return {**infinite, **{f"{measure}_curve": [] for measure in MEASURES}}
    held_out = [tests.get(loss, np.nan) for loss in by_loss.losses]
    return {
        "loss": by_loss.lowest_loss,
        "gradient": by_gradient.smallest_gradient,
        "test": tests[by_loss.lowest_loss],
        "loss_curve": list(by_loss.losses),
        "gradient_curve": list(by_gradient.gradients),
        "test_curve": held_out,
    }


def read(results: Results) -> Findings:
    """Of each data set and method, the best C1 of every seed: means, tests, curves."""
    rows: list[tuple[str | float, ...]] = []
    tests: list[tuple[str | float, ...]] = []
    panels = []
    for data in map(str, results.parameters("data")):
        found = {m: results.where(data=data, method=m) for m in METHODS}
        for method, own in found.items():
            start = mean_and_error([r.number("start") for r in own])[0]
            shown = (_spread(_values(own, measure)) for measure in MEASURES)
            rows.append((data, NAMES[method], start, *shown))
        for measure, title in MEASURES.items():
            values = [_values(found[method], measure) for method in ("diff2", "dp_gd")]
            tests.append((data, title, *_test(*values)))
            panels.append(_panel(data, measure, found))
    columns = ("data", "method", "loss at the start", *MEASURES.values())
    compared = ("data", "measure", "seeds in which DIFF2-GD is lower", "t", "p that it is lower")
    return Findings(
        (
            Table("The least over the rounds: mean ± deviation of seeds", columns, tuple(rows)),
            Table("One-sided paired t-tests over seeds (Section 6)", compared, tuple(tests)),
        ),
        (),
        tuple(panels),
        (NOT_PRIVATE,),
    )


def _best_of(results: Results, measure: str) -> list[Result]:
    """Of every seed the cell that is best in a measure; the test loss is that of the best loss."""
    by = "loss" if measure == "test" else measure
    seeds = (results.where(seed=seed).rows for seed in results.parameters("seed"))
    return [min(rows, key=lambda r: r.number(by)) for rows in seeds]


def _values(results: Results, measure: str) -> list[float]:
    return [r.number(measure) for r in _best_of(results, measure)]


def _spread(values: Sequence[float]) -> str:
    if not np.isfinite(values).all():
        return "no run lasted"
    deviation = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
    return f"{np.mean(values):.4g} ± {deviation:.2g}"


def _test(ours: Sequence[float], theirs: Sequence[float]) -> tuple[str | float, ...]:
    lower = f"{sum(a < b for a, b in zip(ours, theirs, strict=True))} of {len(ours)}"
    apart = np.subtract(ours, theirs)
    if len(ours) < 2 or not np.isfinite(apart).all() or np.ptp(apart) == 0:
        return lower, "", ""
    found = paired_one_sided_ttest(ours, theirs)
    return lower, found.statistic, found.p_value


def _panel(data: str, measure: str, found: Mapping[str, Results]) -> Panel:
    """The mean over seeds of a measure along the best runs, and its standard errors."""
    series = []
    for method, results in found.items():
        best = _best_of(results, measure)
        curves = [r.numbers(f"{measure}_curve") for r in best if np.isfinite(r.number(measure))]
        points = [mean_and_error(values) for values in zip(*curves, strict=True)]
        every = best[0].cell.count("rounds") / max(1, len(points) - 1)
        x = tuple(every * k for k in range(len(points)))
        mean, error = zip(*points, strict=True) if points else ((), ())
        series.append(Series(NAMES[method], x, mean, marker="", error=error))
    return Panel(data, "round", MEASURES[measure], tuple(series), "semilogy")


def scale(reads: Mapping[str, Read]) -> str:
    """Rows, rounds, seeds and settings, of the paper's."""
    (read_,) = reads.values()
    if read_.results is None:
        return "nothing was run"
    results, said = read_.results, []
    for data in map(str, results.parameters("data")):
        own = results.where(data=data).rows
        records = own[0].number("records")
        if data in LAYOUTS:
            whole = int(LAYOUTS[data].rows * TRAINED) // WORKERS * WORKERS
            share = records / whole
            said.append(f"{data}: {records:,.0f} of {whole:,} training rows ({share:.0%})")
        else:
            said.append(f"{data}: {records:,.0f} rows of a data set that is not the paper's")
    cell, seeds = results.rows[0].cell, len(results.parameters("seed"))
    tried = {
        m: sum(r.number("settings") for r in results.where(method=m)) / _searches(results, m)
        for m in METHODS
    }
    return "; ".join(
        [
            *said,
            f"{len(set(results.parameters('data')) & set(DATA))} of {len(DATA)} data sets",
            f"{cell.count('rounds'):,} of {ROUNDS[Size.FULL]:,} rounds",
            f"{seeds} of {SEEDS[Size.FULL]} seeds",
            f"DIFF2-GD {tried['diff2']:.0f} of {len(RADII) ** 2 * len(PERIOD_SHARES)} settings",
            f"DP-GD {tried['dp_gd']:.0f} of {len(RADII)}",
        ]
    )


def _searches(results: Results, method: str) -> int:
    """Over how many data sets and seeds the settings of a method are counted."""
    own = results.where(method=method)
    return len(own.parameters("data")) * len(own.parameters("seed"))


def _figure(number: int, epsilon: int) -> Figure:
    name = f"diff2_figure_{number}"
    title = f"DIFF2-GD beside DP-GD at epsilon = {epsilon}: three losses over the rounds"
    source = f"Murata and Suzuki 2023, Section 6, Figure {number}"
    own = Experiment(name, title, source, partial(cells, epsilon, files={}), run, read)
    return Figure(
        name, title, source, together, scale, own=own, cells=partial(cells, epsilon), files=DATA
    )


figure_1 = _figure(1, 3)
figure_2 = _figure(2, 5)
