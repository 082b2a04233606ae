"""Random declarations by the block (``make quality-trees``): resumable, progress on stderr.

``--kind trees``: sensible ones (:mod:`tests.support.trees`); ``--kind forged``: any that can be
written (:mod:`tests.support.wire_fuzz`).

Every finished block is a line of a log whose name is a digest of the code that was run: a run that
was stopped goes on where it was, and one after a change begins anew.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from tests.support import wire_fuzz
from tests.support.trees import judged

BLOCK = 500
FIRST_SEED = 10_000
TREES = 100_000
ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("exact", "grids", "pairs", "nodes", "families", "measures", "profiles", "accountant")
# By kind: the rooms beside these, and the tests' own modules, of which a log is.
KINDS = {
    "trees": ((), ("trees.py", "coarse.py")),
    "forged": (("check",), ("wire_fuzz.py", "wire_draws.py", "wire_oracle.py", "coarse.py")),
}


def code_digest(kind: str = "trees") -> str:
    """Digest of what is judged, and of what it is held against."""
    rooms, own = KINDS[kind]
    modules = [
        file for room in (*ROOMS, *rooms) for file in (ROOT / "dpaudit" / room).rglob("*.py")
    ]
    found = hashlib.sha256()
    for file in [*sorted(modules), *(ROOT / "tests" / "support" / name for name in own)]:
        found.update(f"{file.relative_to(ROOT)}\n".encode() + file.read_bytes())
    return found.hexdigest()[:12]


def run(seed: int) -> dict[str, Any]:
    """One block: its seed, how many trees, how many unanswered, violations and CPU seconds."""
    start = time.process_time()
    found = judged(seed, BLOCK)
    seconds = round(time.process_time() - start, 2)
    return {
        "seed": seed,
        "trees": BLOCK,
        "unanswered": found.count(None),
        "violations": [text for text in found if text],
        "seconds": seconds,
    }


def run_forged(seed: int) -> dict[str, Any]:
    """One block of forged declarations, of the same form, with what came of each."""
    start = time.process_time()
    found = wire_fuzz.block(range(seed * BLOCK, (seed + 1) * BLOCK))
    return {"seed": seed, **found, "seconds": round(time.process_time() - start, 2)}


def finished(log: Path) -> list[dict[str, Any]]:
    """The blocks of a log; a last line that was cut off does not count."""
    if not log.exists():
        return []
    lines = log.read_text().split("\n")[:-1]
    return [json.loads(line) for line in lines]


def remaining(log: Path, trees: int) -> list[int]:
    """Seeds of the blocks that the log does not hold."""
    done = {row["seed"] for row in finished(log)}
    seeds = range(FIRST_SEED, FIRST_SEED + -(-trees // BLOCK))
    return [seed for seed in seeds if seed not in done]


def blocks(seeds: list[int], jobs: int, kind: str = "trees") -> Iterator[dict[str, Any]]:
    """Results as they come."""
    one = run if kind == "trees" else run_forged
    if jobs == 1:
        yield from map(one, seeds)
        return
    with ProcessPoolExecutor(jobs) as pool:
        for future in as_completed([pool.submit(one, seed) for seed in seeds]):
            yield future.result()


def main(arguments: list[str] | None = None) -> int:
    """Run what is left; 1 where any bound was violated."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trees", type=int, default=int(os.environ.get("DPAUDIT_TREES", TREES)))
    parser.add_argument("--kind", choices=tuple(KINDS), default="trees")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--log", type=Path)
    asked = parser.parse_args(arguments)
    log = asked.log or ROOT / "build" / asked.kind / f"{code_digest(asked.kind)}.jsonl"
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text("".join(json.dumps(row) + "\n" for row in finished(log)))
    for row in blocks(remaining(log, asked.trees), asked.jobs, asked.kind):
        with log.open("a") as file:
            file.write(json.dumps(row) + "\n")
        show(finished(log), asked.trees)
    rows = finished(log)
    show(rows, asked.trees)
    if asked.kind == "forged":
        sys.stdout.write(wire_fuzz.summary(rows) + "\n")
    for row in rows:
        for text in row["violations"]:
            sys.stdout.write(f"seed {row['seed']}: {text}\n")
    return int(any(row["violations"] for row in rows))


def show(rows: list[dict[str, Any]], trees: int) -> None:
    """One line of progress."""
    done, bad = sum(row["trees"] for row in rows), sum(len(row["violations"]) for row in rows)
    each = 1e3 * sum(row["seconds"] for row in rows) / max(done, 1)
    sys.stderr.write(
        f"{done} of {trees} declarations, {bad} violations, {each:.0f} ms of CPU each\n"
    )
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
