"""Which wrong optimiser steps the step check names, with their line, and whether right ones pass.

``make evidence ARGS="steps"`` keeps a row for each of ``tests.support.steps.BUGS``, measured in an
environment with PyTorch, Opacus, JAX, optax and Keras by ``python -m benchmarks.step_bugs NAME``.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from dpaudit.membership.data import Data
from dpaudit.membership.step.entry import audit_step
from tests.support.steps import BUGS, NOISE, RATE, data_of, written

SEEDS = 5
ROOT = Path(__file__).resolve().parent.parent


def measured(name: str) -> dict[str, Any]:
    """Faults that are named, whether one is at the planted line, and alarms on the right twin."""
    planted = BUGS[name]
    given: dict[str, Any] = {"noise_multiplier": NOISE, "sampling_rate": RATE}
    with tempfile.TemporaryDirectory() as folder:
        wrong, lines = written(planted, Path(folder), right=False)
        started = time.process_time()
        found = audit_step(wrong, data_of(planted), **given)
        seconds = time.process_time() - started
        right, _ = written(planted, Path(folder), right=True)
        twins = [
            audit_step(right, _shuffled(data_of(planted), seed), seed=seed, **given)
            for seed in range(SEEDS)
        ]
    at_line = [
        fault.line is not None and fault.line.start <= lines[-1] and fault.line.end >= lines[0]
        for fault in found.faults
        if fault.kind in planted.kinds
    ]
    return {
        "kinds": [fault.kind for fault in found.faults],
        "named": bool(at_line),
        "line": any(at_line),
        "seconds": round(seconds, 1),
        "alarms": sum(bool(twin.faults) for twin in twins),
        "twins": SEEDS,
    }


def measured_by(python: str, name: str) -> Any:
    """:func:`measured` in another interpreter; the last line that it says where it fails."""
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [python, "-W", "ignore", "-m", "benchmarks.step_bugs", name],
        capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path}, cwd=ROOT,
    )  # fmt: skip
    if done.returncode:
        return done.stderr.strip().splitlines()[-1]
    return json.loads(done.stdout.splitlines()[-1])


def lines(results: Mapping[str, dict[str, Any]]) -> list[str]:
    """The table of bugs and twins, and its counts."""
    rows = list(results.values())
    table = [
        "Wrong optimiser steps, each a right one in which lines were replaced "
        "(`tests/support/steps.py`), and `dpaudit audit --step` with its defaults. The first 20 "
        "were known when the check was written. The nine with JAX, Keras and scikit-learn were all "
        "reported when first tried, seven as what they are and three with their line; then words "
        "of comments were left out of the search for lines, and a clipped mean was told from a "
        "division by the number of records by larger probes. Of the nine in which a record's share "
        "or the noise depends on the batch's other records three were named when first tried; then "
        "batches that grow record by record were added. Seconds are those of a processor.",
        "",
        "| step | fault | line | seconds | its right twin, flagged |",
        "|---|---|---|---|---|",
    ]
    for name, row in results.items():
        table.append(
            f"| {name} | {', '.join(row['kinds']) or 'none'} | {'yes' if row['line'] else 'no'} "
            f"| {row['seconds']:.1f} | {row['alarms']} of {row['twins']} |"
        )
    flagged, twins = (sum(row[key] for row in rows) for key in ("alarms", "twins"))
    return [
        *table,
        "",
        f"{sum(row['named'] for row in rows)} of {len(rows)} bugs are named, "
        f"{sum(row['line'] for row in rows)} with their line; {flagged} of {twins} right twins are "
        "flagged.",
    ]


def _shuffled(data: Data, seed: int) -> Data:
    return data.take(np.random.default_rng(seed).permutation(len(data)))


def main() -> None:
    """Print what was measured of one bug."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=list(BUGS))
    print(json.dumps(measured(parser.parse_args().name)))


if __name__ == "__main__":
    main()
