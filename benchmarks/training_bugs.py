"""Which wrong trainings the default audit refutes, and whether it leaves their right twins alone.

``python -m benchmarks.training_bugs [--seeds N] [--options "..."] [NAME...]`` runs ``dpaudit audit
MODULE:fit --data FILE --claim 2.76,1e-5`` on each of ``tests.support.trainings.BUGS`` and its twin
and prints verdicts, bounds and CPU seconds.  ``make evidence ARGS="trainings"`` keeps five seeds of
each, and writes their table.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tests.support import further_trainings, more_trainings, trainings, unseen_trainings
from tests.support.trainings import DELTA, EPSILON, RECORDS

MODULES = (trainings, more_trainings, further_trainings, unseen_trainings)
BUGS = {name: bug for module in MODULES for name, bug in module.BUGS.items()}
SIDES = ("bug", "twin")
SEEDS = 5
ROOT = Path(__file__).resolve().parent.parent
SOURCE = """
from {module} import BUGS, score

def fit(records, rng):
    return BUGS[{name!r}][{side}](records, rng)
"""


class Row(NamedTuple):
    """One run of the command."""

    verdict: str
    bound: str
    seconds: float
    canaries: str


def source_of(name: str) -> Any:
    """The module of a bug."""
    return next(module for module in MODULES if name in module.BUGS)


def run(name: str, side: int, seed: int, options: list[str], folder: Path) -> Row:
    """The command on one training, in a process of its own."""
    module = f"trained_{list(BUGS).index(name)}_{side}"
    source = SOURCE.format(module=source_of(name).__name__, name=name, side=side)
    (folder / f"{module}.py").write_text(source)
    data = source_of(name).records(name)
    np.savez(folder / f"{module}.npz", features=data.features, labels=np.asarray(data.labels))
    command = [sys.executable, "-m", "dpaudit", "audit", f"{module}:fit"]
    command += ["--data", f"{module}.npz", "--claim", f"{EPSILON},{DELTA}", "--seed", str(seed)]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [*command, "--json", *options],
        cwd=folder, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    if not done.stdout:
        return Row(f"exit {done.returncode}: {done.stderr.strip()[-200:]}", "", seconds, "")
    found: Any = json.loads(done.stdout)
    shown = [row for row in found["lower_bounds"] if row["attack"] == found["best"]]
    bound = f"{shown[0]['value']} by {found['best']}" if shown else found["verdict"]["reason"]
    said = [
        row["words"].partition(",")[0] for row in found["findings"] if row["name"] == "canaries"
    ]
    canaries = f"{found['study']['models']} models, {said[0]}" if said else ""
    return Row(found["verdict"]["status"], bound, seconds, canaries)


def twins(module: Any) -> dict[str, str]:
    """Each bug of a module, and the first with the same right twin and the same records."""
    firsts: dict[tuple[str, str], str] = {}
    return {
        name: firsts.setdefault((repr(right), module.records(name).digest()), name)
        for name, (_, right) in module.BUGS.items()
    }


def parts(module: Any) -> list[str]:
    """The runs that the evidence holds of a module: each bug, and each twin once."""
    firsts = dict.fromkeys(twins(module).values())
    return [f"{name}, bug" for name in module.BUGS] + [f"{name}, twin" for name in firsts]


def measured(part: str) -> list[list[Any]]:
    """Verdict, bound and CPU seconds of the command with its defaults, for each seed."""
    name, _, side = part.rpartition(", ")
    seeds = range(1, SEEDS + 1)
    with tempfile.TemporaryDirectory() as folder:
        rows = [run(name, SIDES.index(side), seed, [], Path(folder)) for seed in seeds]
    return [[row.verdict, row.bound, round(row.seconds, 1)] for row in rows]


# How the bugs of each module came about, and why some hide; what was found is in the table alone.
WORDS = {
    trainings: (
        "The kinds of canaries were chosen with these bugs in view, so other bugs may be found "
        "less often. Batches of a shuffled order hide behind the noise of a single final model; "
        "the [check of one step](training.md#check-one-step) names them."
    ),
    more_trainings: (
        "These bugs were written before the audit was run on any of them. Canaries that are far in "
        "every column, records that follow or oppose canaries, and single canaries in thousands of "
        "models were added for those that were missed then. The sums of the first are hidden by "
        "noise for two releases, so that what its second moments show is little above the claim."
    ),
    further_trainings: (
        "These bugs, of other kinds than those above, were written before the audit, or any canary "
        "added by then, was run on one of them, and nothing was changed for the rows shown. Bounds "
        "by independent coins, forests and shared errors were added with three of them in view "
        "(cut noise, means of eight, the largest norm)."
    ),
    unseen_trainings: (
        "These bugs, of yet other kinds, were written by someone who had not read how canaries are "
        "made, before the audit was run on any of them, and nothing was changed for them. A record "
        "is one of twenty centres in 1 of 30 models alone; a quantile of all margins hides which "
        "record moved it."
    ),
}


def lines(module: Any, results: Mapping[str, list[list[Any]]]) -> list[str]:
    """The table of a module's bugs and twins, with counts over all seeds."""
    bugs = {name: row for name in module.BUGS if (row := results.get(f"{name}, bug")) is not None}
    refuted = {name: sum(run[0] == "refuted" for run in rows) for name, rows in bugs.items()}
    right = [run for part, rows in results.items() if part.endswith("twin") for run in rows]
    seconds = [run[2] for rows in results.values() for run in rows]
    place = f"{module.__name__.replace('.', '/')}.py"
    counts = sorted({len(rows) for rows in results.values()})
    seeds = "one seed" if counts == [1] else f"{' or '.join(map(str, counts))} seeds"
    table = [
        f"`dpaudit audit MODULE:fit --data FILE --claim {EPSILON},{DELTA}` with its defaults, on "
        f"wrong trainings of {RECORDS} records and on the right trainings that they were made of "
        f"(`{place}`), {seeds} each. Bounds are at 95%, a refutation has an error of 1e-4. "
        f"{WORDS[module]}",
        "",
        "| training | refuted | epsilon at least, median | CPU seconds, most | its twin: refuted, "
        "epsilon at least, most |",
        "|---|---|---|---|---|",
    ]
    for name, rows in bugs.items():
        twin = results.get(f"{twins(module)[name]}, twin", [])
        alarms = sum(run[0] == "refuted" for run in twin)
        beside = "not measured"
        if twin:
            beside = f"{alarms} of {len(twin)}, {max(map(_epsilon, twin)):.2f}"
        middle = np.nanmedian([*map(_epsilon, rows)])
        table.append(
            f"| {name} | {refuted[name]} of {len(rows)} | {middle:.2f} "
            f"| {max(run[2] for run in rows):.0f} | {beside} |"
        )
    always = sum(count == len(bugs[name]) for name, count in refuted.items())
    under = "refuted" if counts == [1] else "refuted under every seed"
    return [
        *table,
        "",
        f"{always} of {len(bugs)} bugs are {under}; of {len(right)} audits of "
        f"right trainings {sum(run[0] == 'refuted' for run in right)} refute. The slowest audit "
        f"took {max(seconds):.0f} CPU seconds.",
    ]


def _epsilon(run: list[Any]) -> float:
    text = run[1].partition(" ")[0]
    try:
        return float(text)
    except ValueError:  # no bound: a reason in words
        return float("nan")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=list(BUGS))
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--sides", nargs="*", default=SIDES)
    parser.add_argument("--options", default="")
    given = parser.parse_args()
    counted = {side: [0, 0] for side in SIDES}
    most = 0.0
    print("| training | seed | verdict | epsilon, at 95% | canaries | CPU seconds |")
    print("|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for name in given.names:
            for side in given.sides:
                for seed in range(1, given.seeds + 1):
                    row = run(name, SIDES.index(side), seed, given.options.split(), Path(folder))
                    counted[side][0] += row.verdict == "refuted"
                    counted[side][1] += 1
                    most = max(most, row.seconds)
                    cells = (f"{name}, {side}", seed, row.verdict, row.bound, row.canaries)
                    print("|", *(f"{cell} |" for cell in cells), f"{row.seconds:.1f} |", flush=True)
    (bugs, of), (twins, others) = counted["bug"], counted["twin"]
    print(
        f"\nbugs refuted {bugs} of {of} | twins left alone {others - twins} of {others} | ", end=""
    )
    print(f"at most {most:.1f} CPU seconds")


if __name__ == "__main__":
    main()
