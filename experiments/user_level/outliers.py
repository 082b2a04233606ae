"""When Algorithm 1 halts, and what it removes: i.i.d. users, and users in groups of another kind.

Users of the other kind hold items of minus one sign; they come together, as users who are not
exchangeable do, and fill a share of the groups of every phase.  tau is a twenty-fifth of the
heuristic one, small enough to tell the kinds apart.
"""

from __future__ import annotations

import math

import numpy as np

from dpaudit.curator.curator import Sampler
from dpaudit.kernels.query import Array, Records
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
from experiments.user_level import problem
from mechanisms.papers.user_level.constants import HALT
from mechanisms.papers.user_level.phased_sgd import UserLevelPhasedSGD
from mechanisms.papers.user_level.points import counts_within, inlier_probabilities
from mechanisms.papers.user_level.problem import USERS

SHARES = {
    Size.QUICK: (0.0, 0.02, 0.2),
    Size.FULL: (0.0, 0.01, 0.02, 0.03, 0.04, 0.05, 0.1, 0.2, 0.3, 0.45),
}
CLOSER = 1 / 25
OUTLIERS = {"users": 3200, "items": 256, "trials": 400}
IID = {"users": 6400, "items": 4}
IID_TRIALS = {Size.QUICK: 200, Size.FULL: 1500}
DRAWS = {Size.QUICK: 4, Size.FULL: 60}
SURE = 0.999


def cells(size: Size) -> list[Cell]:
    """Shares of groups of the other kind; many runs on i.i.d. users; many sets of i.i.d. users."""
    shares = [Cell.of(4.0, kind="share", share=a, **OUTLIERS) for a in SHARES[size]]
    runs = Cell.of(4.0, kind="runs", trials=IID_TRIALS[size], **IID)
    sets = Cell.of(4.0, kind="sets", draws=DRAWS[size], users=8192, items=16)
    return [*shares, runs, sets]


def run(cell: Cell, rng: np.random.Generator) -> Values:
    """Halts of a first phase, of whole runs, or inliers phase by phase."""
    users, items = cell.count("users"), cell.count("items")
    if cell.text("kind") == "share":
        program = problem.algorithm_1(users, items, CLOSER)
        data = mixed(program, cell.number("share"), rng)
        return first_phase(program, data, cell.number("share"), cell.count("trials"), rng)
    program = problem.algorithm_1(users, items)
    if cell.text("kind") == "runs":
        data = problem.sample(users, items, rng)
        found = problem.run(program, data, rng, cell.count("trials"))
        return {"halted": int(found.halted.sum()), "phases": len(program.phases)}
    inliers = [
        share
        for _ in range(cell.count("draws"))
        for share in removed(program, problem.sample(users, items, rng), rng)
    ]
    return {"whole": float(np.mean([s == 0 for s in inliers])), "phases": len(inliers)}


def mixed(program: UserLevelPhasedSGD, share: float, rng: np.random.Generator) -> Array:
    """i.i.d. users, but for the last ``share`` of the groups of every phase."""
    data, first = problem.sample(program.problem.users, program.problem.items, rng), 0
    groups = program.constants.groups
    for phase in program.phases:
        each, wrong = phase.users // groups, round(share * groups)
        last = first + groups * each
        data[last - wrong * each : last] = -1 / math.sqrt(problem.DIMENSION)
        first += phase.users
    return data


def first_phase(
    program: UserLevelPhasedSGD, data: Array, share: float, trials: int, rng: np.random.Generator
) -> Values:
    """Halts in the first phase; how far the mean of what passes is from that of the inliers."""
    phase, groups = program.phases[0], program.constants.groups
    start = program.problem.start(1)
    points = program.query(phase, start).points(data[: phase.users])
    near, far = counts_within(points, phase.radius, (1.0, 2.0))
    weights = inlier_probabilities(far)[0]
    inside = np.arange(groups) < groups - round(share * groups)
    sampler = Sampler(program.declaration(USERS), USERS, Records(data), rng=rng, trials=trials)
    released = sampler.release(
        program.labels()[0],
        program.query(phase, np.repeat(start, trials, axis=0)),
        rows=sampler.part(0, program.sizes),
    )
    margin = float(program.constants.threshold) - float(near.sum() / groups)
    return {
        "halted": int(np.isnan(released).any(axis=1).sum()),
        "expected": _laplace(margin / float(program.constants.test_scale)),
        "score": float(near.sum() / groups**2),
        "inliers": float(weights[inside].mean()),
        "outliers": float(weights[~inside].mean()) if not inside.all() else 0.0,
    }


def removed(program: UserLevelPhasedSGD, data: Array, rng: np.random.Generator) -> list[float]:
    """How many groups every phase that passed weighed less than fully, in one run."""
    sampler = Sampler(program.declaration(USERS), USERS, Records(data), rng=rng)
    program.run(sampler)
    point, first, found = program.problem.start(1), 0, []
    for phase, event in zip(program.phases, sampler.transcript, strict=False):
        points = program.query(phase, point).points(data[first : first + phase.users])
        (far,) = counts_within(points, phase.radius, (2.0,))
        found.append(float((inlier_probabilities(far) < 1).sum()))
        point = program.problem.project(point + event.released)
        first += phase.users
        if np.isnan(point).any():
            break
    return found


def _laplace(margin: float) -> float:
    """P(Lap(1) < margin)."""
    return 0.5 * math.exp(margin) if margin < 0 else 1 - 0.5 * math.exp(-margin)


def read(results: Results) -> Findings:
    """Halting against its exact probability, removal, and i.i.d. users."""
    shares = results.where(kind="share").rows
    runs, sets = results.one(kind="runs"), results.one(kind="sets")
    trials = runs.cell.count("trials")
    chance = HALT * runs.number("phases")
    checks = (
        Check("i.i.d. users: runs that halted", runs.number("halted"),
              upper=_quantile(trials, chance), source="acceptance 3"),
        Check("i.i.d. users: phases without any group removed", sets.number("whole"), 0.99, 1.0,
              source="acceptance 3"),
        *(_halting(r) for r in shares),
        *(_removal(r) for r in shares if 0 < r.cell.number("share") <= 0.03),
        *(Check(f"{r.cell.number('share'):.0%} of the groups of another kind: runs that go on",
                1 - _rate(r), upper=0.0, source="acceptance 4")
          for r in shares if r.cell.number("share") >= 0.2),
    )  # fmt: skip
    columns = ("share", "score over C", "halted", "exact", "mean weight inside", "outside")
    rows = tuple(
        (r.cell.number("share"), r.number("score"), _rate(r), r.number("expected"),
         r.number("inliers"), r.number("outliers"))
        for r in shares
    )  # fmt: skip
    table = Table("First phase, by the share of groups of another kind", columns, rows)
    x = tuple(r.cell.number("share") for r in shares)
    panel = Panel(
        "Runs that halt in the first phase",
        "share of groups of another kind",
        "share of runs",
        (
            Series("measured", x, tuple(map(_rate, shares)), style=""),
            Series("exact", x, tuple(r.number("expected") for r in shares), marker=""),
        ),
        "linear",
    )
    note = (
        f"i.i.d. users: {int(runs.number('halted'))} of {trials} runs of "
        f"{int(runs.number('phases'))} phases halted, where {trials * chance:.1f} are allowed for; "
        "that epsilon is not exceeded on users who are not i.i.d. is what the audits measure"
    )
    return Findings((table,), checks, (panel,), (note,))


def _rate(result: Result) -> float:
    return result.number("halted") / result.cell.count("trials")


def _quantile(trials: int, chance: float) -> float:
    """The 99.9% quantile of a count."""
    from scipy.stats import binom

    return float(binom.ppf(SURE, trials, chance))


def _halting(result: Result) -> Check:
    """Within the 99.9% range of a count of its exact probability, either side."""
    trials, chance = result.cell.count("trials"), result.number("expected")
    low, high = trials - _quantile(trials, 1 - chance), _quantile(trials, chance)
    name = f"{result.cell.number('share'):.0%} of the groups of another kind: runs that halted"
    return Check(name, result.number("halted"), low, high, source="acceptance 4")


def _removal(result: Result) -> Check:
    name = f"{result.cell.number('share'):.0%} of the groups of another kind: their mean weight"
    return Check(name, result.number("outliers"), upper=0.0, source="acceptance 4")


user_level_outliers = Experiment(
    name="user_level_outliers",
    title="Algorithm 1: halting and removal, on i.i.d. users and on groups of another kind",
    source=f"{problem.PAPER}, Algorithm 1, lines 9 to 18, calibrated constants",
    cells=cells,
    run=run,
    read=read,
    alone=("",),
)
