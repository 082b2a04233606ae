"""A mechanism run once on a user's records: attacked, charged, drawn and written, in this order.

A drawn output is never drawn again.  Interrupted before the charge, a run resumes with the audits
that it finished; interrupted while it drew, its budget is spent and it is refused; interrupted
after its output was written, it goes on to write the certificate of that output.
"""

from __future__ import annotations

import json
import secrets
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from dpaudit.audit.examine import Unknown, shape_of
from dpaudit.certificate.cache import Files, files_of
from dpaudit.certificate.certificate import Json
from dpaudit.certificate.certify import certify_one
from dpaudit.certificate.order import Options, Order, plan
from dpaudit.certificate.previous import Opened
from dpaudit.certificate.publish import (
    clean,
    confirmed,
    output_bytes,
    output_row,
    rescued,
    write_one,
)
from dpaudit.curator.locations import at, line_of_error
from dpaudit.curator.mechanism import Mechanism
from dpaudit.curator.parameters import in_words, shown
from dpaudit.curator.rehearsal import in_shape, rehearse
from dpaudit.errors import (
    Disagreement,
    DpauditError,
    InvalidParameter,
    OutputNotWritable,
    ReleaseInterrupted,
    Undeclared,
)
from dpaudit.exact.wire import digest
from dpaudit.kernels.query import Records
from dpaudit.ledger import Costs, Ledger
from dpaudit.scope import NOT_STATED, Adjacency, name_key
from dpaudit.storage.files import write_atomically

AUTHORS = "stated by the catalogue's authors, of their runs"
SPENT = "count its budget as spent; a new draw is a new run, into another --out"


@dataclass(frozen=True)
class Account:
    """Where a run is charged: a data set's budget in a ledger, and what one unit of it is.

    ``delta``: at which the run is charged, where deltas add up.
    """

    ledger: Ledger
    dataset: str
    entity: str
    delta: Fraction | None = None


def refuse_other_unit(mechanism: Mechanism, entity: str) -> None:
    """Refuse to charge a guarantee for one unit to a budget of another.

    Errors: InvalidParameter where the mechanism states another entity, or a part of one's time.
    """
    setting = mechanism.setting
    stated = setting.unit_entity
    other = stated != NOT_STATED and name_key(stated) != name_key(entity)
    if other or setting.unit_period:
        period = f", period {setting.unit_period}" if setting.unit_period else ""
        raise InvalidParameter(
            f"{mechanism.name}: its guarantee is for one {stated}{period}, and the account is kept "
            f"for one {entity}; charge an account of that unit, or certify it for one {entity}"
        )


@dataclass(frozen=True)
class Written:
    """The files of a run: output, certificate and page; the ledger's head after it, if any."""

    output: Path
    files: Files
    certificate: Json
    head: str | None


def for_records(
    order: Order, records: Records, name: str, values: Mapping[str, Any] | None = None
) -> Order:
    """The order for these records, of which its declaration knows the shape alone.

    ``values``: of its free parameters, the others as they ship.

    Their number too is left out under add_remove.  A suite made for the mechanism's own data goes
    where the program changes.  Nothing is evaluated: its own held-out rows say nothing here.
    The authors of a catalogue's mechanism do not speak for whoever runs it: their controller is
    left out, and the accesses that they state become notes, as theirs.
    Errors: those of the mechanism's ``for_shape``, for a shape that it has no use for.
    """
    count = None if order.mechanism.scope.adjacency is Adjacency.ADD_REMOVE else len(records)
    row = tuple(records.values.shape[1:])
    shaped = order if order.mechanism.for_shape is None else of_shape(order, count, row, values)
    setting = replace(shaped.mechanism.setting, data=name)
    if order.root == "catalogue":
        notes = (f"{AUTHORS}: {text}" for text in setting.uncovered)
        setting = replace(
            setting, controller=NOT_STATED, uncovered=(), notes=(*setting.notes, *notes)
        )
    mechanism = replace(
        shaped.mechanism, setting=setting, records=lambda: records, evaluate=None, for_shape=None
    )
    return replace(shaped, mechanism=mechanism)


def of_shape(
    order: Order,
    count: int | None,
    row: tuple[int, ...],
    values: Mapping[str, Any] | None = None,
) -> Order:
    """The order for other records of this shape, without data, at values of its free parameters.

    Its certificate states the value of every free parameter.
    Errors: InvalidParameter for a mechanism that says nothing of other shapes; those of its hook.
    """
    hook = order.mechanism.for_shape
    if hook is None:
        raise InvalidParameter(
            f"{order.mechanism.name}: it has no for_shape, so it is the same for every shape"
        )
    mechanism = hook(count, row, **(values or {}))
    stated = in_words(hook, values or {})
    setting = replace(
        mechanism.setting, notes=(*mechanism.setting.notes, *([stated] if stated else []))
    )
    return replace(order, mechanism=replace(mechanism, records=None, setting=setting), suite=None)


def set_words(values: Mapping[str, Any]) -> tuple[str, ...]:
    """The words of a command that set these values."""
    return tuple(word for key in values for word in ("--set", f"{key}={shown(values[key])}"))


def read_shape(text: str) -> tuple[int | None, tuple[int, ...]]:
    """``500,11`` as 500 records of 11 numbers, ``,11`` as some; errors: InvalidParameter."""
    first, *row = text.split(",")
    if row and all(part.isdecimal() and int(part) > 0 for part in [first or "1", *row]):
        return (int(first) if first else None), tuple(map(int, row))
    raise InvalidParameter(f"shape {text[:40]!r}: expected counts, such as 500,11 or ,11")


def shape_text(mechanism: Mechanism, records: Records) -> str:
    """The text that :func:`read_shape` reads; without the number of records where it is private."""
    private = mechanism.scope.adjacency is Adjacency.ADD_REMOVE
    return ",".join(map(str, ["" if private else len(records), *records.values.shape[1:]]))


def train(
    order: Order,
    records: Records,
    out: Path,
    options: Options,
    account: Account | None = None,
    values: Mapping[str, Any] | None = None,
    warn: Callable[[str], object] = warnings.warn,
) -> Written:
    """Run an order's mechanism once on these records; ``out`` is the .npz file of its output.

    ``values``: of the mechanism's free parameters; the others are as they ship.  ``warn`` is told,
    before anything is charged, where the noise exceeds what the records can contribute, or the set
    that models stay in.

    ``options`` must have no seed: the noise is the operating system's.  The audits' seed is drawn
    once, and kept beside ``out`` until all is written.
    Errors: InvalidParameter for records that the mechanism does not fit, and Disagreement where a
    claim is refuted, unproved or broken by an audit, before data are
    touched and anything is charged (``options.run_unproved`` runs unproved ones all the same);
    Undeclared where this was run before, or was interrupted while it drew; ReleaseInterrupted
    where drawing fails; those of the ledger.
    """
    if options.seed is not None:
        raise InvalidParameter("a run on data has no seed: who knows it can subtract the noise")
    values = values or {}
    shaped = for_records(order, records, out.stem, values)
    for sentence in rehearsed(shaped.mechanism, records):
        warn(f"{shaped.mechanism.name}: {sentence}")
    shape = shape_text(order.mechanism, records)
    targets = options.targets or (order.mechanism.name,)
    if order.mechanism.for_shape is not None:
        targets = (*targets, "--shape", shape, *set_words(values))
    run = _Run(shaped.mechanism, out, account, " ".join([shape, *set_words(values)]))
    seed = run.begin()
    opened = Opened()
    if not run.certified():
        store = out.with_name(f".{out.stem}.audits")
        given = replace(options, audit_seed=seed, keep=run.keep, store=store, targets=targets)
        certified = certify_one(plan([shaped], given), 0)
        if certified.certificate["predicate"]["run"] is None:
            clean(certified, store)
            run.forget()
            raise Disagreement(
                f"{shaped.mechanism.name}: {certified.judged[0].reason}; no data were touched, and "
                "nothing was charged"
            )
        write_one(certified, out.parent, store, opened=opened)
        clean(certified, store)
    written = opened.read(run.files.certificate)
    certificate, _ = confirmed(written)
    output = certificate["predicate"]["run"]["output"]["digest"]["sha256"]
    head = run.finish({out.name: output, written.path.name: written.sha256})
    run.forget()
    return Written(out, run.files, certificate, head)


def rehearsed(mechanism: Mechanism, records: Records) -> list[str]:
    """Sentences about a mechanism's noise; records that do not fit are refused before a draw.

    Errors: InvalidParameter where the mechanism refuses their shape, or fails on zeros.
    """
    try:
        return rehearse(mechanism, records)
    except InvalidParameter as error:
        cause = str(error)
    except DpauditError:
        raise
    except Exception as error:  # noqa: BLE001  (on zeros, whatever it is the draw would meet it)
        cause = f"{type(error).__name__}{at(line_of_error(error))}"
    raise InvalidParameter(
        f"{mechanism.name}: it does not run on records of shape {in_shape(mechanism, records)}: "
        f"{cause}; no data were touched, and nothing was charged{_runs_on(mechanism)}"
    )


def _runs_on(mechanism: Mechanism) -> str:
    """Records that a mechanism runs on, where they are found out; the end of a message."""
    try:
        shape = shape_of(mechanism.program, mechanism.declaration, mechanism.scope)
    except Unknown:
        return ""
    private = mechanism.scope.adjacency is Adjacency.ADD_REMOVE
    return f"; it runs on {'' if private else f'{shape.rows:,} '}records of shape {shape.row}"


@dataclass
class _Run:
    """How far a run has come, in two files beside its output: begun, and drawing."""

    mechanism: Mechanism
    out: Path
    account: Account | None
    shape: str

    @property
    def begun(self) -> Path:
        return self.out.with_name(f".{self.out.stem}.run")

    @property
    def drawing(self) -> Path:
        return self.out.with_name(f".{self.out.stem}.drawing")

    @property
    def files(self) -> Files:
        return files_of(self.out.stem, self.out.parent)

    @property
    def identity(self) -> str:
        """A digest of what is run, at which values, on which shape; nothing of the records."""
        return digest(
            {
                "name": self.mechanism.name,
                "declaration": self.mechanism.declaration.digest,
                "scope": str(self.mechanism.scope),
                "claims": [claim.text for claim in self.mechanism.claims],
                "shape": self.shape,
            }
        )

    @property
    def release(self) -> str:
        """The permanent name of this run in a ledger."""
        return f"{self.out.stem}:{self.identity}"

    def begin(self) -> int:
        """The seed of the audits, new or of a run that was interrupted; errors as :func:`train`."""
        if not self.begun.exists():
            for path in (self.out, self.files.certificate, self.drawing):
                if path.exists():
                    raise Undeclared(f"{path} is there: an earlier run wrote it; {SPENT}")
            seed = secrets.randbits(128)
        else:
            seed = self._resumed()
        if self.account is not None and not self.drawing.exists():
            refuse_other_unit(self.mechanism, self.account.entity)
            self.account.ledger.admit(
                self.account.dataset,
                self.account.entity,
                self.mechanism.scope,
                self._cost(self.account),
                self.release,
                self._title,
            )
        table = {"identity": self.identity, "seed": f"{seed:032x}"}
        write_atomically(self.begun, json.dumps(table).encode())
        return seed

    def _resumed(self) -> int:
        try:
            state = json.loads(self.begun.read_text("utf-8"))
            seed, identity = int(state["seed"], 16), state["identity"]
        except (OSError, ValueError, LookupError, TypeError):
            raise Undeclared(f"{self.begun}: cannot be read; {SPENT}") from None
        if identity != self.identity:
            raise Undeclared(
                f"{self.begun}: another mechanism, or data of another shape, was begun there; "
                "choose another --out"
            )
        if self.drawing.exists() and not self.out.exists():
            raise Undeclared(
                f"{self.drawing}: this run was interrupted while it drew, or runs now; {SPENT}"
            )
        return seed

    def certified(self) -> bool:
        """Whether the output and its certificate were written: the ledger may not know it yet."""
        return self.out.exists() and self.files.certificate.exists()

    def keep(self, _: str, draw: Callable[[], Any]) -> tuple[Any, Json]:
        """Charge, draw and write; or what was drawn and written before."""
        if self.out.exists():
            return None, output_row(self.out.name, self.out.read_bytes())
        if self.account is not None:
            self._charge(self.account)
        try:
            self.drawing.touch(exist_ok=False)
        except OSError as error:
            raise Undeclared(f"{self.drawing}: {error.strerror}; {SPENT}") from None
        try:
            output = draw()
            content = output_bytes(output)
        except BaseException as error:  # noqa: BLE001  (an interrupt spends the budget too)
            # The exception's text may quote private data; only its kind is shown.
            error_text = type(error).__name__
            raise ReleaseInterrupted(
                f"{self.mechanism.name} was interrupted while it drew ({error_text}): {SPENT}"
            ) from None
        try:
            write_atomically(self.out, content)
        except OutputNotWritable as error:
            error_text = f"{error}; {rescued({self.out: content})}"
            raise ReleaseInterrupted(f"{self.mechanism.name}: {error_text}") from None
        return output, output_row(self.out.name, content)

    def forget(self) -> None:
        """All is written, or nothing was drawn."""
        for path in (self.begun, self.drawing):
            path.unlink(missing_ok=True)

    def finish(self, digests: Mapping[str, str]) -> str | None:
        """Tell the ledger what was written, by SHA-256; its head, without a ledger None."""
        if self.account is None:
            return None
        ledger, dataset = self.account.ledger, self.account.dataset
        if self._title not in ledger.state(dataset).unfinished:
            return ledger.state(dataset).head
        return ledger.finish(dataset, self.release, digests)

    def _charge(self, account: Account) -> None:
        account.ledger.charge(
            account.dataset,
            account.entity,
            self.mechanism.scope,
            self._cost(account),
            self.release,
            self._title,
            declaration=self.mechanism.declaration.digest,
        )

    def _cost(self, account: Account) -> Costs:
        return account.ledger.costs(account.dataset, self.mechanism.declaration, account.delta)

    @property
    def _title(self) -> str:
        return f"{self.mechanism.name}, {self.out.stem}"
