"""Running the mutants of a target: in this process or several, resumed where a run stopped."""

from __future__ import annotations

import contextlib
import json
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from dpaudit.audit.attack import program_text
from dpaudit.audit.verdict import DECISION_ERROR
from dpaudit.errors import InvalidParameter, Unsupported
from dpaudit.exact.wire import digest
from dpaudit.mutate.ladder import Baseline, Result, baseline, faults, run_mutant
from dpaudit.mutate.mutant import FAMILIES, Mutant, survey
from dpaudit.mutate.operators import chosen, mutants
from dpaudit.project.project import Target, implementation, resolve
from dpaudit.storage.files import write_atomically
from dpaudit.version import __version__

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Order:
    """What to mutate and how: ``target`` as on the command line, seen from ``folder``.

    ``trials``: test trials a side of the last audit of a mutant; the suite's own by default.
    ``limit``: at most so many mutants, from all families in turn.  ``store``: the folder that
    keeps finished mutants until all are; None keeps none.
    Errors: InvalidParameter for a limit or trials that are too small.
    """

    target: str
    folder: Path
    seed: int = 1
    limit: int | None = None
    trials: int | None = None
    families: tuple[str, ...] = FAMILIES
    store: Path | None = None

    def __post_init__(self) -> None:
        if self.limit is not None and self.limit < 1:
            raise InvalidParameter(f"limit = {self.limit}: expected at least 1 mutant")
        if self.trials is not None and self.trials < 2:
            raise InvalidParameter(f"trials = {self.trials}: expected at least 2")
        unknown = sorted(set(self.families) - set(FAMILIES))
        if unknown:
            raise InvalidParameter(f"family {unknown[0]!r}: expected one of {', '.join(FAMILIES)}")


@dataclass(frozen=True)
class Ran:
    """What became of every mutant; ``faults``: what the audits say of the unchanged target.

    ``hostile``: how many kinds of hostile records queries were tried on.
    Where the unchanged target is flagged no mutant is run: every one of them would be killed.
    """

    target: str
    mechanism: str
    title: str
    seed: int
    trials: int
    planted: int
    results: tuple[Result, ...]
    faults: str
    hostile: int = 1


def run(order: Order, *, jobs: int = 1, progress: Progress | None = None) -> Ran:
    """Plant and judge the mutants of a target, one at a time in each of ``jobs`` processes.

    Equal orders give equal results, but for seconds, whatever ``jobs`` is.
    Errors: UnknownTarget as `dpaudit audit`; Unsupported for a target without a suite.
    """
    base, made = _opened(order)
    mechanism = base.survey.mechanism
    wanted = [m for m in made if m.family in order.families]
    picked = chosen(wanted, order.limit, order.seed)
    wrong = faults(base)
    store = None if order.store is None else _Store(order.store / _identity(order, base))
    done = {} if store is None or wrong else store.read({m.name for m in picked})
    missing = [] if wrong else [m.name for m in picked if m.name not in done]
    report = progress or _silent
    report(mechanism.name, len(done), len(picked))
    for result in _finished(order, missing, jobs):
        done[result.name] = result
        if store is not None:
            store.write(result)
        report(mechanism.name, len(done), len(picked))
    # What the right program would be killed by too is no kill.
    wrong = wrong or faults(base, max((r.trials for r in done.values()), default=0))
    if store is not None:
        store.remove()
    return Ran(
        target=order.target,
        mechanism=mechanism.name,
        title=mechanism.title,
        seed=order.seed,
        trials=base.trials,
        planted=len(made),
        results=() if wrong else tuple(done[m.name] for m in picked),
        faults=wrong,
        hostile=len(base.survey.hostile),
    )


def _silent(name: str, done: int, total: int) -> None:
    """Report nothing."""


def _finished(order: Order, names: Sequence[str], jobs: int) -> Iterator[Result]:
    if jobs == 1 or len(names) < 2:
        yield from (_one(order, name) for name in names)
        return
    import joblib

    calls = (joblib.delayed(_one)(order, name) for name in names)
    yield from joblib.Parallel(n_jobs=jobs, return_as="generator_unordered")(calls)


def _one(order: Order, name: str) -> Result:
    """One mutant by name; a process opens its target once."""
    base, made = _opened(order)
    mutant = next(m for m in made if m.name == name)
    with contextlib.redirect_stdout(sys.stderr):
        return run_mutant(base, mutant)


@lru_cache(maxsize=1)
def _opened(order: Order) -> tuple[Baseline, list[Mutant]]:
    """The target as it is, and all its mutants.

    Errors: Unsupported where no suite attacks the target.
    """
    with contextlib.redirect_stdout(sys.stderr):
        target = resolve(order.target, order.folder)
        if target.suite is None:
            raise Unsupported(
                f"{target.mechanism.name}: no suite of audits/ attacks it; its mutants would all "
                "survive: write one first"
            )
        mechanism = replace(target.mechanism, records=None)
        found = survey(mechanism, target.suite, order.seed, DECISION_ERROR / 4)
        trials = target.suite.trials if order.trials is None else order.trials
        return baseline(found, order.seed, trials), mutants(found)


def _identity(order: Order, base: Baseline) -> str:
    """Everything a result depends on."""
    target: Target = resolve(order.target, order.folder)
    suite = base.survey.suite
    content = {
        "mechanism": base.survey.mechanism.name,
        "declaration": base.declaration.digest,
        "program": program_text(suite.program),
        "implementation": implementation(target.project, target.mechanism, target.suite),
        "neighbours": list(suite.neighbours.digests),
        "dpaudit": __version__,
        "numpy": np.__version__,
        "seed": f"{order.seed:032x}",
        "trials": str(base.trials),
    }
    return str(digest(content))[:32]


@dataclass(frozen=True)
class _Store:
    """A folder with one file a finished mutant; files that do not read are run again."""

    folder: Path

    def read(self, wanted: set[str]) -> dict[str, Result]:
        found = (self._read(path) for path in sorted(self.folder.glob("*.json")))
        return {r.name: r for r in found if r is not None and r.name in wanted}

    def _read(self, path: Path) -> Result | None:
        try:
            row: dict[str, Any] = json.loads(path.read_text("utf-8"))
            return Result(**{f.name: row[f.name] for f in fields(Result)})
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def write(self, result: Result) -> None:
        name = sha256(result.name.encode()).hexdigest()[:32]
        write_atomically(self.folder / f"{name}.json", json.dumps(asdict(result)).encode())

    def remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        with contextlib.suppress(OSError):
            self.folder.parent.rmdir()
