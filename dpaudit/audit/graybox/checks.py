"""The gray-box checks of one implementation against its declaration."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from dpaudit.audit.attack import padded, stopped_at, unused_releases
from dpaudit.audit.engine import generator
from dpaudit.audit.graybox.hostile import HOSTILE, Make, Probe, probe, rows_to_probe
from dpaudit.audit.graybox.watch import Asked, Watched
from dpaudit.audit.residuals import DEFAULT_ERROR, Finding, check_residuals
from dpaudit.audit.suite import Suite
from dpaudit.curator.locations import at, place_in
from dpaudit.curator.mechanism import Mechanism
from dpaudit.curator.replayer import Replay, Replayer, Walk, disclosures
from dpaudit.errors import Diverged, DpauditError, InvalidParameter, Undeclared
from dpaudit.kernels.query import Array, Records
from dpaudit.scope import Adjacency

INSPECTED_TRIALS = 32  # Trials of the run whose events are inspected.
# Number of the random stream; an attack with the same seed uses another.
INSPECTION_STREAM = 0x677261

ACCESS = "undeclared access"
CONTROL = "control flow and released values"
PAIR = "sensitivity on the audited pair"
RECORDS = "sensitivity on hostile records"
EXECUTED = "executed against declared releases"


@dataclass(frozen=True)
class Located(Finding):
    """A finding with the line of the program that it is about; empty where it is about no line."""

    place: str = ""


@dataclass(frozen=True, eq=False)
class Inspection:
    """Findings of gray-box checks; ``places``: the lines that made the releases of each label.

    ``short``: a line for each label of which fewer releases were made than declared.
    ``asked`` and ``probes`` hold private records and values: they stay inside audits.
    """

    findings: tuple[Located, ...]
    places: Mapping[str, tuple[str, ...]]
    short: tuple[str, ...]
    asked: tuple[Asked, ...]
    probes: tuple[Probe, ...]

    @property
    def broken(self) -> tuple[Located, ...]:
        """The findings that say something is wrong."""
        return tuple(f for f in self.findings if f.status == "broken")


def inspect_program(
    mechanism: Mechanism,
    suite: Suite,
    *,
    seed: int,
    trials: int = INSPECTED_TRIALS,
    error: float = DEFAULT_ERROR,
    hostile: Mapping[str, Make] = HOSTILE,
) -> Inspection:
    """Run an implementation on both data sets, watched, and replay it under its declaration.

    Deterministic (a program that keeps to its declaration is never flagged): access around the
    curator, releases that were not declared, control flow, masks, coins or outputs that depend on
    private records, and sensitivities, on the audited pair and on hostile records.  Statistical,
    with ``error`` as their rate together: inclusion counts of secret batches, noise residuals.
    Fewer releases than declared break nothing: they cost less; the finding says how many.
    ``hostile``: what rows become in the checks beyond the pair; none of them without any, for
    queries that hold their bound on some domain only.
    Errors: InvalidParameter for fewer than 2 trials, or an error rate outside (0, 1).
    """
    if trials < 2 or not 0 < error < 1:
        raise InvalidParameter(f"trials = {trials}, error = {error}: expected >= 2, and in (0, 1)")
    inspector = _Inspector(mechanism, suite, seed, trials, hostile)
    with contextlib.redirect_stdout(sys.stderr):
        for side in (0, 1):
            inspector.sample(side)
            inspector.replay(side)
    return inspector.inspection(error)


class _Inspector:
    """Runs and replays of one implementation, and the findings so far."""

    def __init__(
        self,
        mechanism: Mechanism,
        suite: Suite,
        seed: int,
        trials: int,
        hostile: Mapping[str, Make],
    ) -> None:
        self.mechanism = mechanism
        self.suite = suite
        self.seed = seed
        self.trials = trials
        self.hostile = hostile
        self.declaration = suite.program.declaration(mechanism.scope)
        self.watched: list[Watched] = []
        self.replays: list[Replay] = []
        self.stopped: Diverged | Undeclared | None = None
        self.probes: tuple[Probe, ...] | None = None
        self.disclosed: tuple[str, ...] = ()
        self.failed = ""

    def sample(self, side: int) -> None:
        """Run on one data set, unless something was refused before."""
        if self.stopped is not None:
            return
        sampler = Watched(
            self.declaration,
            self.mechanism.scope,
            self.suite.neighbours.pair[side],
            rng=generator(self.seed, (INSPECTION_STREAM, side)),
            trials=self.trials,
            kernels=self.suite.kernels,
        )
        self.watched.append(sampler)
        try:
            self.suite.program.run(sampler)
        except (Diverged, Undeclared) as refusal:
            self.stopped = refusal

    def replay(self, side: int) -> None:
        """Replay the run on one data set on both."""
        if self.stopped is not None:
            return
        replayer = Replayer(
            self.suite.program,
            self.declaration,
            self.mechanism.scope,
            self.suite.neighbours.pair,
            coins=self.seed,
            draws=1,
        )
        transcript = self.watched[side].transcript
        try:
            pair = self.suite.neighbours.pair
            first, second = (replayer.walk(records, transcript) for records in pair)
            self.replays.append(replayer.compared(first, second, side))
            if side == 0 and self.hostile:
                self._disclose(replayer, first)
        except (Diverged, Undeclared) as refusal:
            self.stopped = refusal

    def _disclose(self, replayer: Replayer, first: tuple[Walk, Any]) -> None:
        """Walk the transcript on other records: they may decide nothing that is asked for."""
        # Records of which none is as it was: what a program asks for must not depend on any.
        values = np.nan_to_num(self.suite.neighbours.first.values)
        steps = (np.arange(len(values)) % 2).reshape(-1, *[1] * (values.ndim - 1))
        others = Records(1.0 - 3.0 * values[::-1] + steps)
        try:
            walked = replayer.walk(others, self.watched[0].transcript)
        except DpauditError:
            raise
        except Exception as error:  # noqa: BLE001  (whatever a record provokes is the finding)
            self.failed = f"other records make the program fail ({type(error).__name__})"
        else:
            self.disclosed = disclosures(first, walked)

    def inspection(self, error: float) -> Inspection:
        """The findings so far; a refused run goes through no statistics."""
        requests = tuple(a for sampler in self.watched for a in sampler.asked)
        if self.probes is None:
            self.probes = _probes(self.mechanism, self.suite, self.watched, self.hostile)
        complete = bool(self.watched) and self.stopped is None
        short = tuple(unused_releases(self.watched[-1])) if complete else ()
        findings = [
            *self._deterministic(short),
            *(_statistical(self.watched, requests, error) if complete else ()),
        ]
        return Inspection(tuple(findings), _places(requests), short, requests, self.probes)

    def _deterministic(self, short: Sequence[str]) -> Iterator[Located]:
        touched = list(dict.fromkeys(t for sampler in self.watched for t in sampler.touched))
        why = [] if self.stopped is None else [stopped_at(self.stopped)]
        diverged = isinstance(self.stopped, Diverged)
        violations = (v for replay in self.replays for v in replay.violations)
        faults = list(dict.fromkeys((*violations, *self.disclosed)))
        moved = [v for v in faults if "move the query" in v or "another record's vector" in v]
        control = [*(why if diverged else ()), *(v for v in faults if v not in moved)]
        problems = [f"release {p.label!r}: {p.problem}{at(p.place)}" for p in self.bad_probes]
        problems += [self.failed] if self.failed else []
        summary = f"{len(self.probes or ())} queries kept their bound"
        yield from _found(ACCESS, [*touched, *([] if diverged else why)], "declared releases only")
        yield from _found(CONTROL, control, "the same on both data sets, and on other records")
        yield from _found(PAIR, moved, "no query moved by more than it states")
        yield from _found(RECORDS, problems, summary)
        yield _located(EXECUTED, [], "; ".join(short) or "every declared release was made")

    @property
    def bad_probes(self) -> list[Probe]:
        """The probes that found a problem."""
        return [p for p in self.probes or () if p.problem]


def _found(check: str, messages: Sequence[str], otherwise: str) -> Iterator[Located]:
    """One finding a message, or one that says that there is none."""
    for message in messages:
        yield _located(check, [message], "")
    if not messages:
        yield _located(check, [], otherwise)


def _located(check: str, messages: list[str], otherwise: str) -> Located:
    return Located(
        check=check,
        status="broken" if messages else "held",
        statistic=float(len(messages)),
        error_rate=0.0,
        detail="; ".join(messages) or otherwise,
        place=place_in(messages[0]) if messages else "",
    )


def _statistical(
    watched: Sequence[Watched], asked: Sequence[Asked], error: float
) -> Iterator[Located]:
    places = _places(asked)
    sampled = [a.label for a in asked if a.batched]
    share = error / 2 if sampled else error
    if sampled:
        # Runs on either data set draw their batches alike.
        checks = [sampler.frequencies.check(share / len(watched)) for sampler in watched]
        worst = min(checks, key=lambda finding: finding.p_value if finding.error_rate else 0.0)
        yield _placed(worst, places[sampled[0]][0])
    residuals = _residuals(watched)
    if residuals:
        for finding in check_residuals(residuals, share):
            label = finding.check.partition(" of ")[2]
            yield _placed(finding, places.get(label, ("",))[0])


def _placed(finding: Finding, place: str) -> Located:
    broken = finding.status == "broken"
    detail = f"{finding.detail} ({place})" if broken and place else finding.detail
    values = {field.name: getattr(finding, field.name) for field in fields(Finding)}
    return Located(**{**values, "detail": detail}, place=place if broken else "")


def _residuals(watched: Sequence[Watched]) -> dict[str, Array]:
    """Residuals of all runs; none is left out for how many there are, which depends on noise."""
    stacked = [
        {label: np.stack(uses, axis=1) for label, uses in sampler.residuals.items()}
        for sampler in watched
    ]
    trials = [sampler.trials for sampler in watched]
    labels = dict.fromkeys(label for by_label in stacked for label in by_label)
    return {
        label: padded([by_label.get(label) for by_label in stacked], trials) for label in labels
    }


def _probes(
    mechanism: Mechanism,
    suite: Suite,
    watched: Sequence[Watched],
    hostile: Mapping[str, Make],
) -> tuple[Probe, ...]:
    """The first query of each label and line, on hostile records."""
    adjacency = mechanism.scope.adjacency
    changed = _changed(suite, adjacency)
    first_asked: dict[tuple[str, str], Asked] = {}
    for request in watched[0].asked if watched and hostile else ():
        first_asked.setdefault((request.label, request.place), request)
    return tuple(
        probe(request, adjacency, row, hostile)
        for request in first_asked.values()
        for row in rows_to_probe(request, changed, adjacency)
    )


def _changed(suite: Suite, adjacency: Adjacency) -> int:
    """The row in which the audited data sets differ."""
    first, second = suite.neighbours.pair
    if adjacency is Adjacency.ADD_REMOVE:
        return max(len(first), len(second)) - 1
    rows = (first.values != second.values).reshape(len(first), -1).any(axis=1)
    return int(np.argmax(rows | (first.present != second.present)))


def _places(asked: Sequence[Asked]) -> dict[str, tuple[str, ...]]:
    places: dict[str, dict[str, None]] = {}
    for request in asked:
        places.setdefault(request.label, {})[request.place] = None
    return {label: tuple(lines) for label, lines in places.items()}
