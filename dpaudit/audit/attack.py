"""Running an audit: sample the implementation on both data sets, replay under the declaration."""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from dpaudit.audit.attacked import (
    FIRST,
    SECOND,
    TEST,
    TRAINING,
    Attacked,
    Progress,
    Results,
    checked_declaration,
    run_independently,
    tidy,
)
from dpaudit.audit.batches import batch_noise, sampler_of, sampling_frequencies
from dpaudit.audit.bounds.estimators import TestScores, TrainingScores
from dpaudit.audit.engine import Batch, run_batches
from dpaudit.audit.residuals import Finding, check_residuals
from dpaudit.audit.suite import Suite
from dpaudit.check.conformance import EXECUTED, SENSITIVITIES
from dpaudit.curator.curator import Program, Sampler
from dpaudit.curator.locations import at, line_of_error
from dpaudit.curator.mechanism import Mechanism
from dpaudit.curator.outputs import same_output
from dpaudit.curator.replayer import Replayer
from dpaudit.curator.uses import SEARCHES
from dpaudit.errors import Diverged, Undeclared
from dpaudit.exact.wire import digest
from dpaudit.kernels.base import require_kernels
from dpaudit.kernels.query import Array, Records
from dpaudit.nodes import Node, postorder
from dpaudit.scope import Scope
from dpaudit.storage.batches import AuditStore
from dpaudit.storage.roots import code_digest
from dpaudit.version import __version__

RESIDUAL_NUMBERS = 8_000_000  # residuals kept of an audit: 64 MB; later ones are left out
KEPT_RUNS = "the output shows more of a search than its best run"


@dataclass(frozen=True, eq=False)
class ReplayTask:
    """One batch of trials: sampled with the implementation's kernels, replayed as declared."""

    program: Program
    declaration: Node
    scope: Scope
    pair: tuple[Records, Records]
    kernels: Mapping[type[Node], type[Any]] = field(default_factory=dict)

    def __call__(self, batch: Batch, generator: np.random.Generator) -> dict[str, Any]:
        """Scores, violations, residuals (training part only) and executed counts of one batch."""
        # A program's own printing must stay out of a command's JSON on stdout.
        with contextlib.redirect_stdout(sys.stderr):
            return self._run(batch, generator)

    def _run(self, batch: Batch, generator: np.random.Generator) -> dict[str, Any]:
        """One batch: run the program on one data set, and replay its transcripts on both."""
        _, side, part, *_ = batch.key
        make = sampler_of(self.declaration) if part == TRAINING else Sampler
        sampler = make(
            self.declaration,
            self.scope,
            self.pair[side],
            rng=generator,
            trials=batch.trials,
            kernels=self.kernels,
        )
        sampler.independent = True
        try:
            output = self.program.run(sampler)
            coins = int(generator.integers(2**63))
            replayer = Replayer(self.program, self.declaration, self.scope, self.pair, coins=coins)
            first, second = (replayer.walk(records, sampler.transcript) for records in self.pair)
            replay = replayer.compared(first, second, side)
        except (Diverged, Undeclared) as error:
            return _row(batch.trials, np.full(batch.trials, np.nan), stopped=[stopped_at(error)])
        noise, drawn = batch_noise(sampler)
        noise = {**noise, **replay.residuals, **noise} if part == TRAINING else {}
        return _row(
            batch.trials,
            # A program that releases nothing has one score for all trials.
            np.broadcast_to(replay.scores, (batch.trials,)),
            attack=[replay.attack],
            violations=(*replay.violations, *self._kept(output, (first, second)[side][1])),
            executed=unused_releases(sampler),
            frequencies=drawn,
            labels=list(noise),
            lines=[replay.places.get(label, "") for label in noise],
            residuals=list(noise.values()),
        )

    def _kept(self, output: Any, output_of_best: Any) -> tuple[str, ...]:
        """Findings where a search's output depends on runs other than the best one."""
        if not any(isinstance(node, SEARCHES) for node in postorder(self.declaration)):
            return ()
        return () if same_output(output, output_of_best) else (KEPT_RUNS,)


def stopped_at(error: Diverged | Undeclared) -> str:
    """Why an implementation was stopped, with the line of the program that asked."""
    return f"{error}{at(line_of_error(error))}" if isinstance(error, Undeclared) else str(error)


def _row(
    trials: int,
    scores: Array,
    *,
    attack: Sequence[str] = ("declared",),
    stopped: Sequence[str] = (),
    violations: Sequence[str] = (),
    executed: Sequence[str] = (),
    frequencies: Sequence[str] = (),
    labels: Sequence[str] = (),
    lines: Sequence[str] = (),
    residuals: Sequence[Array] = (),
) -> dict[str, Any]:
    """One batch's arrays; the engine wants every one to lead with the trials axis."""
    words = {
        "attack": attack,
        "stopped": stopped,
        "violations": violations,
        "executed": executed,
        "frequencies": frequencies,
        "labels": labels,
        "lines": lines,
    }
    return {
        "scores": scores,
        **{k: np.broadcast_to(np.array(v, dtype=str), (trials, len(v))) for k, v in words.items()},
        **{f"residuals_{i}": values for i, values in enumerate(residuals)},
    }


def unused_releases(sampler: Sampler) -> list[str]:
    """One line for each label with fewer releases in some trial than are declared."""
    lines = []
    for label, (declared, low, high) in sampler.entitlements.counts().items():
        if (low, high) != (declared, declared):
            meant = "as many as fit the cap" if declared is None else declared
            lines.append(f"{label}: {low if low == high else f'{low} to {high}'} of {meant} made")
    return lines


def attack(
    mechanism: Mechanism,
    suite: Suite,
    *,
    seed: int,
    index: int = 0,
    trials: int | None = None,
    error: float,
    implementation: Mapping[str, str] | None = None,
    jobs: int = 1,
    store: Path | None = None,
    progress: Progress | None = None,
    observe: Sequence[str] | Callable[[Any], Array] | None = None,
) -> Attacked:
    """Run a suite: ``trials`` test trials a side, and a fifth as many for training.

    ``observe``: the attacker's view, if it is less than the transcript: labels of releases, or a
    function of the program's output (see :mod:`dpaudit.audit.observed`).  ``error``: false-alarm
    rate of all statistical conformance checks together.  ``implementation``: digests of the source
    files by name; batches stored for other sources are not reused.
    Errors: InvalidParameter where the audited program declares something else than the mechanism,
    or the data sets are neighbours under another adjacency.
    """
    if observe is not None:
        from dpaudit.audit.observed import attack_observed

        return attack_observed(
            mechanism,
            suite,
            observe,
            seed=seed,
            index=index,
            trials=trials,
            jobs=jobs,
            progress=progress,
        )
    declaration = checked_declaration(mechanism, suite)
    if not suite.kernels:
        require_kernels(declaration)
    certified = suite.trials if trials is None else trials
    training = max(min(200, certified), certified // 5)
    task = ReplayTask(
        suite.program, declaration, mechanism.scope, suite.neighbours.pair, suite.kernels
    )
    identity = _identity(mechanism, suite, seed, implementation or {})
    stored = None if store is None else AuditStore(store, identity)

    def run(batches: list[Batch]) -> Results:
        return run_batches(
            task, batches, root_seed=seed, jobs=jobs, store=stored, progress=progress
        )

    results = run_independently(run, index, training, certified, suite.together)
    attacked = _collect(suite, results, seed, certified, training, error)
    return attacked if stored is None else replace(attacked, stored=stored.place)


def program_text(program: Program) -> str:
    """A program as text, the same in every process: no addresses of objects."""
    return re.sub(r" at 0x[0-9a-fA-F]+", "", repr(program))


def _identity(
    mechanism: Mechanism, suite: Suite, seed: int, implementation: Mapping[str, str]
) -> str:
    """Everything the stored arrays depend on."""
    kernels = sorted(f"{k.__name__}:{v.__qualname__}" for k, v in suite.kernels.items())
    content = {
        "mechanism": mechanism.name,
        "declaration": mechanism.declaration.digest,
        "program": program_text(suite.program),
        "implementation": dict(implementation),
        "dpaudit": [__version__, code_digest()],
        "neighbours": list(suite.neighbours.digests),
        "kernels": kernels,
        "scope": str(mechanism.scope),
        "seed": f"{seed:032x}",
    }
    return digest(content)


def _collect(
    suite: Suite,
    results: Mapping[tuple[int, ...], Mapping[str, Any]],
    seed: int,
    certified: int,
    training: int,
    error: float,
) -> Attacked:
    """The audit's result from all batches: scores by part, conformance checks, and findings."""
    ordered = [results[key] for key in sorted(results)]
    stopped, violations = _words(ordered, "stopped"), _words(ordered, "violations")
    executed = "; ".join(_words(ordered, "executed")) or "every declared release was made"
    findings = _deterministic(stopped, violations, executed)
    scores = {} if stopped else _scores(results)
    residuals = {} if stopped else _residuals(ordered)
    batches = [] if stopped else sampling_frequencies(ordered, error / 2)
    error -= error / 2 if batches else 0.0
    findings += batches
    findings += _placed(check_residuals(residuals, error), ordered) if residuals else ()
    return Attacked(
        suite=suite,
        trials=certified,
        training_trials=training,
        seed=seed,
        attack="declared" if suite.kernels else _words(ordered, "attack")[0],
        training=None if stopped else TrainingScores(scores[TRAINING, 0], scores[TRAINING, 1]),
        test=None if stopped else TestScores(scores[TEST, 0], scores[TEST, 1]),
        findings=tuple(findings),
    )


def _placed(
    findings: Sequence[Finding], ordered: Sequence[Mapping[str, Any]]
) -> tuple[Finding, ...]:
    """The findings, what is broken with the line that released its label."""
    row = next(row for row in ordered if row["labels"].size)
    lines = dict(zip(map(str, row["labels"][0]), map(str, row["lines"][0]), strict=True))
    return tuple(
        replace(f, detail=f.detail + at(lines.get(f.check.partition(" of ")[2], "")))
        if f.status == "broken"
        else f
        for f in findings
    )


def _words(ordered: list[Mapping[str, Any]], name: str) -> list[str]:
    """The distinct messages of all batches, in order of the alphabet."""
    return sorted({str(word) for row in ordered for word in row[name][:1].ravel()})


def _scores(results: Mapping[tuple[int, ...], Mapping[str, Any]]) -> dict[tuple[int, int], Array]:
    """Scores by part and side, rounded so that an atom of their law is not split by float noise.

    A log-likelihood ratio with atoms (Laplace noise) may differ by a few units in the last place
    between the two data sets.  That comes from floating point, not from the mechanism, and would
    raise false alarms.  Infinite scores become finite, so that thresholds can lie between them.
    """
    return {
        (part, side): tidy(
            [results[k]["scores"] for k in sorted(results) if k[1:3] == (side, part)]
        )
        for part in (TRAINING, TEST)
        for side in (FIRST, SECOND)
    }


def _residuals(ordered: list[Mapping[str, Any]]) -> dict[str, Array]:
    """Training residuals by label, as many trials as fit into a fixed amount of memory."""
    gathered: list[dict[str, Array]] = []
    numbers = 0
    for row in ordered:
        residuals = {str(k): row[f"residuals_{i}"] for i, k in enumerate(row["labels"][0])}
        # A batch's size depends on its noise, so whether the batch is taken is decided before.
        if numbers > RESIDUAL_NUMBERS:
            break
        gathered.append(residuals)
        numbers += sum(values.size for values in residuals.values())
    trials = [len(next(iter(residuals.values()))) for residuals in gathered if residuals]
    present = [residuals for residuals in gathered if residuals]
    labels = dict.fromkeys(label for residuals in present for label in residuals)
    return {
        label: padded([residuals.get(label) for residuals in present], trials) for label in labels
    }


def padded(parts: Sequence[Array | None], trials: Sequence[int]) -> Array:
    """Batches of one label, (trials, uses, d) each, as one array: NaN where a batch had fewer.

    The number of uses and their width (a selection's candidates) can depend on released values, so
    they may differ between batches.
    """
    shapes = [part.shape for part in parts if part is not None]
    uses, width = (max(shape[axis] for shape in shapes) for axis in (1, 2))
    padded_rows = np.full((sum(trials), uses, width), np.nan)
    start = 0
    for part, count in zip(parts, trials, strict=True):
        if part is not None:
            padded_rows[start : start + count, : part.shape[1], : part.shape[2]] = part
        start += count
    return padded_rows


def _deterministic(stopped: list[str], violations: list[str], executed: str) -> list[Finding]:
    """Findings that need no statistics: their error rate is zero."""
    checks = {
        EXECUTED: (stopped, executed),
        SENSITIVITIES: (violations, "no query moved by more than it states"),
    }
    return [
        Finding(
            check=check,
            status="broken" if faults else "held",
            statistic=float(len(faults)),
            error_rate=0.0,
            detail="; ".join(faults) or otherwise,
            assumption="bounded_queries" if check == SENSITIVITIES else "declared_noise",
        )
        for check, (faults, otherwise) in checks.items()
    ]
