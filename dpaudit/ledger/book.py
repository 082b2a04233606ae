"""The ledger: what was spent of each data set's privacy budget, kept in a database.

A charge is one transaction that holds the write lock of its data set from reading the sums to
committing the new ones, and is on disk before it returns.  SQLite: ``BEGIN IMMEDIATE``, and a
rollback journal that is deleted to commit, so that a charge is in the one file that people move and
copy (:mod:`dpaudit.ledger.journal`).  PostgreSQL: ``SELECT ... FOR UPDATE``, synchronous commit.
Entries are never changed; each holds the hash of the one before, so that a changed, missing or
exchanged entry shows.  A balance is never taken as it is stored: the entries are added up again
before it is used.  Who can write the whole database can also write a whole new chain: compare the
head with one that was kept elsewhere (every certificate of a release names one).
"""

from __future__ import annotations

import fcntl
import getpass
import json
import os
import shlex
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from fractions import Fraction
from functools import cached_property, lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeAlias

from dpaudit.accountant.filters.charges import Amounts, read_amounts, refuse_refunds
from dpaudit.errors import DpauditError, InvalidParameter, optional
from dpaudit.exact.domains import real
from dpaudit.exact.wire import canonical_bytes, digest, encode_number
from dpaudit.families.events import Group
from dpaudit.ledger.journal import SplitLedger, refuse_split
from dpaudit.ledger.terms import Terms, read_terms
from dpaudit.nodes import Node
from dpaudit.scope import Adjacency, Scope, name_key, refuse_disguise

FIRST = "0" * 64  # the digest before the first entry
LOCK_SECONDS = 60.0  # Seconds for which another process may hold the ledger.
OPENED, CHARGED, RELEASED, WITHDRAWN = "open", "charge", "released", "withdrawn"
WANTED = "ledger: expected a file, or a URL such as postgresql+psycopg://user@host/name"
READ_ONLY = "it cannot be written; mend its permissions. Nothing was charged"
DEFAULT = "ledger.sqlite"
# By account: what a charge costs each that it goes to.
Costs: TypeAlias = Mapping[str, Amounts]


class LedgerUnavailable(DpauditError):
    """A ledger that cannot be read or written: missing, locked, read-only, full, out of reach."""


class LedgerRefused(DpauditError):
    """A release that a ledger cannot take: of another unit or adjacency, or charged before."""


class NoLedger(LedgerUnavailable):
    """A place where no ledger is."""


class NoAccount(LedgerRefused):
    """A data set that has no account in a ledger."""


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
class Publication:
    """The life of one release: charged, released, corrected by a later one, or withdrawn.

    ``release``: its digest.  ``at`` and ``by``: when it was charged, and who charged it.
    ``corrects``: the digest of the release that it corrects; ``corrected``: the title of the one
    that corrects it, ``not_corrected``: why that one was withdrawn.  ``withdrawn``: why it was
    itself; ``folder``: where it was written, "" if unknown.
    ``dataset``: of a population's charge, the data set that it was for.
    """

    title: str
    release: str
    at: str
    by: str = ""
    released: str = ""
    corrects: str = ""
    corrected: str = ""
    not_corrected: str = ""
    withdrawn: str = ""
    folder: str = ""
    dataset: str = ""

    @property
    def errata(self) -> tuple[str, ...]:
        """Lines for a reader of it; none where it stands as it was published."""
        said = []
        if self.not_corrected:
            said.append(
                f"Use neither it nor its correction {self.corrected!r}, which was withdrawn: "
                f"{self.not_corrected}"
            )
        elif self.corrected:
            said.append(f"Corrected: use {self.corrected!r} in its place.")
        if self.withdrawn:
            said.append(f"Withdrawn: {self.withdrawn}")
        return tuple(said)

    @property
    def text(self) -> str:
        """Its life in one line."""
        by = f" by {self.by}" if self.by else ""
        of = f" for {self.dataset}" if self.dataset else ""
        state = f"released {self.released}" if self.released else "never finished"
        if self.dataset:
            state = "see there"
        return " ".join([f"{self.title}: charged {self.at}{by}{of}, {state}.", *self.errata])


@dataclass(frozen=True)
class State:
    """A data set as the ledger has it.

    ``length``: how many entries its chain has.  ``releases``: what was charged, in order.
    Errors: InvalidParameter for a sum that is no privacy loss.
    """

    name: str
    terms: Terms
    spent: Amounts
    count: int
    head: str
    length: int = 1
    releases: tuple[Publication, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "spent", Amounts(self.spent))

    @property
    def unfinished(self) -> tuple[str, ...]:
        """Titles of releases that were charged and never finished; their charge is spent."""
        return tuple(r.title for r in self.releases if not (r.released or r.dataset))

    @property
    def remaining(self) -> tuple[Fraction, ...]:
        """The remainder of each cap."""
        refuse_refunds(self.name, self.spent)
        return tuple(cap - sum_ for cap, sum_ in zip(self.terms.caps, self.spent, strict=True))


@dataclass(frozen=True)
class Entry:
    """One line of the chain; ``text``: its body, as canonical JSON."""

    number: int
    text: str
    previous: str
    hash: str

    @cached_property
    def body(self) -> Mapping[str, Any]:
        """The fields of the text."""
        fields: Mapping[str, Any] = json.loads(self.text)
        return fields


class Ledger:
    """A ledger in a database; open it with :func:`open_ledger`."""

    def __init__(self, url: str, wait: float = LOCK_SECONDS, folder: Path = Path()) -> None:
        self._url, self._file, self._wait = _located(url, wait, folder)
        self._walked: dict[str, State] = {}

    @property
    def place(self) -> str:
        """Where it is: a file's path, or a URL without its password."""
        if self._file is not None:
            return str(self._file)
        return str(self._url.render_as_string(hide_password=True))

    def create(self, name: str, terms: Terms) -> State:
        """Start the account of a data set; the database and its tables are made where needed.

        Errors: LedgerRefused where it has one already; LedgerUnavailable.
        """
        if not name.strip():
            raise InvalidParameter("ledger: expected the name of the data set")
        refuse_disguise(name, "data set")
        self._make()
        with self._writing() as connection:
            names = [str(row.name) for row in connection.execute(self._tables.datasets.select())]
            if there := [other for other in names if name_key(other) == name_key(name)]:
                raise LedgerRefused(f"{self.place}: data set {there[0]!r} has an account already")
            for population in terms.populations:
                held = self._balance(connection, self._known(connection, population))
                _check_unit(held, terms.entity, terms.scope, f"data set {name!r}")
            nothing = Amounts(Fraction(0) for _ in terms.caps)
            who = self._who(connection)
            body = {"kind": OPENED, "at": _now(), "by": who, "terms": terms.to_json()}
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

        Errors: NoAccount for one that it does not know; LedgerBroken where its entries do not add
        up to it; LedgerUnavailable.
        """
        return self._added_up(name)[0]

    def accounts(self, name: str, joined: Sequence[str] = ()) -> list[State]:
        """The account of a data set, and those of the populations that it belongs to.

        Then the same of data sets that are joined to it.  Errors: as :meth:`state`.
        """
        states, waiting = dict[str, State](), [name]
        for more in ((), joined):
            waiting += more
            while waiting:
                account = waiting.pop(0)
                if account not in states:
                    states[account] = self.state(account)
                    waiting += states[account].terms.populations
        return list(states.values())

    def costs(
        self,
        name: str,
        declaration: Node,
        delta: object = None,
        *,
        asked: bool = True,
        joined: Sequence[str] = (),
    ) -> Costs:
        """The cost of a declaration to a data set and its populations, each in its own sums.

        ``delta``: of the charge, where deltas add up; with ``asked`` one that nothing adds is
        refused.  ``joined``: data sets of the same units of which rows were joined; they and
        populations of theirs are charged too.  Where a unit's joined rows come or go and its own
        rows stay, it does not leave: it leaves and comes back with others, which is a group of two.
        Errors: as :meth:`Terms.cost`.
        """
        accounts, own = (
            self.accounts(name, joined),
            {account.name for account in self.accounts(name)},
        )
        adds = any(state.terms.adds_deltas for state in accounts)
        return {
            state.name: state.terms.cost(
                declaration
                if state.name in own or state.terms.scope.adjacency is Adjacency.REPLACE_ONE
                else Group(declaration, 2),
                delta if state.terms.adds_deltas or (asked and not adds) else None,
            )
            for state in accounts
        }

    def admit(
        self,
        name: str,
        entity: str,
        scope: Scope,
        cost: Amounts | Costs,
        release: str,
        title: str,
    ) -> Amounts:
        """Whether a charge would be taken now; nothing is written.

        Errors: as :meth:`charge`.
        """
        with self._reading() as connection:
            rows = self._family(connection, name, cost)
            after = self._after(connection, rows, cost, (entity, scope), release, title)
            return after[name].spent

    def charge(
        self,
        name: str,
        entity: str,
        scope: Scope,
        cost: Amounts | Costs,
        release: str,
        title: str,
        schema: str | None = None,
        declaration: str = "",
        corrects: str = "",
    ) -> Receipt:
        """Charge a release, durably, before its data are touched.

        ``cost``: of :meth:`costs`, or of a data set without populations its own; every account
        that it names is charged.
        ``release``: what names it for good, such as a digest of its plan; it is charged once.
        ``schema``: the digest of its public schema, noted with the charge.  Every schema of a data
        set shares its account, because a charge bounds what all rows of a unit can change.
        ``corrects``: the digest of a release that this one corrects; :meth:`published` finds it.
        The data set and its populations are charged in one transaction, or none of them.
        Errors: BudgetExceeded where it does not fit; LedgerRefused where the data set, its unit or
        its adjacency is another one, or the release was charged before;
        InvalidParameter for a cost that is no privacy loss; LedgerBroken where the entries so far
        do not add up; LedgerUnavailable where the database cannot be written.  Nothing is charged
        then.
        """
        with self._writing() as connection:
            rows = self._family(connection, name, cost, locked=True)
            after = self._after(connection, rows, cost, (entity, scope), release, title)
            shared = {"kind": CHARGED, "at": _now(), "by": self._who(connection), "title": title}
            shared |= {"declaration": declaration}
            shared |= {} if schema is None else {"schema": schema}
            shared |= {"corrects": corrects} if corrects else {}
            made: dict[str, State] = {}
            for account, row in rows.items():
                charged = after[account]
                key = release if account == name else _key_of(name, release)
                body = shared | {
                    "release": key,
                    "cost": [encode_number(a) for a in charged.cost],
                    "spent": [encode_number(a) for a in charged.spent],
                    **({} if account == name else {"dataset": name}),
                }
                entry = self._append(connection, row, body, key, spent=_amounts(charged.spent))
                before = charged.before
                made[account] = State(
                    account, before.terms, charged.spent, before.count + 1, entry.hash, entry.number
                )
        self._walked |= made
        own_account = made[name]
        return Receipt(name, own_account.length, own_account.head, own_account.spent)

    def published(self, name: str, called: str) -> Publication:
        """A finished release of a data set, by its title or its digest.

        Errors: LedgerRefused for none, or for a title that two releases have; as :meth:`state`.
        """
        own = [r for r in self.state(name).releases if r.released and not r.dataset]
        named = [r for r in own if called in (r.release, r.title)]
        if len(named) == 1:
            return named[0]
        if named:
            digests = ", ".join(r.release for r in named)
            raise LedgerRefused(f"{name}: {called!r} is the title of {digests}; give one of these")
        titles = ", ".join(sorted({repr(r.title) for r in own})) or "none"
        raise LedgerRefused(f"{name}: no release {called!r} was published; there are: {titles}")

    def withdraw(self, name: str, called: str, reason: str) -> Publication:
        """Note that a release is withdrawn, and why; its budget stays spent.

        ``called``: its title or its digest.
        Errors: InvalidParameter for no reason; LedgerRefused where it was not published, or is
        withdrawn; LedgerUnavailable.
        """
        if not reason.strip():
            raise InvalidParameter("withdraw: expected a reason, which readers of the release see")
        release = self.published(name, called).release
        with self._writing() as connection:
            row = self._known(connection, name, locked=True)
            self._balance(connection, row)
            if WITHDRAWN in dict(self._of(connection, name, release)):
                raise LedgerRefused(f"{name}: {called!r} is withdrawn already")
            body = {"kind": WITHDRAWN, "at": _now(), "by": self._who(connection)}
            body |= {"release": release, "reason": reason.strip()}
            self._append(connection, row, body, release)
        return self.published(name, release)

    def finish(
        self, name: str, release: str, files: Mapping[str, str], folder: Path | None = None
    ) -> str:
        """Note that a charged release was written, with the digests of its files; the new head.

        ``folder``: where they are, so that errata can be put beside them.
        Errors: LedgerRefused where it was not charged, or finished before; LedgerUnavailable.
        """
        with self._writing() as connection:
            row = self._known(connection, name, locked=True)
            kinds = [kind for kind, _ in self._of(connection, name, release)]
            if kinds != [CHARGED]:
                raise LedgerRefused(f"{name}: this release was not charged, or is finished")
            body = {"kind": RELEASED, "at": _now(), "release": release, "files": dict(files)}
            body |= {} if folder is None else {"folder": str(folder.resolve())}
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
        state, entries = self._added_up(name)
        if head is not None and head not in {entry.hash for entry in entries}:
            raise LedgerBroken(f"{name}: no entry has the hash {head[:16]}...: entries are missing")
        return state

    # --- inside a transaction ---------------------------------------------------------------------

    def _added_up(self, name: str) -> tuple[State, list[Entry]]:
        """One data set's account, added up from its first entry, and the entries."""
        with self._reading() as connection:
            row = self._known(connection, name)
            entries = self._entries(connection, name)
        state = _matching(row, _checked(name, entries, None))
        return replace(state, releases=_lives(entries)), entries

    def _balance(self, connection: Any, row: Any) -> State:
        """The sum of a row's entries; those that were added before are not read again.

        Errors: LedgerBroken.
        """
        name = str(row.name)
        before = self._walked.get(name)
        entries = self._entries(connection, name, 0 if before is None else before.length)
        balance = _matching(row, _checked(name, entries, before))
        self._walked[name] = balance
        return balance

    def _family(
        self, connection: Any, name: str, cost: Amounts | Costs, *, locked: bool = False
    ) -> dict[str, Any]:
        """The rows of a data set and its populations, itself first, then of others with a cost.

        They are locked in the order of their names, so that two charges never wait for each other.
        """
        rows, waiting = dict[str, Any](), [name, *(cost if isinstance(cost, Mapping) else ())]
        while waiting:
            account = waiting.pop(0)
            if account not in rows:
                rows[account] = self._known(connection, account)
                waiting += read_terms(json.loads(rows[account].terms)).populations
        if locked:
            held = {
                account: self._known(connection, account, locked=True) for account in sorted(rows)
            }
            rows = {account: held[account] for account in rows}
        return rows

    def _after(
        self,
        connection: Any,
        rows: Mapping[str, Any],
        cost: Amounts | Costs,
        asked: tuple[str, Scope],
        release: str,
        title: str,
    ) -> dict[str, _Charged]:
        """Every account after a charge.  Errors: as :meth:`charge`."""
        name = next(iter(rows))
        costs = cost if isinstance(cost, Mapping) else {name: cost}
        charged = {}
        for account, row in rows.items():
            if account not in costs:
                raise LedgerRefused(
                    f"{name}: it belongs to the population {account!r}, or is joined to it, and "
                    "that is charged too; take the cost from Ledger.costs"
                )
            own = costs[account]
            refuse_refunds(f"{account}: {title}", own)
            before = self._balance(connection, row)
            key = release if account == name else _key_of(name, release)
            self._check(connection, before, asked, key, title)
            spent = before.terms.after(before.spent, own, f"{account}: {title}")
            charged[account] = _Charged(before, Amounts(own), spent)
        return charged

    def _check(
        self,
        connection: Any,
        balance: State,
        asked: tuple[str, Scope],
        release: str,
        title: str,
    ) -> None:
        name = balance.name
        _check_unit(balance, *asked, "the release")
        before = dict(self._of(connection, name, release))
        if RELEASED in before:
            raise LedgerRefused(
                f"{title!r} was released on {before[RELEASED]}: publish the files of that run, or "
                f"correct them (dpaudit release PLAN --corrects {title!r}); a new draw is a new "
                "release, under another title, and is charged again"
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
        line |= {"release": release, "body": entry.text}
        line |= {"previous": entry.previous, "hash": entry.hash}
        connection.execute(self._tables.append, line)

    def _who(self, connection: Any) -> str:
        """Who writes: the role of a server, which it has verified; else the user of the system."""
        if self._file is None:
            return str(connection.exec_driver_sql("SELECT session_user").scalar())
        try:
            return getpass.getuser()
        except (OSError, KeyError):  # a user without a name
            return str(os.getuid())

    def _row(self, connection: Any, name: str, *, locked: bool = False) -> Any:
        # SQLite locks the whole database from BEGIN IMMEDIATE on.
        query = self._tables.held if locked else self._tables.one
        return connection.execute(query, {"of": name}).one_or_none()

    def _known(self, connection: Any, name: str, *, locked: bool = False) -> Any:
        row = self._row(connection, name, locked=locked)
        if row is None:
            names = ", ".join(
                str(r.name) for r in connection.execute(self._tables.datasets.select())
            )
            raise NoAccount(
                f"{self.place}: it has no account of {name!r} (it has: {names or 'none'}); open "
                f"one with `{self._init(name)}`"
            )
        return row

    def _entries(self, connection: Any, name: str, after: int = 0) -> list[Entry]:
        rows = connection.execute(self._tables.later, {"of": name, "after": after})
        return [Entry(*row) for row in rows]

    # --- the database -----------------------------------------------------------------------------

    @cached_property
    def _tables(self) -> _Tables:
        return _Tables()

    @cached_property
    def _engine(self) -> Any:
        return _engine(self._url, self._file, self._wait)

    def _make(self) -> None:
        path = self._file
        if path is not None:
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.touch()
            except OSError as error:
                raise LedgerUnavailable(f"{path}: {error.strerror}; choose another place") from None
            _refuse_split(path)
        with self._errors(), self._engine.begin() as connection:
            self._tables.metadata.create_all(connection)

    @contextmanager
    def _writing(self) -> Iterator[Any]:
        self._exists()
        with self._errors(), self._queued(), self._engine.begin() as connection:
            yield connection

    @contextmanager
    def _queued(self) -> Iterator[None]:
        """Wait in line for SQLite's lock: its own waiting sleeps while the lock is free.

        Nothing rests on it: BEGIN IMMEDIATE is what excludes, and a killed writer leaves the line.
        """
        if self._file is None:
            yield
            return
        try:
            handle = self._beside("-queue")
        except OSError as error:
            raise LedgerUnavailable(f"{self.place}-queue: {error.strerror}; {READ_ONLY}") from None
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

    def _beside(self, suffix: str) -> int:
        """A file beside the database, opened; who may write the database may write it too."""
        path = f"{self._file}{suffix}"
        with suppress(FileNotFoundError):
            return os.open(path, os.O_RDWR)
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        with suppress(OSError):
            os.fchmod(handle, Path(str(self._file)).stat().st_mode & 0o666)
        return handle

    @contextmanager
    def _reading(self) -> Iterator[Any]:
        """One state of the database, however many statements read it."""
        self._exists()
        with self._errors(), self._engine.connect() as connection:
            if self._file is None:
                connection.execution_options(isolation_level="REPEATABLE READ")
            yield connection

    def _exists(self) -> None:
        path = self._file
        # A process that is killed while it makes a ledger leaves an empty file.
        if path is None:
            return
        if not (path.is_file() and path.stat().st_size):
            raise NoLedger(f"{path}: no ledger is there; make one with `{self._init('DATASET')}`")
        _refuse_split(path)

    def _init(self, name: str) -> str:
        """The command that opens an account here."""
        place = shlex.quote(f"ledger={self.place}")
        cap = "--budget 'epsilon=... delta=...'"
        return f"dpaudit ledger init {shlex.quote(name)} --set {place} {cap}"

    @contextmanager
    def _errors(self) -> Iterator[None]:
        from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError

        try:
            yield
        except DBAPIError as error:
            reason = " ".join(str(error.orig).split())[:200]
            raise LedgerUnavailable(f"{self.place}: {reason}; {_way_out(reason)}") from None
        except (ArgumentError, NoSuchModuleError, ImportError):
            raise LedgerUnavailable(WANTED) from None


def open_ledger(url: str | Path, wait: float = LOCK_SECONDS, folder: Path = Path()) -> Ledger:
    """A ledger: a SQLite file, or a URL that SQLAlchemy knows (postgresql+psycopg://...).

    ``wait``: seconds to wait for the lock of another writer.  ``folder``: where a relative path
    starts.
    Errors: LedgerUnavailable where SQLAlchemy is not installed, or for a URL that names no file on
    disk and no server.
    """
    if "\0" in str(url):
        raise LedgerUnavailable(f"{str(url)[:80]!r}: no file or server has a NUL in its name")
    with optional("ledger", "a ledger", LedgerUnavailable):
        import sqlalchemy  # noqa: F401  (asked for here, to say how to get it)
    return Ledger(str(url), wait, folder)


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
            select,
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
            # The database takes one charge of a release, even where a program errs.
            UniqueConstraint("dataset", "kind", "release"),
        )
        # Built once: building a statement takes as long as running it.
        rows, lines = self.datasets, self.entries
        self.one = rows.select().where(rows.c.name == bindparam("of"))
        self.held = self.one.with_for_update()
        asked = lines.c.dataset == bindparam("of"), lines.c.release == bindparam("called")
        self.called = lines.select().where(*asked)
        asked = lines.c.dataset == bindparam("of"), lines.c.number > bindparam("after")
        columns = lines.c.number, lines.c.body, lines.c.previous, lines.c.hash
        self.later = select(*columns).where(*asked).order_by(lines.c.number)
        self.append = lines.insert()
        names = ("head", "length", "charges", "spent")
        new: dict[str, Any] = {name: bindparam(name) for name in names}
        self.advance = rows.update().where(rows.c.name == bindparam("of")).values(new)


def _located(place: str, wait: float, folder: Path) -> tuple[Any, Path | None, float]:
    """The URL, SQLite's file (None of a server) and the wait of what a user names.

    Every way to name a SQLite file gives its path, links followed: what is checked, queued and
    synchronised is the file that SQLite writes.
    Errors: LedgerUnavailable for a SQLite database that is no file, or options other than timeout.
    """
    from sqlalchemy.engine import URL, make_url
    from sqlalchemy.exc import ArgumentError

    try:
        url = make_url(place) if "://" in place else URL.create("sqlite", database=place)
    except (ArgumentError, ValueError):
        raise LedgerUnavailable(WANTED) from None
    if url.drivername.partition("+")[0] != "sqlite":
        return url, None, wait
    database, options = url.database or "", dict(url.query)
    named = database and database != ":memory:" and not database.startswith("file:")
    if not named or url.host or url.drivername not in ("sqlite", "sqlite+pysqlite"):
        raise LedgerUnavailable(f"{place}: a ledger is a file on disk; give its path")
    waits = real(options.pop("timeout", wait), "timeout")
    if options or waits < 0:
        names = ", ".join(options) or "timeout"
        raise LedgerUnavailable(
            f"{place}: a ledger takes no option {names}; give the file alone, or ?timeout=SECONDS"
        )
    path = (folder / database).resolve()
    return URL.create("sqlite", database=str(path)), path, waits


def _refuse_split(path: Path) -> None:
    try:
        refuse_split(path)
    except SplitLedger as error:
        raise LedgerUnavailable(str(error)) from None
    except OSError as error:
        raise LedgerUnavailable(f"{path}: {error.strerror}; {READ_ONLY}") from None


def _engine(url: Any, file: Path | None, wait: float) -> Any:
    """An engine whose transactions are durable: PostgreSQL by ``url``, or one SQLite file.

    ``wait``: seconds to wait for another writer.
    """
    from sqlalchemy import create_engine, event

    if file is None:
        engine = create_engine(url, isolation_level="READ COMMITTED")

        @event.listens_for(engine, "connect")
        def durable(connection: Any, _: Any) -> None:
            cursor = connection.cursor()
            cursor.execute("SET synchronous_commit = on")
            cursor.execute(f"SET lock_timeout = '{int(wait * 1000)}ms'")
            connection.commit()

        return engine
    # Without this mode SQLite would make a file that is missing, empty.
    name = f"{file.as_uri()}?mode=rw"

    def opened() -> sqlite3.Connection:
        connection = sqlite3.connect(name, timeout=wait, uri=True, check_same_thread=False)
        try:
            connection.isolation_level = None  # BEGIN is ours
            # A ledger that was made with a write-ahead log is turned into one file here.
            (mode,) = connection.cursor().execute("PRAGMA journal_mode = DELETE").fetchone()
            if mode != "delete":
                raise sqlite3.OperationalError("database is locked")
            # No page is written before the journal holds every page that a transaction changes.
            connection.execute("PRAGMA cache_spill = OFF")
            # The file, its journal and, once that is deleted, the folder are synchronised.
            connection.execute("PRAGMA synchronous = EXTRA")
        except sqlite3.Error:
            connection.close()
            raise
        return connection

    engine = create_engine(url, creator=opened)

    @event.listens_for(engine, "begin")
    def immediate(connection: Any) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    return engine


def _way_out(reason: str) -> str:
    said = reason.lower()
    if "locked" in said or "lock timeout" in said:
        return "another writer holds it; wait and run again. Nothing was charged"
    if "readonly" in said or "read-only" in said:
        return READ_ONLY
    if "no such table" in said or "does not exist" in said or "not a database" in said:
        return "this is no ledger: give the one that `dpaudit ledger init` made"
    if "malformed" in said:
        return (
            "if it was moved or copied while a charge was written, put its -journal beside it "
            "under its new name"
        )
    if "full" in said:
        return "make room. Nothing was charged"
    return "see `dpaudit ledger show` whether a charge was kept before you run again"


# --- entries --------------------------------------------------------------------------------------


def _entry(name: str, number: int, previous: str, body: Mapping[str, Any]) -> Entry:
    text = _text(body)
    return Entry(number, text, previous, _hash(name, number, previous, text))


def _hash(name: str, number: int, previous: str, text: str) -> str:
    """The digest of the body, data set, number and the hash before, as canonical JSON."""
    line = f'"dataset":{_text(name)},"number":"{number}","previous":"{previous}"'
    return sha256(f'{{"body":{text},{line}}}'.encode()).hexdigest()


def _checked(name: str, entries: Sequence[Entry], before: State | None) -> State:
    """The sum of a chain; ``before``: the account that its first entries made.

    Errors: LedgerBroken naming the first entry that does not hold.
    """
    at = 0
    try:
        if before is None:
            if not entries or not _is(entries[0], OPENED):
                raise LedgerBroken(f"{name}: its first entry is missing")
            terms = read_terms(entries[0].body["terms"])
            spent, count, previous = Amounts(Fraction(0) for _ in terms.caps), 0, FIRST
        else:
            terms, spent, count = before.terms, before.spent, before.count
            at, previous = before.length, before.head
        for entry in entries:
            at += 1
            good = entry.number == at and entry.previous == previous
            if not good or entry.hash != _hash(name, at, previous, entry.text):
                raise LedgerBroken(f"{name}: entry {at} was changed, or one before it is missing")
            previous = entry.hash
            kind = str(entry.body.get("kind"))
            if kind not in ((OPENED,) if at == 1 else (CHARGED, RELEASED, WITHDRAWN)):
                raise LedgerBroken(
                    f"{name}: entry {at} is a {kind[:40]!r}, which this version of dpaudit does "
                    "not know in this place; use the version that wrote it"
                )
            if _is(entry, CHARGED):
                cost = _cost(tuple(entry.body["cost"]))
                refuse_refunds("its cost", cost)
                spent = terms.after(spent, cost, "its cost")
                count += 1
                if [encode_number(sum_) for sum_ in spent] != entry.body["spent"]:
                    raise LedgerBroken(f"{name}: entry {at}: its sums do not add up")
    except (DpauditError, ValueError, KeyError, TypeError, AttributeError) as error:
        if isinstance(error, LedgerBroken):
            raise
        said = str(error) if isinstance(error, DpauditError) else "malformed"
        raise LedgerBroken(f"{name}: entry {at}: {said}") from None
    return State(name, terms, spent, count, previous, at)


@dataclass(frozen=True)
class _Charged:
    """An account before a charge, the charge, and its sums after it."""

    before: State
    cost: Amounts
    spent: Amounts


def _check_unit(balance: State, entity: str, scope: Scope, what: str) -> None:
    """Errors: LedgerRefused for another unit or adjacency than the account's."""
    name, terms = balance.name, balance.terms
    if name_key(entity) != name_key(terms.entity) or scope.unit is not terms.scope.unit:
        raise LedgerRefused(
            f"{name}: its unit is {terms.entity!r} ({terms.scope.unit}), {what}'s is "
            f"{entity!r} ({scope.unit}); one budget protects one kind of unit"
        )
    if scope.adjacency is not terms.scope.adjacency:
        raise LedgerRefused(
            f"{name}: its data sets differ by {terms.scope.adjacency}, {what}'s by "
            f"{scope.adjacency}; losses under different adjacencies do not add up"
        )


def _key_of(dataset: str, release: str) -> str:
    """The name of a data set's charge in the account of a population."""
    return digest([dataset, release])


def _lives(entries: Sequence[Entry]) -> tuple[Publication, ...]:
    """The life of each release, in the order of their charges."""
    lives: dict[str, Publication] = {}
    for entry in entries:
        body = entry.body
        release, at = str(body.get("release")), str(body["at"])
        if _is(entry, CHARGED):
            names = ("title", "by", "corrects", "dataset")
            texts = {name: str(body.get(name, "")) for name in names}
            lives[release] = Publication(release=release, at=at, **texts)
        elif _is(entry, RELEASED) and release in lives:
            folder = str(body.get("folder", ""))
            lives[release] = replace(lives[release], released=at, folder=folder)
            corrected = lives[release].corrects
            if corrected in lives:
                title = lives[release].title
                lives[corrected] = replace(lives[corrected], corrected=title, not_corrected="")
        elif _is(entry, WITHDRAWN) and release in lives:
            reason = str(body["reason"])
            withdrawn = lives[release] = replace(lives[release], withdrawn=reason)
            first = lives.get(withdrawn.corrects)
            if first is not None and first.corrected == withdrawn.title:
                lives[first.release] = replace(first, not_corrected=reason)
    return tuple(lives.values())


@lru_cache(maxsize=1024)
def _cost(rows: tuple[str, ...]) -> Amounts:
    return read_amounts(list(rows))


def _matching(row: Any, checked: State) -> State:
    """The account that entries make, where the database stores the same.  Errors: LedgerBroken."""
    stored = (str(row.terms), str(row.spent), row.charges, row.length, row.head)
    terms, spent = _text(checked.terms.to_json()), _amounts(checked.spent)
    if stored != (terms, spent, checked.count, checked.length, checked.head):
        raise LedgerBroken(
            f"{checked.name}: the account is not what its {checked.length} entries make; if the "
            "file was moved after a crash, put its -journal beside it under its new name"
        )
    return checked


def _is(entry: Entry, kind: str) -> bool:
    return bool(entry.body.get("kind") == kind)


def _text(value: Any) -> str:
    return canonical_bytes(value).decode()


def _amounts(amounts: Amounts) -> str:
    return _text([encode_number(a) for a in amounts])


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
