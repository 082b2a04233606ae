"""Bugs planted in every program of the catalogue: how many would ``certify`` still certify?

``python -m benchmarks.mutation run`` plants some of each mechanism's mutants, drawn by a seed from
all operators in turn, and keeps what it has in docs/mutation/certify.json; it resumes there.
``page`` writes docs/mutation.md from that file and from docs/mutation/tests.json.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from dpaudit.mutate import report
from dpaudit.mutate.run import Order, run
from dpaudit.storage.files import write_atomically

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "mutation"
RESULTS, TESTS, PAGE = FOLDER / "certify.json", FOLDER / "tests.json", ROOT / "docs" / "mutation.md"


def names() -> list[str]:
    """Every mechanism of the catalogue."""
    from dpaudit.project.project import foreign_catalogue

    return [row.name for row in foreign_catalogue(ROOT) if not row.error]


def measure(limit: int, seed: int, jobs: int, minutes: float) -> None:
    """Run what has not been run yet, in an order drawn by the seed."""
    known = json.loads(RESULTS.read_text("utf-8")) if RESULTS.exists() else {"targets": {}}
    found: dict[str, Any] = {"seed": seed, "limit": limit, "targets": known["targets"]}
    stop = time.monotonic() + 60 * minutes
    todo = names()
    todo = [todo[i] for i in np.random.default_rng(seed).permutation(len(todo))]
    for name in todo:
        if name in found["targets"] or time.monotonic() > stop:
            continue
        ran = run(Order(name, ROOT, seed=seed, limit=limit), jobs=jobs)
        found["targets"][name] = {
            "right_program": ran.right,
            "found_without_any": ran.faults,
            "planted": ran.planted,
            "mutants": [asdict(r) for r in ran.results],
        }
        found["targets"] = dict(sorted(found["targets"].items()))
        text = json.dumps(found, indent=1, ensure_ascii=False) + "\n"
        write_atomically(RESULTS, text.encode())
        print("\n".join(report.lines(ran)), flush=True)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("verb", choices=("run", "page"))
    parser.add_argument("--limit", type=int, default=3, help="mutants a mechanism")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=600)
    asked = parser.parse_args()
    FOLDER.mkdir(parents=True, exist_ok=True)
    if asked.verb == "run":
        measure(asked.limit, asked.seed, asked.jobs, asked.minutes)


if __name__ == "__main__":
    main()
