"""Programs of papers 1, 3 and 4 at a million rows, beside plain NumPy loops of the same steps.

Ten features, logistic loss.  A loop has the same batches, gradients, clips, steps and noise, and
no curator: no declaration, no account, no filter, no check of a row.  For Algorithm 1 of paper 1
the loop takes the phases' passes with plain means, without test or removal of outliers.

Runs take turns; seconds are processor time of one core, the least of the repeats.  Memory is the
most that a run holds above its records.
"""

from __future__ import annotations

import json
import sys
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit

from dpaudit.curator.curator import Sampler
from dpaudit.curator.mechanism import Mechanism
from dpaudit.kernels.query import Array, Records
from mechanisms.papers.diff2.catalogue import diff2_gd_tight
from mechanisms.papers.srgd.catalogue import accelerated_dp_srgd
from mechanisms.papers.user_level.catalogue import user_level_phased_sgd

ROWS, FEATURES, ITEMS = 1_000_000, 10, 5
ROUNDS, RESTART, REPEATS = 20, 10, 3
NORM = np.sqrt(FEATURES)


def clipped(rows: Array, length: float) -> Array:
    """Rows scaled down to that norm at most."""
    norms = np.sqrt(np.einsum("nd,nd->n", rows, rows))
    return rows * np.minimum(1.0, length / np.maximum(norms, 1e-300))[:, None]


def gradients(model: Array, rows: Array) -> Array:
    """The gradients of the logistic loss at each row, shape (n, d)."""
    return (expit(rows[:, :-1] @ model) - rows[:, -1])[:, None] * rows[:, :-1]


def projected(model: Array, radius: float) -> Array:
    """The nearest point of the ball."""
    return model * min(1.0, radius / max(float(np.linalg.norm(model)), 1e-300))


def diff2(program: Any, rows: Array, rng: np.random.Generator) -> Array:
    """DIFF2-GD of one client: clipped means of gradients, or of their differences."""
    model = before = np.zeros(FEATURES)
    estimate = model
    for t in range(ROUNDS):
        if t % RESTART == 0:
            found = clipped(gradients(model, rows), program.gradient_radius)
            estimate = found.mean(axis=0) + rng.normal(0, 1e-3, FEATURES)
        else:
            reach = program.difference_radius * float(np.linalg.norm(model - before))
            found = clipped(gradients(model, rows) - gradients(before, rows), reach)
            estimate = estimate + found.mean(axis=0) + rng.normal(0, 1e-3, FEATURES)
        before, model = model, model - program.step_size * estimate
    return model


def srgd(program: Any, rows: Array, rng: np.random.Generator) -> Array:
    """Accelerated-DP-SRGD: rows scaled, weighted differences clipped; independent noise."""
    rounds, beta = program.gradient.rounds, float(program.gradient.beta)
    clip = float(program.gradient.rows.largest)
    x = previous = y = z = total = np.zeros(FEATURES)
    size = len(rows) // rounds
    for t in range(rounds):
        batch = rows[t * size : (t + 1) * size]
        batch = np.column_stack([clipped(batch[:, :-1], NORM), batch[:, -1]])
        found = (t + 1) * gradients(x, batch)
        if t:
            found -= t * gradients(previous, batch)
        total = total + clipped(found, clip).mean(axis=0) / beta + rng.normal(0, 1e-3, FEATURES)
        z = projected(z - total, program.radius)
        y, previous = projected(x - total / (t + 1), program.radius), x
        x = (t + 2) / (t + 4) * y + 2 / (t + 4) * z
    return np.asarray(y)


def phased(program: Any, rows: Array, rng: np.random.Generator) -> Array:
    """Algorithm 1: all groups of a phase step side by side, an item of each at a time."""
    point, first = np.zeros(FEATURES), 0
    for phase in program.phases:
        groups = program.constants.groups
        each = phase.users // groups * ITEMS
        part = rows[first * ITEMS : first * ITEMS + groups * each].reshape(groups, each, -1)
        here, total = np.tile(point, (groups, 1)), np.zeros((groups, FEATURES))
        for t in range(each):
            items = part[:, t]
            x = clipped(items[:, :-1], NORM)
            pull = expit(np.einsum("gd,gd->g", here, x)) - items[:, -1]
            here = clipped(here - phase.step * pull[:, None] * x, program.problem.radius)
            total += here
        point, first = (
            (total / each).mean(axis=0) + rng.normal(0, 1e-3, FEATURES),
            first + phase.users,
        )
    return point


@dataclass(frozen=True)
class Case:
    """A program with free parameters, and its loop."""

    mechanism: Mechanism
    loop: Callable[[Any, Array, np.random.Generator], Array]
    values: dict[str, Any]


CASES = (
    Case(diff2_gd_tight, diff2, {"rounds": ROUNDS, "restart_every": RESTART, "clients": 1}),
    Case(accelerated_dp_srgd, srgd, {}),
    Case(user_level_phased_sgd, phased, {}),
)


def measured(case: Case, rows: Array) -> dict[str, Any]:
    """Seconds and memory of the program and of its loop."""
    by_user = case.loop is phased
    records = Records(rows.reshape(-1, ITEMS, FEATURES + 1) if by_user else rows)
    hook: Any = case.mechanism.for_shape
    made: Mechanism = hook(len(records), tuple(records.values.shape[1:]), **case.values)

    def private() -> None:
        # Records of their own, so that every run looks for equal rows.
        own = records.rows(0, len(records))
        rng = np.random.default_rng(1)
        made.program.run(Sampler(made.declaration, made.scope, own, rng=rng))

    def loop() -> None:
        case.loop(made.program, rows, np.random.default_rng(1))

    private()
    seconds: dict[str, list[float]] = {"program": [], "loop": []}
    for _ in range(REPEATS):
        for name, run in (("program", private), ("loop", loop)):
            start = time.process_time()
            run()
            seconds[name].append(time.process_time() - start)
    tracemalloc.start()
    private()
    peak = tracemalloc.get_traced_memory()[1] / 2**20
    tracemalloc.stop()
    least = {name: min(found) for name, found in seconds.items()}
    return {
        "program": case.mechanism.name,
        "rows": len(rows),
        **{f"seconds_of_{name}": round(value, 2) for name, value in least.items()},
        "times_the_loop": round(least["program"] / least["loop"], 2),
        "megabytes_above_records": round(peak),
    }


def main() -> int:
    """Measure, print a line a program (or JSON with ``--json``)."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (ROWS, FEATURES))
    rows = np.column_stack([x, rng.random(ROWS) < expit(3 * x[:, 0])])
    for case in CASES:
        row = measured(case, rows)
        text = json.dumps(row) if "--json" in sys.argv else str(row)
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
