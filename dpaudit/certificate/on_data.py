"""The run of a certified program on its data: its refusals, its output, and its metrics."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dpaudit.audit.examine import (
    Examination,
    Shape,
    examine,
    held_by,
    mixing,
    read_by_others,
    shape_like,
)
from dpaudit.audit.examine.shapes import ROWS
from dpaudit.audit.residuals import Finding
from dpaudit.audit.verdict import Verdict
from dpaudit.certificate.certificate import Json
from dpaudit.certificate.covered import ANOTHER, BY_AUTHOR, Again, Before
from dpaudit.certificate.evidence import written
from dpaudit.certificate.order import Options, Order
from dpaudit.check.file import fits
from dpaudit.check.reach import FEWEST_RECORDS
from dpaudit.curator.curator import Event, Sampler
from dpaudit.curator.guarded import Guarded
from dpaudit.curator.locations import at, line_of_error
from dpaudit.curator.mechanism import Mechanism
from dpaudit.curator.uses import grouped
from dpaudit.errors import TRACEBACK, DpauditError, InvalidParameter
from dpaudit.kernels.query import Records
from dpaudit.kernels.system import SystemGenerator
from dpaudit.scope import Adjacency
from dpaudit.storage.opened import opened

DISCARDED = (
    "its run on the data opened a file that records() reads: what it gave was discarded, and "
    "neither looked at nor written"
)
_NO_METRICS: Json = {
    "records": None,
    "entropy": "seed 0",
    "metrics": [],
    "notes": [],
    "output": None,
}


def shaped_as_data(mechanism: Mechanism, examination: Examination, seed: int) -> Examination:
    """The examination of a program that is about to be run on its data: as these are shaped.

    Records of another shape than were made up are made up anew in theirs, before any is run on;
    and the program may hold nothing of them.
    """
    with opened() as files:
        data = mechanism.load()
    shape = _public_shape(mechanism, data, examination)
    if shape != examination.shape:
        again = examine(mechanism, seed=seed, shape=shape, data=data)
        if shape.rows < FEWEST_RECORDS and not examination.not_examined:
            # So few records show what is wrong; that nothing is, more of them showed before.
            again = replace(examination, findings=(*examination.findings, *again.broken))
        examination = again
    # Findings of the examination are not repeated; an examination that was refused has none.
    details = {finding.detail for finding in examination.findings}
    findings_held = [
        finding for finding in held_by(mechanism, data) if finding.detail not in details
    ]
    loader = mechanism.records
    together = grouped(mechanism.declaration)[1]
    mixed = () if loader is None else mixing(loader, data, files, together)
    more = (*findings_held, *mixed, *read_by_others(files, examination))
    return replace(examination, findings=(*examination.findings, *more))


def without_guessed_shape(mechanism: Mechanism, examination: Examination, seed: int) -> Examination:
    """The examination in the data's shape, where guessed ones broke something, or none fitted.

    A program for rows of one column need not bear rows of five: what is wrong with it there is no
    finding, and its records() say what its rows are.  Data that cannot be loaded leave it as it is.
    """
    unfit = bool(examination.not_examined) and not examination.stopped
    if not (examination.broken or unfit):
        return examination
    if mechanism.records is None or mechanism.records_like is not None:
        return examination
    try:
        data = mechanism.load()
    except Exception:  # noqa: BLE001  (the loader's own error; what is broken is told without it)
        return examination
    shape = _public_shape(mechanism, data, examination)
    if shape == examination.shape:
        return examination
    return examine(mechanism, seed=seed, shape=shape, data=data)


def _public_shape(mechanism: Mechanism, data: Records, examination: Examination) -> Shape:
    """The shape of the data's rows, and their number where neighbours share it."""
    shape = shape_like(data)
    if mechanism.scope.adjacency is Adjacency.ADD_REMOVE:
        # How many records there are is private: as many as were made up before, or would be.
        rows = ROWS if examination.shape is None else examination.shape.rows
        return Shape(rows, shape.row)
    return shape


def not_run(order: Order, verdict: Verdict, findings: Sequence[Finding], options: Options) -> str:
    """Why the program does not get to see its data; empty where it does, or has none."""
    if order.mechanism.records is None and order.draw is None:
        return ""
    if any(finding.status == "broken" for finding in findings):
        return "it was not run on the data: a check of its implementation is broken"
    if options.run_unproved or verdict in (
        Verdict.CERTIFIED,
        Verdict.CERTIFIED_UNDER_ASSUMPTIONS,
    ):
        return ""
    return (
        f"it was not run on the data: its claims, taken together, are {verdict}; "
        "`dpaudit certify --run-unproved` runs it nevertheless"
    )


def run_once(mechanism: Mechanism, options: Options) -> Json:
    """Run the program once on its own data; only released values and covered metrics leave."""
    before, run = Before(mechanism), _OnData(mechanism, options)
    if options.keep is not None and options.seed is None:
        output, file = options.keep(mechanism.name, run.draw)
    else:
        output, file = run.draw(), None
    again = None if run.transcript is None else Again(mechanism, before, run.shape, run.transcript)
    metrics, notes = _metrics(mechanism, output, again, options)
    notes += [] if again is None else again.of_output(output)
    if options.seed is not None:
        notes.append(
            "a seeded demonstration: who knows the seed can subtract its noise; do not release it"
        )
    return {
        # Under add_remove the number of records is itself private.
        "records": None if mechanism.scope.adjacency is Adjacency.ADD_REMOVE else run.shape[0],
        "entropy": options.entropy,
        "metrics": metrics,
        "notes": notes,
        "output": file,
    }


class ReadAgain(Exception):
    """The run on the data read a file of the data beside its queries."""

    def __init__(self, findings: tuple[Finding, ...]) -> None:
        super().__init__()
        self.findings = findings


class _OnData:
    """A run on the data: its transcript once it is drawn, and the records' shape.

    No frame that outlives :meth:`draw`, and no field, holds the records.
    """

    def __init__(self, mechanism: Mechanism, options: Options) -> None:
        self._mechanism, self._seed = mechanism, options.seed
        self.transcript: Sequence[Event] | None = None
        self.shape: tuple[int, ...] = mechanism.load().values.shape

    def draw(self) -> Any:
        declaration, scope = self._mechanism.declaration, self._mechanism.scope
        rng: Any = SystemGenerator()
        if self._seed is not None:
            rng = np.random.default_rng([self._seed, 1])
        with opened() as data:
            sampler = Guarded(declaration, scope, self._mechanism.load(), rng=rng)
        with opened() as read:
            output = self._run(sampler)
        # It did so on no made-up records: it may tell made-up records from real ones.
        findings = read_by_others(data, Examination(opened=frozenset(read)))
        if findings:
            raise ReadAgain(findings)
        self.transcript = sampler.transcript
        return output

    def _run(self, sampler: Sampler) -> Any:
        """The program's output; an error of its own is reported by type and line only."""
        try:
            return self._mechanism.program.run(sampler)
        except DpauditError:
            raise
        except Exception as error:
            if os.environ.get(TRACEBACK):
                raise
            cause = f"{type(error).__name__}{at(line_of_error(error))}"
            raise InvalidParameter(
                f"{self._mechanism.name}: its program fails in its run on the data ({cause}), of "
                "which nothing was written; let it run on any records of the data's shape, or "
                "certify the mechanism without its records"
            ) from None


def _metrics(
    mechanism: Mechanism,
    output: Any,
    again: Again | None,
    options: Options,
) -> tuple[list[Json], list[str]]:
    """Rows of a run's metrics, and what went wrong with them: the output is drawn by now.

    Those that are not covered are left out, unless they are asked for.
    """
    if mechanism.evaluate is None or again is None:
        return [], []
    rows: list[Json] = []
    notes: list[str] = []
    try:
        for number, metric in enumerate(mechanism.evaluate(output)):
            why = again.uncovered(number, metric)
            if why and not options.uncovered:
                named = why in (BY_AUTHOR, ANOTHER)
                name = repr(metric.name) if named else f"number {number + 1}"
                notes.append(
                    f"metric {name} is left out, for the guarantee does not cover it: {why}; "
                    "`dpaudit certify --uncovered` prints it"
                )
                continue
            note = f"not covered: {why}" if why and metric.covered else ""
            row = {
                "name": metric.name,
                "value": written(metric.value),
                "covered": False if why else metric.covered,
                "note": "; ".join(filter(None, (metric.note, note))),
            }
            fits("run", {**_NO_METRICS, "metrics": [row]})
            rows.append(row)
    except Exception as error:  # noqa: BLE001  (its text may hold anything; the run has happened)
        failure = f"{type(error).__name__} while metrics of the output were computed or written"
        return rows, [*notes, f"{failure}: those from number {len(rows) + 1} on are missing"]
    return rows, notes
