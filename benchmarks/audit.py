"""Trials per second of the DIFF2-GD audit, vectorised over trials, against loops over trials.

The first loop is plain NumPy, written for this attack alone, without declaration, checks or
residuals; the second runs the same sampler and replayer one trial at a time.  All run in one
process, in turn, so that a machine that slows down slows all.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable

import numpy as np

from audits.broken.diff2 import diff2_gd_bench, twin
from dpaudit.audit.attack import ReplayTask
from dpaudit.audit.attacked import TEST
from dpaudit.audit.engine import Batch

VECTORISED_TRIALS = 2_000
LOOP_TRIALS = 40
PLAIN_TRIALS = 400
ROUNDS = 5


def rate(run: Callable[[], int]) -> float:
    """Trials per second of one timed run."""
    start = time.perf_counter()
    trials = run()
    return trials / (time.perf_counter() - start)


def spread(ratios: list[float]) -> str:
    """Median and range."""
    return f"{np.median(ratios):.1f} ({min(ratios):.1f} to {max(ratios):.1f})"


def plain_trial(sign: float, rng: np.random.Generator) -> float:
    """One trial of the attack by hand: DIFF2-GD on the canary, and its log-likelihood ratio."""
    program, weight = twin.program, 1 / 40
    sigmas = float(program.noise.sigma_1), float(program.noise.sigma_2)
    x = previous = estimate = np.zeros(5)
    score = 0.0
    for r in range(program.rounds):
        restart = r % program.restart_every == 0
        canary = 1000.0 * np.eye(5)[0] + x if restart else x - previous
        radius = 1.0 if restart else np.linalg.norm(x - previous)
        size = np.linalg.norm(canary)
        mean = weight * canary * min(1.0, radius / size) if size > 0 else np.zeros(5)
        scale = sigmas[0 if restart else 1] * radius
        released = sign * mean + scale * rng.standard_normal(5)
        score += 2 * released @ mean / scale**2
        estimate = released if restart else estimate + released
        previous, x = x, x - program.step_size * estimate
    return float(score)


def main() -> int:
    """Measure, print a table (or JSON with ``--json``)."""
    task = ReplayTask(
        twin.program, diff2_gd_bench.declaration, diff2_gd_bench.scope, twin.neighbours.pair
    )

    def attack(trials: int, seed: int) -> int:
        task(Batch((0, seed % 2, TEST, seed), trials), np.random.default_rng(seed))
        return trials

    def vectorised() -> int:
        return attack(VECTORISED_TRIALS, 0) + attack(VECTORISED_TRIALS, 1)

    def loop() -> int:
        return sum(attack(1, seed) for seed in range(LOOP_TRIALS))

    def plain() -> int:
        rng = np.random.default_rng(0)
        scores = [plain_trial(1.0 if i % 2 else -1.0, rng) for i in range(PLAIN_TRIALS)]
        return len(scores)

    arms = (vectorised, plain, loop)
    rounds = [[rate(arm) for arm in arms] for _ in range(ROUNDS + 1)][1:]
    fast, bare, slow = (float(np.median([row[i] for row in rounds])) for i in range(3))
    ratios = {name: [row[0] / row[i] for row in rounds] for name, i in (("plain", 1), ("same", 2))}
    row = {
        "setting": "DIFF2-GD, 2 x 20 records, 20 rounds, 5 parameters; sample, replay twice, score",
        "vectorised_trials_per_second": round(fast),
        "plain_loop_trials_per_second": round(bare),
        "same_code_loop_trials_per_second": round(slow),
        **{f"ratio_to_{k}_loop": spread(v) for k, v in ratios.items()},
        "seconds_for_20000_trials_a_side": round(40_000 / fast, 2),
    }
    lines = [json.dumps(row)] if "--json" in sys.argv else [f"{k}: {v}" for k, v in row.items()]
    sys.stdout.write("\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
