"""A round of DIFF2-GD with ghost clipping, and with a gradient per record: time and memory.

16,000 records, a softplus network of 101 parameters, one trial: the setting of the paper's
experiments.  Both compute the same clipped means; they run in turn, so that a machine that slows
down slows both.  DIFF2 uses ghost clipping wherever a loss offers factors.
"""

from __future__ import annotations

import json
import sys
import time
import tracemalloc
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpaudit.curator.curator import Sampler
from dpaudit.kernels.query import Array, Records
from dpaudit.scope import central
from mechanisms.papers.common.losses import SoftplusNetwork
from mechanisms.papers.diff2.framework import Diff2
from mechanisms.papers.diff2.noise import Noise

RECORDS, FEATURES, CLIENTS = 16_000, 8, 10
ROUNDS, REPEATS, WHOLE_RUN = 20, 5, 2_000
SCOPE = central("replace_one")
NETWORK = SoftplusNetwork(hidden=10)


@dataclass(frozen=True)
class Explicit:
    """The same network without factors, so that DIFF2 makes a gradient per record."""

    def dimension(self, features: int) -> int:
        return NETWORK.dimension(features)

    def initial(self, features: int, trials: int, seed: int) -> Array:
        return NETWORK.initial(features, trials, seed)

    def values(self, parameters: Any, records: Any) -> Array:
        return NETWORK.values(parameters, records)

    def gradients(self, parameters: Any, records: Any) -> Array:
        return NETWORK.gradients(parameters, records)


def program(loss: Any) -> Diff2:
    """Twenty rounds, a restart every ten, at the noise of the paper's experiments."""
    return Diff2(
        loss=loss,
        features=FEATURES,
        client_sizes=(RECORDS // CLIENTS,) * CLIENTS,
        rounds=ROUNDS,
        restart_every=10,
        gradient_radius=1.0,
        difference_radius=3.0,
        step_size=0.05,
        noise=Noise(0.0023, 0.0205),
    )


def run(loss: Any, records: Records) -> Array:
    """One run; the iterate it ends at."""
    made = program(loss)
    rng = np.random.default_rng(0)
    return np.asarray(made.run(Sampler(made.declaration(SCOPE), SCOPE, records, rng=rng)).last)


def seconds_a_round(loss: Any, records: Records) -> float:
    """Wall-clock seconds of a round, over one run."""
    start = time.perf_counter()
    run(loss, records)
    return (time.perf_counter() - start) / ROUNDS


def peak_megabytes(loss: Any, records: Records) -> float:
    """The most memory held above the records during a run."""
    tracemalloc.start()
    try:
        run(loss, records)
        return tracemalloc.get_traced_memory()[1] / 2**20
    finally:
        tracemalloc.stop()


def main() -> int:
    """Measure, print a table (or JSON with ``--json``)."""
    values = np.random.default_rng(0).uniform(-1, 1, (RECORDS, FEATURES + 1))
    records = Records(values)
    records.distinct()
    losses = {"ghost": NETWORK, "explicit": Explicit()}
    ends = [run(loss, records) for loss in losses.values()]
    rounds = [[seconds_a_round(loss, records) for loss in losses.values()] for _ in range(REPEATS)]
    times = dict(zip(losses, np.median(rounds, axis=0), strict=True))
    ratios = [explicit / ghost for ghost, explicit in rounds]
    row = {
        "setting": f"{RECORDS} records, {NETWORK.dimension(FEATURES)} parameters, one trial",
        **{f"{name}_ms_a_round": round(1000 * value, 2) for name, value in times.items()},
        **{f"{name}_peak_mb": round(peak_megabytes(v, records), 1) for name, v in losses.items()},
        "explicit_over_ghost": f"{np.median(ratios):.1f} ({min(ratios):.1f} to {max(ratios):.1f})",
        "faster": min(times, key=lambda name: float(times[name])),
        "used": "ghost",
        f"seconds_of_{WHOLE_RUN}_rounds": round(float(times["ghost"]) * WHOLE_RUN, 1),
        "largest_difference_of_ends": f"{np.abs(ends[0] - ends[1]).max():.1e}",
    }
    lines = [json.dumps(row)] if "--json" in sys.argv else [f"{k}: {v}" for k, v in row.items()]
    sys.stdout.write("\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
