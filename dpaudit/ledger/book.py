"""The ledger: what was spent of each data set's privacy budget, kept in a database.

A charge is one transaction that holds the write lock of its data set from reading the sums to
committing the new ones, and is on disk before it returns.  SQLite: WAL and ``BEGIN IMMEDIATE``; the
log is synchronised after the lock is given back, so that one synchronisation serves every writer
that waits for it (a log is recovered from its start up to a gap: what is on disk is on disk with
all before it).  PostgreSQL: ``SELECT ... FOR UPDATE``, synchronous commit.  Entries are never
changed; each holds the hash of the one before, so that a changed, missing or exchanged entry shows.
Who can write the whole database can also write a whole new chain: compare the head with one that
was kept elsewhere (every certificate of a release names one).
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from dpaudit.accountant.filters.charges import Amounts, read_amounts
from dpaudit.errors import BudgetExceeded, DpauditError, InvalidParameter
from dpaudit.exact.wire import canonical_bytes, digest, encode_number
from dpaudit.ledger.terms import Terms, read_terms
from dpaudit.scope import Scope

FIRST = "0" * 64
WAIT = 60.0
OPENED, CHARGED, RELEASED = "open", "charge", "released"
DEFAULT = "ledger.sqlite"


def _boot() -> str:
    """What names this start of the machine; empty where nothing does."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        return ""


BOOT = _boot()


class LedgerUnavailable(DpauditError):
    """A ledger that cannot be read or written: missing, locked, read-only, full, out of reach."""


class LedgerRefused(DpauditError):
    """A release that a ledger cannot take: of another unit or schema, or charged before."""


class LedgerBroken(DpauditError):
    """A ledger whose chain or sums do not hold."""

    exit_code = 1


@dataclass(frozen=True)
class Receipt:
    """A charge that was kept: its number, and the head of the chain after it."""

    dataset: str
    number: int
    head: str
    spent: Amounts


@dataclass(frozen=True)
class State:
    """A data set as the ledger has it.

    ``unfinished``: releases that were charged and never finished, by title; their charge is spent.
    """

    name: str
    terms: Terms
    spent: Amounts
    count: int
    head: str
    unfinished: tuple[str, ...] = ()

    @property
    def remaining(self) -> Amounts:
        """What is left of each cap."""
        return tuple(cap - sum_ for cap, sum_ in zip(self.terms.caps, self.spent, strict=True))


@dataclass(frozen=True)
class Entry:
    """One line of the chain."""

    number: int
    body: Mapping[str, Any]
    previous: str
    hash: str


class Ledger:
    """A ledger in a database; open it with :func:`open_ledger`."""

    def __init__(self, url: str, wait: float = WAIT) -> None:
        self.url = url if "://" in url else f"sqlite:///{url}"
        self._wait = wait

    @property
    def place(self) -> str:
        """Where it is, without a password."""
        from sqlalchemy.engine import make_url

        return make_url(self.url).render_as_string(hide_password=True)

    def create(self, name: str, terms: Terms) -> State:
        """Start the account of a data set; the database and its tables are made where needed.

        Errors: LedgerRefused where it has one already; LedgerUnavailable.
        """
        if not name.strip():
            raise InvalidParameter("ledger: expected the name of the data set")
        self._make()
        with self._writing() as connection:
            if self._row(connection, name) is not None:
                raise LedgerRefused(f"{self.place}: data set {name!r} has an account already")
            nothing = tuple(Fraction(0) for _ in terms.caps)
            body = {"kind": OPENED, "at": _now(), "terms": terms.to_json()}
            entry = _entry(name, 1, FIRST, body)
            self._insert(connection, name, entry, "")
            connection.execute(
                self._tables.datasets.insert().values(
                    name=name,
                    terms=_text(terms.to_json()),
                    spent=_amounts(nothing),
                    charges=0,
                    length=1,
                    head=entry.hash,
                )
            )
        return State(name, terms, nothing, 0, entry.hash)

    def names(self) -> list[str]:
        """The data sets it knows."""
        with self._reading() as connection:
            rows = connection.execute(self._tables.datasets.select())
            return sorted(str(row.name) for row in rows)

    def state(self, name: str) -> State:
        """One data set's account.

        Errors: LedgerRefused for one that it does not know; LedgerUnavailable.
        """
        with self._reading() as connection:
            row = self._known(connection, name)
            entries = self._entries(connection, name)
        charged = {e.body["release"]: e.body["title"] for e in entries if _is(e, CHARGED)}
        finished = {e.body["release"] for e in entries if _is(e, RELEASED)}
        left = tuple(str(title) for key, title in charged.items() if key not in finished)
        return State(name, _terms(row), _read(row.spent), int(row.charges), str(row.head), left)

    def admit(
        self,
        name: str,
        entity: str,
        scope: Scope,
        cost: Amounts,
        release: str,
        title: str,
        schema: str | None = None,
    ) -> Amounts:
        """Whether a charge would be taken now; nothing is written.

        Errors: as :meth:`charge`.
        """
        with self._reading() as connection:
            row = self._known(connection, name)
            self._check(connection, row, name, (entity, scope, schema), release, title)
            return _terms(row).after(_read(row.spent), cost, f"{name}: {title}")

    def charge(
        self,
        name: str,
        entity: str,
        scope: Scope,
        cost: Amounts,
        release: str,
        title: str,
        schema: str | None = None,
        declaration: str = "",
    ) -> Receipt:
        """Charge a release, durably, before its data are touched.

        ``release``: what names it for good, such as a digest of its plan; it is charged once.
        Errors: BudgetExceeded where it does not fit; LedgerRefused where the data set, its unit,
        its adjacency or its schema is another one, or the release was charged before;
        LedgerUnavailable where the database cannot be written.  Nothing is charged then.
        """
        with self._writing() as connection:
            row = self._known(connection, name, locked=True)
            self._check(connection, row, name, (entity, scope, schema), release, title)
            spent = _terms(row).after(_read(row.spent), cost, f"{name}: {title}")
            body = {
                "kind": CHARGED,
                "at": _now(),
                "release": release,
                "title": title,
                "declaration": declaration,
                "cost": [encode_number(a) for a in cost],
                "spent": [encode_number(a) for a in spent],
            }
            entry = self._append(connection, row, body, release, spent=_amounts(spent))
        return Receipt(name, entry.number, entry.hash, spent)

    def finish(self, name: str, release: str, files: Mapping[str, str]) -> str:
        """Note that a charged release was written, with the digests of its files; the new head.

        Errors: LedgerRefused where it was not charged, or finished before; LedgerUnavailable.
        """
        with self._writing() as connection:
            row = self._known(connection, name, locked=True)
            kinds = [kind for kind, _ in self._of(connection, name, release)]
            if kinds != [CHARGED]:
                raise LedgerRefused(f"{name}: this release was not charged, or is finished")
            body = {"kind": RELEASED, "at": _now(), "release": release, "files": dict(files)}
            return self._append(connection, row, body, release).hash

    def entries(self, name: str) -> list[Entry]:
        """Every line of a data set's chain, as it is stored."""
        with self._reading() as connection:
            self._known(connection, name)
            return self._entries(connection, name)

    def verify(self, name: str, head: str | None = None) -> State:
        """Check the chain and the sums of one data set from its first entry.

        ``head``: one that was kept elsewhere, which the chain must hold.
        Errors: LedgerBroken naming the first entry that does not hold.
        """
        try:
            with self._reading() as connection:
                row = self._known(connection, name)
                entries = self._entries(connection, name)
            checked = _checked(name, entries)
            state = self.state(name)
            stored = (_text(state.terms.to_json()), state.spent, state.count, int(row.length))
            walked = (_text(checked.terms.to_json()), checked.spent, checked.count, len(entries))
            if stored != walked or str(row.head) != checked.head:
                raise LedgerBroken(
                    f"{name}: the account is not what its {len(entries)} entries make"
                )
            if head is not None and head not in {entry.hash for entry in entries}:
                raise LedgerBroken(
                    f"{name}: no entry has the hash {head[:16]}...: entries are missing"
                )
            return state
        except (InvalidParameter, BudgetExceeded, ValueError, KeyError, TypeError) as error:
            said = str(error) if isinstance(error, BudgetExceeded) else "an entry is malformed"
            raise LedgerBroken(f"{name}: {said}") from None

    # --- inside a transaction ---------------------------------------------------------------------

    def _check(
        self,
        connection: Any,
        row: Any,
        name: str,
        asked: tuple[str, Scope, str | None],
        release: str,
        title: str,
    ) -> None:
        entity, scope, schema = asked
        terms = _terms(row)
        if entity != terms.entity or scope.unit is not terms.scope.unit:
            raise LedgerRefused(
                f"{name}: its unit is {terms.entity!r} ({terms.scope.unit}), the release's is "
                f"{entity!r} ({scope.unit}); one budget protects one kind of unit"
            )
        if scope.adjacency is not terms.scope.adjacency:
            raise LedgerRefused(
                f"{name}: its data sets differ by {terms.scope.adjacency}, the release's by "
                f"{scope.adjacency}; losses under different adjacencies do not add up"
            )
        if terms.schema is not None and schema != terms.schema:
            raise LedgerRefused(
                f"{name}: the public schema is not the one this budget was opened for "
                f"({terms.schema[:12]}, now {str(schema)[:12]}); open another account"
            )
        before = dict(self._of(connection, name, release))
        if RELEASED in before:
            raise LedgerRefused(
                f"{title!r} was released on {before[RELEASED]}: publish the files of that run; "
                "a new draw is a new release, under another title"
            )
        if CHARGED in before:
            raise LedgerRefused(
                f"{title!r} was charged on {before[CHARGED]} and not finished: it was interrupted, "
                "or runs now. Its charge is spent; a new draw is a new release, under another title"
            )

    def _of(self, connection: Any, name: str, release: str) -> list[tuple[str, str]]:
        asked = {"of": name, "called": release}
        bodies = [json.loads(row.body) for row in connection.execute(self._tables.called, asked)]
        return [(str(body["kind"]), str(body["at"])) for body in bodies]

    def _append(
        self,
        connection: Any,
        row: Any,
        body: Mapping[str, Any],
        release: str,
        spent: str | None = None,
    ) -> Entry:
        name, number = str(row.name), int(row.length) + 1
        entry = _entry(name, number, str(row.head), body)
        self._insert(connection, name, entry, release)
        charged = int(body["kind"] == CHARGED)
        after = {"head": entry.hash, "length": number, "charges": int(row.charges) + charged}
        spent = str(row.spent) if spent is None else spent
        connection.execute(self._tables.advance, {"of": name, "spent": spent, **after})
        return entry

    def _insert(self, connection: Any, name: str, entry: Entry, release: str) -> None:
        line = {"dataset": name, "number": entry.number, "kind": entry.body["kind"]}
        line |= {"release": release, "body": _text(entry.body)}
        line |= {"previous": entry.previous, "hash": entry.hash}
        connection.execute(self._tables.append, line)

    def _row(self, connection: Any, name: str, *, locked: bool = False) -> Any:
        # Of SQLite the whole database is locked from BEGIN IMMEDIATE on.
        query = self._tables.held if locked else self._tables.one
        return connection.execute(query, {"of": name}).one_or_none()

    def _known(self, connection: Any, name: str, *, locked: bool = False) -> Any:
        row = self._row(connection, name, locked=locked)
        if row is None:
            known = ", ".join(
                str(r.name) for r in connection.execute(self._tables.datasets.select())
            )
            raise LedgerRefused(
                f"{self.place}: it has no account of {name!r} (it has: {known or 'none'}); open "
                "one with `dpaudit ledger init`"
            )
        return row

    def _entries(self, connection: Any, name: str) -> list[Entry]:
        table = self._tables.entries
        query = table.select().where(table.c.dataset == name).order_by(table.c.number)
        return [
            Entry(int(row.number), json.loads(row.body), str(row.previous), str(row.hash))
            for row in connection.execute(query)
        ]

    # --- the database -----------------------------------------------------------------------------

    @cached_property
    def _tables(self) -> _Tables:
        return _Tables()

    @cached_property
    def _engine(self) -> Any:
        return _engine(self.url, self._wait)

    def _make(self) -> None:
        path = self._file
        if path is not None:
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise LedgerUnavailable(f"{path}: {error.strerror}; choose another place") from None
        with self._errors(), self._engine.begin() as connection:
            self._tables.metadata.create_all(connection)

    @cached_property
    def _file(self) -> Path | None:
        from sqlalchemy.engine import make_url

        url = make_url(self.url)
        if url.get_backend_name() != "sqlite" or not url.database or url.query:
            return None
        return Path(url.database)

    @contextmanager
    def _writing(self) -> Iterator[Any]:
        self._exists()
        with self._errors():
            with self._queued(), self._engine.begin() as connection:
                yield connection
            self._synchronise(time.monotonic_ns())

    @contextmanager
    def _queued(self) -> Iterator[None]:
        """Wait in line for SQLite's lock: its own waiting sleeps while the lock is free.

        Nothing rests on it: BEGIN IMMEDIATE is what excludes, and a killed writer leaves the line.
        """
        path = self._file
        if path is None:
            yield
            return
        handle = os.open(f"{path}-queue", os.O_RDWR | os.O_CREAT, 0o644)
        try:
            end = time.monotonic() + self._wait
            pause = 0.0005
            while True:
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > end:
                        break
                time.sleep(pause)
                pause = min(2 * pause, 0.02)
            yield
        finally:
            os.close(handle)

    def _synchronise(self, since: int) -> None:
        """Have SQLite's log on disk, by a synchronisation begun after ``since`` (nanoseconds).

        Writers that wait for one another's are served by the next one together.  Where the log is
        gone, its content is in the database, and synchronised.
        Errors: LedgerUnavailable where the disk refuses.
        """
        path = self._file
        if path is None:
            return
        shared = os.open(f"{path}-synced", os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(shared, fcntl.LOCK_EX)
            known, _, begun = os.pread(shared, 128, 0).decode("ascii", "replace").partition(" ")
            # What another start of this machine noted says nothing of its clock, nor of its disk.
            if BOOT and known == BOOT and begun.isdigit() and int(begun) >= since:
                return
            started = time.monotonic_ns()
            try:
                handle = os.open(f"{path}-wal", os.O_RDONLY)
            except FileNotFoundError:
                return
            try:
                os.fsync(handle)
            finally:
                os.close(handle)
            os.pwrite(shared, f"{BOOT} {started:020d}".encode(), 0)
        except OSError as error:
            raise LedgerUnavailable(
                f"{self.place}: {error.strerror}; see `dpaudit ledger show` whether it was kept"
            ) from None
        finally:
            os.close(shared)

    @contextmanager
    def _reading(self) -> Iterator[Any]:
        self._exists()
        with self._errors(), self._engine.connect() as connection:
            yield connection

    def _exists(self) -> None:
        path = self._file
        if path is not None and not path.is_file():
            raise LedgerUnavailable(
                f"{path}: no ledger is there; make one with `dpaudit ledger init`"
            )

    @contextmanager
    def _errors(self) -> Iterator[None]:
        from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError

        try:
            yield
        except DBAPIError as error:
            reason = " ".join(str(error.orig).split())[:200]
            raise LedgerUnavailable(f"{self.place}: {reason}; {_way_out(reason)}") from None
        except (ArgumentError, NoSuchModuleError, ImportError):
            raise LedgerUnavailable(
                "ledger: expected a file, or a URL such as postgresql+psycopg://user@host/name"
            ) from None


def open_ledger(url: str | Path, wait: float = WAIT) -> Ledger:
    """A ledger: a SQLite file, or a URL that SQLAlchemy knows (postgresql+psycopg://...).

    ``wait``: seconds to wait for the lock of another writer.
    Errors: LedgerUnavailable where SQLAlchemy is not installed.
    """
    try:
        import sqlalchemy  # noqa: F401  (asked for here, to say how to get it)
    except ImportError:
        raise LedgerUnavailable(
            "a ledger needs SQLAlchemy: pip install 'dpaudit[ledger]'"
        ) from None
    return Ledger(str(url), wait)


class _Tables:
    """The two tables of a ledger."""

    def __init__(self) -> None:
        from sqlalchemy import (
            Column,
            Integer,
            MetaData,
            String,
            Table,
            Text,
            UniqueConstraint,
            bindparam,
        )

        self.metadata = MetaData()
        self.datasets = Table(
            "dpaudit_datasets",
            self.metadata,
            Column("name", String(200), primary_key=True),
            Column("terms", Text, nullable=False),
            Column("spent", Text, nullable=False),
            Column("charges", Integer, nullable=False),
            Column("length", Integer, nullable=False),
            Column("head", String(64), nullable=False),
        )
        self.entries = Table(
            "dpaudit_entries",
            self.metadata,
            Column("dataset", String(200), primary_key=True),
            Column("number", Integer, primary_key=True),
            Column("kind", String(16), nullable=False),
            Column("release", String(200), nullable=False),
            Column("body", Text, nullable=False),
            Column("previous", String(64), nullable=False),
            Column("hash", String(64), nullable=False),
            # Whatever a program does wrong, the database takes one charge of a release.
            UniqueConstraint("dataset", "kind", "release"),
        )
        # Built once: building a statement takes as long as running it.
        rows, lines = self.datasets, self.entries
        self.one = rows.select().where(rows.c.name == bindparam("of"))
        self.held = self.one.with_for_update()
        asked = lines.c.dataset == bindparam("of"), lines.c.release == bindparam("called")
        self.called = lines.select().where(*asked)
        self.append = lines.insert()
        names = ("head", "length", "charges", "spent")
        new: dict[str, Any] = {name: bindparam(name) for name in names}
        self.advance = rows.update().where(rows.c.name == bindparam("of")).values(new)


def _engine(url: str, wait: float) -> Any:
    from sqlalchemy import create_engine, event
    from sqlalchemy.engine import make_url

    if make_url(url).get_backend_name() != "sqlite":
        engine = create_engine(url, isolation_level="READ COMMITTED")

        @event.listens_for(engine, "connect")
        def durable(connection: Any, _: Any) -> None:
            cursor = connection.cursor()
            cursor.execute("SET synchronous_commit = on")
            cursor.execute(f"SET lock_timeout = '{int(wait * 1000)}ms'")
            connection.commit()

        return engine
    engine = create_engine(url, connect_args={"timeout": wait})

    @event.listens_for(engine, "connect")
    def prepared(connection: Any, _: Any) -> None:
        connection.isolation_level = None  # BEGIN is ours
        cursor = connection.cursor()
        cursor.execute("PRAGMA journal_mode = WAL")
        # A commit is synchronised by _synchronise, a checkpoint by SQLite.
        cursor.execute("PRAGMA synchronous = NORMAL")

    @event.listens_for(engine, "begin")
    def immediate(connection: Any) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    return engine


def _way_out(reason: str) -> str:
    said = reason.lower()
    if "locked" in said or "lock timeout" in said:
        return "another writer holds it; wait and run again. Nothing was charged"
    if "readonly" in said or "read-only" in said:
        return "it cannot be written; mend its permissions. Nothing was charged"
    if "full" in said:
        return "make room. Nothing was charged"
    return "see `dpaudit ledger show` whether a charge was kept before you run again"


# --- entries --------------------------------------------------------------------------------------


def _entry(name: str, number: int, previous: str, body: Mapping[str, Any]) -> Entry:
    return Entry(number, body, previous, _hash(name, number, previous, body))


def _hash(name: str, number: int, previous: str, body: Mapping[str, Any]) -> str:
    content = {"dataset": name, "number": str(number), "previous": previous, "body": dict(body)}
    return digest(content)


def _checked(name: str, entries: Sequence[Entry]) -> State:
    """What a chain adds up to.  Errors: LedgerBroken."""
    if not entries or not _is(entries[0], OPENED):
        raise LedgerBroken(f"{name}: its first entry is missing")
    terms = read_terms(entries[0].body["terms"])
    spent, count, previous = tuple(Fraction(0) for _ in terms.caps), 0, FIRST
    for number, entry in enumerate(entries, start=1):
        good = entry.number == number and entry.previous == previous
        if not good or entry.hash != _hash(name, number, previous, entry.body):
            raise LedgerBroken(f"{name}: entry {number} was changed, or one before it is missing")
        previous = entry.hash
        if _is(entry, CHARGED):
            cost = read_amounts(entry.body["cost"])
            spent = terms.after(spent, cost, f"{name}: entry {number}")
            count += 1
            if spent != read_amounts(entry.body["spent"]):
                raise LedgerBroken(f"{name}: entry {number}: its sums do not add up")
    return State(name, terms, spent, count, previous)


def _is(entry: Entry, kind: str) -> bool:
    return bool(entry.body.get("kind") == kind)


def _text(value: Any) -> str:
    return canonical_bytes(value).decode()


def _amounts(amounts: Amounts) -> str:
    return _text([encode_number(a) for a in amounts])


def _read(text: str) -> Amounts:
    return read_amounts(json.loads(text))


def _terms(row: Any) -> Terms:
    return _terms_of(str(row.terms))


@lru_cache(maxsize=64)
def _terms_of(text: str) -> Terms:
    return read_terms(json.loads(text))


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
