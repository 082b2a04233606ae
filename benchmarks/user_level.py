"""Algorithm 1 of paper 1 at a million users, beside one pass of SGD without privacy.

Users of ten items in twenty dimensions, logistic loss, calibrated constants at epsilon = 1: the
private run takes at most one gradient an item, in C = 800 groups side by side.  Beside it, on the
same items, each read once, without privacy:

- compiled: a sequential pass, averaged, a step an item (scikit-learn's SGD in Cython; no
  projection).  This is the one to be held against: the fastest one-pass SGD at hand;
- interpreted: the same by this catalogue's code as one group, on the first items and scaled up;
- grouped: the groups' passes with plain means instead of test, removal, noise and curator;
- batches: a pass in NumPy with batches of C items, which takes C times fewer steps of the model.

Runs take turns; seconds are processor time of one core, so that a busy machine counts little.  A
first private run, which is not measured, has the memory mapped.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from fractions import Fraction

import numpy as np
from scipy.special import expit

from dpaudit.curator.curator import Sampler
from dpaudit.kernels.query import Array, Records
from mechanisms.papers.common.losses import Logistic
from mechanisms.papers.srgd.geometry import project_l2_ball
from mechanisms.papers.user_level.phased_sgd import UserLevelPhasedSGD, calibrated_phased_sgd
from mechanisms.papers.user_level.problem import USERS, Problem
from mechanisms.papers.user_level.sgd import one_pass_sgd

COUNT, ITEMS, DIMENSION, RADIUS = 1_000_000, 10, 20, 2.0
EPSILON, DELTA, STEP = 1, Fraction(1, 10**6), 0.1
REPEATS, SCALED = 3, 100


def users_of(count: int) -> Array:
    """Unit features and noisy signs, (count, items, d + 1)."""
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((count * ITEMS, DIMENSION + 1))
    rows[:, :DIMENSION] /= np.linalg.norm(rows[:, :DIMENSION], axis=1, keepdims=True)
    rows[:, DIMENSION] = rows[:, DIMENSION] < 3 * rows[:, 0]
    return rows.reshape(count, ITEMS, DIMENSION + 1)


def program(count: int) -> UserLevelPhasedSGD:
    """Four phases of 800 groups."""
    problem = Problem(Logistic(), count, ITEMS, DIMENSION, RADIUS, 1.0)
    return calibrated_phased_sgd(problem, EPSILON, DELTA, smoothness=0.25)


def seconds(run: Callable[[], object]) -> float:
    """Processor seconds of a call."""
    start = time.process_time()
    run()
    return time.process_time() - start


def private(made: UserLevelPhasedSGD, records: Records) -> Callable[[], object]:
    """A run on a curator of its own."""

    def run() -> object:
        rng = np.random.default_rng(1)
        return made.run(Sampler(made.declaration(USERS), USERS, records, rng=rng))

    return run


def compiled(features: Array, labels: Array) -> Callable[[], object]:
    """One averaged pass of scikit-learn's SGD, in order; it projects and clips nothing."""
    from sklearn.linear_model import SGDClassifier

    model = SGDClassifier(
        loss="log_loss", penalty=None, learning_rate="constant", eta0=STEP, average=True,
        shuffle=False, fit_intercept=False,
    )  # fmt: skip
    return lambda: model.partial_fit(features, labels, classes=[0.0, 1.0])


def interpreted(made: UserLevelPhasedSGD, users: Array) -> Callable[[], object]:
    """One averaged, projected pass over all items as one group."""
    problem = made.problem
    return lambda: one_pass_sgd(problem, problem.start(1), users, 1, STEP)


def grouped(made: UserLevelPhasedSGD, users: Array) -> Callable[[], object]:
    """The phases of the private run on an array, with means of all groups."""
    problem, groups = made.problem, made.constants.groups

    def run() -> Array:
        point, first = problem.start(1), 0
        for phase in made.phases:
            part = users[first : first + phase.users]
            moved = one_pass_sgd(problem, point, part, groups, phase.step).mean(axis=1)
            point, first = problem.project(point + moved), first + phase.users
        return point

    return run


def batches(features: Array, labels: Array, size: int) -> Callable[[], object]:
    """One averaged, projected pass in batches."""

    def run() -> Array:
        point, total = np.zeros((1, DIMENSION)), np.zeros((1, DIMENSION))
        for first in range(0, len(features) - size + 1, size):
            rows = features[first : first + size]
            pull = expit(rows @ point[0]) - labels[first : first + size]
            point = project_l2_ball(point - STEP / size * (pull @ rows), RADIUS)
            total += point
        return total

    return run


def measured(count: int) -> dict[str, list[float]]:
    """Seconds of every method, the runs taking turns."""
    records, made = Records(users_of(count)), program(count)
    features = np.ascontiguousarray(records.values[..., :-1].reshape(-1, DIMENSION))
    labels = np.ascontiguousarray(records.values[..., -1].reshape(-1))
    few = records.values[: max(1, count // SCALED)]
    ways = {
        "private": private(made, records),
        "compiled": compiled(features, labels),
        "batches": batches(features, labels, made.constants.groups),
        "grouped": grouped(made, records.values),
        "interpreted": interpreted(made, few),
    }
    ways["private"]()
    found: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(REPEATS):
        for name, way in ways.items():
            found[name].append(seconds(way) * (count / len(few) if name == "interpreted" else 1))
    return found


def report(count: int, found: dict[str, list[float]]) -> dict[str, str | int]:
    """Users a second by the medians, and ratios of times by turns."""
    made = program(count)
    row: dict[str, str | int] = {
        "setting": f"n = {count:,} users, m = {ITEMS}, d = {DIMENSION}, epsilon = {EPSILON}, "
        f"C = {made.constants.groups} groups, {len(made.phases)} phases",
        "gradients_over_n_m": f"{made.gradients / count / ITEMS:.3f}",
    }
    for name, times in found.items():
        row[f"{name}_users_a_second"] = round(count / float(np.median(times)))
    for name in ("compiled", "interpreted", "grouped", "batches"):
        ratios = np.divide(found["private"], found[name])
        low, middle, high = np.quantile(ratios, (0, 0.5, 1))
        row[f"time_over_{name}"] = f"{middle:.3g} ({low:.3g} to {high:.3g})"
    return row


def main() -> int:
    """Measure, print a table (or JSON with ``--json``); a number sets other than 10^6 users."""
    counts = [int(a) for a in sys.argv[1:] if a.isdigit()]
    count = counts[0] if counts else COUNT
    row = report(count, measured(count))
    lines = [json.dumps(row)] if "--json" in sys.argv else [f"{k}: {v}" for k, v in row.items()]
    sys.stdout.write("\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
