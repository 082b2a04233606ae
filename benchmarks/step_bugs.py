"""Which wrong optimiser steps the step check names, with their line, and whether right ones pass.

``python -m benchmarks.step_bugs [--seeds N] [NAME...]`` prints the table of docs/membership.md;
trainings whose library is missing are left out by name.
"""

from __future__ import annotations

import argparse
import tempfile
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from dpaudit.membership.data import Data
from dpaudit.membership.step.entry import audit_step
from tests.support.steps import BUGS, NOISE, RATE, data_of, library, written


def main() -> None:
    """Print a row for each bug, and the counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=list(BUGS))
    parser.add_argument("--seeds", type=int, default=1)
    given = parser.parse_args()
    named = by_line = flagged = twins = 0
    used: list[str] = []
    slowest = 0.0
    print("| step | fault | line | seconds | its right twin, flagged |")
    print("|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for name in given.names:
            planted = BUGS[name]
            needs = library(planted)
            if needs is not None and find_spec(needs) is None:
                print(f"| {name} | left out: no {needs} | | | |")
                continue
            used.append(name)
            wrong, lines = written(planted, Path(folder), right=False)
            found = audit_step(wrong, data_of(planted), noise_multiplier=NOISE, sampling_rate=RATE)
            right, _ = written(planted, Path(folder), right=True)
            alarms = 0
            for seed in range(given.seeds):
                twin = audit_step(
                    right, _shuffled(data_of(planted), seed), noise_multiplier=NOISE,
                    sampling_rate=RATE, seed=seed,
                )  # fmt: skip
                alarms += bool(twin.faults)
                slowest = max(slowest, twin.seconds)
                if twin.faults:
                    print(f"twin of {name}: {twin}")
            kinds = [fault.kind for fault in found.faults]
            hits = [fault for fault in found.faults if fault.kind in planted.kinds]
            at_line = [
                f for f in hits if f.line and f.line.start <= lines[-1] and f.line.end >= lines[0]
            ]
            named += bool(hits)
            by_line += bool(at_line)
            flagged += alarms
            twins += given.seeds
            slowest = max(slowest, found.seconds)
            where = "yes" if at_line else f"no: {[str(f.line) for f in found.faults]}"
            print(
                f"| {name} | {', '.join(kinds) or 'none'} | {where} | {found.seconds:.1f} "
                f"| {alarms} of {given.seeds} |",
                flush=True,
            )
    print(
        f"\nnamed {named} of {len(used)}, with the line {by_line} | twins flagged {flagged} of "
        f"{twins} | at most {slowest:.1f} s"
    )


def _shuffled(data: Data, seed: int) -> Data:
    return data.take(np.random.default_rng(seed).permutation(len(data)))


if __name__ == "__main__":
    main()
