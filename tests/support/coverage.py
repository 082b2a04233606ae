"""The coverage table: nulls x sizes x estimators, cell by cell, resumable.

A cell counts the runs in which a bound at error rate 5% exceeds the truth.  Cells are batches of
the engine: seeded by their place, run by workers, kept under the digest of the sources they rest
on, so that an interrupted table resumes and only what changed is measured anew.

Rules.  A cell above 5% plus two standard errors is measured once more, from fresh draws and four
times the runs, and is judged by the second measurement alone.  Estimators marked exact must also
reach 3%, less two standard errors, wherever at least ``ENOUGH`` false positives and as many misses
are expected.  :func:`false_alarm` is the chance that cells that err by exactly 5% fail a table.
"""

from __future__ import annotations

import hashlib
import math
import os
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy
from scipy.special import bdtrc

from dpaudit.audit.engine import Batch, run_batches
from dpaudit.cli.terminal import Pace
from dpaudit.storage.batches import Arrays, AuditStore
from tests.support import measures
from tests.support.measures import ERROR, Measure, at_fixed_event
from tests.support.nulls import NULLS, Null

SIZES = (100, 500, 2_000, 10_000, 100_000)
FLOOR = 0.03
ENOUGH = 30
SEED = 20261121
AGAIN = 4
FOLDER = Path(__file__).resolve().parent.parent.parent
SOURCES = FOLDER / "dpaudit"
COMMON = ("estimators", "thresholds", "extremes", "region")


@dataclass(frozen=True)
class Estimator:
    """``measure`` counts the bounds above the truth, one number for each of ``names``.

    ``runs``: for each of SIZES.  ``exact``: the error is to come near 5% where counts are not few;
    the others pay for a choice, a union, or an anytime guarantee.  ``sources``: modules of
    dpaudit.audit that the numbers rest on.  ``large``: the share of the runs where epsilon is at
    least 3 and the size at least 2,000, for bounds that take longer there.
    """

    names: tuple[str, ...]
    measure: Measure
    runs: tuple[int, int, int, int, int]
    sources: tuple[str, ...]
    applies: Callable[[Null], bool] = lambda null: True
    exact: bool = False
    large: float = 1.0

    def runs_at(self, null: Null, size: int) -> int:
        """Runs of a cell of the whole table."""
        share = self.large if null.epsilon >= 3 and size >= 2_000 else 1.0
        return round(share * self.runs[SIZES.index(size)])


@dataclass(frozen=True)
class Cell:
    """The measured error of one estimator for one null at one size."""

    estimator: str
    null: str
    size: int
    above: int
    runs: int
    exact: bool
    again: bool = False

    @property
    def error(self) -> float:
        return self.above / self.runs

    @property
    def margin(self) -> float:
        """Two standard errors of a rate of 5%."""
        return 2 * math.sqrt(ERROR * (1 - ERROR) / self.runs)

    @property
    def high(self) -> bool:
        return self.error > ERROR + self.margin

    @property
    def low(self) -> bool:
        return self.exact and self.error < FLOOR - self.margin


def has_mu(null: Null) -> bool:
    return null.mu is not None


def has_rho(null: Null) -> bool:
    return null.rho is not None


def is_gaussian(null: Null) -> bool:
    return null.name.startswith("Gaussian")


def is_first(null: Null) -> bool:
    return null is NULLS[0]


JOINT = ("joint", *COMMON)
ESTIMATORS: tuple[Estimator, ...] = (
    Estimator(
        ("Clopper-Pearson, fixed event",), at_fixed_event(measures.clopper_pearson),
        (10_000,) * 5, COMMON,
    ),
    Estimator(
        ("joint epsilon, fixed event",), at_fixed_event(measures.joint),
        (10_000, 10_000, 4_000, 2_000, 500), JOINT, exact=True, large=0.25,
    ),
    Estimator(
        ("joint mu, fixed event",), at_fixed_event(measures.joint_mu),
        (10_000, 10_000, 4_000, 2_000, 500), JOINT, is_gaussian, exact=True, large=0.25,
    ),
    Estimator(
        ("joint rho, fixed event",), at_fixed_event(measures.joint_rho),
        (1_000, 500, 200, 100, 40), JOINT, is_gaussian,
    ),
    Estimator(
        ("bets, fixed event, anytime",), measures.bets,
        (2_000, 2_000, 2_000, 2_000, 300), ("betting", "region"),
    ),
    Estimator(
        ("Clopper-Pearson, trained threshold",), measures.trained_threshold,
        (2_000, 1_000, 1_000, 1_000, 200), COMMON,
    ),
    Estimator(
        ("joint epsilon, trained event",), measures.trained_event,
        (1_000, 400, 400, 200, 100), ("selection", *JOINT), large=0.25,
    ),
    Estimator(
        ("band epsilon", "band mu", "band rho"), measures.band,
        (1_000, 1_000, 500, 100, 60), ("bands", *COMMON),
    ),
    Estimator(
        ("whole band",), measures.whole_band,
        (10_000, 10_000, 10_000, 4_000, 500), ("bands", *COMMON), is_first, exact=True,
    ),
    Estimator(
        ("variational rho",), measures.variational_rho,
        (400, 300, 200, 100, 40), ("variational", "paired_bets", *COMMON), has_rho,
    ),
    Estimator(
        ("variational mu",), measures.variational_mu,
        (1_000, 1_000, 500, 400, 60), ("variational_mu", "paired_bets", *COMMON), has_mu,
    ),
    Estimator(
        ("one run, fixed guesses",), measures.one_run,
        (2_000, 2_000, 2_000, 500, 100), ("one_run", "guessing", *COMMON),
    ),
    Estimator(
        ("one run, learned guesses",), measures.one_run_chosen,
        (200, 200, 100, 100, 30), ("one_run", "guessing", *COMMON),
    ),
)  # fmt: skip


@dataclass(frozen=True)
class Plan:
    """Which part of the table: estimators, nulls, sizes, and the share of the runs."""

    estimators: tuple[Estimator, ...] = ESTIMATORS
    nulls: tuple[Null, ...] = NULLS
    sizes: tuple[int, ...] = SIZES
    share: float = 1.0

    def runs(self, estimator: Estimator, null: Null, size: int) -> int:
        """Runs of a cell; at least 20."""
        return max(20, round(self.share * estimator.runs_at(null, size)))


@dataclass(frozen=True)
class CellTask:
    """Measures the cell whose place (null, size) and attempt the batch's key names."""

    plan: Plan
    estimator: Estimator

    def __call__(self, batch: Batch, rng: np.random.Generator) -> Arrays:
        null, size, again = NULLS[batch.key[1]], SIZES[batch.key[2]], bool(batch.key[3])
        runs = self.plan.runs(self.estimator, null, size) * (AGAIN if again else 1)
        above = self.estimator.measure(null, size, runs, rng)
        return {"above": np.array([above]), "runs": np.array([runs])}


def measure(plan: Plan, *, jobs: int = 1, folder: Path | None = None) -> list[Cell]:
    """All cells of the plan; what ``folder`` holds of the same sources is not measured again."""
    cells: list[Cell] = []
    for estimator in plan.estimators:
        places = [
            (NULLS.index(null), SIZES.index(size))
            for size in sorted(plan.sizes, reverse=True)
            for null in plan.nulls
            if estimator.applies(null)
        ]
        first = _run(plan, estimator, places, 0, jobs, folder)
        doubtful = [place for place in places if any(cell.high for cell in first[place])]
        second = _run(plan, estimator, doubtful, 1, jobs, folder)
        cells += [cell for place in places for cell in {**first, **second}[place]]
    return cells


Place = tuple[int, int]


def _run(
    plan: Plan,
    estimator: Estimator,
    places: Sequence[Place],
    attempt: int,
    jobs: int,
    folder: Path | None,
) -> dict[Place, list[Cell]]:
    number = ESTIMATORS.index(estimator)
    batches = [Batch((number, *place, attempt), 1) for place in places]
    store = None if folder is None else AuditStore(folder, identity(estimator, plan.share))
    found = run_batches(
        CellTask(plan, estimator), batches, root_seed=SEED, jobs=jobs, store=store,
        progress=_progress(estimator.names[0] + (", once more" if attempt else "")),
    )  # fmt: skip
    return {
        place: _cells(estimator, place, found[batch.key], attempt)
        for place, batch in zip(places, batches, strict=True)
    }


def _cells(estimator: Estimator, place: Place, arrays: Arrays, attempt: int) -> list[Cell]:
    null, size = NULLS[place[0]], SIZES[place[1]]
    enough = is_first(null) and not estimator.applies(NULLS[1])
    enough |= size * min(null.alarms, 1 - null.hits) >= ENOUGH
    runs = int(arrays["runs"][0])
    return [
        Cell(name, null.name, size, int(above), runs, estimator.exact and enough, attempt == 1)
        for name, above in zip(estimator.names, arrays["above"][0], strict=True)
        if (has_mu(null) or not name.endswith(" mu"))
        and (has_rho(null) or not name.endswith("rho"))
    ]


def identity(estimator: Estimator, share: float) -> str:
    """Everything a cell depends on: sources, versions, runs."""
    files = [p for name in estimator.sources for p in sorted(SOURCES.rglob(f"{name}.py"))]
    files += [Path(__file__).with_name(name) for name in ("measures.py", "nulls.py")]
    digests = [hashlib.sha256(path.read_bytes()).hexdigest() for path in files]
    runs = (estimator.runs, estimator.large, share)
    words = (np.__version__, scipy.__version__, estimator.names, *runs, SEED)
    return "\n".join([*map(str, words), *digests])


def _progress(name: str) -> Callable[[int, int], None]:
    pace, last = Pace(), [0.0]

    def report(done: int, total: int) -> None:
        left = pace.left(done, total)
        if done == total or time.monotonic() - last[0] > 5:
            last[0] = time.monotonic()
            sys.stderr.write(f"coverage of {name}: {done} of {total} cells{left}\n")

    return report


def false_alarm(cells: Iterable[Cell]) -> float:
    """Chance, at most, that the exact cells fail though each errs by 5%: both measurements high.

    The other cells add less than as many of theirs would, since they err less often.
    """
    total = 0.0
    for cell in cells:
        first = cell.runs // AGAIN if cell.again else cell.runs
        if cell.exact:
            total += math.prod(_chance_of_high(runs) for runs in (first, AGAIN * first))
    return total


def _chance_of_high(runs: int) -> float:
    """P(Binomial(runs, 5%) / runs > 5% + two standard errors)."""
    margin = 2 * math.sqrt(ERROR * (1 - ERROR) / runs)
    return float(bdtrc(math.floor(runs * (ERROR + margin)), runs, ERROR))


def failures(cells: Iterable[Cell]) -> list[str]:
    """What the table's rules refuse, in words."""
    words = []
    for cell in cells:
        where = f"{cell.estimator}, {cell.null}, {cell.size:,}: {cell.above} of {cell.runs} above"
        if cell.high:
            words.append(f"{where} the truth, {cell.error:.1%}")
        if cell.low:
            words.append(f"{where} the truth, only {cell.error:.1%}")
    return words


def summary(cells: Sequence[Cell]) -> list[list[str]]:
    """A row an estimator: cells, runs, mean and largest share, cells above, and the exact ones."""
    rows = []
    for name in dict.fromkeys(cell.estimator for cell in cells):
        own = [cell for cell in cells if cell.estimator == name]
        exact = [cell.error for cell in own if cell.exact]
        rows.append([
            name, f"{len(own)}", f"{sum(cell.runs for cell in own):,}",
            f"{np.mean([cell.error for cell in own]):.1%}",
            f"{max(cell.error for cell in own):.1%}", f"{sum(cell.high for cell in own)}",
            f"{np.mean(exact):.1%} in {len(exact)} cells" if exact else "",
        ])  # fmt: skip
    return rows


def sub_table() -> Plan:
    """What the normal test run measures: two nulls, two sizes, a hundredth of the runs, no rho."""
    names = ("Gaussian mu 1, epsilon 1", "extremal (1, 0.05)")
    nulls = tuple(null for null in NULLS if null.name in names)
    estimators = tuple(one for one in ESTIMATORS if "joint rho" not in one.names[0])
    return Plan(estimators, nulls, sizes=(100, 500), share=0.01)


def whole_table() -> Plan:
    """The whole; DPAUDIT_COVERAGE is the share of the runs, for a quick look."""
    return Plan(share=float(os.environ.get("DPAUDIT_COVERAGE", "1")))
