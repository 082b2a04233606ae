"""Exact integer totals of a private table, with every unit's contribution bounded in the engine.

Rows are joined to other tables (:mod:`dpaudit.tabular.joins`), encoded by the public schema
(numbers as steps of their grid, keys as their place) and filtered by its conditions, then each unit
keeps at most ``schema.rows`` of them, and each item what its own limits allow.  Which
rows stay is decided by a keyed hash of the row's own codes, and by the codes themselves where two
hashes meet: a function of the unit's rows alone, whatever the order of the file, the partitions or
the other units.  So a unit that comes or goes changes no other unit's part of a total.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from math import prod
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpaudit.errors import DpauditError, InvalidParameter
from dpaudit.tabular.cells import spelled, spelled_sql, trimmed_sql
from dpaudit.tabular.dates import YEAR
from dpaudit.tabular.joins import MOST_JOINED, joined_sql, size_sql, with_joins
from dpaudit.tabular.part import (
    DATES,
    INTEGERS,
    KEPT,
    NUMBERS,
    TEXTS,
    UNTYPED,
    WHOLE,
    Part,
    arrow_numbers,
    arrow_texts,
)
from dpaudit.tabular.schema import (
    COUNT,
    CUT,
    DROP,
    ERROR,
    NEAREST,
    Category,
    Column,
    Number,
    Period,
    Schema,
    Text,
    Within,
)
from dpaudit.tabular.source import Source, cell, open_source, readable, ready_made

LARGEST_TERM = 2**62  # totals that fit 64 bits with a sign
MOST_CELLS = 50_000  # groups of one total, each of which is a number that is published
MOST_PLACES = 10_000_000  # groups that only those with rows take memory for
OFF_GRID, ROUNDING = 1e-6, 1e-15  # of a step, and of a quotient of two floats
MOST_PACKED = 2**40  # the other bits of 64 are of a hash
MOST_COUNTED = 2**20  # so few codes have 32 bits with their hash, and 32 are left for a unit
UNIT, CODE = "dpaudit_unit", "dpaudit_code"
COUNTED, BEFORE = "dpaudit_counted", "dpaudit_before"
KEYS, KEY, KEY_CODE = "dpaudit_keys", "dpaudit_key", "dpaudit_key_code"
EDGES, EDGE, BIN = "dpaudit_edges", "dpaudit_edge", "dpaudit_bin"
Places: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Counted:
    """Rows by place among ``size`` groups; ``places`` (groups with rows,) grow."""

    places: Places
    counts: Places
    size: int


Keys: TypeAlias = tuple[int, ...] | dict[str, int] | Counted


class DataRefused(DpauditError):
    """Private data that do not fit the public schema; told to their holder, never published."""


@dataclass(frozen=True)
class Bins:
    """A column of numbers, cut at ``edges`` (in steps): code < edges[0] is bin 0, and so on."""

    column: str
    edges: tuple[int, ...]

    @property
    def cells(self) -> int:
        """How many bins there are."""
        return len(self.edges) + 1


Factor: TypeAlias = tuple[str, int, int]


@dataclass(frozen=True)
class Term:
    """A product of factors, divided by ``divisor`` and rounded half up; no factor: 1 a row."""

    factors: tuple[Factor, ...] = ()
    divisor: int = 1


ROWS = Term()


@dataclass(frozen=True)
class Cut:
    """The units that a limit changes, of which each is 1: those with more rows than may count.

    With a ``column``: those with a value that counts as the nearest one; with ``ends`` too: those
    whose total of it, in steps, lies outside them.
    """

    column: str = ""
    ends: tuple[int, int] | None = None


@dataclass(frozen=True)
class Total:
    """Sums over rows, group by group.

    ``terms``: one total each.  ``by``: columns of public keys, bins, or one column of text.
    ``needed``: columns without which a row is left out.  ``groups`` and ``per_group``: how many
    groups of one unit count, and how many of its rows in each; None where ``schema.rows`` is limit
    enough.  ``sparse``: of one count of rows, the groups that have some alone, as :class:`Counted`.
    ``ends``: a unit's sum of the one term in a group counts as the nearest number between them.
    ``cuts``: units are counted that these change, one total each, in the place of terms.
    ``bounds``: (column, low, high) in steps, of a term's columns: others count as the nearest.
    ``per_unit``: how many of a unit's rows count, in all groups together.
    ``of_units``: units are counted by how many rows of theirs meet ``where``: group 0 has one row.
    """

    name: str
    terms: tuple[Term, ...]
    by: tuple[str | Bins, ...] = ()
    where: tuple[Within, ...] = ()
    needed: tuple[str, ...] = ()
    groups: int | None = None
    per_group: int | None = None
    sparse: bool = False
    ends: tuple[int, int] | None = None
    cuts: tuple[Cut, ...] = ()
    bounds: tuple[tuple[str, int, int], ...] = ()
    per_unit: int | None = None
    of_units: bool = False

    @property
    def by_unit(self) -> bool:
        """Whether it asks which rows are of one unit."""
        limits = (
            self.groups,
            self.per_group,
            self.per_unit,
            self.ends,
            *(cut.ends for cut in self.cuts),
        )
        return self.of_units or any(limit is not None for limit in limits)


@dataclass(frozen=True, eq=False)
class Table:
    """A private table with its public schema; nothing is read before it is asked for totals.

    ``data``: a path to ``.csv`` or ``.parquet``, a frame that narwhals reads (pandas, polars,
    pyarrow; Dask and PySpark partition by partition), or a DuckDB relation.
    """

    schema: Schema
    data: Any = field(repr=False)

    def opened(self, key: str) -> OpenTable:
        """The table, ready to give totals; ``key`` decides which rows of a unit are kept.

        Errors: InvalidParameter where a column is missing or of a type that does not fit.
        """
        source = with_joins(open_source(self.data, self.schema), self.schema)
        return OpenTable(self.schema, source, key, ready_made(self.data, self.schema))


class OpenTable:
    """A table whose columns fit its schema.

    ``ready_made``: the types of the objects that hold rows; "" for files alone.
    """

    def __init__(self, schema: Schema, source: Source, key: str, ready_made: str = "") -> None:
        self.schema, self.ready_made = schema, ready_made
        self._source = source
        with readable(schema.name):
            types = source.first(partial(_types, schema))
        _check_types(schema, types)
        # Elsewhere a part may hold whole numbers where another, with gaps, holds floats.
        self._work = _Work(schema, types if source.alike else None, key)

    def check(self) -> None:
        """Look for values that the schema declares to be errors.

        Errors: DataRefused with the columns and how many rows; that is for the holder of the data
        alone, and is published nowhere.
        """
        counts_by_text = Counter[str]()
        with readable(self.schema.name, self._source.refuse_ragged):
            for counts in self._source.each(self._work.refused):
                counts_by_text.update(counts)
        if counts_by_text:
            errors = "; ".join(
                in_rows(text, count) + self._first(text) for text, count in counts_by_text.items()
            )
            raise DataRefused(
                f"{self.schema.name}: {errors}; mend the data, or declare in the schema "
                "how such a row is read (format, decimal, missing_codes) or what it does (missing, "
                "outside, other, excess) (this is not private: publish it nowhere). Nothing was "
                "spent"
            )

    def _first(self, text: str) -> str:
        """Where a file first holds an error that :meth:`check` has found."""
        place = self._source.located(lambda part: text in self._work.refused(part))
        return f" (the first: {place})" if place else ""

    def changes(self) -> dict[str, int]:
        """How many rows the schema leaves out, or counts with another value; by reason, in words.

        These numbers are exact, hence not private: they are shown to the holder of the data and
        never published.
        """
        changed = Counter[str]()
        with readable(self.schema.name):
            for counts in self._source.each(self._work.changed):
                changed.update(counts)
        return dict(changed)

    def totals(self, asked: Sequence[Total]) -> list[list[Keys]]:
        """The totals, one list of terms each: whole numbers by place of the group, or by its text.

        Parts are summed where they are, and their sums, whole numbers, are added here.
        Errors: InvalidParameter for more groups than a plan allows.
        """
        refuse_groups(self.schema, asked)
        with readable(self.schema.name):
            parts = list(self._source.each(partial(self._work.sums, asked=tuple(asked))))
        totals: list[list[Keys]] = []
        for total, *rows in zip(asked, *parts, strict=True):
            sizes = sizes_of(self.schema, total)
            if total.sparse and sizes is not None:
                totals.append([_counted(rows, prod(sizes))])
                continue
            added: list[dict[Any, int]] = [{} for _ in total.cuts or total.terms]
            for group, *values in chain.from_iterable(rows):
                for term, value in zip(added, values, strict=True):
                    term[group] = term.get(group, 0) + int(value or 0)
            totals.append([_dense(term, sizes) for term in added])
        return totals

    def rows(self, columns: Sequence[str]) -> list[tuple[Any, ...]]:
        """The rows that count, as (unit, code of each column), without those that miss one."""
        with readable(self.schema.name):
            parts = self._source.each(partial(self._work.rows, columns=tuple(columns)))
            return [row for rows in parts for row in rows]


@dataclass(frozen=True)
class _Work:
    """Questions to a part of the data, wherever it is; ``types`` None: the part's own."""

    schema: Schema
    types: Mapping[str, str] | None
    key: str

    def refused(self, part: Part) -> dict[str, int]:
        """How many rows hold what the schema declares an error, in words."""
        if size := size_sql(self.schema):
            ((joined,),) = part.execute(size).fetchall()
            if joined is not None and joined > MOST_JOINED:
                raise DataRefused(
                    f"{self.schema.name}: its joins make over {MOST_JOINED} rows, because a "
                    f"{self.schema.entity} with many rows in two tables has their product; leave "
                    "rows out of one (this is not private: publish it nowhere). Nothing was spent"
                )
        counts = {} if self.schema.excess == CUT else self._excess(part)
        return counts | self._tested(part, lambda test: test.does == ERROR)

    def changed(self, part: Part) -> dict[str, int]:
        """How many rows are left out, or count with another value, in words."""
        cut = self._excess(part) if self.schema.excess == CUT else {}
        counts = {f"{text} (the others are left out)": count for text, count in cut.items()}
        return counts | self._tested(part, lambda test: test.does != ERROR)

    def _tested(self, part: Part, wanted: Callable[[_Test], bool]) -> dict[str, int]:
        """How many rows meet the wanted tests, without those that none meets."""
        types = self.types or _types(self.schema, part)
        tests = list(filter(wanted, _tests(self.schema, types)))
        if not tests:
            return {}
        condition = _filter(self.schema, types)
        conditions = (
            test.condition
            if test.column in self.schema.where
            else f"{test.condition} AND {condition}"
            for test in tests
        )
        select = ", ".join(f"count(*) FILTER (WHERE {condition})" for condition in conditions)
        with part.tables(_keys(self.schema)):
            view = _coded(self.schema, types)
            (counts,) = part.execute(f"SELECT {select} FROM {view}").fetchall()
        return {test.text: int(n) for test, n in zip(tests, counts, strict=True) if n}

    def _excess(self, part: Part) -> dict[str, int]:
        """How many rows of units lie beyond the schema's limit."""
        schema = self.schema
        if schema.unit is None:
            return {}
        view = _counted_rows(schema, self.types or _types(schema, part))
        sizes = f"SELECT count(*) AS n FROM {view} GROUP BY {_unit(schema)}"
        more = f"SELECT sum(n - {schema.rows}) FROM ({sizes}) WHERE n > {schema.rows}"
        with part.tables(_keys(schema)):
            ((rows,),) = part.execute(more).fetchall()
        text = f"a {schema.entity} has more rows than {schema.rows}"
        return {text: int(rows)} if rows else {}

    def sums(self, part: Part, asked: Sequence[Total]) -> list[Any]:
        """The rows (group, total of each term) of every total; two arrays for a sparse one."""
        limited = any(total.by_unit for total in asked)
        cells = self._cells()
        counted = not limited and cells is not None and prod(cells) <= MOST_COUNTED
        weight = self._bound(part, cells, counted=counted)
        plain = [total for total in asked if not self._alone(total)]
        queries = [(self._query(total, weight), len(total.terms)) for total in plain]
        known: dict[int, Any] = dict(zip(map(id, plain), part.rows(queries), strict=True))
        for total in asked:
            if id(total) in known:
                continue
            with part.tables(_edges(total) | (_keys(self.schema) if total.cuts else {})):
                cuts = total.cuts
                query = self._cuts(part, cuts) if cuts else self._query(total, weight)
                answer = part.execute(query)
                known[id(total)] = _arrays(answer) if total.sparse else answer.fetchall()
        return [known[id(total)] for total in asked]

    def _alone(self, total: Total) -> bool:
        """Whether a total needs tables of its own, or has groups that are texts or arrays."""
        return bool(
            total.cuts or total.sparse or _edges(total) or sizes_of(self.schema, total) is None
        )

    def rows(self, part: Part, columns: Sequence[str]) -> list[tuple[Any, ...]]:
        """As :meth:`OpenTable.rows`."""
        places = [_place(list(self.schema.columns).index(name)) for name in columns]
        unit = "NULL" if self.schema.unit is None else UNIT
        present = " AND ".join(f"{place} IS NOT NULL" for place in places)
        self._bound(part, self._cells(), counted=False)
        result = part.execute(f"SELECT {unit}, {', '.join(places)} FROM {KEPT} WHERE {present}")
        rows: list[tuple[Any, ...]] = result.fetchall()
        return rows

    def _cells(self) -> list[int] | None:
        """How many codes each column has, one of them for no value; None for too many."""
        cells = []
        for column in self.schema.columns.values():
            if isinstance(column, Text):
                return None
            if isinstance(column, Number):
                cells.append(column.high - column.low + 2)
            else:
                cells.append(len(column.domain) + 1)
        return cells if prod(cells) <= MOST_PACKED else None

    def _bound(self, part: Part, cells: list[int] | None, *, counted: bool) -> str:
        """Make the table of rows with codes; of a unit with too many, those of the smallest hashes.

        In the order of units, and of keyed hashes within a unit, a row is kept where the row
        ``schema.rows`` places before it is another unit's.  Where the codes of a row fit into one
        number beside a part of their hash, that number is sorted; with the unit in it, where all
        three fit.  How many bits of a hash count is the schema's alone.
        ``counted``: rows of the same codes are one, without their unit; which column says how many
        they are, or "".
        """
        schema, types = self.schema, self.types or _types(self.schema, part)
        places = [_place(place) for place in range(len(schema.columns))]
        codes = ", ".join(
            f"{_code(column, cell(number), types[name], number)} AS {place}"
            for number, (place, (name, column)) in enumerate(
                zip(places, schema.columns.items(), strict=True)
            )
        )
        view, kept_rows = _coded(schema, types), _filter(schema, types)
        unit = None if schema.unit is None else _unit(schema)
        rows = f"SELECT {codes} FROM {view} WHERE {kept_rows}"
        if unit is not None:
            rows = (
                f"SELECT {unit} AS {UNIT}, {codes} FROM {view} "
                f"WHERE {unit} IS NOT NULL AND {kept_rows}"
            )
        if cells is None:
            columns_kept = places
            if unit is not None:
                rows = self._first(rows, places, self._order("rows", places))
        else:
            rows, columns_kept = self._packed(part, rows, cells, counted=counted)
        named = [
            *([] if unit is None or counted else [UNIT]),
            *columns_kept,
            *([COUNTED] * counted),
        ]
        with part.tables(_keys(schema)):
            part.keep(f"SELECT {', '.join(named)} FROM ({rows})")
        return COUNTED if counted else ""

    def _packed(
        self, part: Part, rows: str, cells: list[int], *, counted: bool
    ) -> tuple[str, list[str]]:
        """Rows whose codes are one number, and the codes as they are read off it again."""
        packed, reads = "0", []
        stride = prod(cells)
        for place, (column, size) in enumerate(
            zip(self.schema.columns.values(), cells, strict=True)
        ):
            low = column.low if isinstance(column, Number) else 0
            stride //= size
            name = _place(place)
            packed += f" + coalesce({name}::BIGINT - ({low}), {size - 1}) * {stride}"
            read = f"{CODE} // {stride} % {size}"
            reads.append(f"CAST(nullif({read}, {size - 1}) + ({low}) AS BIGINT) AS {name}")
        unit = "" if self.schema.unit is None else f"{UNIT}, "
        rows = f"SELECT {unit}{packed} AS {CODE} FROM ({rows})"
        if self.schema.unit is not None:
            bits, few = prod(cells).bit_length(), prod(cells) <= MOST_COUNTED
            mixed = f"hash({_text(self.key)}, 'rows', {CODE}) >> {bits + 32 * few} << {bits}"
            rows = f"SELECT {UNIT}, ({mixed}) | {CODE}::UBIGINT AS {CODE} FROM ({rows})"
            least = self._least_unit(part) if few else None
            if least is None:
                rows = self._first(rows, [CODE], CODE)
            else:
                rows = self._first_of_whole(rows, least)
            rows = f"SELECT {UNIT}, ({CODE} & {2**bits - 1})::BIGINT AS {CODE} FROM ({rows})"
        if counted:
            rows = f"SELECT {CODE}, count(*) AS {COUNTED} FROM ({rows}) GROUP BY {CODE}"
        return rows, reads

    def _first(self, rows: str, columns: Sequence[str], order: str) -> str:
        """The first ``schema.rows`` rows of each unit in an order."""
        before = f"lag({UNIT}, {self.schema.rows}) OVER (ORDER BY {UNIT}, {order})"
        named = ", ".join([UNIT, *columns])
        rows = f"SELECT {named}, {before} AS {BEFORE} FROM ({rows})"
        return f"SELECT {named} FROM ({rows}) WHERE {BEFORE} IS DISTINCT FROM {UNIT}"

    def _least_unit(self, part: Part) -> int | None:
        """The smallest unit, where units are whole numbers and 32 bits tell them apart."""
        types = self.types or _types(self.schema, part)
        if types[str(self.schema.unit)] not in WHOLE:
            return None
        unit = _unit(self.schema)
        ends = f"SELECT min({unit}), max({unit}) FROM {joined_sql(self.schema)}"
        ((low, high),) = part.execute(ends).fetchall()
        return None if low is None or high - low >= 2**32 else int(low)

    def _first_of_whole(self, rows: str, least: int) -> str:
        """As :meth:`_first`, for units and codes of 32 bits, which are sorted as one number."""
        code = f"({UNIT}::BIGINT - ({least}))::UBIGINT << 32 | {CODE}"
        before = f"lag({CODE}, {self.schema.rows}) OVER (ORDER BY {CODE})"
        rows = f"SELECT {CODE}, {before} AS {BEFORE} FROM (SELECT {code} AS {CODE} FROM ({rows}))"
        return (
            f"SELECT ({CODE} >> 32)::BIGINT + ({least}) AS {UNIT}, {CODE} & {2**32 - 1} AS {CODE} "
            f"FROM ({rows}) WHERE {BEFORE} IS NULL OR {BEFORE} >> 32 <> {CODE} >> 32"
        )

    def _order(self, purpose: str, columns: Sequence[str]) -> str:
        among = ", ".join(columns)
        return f"hash({_text(self.key)}, {_text(purpose)}, {among}), {among}"

    def _query(self, total: Total, weight: str) -> str:
        places = {name: _place(i) for i, name in enumerate(self.schema.columns)}
        columns, columns_by_place = self.schema.columns, tuple(places.values())
        group = "0" if total.of_units else _group(self.schema, total, places)
        needed = [f"{places[name]} IS NOT NULL" for name in dict.fromkeys(columns_of(total))]
        needed += [_within(columns[w.column], places[w.column], w.codes) for w in total.where]
        rows = f"SELECT *, {group} AS g FROM {KEPT}"
        for number, key in enumerate(total.by):
            if isinstance(key, Bins):
                edge = f"{places[key.column]} >= {EDGES}{number}.{EDGE}{number}"
                rows += f" ASOF LEFT JOIN {EDGES}{number} ON {edge}"
        rows += f" WHERE {' AND '.join(needed)}" if needed else ""
        if total.of_units:
            units = f"SELECT count(*) - 1 AS g FROM ({rows}) GROUP BY {UNIT}"
            return f"SELECT g, count(*) FROM ({units}) GROUP BY g"
        for name, low, high in total.bounds:
            places[name] = f"least(greatest({places[name]}, {low}), {high})"
        for among, most in ((f"{UNIT}, g", total.per_group), (UNIT, total.per_unit)):
            if most is not None:
                order = self._order(f"{total.name} within", list(columns_by_place))
                rows = (
                    f"SELECT * FROM ({rows}) QUALIFY row_number() OVER "
                    f"(PARTITION BY {among} ORDER BY {order}) <= {most}"
                )
        if total.groups is not None:
            order = self._order(f"{total.name} among", ["g"])
            rows = (
                f"SELECT * FROM ({rows}) QUALIFY dense_rank() OVER "
                f"(PARTITION BY {UNIT} ORDER BY {order}) <= {total.groups}"
            )
        sums = ", ".join(_sum(term, places, weight) for term in total.terms)
        sums = f"CAST({sums} AS BIGINT)" if total.sparse else sums
        if total.ends is not None:
            low, high = total.ends
            units = f"SELECT g, {sums} AS s FROM ({rows}) GROUP BY g, {UNIT}"
            return f"SELECT g, sum(least(greatest(s, {low}), {high})) FROM ({units}) GROUP BY g"
        # Without keys there is one group, for which DuckDB needs no table of groups.
        grouped = ("g", " GROUP BY g") if total.by else ("0", "")
        return f"SELECT {grouped[0]}, {sums} FROM ({rows}){grouped[1]}"

    def _cuts(self, part: Part, cuts: Sequence[Cut]) -> str:
        """How many units each limit changes, in one row."""
        schema, types = self.schema, self.types or _types(self.schema, part)
        names, view = list(schema.columns), _counted_rows(schema, types)
        unit = None if schema.unit is None else _unit(schema)
        selects = []
        for cut in cuts:
            if not cut.column:
                more = f"SELECT 1 FROM {view} GROUP BY {unit} HAVING count(*) > {schema.rows}"
                selects.append(f"(SELECT count(*) FROM ({more}))")
                continue
            number = names.index(cut.column)
            if cut.ends is None:
                column = schema.ordered(cut.column, "")
                outside = _outside(column, _read(column, cell(number), types[cut.column]))
                counted = "*" if unit is None else f"DISTINCT {unit}"
                selects.append(f"(SELECT count({counted}) FROM {view} WHERE {outside})")
            else:
                sums = f"SELECT sum({_place(number)}) AS s FROM {KEPT} GROUP BY {UNIT}"
                low, high = cut.ends
                outside_sums = f"s NOT BETWEEN {low} AND {high}"
                selects.append(f"(SELECT count(*) FROM ({sums}) WHERE {outside_sums})")
        return f"SELECT 0, {', '.join(selects)}"


def sizes_of(schema: Schema, total: Total) -> tuple[int, ...] | None:
    """How many groups each part of ``by`` has; None for keys that are not known."""
    if total.of_units:
        return (schema.rows,)
    sizes = []
    for key in total.by:
        if isinstance(key, Bins):
            sizes.append(key.cells)
            continue
        column = schema.columns[key]
        if isinstance(column, Text):
            return None
        if isinstance(column, Number):
            sizes.append(column.high - column.low + 1)
        else:
            sizes.append(len(column.domain))
    return tuple(sizes)


def refuse_groups(schema: Schema, asked: Sequence[Total]) -> None:
    """Errors: InvalidParameter for more groups than fit into memory; a plan asks before data."""
    for total in asked:
        sizes = sizes_of(schema, total)
        most = MOST_PLACES if total.sparse else MOST_CELLS
        if sizes is not None and prod(sizes) > most:
            raise InvalidParameter(
                f"{total.name}: {prod(sizes)} groups; at most {most}, choose larger steps or fewer "
                "keys"
            )


def _arrays(answer: Any) -> tuple[Places, Places]:
    group, counts = answer.fetchnumpy().values()
    return np.asarray(group, dtype=np.int64), np.asarray(counts, dtype=np.int64)


def _counted(parts: Sequence[tuple[Places, Places]], size: int) -> Counted:
    """The counts of all parts, by place."""
    given = np.concatenate([places for places, _ in parts])
    places, which = np.unique(given, return_inverse=True)
    counts = np.zeros(len(places), dtype=np.int64)
    np.add.at(counts, which, np.concatenate([counts for _, counts in parts]))
    return Counted(places, counts, size)


def _dense(totals: Mapping[Any, int], sizes: tuple[int, ...] | None) -> Keys:
    if sizes is None:
        return {str(key): value for key, value in totals.items()}
    values = [0] * prod(sizes)
    for group, value in totals.items():
        values[int(group)] = value
    return tuple(values)


# --- SQL ------------------------------------------------------------------------------------------


def _unit(schema: Schema) -> str:
    """The column of the unit, which is the last."""
    return cell(len(schema.columns))


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _place(place: int) -> str:
    return f"dpaudit_c{place}"


def _counted_rows(schema: Schema, types: Mapping[str, str]) -> str:
    """The rows that meet the schema's conditions, spelled."""
    if not schema.conditions:
        return _spelled(schema, types)
    cells = ", ".join(cell(place) for place in range(len(schema.read)))
    return f"(SELECT {cells} FROM {_coded(schema, types)} WHERE {_filter(schema, types)})"


def _filter(schema: Schema, types: Mapping[str, str]) -> str:
    """Whether a row of :func:`_coded` meets the schema's conditions; not one with a missing value.

    It is a function of the row alone, so that a unit that comes or goes changes no other's rows.
    """
    names = list(schema.columns)
    conditions = []
    for within in schema.conditions:
        number, column = names.index(within.column), schema.columns[within.column]
        code = _code(column, cell(number), types[within.column], number)
        conditions.append(f"coalesce({_within(column, f'({code})', within.codes)}, false)")
    return " AND ".join(conditions) or "true"


def _coded(schema: Schema, types: Mapping[str, str]) -> str:
    """The rows, with the code of each category's key beside it; NULL for a text that is none."""
    view = _spelled(schema, types)
    for number, column in enumerate(schema.columns.values()):
        if isinstance(column, Category) and not column.numeric:
            keys = f"{KEYS}{number}"
            view += f" LEFT JOIN {keys} ON {cell(number)} = {keys}.{KEY}"
    return view


def _spelled(schema: Schema, types: Mapping[str, str]) -> str:
    """The rows, with one spelling of each text; what the schema declares decides, no format."""
    trimmed, cells = [], []
    for number, name in enumerate(schema.read):
        value, unit, kind = cell(number), name == schema.unit, types[name]
        text, named = f"CAST({value} AS VARCHAR)", value
        column = schema.columns.get(name)
        if isinstance(column, Period):
            typed = kind in DATES
            text = trimmed_sql(column.calendar.spelled_sql(value) if typed else text)
            named = spelled_sql(value)
        elif column is not None and column.numeric:
            text = trimmed_sql(value) if kind == "VARCHAR" else value
        elif unit and kind in WHOLE:
            text = value
        elif kind not in INTEGERS:
            text, named = trimmed_sql(text), spelled_sql(value, unit=unit)
        if not unit:
            named = _without_codes(schema.columns[name], value, named, kind)
        trimmed.append(f"{text} AS {value}")
        cells.append(f"{named} AS {value}")
    # Two steps, so that a text is trimmed once.
    return (
        f"(SELECT {', '.join(cells)} FROM (SELECT {', '.join(trimmed)} FROM {joined_sql(schema)}))"
    )


def _without_codes(column: Column, value: str, named: str, kind: str) -> str:
    """A trimmed cell in its spelling; NULL where it is one of the codes for a missing value."""
    codes = column.missing_codes
    if not codes:
        return named
    if isinstance(column, Text) or not column.numeric:
        conditions = [_among(named if kind not in INTEGERS else f"CAST({value} AS VARCHAR)", codes)]
    else:
        numbers = ", ".join(f"{float(code)!r}::DOUBLE" for code in column.missing_values)
        conditions = [f"{_number(column, named, kind)} IN ({numbers})"] if numbers else []
        if kind == "VARCHAR" or isinstance(column, Period):
            conditions.append(_among(spelled_sql(value), codes))
    return f"CASE WHEN {' OR '.join(conditions) or 'false'} THEN NULL ELSE {named} END"


def _among(value: str, texts: Sequence[str]) -> str:
    return f"{value} IN ({', '.join(map(_text, texts))})"


def _keys(schema: Schema) -> dict[str, Any]:
    """Tables of categories' keys and codes: a text of many keys takes seconds to parse."""
    import pyarrow as pa

    return {
        f"{KEYS}{number}": pa.table(
            {
                KEY: arrow_texts([*column.spelled, *map(spelled, column.recode)]),
                KEY_CODE: arrow_numbers(
                    [*range(len(column.keys)), *map(column.keys.index, column.recode.values())],
                    np.int32,
                ),
            }
        )
        for number, column in enumerate(schema.columns.values())
        if isinstance(column, Category) and not column.numeric
    }


def _types(schema: Schema, part: Part) -> dict[str, str]:
    """The type of each column that is read."""
    described = part.execute(f"DESCRIBE SELECT * FROM {joined_sql(schema)}").fetchall()
    return {name: str(row[1]).upper() for name, row in zip(schema.read, described, strict=True)}


def _check_types(schema: Schema, types: Mapping[str, str]) -> None:
    """Errors: InvalidParameter for a type that is no number where the schema declares numbers.

    Elsewhere for a type that libraries write in several ways, such as times, bytes and lists.
    """
    for name in schema.read:
        kind, column = types[name], schema.columns.get(name)
        accepted: tuple[str, ...] = TEXTS
        declared = "which is spelled in several ways; convert it to dates or texts"
        if isinstance(column, Period):
            accepted = (*DATES, *(NUMBERS if column.every == YEAR else UNTYPED))
            declared = "where the schema declares dates; convert it to dates, or to texts"
        elif column is not None and column.numeric:
            accepted, declared = NUMBERS, "where the schema declares numbers; convert it"
        if kind.partition("(")[0] not in accepted:
            raise InvalidParameter(f"{schema.name}: column {name!r} holds {kind}, {declared}")


def _read(column: Column, name: str, kind: str) -> str:
    """A value, NULL where it is missing."""
    if not column.numeric:
        return name
    value = _number(column, name, kind)
    return f"CASE WHEN isnan({value}) THEN NULL ELSE {value} END"


def _number(column: Column, name: str, kind: str) -> str:
    """A number, NULL where a text is none; DuckDB would read 1_5 as 15, other readers as a text.

    Numbers that are no floats of 64 bits are read by their digits, as they stand in a text.
    """
    if isinstance(column, Period):
        return f"CAST({column.calendar.code_sql(name)} AS DOUBLE)"
    if kind in WHOLE or kind == "DOUBLE":
        return f"CAST({name} AS DOUBLE)"
    text = f"replace(CAST({name} AS VARCHAR), '_', '?')"
    if isinstance(column, Number) and column.decimal == "," and kind == "VARCHAR":
        text = f"translate({text}, ',.', '.?')"
    return f"TRY_CAST({text} AS DOUBLE)"


def _code(column: Column, name: str, kind: str, number: int) -> str:
    value = _read(column, name, kind)
    if isinstance(column, Text):
        return value
    if isinstance(column, Number):
        return _number_code(column, value)
    if column.numeric:
        return _edges_code(column, value)
    code = _of_key(number)
    if column.other in column.keys:
        other = column.keys.index(column.other)
        code = f"CASE WHEN {value} IS NULL THEN NULL ELSE coalesce({code}, {other}) END"
    if column.domain != column.keys:
        code = f"CASE WHEN {value} IS NULL THEN {len(column.keys)} ELSE {code} END"
    return code


def _edges_code(column: Category, value: str) -> str:
    """The place of a number's key among edges."""
    missing = len(column.keys) if column.domain != column.keys else "NULL"
    cases = " ".join(
        f"WHEN {value} < {float(edge)!r}::DOUBLE THEN {place}"
        for place, edge in enumerate(column.edges)
    )
    return f"CASE WHEN {value} IS NULL THEN {missing} {cases} ELSE {len(column.edges)} END"


def _of_key(number: int) -> str:
    """The code of a category's key; NULL where the text is none."""
    return f"{KEYS}{number}.{KEY_CODE}"


def _number_code(column: Number, value: str) -> str:
    """Steps of the grid, within its bounds whatever rounding does."""
    low, high = float(column.lower), float(column.upper)
    inside = f"least(greatest({value}, {low!r}::DOUBLE), {high!r}::DOUBLE)"
    steps = f"CAST(round({inside} / {float(column.step)!r}::DOUBLE) AS BIGINT)"
    kind = "INTEGER" if max(abs(column.low), abs(column.high)) < 2**31 else "BIGINT"
    # least and greatest skip NULL, which must stay NULL.
    return (
        f"CASE WHEN {value} IS NULL THEN NULL ELSE "
        f"CAST(least(greatest({steps}, {column.low}), {column.high}) AS {kind}) END"
    )


@dataclass(frozen=True)
class _Test:
    """A condition on rows, in words and in SQL, and what the schema declares that such a row does.

    ``does``: ``error``, ``drop``, ``nearest``, or the key that the value counts as.  ``column``:
    its name; rows that the schema's conditions on other columns leave out are not tested.
    """

    fact: str
    condition: str
    does: str = ERROR
    column: str = ""

    @property
    def text(self) -> str:
        """The fact, and its consequence unless it is an error."""
        endings = {ERROR: "", DROP: " (left out)", NEAREST: " (counted as the nearest)"}
        return self.fact + endings.get(self.does, f" (counted as {self.does!r})")


def in_rows(fact: str, count: int) -> str:
    """How many rows a fact holds for, in words."""
    return f"{fact} in {count} row{'s' * (count != 1)}"


def _tests(schema: Schema, types: Mapping[str, str]) -> Iterator[_Test]:
    """The rows that the schema declares an error, leaves out, or counts with another value."""
    for number, name in enumerate(schema.read):
        column = schema.columns.get(name)
        if types[name] in ("FLOAT", "DOUBLE") and (column is None or not column.numeric):
            ending = "holds numbers that are spelled in several ways; convert them to texts"
            yield _Test(f"column {name!r} {ending}", f"contains({cell(number)}, 'e')", column=name)
    if schema.unit is not None:
        yield _Test(f"column {schema.unit!r} has no unit", f"{_unit(schema)} IS NULL")
    for number, (name, column) in enumerate(schema.columns.items()):
        for fact, condition, does in _tests_of(column, number, types[name]):
            yield _Test(f"column {name!r} {fact}", f"({condition})", does, name)


def _tests_of(column: Column, number: int, kind: str) -> Iterator[tuple[str, str, str]]:
    """Facts of one column, the condition of each, and what the schema declares that it does."""
    value, empty = _read(column, cell(number), kind), f"{cell(number)} IS NULL"
    if column.numeric:
        read = _number(column, cell(number), kind)
        declared = "dates" if isinstance(column, Period) else "numbers"
        fact = f"holds text where {declared} are declared"
        yield fact, f"NOT ({empty}) AND {read} IS NULL", ERROR
        empty = f"{empty} OR isnan({read})"
    if column.missing != COUNT:
        yield "has no value", empty, column.missing
    if isinstance(column, Number):
        fact = "holds values outside its bounds, or between its steps"
        yield fact, _outside(column, value), column.outside
    if isinstance(column, Category) and not column.numeric:
        unknown = f"({value}) IS NOT NULL AND {_of_key(number)} IS NULL"
        yield "holds a key that is not in the schema", unknown, column.other


def _outside(column: Number, value: str) -> str:
    """Whether a value lies outside its column's bounds, or between its steps."""
    step = f"({value} / {float(column.step)!r}::DOUBLE)"
    off = f"abs({step} - round({step})) > {OFF_GRID} + abs({step}) * {ROUNDING}"
    low, high = float(column.lower), float(column.upper)
    return f"({value} NOT BETWEEN {low!r}::DOUBLE AND {high!r}::DOUBLE OR {off})"


def columns_of(total: Total) -> Iterator[str]:
    """Every column without which a row cannot count."""
    yield from total.needed
    for key in total.by:
        yield key.column if isinstance(key, Bins) else key
    for condition in total.where:
        yield condition.column
    for term in total.terms:
        for column, _, _ in term.factors:
            yield column


def _group(schema: Schema, total: Total, places: Mapping[str, str]) -> str:
    """The place of a row's group among all of them, or its text."""
    sizes = sizes_of(schema, total)
    if sizes is None:
        if len(total.by) != 1:
            raise InvalidParameter(f"{total.name}: keys that are not public are counted alone")
        return places[str(total.by[0])]
    code = "0"
    for number, (key, size) in enumerate(zip(total.by, sizes, strict=True)):
        code = f"({code}) * {size} + ({_key_code(schema, key, places, number)})"
    return f"CAST({code} AS BIGINT)"


def _key_code(schema: Schema, key: str | Bins, places: Mapping[str, str], number: int) -> str:
    if isinstance(key, Bins):
        return f"coalesce({BIN}{number}, 0)"
    column = schema.columns[key]
    return f"{places[key]} - ({column.low})" if isinstance(column, Number) else places[key]


def _edges(total: Total) -> dict[str, Any]:
    """Tables of the edges of bins, to be joined: a text of many edges takes seconds to parse."""
    import pyarrow as pa

    return {
        f"{EDGES}{number}": pa.table(
            {
                f"{EDGE}{number}": arrow_numbers(key.edges, np.int64),
                f"{BIN}{number}": arrow_numbers(range(1, key.cells), np.int64),
            }
        )
        for number, key in enumerate(total.by)
        if isinstance(key, Bins)
    }


def _within(column: Column, place: str, codes: tuple[int, ...]) -> str:
    if isinstance(column, Number):
        return f"{place} BETWEEN {codes[0]} AND {codes[1]}"
    return f"{place} IN ({', '.join(map(str, codes))})"


def _sum(term: Term, places: Mapping[str, str], weight: str) -> str:
    """A term's total; ``weight``: the column that says for how many rows one stands."""
    times = f"{weight}::HUGEINT * " if weight else ""
    if not term.factors:
        return f"sum({weight})" if weight else "count(*)"
    factors = (
        f"(CAST({places[column]} AS BIGINT) * {by} + ({offset}))"
        for column, by, offset in term.factors
    )
    product = " * ".join(factors)
    if term.divisor == 1:
        return f"sum({times}({product}))"
    # Floored division, whatever the sign: // rounds towards zero.
    shifted = f"({product} + {term.divisor // 2})"
    remainder = f"((({shifted} % {term.divisor}) + {term.divisor}) % {term.divisor})"
    return f"sum({times}(({shifted} - {remainder}) // {term.divisor}))"


def rounded(value: int, divisor: int) -> int:
    """The result of a term's division, for bounds."""
    return (value + divisor // 2) // divisor
