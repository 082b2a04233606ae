"""A session of an analyst: queries one after the other, within one budget, and one certificate.

The session's budget is charged before anything is drawn, and stays charged whatever is asked.  Each
query spends a share of it that is fixed before it is drawn, and may depend on all answers so far.
Source: Feldman, Zrnic 2021; Whitehouse, Ramdas, Rogers, Wu 2023 (zCDP adds up adaptively).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from threading import RLock
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

from dpaudit.accountant.account import Account
from dpaudit.accountant.filters.spending import refuse_excess
from dpaudit.errors import BudgetExceeded, InvalidParameter, ReleaseInterrupted
from dpaudit.exact.domains import rational
from dpaudit.exact.wire import digest
from dpaudit.families.adaptive import Filter
from dpaudit.families.composition import Compose
from dpaudit.families.opaque import ZCDP
from dpaudit.ledger import Costs, Ledger, LedgerRefused, open_ledger
from dpaudit.profiles import WIDTH
from dpaudit.releases import publish as publishing
from dpaudit.releases.items.by_name import item_of
from dpaudit.releases.items.item import Row
from dpaudit.releases.plan import Plan, Release, budget_of
from dpaudit.releases.program import exact_values
from dpaudit.releases.sql import aggregates_of
from dpaudit.scope import Adjacency, choose
from dpaudit.storage.files import write_together
from dpaudit.storage.toml import read_toml
from dpaudit.tabular import Schema, Table, schema_of
from dpaudit.tabular.schema import number, refuse_unknown, text_of

if TYPE_CHECKING:
    from dpaudit.tabular import OpenTable

SHARE = Fraction(1, 10)  # of the session's budget, for a query that names no rho
NOTE = "queries were chosen one after another, and add up in any order (Feldman, Zrnic 2021)"


@dataclass(frozen=True)
class Answer:
    """The noisy numbers of one query, each with its 95% margin, and what the query spent."""

    rows: tuple[Row, ...]
    rho: Fraction

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __str__(self) -> str:
        return "\n".join(
            " ".join(filter(None, (f"{_keys(row)}:" if row.keys else "", _number(row))))
            for row in self.rows
        )

    def frame(self, backend: Literal["pandas", "polars", "pyarrow"] = "pandas") -> Any:
        """A frame of the library that is named: pandas, polars, pyarrow; a row each number.

        Columns: one for each key, the statistic, its value and its 95% margin, NaN where none is.
        """
        import narwhals as nw

        names = dict.fromkeys(name for row in self.rows for name, _ in row.keys)
        columns: dict[str, list[Any]] = {
            name: [dict(row.keys).get(name) for row in self.rows] for name in names
        }
        columns["statistic"] = [row.statistic for row in self.rows]
        columns["value"] = [
            row.text if row.value is None and row.text else _float(row.value) for row in self.rows
        ]
        columns["error_95"] = [_float(row.error) for row in self.rows]
        return nw.from_dict(columns, backend=backend).to_native()

    def plot(self) -> Any:
        """The numbers that have a value, with their margins, as a Matplotlib figure."""
        from dpaudit.report.curves import bars_figure

        shown = [row for row in self.rows if row.value is not None]
        title = ", ".join(dict.fromkeys(row.statistic for row in shown))
        bars = [(_keys(row), float(row.value or 0), float(row.error or 0)) for row in shown]
        return bars_figure(bars, title)


def _keys(row: Row) -> str:
    return ", ".join(key for _, key in row.keys)


def _number(row: Row) -> str:
    value = row.text or ("no value" if row.value is None else text_of(row.value)[0])
    margin = "" if row.error is None else f" +- {text_of(row.error)[0]}"
    return f"{row.statistic} {value}{margin}"


def _float(value: Fraction | None) -> float:
    return float("nan") if value is None else float(value)


@dataclass(eq=False)
class Session(AbstractContextManager["Session"]):
    """A private table, answered with noise until its budget is spent; see :func:`open`."""

    release: Release  # its title, schema, adjacency and budget; its items are those asked so far
    ledger: Ledger | None
    out: Path | None
    trials: int
    _table: OpenTable
    _key: str
    _costs: Costs  # of the session; none without a ledger
    plans: list[Plan] = field(default_factory=list)
    _drawn: dict[str, Any] = field(default_factory=dict)
    _closed: bool = False
    _lock: Any = field(default_factory=RLock, repr=False)
    _process: int = field(default_factory=os.getpid, repr=False)

    @property
    def left(self) -> Fraction:
        """The rho that is left."""
        return _rho(self.release.budget) - sum(_rho(p.release.budget) for p in self.plans)

    def ask(self, query: str, *, rho: object = None, name: str = "", **settings: Any) -> Answer:
        """One query of a plan's, by its name there, such as ``ask("count", by="sex")``.

        ``rho``: what it spends; by default a tenth of the session's budget.
        Errors: BudgetExceeded where less is left; InvalidParameter for what does not fit the
        schema; nothing is spent then.  ReleaseInterrupted where the engine failed: rho is spent.
        """
        with self._lock:  # what is left is read and spent in one step
            return self._asked(query, rho, name, settings)

    def _asked(self, query: str, rho: object, name: str, settings: Mapping[str, Any]) -> Answer:
        share = _rho(self.release.budget) * SHARE if rho is None else number(rho, "rho")
        title = name or f"{len(self.plans) + 1} {query}".replace("/", " ")
        return Answer(
            tuple(self._rows([{"query": query, "name": title, **settings}], share)), share
        )

    def _rows(self, queries: Sequence[Mapping[str, Any]], rho: Fraction) -> list[Row]:
        """Answers of several queries, each with an equal part of rho; all of them fit, or none."""
        if self._closed or self._process != os.getpid():
            state = "closed" if self._closed else "open in another process, which keeps its budget"
            raise InvalidParameter(f"{self.release.title!r}: the session is {state}; open another")
        self._admit(rho)
        names, session = {plan.release.items[0].name for plan in self.plans}, self.release
        plans_asked: list[tuple[Release, Plan]] = []
        for query in queries:
            item = item_of(query, f"query {query['name']!r}")
            if item.name in names:
                raise InvalidParameter(
                    f"query {item.name!r}: an earlier one has this name; choose another"
                )
            names.add(item.name)
            budget = ZCDP(rho / len(queries))
            single = Release(session.title, session.schema, session.adjacency, budget, (item,))
            plans_asked.append((single, single.plan()))
        refuse_excess(self._filter([*self.plans, *(plan for _, plan in plans_asked)]))
        return [row for single, plan in plans_asked for row in self._drawn_rows(single, plan)]

    def _drawn_rows(self, one: Release, plan: Plan) -> list[Row]:
        self.plans.append(plan)
        try:
            drawn = publishing.draw(plan, exact_values(one, self._table))
        except BaseException as error:  # noqa: BLE001  (an interrupt spends too; texts are private)
            raise ReleaseInterrupted(
                f"query {one.items[0].name!r} was interrupted ({type(error).__name__}): its rho is "
                "spent"
            ) from None
        self._drawn |= drawn
        return publishing.published_rows(plan, drawn)

    def _admit(self, rho: Fraction) -> None:
        """Errors: BudgetExceeded for more than is left."""
        if not 0 < rho <= self.left:
            raise BudgetExceeded(
                f"{self.release.title!r}: rho = {text_of(rho)[0]} was asked, and "
                f"{text_of(self.left)[0]} is left; ask for that, or end the session"
            )

    def count(self, by: Any = (), **settings: Any) -> Answer:
        """The rows (units, with ``per_group=1``), in all or by public keys; as :meth:`ask`."""
        return self.ask("count", by=by, **settings)

    def sum(self, column: str, by: Any = (), **settings: Any) -> Answer:
        """The sum of a column; as :meth:`ask`."""
        return self.ask("sum", column=column, by=by, **settings)

    def mean(self, column: str, by: Any = (), **settings: Any) -> Answer:
        """The mean of a column; as :meth:`ask`."""
        return self.ask("mean", column=column, by=by, **settings)

    def quantile(self, column: str, at: Any, **settings: Any) -> Answer:
        """Quantiles of a column; as :meth:`ask`."""
        return self.ask("quantile", column=column, at=at, **settings)

    def bounds(self, column: str, at: Any, **settings: Any) -> dict[str, Fraction]:
        """Bounds of a column by private quantiles, for the ``bounds`` of later queries.

        ``at``: the upper one's share of values, such as 0.99, or both ends'; without a lower one
        it is the column's own.  Other settings are those of :meth:`ask`; the quantiles spend rho
        like any query.
        Errors: also InvalidParameter where the quantiles are equal: rho is spent then.
        """
        stated = self.release.schema.number(column, "bounds")
        quantiles = sorted(
            row.value or Fraction(0) for row in self.quantile(column, at, **settings)
        )
        low = quantiles[0] if len(quantiles) > 1 else stated.lower
        if not low < quantiles[-1]:
            raise InvalidParameter(
                f"bounds of {column!r}: the quantiles are equal, {text_of(low)[0]}; their rho is "
                "spent, choose quantiles further apart"
            )
        return {"from": low, "to": quantiles[-1]}

    def unit_rows(self, at: Any, **settings: Any) -> int:
        """How many rows that share of units has at most, for ``per_group`` of later queries."""
        (row,) = self.ask("unit_rows", at=at, **settings)
        return int(row.value or 1)

    def sql(self, text: str, *, rho: object = None, name: str = "") -> Answer:
        """The aggregates of a SELECT, each with an equal part of ``rho``; as :meth:`ask`.

        ``name``: of the query; the aggregates are named by their alias, or by their text.
        Errors: also InvalidParameter for SQL beyond the dialect (:mod:`dpaudit.releases.sql`), with
        its place in the text.
        """
        with self._lock:
            title = name or f"{len(self.plans) + 1} sql"
            queries = aggregates_of(text, self.release.schema, f"query {title!r}")
            budget = _rho(self.release.budget) * SHARE if rho is None else number(rho, "rho")
            named = [{**query, "name": f"{title}: {query['name']}"} for query in queries]
            return Answer(tuple(self._rows(named, budget)), budget)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> publishing.Published | None:
        """End the session: write what was published with its certificate, and tell the ledger.

        None where nothing was asked, or where no folder was given.
        Errors: Disagreement where an attack broke the noise that was declared; LedgerRefused where
        a release was written into the folder meanwhile.
        """
        with self._lock:
            if self._closed or self._process != os.getpid():
                return None
            self._closed = True
            return self._published()

    def _published(self) -> publishing.Published | None:
        if not self._drawn or self.out is None:
            if self.ledger is not None:
                self.ledger.finish(self.release.schema.name, self._key, {})
            return None
        name, charged = self.release.schema.name, {}
        if self.ledger is not None:
            charged = {"ledger": publishing.account_row(self.ledger, name, self._costs)}
        plan = self.plan()
        rows = publishing.published_rows(plan, self._drawn)
        targets = publishing.targets_of(self.out, "release")
        made = self._table.ready_made
        contents = publishing.contents_of(plan, self._drawn, rows, targets, made)
        _refuse_published(self.out)
        write_together(contents)
        head = None
        if self.ledger is not None:
            digests = {
                path.name: publishing.digest_of(certificate)
                for path, certificate in contents.items()
            }
            head = self.ledger.finish(name, self._key, digests, self.out)
        notes = [NOTE, *([] if head is None else [f"charged in a ledger, whose head is {head}"])]
        run = publishing.run_row(targets["json"], contents[targets["json"]], notes, charged)
        done = publishing.Published(tuple(contents), tuple(rows), head)
        if not self.trials:
            return done
        certificate = publishing.certified(plan, self.trials, draw=lambda: run, ready_made=made)
        return publishing.with_certificate(done, certificate, self.out, self.release, self.ledger)

    def plan(self) -> Plan:
        """The queries so far as one plan, whose claim is the session's budget."""
        plans = [plan for plan in self.plans if plan.release.items[0].name in self._names()]
        items = tuple(plan.release.items[0] for plan in plans)
        release = Release(
            self.release.title,
            self.release.schema,
            self.release.adjacency,
            self.release.budget,
            items,
        )
        declaration = self._filter(plans)
        return Plan(
            release,
            {label: part for plan in plans for label, part in plan.parts.items()},
            {label: leaf for plan in plans for label, leaf in plan.leaves.items()},
            declaration,
            Account(declaration, release.scope, WIDTH),
        )

    def _filter(self, plans: Sequence[Plan]) -> Filter:
        """The noise of some queries, under the session's budget as a cap.

        Each query, its noise, and whether it is asked at all may depend on all answers before it;
        what is asked first fits into what is left, so that the cap holds, and no smaller bound.
        """
        leaves = [
            leaf
            for plan in plans
            for label, leaf in plan.leaves.items()
            for _ in range(getattr(plan.parts[label], "times", 1))
        ]
        return Filter.of(Compose(*leaves) if len(leaves) > 1 else leaves[0], self.release.budget)

    def _names(self) -> set[str]:
        """The items that were drawn; one that was interrupted has no answer."""
        return {label.partition("/")[0] for label in self._drawn}


def open(
    data: Any,
    schema: Schema | str | Path,
    *,
    title: str = "",
    budget: object = None,
    adjacency: str = "",
    charge_delta: object = None,
    ledger: Ledger | str | Path | publishing.Unrecorded | None = None,
    out: str | Path | None = None,
    trials: int = publishing.TRIALS,
) -> Session:
    """Open a private table for queries, one after the other, within one budget.

    ``data``: as of a release.  ``schema``: a :class:`Schema`, or a TOML file with its [table]; the
    file may also hold ``title``, ``adjacency``, ``ledger``, ``charge_delta`` and [budget], which
    arguments replace.
    ``budget``: ZCDP, or a rho; it is charged once the data fit the schema, before any query.
    ``charge_delta``: at which an account of epsilons and deltas is charged; its epsilon follows.
    ``out``: the folder for what is published, which must not hold a release, and the certificate
    (an attack of ``trials`` a side).

    >>> import dpaudit as dp
    >>> from dpaudit.releases.publish import NO_LEDGER
    >>> from dpaudit.tabular import Category, Schema
    >>> people = Schema("people", {"sex": Category(("f", "m"))})
    >>> data = {"sex": ["f", "m"] * 5000}
    >>> import pyarrow as pa
    >>> asked = {"title": "t", "adjacency": "add_remove", "budget": 2, "ledger": NO_LEDGER}
    >>> with dp.open(pa.table(data), people, **asked) as table:
    ...     answer = table.count(by="sex")
    >>> [abs(row.value - 5000) < 100 for row in answer]
    [True, True]

    Errors: InvalidParameter for what is missing or does not fit; of the ledger as
    :meth:`Ledger.charge`; DataRefused for values that the schema declares errors.
    """
    publishing.check_trials(trials)
    stated, folder = _stated(schema)
    table_schema = (
        schema if isinstance(schema, Schema) else schema_of(stated["table"], folder=folder)
    )
    given = budget if budget is not None else budget_of(stated.get("budget", {"rho": 0}))
    guarantee = given if isinstance(given, ZCDP) else ZCDP(number(_number_of(given), "budget"))
    if guarantee.rho == 0:
        raise InvalidParameter("budget: expected a rho above 0, as an argument or in the file")
    title = title or str(stated.get("title", ""))
    adjacency = adjacency or str(stated.get("adjacency", ""))
    if not title or not adjacency:
        raise InvalidParameter("open: give title= and adjacency=, or state them in the file")
    # A release needs an item; this one is never drawn.
    probe = item_of({"query": "count", "name": "rows"}, "open")
    release = Release(
        title, table_schema, choose(Adjacency, adjacency, "adjacency"), guarantee, (probe,)
    )
    book = _book(ledger if ledger is not None else stated.get("ledger"), folder, title)
    key = digest({"session": title, "schema": table_schema.row(), "budget": repr(guarantee)})
    place = None if out is None else Path(out)
    if place is not None:
        _refuse_published(place)
    charged = None
    costs: Costs = {}
    if book is not None:
        at = stated.get("charge_delta") if charge_delta is None else charge_delta
        delta = None if at is None else rational(at, "charge_delta")
        costs = book.costs(table_schema.name, guarantee, delta, joined=table_schema.charged)
        charged = (table_schema.name, table_schema.entity, release.scope, costs, key, title)
        book.admit(*charged)
    table = Table(table_schema, data).opened(key)
    table.check()
    if book is not None and charged is not None:
        book.charge(*charged, table_schema.digest, guarantee.digest)
    return Session(release, book, place, trials, table, key, costs)


def _refuse_published(out: Path) -> None:
    """Errors: LedgerRefused for a folder with a release in it."""
    existing = [path for path in publishing.targets_of(out, "release").values() if path.exists()]
    if existing:
        raise LedgerRefused(
            f"{existing[0]} is there: another release; choose another folder for out="
        )


def _stated(schema: Schema | str | Path) -> tuple[Mapping[str, Any], Path]:
    """The content of the session's file, and its folder.  Errors: InvalidParameter."""
    if isinstance(schema, Schema):
        return {}, Path()
    path = Path(schema)
    table = read_toml(path)
    known = {"title", "adjacency", "ledger", "charge_delta", "budget", "table"}
    refuse_unknown(table, known, str(path))
    if "table" not in table:
        raise InvalidParameter(f"{path}: [table] is missing")
    return table, path.parent


def _book(
    asked: Ledger | str | Path | publishing.Unrecorded | None, folder: Path, title: str
) -> Ledger | None:
    """The ledger to charge; None only where that was asked for.  Errors: InvalidParameter."""
    if asked is publishing.NO_LEDGER:
        return None
    if asked is None:
        raise InvalidParameter(
            f"{title!r}: give a ledger, or NO_LEDGER to answer though nothing remembers it"
        )
    if isinstance(asked, Ledger):
        return asked
    return open_ledger(asked, folder=folder)


def _number_of(given: Any) -> Any:
    """A rho; errors: InvalidParameter for another kind of budget."""
    if hasattr(given, "parameters"):
        raise InvalidParameter(
            f"budget = {given.head}: a session adds up rho, in any order; give ZCDP, or its rho, "
            "and charge_delta= for an account of epsilon and delta"
        )
    return given


def _rho(budget: Any) -> Fraction:
    return Fraction(budget.rho)
