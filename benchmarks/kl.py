"""Adaptive noisy gradient descent: trials a second, side by side and one after another.

Rounds and noise depend on what was released, so that trials stop apart: side by side they are
masked.  Both ways run the same program on the same curator, in turn, in one process.
"""

from __future__ import annotations

import json
import sys
import time

import numpy as np

from audits.kl import turned_round
from audits.kl_adaptive import pulled
from dpaudit.curator.curator import Sampler
from dpaudit.scope import central
from mechanisms.papers.kl.adaptive import AdaptiveNoisyGD
from mechanisms.papers.kl.entries import BETA, LOGISTIC, RHO, SMOOTHNESS

SCOPE = central("replace_one")
TOGETHER, APART, REPEATS = 2_000, 40, 5
PROGRAM = AdaptiveNoisyGD(pulled(LOGISTIC, 5, 0.015), RHO, BETA, SMOOTHNESS, "filter")
RECORDS = turned_round(PROGRAM.problem.size).first


def seconds(trials: int, seed: int) -> float:
    """Wall-clock seconds of one run of so many trials."""
    rng = np.random.default_rng(seed)
    curator = Sampler(PROGRAM.declaration(SCOPE), SCOPE, RECORDS, rng=rng, trials=trials)
    start = time.perf_counter()
    PROGRAM.run(curator)
    return time.perf_counter() - start


def main() -> int:
    """Measure, print a table (or JSON with ``--json``)."""
    seconds(1, 0)
    together, apart = [], []
    for k in range(REPEATS):
        together.append(TOGETHER / seconds(TOGETHER, k))
        apart.append(APART / sum(seconds(1, 1000 * k + j) for j in range(APART)))
    ratios = [a / b for a, b in zip(together, apart, strict=True)]
    row = {
        "setting": f"{len(RECORDS)} records, 5 parameters, filter of rho = {RHO}",
        "trials_a_second_side_by_side": round(float(np.median(together))),
        "trials_a_second_one_by_one": round(float(np.median(apart)), 1),
        "ratio": f"{np.median(ratios):.0f} ({min(ratios):.0f} to {max(ratios):.0f})",
    }
    lines = [json.dumps(row)] if "--json" in sys.argv else [f"{k}: {v}" for k, v in row.items()]
    sys.stdout.write("\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
