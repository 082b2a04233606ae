"""Figure 1 of paper 1: gradients as formulas, as schedules, and as counted in runs.

A run's gradients are counted where the loss evaluates them on users' items: distinct points with
their items, and all evaluations.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import product

import numpy as np
from numpy.typing import ArrayLike

from dpaudit.curator.curator import Program, Sampler
from dpaudit.kernels.query import Array, Records
from experiments.user_level import problem
from experiments.user_level.problem import DELTA, DIMENSION, LIPSCHITZ, RADIUS, SMOOTHNESS
from lab.fits import fit_power_law
from lab.model import (
    Cell,
    Check,
    Experiment,
    Findings,
    Panel,
    Parameter,
    Results,
    Series,
    Size,
    Table,
    Values,
)
from mechanisms.papers.common.losses import Loss
from mechanisms.papers.user_level.baselines import FullBatchOutlierRemovedDPSGD
from mechanisms.papers.user_level.batches import calibrate_batches
from mechanisms.papers.user_level.formulas import Sizes, gradient_complexity
from mechanisms.papers.user_level.phased_erm import calibrated_phased_erm, concentration_radius
from mechanisms.papers.user_level.phased_sampled import sampled_phased_erm
from mechanisms.papers.user_level.phased_sgd import calibrated_phased_sgd
from mechanisms.papers.user_level.problem import USERS, Problem, SquaredDistance
from mechanisms.papers.user_level.smoothing import (
    BallSmoothedLoss,
    smoothed_smoothness,
    smoothing_radius,
)

# Exponents of n and m in Figure 1 and Section 1, at n = d; Algorithm 3 where its first term leads.
FIGURE_1 = {
    "winsorized_mean_dpsgd": ("BS23, smooth", 1.5, 1.0),
    "full_batch_outlier_removed_dpsgd": ("AL24, smooth", 1.5, 1.5),
    "user_level_phased_erm": ("Algorithm 3", 9 / 8, 9 / 8),
    "full_batch_outlier_removed_dpsgd_nonsmooth": ("AL24, not smooth", 3.0, 3.0),
    "smoothed_user_level_phased_erm": ("Algorithm 3, smoothed", 11 / 8, 5 / 4),
    "user_level_phased_sgd": ("Algorithm 1", 1.0, 1.0),
}
SAMPLED = (20_000, 200_000, 2_000_000)
RUNS = {
    "sgd": "Algorithm 1",
    "erm": "Algorithm 3",
    "smoothed": "Algorithm 3, smoothed",
    "full": "AL24, smooth",
}
EPSILON, FULL_PHASES = 8, 1
LARGE = (1e12, 1e14)
SCHEDULES = (10**4, 10**5, 10**6, 10**7)
MOST = {"smoothed": 8_000}  # larger ones take long
GRID = {
    Size.QUICK: ((1000, 2), (1000, 4)),
    Size.FULL: ((1000, 4), (2000, 4), (4000, 4), (1000, 1), (1000, 16)),
}


@dataclass(frozen=True)
class Counted(SquaredDistance):
    """Squared distances that note where they are evaluated; rows of zeros are placeholders."""

    calls: list[tuple[int, int]] = field(default_factory=list, compare=False)

    def gradients(self, parameters: ArrayLike, records: ArrayLike) -> Array:
        """The gradients; a digest of the points and a row, and how many there are, are noted."""
        found = super().gradients(parameters, records)
        rows = np.asarray(records, dtype=np.float64)
        if rows.any():
            row = rows.reshape(-1)[:DIMENSION].tobytes()
            digest = hash((np.asarray(parameters).tobytes(), row))
            self.calls.append((digest, found.shape[0] * found.shape[1]))
        return found

    @property
    def evaluations(self) -> int:
        """Gradients of an item, however often at the same points."""
        return sum(count for _, count in self.calls)

    @property
    def taken(self) -> int:
        """Gradients of an item, once at each point."""
        return sum(dict(self.calls).values())


def cells(size: Size) -> list[Cell]:
    """Formulas; schedules at n = d; counted runs."""
    formulas = [Cell.of(0.1, kind="formula", method=m) for m in FIGURE_1]
    schedules = [Cell.of(0.3, kind="schedule", users=n) for n in SCHEDULES]
    runs = [
        Cell.of(n * m / 1000, kind="run", method=k, users=n, items=m)
        for k in RUNS
        for n, m in GRID[size]
        if n * m <= MOST.get(k, n * m)
    ]
    return [*formulas, *schedules, *runs]


def run(cell: Cell, rng: np.random.Generator) -> Values:
    """Exponents of a formula, gradients of a schedule, or those counted in a run."""
    if cell.text("kind") == "formula":
        return exponents(cell.text("method"))
    users = cell.count("users")
    if cell.text("kind") == "schedule":
        on = Problem(SquaredDistance(users), users, 1, users, 0.5, 1.0)
        made = calibrated_phased_erm(on, 1, DELTA, 1.0)
        rounds = sum(phase.constants.rounds for phase in made.phases)
        return {"gradients": made.gradients, "rounds": rounds}
    loss, items = Counted(DIMENSION), cell.count("items")
    program, declared = PROGRAMS[cell.text("method")](_on(loss, users, items))
    # Shrunk at random: groups that hold the same items would be counted once.
    shrunk = 1 - 0.1 * rng.random((users, items, 1))
    records = Records(shrunk * problem.sample(users, items, rng))
    found = program.run(Sampler(program.declaration(USERS), USERS, records, rng=rng))
    return {
        "taken": loss.taken,
        "evaluations": loss.evaluations,
        "declared": declared,
        "halted": int(found.halted.sum()),
    }


def exponents(method: str) -> Values:
    """Slopes of a formula in n = d and in m, at large n, everything else being 1."""
    counts = {
        "users": [gradient_complexity(method, Sizes(n, 1, n)) for n in LARGE],
        "items": [gradient_complexity(method, Sizes(1e30, m, 1e30)) for m in LARGE],
    }
    return {name: fit_power_law(LARGE, values).slope for name, values in counts.items()}


def _on(loss: Loss, users: int, items: int) -> Problem:
    return Problem(loss, users, items, DIMENSION, RADIUS, LIPSCHITZ)


def _sgd(on: Problem) -> tuple[Program, int]:
    made = calibrated_phased_sgd(on, EPSILON, DELTA, smoothness=SMOOTHNESS)
    return made, made.gradients


def _erm(on: Problem) -> tuple[Program, int]:
    made = calibrated_phased_erm(on, EPSILON, DELTA, SMOOTHNESS)
    return made, made.gradients


def _smoothed(on: Problem) -> tuple[Program, int]:
    radius = smoothing_radius(on.users, on.items, DIMENSION, on.diameter, EPSILON)
    smooth = Problem(
        BallSmoothedLoss(on.loss, radius), on.users, on.items, DIMENSION, RADIUS, LIPSCHITZ
    )
    made = calibrated_phased_erm(
        smooth, EPSILON, DELTA, smoothed_smoothness(LIPSCHITZ, DIMENSION, radius)
    )
    return made, made.gradients


def _full(on: Problem) -> tuple[Program, int]:
    """beta (R / L) sqrt(n m) steps on half of the users."""
    rounds = math.ceil(SMOOTHNESS * on.diameter / LIPSCHITZ * math.sqrt(on.users * on.items))
    constants = calibrate_batches(EPSILON, DELTA, on.users // 2, rounds)
    tau = concentration_radius(on, rounds)
    made = FullBatchOutlierRemovedDPSGD(on, (constants,) * FULL_PHASES, tau, 1.0)
    return made, rounds * constants.batch * on.items


PROGRAMS: dict[str, Callable[[Problem], tuple[Program, int]]] = {
    "sgd": _sgd,
    "erm": _erm,
    "smoothed": _smoothed,
    "full": _full,
}


def read(results: Results) -> Findings:
    """Exponents, ratios, counts, and what full batches cost."""
    checks = [*_exponents(results), *_ratios(), *_counts(results), _schedule(results), _sampled()]
    tables = (_formulas(results), _schedules(results), _runs(results), _slopes(results))
    notes = (
        "evaluations are twice the gradients where a round asks for the score and for the mean "
        "of the same gradients: the curator answers each on its own",
        "Algorithm 3 on all users in every round, K = n_i, has gradients that grow as (n m)^(5/4), "
        "smoothed as n^(7/4) m^(3/2), not as the (n m)^(9/8) and n^(11/8) m^(5/4) of Figure 1, "
        "which smaller batches have: secret ones, in the last check; a further phase, once there "
        "are users enough for it, adds to that at these n",
    )
    return Findings(tables, tuple(checks), (_panel(results),), notes)


def _sampled() -> Check:
    """The declared gradients on secret batches; logarithms are in the rounds and least batches."""
    counts = []
    for users in SAMPLED:
        on = Problem(SquaredDistance(5), users, 10, 5, 1.0, 2.0)
        counts.append(sampled_phased_erm(on, 1, 1, DELTA, 1.0).gradients)
    slope = fit_power_law(SAMPLED, counts).slope
    name = "Algorithm 3 on secret batches: exponent of users in the declared gradients"
    return Check(name, slope, 9 / 8 - 0.05, 9 / 8 + 0.05, source="Theorem 3.2, Figure 1")


def _exponents(results: Results) -> list[Check]:
    checks = []
    for method, (name, *stated) in FIGURE_1.items():
        found = results.one(kind="formula", method=method)
        for axis, expected in zip(("users", "items"), stated, strict=True):
            title = f"{name}: exponent of {axis} in its formula"
            value = found.number(axis)
            # A formula's lower terms are still felt at 10^12.
            checks.append(Check(title, value, expected - 0.02, expected + 0.02, source="Figure 1"))
    return checks


def _ratios() -> list[Check]:
    """Section 1: how much faster Algorithm 3 is, and where its first term leads."""
    names = [f"full_batch_outlier_removed_dpsgd{rest}" for rest in ("_nonsmooth", "")]
    ratio = _asymptotic(names[0], "smoothed_user_level_phased_erm", 13 / 8, 7 / 4)
    smooth = _asymptotic(names[1], "user_level_phased_erm", 3 / 8, 3 / 8)
    grid = product((3, 30, 3000), (1, 10**5, 10**20), (1, 10**3, 10**12))
    wrong = sum(_leads(n, m, beta) != (n**7 >= beta**2 * m) for n, m, beta in grid)
    return [
        Check("AL24 over smoothed Algorithm 3, over n^(13/8) m^(7/4)", ratio, 0.95, 1.05,
              source="Section 1"),
        Check("AL24 over Algorithm 3, smooth, over (n m)^(3/8)", smooth, 0.95, 1.05,
              source="Section 1"),
        Check("points where the first term leads, but not n^7 >= beta^2 m, or the reverse", wrong,
              upper=0.0, source="Section 1"),
    ]  # fmt: skip


def _asymptotic(theirs: str, ours: str, users: float, items: float) -> float:
    sizes = Sizes(1e20, 100, 1e20)
    ratio = gradient_complexity(theirs, sizes) / gradient_complexity(ours, sizes)
    return float(ratio / (sizes.users**users * sizes.items**items))


def _leads(users: int, items: int, smoothness: int) -> bool:
    """Whether beta^(1/4) (n m)^(9/8) is the larger term of Algorithm 3's in Figure 1."""
    first = math.log(smoothness) / 4 + 9 / 8 * math.log(users * items)
    second = math.log(smoothness) / 2 + math.log(users) / 4 + 5 / 4 * math.log(items)
    return first >= second


def _counts(results: Results) -> list[Check]:
    checks = []
    for method, name in RUNS.items():
        found = results.where(kind="run", method=method).rows
        apart = max(abs(r.number("taken") - r.number("declared")) * (1 - r.number("halted"))
                    for r in found)  # fmt: skip
        checks.append(Check(f"{name}: counted minus declared gradients", apart, upper=0.0,
                            source="acceptance 2"))  # fmt: skip
        if method == "sgd":
            most = max(r.number("evaluations") / (r.cell.number("users") * r.cell.number("items"))
                       for r in found)  # fmt: skip
            checks.append(Check(f"{name}: evaluations over n m", most, upper=1.0,
                                source="acceptance 2"))  # fmt: skip
    return checks


def _schedule(results: Results) -> Check:
    """Full batches: n m T_1 with T_1 = (1 + (n m)^(1/4) / constant) log(n d m)."""
    sizes, gradients = _growth(results)
    slope = fit_power_law(sizes[-2:], gradients[-2:]).slope
    name = "Algorithm 3 as certified, n = d: exponent of n, log factor taken out"
    return Check(name, slope, 1.05, 1.25, source="ours")


def _growth(results: Results) -> tuple[list[float], list[float]]:
    rows = results.where(kind="schedule").rows
    sizes = [r.cell.number("users") for r in rows]
    return sizes, [
        r.number("gradients") / math.log(n * n) for r, n in zip(rows, sizes, strict=True)
    ]


def _formulas(results: Results) -> Table:
    rows: list[tuple[Parameter, ...]] = []
    for method, (name, users, items) in FIGURE_1.items():
        found = results.one(kind="formula", method=method)
        rows.append((name, users, found.number("users"), items, found.number("items")))
    columns = ("algorithm", "n in Figure 1", "in the formula", "m in Figure 1", "in the formula")
    return Table("Exponents at n = d, L = R = epsilon = 1", columns, tuple(rows))


def _schedules(results: Results) -> Table:
    rows: list[tuple[Parameter, ...]] = []
    for r in results.where(kind="schedule"):
        n = r.cell.number("users")
        formula = gradient_complexity("user_level_phased_erm", Sizes(n, 1, n))
        rows.append((int(n), int(r.number("rounds")), int(r.number("gradients")), formula))
    columns = ("n = d", "rounds", "gradients", "formula, without logs")
    return Table("Algorithm 3 as certified, one item a user", columns, tuple(rows))


def _runs(results: Results) -> Table:
    rows: list[tuple[Parameter, ...]] = []
    for r in results.where(kind="run"):
        n, m = r.cell.count("users"), r.cell.count("items")
        counts = (int(r.number(v)) for v in ("taken", "evaluations", "declared"))
        ended = "halted" if r.number("halted") else "ran"
        rows.append(
            (RUNS[r.cell.text("method")], n, m, *counts, r.number("taken") / (n * m), ended)
        )
    columns = ("algorithm", "n", "m", "gradients", "evaluations", "declared", "over n m", "run")
    return Table(f"Counted gradients of runs, d = {DIMENSION}, epsilon = {EPSILON}", columns,
                 tuple(rows))  # fmt: skip


def _slopes(results: Results) -> Table:
    """Fitted to the counts, one size fixed at its commonest value; words where one size is all."""
    rows: list[tuple[Parameter, ...]] = []
    for method, name in RUNS.items():
        runs = results.where(kind="run", method=method)
        found: list[Parameter] = []
        for axis, fixed in (("users", {"items": 4}), ("items", {"users": 1000})):
            along = runs.where(**fixed).rows
            sizes = [r.cell.number(axis) for r in along]
            counts = [r.number("taken") for r in along]
            several = len(set(sizes)) > 1
            found.append(fit_power_law(sizes, counts).slope if several else "one size")
        rows.append((name, *found))
    columns = ("algorithm", "in n, m = 4", "in m, n = 1000")
    return Table("Slopes of the counted gradients, logs included", columns, tuple(rows))


def _panel(results: Results) -> Panel:
    series = []
    for method, name in RUNS.items():
        found = sorted(
            results.where(kind="run", method=method),
            key=lambda r: r.cell.count("users") * r.cell.count("items"),
        )
        x = tuple(r.cell.number("users") * r.cell.number("items") for r in found)
        series.append(Series(name, x, tuple(r.number("taken") for r in found)))
    line = tuple(series[0].x)
    series.append(Series("n m", line, line, style="--", marker=""))
    return Panel("Gradients counted in runs", "n m", "gradients of one item", tuple(series))


user_level_costs = Experiment(
    name="user_level_costs",
    title="Gradients at user level: Figure 1's formulas, schedules and counted runs",
    source=f"{problem.PAPER}, Figure 1 and Theorems 2.1, 3.2 and 4.1",
    cells=cells,
    run=run,
    read=read,
)
