"""Algorithms 1 and 3 beside private baselines at user level, under one protocol.

The problem is that of ``user_level_risk``: epsilon = 8, delta = 1e-6, replacing a user.  User-level
DP-SGD clips the mean gradient of each user: of disjoint batches in one pass, or of all users in
every round.  FKT20 has noise for all items of a user, AL24 removes outliers in full batches, BS23
cuts means to private ranges; the bodies of the three are reconstructions.  Algorithms 1 and 3
have calibrated constants.  Every threshold tau, step, phase and number of rounds that no printed
formula fixes is searched, tau as a multiple of the printed one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache, partial
from typing import Any

import numpy as np
from sympy import Symbol

from dpaudit.accountant.calibrate import calibrate
from dpaudit.compare.search import Axis, Protocol
from dpaudit.errors import InvalidParameter
from dpaudit.families.composition import Repeat
from dpaudit.families.opaque import ApproxDP, PureDP
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
from mechanisms.papers.user_level.baselines import (
    FullBatchOutlierRemovedDPSGD,
    UserLevelPhasedSGDBaseline,
)
from mechanisms.papers.user_level.batches import calibrate_batches, users_needed
from mechanisms.papers.user_level.constants import kappa
from mechanisms.papers.user_level.phased_erm import (
    UserLevelPhasedERM,
    calibrated_phased_erm,
    concentration_radius,
)
from mechanisms.papers.user_level.phased_sgd import UserLevelPhasedSGD
from mechanisms.papers.user_level.problem import USERS, Problem
from mechanisms.papers.user_level.winsorized import WinsorizedMeanDPSGD, rotation

PROTOCOL = Protocol(budget=24, choosing=3, judging=12)
OURS, ERM = "Algorithm 1", "Algorithm 3"
GROUP, FULL_REMOVED, WINSORIZED = "FKT20", "AL24", "BS23"
REFERENCES = (NOTHING, OPTIMUM)
PAPERS = (OURS, ERM)
BASELINES = (ONE_PASS, FULL_BATCH, GROUP, FULL_REMOVED, WINSORIZED)
FEW = (*REFERENCES, OURS, ONE_PASS, FULL_BATCH)
# Users, and who is compared on them: a round of Algorithm 3 and of AL24 takes n^2 distances.
INSTANCES = {2048: (*FEW, ERM, GROUP, FULL_REMOVED, WINSORIZED), 8192: (*FEW, GROUP)}
ITEMS: Mapping[Size, Mapping[int, tuple[int, ...]]] = {
    Size.QUICK: {2048: (4,)},
    Size.FULL: {2048: (16,), 8192: (16, 64)},
}
EVIDENCE = "items are cut to the unit ball, and points are projected: gradients have norm 2"
NO_WORSE = "ours, no worse; set before the run"


def cells(size: Size) -> list[Cell]:
    """Every method at every number of items a user; a corner has those of DP-SGD."""
    return [
        Cell.of(float(users * m * (1 + 9 * (users < 8192))), method=method, users=users, items=m)
        for users, items in ITEMS[size].items()
        for m in items
        for method in (FEW if size is Size.QUICK else INSTANCES[users])
    ]


def free(method: str) -> tuple[Axis, ...]:
    """A method's free parameters."""
    if method in REFERENCES:
        return ()
    tau, step, rounds = Axis("tau", 1.0), Axis("step", 1.0), Axis("rounds", 8, 1, whole=True)
    found = {
        OURS: (tau, step),
        ERM: (tau, rounds),
        GROUP: (step, Axis("phases", 2, 1, whole=True), Axis("groups", 64, 1, whole=True)),
        FULL_REMOVED: (tau, step, rounds),
        WINSORIZED: (tau, step, rounds),
    }
    return found.get(method, (Axis("clip", 1.0), step, Axis("steps", 4, 1, whole=True)))


def algorithm_1(users: int, items: int, chosen: Mapping[str, float]) -> UserLevelPhasedSGD:
    """With calibrated constants."""
    made = problem.algorithm_1(users, items, chosen["tau"] * chosen["step"], EPSILON)
    steps = tuple(replace(p, step=p.step * chosen["step"]) for p in made.phases)
    return replace(made, phases=steps)


def algorithm_3(users: int, items: int, chosen: Mapping[str, float]) -> UserLevelPhasedERM:
    """With calibrated constants, on all users of a phase, its rounds capped at those chosen."""
    on, most = problem.problem(users, items), int(chosen["rounds"])
    budget = (EPSILON, problem.DELTA, problem.SMOOTHNESS)
    heuristic = calibrated_phased_erm(on, *budget, most_rounds=most).radius
    return calibrated_phased_erm(on, *budget, chosen["tau"] * heuristic, most_rounds=most)


def group_private(
    users: int, items: int, chosen: Mapping[str, float]
) -> UserLevelPhasedSGDBaseline:
    """FKT20: phases of one pass, each with noise for all items of a user."""
    loss = problem.BoundedDistance(problem.DIMENSION, problem.RADIUS)
    on = Problem(loss, users, items, problem.DIMENSION, problem.RADIUS, problem.LIPSCHITZ)
    noise, phases = kappa(Fraction(EPSILON), problem.DELTA), int(chosen["phases"])
    return UserLevelPhasedSGDBaseline(
        on, noise, phases, chosen["step"], problem.SMOOTHNESS, EVIDENCE, int(chosen["groups"])
    )


def outliers_removed(
    users: int, items: int, chosen: Mapping[str, float]
) -> FullBatchOutlierRemovedDPSGD:
    """AL24, in every phase that the users suffice for.

    Errors: InvalidParameter where they suffice for none.
    """
    on, rounds = problem.problem(users, items), int(chosen["rounds"])
    needed = users_needed(EPSILON, problem.DELTA, rounds)
    sizes = [users >> i for i in range(1, int(math.log2(users)))]
    enough = [size for size in sizes if size - size % 2 >= needed]
    if not enough:
        raise InvalidParameter(f"{users} users are too few for {rounds} rounds")
    constants = tuple(calibrate_batches(EPSILON, problem.DELTA, size, rounds) for size in enough)
    tau = chosen["tau"] * concentration_radius(on, rounds * len(enough))
    return FullBatchOutlierRemovedDPSGD(on, constants, tau, chosen["step"])


def winsorized(users: int, items: int, chosen: Mapping[str, float]) -> WinsorizedMeanDPSGD:
    """BS23 on all users in every round; tau' as a multiple of 4 standard deviations of a mean."""
    on, rounds = problem.problem(users, items), int(chosen["rounds"])
    each = pure_share(2 * len(rotation(problem.DIMENSION)) * rounds)
    tau = chosen["tau"] * 4 / math.sqrt(items * problem.DIMENSION)
    return WinsorizedMeanDPSGD(on, users, rounds, each, tau, chosen["step"])


@lru_cache(maxsize=64)
def pure_share(releases: int) -> Fraction:
    """The largest e, to six digits, at which so many e-DP releases have the budget together."""
    declared = Repeat(PureDP(Symbol("e", positive=True)), releases)
    budget = ApproxDP(EPSILON, problem.DELTA)
    return calibrate(declared, USERS, budget, bracket=(Fraction(1, 10**5), EPSILON)).value


PROGRAMS: dict[str, Callable[[int, int, Mapping[str, float]], Any]] = {
    OURS: algorithm_1,
    ERM: algorithm_3,
    GROUP: group_private,
    FULL_REMOVED: outliers_removed,
    WINSORIZED: winsorized,
}


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

    makers: dict[str, Callable[[Array, Mapping[str, float], np.random.Generator], Array]] = {
        NOTHING: lambda data, chosen, draws: np.zeros((1, problem.DIMENSION)),
        OPTIMUM: lambda data, chosen, draws: data.mean(axis=(0, 1))[None],
        ONE_PASS: partial(descend, one_pass=True),
        FULL_BATCH: partial(descend, one_pass=False),
    }

    def point(data: Array, chosen: Mapping[str, float], draws: np.random.Generator) -> Array:
        if method in makers:
            return makers[method](data, chosen, draws)
        return problem.run(PROGRAMS[method](users, items, chosen), data, draws).output

    def loss(chosen: Mapping[str, float], draws: np.random.Generator) -> float:
        data = problem.sample(users, items, draws, BIAS)
        return float(problem.excess(point(data, chosen, draws), BIAS)[0])

    return tuned(PROTOCOL, free(method), loss, rng)


def read(results: Results) -> Findings:
    """Ratios of judged means, and who learns, at every number of users and items."""
    checks: list[Check] = []
    tables, learnt = [], []
    points: dict[str, list[tuple[float, float, float]]] = {}
    for users, items in dict.fromkeys(
        (r.cell.count("users"), r.cell.count("items")) for r in results
    ):
        instance = results.where(users=users, items=items)
        have = set(map(str, instance.parameters("method")))
        checks += [
            beside(
                f"{ours} over {other}, n = {users:,}, m = {items}: excess risk",
                PROTOCOL, instance, (ours, other), NO_WORSE,
            )
            for ours in PAPERS
            for other in BASELINES
            if {ours, other} <= have
        ]  # fmt: skip
        title = f"n = {users:,} users of m = {items} items: excess risk on the judging seeds"
        tables.append(contest_table(title, instance))
        start = mean_and_error(instance.one(method=NOTHING).numbers("judged"))[0]
        for result in instance:
            method = result.cell.text("method")
            mean, error = mean_and_error(result.numbers("judged"))
            points.setdefault(method, []).append((float(users * items), mean, error))
            if method not in REFERENCES:
                name = f"{method} searched, n = {users:,}, m = {items}"
                learnt.append(Learnt(name, mean, start, error))
    series = tuple(
        Series(method, x, y, error=tuple(2 * e for e in errors))
        for method, found in points.items()
        for x, y, errors in [tuple(zip(*found, strict=True))]
    )
    tables.append(learning_table(learnt, "excess risk"))
    panel = Panel("epsilon = 8", "items of all users", "excess risk", series)
    notes = (
        protocol_note(PROTOCOL),
        "on this problem all users have one mean, so that few large batches suffice: it is easy "
        "for DP-SGD, and says nothing of worst cases",
        "FKT20, AL24 and BS23 are only cited: their bodies are reconstructions",
        "a round of Algorithm 3 and of AL24 takes the distances of all pairs of users: both stand "
        "at 2,048 users alone, and so does BS23",
    )
    return Findings(tuple(tables), (*checks, *learning_checks(learnt)), (panel,), notes)


user_level_contest = Experiment(
    name="user_level_contest",
    title="Algorithms 1 and 3 beside private baselines at user level, every method searched alike",
    source=f"{problem.PAPER}, Theorems 2.1 and 3.2; user-level DP-SGD as folklore has it",
    cells=cells,
    run=run,
    read=read,
    protocol=PROTOCOL,
)
