"""A release run once: charged, drawn from the operating system's entropy, written exactly."""

from __future__ import annotations

import fcntl
import io
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from dpaudit.accountant.filters.charges import Amounts
from dpaudit.audit.verdict import Verdict
from dpaudit.certificate import publish as certificates
from dpaudit.certificate.certify import Certified, certify
from dpaudit.certificate.errata import errata_file
from dpaudit.certificate.evidence import FEWEST_TRIALS
from dpaudit.certificate.order import Options
from dpaudit.certificate.previous import Opened, previous_of
from dpaudit.check.assumptions import SYSTEM
from dpaudit.curator.curator import Curator, Request
from dpaudit.curator.entitlement import Grant
from dpaudit.errors import (
    Disagreement,
    DpauditError,
    InvalidParameter,
    OutputNotWritable,
    ReleaseInterrupted,
    described,
)
from dpaudit.exact import decimal_lower, decimal_upper
from dpaudit.exact.domains import integer
from dpaudit.kernels.base import Session, exact_kernels
from dpaudit.kernels.query import Array, Records
from dpaudit.kernels.random_bits import Whole, bits_of, uniform_below
from dpaudit.kernels.system import SystemGenerator
from dpaudit.ledger import Costs, Ledger, LedgerRefused, Publication, open_ledger
from dpaudit.ledger.book import CHARGED, RELEASED, Entry
from dpaudit.nodes import Node
from dpaudit.releases.attacked import order_of, records_like
from dpaudit.releases.items.counts import Count
from dpaudit.releases.items.item import Choice, Declared, Row, Thresholded, Vector
from dpaudit.releases.plan import Plan, Release, name_of
from dpaudit.releases.post import ROUND, Consistent, counted, processed
from dpaudit.releases.program import (
    GeneratedTables,
    PartQuery,
    ReleaseProgram,
    Values,
    exact_values,
)
from dpaudit.releases.programs import records_of
from dpaudit.releases.runs import Chosen, Runs
from dpaudit.releases.synthetic import NAME, synthesised
from dpaudit.storage.csv_text import csv_text
from dpaudit.storage.evidence import strict_json
from dpaudit.storage.files import writable, write_atomically, write_new, write_together
from dpaudit.tabular import OpenTable, Table
from dpaudit.tabular.part import arrow_numbers, arrow_texts
from dpaudit.tabular.schema import text_of

Progress: TypeAlias = Callable[[str, int, int], None]
TRIALS = 2000  # of the audit of a release
MOST_SHOWN = 100  # published numbers that a certificate holds; their files hold all
MOST_RUNS = 10_000  # of candidates with different scores, and of keys, in a rehearsal
PLAN = "plan.toml"
CERTIFICATE = "certificate"  # the folder of a release's certificate, in the release's own
# Columns of a published table.
COLUMNS = (
    "item",
    "keys",
    "statistic",
    "value",
    "error_95",
    "error_covers",
    "not_covered",
    "digits",
    "budget",
    "note",
)


class Publisher(Curator):
    """Answers once, from exact values, with exact noise of the operating system's entropy.

    ``drawn``: whole numbers by label: noisy values, places that were chosen, or counts by key.
    Errors: InvalidParameter for a leaf without an exact kernel.
    """

    def __init__(self, plan: Plan, values: Values) -> None:
        # The values are asked of the queries' reader: no record passes through here.
        super().__init__(plan.declaration, plan.release.scope, Records(np.zeros((1, 1))), 1)
        self._values = values
        self._bits = bits_of(None)
        self.drawn: dict[str, Any] = {}

    def coin(self, draw: Any) -> Array:
        raise InvalidParameter("a release draws no public coin")

    def _draw(self, sampling: Node, size: int) -> list[Any]:
        raise InvalidParameter("a release draws no secret batch")

    def _open_session(self, grant: Grant) -> Session:
        kernel = exact_kernels().get(type(grant.leaf))
        if kernel is None:
            raise InvalidParameter(f"{grant.leaf.head}: no exact sampler; a release needs one")
        session: Session = kernel(grant.leaf, self.trials)
        return session

    def _rehearse(self, request: Request) -> None:
        request.session.admit(request.scale, 1)

    def _answer(self, request: Request) -> Array:
        query, session = request.query, request.session
        assert isinstance(query, PartQuery)  # noqa: S101  (the program is ours)
        exact: Any = self._values[request.label]
        if isinstance(exact, dict):
            noise = session.draw(len(exact), self._bits)  # type: ignore[attr-defined]
            noisy = {k: v + int(n) for (k, v), n in zip(exact.items(), noise, strict=True)}
            least = int(session.leaf.threshold)  # type: ignore[attr-defined]
            self.drawn[request.label] = {k: v for k, v in noisy.items() if v >= least}
            return np.zeros((1, 1))
        if isinstance(query.part, Choice):
            return self._chosen(request, exact)
        if isinstance(exact, Chosen):
            assert query.chosen is not None  # noqa: S101  (its choice is drawn before)
            exact = exact.at(int(query.chosen[0]))
        noise = session.draw(len(exact), self._bits)  # type: ignore[attr-defined]
        self.drawn[request.label] = [v + int(n) for v, n in zip(exact, noise, strict=True)]
        return np.array([self.drawn[request.label]], dtype=np.float64)

    def _chosen(self, request: Request, exact: Runs) -> Array:
        before = self.drawn.setdefault(request.label, [])
        for place in before:
            exact = exact.without(place)
        moved, session = int(request.sensitivity[0]), request.session
        (run,) = session.choices(exact.scores, exact.sizes, moved, 1, self._bits)  # type: ignore[attr-defined]
        # All candidates of a run have the same score.
        within = uniform_below(exact.sizes[[run]], self._bits)[0]
        place = int(exact.firsts[run] + within)
        before.append(place)
        return np.array([[place]], dtype=np.float64)


@dataclass(frozen=True, eq=False)
class BoundValues:
    """A reader of values that are known."""

    found: Values

    def values(self, records: Records) -> Values:
        return self.found

    def keys(self, label: str) -> tuple[str, ...]:
        values = self.found[label]
        return tuple(values) if isinstance(values, dict) else ()

    def starts(self, part: Choice) -> Whole:
        raise InvalidParameter("a choice of a release is drawn from its own runs")

    def records(self, columns: Sequence[str], records: Records) -> Records:
        raise InvalidParameter("a program is run on rows")


def draw(
    plan: Plan, values: Values, rows: Callable[[Sequence[str]], Records] | None = None
) -> dict[str, Any]:
    """One draw of every part, exactly; of programs in floats, on ``rows`` of some columns."""
    programs = {k: part for k, part in plan.parts.items() if isinstance(part, Declared)}
    exact = {k: part for k, part in plan.parts.items() if k not in programs}
    publisher = Publisher(plan, values)
    ReleaseProgram(replace(plan, parts=exact), BoundValues(values)).run(publisher)
    for label, part in programs.items():
        if rows is None:
            raise InvalidParameter(f"{label}: a program is run on rows")
        item, node = part.program, plan.leaves[label]
        generator: Any = SystemGenerator()
        publisher.drawn[label] = item.run(node, plan.release.scope, rows(item.columns), generator)
    return publisher.drawn


def rehearse(plan: Plan, targets: Mapping[str, Path]) -> None:
    """Draw a release of generated values of the same size, and make its files, in memory only.

    Thereby a release that is too large for this machine fails before it is charged.
    Errors: InvalidParameter.
    """
    values: dict[str, Any] = {}
    for label, part in plan.parts.items():
        if isinstance(part, Choice):
            # Scores that differ from candidate to candidate, as far as a table's rows let them.
            runs = min(part.candidates, MOST_RUNS)
            firsts = np.arange(runs, dtype=np.int64)
            sizes = np.diff(firsts, append=part.candidates)
            values[label] = Runs(firsts, sizes, np.zeros(runs, dtype=np.int64))
        elif isinstance(part, Vector):
            values[label] = (0,) * part.cells
        elif isinstance(part, Thresholded):
            values[label] = dict.fromkeys(map(str, range(MOST_RUNS)), 0)
    tables = GeneratedTables(plan.release)
    units = records_like(plan, np.random.default_rng(0))
    try:
        try:
            drawn = draw(plan, values, partial(tables.records, records=units))
        except Exception as error:
            # A program may need other rows than the generated ones; only its size is tested here.
            if isinstance(error, MemoryError) or not _holds_programs(plan):
                raise
            return
        contents_of(plan, drawn, published_rows(plan, drawn), targets)
    except MemoryError as error:
        raise InvalidParameter(
            f"{plan.release.title!r} does not fit into this machine's memory ({str(error)[:80]}); "
            "choose larger steps, fewer keys or fewer candidates. Nothing was charged"
        ) from None


def _holds_programs(plan: Plan) -> bool:
    return any(isinstance(part, Declared) for part in plan.parts.values())


def published_rows(plan: Plan, drawn: Mapping[str, Any]) -> list[Row]:
    """The rows that are published: of every item, then post-processed."""
    release = plan.release
    schema, items = release.schema, {item.name: item for item in release.items}
    margins = Consistent(plan.margins, plan.halves)
    consistent = counted(schema, items, release.post, drawn, plan.margins)
    rows = [
        replace(row, not_covered=item.not_covered(schema))
        for item in release.items
        for row in (
            item.rows(schema, drawn, plan.margins)
            if isinstance(item, Count)
            else item.rows(schema, consistent, margins)
        )
    ]
    rows = processed(schema, items, release.post, rows, plan.margins, plan.halves)
    synthetic = synthesised(plan, rows)
    # First, because a page shows the first hundred numbers.
    return rows if synthetic is None else [*synthetic.rows, *rows]


@dataclass(frozen=True)
class Published:
    """A release that was written: its files, and the head of the ledger after it.

    ``rows``: empty of a release that an earlier run drew.  ``verdict`` and ``reason``: of its
    certificate; "" where none was asked for.  ``errata``: of a correction, the files in which the
    corrected release now says so.
    """

    files: tuple[Path, ...]
    rows: tuple[Row, ...]
    head: str | None
    verdict: str = ""
    reason: str = ""
    errata: tuple[str, ...] = ()


class Unrecorded(Enum):
    """The choice to charge a release to no ledger, so that no budget is kept."""

    NO_LEDGER = "no ledger"


NO_LEDGER = Unrecorded.NO_LEDGER


def ledger_of(release: Release, given: Ledger | None) -> Ledger | None:
    """Where a release is charged: in the ledger that its plan names, else in what is given.

    Errors: InvalidParameter where another one is given than the plan's; LedgerUnavailable.
    """
    if release.ledger is None:
        return given
    own = open_ledger(release.ledger, folder=release.folder)
    if given is not None and given.place != own.place:
        raise InvalidParameter(
            f"ledger {given.place}: {release.title!r} is charged in {own.place}, which its plan "
            "names; leave the other one out, or change `ledger` in the plan"
        )
    return own


def _book(release: Release, asked: Ledger | Unrecorded | None) -> Ledger | None:
    """The ledger to charge; None only where that was asked for, of a plan that names none."""
    book = ledger_of(release, None if asked is NO_LEDGER else asked)
    if book is not None and asked is NO_LEDGER:
        raise InvalidParameter(
            f"NO_LEDGER (--no-ledger): {release.title!r} is charged in {book.place}, which its "
            "plan names; leave one of the two out"
        )
    if book is None and asked is not NO_LEDGER:
        raise InvalidParameter(
            f"{release.title!r}: its plan names no ledger; give one, or NO_LEDGER (--no-ledger) to "
            "publish though nothing remembers it"
        )
    return book


def publish(
    plan: Plan,
    data: Any,
    out: Path | str,
    *,
    ledger: Ledger | Unrecorded | None = None,
    name: str = "release",
    file: str = PLAN,
    trials: int = TRIALS,
    progress: Progress | None = None,
    notice: Callable[[Mapping[str, int]], None] | None = None,
) -> Published:
    """Run a plan once on private data, and write its certificate beside what is published.

    ``ledger``: where it is charged; None is the ledger that the plan names, and NO_LEDGER none at
    all, of a plan that names none.  ``file``: what the plan is called in the command that makes the
    certificate again.  ``notice``: hears, before the charge, how many rows the schema's policies
    leave out or count with another value; that is not private, and is published nowhere.

    In this order: the folder, whether the ledger would take it, the types of the columns, values
    that the schema declares to be errors (told to the caller, published nowhere), a rehearsal of
    the draw and the files on generated values of the same size, an attack on
    made-up tables (``trials`` a side; none, and no certificate, for 0), the charge, the sums, the
    draw, the files, the certificate.  A release that was interrupted after its JSON was written is
    finished from that file: its other files, the ledger's entry, the certificate; nothing is drawn.
    Errors: InvalidParameter for another ledger than the plan's, for none without NO_LEDGER, or for
    too few trials; everything before the charge leaves nothing spent; ReleaseInterrupted after it,
    where the charge stays spent.  LedgerRefused where this release was charged, or written here,
    before; Disagreement where the plan's certificate does not certify it.
    """
    check_trials(trials)
    release, out = plan.release, Path(out)
    book = _book(release, ledger)
    targets = targets_of(out, name)
    with _alone(out):
        before = _before(plan, targets, book, certificate=bool(trials))
        table = None
        if before is None:
            if book is not None:
                admitted(book, plan)
                if release.corrects:
                    book.published(release.schema.name, release.corrects)
            table = Table(release.schema, data).opened(release.digest)
            table.check()
            if notice is not None and (changes := table.changes()):
                notice(changes)
            rehearse(plan, targets)
        once, opened = _Once(plan, table, targets, book, before), Opened()
        if not trials:
            once.row()
            return _corrected(once.done, plan, book, opened)
        certificate = certified(plan, trials, progress, once.row, file, once.ready_made)
        done = with_certificate(once.done, certificate, out, release, book, opened)
        return _corrected(done, plan, book, opened)


def check_trials(trials: int) -> None:
    """Errors: InvalidParameter for an attack of too few trials; 0 is no attack."""
    if trials:
        integer(trials, "trials", FEWEST_TRIALS)


def with_certificate(
    done: Published,
    made: Certified,
    out: Path,
    release: Release,
    ledger: Ledger | None,
    opened: Opened | None = None,
) -> Published:
    """Write the certificate of what was published, its page, and the index of its folder.

    ``ledger``: knows the folders of earlier releases, since which the page says what changed.
    ``opened``: the certificates that this command has opened.
    """
    earlier, folder = _folders(release, ledger), out / CERTIFICATE
    opened = opened or Opened()
    pages = certificates.write_one(made, folder, name=release.name, folders=earlier, opened=opened)
    certificates.index_of(folder, {pages.certificate: made.certificate}, opened)
    return replace(
        done,
        files=(*done.files, pages.certificate, pages.page),
        verdict=str(made.verdict),
        reason=made.judged[0].reason,
    )


def _folders(release: Release, ledger: Ledger | None) -> tuple[Path, ...]:
    """The folders of certificates of releases from the same data, and from the same populations.

    A ledger that does not answer leaves a page without what changed, and no release without a page.
    """
    if ledger is None:
        return ()
    try:
        accounts = ledger.accounts(release.schema.name)
        names = dict.fromkeys(
            life.dataset or account.name for account in accounts for life in account.releases
        )
        lives = [life for name in names for life in ledger.state(name).releases]
    except DpauditError:
        return ()
    return tuple(Path(life.folder) / CERTIFICATE for life in lives if life.folder)


def _corrected(done: Published, plan: Plan, ledger: Ledger | None, opened: Opened) -> Published:
    """After a correction, the erratum beside the release that it corrects."""
    release = plan.release
    if ledger is None or not release.corrects:
        return done
    corrected = ledger.published(release.schema.name, release.corrects)
    return replace(done, errata=with_errata(corrected, opened))


def with_errata(release: Publication, opened: Opened | None = None) -> tuple[str, ...]:
    """Write a release's errata where it was published; what was written, or what to do, in lines.

    A release whose files were moved, or whose folder cannot be written, has its errata in the
    ledger alone.  ``opened``: the certificates that this command has opened.
    """
    page = Path(release.folder) / CERTIFICATE / f"{name_of(release.title)}.json"
    try:
        if not release.folder:
            raise FileNotFoundError
        return tuple(map(str, write_errata(page, release.errata, opened)))
    except (DpauditError, OSError):
        return (
            f"{release.title!r} is not in {release.folder or 'a folder that the ledger knows'}; "
            f"put into {errata_file(page).name}, beside its certificate: "
            f"{' '.join(release.errata)}",
        )


def write_errata(
    certificate: Path, errata: Sequence[str], opened: Opened | None = None
) -> tuple[Path, ...]:
    """Write the errata of a certificate, and its page anew with them; the files.

    Errors: CertificateRejected for what is no certificate; OutputNotWritable.
    """
    # Pages load templates and messages, which a release without errata has no use for.
    from dpaudit.certificate.rendering import Signers, signed_by
    from dpaudit.check.file import parsed
    from dpaudit.report import render_html
    from dpaudit.report.verifier import beside

    opened = opened or Opened()
    file = opened.read(certificate)
    statement = parsed(file)
    signed = signed_by(file, Signers(), statement)
    previous = previous_of(statement, folders=(certificate.parent,), opened=opened)
    page = certificate.with_suffix(".html")
    lines = [" ".join(line.split()) for line in errata]
    contents = {
        errata_file(certificate): "".join(f"{line}\n" for line in lines).encode(),
        page: render_html(
            statement, signed, errata=lines, previous=previous, verifier=beside(page.parent)
        ).encode(),
    }
    write_together(contents)
    return tuple(contents)


@contextmanager
def _alone(out: Path) -> Iterator[None]:
    """The folder, in which no other release runs until the end, whatever ends it.

    Errors: OutputNotWritable; LedgerRefused.
    """
    try:
        writable(out)
        handle = os.open(out, os.O_RDONLY)
    except OutputNotWritable as error:
        raise OutputNotWritable(f"{error}. Nothing was charged") from None
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LedgerRefused(f"{out}: another release runs here") from None
        yield
    finally:
        os.close(handle)


@dataclass(frozen=True)
class _Before:
    """The draw of an interrupted run: the JSON that it wrote, and its last entry.

    ``head``: of the ledger after it was finished there; None where it was not.
    """

    content: bytes
    head: str | None


def _before(
    plan: Plan, targets: Mapping[str, Path], ledger: Ledger | None, *, certificate: bool
) -> _Before | None:
    """An interrupted run of this release in its folder, if it can be finished; None without one.

    Errors: LedgerRefused where the folder holds something else, or all of the release.
    """
    release, files = plan.release, [str(path) for path in targets.values() if path.exists()]
    if not files:
        return None
    try:
        content = targets["json"].read_bytes()
        body = strict_json(content)
        ours = isinstance(body, dict) and body.get("release") == release.digest
    except (OSError, ValueError):
        ours = False
    if not ours and targets["marker"].exists():
        raise LedgerRefused(
            f"{targets['marker']}: a release was interrupted here; count its budget as spent, and "
            "publish under another title into another folder"
        )
    entries: dict[str, Entry] = {}
    if ours and ledger is not None:
        own = [
            e
            for e in ledger.entries(release.schema.name)
            if e.body.get("release") == body["release"]
        ]
        entries = {str(entry.body["kind"]): entry for entry in own}
    ended = entries.get(RELEASED)
    page = targets["json"].parent / CERTIFICATE / f"{release.name}.json"
    open_ = targets["marker"].exists() if ledger is None else CHARGED in entries and ended is None
    if not ours or not (open_ or (certificate and not page.exists() and (ledger is None or ended))):
        raise LedgerRefused(
            f"{files[0]} is there: {release.title!r} or another release was published here; a new "
            "draw spends anew, under another title and into another folder"
        )
    if ended is not None and digest_of(content) != ended.body["files"].get(targets["json"].name):
        raise LedgerRefused(f"{targets['json']}: it is not what was released; put that file back")
    return _Before(content, None if ended is None else ended.hash)


@dataclass(eq=False)
class _Once:
    """The one run of a release: charged, drawn, written; or one that was interrupted, finished."""

    plan: Plan
    table: OpenTable | None
    targets: Mapping[str, Path]
    ledger: Ledger | None
    before: _Before | None
    done: Published = field(init=False)

    @property
    def ready_made(self) -> str:
        """The format of the rows, in this run or in the earlier one that is being finished."""
        if self.before is not None:
            return str(strict_json(self.before.content).get("ready_made", ""))
        return "" if self.table is None else self.table.ready_made

    def row(self) -> dict[str, Any]:
        """Run, and what a certificate says of it; errors: as :func:`publish`."""
        rows = self._draw() if self.before is None else ()
        try:
            contents, head = self._finish()
        except (DpauditError, OSError) as error:
            raise ReleaseInterrupted(
                f"{self.plan.release.title!r} was drawn, and is not finished ({described(error)}): "
                "run the same command again, which finishes it and draws nothing"
            ) from None
        self.done = Published(tuple(contents), rows, head)
        account = {}
        if self.ledger is not None:
            name, costs = self.plan.release.schema.name, costs_of(self.ledger, self.plan)
            account["ledger"] = account_row(self.ledger, name, costs)
        written = self.targets["json"]
        return run_row(written, contents[written], self._notes(head), account)

    def _notes(self, head: str | None) -> list[str]:
        notes = [] if head is None else [f"charged in a ledger, whose head is {head}"]
        if corrects := self.plan.release.corrects:
            notes.append(f"takes the place of the release {corrects!r}, which was wrong")
        return notes

    def _draw(self) -> tuple[Row, ...]:
        """Charge, draw, and write; the JSON first, from which all else can be made again."""
        plan, release = self.plan, self.plan.release
        if self.ledger is not None:
            charge(self.ledger, plan)
        else:
            _mark(self.targets["marker"], release)
        written, content = self.targets["json"], b""
        try:
            assert self.table is not None  # noqa: S101  (it is opened for a draw)
            values = exact_values(release, self.table)
            drawn = draw(plan, values, partial(records_of, self.table))
            rows = published_rows(plan, drawn)
            contents = contents_of(plan, drawn, rows, self.targets, self.ready_made)
            content = contents[written]
            write_atomically(written, content)
        except BaseException as error:  # noqa: BLE001  (an interrupt spends the charge too)
            spent = (
                "its charge is spent" if self.ledger is not None else "count its budget as spent"
            )
            if isinstance(error, OutputNotWritable):
                raise ReleaseInterrupted(
                    f"{release.title!r}: {error}; {spent}, and "
                    f"{certificates.rescued({written: content})}; "
                    f"to finish this release, move it into {written.parent} and run again"
                ) from None
            # The exception's text may quote private data; only its kind is shown.
            raise ReleaseInterrupted(
                f"{release.title!r} was interrupted after it was charged ({type(error).__name__}): "
                f"{spent}, and nothing is to be published; a new draw is a new release, under "
                "another title"
            ) from None
        return tuple(rows)

    def _finish(self) -> tuple[dict[Path, bytes], str | None]:
        """The files that the JSON on disk makes, and the ledger's entry; its head after it."""
        before, written = self.before, self.targets["json"]
        content = written.read_bytes() if before is None else before.content
        contents = files_of(strict_json(content), self.targets) | {written: content}
        write_together({path: content for path, content in contents.items() if not path.exists()})
        head = None if before is None else before.head
        if self.ledger is None:
            self.targets["marker"].unlink(missing_ok=True)
        elif head is None:
            digests = {path.name: digest_of(path.read_bytes()) for path in contents}
            release = self.plan.release
            folder = self.targets["json"].parent
            head = self.ledger.finish(release.schema.name, release.digest, digests, folder)
        return contents, head


def run_row(
    written: Path, content: bytes, notes: list[str], account: Mapping[str, Any]
) -> dict[str, Any]:
    """The part of a certificate on a run that wrote this JSON."""
    body = strict_json(content)
    made = body.get("ready_made")
    return {
        **account,
        **({"ready_made": made} if made else {}),
        "published": shown_of(body["values"]),
        "records": None,
        "entropy": SYSTEM,
        "metrics": [],
        "notes": notes,
        "output": {"name": written.name, "digest": {"sha256": digest_of(content)}},
    }


def shown_of(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The published numbers as a certificate has them: all are counted, the first are shown."""
    names = ("item", "statistic", "value", "error_95", "error_covers")
    return {
        "count": len(rows),
        "rows": [
            {**{name: str(row.get(name, "")) for name in names}, "keys": _keys(row["keys"].items())}
            for row in rows[:MOST_SHOWN]
        ],
    }


def account_row(ledger: Ledger, name: str, costs: Costs) -> dict[str, Any]:
    """The charge, and the data set's account after it; with all others that were charged."""

    def after(account: str) -> dict[str, list[str]]:
        state = ledger.state(account)
        return {
            "measures": list(state.terms.units),
            "cost": [decimal_upper(value, 6) for value in costs[account]],
            "spent": [decimal_upper(value, 6) for value in state.spent],
            "cap": [decimal_lower(value, 6) for value in state.terms.caps],
            "left": [decimal_lower(value, 6) for value in state.remaining],
        }

    others = [{"account": other, **after(other)} for other in costs if other != name]
    return after(name) | ({"others": others} if others else {})


def digest_of(content: bytes) -> str:
    """The SHA-256 of a file's bytes, as hexadecimal digits."""
    return sha256(content).hexdigest()


def certified(
    plan: Plan,
    trials: int = TRIALS,
    progress: Progress | None = None,
    draw: Callable[[], dict[str, Any]] | None = None,
    file: str = PLAN,
    ready_made: str = "",
) -> Certified:
    """The plan's certificate; the checker confirms what is written, and before a release is drawn.

    ``draw``: runs the release once nothing is left that could refuse it, and says of it what the
    certificate holds; without it no private data are needed.  ``ready_made``: as of an order.
    Errors: Disagreement where an attack or a check broke the plan; nothing was drawn then.
    """
    order = replace(order_of(plan), draw=draw, ready_made=ready_made)
    options = Options(trials=trials, targets=(file,), progress=progress)
    (certificate,) = certify([order], options)
    if certificate.verdict not in (Verdict.CERTIFIED, Verdict.CERTIFIED_UNDER_ASSUMPTIONS):
        raise Disagreement(
            f"{plan.release.title!r}: {certificate.judged[0].reason}; nothing was charged"
        )
    return certificate


def admitted(ledger: Ledger, plan: Plan) -> Amounts:
    """The amounts spent after a charge of this plan; errors: as :meth:`Ledger.charge`."""
    release = plan.release
    return ledger.admit(
        release.schema.name,
        release.schema.entity,
        release.scope,
        costs_of(ledger, plan),
        release.digest,
        release.title,
    )


def charge(ledger: Ledger, plan: Plan) -> None:
    """Charge a plan to its data set's budget; errors: as :meth:`Ledger.charge`."""
    release, name = plan.release, plan.release.schema.name
    corrects = ledger.published(name, release.corrects).release if release.corrects else ""
    ledger.charge(
        name,
        release.schema.entity,
        release.scope,
        costs_of(ledger, plan),
        release.digest,
        release.title,
        release.schema.digest,
        plan.declaration.digest,
        corrects,
    )


def costs_of(ledger: Ledger, plan: Plan) -> Costs:
    """The cost of a plan to its data set and populations; errors: LedgerRefused, Unsupported."""
    schema = plan.release.schema
    return ledger.costs(
        schema.name, plan.declaration, plan.delta, asked=False, joined=schema.charged
    )


def targets_of(out: Path, name: str) -> dict[str, Path]:
    """The files of a release by kind."""
    kinds = ("json", "csv", "parquet")
    return {**{kind: out / f"{name}.{kind}" for kind in kinds}, "marker": out / f".{name}.running"}


def _mark(marker: Path, release: Release) -> None:
    """Without a ledger, a run that is interrupted while it draws is known by its marker."""
    try:
        write_new(marker, release.digest.encode())
    except FileExistsError:
        raise LedgerRefused(f"{marker}: another release runs here") from None


# --- files ----------------------------------------------------------------------------------------


def contents_of(
    plan: Plan,
    drawn: Mapping[str, Any],
    rows: list[Row],
    targets: Mapping[str, Path],
    ready_made: str = "",
) -> dict[Path, bytes]:
    """JSON, CSV and Parquet of the published rows; the JSON also has the noisy numbers.

    Only the rounded numbers of rounded items are published.  ``ready_made``: what the rows came in.
    """
    table = [_row(row) for row in rows]
    release = plan.release
    hidden = {name for step in release.post if step.kind == ROUND for name in step.items}
    synthetic = synthesised(plan, rows)
    records = (
        {}
        if synthetic is None
        else {NAME: {"columns": synthetic.columns, "records": synthetic.records}}
    )
    content = {
        "title": release.title,
        "release": release.digest,
        "declaration": plan.declaration.digest,
        "table": release.schema.name,
        "unit": release.schema.entity,
        "rows_a_unit": release.schema.rows,
        "adjacency": str(release.adjacency),
        "budget": plan.claim.text,
        **({"corrects": release.corrects} if release.corrects else {}),
        **({"ready_made": ready_made} if ready_made else {}),
        "not_private": list(release.schema.read_off_data),
        "rules": plan.rules,
        "values": [{**row, "keys": dict(row["keys"])} for row in table],
        "noisy": {
            label: _drawn(values)
            for label, values in drawn.items()
            if label.partition("/")[0] not in hidden
        },
        **records,
    }
    return files_of(content, targets)


def files_of(content: Mapping[str, Any], targets: Mapping[str, Path]) -> dict[Path, bytes]:
    """The files of a release, all of them made from what its JSON holds.

    Four, and one of synthetic records where it has some; an older version wrote no metadata.
    """
    table = [
        # A file that an older version wrote lacks the newer columns.
        {name: row.get(name, "") for name in COLUMNS}
        | {"keys": _keys(row["keys"].items()), "budget": content["budget"]}
        for row in content["values"]
    ]
    text = csv_text(COLUMNS, ([row[name] for name in COLUMNS] for row in table))
    records, others = content.get(NAME), {}
    if records is not None:
        text_of_records = csv_text(records["columns"], records["records"])
        others[synthetic_file(targets["json"])] = text_of_records.encode()
    if "rules" in content:
        described = _described(content, targets["csv"].name)
        others[metadata_file(targets["csv"])] = json.dumps(described, indent=1).encode() + b"\n"
    return {
        targets["json"]: json.dumps(content, indent=1, ensure_ascii=False).encode() + b"\n",
        targets["csv"]: text.encode(),
        targets["parquet"]: _parquet(table),
        **others,
    }


# Descriptions of the columns, for a reader of the CSV alone.
DESCRIBED = {
    "item": "the name of the query in the plan",
    "keys": "the group, as column=key; empty for all rows",
    "statistic": "what was counted or computed",
    "value": "the published number or date, with noise; empty where there is too little data",
    "error_95": "a margin that holds in 19 of 20 releases; empty where there is none",
    "error_covers": "the errors that the margin covers",
    "not_covered": "what else may make the number wrong",
    "digits": "whether the value is written in full",
    "budget": "the guarantee of the whole release",
    "note": "how the number was made",
}


def _described(content: Mapping[str, Any], file: str) -> dict[str, Any]:
    """The metadata of the CSV.  Source: W3C, Metadata Vocabulary for Tabular Data, 2015."""
    rows = "a row" if content["rows_a_unit"] == 1 else f"at most {content['rows_a_unit']} rows"
    columns = [
        {
            "name": column,
            "titles": column,
            "datatype": "string",
            "dc:description": DESCRIBED[column],
        }
        for column in COLUMNS
    ]
    guarantee = f"{content['budget']} under {content['adjacency']}, {rows} of one {content['unit']}"
    return {
        "@context": "http://www.w3.org/ns/csvw",
        "url": file,
        "dc:title": content["title"],
        "dc:source": content["table"],
        "dc:description": f"Numbers with noise, of differential privacy: {guarantee}.",
        "notes": [{"rule": rule} for rule in content["rules"]],
        "tableSchema": {"columns": columns},
    }


def metadata_file(csv_file: Path) -> Path:
    """The file that describes a CSV, under the name at which readers look for it."""
    return csv_file.with_name(f"{csv_file.name}-metadata.json")


def synthetic_file(json_file: Path) -> Path:
    """The file of a release's synthetic records, beside its JSON."""
    return json_file.with_suffix(f".{NAME}.csv")


def _row(row: Row) -> dict[str, Any]:
    value, exact = (row.text, True) if row.value is None else text_of(row.value)
    return {
        "item": row.item,
        "keys": row.keys,
        "statistic": row.statistic,
        "value": value,
        "error_95": "" if row.error is None else text_of(row.error)[0],
        "error_covers": row.covers,
        "not_covered": "; ".join(row.not_covered),
        "digits": "all" if exact else "the first 15",
        "note": row.note,
    }


def _keys(keys: Any) -> str:
    return "; ".join(f"{column}={key}" for column, key in keys)


def _drawn(values: Any) -> Any:
    """Numbers as text: JSON readers may hold whole ones in floats."""
    if isinstance(values, dict):
        return {key: str(value) for key, value in sorted(values.items())}
    return [str(value) for value in values]


def _parquet(table: list[dict[str, Any]]) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    names = [*(name for name in COLUMNS if name != "keys"), "keys"]
    columns = {name: arrow_texts([row[name] for row in table]) for name in names}
    columns["number"] = arrow_numbers([_number(row["value"]) for row in table], np.float64)
    sink = io.BytesIO()
    pq.write_table(pa.table(columns), sink)
    return sink.getvalue()


def _number(value: str) -> float | None:
    """A published value as a number; None for a date, and for none."""
    try:
        return float(value)
    except ValueError:
        return None
