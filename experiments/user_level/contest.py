"""Algorithm 1 beside private baselines at user level, under one protocol.

The problem is that of ``user_level_risk``: epsilon = 8, delta = 1e-6, replacing a user.  User-level
DP-SGD clips the mean gradient of each user: of disjoint batches in one pass, or of all users in
every round.  Algorithm 1 has its calibrated constants; its threshold tau and its steps are
searched, as multiples of the printed ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from dpaudit.compare.search import Axis, Protocol
from dpaudit.kernels.query import Array, clip_rows
from dpaudit.measures.convert import gaussian_mu
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
from experiments.user_level import problem
from experiments.user_level.risk import BIAS, EPSILON

PROTOCOL = Protocol(budget=24, choosing=3, judging=12)
OURS = "Algorithm 1"
REFERENCES = (NOTHING, OPTIMUM)
BASELINES = (ONE_PASS, FULL_BATCH)
METHODS = (*REFERENCES, OURS, *BASELINES)
COUNT = 8192  # users
ITEMS = {Size.QUICK: (4,), Size.FULL: (16, 64)}
NO_WORSE = "ours, no worse; set before the run"


def cells(size: Size) -> list[Cell]:
    """Every method at every number of items a user."""
    users = 2048 if size is Size.QUICK else COUNT
    return [
        Cell.of(float(users * m), method=method, users=users, items=m)
        for m in ITEMS[size]
        for method in METHODS
    ]


def free(method: str) -> tuple[Axis, ...]:
    """A method's free parameters."""
    if method in REFERENCES:
        return ()
    if method == OURS:
        return (Axis("tau", 1.0), Axis("step", 1.0))
    return (Axis("clip", 1.0), Axis("step", 1.0), Axis("steps", 4, 1, whole=True))


def descend(
    users: Array, chosen: Mapping[str, float], rng: np.random.Generator, *, one_pass: bool
) -> Array:
    """User-level DP-SGD, or DP-GD on all users; the last iterate, (1, d).

    A release is the mean over b users of their clipped mean gradients, which moves by 2 clip / b
    where a user is replaced.  Its noise is that over mu of the budget for disjoint batches, and
    sqrt(T) times as much for T rounds on all users: (epsilon, delta)-DP by the Gaussian curve.
    """
    mu = float(gaussian_mu(EPSILON, problem.DELTA))
    steps, clip, means = int(chosen["steps"]), chosen["clip"], users.mean(axis=1)
    each = len(users) // steps if one_pass else len(users)
    spread = 2 * clip / each / mu * (1.0 if one_pass else math.sqrt(steps))
    x = np.zeros((1, problem.DIMENSION))
    for t in range(steps):
        rows = means[t * each : (t + 1) * each] if one_pass else means
        gradients = clip_rows((x - rows)[None], np.array([clip]))[0]
        noisy = gradients.mean(axis=0, keepdims=True) + rng.normal(0, spread, x.shape)
        x = clip_rows((x - chosen["step"] * noisy)[None], np.array([problem.RADIUS]))[0]
    return np.asarray(x)


def run(cell: Cell, rng: np.random.Generator) -> Values:
    """The search of a method, and its excess risk on the judging seeds."""
    method, users, items = cell.text("method"), cell.count("users"), cell.count("items")

    def algorithm_1(data: Array, chosen: Mapping[str, float], draws: np.random.Generator) -> Array:
        made = problem.algorithm_1(users, items, chosen["tau"] * chosen["step"], EPSILON)
        steps = tuple(replace(p, step=p.step * chosen["step"]) for p in made.phases)
        return problem.run(replace(made, phases=steps), data, draws).output

    makers: dict[str, Callable[[Array, Mapping[str, float], np.random.Generator], Array]] = {
        NOTHING: lambda data, chosen, draws: np.zeros((1, problem.DIMENSION)),
        OPTIMUM: lambda data, chosen, draws: data.mean(axis=(0, 1))[None],
        OURS: algorithm_1,
        ONE_PASS: lambda data, chosen, draws: descend(data, chosen, draws, one_pass=True),
        FULL_BATCH: lambda data, chosen, draws: descend(data, chosen, draws, one_pass=False),
    }

    def loss(chosen: Mapping[str, float], draws: np.random.Generator) -> float:
        data = problem.sample(users, items, draws, BIAS)
        return float(problem.excess(makers[method](data, chosen, draws), BIAS)[0])

    return tuned(PROTOCOL, free(method), loss, rng)


def read(results: Results) -> Findings:
    """Ratios of judged means, and who learns, at every number of items."""
    checks: list[Check] = []
    tables, learnt = [], []
    points: dict[str, list[tuple[float, float, float]]] = {}
    for items in (int(m) for m in results.parameters("items")):
        instance = results.where(items=items)
        checks += [
            beside(
                f"{other}, m = {items}: excess risk, {OURS} over {other}",
                PROTOCOL, instance, (OURS, other), NO_WORSE,
            )
            for other in BASELINES
        ]  # fmt: skip
        users = instance.rows[0].cell.count("users")
        title = f"n = {users:,} users of m = {items} items: excess risk on the judging seeds"
        tables.append(contest_table(title, instance))
        start = mean_and_error(instance.one(method=NOTHING).numbers("judged"))[0]
        for result in instance:
            method = result.cell.text("method")
            mean, error = mean_and_error(result.numbers("judged"))
            points.setdefault(method, []).append((float(items), mean, error))
            if method not in REFERENCES:
                learnt.append(Learnt(f"{method} searched, m = {items}", mean, start, error))
    series = tuple(
        Series(method, x, y, error=tuple(2 * e for e in errors))
        for method, found in points.items()
        for x, y, errors in [tuple(zip(*found, strict=True))]
    )
    tables.append(learning_table(learnt, "excess risk"))
    panel = Panel("epsilon = 8, 8,192 users", "items a user", "excess risk", series)
    notes = (
        protocol_note(PROTOCOL),
        "on this problem all users have one mean, so that few large batches suffice: it is easy "
        "for DP-SGD, and says nothing of worst cases; FKT20, AL24 and BS23 are not among the rows",
    )
    return Findings(tuple(tables), (*checks, *learning_checks(learnt)), (panel,), notes)


user_level_contest = Experiment(
    name="user_level_contest",
    title="Algorithm 1 beside private baselines at user level, every method searched alike",
    source=f"{problem.PAPER}, Theorem 2.1; user-level DP-SGD as folklore has it",
    cells=cells,
    run=run,
    read=read,
    protocol=PROTOCOL,
)
